"""Who code inside is, and what it inherited: capabilities, descriptors, environment, other processes."""

from probe import Look

SETS = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
NONE = "'0000000000000000'"

identity = [
    *(Look(f"{name} of {who}", f"status({who!r}, {name!r})", NONE) for who in ("self", "1", "2") for name in SETS),
    *(Look(f"{name} of {who}", f"status({who!r}, {name!r})", value)
      for who in ("self", "1", "2")
      for name, value in (("NoNewPrivs", "'1'"), ("Seccomp", "'2'"), ("Uid", "'1000\\t1000\\t1000\\t1000'"), ("Gid", "'1000\\t1000\\t1000\\t1000'"),
                          ("Groups", "''"))),
    Look("ids that exist", "open('/proc/self/uid_map').read().split()[0::2]", "['1000', '1']"),
    Look("groups that exist", "open('/proc/self/gid_map').read().split()[0::2]", "['1000', '1']"),
    Look("su", "ran('su', '-c', 'true')", ("1", "126", "127", "ENOENT", "EACCES")),
    Look("sudo", "ran('sudo', '-n', 'true')", ("1", "ENOENT")),
    Look("newuidmap", "ran('newuidmap', str(os.getpid()), '0', '0', '1')", ("1", "ENOENT")),
    Look("unshare", "ran('unshare', '-Ur', 'true')", ("1", "ENOENT")),
    Look("nested user namespace by bubblewrap", "ran('bwrap', '--ro-bind', '/', '/', 'true')", ("1", "ENOENT")),
    Look("nsenter", "ran('nsenter', '-t', '1', '-m', 'true')", ("1", "ENOENT")),
    Look("mount", "ran('mount', '-t', 'tmpfs', 'none', '/tmp')", ("1", "32", "ENOENT")),
    Look("dmesg", "ran('dmesg')", ("1", "ENOENT")),
    Look("core size", "resource.getrlimit(resource.RLIMIT_CORE)", "(1, 1)"),
    Look("real-time priority", "resource.getrlimit(resource.RLIMIT_RTPRIO)", "(0, 0)"),
    Look("niceness", "resource.getrlimit(resource.RLIMIT_NICE)", "(0, 0)"),
    Look("open files", "resource.getrlimit(resource.RLIMIT_NOFILE)", "(4096, 4096)"),
    Look("pending signals", "resource.getrlimit(resource.RLIMIT_SIGPENDING)", "(1024, 1024)"),
]  # fmt: skip

prctls = [
    Look("new privileges", "prctl(38, 0)", "EINVAL"),
    Look("ambient capability", "prctl(47, 2, 21)", "EPERM"),
    Look("bounding set", "prctl(24, 21)", "EPERM"),
    Look("secure bits", "prctl(28, 0)", "EPERM"),
    Look("keep capabilities", "prctl(8, 1)", "EPERM"),
    Look("without the filter", "prctl(22, 0)", "EINVAL"),
    Look("strict filter", "prctl(22, 1)", "EINVAL"),
    Look("memory map", "prctl(35, 9, 4096)", ("EPERM", "EINVAL")),
    Look("memory map as a whole", "prctl(35, 14, 0, 0)", ("EPERM", "EINVAL", "EFAULT")),
    Look("executable of the memory map", "prctl(35, 13, 0)", ("EPERM", "EINVAL", "EBADF", "EACCES")),
    Look("I/O flusher", "prctl(57, 1)", "EPERM"),
    Look("core scheduling of init", "prctl(62, 1, 1, 0)", ("EPERM", "ENODEV", "EINVAL")),
    Look("filter of another's thread", "call(317, 1, 1, bytes(16))", ("EINVAL", "EFAULT")),
]  # fmt: skip

others = [
    Look("processes that are seen", "max(int(name) for name in os.listdir('/proc') if name.isdigit()) < 20000", "True"),
    Look("programs that are seen",
         "[name for name in os.listdir('/proc') if name.isdigit() and b'huskd' in read(f'/proc/{name}/cmdline', 4096)]", "[]"),
    Look("killing init", "os.kill(1, 9)", "None"),  # it is told, and nothing happens: pid 1 of a namespace is immune inside
    Look("stopping init", "os.kill(1, 19)", "None"),
    Look("init lives", "status('1', 'State')[0] in 'SR'", "True"),
    Look("a process that is not here", "os.kill(30000, 0)", "ESRCH"),
    Look("tracing with its leave", "prctl(0x59616d61, -1)", ("0", "EINVAL")),
    Look("own memory by another's name", "read('/proc/thread-self/../../../1/mem')", ("EACCES", "EPERM")),
    Look("shared memory of others", "[line for line in open('/proc/sysvipc/shm')][1:]", "[]"),
    Look("semaphores of others", "[line for line in open('/proc/sysvipc/sem')][1:]", "[]"),
    Look("queues of others", "[line for line in open('/proc/sysvipc/msg')][1:]", "[]"),
    Look("abstract sockets of others",
         "[line for line in open('/proc/net/unix') if '@' in line and 'toolkit' not in line]", "[]"),
    Look("the host's environment", "[key for key in os.environ if key.startswith(('CANARY', 'HUSK_', 'SUDO_', 'SSH_', 'AWS_'))]", "[]"),
    Look("what the host's environment said", "'of-the-host' in repr(dict(os.environ)) + repr(read('/proc/self/environ', 65536))", "False"),
    Look("the host's name", "os.uname().nodename", "'husk'"),
]  # fmt: skip

DESCRIPTORS = (
    "[target for name in os.listdir('/proc/self/fd') if os.path.lexists(f'/proc/self/fd/{name}')"
    " for target in [os.readlink(f'/proc/self/fd/{name}')]"
    " if not target.startswith(('socket:', 'pipe:', 'anon_inode:[event', '/dev/null', '/dev/urandom', '/proc/', '/memfd:'))]"
)

descriptors = [
    Look("descriptors of files, folders and namespaces", DESCRIPTORS, "[]"),
    Look("descriptors of folders",
         "[name for name in os.listdir('/proc/self/fd') if os.path.isdir(f'/proc/self/fd/{name}') and os.readlink(f'/proc/self/fd/{name}')[:5] != '/proc']",
         "[]"),
    Look("descriptors that a child gets", "said('ls', '/proc/self/fd').split()", ("['0', '1', '2', '3']",)),
]  # fmt: skip

TABLES = {"identity": identity, "prctls": prctls, "others": others, "descriptors": descriptors}
