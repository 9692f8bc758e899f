# Husk: every command a person needs. `make help` lists them.

BUILD    ?= build
PREFIX   ?= /usr/local
DESTDIR  ?=
ID_BASE  ?= 2000000000
IMAGES   ?= /var/lib/husk/images
ARGS     ?=
CHAOS_SECONDS ?= 300
SOAK_SECONDS  ?= 3600
NODE     := $(BUILD)/node
PYTHON   ?= /usr/bin/python3
ifeq ($(origin CC),default)
CC := gcc
endif

# As an ordinary user everything that needs root goes through sudo; -E keeps proxy and package index settings.
SUDO := $(if $(filter 0,$(shell id -u)),,sudo -E)

# --- compiler flags -------------------------------------------------------------------------------------------------
WARNINGS := -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wformat=2 -Wvla \
            -Wpointer-arith -Wundef -Wwrite-strings -Wno-missing-field-initializers -Werror
OPTIMISE := -O2 -g -D_FORTIFY_SOURCE=2
HARDEN   := -fstack-protector-strong -fstack-clash-protection -fPIE $(if $(filter x86_64,$(shell uname -m)),-fcf-protection)
LINKING  := -pie -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack
ifdef SAN
# A build of its own: SAN=address,undefined make test
BUILD    := $(BUILD)/san
OPTIMISE := -O1 -g -fno-omit-frame-pointer
HARDEN   := -fPIE -fsanitize=$(SAN) -fno-sanitize-recover=all
LINKING  := -pie -fsanitize=$(SAN)
endif
CFLAGS_ALL = -std=gnu17 -D_GNU_SOURCE -DHUSK_LIBEXEC_DIR='"$(PREFIX)/libexec/husk"' -Iinclude -Isrc -Iclient \
             $(WARNINGS) $(OPTIMISE) $(HARDEN) -MMD -MP $(CFLAGS)

# --- what is made of what -------------------------------------------------------------------------------------------
# Signed links need libsodium, which the programs with privileges do without.
LINKS := src/base/link.c
BASE := $(filter-out $(LINKS),$(wildcard src/base/*.c)) $(wildcard src/loop/*.c)
SOURCES_huskd       := $(wildcard src/huskd/*.c src/mcp/*.c src/http/*.c) $(LINKS) $(BASE)
SOURCES_husk-keeper := $(filter-out src/keeper/anchor_%,$(wildcard src/keeper/*.c)) $(BASE)
SOURCES_husk-anchor := $(wildcard src/keeper/anchor_*.c) src/keeper/cgroup_tree.c src/keeper/descriptor_store.c $(BASE)
SOURCES_husk-fetcher := $(wildcard src/fetcher/*.c) src/keeper/confine.c $(BASE)
SOURCES_husk-shim   := $(wildcard src/shim/*.c src/wire/*.c) src/keeper/confine.c $(LINKS) $(BASE)
SOURCES_husk-porter := $(wildcard src/porter/*.c) src/keeper/confine.c $(BASE)
LIBS_huskd          := -lmicrohttpd -lgnutls -ljansson -lsodium -luuid -linih
LIBS_husk-keeper    := -lseccomp -luuid
LIBS_husk-anchor    := -luuid
LIBS_husk-fetcher   := -ljansson -lsodium -luuid
LIBS_husk-shim      := -lzmq -ljansson -lsodium -luuid
LIBS_husk-porter    := -larchive -luuid
# The client: a library, static and shared, and the command, which links the static one.
SOURCES_libhusk     := $(wildcard client/library/*.c) $(addprefix src/base/,buffer.c clock.c fdio.c loopback.c percent.c text.c)
SOURCES_husk        := $(wildcard client/command/*.c) $(filter-out $(LINKS),$(wildcard src/base/*.c)) $(wildcard src/loop/*.c)
LIBS_libhusk        := -lcurl -ljansson
LIBS_husk           := $(LIBS_libhusk) -larchive -ledit -luuid
SONAME              := libhusk.so.0
VERSION             := $(shell sed -n 's/.*HUSK_VERSION "\(.*\)"/\1/p' include/husk/version.h)
# 0.1.0 is libhusk.so.0.1.0, whose soname is libhusk.so.0.
LIBRARY_FILE        := libhusk.so.$(VERSION)
PROGRAMS  := huskd husk-keeper husk-anchor husk-shim husk-porter husk-fetcher
# The service with what the conformance suite of MCP calls, for the tests only.
CONFORMANCE := tests/conformance/catalog.c $(filter-out src/mcp/catalog.c,$(SOURCES_huskd))
UNIT      := $(patsubst tests/unit/%.c,$(BUILD)/unit/%,$(wildcard tests/unit/test_*.c))
# Fuzz targets, with what runs their corpora in `make test`.
REPLAYS   := $(patsubst tests/fuzz/%.c,$(BUILD)/replay/%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZERS   := $(patsubst tests/fuzz/%.c,$(BUILD)/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_SECONDS ?= 60
# Everything but the programs' main functions: what a unit test may link.
TESTABLE  := $(filter-out %/main.c %_main.c,$(sort $(foreach name,$(PROGRAMS) libhusk,$(SOURCES_$(name)))))
objects    = $(patsubst %.c,$(BUILD)/objects/%.o,$(1))
SCRIPTS   := $(wildcard kernel_image/*.sh tests/*.sh tests/*/*.sh) client/completion/husk.bash .ci/run

# --- Debian packages ------------------------------------------------------------------------------------------------
PACKAGES_BUILD := gcc libc6-dev pkg-config libzmq3-dev libsodium-dev libjansson-dev libmicrohttpd-dev libgnutls28-dev uuid-dev \
                  libseccomp-dev libinih-dev libarchive-dev libcurl4-openssl-dev libedit-dev uidmap
PACKAGES_IMAGE := mmdebstrap debian-archive-keyring ca-certificates mount python3 gcc libc6-dev
PACKAGES_TEST  := libcmocka-dev python3 python3-venv procps passwd valgrind binutils mandoc zsh curl openssl
PACKAGES_FUZZ  := clang libclang-rt-dev
PACKAGES_VM    := qemu-system-x86 qemu-utils mmdebstrap e2fsprogs git ca-certificates
PACKAGES_LINT  := git clang-format cppcheck shellcheck

# List what is missing, then install it.
define install
@missing=$$(for package in $(1); do \
    dpkg-query -W -f='$${Status}' $$package 2>/dev/null | grep -q 'ok installed' || echo $$package; done); \
if [ -n "$$missing" ]; then \
    echo "These Debian packages are missing and will be installed:" $$missing; \
    command -v apt-get >/dev/null || { echo "This is not Debian: install their equivalents by hand." >&2; exit 1; }; \
    $(SUDO) apt-get update -qq && \
    $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null; \
fi
endef

.DEFAULT_GOAL := help
.PHONY: help run build image test test-vm fuzz chaos soak bench lint install install-library clean clean-images \
        packages-build packages-image packages-test packages-lint packages-fuzz packages-vm

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 22

run: build image ## install what is missing, build, start huskd in the foreground (ARGS="--listen …"); Ctrl-C stops it
	@exec $(SUDO) $(BUILD)/huskd --image $(IMAGES)/default --id-base $(ID_BASE) --stop-sandboxes $(ARGS)

build: packages-build ## compile everything into build/
	@$(MAKE) --no-print-directory -j$$(nproc) $(PROGRAMS:%=$(BUILD)/%) $(BUILD)/husk-init $(BUILD)/husk-zygote.so \
	    $(BUILD)/husk $(BUILD)/$(SONAME) $(BUILD)/libhusk.a

packages-build packages-image packages-test packages-lint packages-fuzz packages-vm: packages-%:
	$(call install,$(PACKAGES_$(shell echo $* | tr a-z A-Z)))

$(BUILD)/objects/%.o: %.c
	@mkdir -p $(@D)
	@echo "  compile $<"
	@$(CC) $(CFLAGS_ALL) -c $< -o $@

define program
$(BUILD)/$(1): $(call objects,$(SOURCES_$(1)))
	@echo "  link    $$@"
	@$(CC) $(LINKING) $(LDFLAGS) $$^ $(LIBS_$(1)) -o $$@
endef
$(foreach name,$(PROGRAMS),$(eval $(call program,$(name))))

$(BUILD)/huskd-conformance: $(call objects,$(CONFORMANCE))
	@echo "  link    $@"
	@$(CC) $(LINKING) $(LDFLAGS) $^ $(LIBS_huskd) -o $@

# --- the client -----------------------------------------------------------------------------------------------------
# Only what husk.h declares is visible; what the library takes from src/base is compiled for it, and hidden.
$(BUILD)/library/%.o: %.c
	@mkdir -p $(@D)
	@echo "  compile $< (library)"
	@$(CC) $(filter-out -fPIE,$(CFLAGS_ALL)) -fPIC -fvisibility=hidden -c $< -o $@

# Programs without sanitizers must be able to load the shared one (the tests' Python does), so it never has any.
$(BUILD)/shared/%.o: %.c
	@mkdir -p $(@D)
	@echo "  compile $< (library)"
	@$(CC) $(filter-out -fPIE -fsanitize=% -fno-sanitize-recover=%,$(CFLAGS_ALL)) -fPIC -fvisibility=hidden -c $< -o $@

LIBRARY := $(patsubst %.c,$(BUILD)/library/%.o,$(SOURCES_libhusk))
SHARED  := $(if $(SAN),$(LIBRARY:$(BUILD)/library/%=$(BUILD)/shared/%),$(LIBRARY))
$(BUILD)/$(SONAME): $(SHARED)
	@echo "  shared  $@"
	@$(CC) $(filter-out -pie -fsanitize=%,$(LINKING)) $(LDFLAGS) -shared -Wl,-soname,$(SONAME) -Wl,-z,defs $^ $(LIBS_libhusk) -o $@
	@ln -sfn $(SONAME) $(BUILD)/libhusk.so

# One object in which all names but those of husk.h are local, so that a program that links it may use them itself.
$(BUILD)/libhusk.a: $(LIBRARY)
	@echo "  static  $@"
	@ld -r $^ -o $(BUILD)/libhusk.o && objcopy --localize-hidden $(BUILD)/libhusk.o && rm -f $@ && ar rcs $@ $(BUILD)/libhusk.o

# Programs that use the library as anybody would: the examples, and what the tests call it by.
CLIENTS := $(patsubst client/examples/%.c,$(BUILD)/clients/%,$(wildcard client/examples/*.c)) \
           $(patsubst tests/client/%.c,$(BUILD)/clients/%,$(wildcard tests/client/*.c))
define client
	@mkdir -p $(@D)
	@echo "  client  $<"
	@$(CC) -std=gnu17 -Iinclude $(WARNINGS) $(OPTIMISE) $(HARDEN) -MMD -MP $(CFLAGS) $(LINKING) $(LDFLAGS) $< $(BUILD)/libhusk.a $(LIBS_libhusk) -o $@
endef
$(BUILD)/clients/%: client/examples/%.c $(BUILD)/libhusk.a
	$(client)
$(BUILD)/clients/%: tests/client/%.c $(BUILD)/libhusk.a
	$(client)
$(BUILD)/clients/chaos: LDFLAGS += -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=strdup

$(BUILD)/husk: $(call objects,$(SOURCES_husk)) $(BUILD)/libhusk.a
	@echo "  link    $@"
	@$(CC) $(LINKING) $(LDFLAGS) $^ $(LIBS_husk) -o $@

# Static and without sanitizers: it runs inside the container, where no library of the host exists.
$(BUILD)/husk-init: kernel_image/init.c include/husk/init_protocol.h include/husk/limits.h
	@mkdir -p $(@D)
	@echo "  static  $@"
	@$(CC) -std=gnu17 -D_GNU_SOURCE -Iinclude $(WARNINGS) -Os -fstack-protector-strong -static $< -o $@

# Loaded by the interpreter of the image, without sanitizers. The symbols of Python are the interpreter's.
ZYGOTE := $(wildcard kernel_image/zygote*.c) src/keeper/confine.c $(filter-out src/base/link.c src/base/id.c,$(wildcard src/base/*.c))
$(BUILD)/husk-zygote.so: $(ZYGOTE) $(wildcard kernel_image/*.h include/husk/*.h src/base/*.h)
	@mkdir -p $(@D)
	@echo "  shared  $@"
	@$(CC) -std=gnu17 -D_GNU_SOURCE -Iinclude -Isrc $(WARNINGS) -O2 -fstack-protector-strong -fPIC -fvisibility=hidden \
	    -shared -Wl,-z,relro -Wl,-z,now $(ZYGOTE) -o $@

-include $(shell find $(BUILD)/objects $(BUILD)/library $(BUILD)/shared $(BUILD)/clients $(BUILD)/unit $(BUILD)/fuzz/objects -name '*.d' 2>/dev/null)

image: packages-image ## build the kernel image once (cached under a hash of its inputs)
	@hash=$$($(SUDO) env HUSK_ID_BASE=$(ID_BASE) kernel_image/hash.sh) && \
	if [ ! -d $(IMAGES)/$$hash ]; then \
	    $(SUDO) mkdir -p $(IMAGES) && $(SUDO) env HUSK_ID_BASE=$(ID_BASE) kernel_image/build.sh $(IMAGES)/$$hash || exit 1; \
	fi && \
	if [ "$$(readlink $(IMAGES)/default)" != $$hash ]; then $(SUDO) ln -sfn $$hash $(IMAGES)/default; fi

# --- tests ----------------------------------------------------------------------------------------------------------
# Only unit tests link these.
.SECONDARY: $(call objects,$(SOURCES_libhusk))
$(BUILD)/unit/%: tests/unit/%.c $(call objects,$(TESTABLE))
	@mkdir -p $(@D)
	@echo "  test    $<"
	@$(CC) $(CFLAGS_ALL) $(LINKING) $< $(call objects,$(TESTABLE)) \
	    -lcmocka $(LIBS_test) -o $@

LIBS_test := $(sort $(LIBS_huskd) $(LIBS_husk-keeper) $(LIBS_husk-shim) $(LIBS_husk-porter) $(LIBS_libhusk))
FUZZED = $(TESTABLE)
$(BUILD)/replay/%: tests/fuzz/%.c tests/fuzz/replay.c tests/fuzz/fuzz.h $(call objects,$(TESTABLE))
	@mkdir -p $(@D)
	@echo "  test    $<"
	@$(CC) $(filter-out -MMD -MP,$(CFLAGS_ALL)) -Wno-missing-prototypes $(LINKING) -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=must_alloc \
	    $< tests/fuzz/replay.c $(call objects,$(FUZZED)) $(LIBS_test) -o $@

FUZZ_FLAGS := -std=gnu17 -D_GNU_SOURCE -DHUSK_LIBEXEC_DIR='""' -Iinclude -Isrc -Iclient -O1 -g -fno-omit-frame-pointer \
              -fsanitize=address,undefined -fno-sanitize-recover=all
$(BUILD)/fuzz/objects/%.o: %.c
	@mkdir -p $(@D)
	@echo "  compile $< (fuzzing)"
	@clang $(FUZZ_FLAGS) -fsanitize=fuzzer-no-link -MMD -MP -c $< -o $@

$(BUILD)/fuzz/fuzz_%: tests/fuzz/fuzz_%.c tests/fuzz/fuzz.h $(patsubst %.c,$(BUILD)/fuzz/objects/%.o,$(TESTABLE))
	@echo "  fuzzer  $@"
	@clang $(FUZZ_FLAGS) -fsanitize=fuzzer $< $(patsubst %.c,$(BUILD)/fuzz/objects/%.o,$(FUZZED)) $(LIBS_test) -o $@

fuzz: packages-build packages-fuzz ## look for inputs that break a parser, FUZZ_SECONDS=60 for each of them (corpora: tests/fuzz/corpus)
	@$(MAKE) --no-print-directory -j$$(nproc) $(FUZZERS)
	@tests/fuzz/run.sh $(FUZZ_SECONDS) $(FUZZERS)

# Those of the client link the client: the service may have the same names. Its fuzz target is the network itself.
CLIENT_TESTABLE := $(filter-out %/main.c,$(SOURCES_husk))
CLIENT_FUZZED   := $(sort $(filter-out %/transfer.c,$(SOURCES_libhusk)) $(addprefix client/command/,base64.c defuse.c mcp_events.c mcp_message.c) \
                     $(filter-out $(LINKS),$(wildcard src/base/*.c)))
$(BUILD)/replay/fuzz_client $(BUILD)/fuzz/fuzz_client: FUZZED = $(CLIENT_FUZZED)
$(BUILD)/replay/fuzz_client: $(call objects,$(CLIENT_FUZZED))
$(BUILD)/fuzz/fuzz_client: $(patsubst %.c,$(BUILD)/fuzz/objects/%.o,$(CLIENT_FUZZED))
$(BUILD)/unit/test_client_%: tests/unit/test_client_%.c $(call objects,$(CLIENT_TESTABLE)) $(BUILD)/libhusk.a
	@mkdir -p $(@D)
	@echo "  test    $<"
	@$(CC) $(CFLAGS_ALL) $(LINKING) $< $(call objects,$(CLIENT_TESTABLE)) $(BUILD)/libhusk.a -lcmocka $(LIBS_husk) -o $@

$(BUILD)/venv/.ready: tests/requirements.txt
	@echo "  python  environment of the tests"
	@$(PYTHON) -m venv $(BUILD)/venv && $(BUILD)/venv/bin/pip install -q -r tests/requirements.txt && touch $@

# MCP's clients and its conformance suite, by the npm that comes with the environment above.
$(NODE)/.ready: tests/node/package.json tests/node/package-lock.json $(BUILD)/venv/.ready
	@echo "  node    MCP clients of the tests"
	@mkdir -p $(@D) && cp tests/node/package.json tests/node/package-lock.json $(@D) && \
	PATH="$(abspath $(BUILD)/venv/bin):$$PATH" npm --prefix $(@D) ci --ignore-scripts --no-audit --no-fund --loglevel=error && touch $@

test: packages-build packages-test build image ## unit and integration tests; SAN=address,undefined make test for sanitizers
	@$(MAKE) --no-print-directory -j$$(nproc) $(UNIT) $(REPLAYS) $(BUILD)/venv/.ready $(NODE)/.ready $(BUILD)/huskd-conformance $(CLIENTS)
	@$(SUDO) env HUSK_BUILD=$(BUILD) HUSK_TEST_IMAGE=$(IMAGES)/default tests/run.sh "$(UNIT) $(REPLAYS)" $(ARGS)

$(BUILD)/venv/.bench-ready: $(BUILD)/venv/.ready tests/bench/requirements.txt
	@echo "  python  environment of the benchmarks"
	@$(BUILD)/venv/bin/pip install -q -r tests/bench/requirements.txt && touch $@

bench: packages-build packages-test build image ## how fast and small it is, next to others in the same run (ARGS="--full --only creation --json FILE --save")
	@$(MAKE) --no-print-directory $(BUILD)/venv/.bench-ready
	@$(SUDO) env HUSK_BUILD=$(BUILD) HUSK_TEST_IMAGE=$(IMAGES)/default $(BUILD)/venv/bin/python -B tests/bench/run.py $(ARGS)

chaos: packages-build packages-test build image ## kill parts of the service at random for minutes while answers are checked (CHAOS_SECONDS=300)
	@$(MAKE) --no-print-directory $(BUILD)/venv/.ready
	@$(SUDO) env HUSK_BUILD=$(BUILD) HUSK_TEST_IMAGE=$(IMAGES)/default HUSK_CHAOS_SECONDS=$(CHAOS_SECONDS) \
	    $(BUILD)/venv/bin/python -B -m pytest -q -s tests/integration/test_chaos.py $(ARGS)

soak: packages-build packages-test build image ## use the service for an hour and see that nothing has grown (SOAK_SECONDS=3600)
	@$(MAKE) --no-print-directory $(BUILD)/venv/.ready
	@$(SUDO) env HUSK_BUILD=$(BUILD) HUSK_TEST_IMAGE=$(IMAGES)/default HUSK_SOAK_SECONDS=$(SOAK_SECONDS) \
	    $(BUILD)/venv/bin/python -B -m pytest -q -s tests/integration/test_soak.py $(ARGS)
test-vm: packages-vm ## the core of the tests in a virtual machine with cgroup v2 and systemd, as root and as a user (ARGS="user"); an hour or more
	@$(SUDO) tests/vm/run.sh $(BUILD)/vm $(ARGS)

lint: packages-build packages-lint ## formatting, static analysis, shell scripts, include layers, sizes
	@tests/lint.sh $(SCRIPTS)

# --- installing -----------------------------------------------------------------------------------------------------
install: build install-library ## install below PREFIX (/usr/local), with DESTDIR for packagers; the image is made by make image
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/libexec/husk \
	    $(DESTDIR)$(PREFIX)/lib/systemd/system $(DESTDIR)$(PREFIX)/share/doc/husk $(DESTDIR)/etc/husk
	install -m 755 $(BUILD)/huskd $(DESTDIR)$(PREFIX)/bin/huskd
	install -m 755 $(addprefix $(BUILD)/,husk-anchor husk-keeper husk-shim husk-porter husk-fetcher husk-init husk-zygote.so) $(DESTDIR)$(PREFIX)/libexec/husk/
	install -m 644 README.md README.zh-CN.md $(DESTDIR)$(PREFIX)/share/doc/husk/
	sed 's|@PREFIX@|$(PREFIX)|' src/huskd/husk.service > $(DESTDIR)$(PREFIX)/lib/systemd/system/husk.service
	install -d $(foreach section,1 3 5 8,$(DESTDIR)$(PREFIX)/share/man/man$(section)) \
	    $(DESTDIR)$(PREFIX)/share/bash-completion/completions $(DESTDIR)$(PREFIX)/share/zsh/site-functions
	install -m 755 $(BUILD)/husk $(DESTDIR)$(PREFIX)/bin/husk
	$(foreach page,$(wildcard client/man/*),install -m 644 $(page) $(DESTDIR)$(PREFIX)/share/man/man$(subst .,,$(suffix $(page)))/ &&) true
	install -m 644 client/completion/husk.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/husk
	install -m 644 client/completion/_husk $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_husk
	[ -e $(DESTDIR)/etc/husk/husk.conf ] || install -m 640 src/huskd/husk.conf $(DESTDIR)/etc/husk/husk.conf
	@echo "Next: make image, then systemctl daemon-reload && systemctl enable --now husk"

install-library: $(BUILD)/$(SONAME) $(BUILD)/libhusk.a ## only what C programs need: header, library, pkg-config file
	install -d $(DESTDIR)$(PREFIX)/include $(DESTDIR)$(PREFIX)/lib/pkgconfig
	install -m 644 include/husk.h $(DESTDIR)$(PREFIX)/include/husk.h
	install -m 644 $(BUILD)/libhusk.a $(DESTDIR)$(PREFIX)/lib/libhusk.a
	install -m 755 $(BUILD)/$(SONAME) $(DESTDIR)$(PREFIX)/lib/$(LIBRARY_FILE)
	ln -sfn $(LIBRARY_FILE) $(DESTDIR)$(PREFIX)/lib/$(SONAME)
	ln -sfn $(SONAME) $(DESTDIR)$(PREFIX)/lib/libhusk.so
	sed 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(VERSION)|' client/library/husk.pc.in > $(DESTDIR)$(PREFIX)/lib/pkgconfig/husk.pc

clean: ## remove build/
	rm -rf build

clean-images: ## remove the kernel images
	$(SUDO) rm -rf $(IMAGES)
