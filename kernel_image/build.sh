#!/bin/bash
# Make the root file system that every sandbox starts from.
#
#   build.sh OUTPUT_DIR
#
# Works for root and for an ordinary user with subordinate ids (/etc/subuid, newuidmap).
#   HUSK_ID_BASE        the host id that owns the image when root builds it (default 2000000000)
#   HUSK_DEBIAN_MIRROR  a Debian mirror, if not mmdebstrap's default
# Proxies, CA bundles, pip.conf, PIP_* and netrc of the caller are used as they are: everything that
# comes from the network is fetched outside the image, by the caller's own apt and Python, and the
# image is assembled from it without a network. So none of these settings can stay behind in it.
set -euo pipefail
umask 022 # whatever the caller has: the image is for another user to read

here=$(cd "$(dirname "$0")" && pwd)
usage="usage: build.sh OUTPUT_DIR"
output=${1:?$usage}
output=$(realpath -m "$output")
partial=$output.partial.$$
wheels=$output.wheels.$$
log=$output.log
child=

# ---- reporting -------------------------------------------------------------------------------

say() {
	printf '[image] %4ds %s\n' "$SECONDS" "$*"
}

# Run a command with its output in the log, and show that it lives: its last line every 4 seconds.
step() {
	local text=$1 shown=$SECONDS
	shift
	say "$text"
	printf '\n== %s\n' "$text" >>"$log"
	set -m # its own process group, so that Ctrl-C can end all of it
	"$@" >>"$log" 2>&1 </dev/null &
	child=$!
	set +m
	while kill -0 "$child" 2>/dev/null; do
		sleep 0.2
		if ((SECONDS - shown >= 4)); then
			shown=$SECONDS
			say "  … $(tail -n1 "$log" | tr -cd '[:print:]' | cut -c1-90)"
		fi
	done
	if ! wait "$child"; then
		child=
		{
			echo
			tail -n 25 "$log"
			echo
			echo "[image] failed: $text. The whole log: $log"
			echo "[image] $advice"
		} >&2
		exit 1
	fi
	child=
}

cleanup() {
	local status=$?
	trap - EXIT INT TERM
	if [ -n "$child" ]; then
		kill -TERM -- "-$child" 2>/dev/null || true
		wait "$child" 2>/dev/null || true
	fi
	rm -rf "$wheels" || true
	# Every mount was made in a namespace that is gone now; --one-file-system is the second belt.
	[ ! -e "$partial" ] || as_owner rm -rf --one-file-system "$partial" || true
	exit "$status"
}

# ---- becoming the owner of the image ----------------------------------------------------------

# Root needs none of this. An ordinary user owns subordinate ids, but acts under them only in a user
# namespace. There are two kinds: in the first, id 0 is the first subordinate id, which owns the image.
as_image_root() {
	if [ "$(id -u)" = 0 ]; then "$@"; else mmdebstrap --unshare-helper "$@"; fi
}

# In the second, id 0 is the user, who owns the folder around the image, and may touch the rest too.
as_owner() {
	if [ "$(id -u)" = 0 ]; then "$@"; else unshare --user --map-root-user --map-auto "$@"; fi
}

# Run inside.sh in the image: own mounts, no network, an environment with nothing of the host.
in_image() {
	# shellcheck disable=SC2016  # expanded by the inner shell
	as_image_root unshare --mount --pid --net --fork --kill-child bash -euc '
		root=$1 wheels=$2 source=$3
		mount --make-rprivate /
		mount -t proc proc "$root/proc"
		find "$root/dev" -mindepth 1 -delete
		mount -t tmpfs -o mode=755 dev "$root/dev"
		mkdir "$root/dev/shm"
		for node in null zero full random urandom; do
			touch "$root/dev/$node"
			mount --bind "/dev/$node" "$root/dev/$node"
		done
		mount -t tmpfs build "$root/mnt"
		mkdir "$root/mnt/wheels" "$root/mnt/source"
		mount --bind "$wheels" "$root/mnt/wheels"
		mount --bind "$source" "$root/mnt/source"
		exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 HOME=/mnt \
			chroot "$root" bash /mnt/source/inside.sh "${@:4}"
	' bash "$partial" "$wheels" "$here" "$@"
}

# ---- the steps --------------------------------------------------------------------------------

debian() {
	local packages apt_settings
	packages=$(sed 's/#.*//' "$here/packages.txt" | xargs | tr ' ' ,)
	# apt runs outside the image but reads only the image's configuration: carry over how this host
	# reaches its mirrors. The whole of /etc/apt is removed from the image at the end.
	apt_settings=$wheels/apt.conf
	apt-config dump | grep -E '^Acquire::(https?|ftp|Check-Valid-Until|Retries|ForceIPv)' >"$apt_settings" || true

	# mode unshare is right for root too: same steps, and all mounts in a namespace of their own.
	mmdebstrap --mode=unshare --variant=essential --include="$packages" --format=directory \
		--aptopt="$apt_settings" \
		--dpkgopt='path-exclude=/usr/share/doc/*' \
		--dpkgopt='path-include=/usr/share/doc/*/copyright' \
		--dpkgopt='path-exclude=/usr/share/info/*' \
		--dpkgopt='path-exclude=/usr/share/locale/*' \
		--dpkgopt='path-exclude=/usr/share/man/*' \
		--skip=cleanup/reproducible \
		trixie "$partial" ${HUSK_DEBIAN_MIRROR:+"$HUSK_DEBIAN_MIRROR"}
}

# Run the image's pip with the host's Python: a wheel is a zip file that Python can run from. The
# platform is the image's, whatever the host's is; no dependency is resolved, the list is complete.
download() {
	local arch pip platforms=() minor
	arch=$(uname -m)
	pip=$(echo "$partial"/usr/share/python-wheels/pip-*.whl)
	for ((minor = 41; minor >= 5; minor--)); do # trixie has glibc 2.41
		platforms+=(--platform "manylinux_2_${minor}_$arch")
	done
	platforms+=(--platform "manylinux2014_$arch")
	# Somebody who only uses uv has told uv, not pip, where the packages are.
	local index=${UV_DEFAULT_INDEX:-${UV_INDEX_URL-}}
	if [ -z "${PIP_INDEX_URL-}" ] && [ -n "$index" ]; then
		export PIP_INDEX_URL=$index
	fi
	PIP_REQUIRE_VIRTUALENV=0 PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONDONTWRITEBYTECODE=1 \
		python3 "$pip/pip" download --progress-bar=off --no-deps --only-binary=:all: \
		--python-version 3.13 --implementation cp --abi cp313 --abi abi3 --abi none \
		"${platforms[@]}" --dest "$wheels" -r "$here/requirements.txt" -r "$here/tools.txt"
}

# pip and husk-venv, as the sandbox sees them: static, so that the host's libraries do not matter.
compile() {
	local flags=(-std=gnu17 -D_GNU_SOURCE -I"$here" -I"$here/../include" -Os -fstack-protector-strong -static)
	mkdir "$wheels/programs"
	"${CC:-gcc}" "${flags[@]}" "$here/pip.c" -o "$wheels/programs/pip"
	"${CC:-gcc}" "${flags[@]}" "$here"/venv{,_journal,_text}.c -o "$wheels/programs/husk-venv"
}

# One owner, nothing that grants rights, nothing writable by others but what is meant to be.
settle() {
	local owner=0
	[ "$(id -u)" != 0 ] || owner=${HUSK_ID_BASE:-2000000000}
	# shellcheck disable=SC2016
	as_image_root bash -euc '
		cd "$1"
		find dev proc sys run -mindepth 1 -delete
		mkdir -p run/husk
		find . -xdev \( -type b -o -type c -o -type p -o -type s \) -delete
		chown -hR "$2:$2" .
		find . -xdev ! -type l -perm /6000 -exec chmod ug-s {} +
		find . -xdev ! -type l ! -path "./opt/venv*" -perm -o+w -exec chmod o-w {} +
		chmod 1777 tmp
		# The tree holds a world-writable folder, so keep the users of the host out of it. Sandboxes
		# do not see this mode: the root of an overlay has the mode of its upper folder.
		chmod 0700 .
	' bash "$partial" "$owner"
}

# ---- main -------------------------------------------------------------------------------------

mkdir -p "$(dirname "$output")"
if [ -e "$output" ]; then
	say "$output is already there"
	exit 0
fi
for tool in mmdebstrap unshare python3; do
	if ! command -v "$tool" >/dev/null; then
		echo "[image] $tool is missing: apt install mmdebstrap util-linux python3" >&2
		exit 1
	fi
done

: >"$log"
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
mkdir "$wheels"

base_hash=$("$here/hash.sh" --base)
twin=
for candidate in "$(dirname "$output")"/*/; do
	case $candidate in *.partial.*) continue ;; esac
	# A link such as `default` would be copied as a link, and the new image would be the old one.
	[ ! -L "${candidate%/}" ] || continue
	if as_image_root grep -qsx "$base_hash" "${candidate}opt/husk/base" 2>/dev/null; then
		twin=${candidate%/}
	fi
done

if [ -n "$twin" ]; then
	advice="Is the disk full? Remove $twin to build from scratch."
	step "copying $(basename "$twin"), which has the same packages" \
		as_owner cp -a --reflink=auto "$twin" "$partial"
else
	advice="Can this machine reach a Debian mirror? Set http_proxy or HUSK_DEBIAN_MIRROR if it needs one."
	step "installing Debian packages" debian
	advice="Can this machine reach a Python package index? Set https_proxy or PIP_INDEX_URL if it needs one."
	step "downloading Python packages" download
	advice="This step needs no network; the end of the log names what went wrong. Is the disk full?"
	step "installing Python packages" in_image venv
fi
advice="This step needs a C compiler and static libc: apt install gcc libc6-dev."
step "compiling pip for the sandboxes" compile
advice="This step needs no network; the end of the log names what went wrong."
step "adding the kernel, fonts and settings" in_image finish "$base_hash"
step "setting owners and modes" settle

mv -T "$partial" "$output"
say "done: $output"
