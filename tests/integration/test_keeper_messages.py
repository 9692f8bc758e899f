"""The keeper's socket: whoever speaks to it out of turn or out of form is dropped, and nothing else happens."""

import socket
import struct
import uuid

import pytest

import host

VERSION, HELLO, OPEN, ADAPT = 4, 1, 7, 8
MIB = 1 << 20
LONGEST = 1024


def message(kind, path=b"", announced=None, version=VERSION, sandbox=bytes(16), limits=(0, 0, 0, 0)):
    """struct keeper_message of include/husk/keeper_protocol.h, and a path behind it."""
    head = struct.pack("=IIQiI16s", version, kind, 4711, 0, 0, sandbox)
    limits_and_usage = struct.pack("=QQII", *limits) + bytes(32)
    return head + limits_and_usage + struct.pack("=II", len(path) if announced is None else announced, 0) + bytes(240) + path


class Keeper:
    """A connection in huskd's place: the newest one wins, and huskd takes its place back."""

    def __init__(self, service):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(10)
        self.socket.connect(str(service.state / "keeper.sock"))

    def ask(self, data):
        """The answer: status and descriptors; None when the keeper hangs up."""
        try:
            self.socket.send(data)
            while True:
                answer, descriptors, _, _ = socket.recv_fds(self.socket, 4096, 4)
                if not answer:
                    return None
                if struct.unpack_from("=Q", answer, 8) == (4711,):
                    return struct.unpack_from("=i", answer, 16)[0], descriptors
        except (BrokenPipeError, ConnectionResetError):
            return None
        finally:
            self.socket.close()


@pytest.fixture(scope="module")
def own(harness):
    service = harness.service().start()
    yield service
    harness.end(service)


def ask(service, data):
    """Until it is an answer to us: huskd may have taken its place back before we asked."""
    answers = [None]
    for _ in range(50):
        answers.append(Keeper(service).ask(data))
        if answers[-1] is not None:
            break
    return answers[-1]


def test_well_formed(own):
    status, descriptors = ask(own, message(HELLO))
    assert status == 0 and descriptors == []
    for path in (b"x", b"p" * LONGEST):
        status, descriptors = ask(own, message(OPEN, path))
        assert status == -2 and descriptors == [], "there is no such sandbox"
    status, _ = ask(own, message(OPEN))
    assert status == -22, "a path is needed"
    status, _ = ask(own, message(HELLO, version=VERSION + 1))
    assert status == -71
    status, _ = ask(own, message(99))
    assert status == -38


def test_adapt(own):
    sandbox = own.create()
    known, good = uuid.UUID(sandbox.id).bytes, (128 * MIB, 64 * MIB, 500, 32)
    assert ask(own, message(ADAPT, limits=good))[0] == -2, "there is no such sandbox"
    for place, wrong in ((0, 0), (0, 1 << 63), (1, MIB), (2, 0), (2, 1 << 31), (3, 1), (3, 1 << 31)):
        limits = [*good[:place], wrong, *good[place + 1 :]]
        assert ask(own, message(ADAPT, sandbox=known, limits=limits))[0] == -22, limits
    assert ask(own, message(ADAPT, sandbox=known, limits=good))[0] == 0
    sandbox.run("import os; disk = os.statvfs('/home/user')")
    assert sandbox.value("disk.f_blocks * disk.f_frsize") == 64 * MIB
    # More is used than these allow: nothing changes.
    sandbox.run("open('x', 'wb').write(bytes(40 << 20))")
    assert ask(own, message(ADAPT, sandbox=known, limits=(128 * MIB, 32 * MIB, 500, 32)))[0] == -16
    sandbox.run("disk = os.statvfs('/home/user')")
    assert sandbox.value("disk.f_blocks * disk.f_frsize") == 64 * MIB
    sandbox.close()


@pytest.mark.parametrize(
    "data",
    [
        b"x",
        message(HELLO)[:-1],
        message(HELLO) + b"x",
        message(HELLO, b"path"),
        message(OPEN, b"path", announced=0),
        message(OPEN, b"path", announced=3),
        message(OPEN, b"path", announced=5),
        message(OPEN, b"path", announced=0xFFFFFFFF),
        message(OPEN, b"p" * (LONGEST + 1)),
        message(OPEN, b"p" * 60_000),
        message(OPEN, b"pa\0th"),
        message(OPEN, b"\0"),
        message(OPEN, b"path\0"),
    ],
    ids=range(13),
)
def test_malformed(own, data):
    keeper = own.keeper().pid
    for _ in range(5):
        assert Keeper(own).ask(data) is None
    assert own.keeper().pid == keeper, "it is still the same"
    host.until(lambda: own.get("/health").status_code == 200, 20, "huskd to be back")
    sandbox = own.create()
    sandbox.run("open('x', 'w').write('works')")
    assert own.get(f"{sandbox.path}/download/x").content == b"works"
    sandbox.close()
