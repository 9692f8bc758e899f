"""The state directory is spoilt, of another version, read-only, full or gone: huskd says what is wrong, and nothing is lost that could be
kept."""

import contextlib
import os
import signal
import socket
import struct
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

import host
from service import StartFailed, problem


@contextlib.contextmanager
def file_system(folder, options):
    """A small file system of its own at this folder."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "husk-test", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


# --- what lies in it ---


LEDGERS = {
    "empty": b"",
    "garbage": os.urandom(5000),
    "half an entry": b"\x01" * 7,
    "ids of nobody": b"\x11" * 16 * 256,
    "huge": b"\xff" * (1 << 20),
}


@pytest.mark.parametrize("ledger", LEDGERS.values(), ids=LEDGERS)
def test_ledger_of_the_pool(private, ledger):
    """Sandboxes that are somebody's do not depend on it; those that waited are used or removed, and none is given away twice."""
    service = private(pool=2).start()
    sandbox = service.create(name="mine")
    sandbox.run("variable = 'kept'")
    host.until(lambda: service.get("/health").json()["sandboxes"]["warm"] == 2, 30, "the pool to fill")
    service.stop(signal.SIGKILL)
    (service.state / "pool").write_bytes(ledger)
    service.start()
    assert list(service.sandboxes()) == [sandbox.id]
    assert sandbox.value("variable") == "kept"
    host.until(lambda: service.get("/health").json()["sandboxes"]["warm"] == 2, 30, "the pool to fill")
    host.until(lambda: len(service.programs("husk-shim")) == 3, 30, "those that nobody knows to go")
    made = [service.create() for _ in range(4)]
    assert len({one.id for one in made} | {sandbox.id}) == 5
    assert all(one.works() for one in made)


def test_files_of_somebody_else(private):
    """What does not belong there is left alone, and does no harm."""
    service = private()
    service.state.mkdir()
    (service.state / "notes.txt").write_text("mine")
    (service.state / "keeper.sock").write_text("no socket")
    service.start()
    assert service.create().works()
    assert service.stop(signal.SIGINT) == 0
    host.until(service.is_gone, 15, "the end")
    assert (service.state / "notes.txt").read_text() == "mine"
    (service.state / "notes.txt").unlink()


@pytest.mark.parametrize("name", ["lock", "anchor.lock", "pool", "shims"])
@pytest.mark.parametrize("what", ["folder", "link"])
def test_names_that_are_taken(private, folder, name, what):
    """By something else: huskd works all the same, or says which name it is. A link is never followed."""
    service = private()
    service.state.mkdir()
    victim = folder / "victim"
    victim.write_text("stays")
    if what == "folder":
        (service.state / name).mkdir()
        (service.state / name / "content").write_text("stays")
    else:
        (service.state / name).symlink_to(victim)
    try:
        service.start()
        assert service.create().works()
        service.stop(signal.SIGINT)
    except StartFailed as failed:
        assert name in failed.text and "Sanitizer" not in failed.text, failed.text
    assert victim.read_text() == "stays"
    host.until(service.is_gone, 15, "the end")
    subprocess.run(["rm", "-rf", str(service.state)], check=True)


# --- another version ---


def test_keeper_of_another_version(private):
    """A keeper that speaks other messages is left alone with its sandboxes; who starts huskd hears what to do."""
    service = private()
    service.state.mkdir()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(str(service.state / "keeper.sock"))
    listener.listen()

    def answer():
        peer, _ = listener.accept()
        question = peer.recv(4096)
        peer.send(struct.pack("<II", 99, 1) + question[8:])
        peer.recv(4096)

    with ThreadPoolExecutor() as pool:
        pool.submit(answer)
        failed = service.fails_to_start()
    assert "another version" in failed.text and "Stop" in failed.text, failed.text
    listener.close()
    (service.state / "keeper.sock").unlink()


def test_shim_with_a_record_of_another_version(private):
    """What a sandbox's record says is checked; one that cannot be read ends with a line in the log, the others stay."""
    service = private().start()
    good, bad = service.create(name="good"), service.create(name="bad")
    good.run("variable = 'kept'")
    service.stop(signal.SIGKILL)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as shim:
        shim.connect(str(service.state / "shims" / bad.id))
        record = b'{"version": 99, "name": "bad"}'
        shim.sendall(struct.pack("<HHIQ", 1, 3, len(record), 0) + record)  # SHIM_RECORD
        shim.sendall(struct.pack("<HHIQ", 1, 1, 0, 0))  # SHIM_HELLO: its answer says that the record was taken
        assert b'"version"' in shim.recv(65536)
    service.start()
    assert list(service.sandboxes()) == [good.id] and good.value("variable") == "kept"
    assert "version" in service.log() and bad.id in service.log()
    host.until(lambda: len(service.programs("husk-shim")) == 1, 15, "the other one to go")


# --- no room, no permission ---


def test_read_only(private, folder):
    service = private()
    with file_system(folder, "ro,size=1m"):
        service.state = folder / "state"
        failed = service.fails_to_start()
        assert str(service.state) in failed.text and "--state" in failed.text, failed.text
        assert "Read-only file system" in failed.text


def test_full_at_the_start(private, folder):
    service = private()
    with file_system(folder, "mode=755,size=1m,nr_inodes=3"):
        service.state = folder / "state"
        failed = service.fails_to_start()
        assert "No space left" in failed.text and str(service.state) in failed.text, failed.text
    host.until(service.is_gone, 15, "the end")


def test_full_while_it_runs(private, folder):
    """No sandbox can be made, which is told with the reason; those that are there go on. With room it works again."""
    service = private()
    with file_system(folder, "mode=755,size=4m,nr_inodes=200"):
        service.state = folder / "state"
        service.start()
        sandbox = service.create()
        with contextlib.suppress(OSError):
            for number in range(300):
                (folder / f"filler-{number}").touch()
        refused = problem(service.post("/sandbox/create"), 503)
        assert "No space left" in refused["detail"], refused
        assert sandbox.works()
        for filler in folder.glob("filler-*"):
            filler.unlink()
        another = service.create()
        assert another.works() and another.close().status_code == 200
        service.end()


def test_not_a_folder(private, folder):
    service = private()
    service.state = folder / "file"
    service.state.touch()
    failed = service.fails_to_start()
    assert "--state" in failed.text and str(service.state) in failed.text, failed.text
    service.state.unlink()
