"""System calls that reach for the host: namespaces, mounts, tracing, keys, modules, clocks; and every other door."""

from probe import PROGRAM, Call

NAMESPACES = {
    "mount": 0x00020000, "cgroup": 0x02000000, "uts": 0x04000000, "ipc": 0x08000000, "user": 0x10000000, "pid": 0x20000000,
    "network": 0x40000000,
}  # fmt: skip
TIME = 0x80  # the only namespace that clone has no flag for
SIGCHLD = 17
HERE = -100  # AT_FDCWD
ALL = sum(NAMESPACES.values())
BIND, REMOUNT, MOVE, READ_ONLY = 0x1000, 0x20, 0x2000, 1
ATTRIBUTES = bytes(32)
PROGRAM_OF_BPF = (5).to_bytes(4, "little") + bytes(124)


def clone3(flags):
    return (flags.to_bytes(8, "little") + bytes(24) + SIGCHLD.to_bytes(8, "little") + bytes(24), 64)


namespaces = [
    *(Call(f"unshare {name}", "unshare", (flag,), "EPERM") for name, flag in (NAMESPACES | {"time": TIME}).items()),
    *(Call(f"clone {name}", "clone", (flag | SIGCHLD, 0, 0, 0, 0), "EPERM") for name, flag in NAMESPACES.items()),
    *(Call(f"clone3 {name}", "clone3", clone3(flag), "ENOSYS") for name, flag in (NAMESPACES | {"time": TIME}).items()),
    Call("unshare all", "unshare", (ALL,), "EPERM"),
    Call("unshare nothing", "unshare", (0,), "EPERM"),
    Call("clone all", "clone", (ALL | SIGCHLD, 0, 0, 0, 0), "EPERM"),
    Call("clone user, upper half set", "clone", (0x7F << 32 | 0x10000000 | SIGCHLD, 0, 0, 0, 0), "EPERM"),
    Call("clone3 into a cgroup", "clone3", (clone3(0x2_0000_0000)[0] + bytes(24), 88), "ENOSYS"),
    Call("clone3 with chosen pids", "clone3", (clone3(0)[0] + bytes(16), 80), "ENOSYS"),
    Call("setns by a descriptor", "setns", (0, 0), "EPERM"),
    Call("setns of a network", "setns", (0, 0x40000000), "EPERM"),
    Call("setns of a mount namespace", "setns", (0, 0x00020000), "EPERM"),
]

mounts = [
    Call("mount tmpfs", "mount", (b"none", b"/tmp", b"tmpfs", 0, 0), "EPERM"),
    Call("mount proc", "mount", (b"none", b"/tmp", b"proc", 0, 0), "EPERM"),
    Call("mount sysfs", "mount", (b"none", b"/tmp", b"sysfs", 0, 0), "EPERM"),
    Call("mount cgroup", "mount", (b"none", b"/tmp", b"cgroup", 0, b"memory"), "EPERM"),
    Call("mount cgroup2", "mount", (b"none", b"/tmp", b"cgroup2", 0, 0), "EPERM"),
    Call("mount debugfs", "mount", (b"none", b"/tmp", b"debugfs", 0, 0), "EPERM"),
    Call("mount overlay", "mount", (b"none", b"/tmp", b"overlay", 0, b"lowerdir=/etc:/usr"), "EPERM"),
    Call("mount fuse", "mount", (b"none", b"/tmp", b"fuse", 0, b"fd=0,rootmode=40000,user_id=0,group_id=0"), "EPERM"),
    Call("mount a disk", "mount", (b"/dev/vda", b"/tmp", b"ext4", 0, 0), "EPERM"),
    Call("bind /proc/1/root", "mount", (b"/proc/1/root", b"/tmp", b"", BIND, 0), "EPERM"),
    Call("bind over /etc", "mount", (b"/tmp", b"/etc", b"", BIND, 0), "EPERM"),
    Call("move /proc/sys away", "mount", (b"/proc/sys", b"/tmp", b"", MOVE, 0), "EPERM"),
    Call("remount /proc/sys writable", "mount", (b"none", b"/proc/sys", b"", REMOUNT | BIND, 0), "EPERM"),
    Call("remount / writable", "mount", (b"none", b"/", b"", REMOUNT, 0), "EPERM"),
    Call("make / shared", "mount", (b"none", b"/", b"", 0x100000 | 0x4000, 0), "EPERM"),
    Call("umount /proc/sys", "umount2", (b"/proc/sys", 2), "EPERM"),
    Call("umount what hides /proc/keys", "umount2", (b"/proc/keys", 2), "EPERM"),
    Call("umount /", "umount2", (b"/", 2), "EPERM"),
    Call("pivot_root", "pivot_root", (b".", b"."), "EPERM"),
    Call("chroot", "chroot", (b"/tmp",), "EPERM"),
    Call("chroot by /proc", "chroot", (b"/proc/1/root",), "EPERM"),
    Call("open_tree", "open_tree", (HERE, b"/", 0), "EPERM"),
    Call("open_tree clone", "open_tree", (HERE, b"/", 1), "EPERM"),
    Call("open_tree_attr", "open_tree_attr", (HERE, b"/", 1, ATTRIBUTES, 32), "ENOSYS"),
    Call("move_mount", "move_mount", (HERE, b"/tmp", HERE, b"/mnt", 0), "EPERM"),
    Call("fsopen", "fsopen", (b"tmpfs", 0), "EPERM"),
    Call("fsopen cgroup2", "fsopen", (b"cgroup2", 0), "EPERM"),
    Call("fsconfig", "fsconfig", (0, 6, 0, 0, 0), "EPERM"),
    Call("fsmount", "fsmount", (0, 0, 0), "EPERM"),
    Call("fspick", "fspick", (HERE, b"/", 0), "EPERM"),
    Call("mount_setattr", "mount_setattr", (HERE, b"/", 0, ATTRIBUTES, 32), "EPERM"),
    Call("mount_setattr recursive", "mount_setattr", (HERE, b"/proc", 0x8000, ATTRIBUTES, 32), "EPERM"),
    Call("statmount", "statmount", (bytes(24), bytes(64), 64, 0), "ENOSYS"),
    Call("listmount", "listmount", (bytes(24), bytes(64), 8, 0), "ENOSYS"),
    Call("listns", "listns", (bytes(24), bytes(64), 8, 0), "ENOSYS"),
    Call("swapon", "swapon", (b"/home/user/raw", 0), "EPERM"),
    Call("swapoff", "swapoff", (b"/swapfile",), "EPERM"),
    Call("quotactl", "quotactl", (0x800002, b"/dev/vda", 0, 0), "EPERM"),
    Call("quotactl_fd", "quotactl_fd", (0, 0x800002, 0, 0), "EPERM"),
    Call("name_to_handle_at", "name_to_handle_at", (HERE, b"/", bytes(136), bytes(8), 0), "EPERM"),
    Call("open_by_handle_at", "open_by_handle_at", (0, bytes(136), 0), "EPERM"),
    Call("sysfs", "sysfs", (3,), "EPERM"),
    Call("ustat", "ustat", (0, bytes(64)), "EPERM"),
    Call("mknod of a memory device", "mknod", (b"/tmp/mem", 0o020666, 0x0101), "EPERM"),
    Call("mknod of a disk", "mknod", (b"/tmp/disk", 0o060666, 0xFE00), "EPERM"),
    Call("mknodat of a kernel log", "mknodat", (HERE, b"/home/user/kmsg", 0o020666, 0x010B), "EPERM"),
]

processes = [
    Call("ptrace attach init", "ptrace", (16, 1, 0, 0), "EPERM"),
    Call("ptrace seize init", "ptrace", (0x4206, 1, 0, 0), "EPERM"),
    Call("ptrace attach kernel", "ptrace", (16, 2, 0, 0), "EPERM"),
    Call("ptrace traceme", "ptrace", (0, 0, 0, 0), "EPERM"),
    Call("process_vm_readv init", "process_vm_readv", (1, bytes(16), 1, bytes(16), 1, 0), "EPERM"),
    Call("process_vm_readv kernel", "process_vm_readv", (2, bytes(16), 1, bytes(16), 1, 0), "EPERM"),
    Call("process_vm_writev init", "process_vm_writev", (1, bytes(16), 1, bytes(16), 1, 0), "EPERM"),
    Call("pidfd_getfd", "pidfd_getfd", (0, 0, 0), "EPERM"),
    Call("kcmp", "kcmp", (1, 2, 0, 0, 0), "EPERM"),
    Call("process_mrelease", "process_mrelease", (0, 0), "ENOSYS"),
    Call("process_madvise of init", "process_madvise", (0, bytes(16), 1, 21, 0), ("EBADF", "EINVAL")),
    Call("move_pages of init", "move_pages", (1, 1, bytes(8), 0, bytes(8), 0), "EPERM"),
    Call("migrate_pages", "migrate_pages", (1, 8, bytes(8), bytes(8)), "EPERM"),
    Call("mbind", "mbind", (0, 0, 0, 0, 0, 0), "EPERM"),
    Call("set_mempolicy", "set_mempolicy", (0, 0, 0), "EPERM"),
    Call("set_mempolicy_home_node", "set_mempolicy_home_node", (0, 0, 0, 0), "ENOSYS"),
    Call("setuid 0", "setuid", (0,), "EINVAL"),
    Call("setgid 0", "setgid", (0,), "EINVAL"),
    Call("setresuid of a neighbour", "setresuid", (1001, 1001, 1001), "EINVAL"),
    Call("setgroups", "setgroups", (1, bytes(4)), "EPERM"),
    Call("setgroups to none", "setgroups", (0, 0), "EPERM"),
    Call("capset", "capset", (bytes(8), bytes(24)), "ENOSYS"),
    Call("real time", "sched_setscheduler", (0, 1, b"\x01\0\0\0"), "EPERM"),
    Call("a deadline", "sched_setattr", (0, (48).to_bytes(4, "little") + b"\x06" + bytes(43), 0), ("EINVAL", "EPERM")),
    Call("higher priority", "setpriority", (0, 0, -20), "EACCES"),
    Call("ioprio_set", "ioprio_set", (1, 0, 0x2000), "ENOSYS"),
    Call("limits of init", "prlimit64", (1, 7, bytes(16), 0), "EPERM"),
    Call("more open files", "prlimit64", (0, 7, (8192).to_bytes(8, "little") * 2, 0), "EPERM"),
    Call("core files", "prlimit64", (0, 4, (1 << 30).to_bytes(8, "little") * 2, 0), "EPERM"),
    Call("message queues", "prlimit64", (0, 12, (1 << 20).to_bytes(8, "little") * 2, 0), "EPERM"),
    Call("more pending signals", "prlimit64", (0, 11, (1 << 20).to_bytes(8, "little") * 2, 0), "EPERM"),
    Call("mq_open", "mq_open", (b"probe", 0o102, 0o600, 0), "EMFILE"),
]

kernel = [
    Call("bpf: a program", "bpf", (5, PROGRAM_OF_BPF, 128), "EPERM"),
    Call("bpf: a map", "bpf", (0, PROGRAM_OF_BPF, 128), "EPERM"),
    Call("bpf: ids", "bpf", (11, PROGRAM_OF_BPF, 128), "EPERM"),
    Call("perf_event_open", "perf_event_open", (bytes(128), 0, -1, -1, 0), "EPERM"),
    Call("add_key", "add_key", (b"user", b"probe", b"x", 1, -3), "EPERM"),
    Call("request_key", "request_key", (b"user", b"probe", 0, 0), "EPERM"),
    *(Call(f"keyctl {command}", "keyctl", (command, -3, 1), "EPERM") for command in (0, 1, 5, 6, 11, 18, 22, 32)),
    Call("userfaultfd", "userfaultfd", (0,), "EPERM"),
    Call("userfaultfd of user mode", "userfaultfd", (1,), "EPERM"),
    Call("io_uring_setup", "io_uring_setup", (8, bytes(120)), "EPERM"),
    Call("io_uring_enter", "io_uring_enter", (0, 0, 0, 0, 0, 0), "EPERM"),
    Call("io_uring_register", "io_uring_register", (0, 0, 0, 0), "EPERM"),
    Call("io_setup: the machine's quota", "io_setup", (1, bytes(8)), "ENOSYS"),
    Call("io_submit", "io_submit", (0, 0, 0), "ENOSYS"),
    Call("init_module", "init_module", (b"", 0, b""), "EPERM"),
    Call("finit_module", "finit_module", (0, b"", 0), "EPERM"),
    Call("delete_module", "delete_module", (b"ext4", 0), "EPERM"),
    Call("kexec_load", "kexec_load", (0, 0, 0, 0), "EPERM"),
    Call("kexec_file_load", "kexec_file_load", (0, 0, 0, 0, 0), "EPERM"),
    Call("reboot", "reboot", (0xFEE1DEAD, 672274793, 0x89ABCDEF, 0), "EPERM"),
    Call("syslog", "syslog", (3, bytes(64), 64), "EPERM"),
    Call("acct", "acct", (b"/home/user/raw",), "EPERM"),
    Call("fanotify_init", "fanotify_init", (0, 0), "EPERM"),
    Call("fanotify_mark", "fanotify_mark", (0, 1, 0, 0, 0), "EPERM"),
    Call("sethostname", "sethostname", (b"x", 1), "EPERM"),
    Call("setdomainname", "setdomainname", (b"x", 1), "EPERM"),
    Call("settimeofday", "settimeofday", (bytes(16), 0), "EPERM"),
    Call("clock_settime", "clock_settime", (0, bytes(16)), "EPERM"),
    Call("clock_adjtime", "clock_adjtime", (0, bytes(208)), "EPERM"),
    Call("adjtimex", "adjtimex", (bytes(208),), "EPERM"),
    Call("personality: query", "personality", (0xFFFFFFFF,), "EPERM"),
    Call("personality: no randomness", "personality", (0x0040000,), "EPERM"),
    Call("personality: page zero", "personality", (0x0100000,), "EPERM"),
    Call("personality: readable is executable", "personality", (0x0400000,), "EPERM"),
    Call("vhangup", "vhangup", (), "EPERM"),
    Call("memfd_secret", "memfd_secret", (0,), "ENOSYS"),
    Call("map_shadow_stack", "map_shadow_stack", (0, 4096, 0), "ENOSYS"),
    *(Call(name, name, (0, 0, 0, 0), "ENOSYS") for name in ("lsm_get_self_attr", "lsm_set_self_attr", "lsm_list_modules")),
    Call("file_setattr", "file_setattr", (HERE, b"/tmp", bytes(32), 32, 0), "ENOSYS"),
    Call("page zero", "mmap", (0, 4096, 3, 0x32, -1, 0), ("EPERM", "EACCES")),
    *(Call(f"call {future} of the future", future, (), "ENOSYS") for future in (*range(472, 600), 1024, 0x3FFFFFFF)),
]

# 32-bit calls have numbers of their own, and a filter for 64 bits alone would let them pass: mount, ptrace, unshare, bpf, getpid.
doors = [
    *(Call(f"int80 {call}", call, (0, 0, 0, 0, 0), "ENOSYS", (PROGRAM,), "int80") for call in (11, 20, 21, 26, 310, 357)),
    *(Call(f"x32 {call}", call, (0, 0, 0), "ENOSYS", (PROGRAM,), "x32") for call in (1, 39, 101, 165, 272, 520, 521, 545)),
    Call("ioperm", "ioperm", (0x70, 1, 1), "EPERM"),
    Call("iopl", "iopl", (3,), "EPERM"),
    Call("modify_ldt", "modify_ldt", (1, bytes(16), 16), "EPERM"),
]

TABLES = {"namespaces": namespaces, "mounts": mounts, "processes": processes, "kernel": kernel, "doors": doors}
