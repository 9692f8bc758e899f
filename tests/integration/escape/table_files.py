"""Files that lead to the host: /proc, /sys, devices, cgroups, the image, ways up and out."""

from probe import Look

ABSENT = ("ENOENT",)
# Not there, hidden behind an empty file, or not to be opened: which of these depends on the host's kernel.
NOTHING = ("ENOENT", "b''", "EACCES", "EPERM")
UNWRITABLE = ("ENOENT", "EACCES", "EROFS", "EPERM")

SETTINGS = (
    "kernel/core_pattern", "kernel/core_uses_pid", "kernel/modprobe", "kernel/hotplug", "kernel/hostname", "kernel/domainname",
    "kernel/sysrq", "kernel/panic", "kernel/poweroff_cmd", "kernel/randomize_va_space", "kernel/yama/ptrace_scope",
    "kernel/perf_event_paranoid", "kernel/unprivileged_bpf_disabled", "kernel/dmesg_restrict", "kernel/kptr_restrict",
    "kernel/ns_last_pid", "kernel/shmmax", "kernel/msgmax", "kernel/sem", "kernel/usermodehelper/bset", "kernel/threads-max",
    "kernel/cad_pid", "vm/drop_caches", "vm/overcommit_memory", "vm/panic_on_oom", "vm/compact_memory", "fs/suid_dumpable",
    "fs/protected_symlinks", "fs/protected_hardlinks", "fs/file-max", "fs/binfmt_misc/register", "net/ipv4/ip_forward",
    "net/ipv4/ping_group_range", "net/core/somaxconn", "net/core/bpf_jit_enable", "user/max_user_namespaces",
    "user/max_inotify_instances",
)  # fmt: skip
OF_THE_HOST = (
    "kcore", "keys", "key-users", "kmsg", "kallsyms", "timer_list", "sched_debug", "latency_stats", "config.gz", "slabinfo",
    "vmallocinfo", "iomem", "ioports", "modules", "cmdline", "interrupts", "softirqs", "diskstats", "partitions", "buddyinfo",
    "pagetypeinfo", "kpagecount", "kpageflags", "kpagecgroup", "mtrr", "swaps", "zoneinfo", "locks", "consoles", "vmcore",
    "acpi/event", "scsi/scsi", "driver/rtc", "asound/cards", "pressure/memory", "tty/driver/serial",
)  # fmt: skip

proc = [
    *(Look(f"write {name}", f"write('/proc/sys/{name}')", UNWRITABLE) for name in SETTINGS),
    *(Look(f"read {name}", f"read('/proc/{name}')", NOTHING) for name in OF_THE_HOST),
    Look("sysrq-trigger", "write('/proc/sysrq-trigger', b'h')", UNWRITABLE),
    Look("bring back what is hidden", "os.rename('/proc/keys', '/tmp/keys')", ("EXDEV", "EPERM", "EACCES", "EROFS", "EBUSY")),
    Look("irq affinity", "write('/proc/irq/default_smp_affinity')", UNWRITABLE),
    Look("PCI configuration", "os.listdir('/proc/bus/pci')", ABSENT),
    Look("paths of the host in mounts",
         "[line for line in open('/proc/self/mountinfo') if '/state/' in line or '/images/' in line or 'upperdir=/run' in line]", "[]"),
    Look("paths of the host in mountstats", "[line for line in open('/proc/self/mountstats') if '/state/' in line]", "[]"),
    Look("cgroup names", "sorted({line.split(':', 2)[2].strip() for line in open('/proc/self/cgroup')})", "['/']"),
    Look("own id map", "write('/proc/self/uid_map', b'0 0 1')", "EPERM"),
    Look("own group map", "write('/proc/self/gid_map', b'0 0 1')", "EPERM"),
    Look("setgroups", "write('/proc/self/setgroups', b'allow')", ("EPERM", "EACCES")),
    Look("login id", "write('/proc/self/loginuid', b'0')", ("EPERM", "EINVAL", "ENOENT", "EACCES")),
    Look("out-of-memory score", "write('/proc/self/oom_score_adj', b'-1000')", "EACCES"),
    Look("out-of-memory score, the old way", "write('/proc/self/oom_adj', b'-17')", "EACCES"),
    Look("time of the namespace", "write('/proc/self/timens_offsets', b'1 1000 0')", UNWRITABLE),
    Look("physical addresses", "any(read('/proc/self/pagemap', 4096)[i + j] for i in range(0, 4096, 8) for j in range(6))", "False"),
    Look("own kernel stack", "read('/proc/self/stack')", ("EACCES", "ENOENT", "EPERM")),
]  # fmt: skip

init = [
    *(Look(f"{name} of init", f"read('/proc/1/{name}')", ("EACCES", "EPERM"))
      for name in ("mem", "maps", "environ", "auxv", "stack", "syscall", "pagemap", "io", "personality", "smaps", "mountstats", "timers")),
    *(Look(f"folder {name} of init", f"os.listdir('/proc/1/{name}')", ("EACCES", "EPERM"))
      for name in ("fd", "fdinfo", "map_files", "ns", "root", "cwd", "task/1/fd", "task/1/ns")),
    *(Look(f"link {name} of init", f"os.readlink('/proc/1/{name}')", ("EACCES", "EPERM")) for name in ("exe", "root", "cwd", "fd/3", "ns/mnt")),
    *(Look(f"write {name} of init", f"write('/proc/1/{name}')", ("EACCES", "EPERM"))
      for name in ("mem", "clear_refs", "oom_score_adj", "uid_map", "comm", "coredump_filter", "autogroup", "timens_offsets")),
    Look("replace init", "write('/proc/1/exe', b'x')", ("EACCES", "EPERM")),
    Look("the host through init", "read('/proc/1/root/etc/shadow')", ("EACCES", "EPERM")),
    Look("the host through init's threads", "read('/proc/1/task/1/root/etc/shadow')", ("EACCES", "EPERM")),
    *(Look(f"namespace ioctl {request:x} of {kind}", f"control('/proc/self/ns/{kind}', {request})", ("EPERM", "EINVAL", "ENOTTY"))
      for kind in ("mnt", "pid", "net", "user", "cgroup") for request in (0xB701, 0xB702, 0x8010B70B, 0x8010B70C)),
    *(Look(f"pidfd ioctl {request:x} of init", f"process(1, {request})", ("EACCES", "EPERM", "ENOTTY", "EINVAL", "EOPNOTSUPP"))
      for request in range(0xFF01, 0xFF0B)),
]  # fmt: skip

devices = [
    *(Look(f"/dev/{name}", f"os.stat('/dev/{name}')", ABSENT)
      for name in ("mem", "kmem", "port", "kmsg", "kvm", "fuse", "net/tun", "loop0", "loop-control", "mapper/control", "sda", "vda", "nvme0n1",
                   "nvme0", "userfaultfd", "vhost-net", "vhost-vsock", "vsock", "snapshot", "cpu/0/msr", "cpu_dma_latency", "dri/card0",
                   "input/event0", "uinput", "uhid", "console", "tty0", "tty1", "ttyS0", "hpet", "rtc0", "watchdog", "btrfs-control",
                   "autofs", "bus/usb", "nvidia0", "dma_heap/system", "udmabuf", "sgx_enclave", "mqueue", "hugepages", "binder", "rfkill")),
    Look("what there is", "sorted(os.listdir('/dev'))",
         "['fd', 'full', 'null', 'ptmx', 'pts', 'random', 'shm', 'stderr', 'stdin', 'stdout', 'tty', 'urandom', 'zero']"),
    Look("a terminal of the host", "os.open('/dev/tty', os.O_RDWR)", "ENXIO"),
    Look("writing on /dev", "os.open('/dev/new', os.O_CREAT | os.O_WRONLY)", ("EACCES", "EROFS")),
    Look("replacing a device", "os.remove('/dev/null')", ("EACCES", "EROFS", "EBUSY", "EPERM")),
    Look("the mode of a device", "os.chmod('/dev/urandom', 0o777)", "EPERM"),
    Look("entropy", "control('/dev/urandom', 0x5206)", "EPERM"),
    Look("entropy added", "control('/dev/random', 0x40085203, bytes(16))", "EPERM"),
    Look("input pushed into a terminal", "terminal(0x5412, b'x')", "EPERM"),
    Look("TIOCLINUX", "terminal(0x541C, b'\\x02')", "EPERM"),
    Look("a line discipline", "terminal(0x5423, b'\\x0d\\0\\0\\0')", "EPERM"),
    Look("TIOCCONS", "terminal(0x541D)", "EPERM"),
    Look("a terminal's key map", "terminal(0x4B47, bytes(8))", ("ENOTTY", "EPERM", "EINVAL")),
]  # fmt: skip

tree = [
    Look("/sys", "os.listdir('/sys')", ("[]", "ENOENT")),
    Look("cgroups mounted anywhere", "[line for line in open('/proc/self/mounts') if line.split()[2] in ('cgroup', 'cgroup2', 'sysfs', 'debugfs', 'tracefs', 'bpf')]", "[]"),
    *(Look(f"cgroup file {name}", f"write('/sys/fs/cgroup/{name}')", ABSENT)
      for name in ("cgroup.procs", "memory.max", "memory/memory.limit_in_bytes", "memory/release_agent", "devices/devices.allow", "pids/pids.max")),
    Look("the way up from /", "same('/', '/..') and same('/', '/../../../..')", "True"),
    Look("the way up from a descriptor", "through('/', '../../../../var/lib/husk')", ABSENT),
    Look("the way up from a process's root", "through('/proc/self/root', '../../var/lib/husk')", ABSENT),
    Look("the way up from a process's folder", "through('/proc/self/cwd', '../../../../var/lib/husk')", ABSENT),
    Look("the way up from every descriptor",
         "[name for name in os.listdir('/proc/self/fd') if os.path.exists(f'/proc/self/fd/{name}/../../var/lib/husk')]", "[]"),
    Look("a folder passed by a socket", "passed_folder()", "True"),
    *(Look(f"the host's {path}", f"os.stat({path!r})", ("ENOENT", "EACCES"))
      for path in ("/var/lib/husk", "/var/lib/docker", "/var/run/docker.sock", "/run/containerd/containerd.sock", "/run/podman/podman.sock",
                   "/run/systemd/private", "/run/dbus/system_bus_socket", "/run/secrets", "/var/run/secrets/kubernetes.io", "/.dockerenv",
                   "/work", "/root/.ssh", "/root/.bash_history", "/etc/kubernetes", "/host", "/mnt/root", "/boot/vmlinuz", "/lib/modules",
                   "/sys/kernel/debug", "/sys/firmware", "/sys/fs/cgroup")),
    *(Look(f"write {path}", f"os.open({path!r} + '/probe', os.O_CREAT | os.O_WRONLY)", ("EACCES", "EROFS", "ENOENT"))
      for path in ("/", "/etc", "/usr/bin", "/opt/husk", "/opt/husk/wheels", "/opt/tools", "/run", "/var", "/root", "/home", "/proc", "/boot")),
    *(Look(f"change {path}", f"os.open({path!r}, os.O_WRONLY)", ("EACCES", "EROFS", "ENOENT", "ETXTBSY"))
      for path in ("/etc/passwd", "/etc/shadow", "/etc/ld.so.preload", "/etc/sudoers", "/etc/resolv.conf", "/etc/hosts", "/usr/bin/env",
                   "/opt/husk/kernel.py", "/opt/husk/environment", "/proc/self/exe", "/bin/sh")),
    Look("a hard link to the image", "os.link('/etc/passwd', '/home/user/hard')", ("EXDEV", "EPERM")),
    Look("a hard link within the overlay", "os.link('/etc/passwd', '/tmp/hard')", "EPERM"),
    Look("a hard link by /proc", "os.link('/proc/self/exe', '/tmp/hard', follow_symlinks=True)", ("EPERM", "EXDEV")),
    Look("the image's owner", "os.chown('/etc/passwd', 1000, 1000)", "EPERM"),
    Look("a file for root", "os.chown('/home/user/raw', 0, 0)", ("EPERM", "EINVAL")),
    Look("capabilities of a file", "os.setxattr('/home/user/raw', 'security.capability', bytes.fromhex('01000002' + 'ff' * 16))", ("EPERM", "EINVAL", "ENOTSUP")),
    Look("trusted attributes of the overlay", "os.setxattr('/tmp', 'trusted.overlay.opaque', b'y')", ("EPERM", "ENOTSUP")),
    Look("redirects of the overlay", "os.setxattr('/tmp', 'user.overlay.redirect', b'/etc')", ("EPERM", "ENOTSUP", "'None'", "None")),
    Look("an immutable file", "control('/home/user/raw', 0x40086602, (0x10).to_bytes(8, 'little'))", ("EPERM", "ENOTTY", "EOPNOTSUPP")),
    Look("setuid programs",
         "[os.path.join(folder, name) for top in ('/usr', '/opt', '/etc', '/bin') for folder, _, names in os.walk(top) for name in names"
         " if os.lstat(os.path.join(folder, name)).st_mode & 0o6000 and not os.path.islink(os.path.join(folder, name))]", "[]"),
    Look("a setuid program of one's own", "as_setuid('/home/user/setuid')", "'1000'"),
    Look("a program from memory", "from_memory()", "('0000000000000000', '1', '2')"),
    Look("a program on /dev/shm", "open('/dev/shm/x', 'wb').write(open('/usr/bin/true', 'rb').read()) and os.chmod('/dev/shm/x', 0o755) or ran('/dev/shm/x')",
         "EACCES"),
    Look("a core file", "core_dump('/tmp/cores')", "(True, False, [])"),
]  # fmt: skip

TABLES = {"proc": proc, "init": init, "devices": devices, "tree": tree}
