#!/usr/bin/env bash
# `make test-vm`: the machines users have. Boots a Debian trixie (pure cgroup v2, systemd) in qemu, by software emulation where there
# is no KVM, clones this tree's HEAD there, installs Husk by the README's command and runs the core of the integration tests
# twice: as root, and as an ordinary user with subordinate ids and a delegated cgroup (guest.sh). An hour or more.
#
#   run.sh WORK_DIR [root|user]…     default: both. The log is WORK_DIR/log; the last lines say what passed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=${1:?usage: run.sh WORK_DIR [root|user]…}
shift
mkdir -p "$work"
work=$(cd "$work" && pwd)
say() { printf '[vm] %5ds %s\n' "$SECONDS" "$*"; }

# The disk of an installed Debian, made once; each run starts from it and leaves it as it was.
base=$work/debian
if [ ! -e "$base/disk" ]; then
    say "a Debian trixie with systemd and a kernel (once)"
    rm -rf "$base" && mkdir -p "$base/root"
    mmdebstrap --quiet --variant=minbase trixie "$base/root" \
        --include=systemd,systemd-sysv,dbus,dbus-user-session,libpam-systemd,linux-image-cloud-amd64,sudo,make,git,ca-certificates,passwd
    cp "$base"/root/boot/vmlinuz-* "$base/kernel"
    cp "$base"/root/boot/initrd.img-* "$base/initrd"
    printf '[Match]\nName=en*\n[Network]\nDHCP=yes\n' >"$base/root/etc/systemd/network/all.network"
    rm -f "$base/root/etc/resolv.conf"
    echo 'nameserver 10.0.2.3' >"$base/root/etc/resolv.conf"
    echo husk-vm >"$base/root/etc/hostname"
    ln -s /dev/null "$base/root/etc/systemd/system/serial-getty@ttyS0.service" # its hang-up would end what the guest says
    cp "$here/guest.service" "$base/root/etc/systemd/system/"
    ln -s ../guest.service "$base/root/etc/systemd/system/multi-user.target.wants/guest.service"
    ln -s /lib/systemd/system/systemd-networkd.service "$base/root/etc/systemd/system/multi-user.target.wants/"
    mke2fs -q -t ext4 -d "$base/root" "$base/disk.partial" 24G >/dev/null
    rm -rf "$base/root"
    mv "$base/disk.partial" "$base/disk"
fi

# What the guest is given is a second disk that holds a tar: the tree, what to do, and the certificates that this machine trusts.
top=$(git -C "$here" rev-parse --show-toplevel)
git -C "$top" bundle create -q "$work/husk.bundle" HEAD
cp "$here/guest.sh" /etc/ssl/certs/ca-certificates.crt "$work"
echo "${*:-root user}" >"$work/phases"
tar -C "$work" -cf "$work/input" husk.bundle guest.sh ca-certificates.crt phases
truncate -s %1M "$work/input"
qemu-img create -q -f qcow2 -F raw -b "$base/disk" "$work/overlay"

# /dev/kvm may be there and not work: a guest that says nothing would be hard to tell from a slow one.
accelerator=${HUSK_VM_ACCEL:-tcg,thread=multi}
say "booting ($accelerator); everything it says is in $work/log"
qemu-system-x86_64 -accel "$accelerator" -cpu max -smp 2 -m "${HUSK_VM_MEMORY:-6G}" -nographic -no-reboot \
    -kernel "$base/kernel" -initrd "$base/initrd" -append "console=ttyS0 root=/dev/vda rw quiet" \
    -drive "file=$work/overlay,format=qcow2,if=virtio,cache=unsafe" -drive "file=$work/input,format=raw,if=virtio,readonly=on" \
    -nic user,model=virtio-net-pci </dev/null 2>&1 | sed -u 's|\r||g' | tee "$work/log" | grep --line-buffered '^VM: ' || true
rm -f "$work/overlay" "$work/input"
grep -q '^VM: all good$' "$work/log" || { say "not all good: see $work/log"; exit 1; }
