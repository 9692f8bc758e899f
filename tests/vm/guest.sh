#!/usr/bin/env bash
# Runs inside the virtual machine, as root: what run.sh says it does. Lines that begin with "VM: " are for whoever waits outside.
set -uo pipefail
say() { echo "VM: $(cut -d. -f1 /proc/uptime)s $*"; }
phases=$(cat /run/input/phases)
status=0
export DEBIAN_FRONTEND=noninteractive HOME=/root SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt
# Whoever inspects TLS where this runs has certificates that only that machine knows.
cp /run/input/ca-certificates.crt "$SSL_CERT_FILE"
export PIP_CERT=$SSL_CERT_FILE REQUESTS_CA_BUNDLE=$SSL_CERT_FILE NODE_EXTRA_CA_CERTS=$SSL_CERT_FILE

core=(test_{execute,outputs,lifecycle,command,resources,isolation,upload,files,pool,zygote,survival}.py)

# The last line of pytest is the result of a phase.
judge() { # name, log, status
    say "$1: $(grep -aE '[0-9]+ (passed|failed)' "$2" | tail -n 1)"
    [ "$3" = 0 ] || { status=1; grep -aE '^(FAILED|ERROR) ' "$2" | head -n 40 | sed 's/^/VM:   /'; }
}

clone() { git -c advice.detachedHead=false -c init.defaultBranch=main clone -q /run/input/husk.bundle "$1" && git -C "$1" log -1 --format='VM: commit %h of %cs'; }
prepare() { make build/venv/.ready >/tmp/venv.log 2>&1 || { tail -n 30 /tmp/venv.log; say "no Python environment"; status=1; }; }

say "up: $(uname -r), cgroups: $(stat -fc %T /sys/fs/cgroup) with $(cat /sys/fs/cgroup/cgroup.controllers)"
apt-get update -qq && apt-get install -y -qq --no-install-recommends curl python3-venv >/dev/null

if [[ " $phases " == *" root "* ]]; then
    clone /root/husk && cd /root/husk || exit 1
    say "make run, as the README says"
    make run >/tmp/run.log 2>&1 &
    until curl -sf localhost:8000/health >/tmp/health; do
        ((SECONDS % 60 > 1)) || say "  … $(tail -n 1 /tmp/run.log)"
        kill -0 $! 2>/dev/null || { tail -n 40 /tmp/run.log; say "make run has ended"; break; }
        sleep 2
    done
    say "healthy: $(cat /tmp/health)"
    say "first call: $(curl -s localhost:8000/mcp/tools/execute_python_code -d '{"code": "6 * 7"}' -H 'Content-Type: application/json' | head -c 300)"
    # The clock jumps, forwards and back: what lives goes on living, and ends when its time is over.
    curl -s -X POST localhost:8000/sandbox/create -H 'Content-Type: application/json' -d '{"name": "clock", "ttl_seconds": 1800}' >/dev/null
    for jump in '+2 hours' '-5 hours' '+3 hours'; do
        date -s "$jump" >/dev/null
        curl -sf localhost:8000/sandbox/clock/execute -d '6 * 7' | grep -q '"42"' || { say "the clock jumped by $jump, and the sandbox is gone"; status=1; }
    done
    say "clock jumps: done"
    kill -TERM "$(cat /run/husk/lock)" # huskd; a script's background job ignores SIGINT
    wait
    say "ended: $(cat /proc/[0-9]*/comm 2>/dev/null | grep -c "^husk") processes, $(find /sys/fs/cgroup -name '*husk*' | wc -l) cgroups, $(grep -c husk /proc/mounts) mounts are left"
    prepare
    (cd tests/integration && ../../build/venv/bin/python -B -m pytest -q -p no:cacheprovider "${core[@]}") >/tmp/root.log 2>&1
    result=$?
    tail -n 400 /tmp/root.log
    judge "root" /tmp/root.log $result
fi

if [[ " $phases " == *" user "* ]]; then
    # An ordinary user, with what adduser gives to everybody, and limits by systemd.
    useradd --create-home --shell /bin/bash ada
    say "ada: $(grep ada /etc/subuid)"
    mkdir -p /etc/systemd/system/user@.service.d
    printf '[Service]\nDelegate=cpu cpuset io memory pids\n' >/etc/systemd/system/user@.service.d/delegate.conf
    systemctl daemon-reload
    loginctl enable-linger ada
    [ -d /root/husk ] || { clone /tmp/packages && make -C /tmp/packages packages-build packages-image packages-test >/dev/null; }
    cp /run/input/husk.bundle /home/ada && chmod 644 /home/ada/husk.bundle
    uid=$(id -u ada)
    cat >/tmp/as_ada.sh <<'INNER'
set -uo pipefail
cd ~ && git clone -q husk.bundle husk && cd husk || exit 1
make build >/dev/null && kernel_image/build.sh ~/image >~/image.out 2>&1 || { tail -n 20 ~/image.out; exit 1; }
make build/venv/.ready >/dev/null
export HUSK_TEST_IMAGE=$HOME/image HUSK_TEST_FOLDER=$XDG_RUNTIME_DIR HUSK_TEST_LAUNCHER="systemd-run --user --scope --quiet --collect -p Delegate=yes --"
cd tests/integration && ../../build/venv/bin/python -B -m pytest -q -p no:cacheprovider $CORE
INNER
    chmod 644 /tmp/as_ada.sh
    say "as ada: build, image, tests"
    user_core="test_execute.py test_outputs.py test_command.py test_resources.py test_upload.py test_files.py test_pool.py"
    until [ -S "/run/user/$uid/bus" ]; do sleep 1; done
    runuser -u ada -- env HOME=/home/ada XDG_RUNTIME_DIR="/run/user/$uid" DBUS_SESSION_BUS_ADDRESS="unix:path=/run/user/$uid/bus" \
        CORE="$user_core" bash /tmp/as_ada.sh >/tmp/user.log 2>&1
    result=$?
    tail -n 400 /tmp/user.log
    judge "user" /tmp/user.log $result
fi
[ $status = 0 ] && echo "VM: all good"
exit $status
