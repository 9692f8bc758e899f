"""Runs inside a sandbox: what probes are written in. In the kernel as a module, in a command as a program that reads the
probes as JSON. A probe's outcome is a text: the name of the errno that it was refused with, or what it got."""

import ctypes
import errno
import fcntl
import json
import os
import resource
import signal
import socket
import stat
import struct
import subprocess
import sys

LIBC = ctypes.CDLL(None, use_errno=True)
LARGEST = 400  # of what a probe got: enough to see what it is


def named(number):
    return errno.errorcode.get(number, str(number))


def call(number, *arguments):
    """A system call; gives its result, or raises OSError."""
    ctypes.set_errno(0)
    own = os.getpid()
    words = [ctypes.c_long(word) if isinstance(word, int) else ctypes.create_string_buffer(word) for word in arguments]
    result = LIBC.syscall(ctypes.c_long(number), *words)
    if os.getpid() != own:
        os._exit(0)  # a clone that should not be
    if result == -1:
        raise OSError(ctypes.get_errno(), "")
    return result


def control(target, *arguments):
    """An ioctl on a path, or on a descriptor or anything that has one."""
    descriptor = os.open(target, os.O_RDONLY | os.O_NONBLOCK) if isinstance(target, str) else target
    try:
        return fcntl.ioctl(descriptor, *arguments)
    finally:
        if isinstance(target, str):
            os.close(descriptor)


def terminal(*arguments):
    """An ioctl on a terminal of one's own."""
    ends = os.openpty()
    try:
        return control(ends[1], *arguments)
    finally:
        for end in ends:
            os.close(end)


def process(pid, request):
    """An ioctl on a descriptor of a process."""
    descriptor = os.pidfd_open(pid)
    try:
        return control(descriptor, request)
    finally:
        os.close(descriptor)


def prctl(*arguments):
    ctypes.set_errno(0)
    result = LIBC.prctl(*(ctypes.c_ulong(word & (1 << 64) - 1) for word in [*arguments, 0, 0, 0, 0][:5]))
    if result == -1:
        raise OSError(ctypes.get_errno(), "")
    return result


def read(path, size=64):
    with open(path, "rb", buffering=0) as file:
        return file.read(size)


def write(path, data=b"1"):
    """Into a file that must exist."""
    descriptor = os.open(path, os.O_WRONLY)
    try:
        return os.write(descriptor, data)
    finally:
        os.close(descriptor)


def status(who, key):
    with open(f"/proc/{who}/status") as lines:
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith(key + ":"))


def connect(address, kind=socket.SOCK_STREAM, family=None):
    """To an address; a text is that of a unix socket."""
    if family is None:
        family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    with socket.socket(family, kind) as probe:
        probe.settimeout(3)
        probe.connect(address)
        return "connected"


def option(*arguments, kind=socket.SOCK_STREAM):
    with socket.socket(socket.AF_INET, kind) as probe:
        return probe.setsockopt(*arguments)


def resolve(name):
    try:
        return socket.getaddrinfo(name, 80)
    except socket.gaierror as error:
        return {socket.EAI_AGAIN: "EAI_AGAIN", socket.EAI_NONAME: "EAI_NONAME"}.get(error.errno, str(error))


def through(chain, path="etc/passwd"):
    """Opens a path from a descriptor of a folder, the way that leaked descriptors are used."""
    folder = os.open(chain, os.O_PATH)
    try:
        return os.open(path, os.O_RDONLY, dir_fd=folder)
    finally:
        os.close(folder)


def same(one, other):
    first, second = os.stat(one), os.stat(other)
    return (first.st_dev, first.st_ino) == (second.st_dev, second.st_ino)


def ran(*words, **options):
    """The exit code of a program; OSError if there is no such program."""
    return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=10, **options).returncode


def said(*words):
    return subprocess.run(words, capture_output=True, timeout=30, text=True, check=False).stdout.strip()


def as_setuid(path):
    """Make a setuid copy of a program that tells who it runs as, and run it."""
    with open("/usr/bin/id", "rb") as source, open(path, "wb") as copy:
        copy.write(source.read())
    os.chmod(path, 0o6755)
    assert stat.S_IMODE(os.stat(path).st_mode) & 0o6000
    return said(path, "-u")


def from_memory():
    """A program that is in no file; it has what everything else here has."""
    file = os.memfd_create("program", 0)
    with open("/usr/bin/cat", "rb") as source:
        os.write(file, source.read())
    text = subprocess.run(
        ["cat", "/proc/self/status"], executable=f"/proc/self/fd/{file}", pass_fds=[file], capture_output=True, text=True
    ).stdout
    os.close(file)
    lines = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
    return lines["CapEff"], lines["NoNewPrivs"], lines["Seccomp"]


def core_dump(folder):
    """Crash in a folder, and tell what the crash left there."""
    os.makedirs(folder, exist_ok=True)
    pid = os.fork()
    if pid == 0:
        os.chdir(folder)
        os.abort()
    _, code = os.waitpid(pid, 0)
    return os.WTERMSIG(code) == signal.SIGABRT, os.WCOREDUMP(code), os.listdir(folder)


def passed_folder():
    """The root folder as a descriptor from another process, by a socket, and the way up from it."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        socket.send_fds(theirs, [b"x"], [os.open("/", os.O_PATH)])
        os._exit(0)
    _, [folder], _, _ = socket.recv_fds(ours, 1, 1)
    os.waitpid(pid, 0)
    above = os.open("../../..", os.O_PATH, dir_fd=folder)
    inodes = os.stat(folder).st_ino, os.stat(above).st_ino
    os.close(folder), os.close(above), ours.close(), theirs.close()
    return inodes[0] == inodes[1]


def credentials(pid, user):
    """Claim to be somebody else on a socket."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with ours, theirs:
        return ours.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_CREDENTIALS, struct.pack("3i", pid, user, user))])


def outcome(code):
    try:
        return repr(eval(code, globals()))[:LARGEST]
    except OSError as error:
        return named(error.errno)
    except Exception as error:
        return repr(error)


def run(probes):
    return {name: outcome(code) for name, code in json.loads(probes).items()}


if __name__ == "__main__":
    print(json.dumps(run(sys.stdin.read())))
