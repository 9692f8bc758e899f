"""What code inside a sandbox can see and do. Each probe runs inside, most of them in one sandbox; what it reports is
checked here, against what the host sees where that is possible."""

import os
import re

import pytest

SYSCALL = """
import ctypes, errno, os
def call(number, *arguments):
    # The errno of a system call, 0 if it worked.
    libc = ctypes.CDLL(None, use_errno=True)
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *(ctypes.c_long(a) if isinstance(a, int) else a for a in arguments))
    return errno.errorcode[ctypes.get_errno()] if result == -1 else 0
"""


@pytest.fixture(scope="module")
def inside(create_shared):
    sandbox = create_shared(name="inside")
    sandbox.run(SYSCALL)
    return sandbox


def status_of(inside, who="self"):
    """/proc/PID/status as it is seen inside; "cat" is a process that the kernel starts."""
    if who == "cat":
        text = inside.value("__import__('subprocess').check_output(['cat', '/proc/self/status'], text=True)")
    else:
        text = inside.value(f"open('/proc/{who}/status').read()")
    return {line.partition(":")[0]: line.partition(":")[2].strip() for line in text.splitlines()}


def write(inside, path, data):
    """The errno of writing to a file that exists, 0 if it worked."""
    code = f"""
        try: print(open('{path}', 'wb', buffering=0).write({data!r}) * 0)
        except OSError as error: print(error.errno)"""
    return int(inside.run(code))


# --- identity ---


@pytest.mark.parametrize("who", ["self", "cat", "1"])
def test_privileges(inside, who):
    status = status_of(inside, who)
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(status[name], 16) == 0, name
    assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"
    assert status["Uid"].split() == status["Gid"].split() == ["1000"] * 4
    assert status["Groups"].split() in ([], ["1000"])


def test_shim_is_confined(inside):
    shim = inside.shim()
    assert shim.status("NoNewPrivs") == "1" and shim.status("Seccomp") == "2"
    assert int(shim.status("CapEff"), 16) == int(shim.status("CapPrm"), 16) == int(shim.status("CapBnd"), 16) == 0


def test_user_and_host_names(inside):
    assert inside.value("__import__('getpass').getuser()") == "user"
    assert inside.value("__import__('os').path.expanduser('~')") == "/home/user"
    name = inside.value("__import__('socket').gethostname()")
    assert name and name != os.uname().nodename


def test_every_sandbox_has_its_own_id(inside, shared):
    maps = []
    for sandbox in (inside, shared):
        kernel = [p for p in sandbox.processes() if p.status("NSpid").split()[-1] != "1"][0]
        [line] = open(f"/proc/{kernel.pid}/uid_map").read().splitlines()
        first, outside, count = map(int, line.split())
        assert first == 1000 and count == 1, "exactly one id, and no root"
        maps.append(outside)
        assert kernel.status("Uid").split()[0] not in ("0", "1000")
    assert maps[0] != maps[1]


# --- what is visible ---


def test_environment_has_nothing_of_the_host(inside):
    environment = inside.value("dict(__import__('os').environ)")
    assert "CANARY" not in environment and "of-the-host" not in str(environment)
    assert not [key for key in environment if key.startswith(("HUSK_", "SUDO_", "SSH_")) or "PROXY" in key.upper()]
    assert environment["HOME"] == "/home/user" and "UTF-8" in environment["LANG"].upper()
    assert b"of-the-host" not in inside.value("open('/proc/self/environ', 'rb').read()")
    assert b"CANARY" not in inside.value(
        "__import__('subprocess').run(['cat', '/proc/1/environ'], capture_output=True).stdout"
    )


def test_descriptors(inside):
    """Sockets, pipes and event descriptors of the kernel's own, and nothing that leads outside."""
    code = """
        import os
        folder = '/proc/self/fd/'
        print({n: os.readlink(folder + n) for n in os.listdir(folder) if os.path.lexists(folder + n)})"""
    allowed = (
        r"(socket|pipe):\[\d+\]|anon_inode:.*|/memfd:.*|/dev/(null|urandom|random)"
        r"|/home/user.*|/tmp/.*|/run/husk.*|/proc/\d+/fd"
    )
    for number, target in eval(inside.run(code)).items():
        assert re.fullmatch(allowed, target), (number, target)


def test_only_its_own_processes(inside, shared):
    pids = inside.value("sorted(int(p) for p in __import__('os').listdir('/proc') if p.isdigit())")
    assert pids[0] == 1 and len(pids) < 10
    assert len(pids) == len(inside.processes())
    assert not any("huskd" in inside.value(f"open('/proc/{pid}/cmdline').read()") for pid in pids[:3])
    assert inside.value("call(62, 1, 9)") in (0, "EPERM"), "pid 1 cannot be killed from inside"
    assert inside.works() and shared.works()


def test_no_network(inside):
    lines = inside.value("open('/proc/net/dev').read()").splitlines()[2:]
    assert [line.split(":")[0].strip() for line in lines] == ["lo"]
    code = """
import socket
for address in (('192.0.2.1', 80), ('10.0.2.2', 22), ('2001:db8::1', 80)):
    s = socket.socket(socket.AF_INET6 if ':' in address[0] else socket.AF_INET)
    s.settimeout(2)
    try: s.connect(address); print('connected')
    except OSError: print('no')
try: socket.getaddrinfo('example.org', 80); print('resolved')
except socket.gaierror: print('no')"""
    assert inside.run(code).split() == ["no"] * 4
    assert len(inside.value("open('/proc/net/route').read()").splitlines()) <= 1


def test_loopback_is_its_own(inside, service):
    code = f"""
import socket
server = socket.create_server(('127.0.0.1', {service.port}))
client = socket.create_connection(('127.0.0.1', {service.port}))
client.sendall(b'own'); print(server.accept()[0].recv(3).decode()); client.close(); server.close()"""
    assert inside.run(code) == "own\n", "lo works, and the service's port is not there"
    assert inside.value("__import__('socket').socket(1, 1).connect_ex('\\0/tmp/.X11-unix/X0')") != 0


def test_host_files_are_not_there(inside, service):
    for path in (service.state, service.folder, "/work", "/var/lib/husk", "/root/.ssh", "/.dockerenv"):
        assert inside.value(f"__import__('os').path.exists('{path}')") is False, path
    hosts_passwd = open("/etc/passwd").read()
    assert inside.value("open('/etc/passwd').read()") != hosts_passwd


def test_sys_and_proc(inside):
    assert inside.value("__import__('os').path.isdir('/sys') and __import__('os').listdir('/sys') or []") == []
    for name in (
        "sys/kernel/hostname",
        "sys/kernel/core_pattern",
        "sys/vm/drop_caches",
        "sysrq-trigger",
        "1/oom_score_adj",
    ):
        assert write(inside, f"/proc/{name}", b"1") != 0, name
    assert write(inside, "/proc/self/oom_score_adj", b"-1000") != 0
    assert int(inside.value("open('/proc/self/oom_score_adj').read()")) > 0
    for name in ("kcore", "keys", "timer_list", "latency_stats", "sched_debug"):
        code = f"""
            try: print(len(open('/proc/{name}', 'rb').read(4096)))
            except OSError: print(0)"""
        assert inside.run(code) == "0\n", name


def test_devices(inside):
    names = inside.value("sorted(__import__('os').listdir('/dev'))")
    devices = {"null", "zero", "full", "random", "urandom", "tty", "pts", "ptmx", "console"}
    assert set(names) <= devices | {"fd", "stdin", "stdout", "stderr", "shm", "mqueue"}
    assert inside.value("open('/dev/null', 'w').write('x'), open('/dev/zero', 'rb').read(1)") == (1, b"\0")
    assert len(inside.value("open('/dev/urandom', 'rb').read(8)")) == 8
    assert inside.value("call(133, b'/tmp/node', 0o020666, 0x0101)") == "EPERM", "mknod of a device"


# --- what is writable ---


def test_writable_places(inside):
    code = """
import os
found = []
for folder, below, _ in os.walk('/', onerror=None):
    if folder.startswith(('/proc', '/sys')): below[:] = []; continue
    if os.access(folder, os.W_OK): found.append(folder); below[:] = []
print(found)"""
    writable = eval(inside.run(code))
    assert "/home/user" in writable and "/tmp" in writable and "/dev/shm" in writable
    for path in writable:
        assert re.match(r"/(home/user|tmp|var/tmp|run/husk|opt/venv|dev/shm|dev/mqueue)\b", path), path


@pytest.mark.parametrize(
    "path", ["/", "/etc", "/usr/bin", "/opt/husk", "/dev", "/run", "/var", "/usr/lib/python3", "/home", "/root"]
)
def test_not_writable(inside, path):
    code = f"try: open('{path}/probe', 'w'); print('written')\nexcept OSError as e: print('refused')"
    assert inside.run(code) == "refused\n"


@pytest.mark.parametrize("path", ["/etc/passwd", "/usr/bin/env", "/opt/husk/kernel.py", "/opt/husk/environment"])
def test_image_files_cannot_be_changed(inside, path):
    code = f"""
import os
path = '{path}'
for action, *more in ((open, 'r+b'), (os.chmod, 0o777), (os.remove,), (os.rename, '/tmp/x')):
    try: action(path, *more); print('done')
    except OSError: print('refused')"""
    assert inside.run(code).split() == ["refused"] * 4


def test_sandboxes_do_not_share_files(inside, shared):
    for path in ("/home/user/own", "/tmp/own", "/dev/shm/own", "/opt/venv/own"):
        inside.run(f"open('{path}', 'w').write('mine')")
        assert shared.value(f"__import__('os').path.exists('{path}')") is False, path


def test_no_setuid_programs(inside):
    code = """
import os, stat
for folder, below, files in os.walk('/'):
    if folder.startswith('/proc'): below[:] = []; continue
    for name in files:
        try: mode = os.lstat(os.path.join(folder, name)).st_mode
        except OSError: continue
        if stat.S_ISREG(mode) and mode & (stat.S_ISUID | stat.S_ISGID): print(os.path.join(folder, name))"""
    assert inside.run(code) == ""


# --- system calls ---

REFUSED = {
    "mount": (165, "b'none', b'/tmp', b'tmpfs', 0, 0"),
    "umount": (166, "b'/proc', 2"),
    "pivot_root": (155, "b'/', b'/tmp'"),
    "unshare user": (272, "0x10000000"),
    "unshare mount": (272, "0x00020000"),
    "setns": (308, "os.open('/proc/self/ns/net', 0), 0"),
    "ptrace": (101, "16, 1, 0, 0"),
    "process_vm_readv": (310, "1, 0, 0, 0, 0, 0"),
    "bpf": (321, "0, 0, 0"),
    "keyctl": (250, "0, -3, 1"),
    "add_key": (248, "b'user', b'x', b'y', 1, -3"),
    "perf_event_open": (298, "0, 0, -1, -1, 0"),
    "userfaultfd": (323, "0"),
    "io_uring_setup": (425, "8, 0"),
    "init_module": (175, "0, 0, b''"),
    "kexec_load": (246, "0, 0, 0, 0"),
    "reboot": (169, "0xfee1dead, 672274793, 0, 0"),
    "swapon": (167, "b'/tmp/x', 0"),
    "sethostname": (170, "b'x', 1"),
    "open_by_handle_at": (304, "-1, 0, 0"),
    "name_to_handle_at": (303, "-100, b'/', 0, 0, 0"),
    "fsopen": (430, "b'tmpfs', 0"),
    "move_mount": (429, "-1, b'', -1, b'', 0"),
    "clone3 user namespace": (435, "(ctypes.c_ulong * 8)(0x10000000), 64"),
    "clone user namespace": (56, "0x10000011, 0, 0, 0, 0"),
    "settimeofday": (164, "(ctypes.c_long * 2)(0, 0), 0"),
    "syslog": (103, "3, 0, 0"),
    "chroot": (161, "b'/tmp'"),
    "personality": (135, "0x0040000"),
    "quotactl": (179, "0, 0, 0, 0"),
    "acct": (163, "0"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_system_calls(inside, name):
    number, arguments = REFUSED[name]
    assert inside.value(f"call({number}, {arguments})") in ("EPERM", "ENOSYS", "EACCES"), name


def test_unprivileged_tools_of_escape(inside):
    for command in (
        "unshare -U true",
        "unshare -m true",
        "mount -t tmpfs none /tmp",
        "chroot / true",
        "su -c true",
        "dmesg",
    ):
        assert (
            inside.value(f"__import__('subprocess').run('{command}', shell=True, capture_output=True).returncode") != 0
        ), command


def test_socket_families(inside):
    for family in (16, 17, 31, 38, 40, 44):  # netlink, packet, bluetooth, alg, vsock, xdp
        assert inside.value(f"call(41, {family}, 3, 0)") != 0, family
