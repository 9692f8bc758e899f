"""husk-init by itself, as pid 1 of a pid namespace: killing some processes and sparing others, while there are more of them
all the time. The numbers of processes are few there, so that they are used again at once."""

import array
import os
import platform
import signal
import socket
import struct
import subprocess
import sys

import pytest

import host
from service import PROGRAMS

# include/husk/init_protocol.h
VERSION, SOCKET = 2, 3
START, SIGNAL, KILL_OTHERS = 1, 2, 5
READY, STARTED, EXITED = 32, 33, 35
APART = 2
HEAD = "=IIQiIII"

PROCESSES = 64
FIRST_NUMBER = 300  # the kernel's own choice, when numbers are used again
NUMBERS = FIRST_NUMBER + PROCESSES + 8
USER = 2_000_065_400  # nobody else's; if numbers are not the limit, that of its processes is
ROUNDS = 10
# Whoever is killed is replaced at once; and the supervisor itself, with the highest number, is seen last.
SUPERVISOR = f"""
import os, signal
while os.getpid() < {NUMBERS - 4}:
    if os.fork(): os._exit(0)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while True:
    try:
        if os.fork() == 0: signal.pause()
    except OSError: pass
"""
COMMAND = "import time\nwhile True: time.sleep(0.01)"


def own_numbers():
    """Can a pid namespace have a limit of its own? Else it is the host's, and left alone."""
    return tuple(map(int, platform.release().split(".")[:2])) >= (6, 14)


SET_UP = """
mount -t tmpfs none /home && mkdir /home/user || exit 1
[ -z "$1" ] || echo "$1" >/proc/sys/kernel/pid_max || exit 1
exec {socket}<&"$2" prlimit --nproc={processes} setpriv --reuid={user} --regid={user} --clear-groups "$3"
""".format(socket=SOCKET, processes=2 * PROCESSES, user=USER)


class Init:
    def __init__(self):
        self.socket, inner = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(20)
        self.number = 0
        numbers = str(NUMBERS) if own_numbers() else ""
        with inner:
            self.helper = subprocess.Popen(
                ["unshare", "--pid", "--fork", "--mount-proc", "bash", "-c", SET_UP, "set-up"]
                + [numbers, str(inner.fileno()), str(PROGRAMS / "husk-init")],
                pass_fds=[inner.fileno()],
            )
        assert self.receive()[0] == READY

    def send(self, kind, tag=0, value=0, strings=(), flags=0, fds=()):
        text = b"".join(string.encode() + b"\0" for string in strings)
        message = struct.pack(HEAD, VERSION, kind, tag, value, len(strings), len(text), flags) + text
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.socket.sendmsg([message], rights)

    def receive(self):
        """Type, tag and value of the next message; a descriptor that comes with it is closed."""
        data, fds, *_ = socket.recv_fds(self.socket, 4096, 1)
        for fd in fds:
            os.close(fd)
        _, kind, tag, value, *_ = struct.unpack(HEAD, data[: struct.calcsize(HEAD)])
        return kind, tag, value

    def start(self, code, flags=0):
        """Give the tag of a process that runs some Python."""
        self.number += 1
        with open(os.devnull, "r+b") as null:
            fd = null.fileno()
            self.send(START, self.number, strings=(sys.executable, "-SEc", code), flags=flags, fds=[fd, fd, fd])
        assert self.receive()[:2] == (STARTED, self.number)
        return self.number

    def pid(self):
        """Its own, on the host."""
        [process] = [p for p in host.descendants(self.helper.pid) if p.parent == self.helper.pid]
        return process.pid

    def processes(self):
        """All others inside."""
        return [p for p in host.descendants(self.helper.pid) if p.parent != self.helper.pid]

    def end(self):
        self.socket.close()
        self.helper.wait(20)


@pytest.fixture
def init():
    init = Init()
    yield init
    init.end()


def test_killing_all_but_commands(init):
    """While there are more of them all the time, and init hardly gets to do anything: nobody is overlooked who has the number
    of one that was killed a moment ago, and the command goes on."""
    command = init.start(COMMAND, APART)
    for _ in range(ROUNDS):
        other = init.start(SUPERVISOR)
        host.until(lambda: len(init.processes()) >= PROCESSES, 20, "all processes there may be")
        os.setpriority(os.PRIO_PROCESS, init.pid(), 19)
        init.send(KILL_OTHERS)
        host.until(lambda: [process.state in "TZ" for process in init.processes()] == [False], 20, "the command alone")
        os.setpriority(os.PRIO_PROCESS, init.pid(), 0)
        assert init.receive()[:2] == (EXITED, other)
    init.send(SIGNAL, command, signal.SIGTERM)
    assert init.receive() == (EXITED, command, signal.SIGTERM)
