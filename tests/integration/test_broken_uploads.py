"""Uploads that do not end well, and very large ones: nothing is left of the former, and the latter cost no memory."""

import contextlib
import hashlib
import http.client
import os
import signal
import socket
from pathlib import Path

import pytest

import host
from service import problem, sanitized
from test_upload import content, form, listing, post_form, put, used

MEGABYTE = 1 << 20
GIGABYTE = 1 << 30


def nameless(sandbox):
    """How many files without a name huskd holds."""
    count = 0
    for link in Path(f"/proc/{sandbox.service.process.pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            count += "(deleted)" in os.readlink(link)
    return count


def nothing_left(sandbox, disk):
    """No file with or without a name, and the disk as empty as before."""
    host.until(lambda: nameless(sandbox) == 0, 30, "the files to be closed")
    host.until(lambda: used(sandbox) <= disk, 30, "the disk to be as it was")
    assert listing(sandbox) == {"kept": 4} and content(sandbox, "kept") == b"kept"


@pytest.fixture
def kept(sandbox):
    """A sandbox with a file in it, and how to see that nothing has been added."""
    put(sandbox, "kept", b"kept")
    disk = used(sandbox)
    return sandbox, lambda: nothing_left(sandbox, disk)


def send_part(sandbox, head, body):
    """Send the start of a request, and go away."""
    with socket.create_connection(("127.0.0.1", sandbox.service.port), 10) as peer:
        peer.sendall(head.encode() + body)


def test_cut_at_every_byte(kept):
    sandbox, check = kept
    body = form(('name="file"; filename="kept"', b"new content"), ('name="file"; filename="other"', b"x"), ('name="file_path"', b"./"))
    head = f"POST {sandbox.path}/upload HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=XX\r\nContent-Length: {len(body)}\r\n\r\n"
    for length in range(0, len(body), 3):
        send_part(sandbox, head, body[:length])
    check()


def test_cut_put(kept):
    sandbox, check = kept
    for length in (0, 1, 1000, 100_000, 3 * MEGABYTE):
        head = f"PUT {sandbox.path}/files/kept HTTP/1.1\r\nHost: localhost\r\nContent-Length: {4 * MEGABYTE}\r\n\r\n"
        send_part(sandbox, head, b"x" * length)
        head = f"PUT {sandbox.path}/files/kept HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n{length + 1:x}\r\n"
        send_part(sandbox, head, b"x" * length)
    check()


def test_disk_full(create):
    """507, the old file stays, and what did not fit takes no room."""
    sandbox = create(disk_mb=32)
    put(sandbox, "kept", b"kept")
    disk = used(sandbox)
    for _ in range(2):
        problem(put(sandbox, "kept", b"x" * (64 * MEGABYTE)), 507, "disk_full")
        problem(put(sandbox, "new/folder/file", (b"x" * MEGABYTE for _ in range(64))), 507, "disk_full")
        answer = post_form(sandbox, form(('name="file"; filename="a"', b"a"), ('name="file"; filename="kept"', b"x" * (64 * MEGABYTE))))
        problem(answer, 507, "disk_full")
    nothing_left(sandbox, disk)
    assert sandbox.value("sorted(__import__('os').listdir('.'))") == ["kept"]
    assert put(sandbox, "kept", b"x" * (20 * MEGABYTE)).status_code == 200


def test_no_inodes_left(create):
    """Names need room, too."""
    sandbox = create(disk_mb=16)
    sandbox.run("""
import os
os.mkdir('many')
try:
    for number in range(100_000):
        open(f'many/{number}', 'w').close()
except OSError as error:
    print(error.errno)
""")
    problem(put(sandbox, "more/folders/x", b"x"), 507, "disk_full")
    problem(post_form(sandbox, form(('name="file"; filename="x"', b"x"))), 507, "disk_full")
    assert sandbox.value("sorted(os.listdir('.'))") == ["many"]
    # It can still be emptied.
    assert sandbox.service.delete(f"{sandbox.path}/files/many").status_code == 200
    assert sandbox.value("os.listdir('.')") == []


def begin_put(sandbox, path, sent, announced):
    peer = socket.create_connection(("127.0.0.1", sandbox.service.port), 10)
    peer.sendall(f"PUT {sandbox.path}/files/{path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {announced}\r\n\r\n".encode())
    peer.sendall(b"x" * sent)
    return peer


def test_huskd_is_killed(private):
    service = private().start()
    sandbox = service.create()
    put(sandbox, "kept", b"kept")
    disk = used(sandbox)
    peers = [begin_put(sandbox, "kept", 5 * MEGABYTE, 10 * MEGABYTE) for _ in range(3)]
    host.until(lambda: used(sandbox) > disk + 4 * MEGABYTE, 20, "the upload to be under way")
    os.kill(service.process.pid, signal.SIGKILL)
    service.process.wait()
    service.start()
    for peer in peers:
        peer.close()
    host.until(lambda: used(sandbox) <= disk, 20, "the disk to be as it was")
    assert listing(sandbox) == {"kept": 4} and content(sandbox, "kept") == b"kept"


def test_keeper_is_killed(private):
    """An upload that has its file needs the keeper again at its end: it waits for the next one, or says so."""
    service = private().start()
    sandbox = service.create()
    for number in range(3):
        peer = begin_put(sandbox, f"f{number}", MEGABYTE, 2 * MEGABYTE)
        host.until(lambda: used(sandbox) > number * MEGABYTE, 20, "the upload to be under way")
        keeper = service.keeper().pid
        os.kill(keeper, signal.SIGKILL)
        peer.sendall(b"x" * MEGABYTE)
        answer = peer.recv(1000)
        assert answer.split()[1] in (b"201", b"503"), answer
        peer.close()
        host.until(lambda: [p for p in service.programs("husk-keeper") if p.pid != keeper], 20, "another keeper")
        host.until(lambda: service.get("/health").status_code == 200, 20, "the service to be well")
        host.until(lambda: put(sandbox, f"f{number}", b"y" * 2 * MEGABYTE).status_code in (200, 201), 20, "uploads to work")
    assert listing(sandbox) == {f"f{number}": 2 * MEGABYTE for number in range(3)}


def test_sandbox_is_closed_meanwhile(create):
    sandbox = create()
    peer = begin_put(sandbox, "x", MEGABYTE, 2 * MEGABYTE)
    host.until(lambda: used(sandbox) > MEGABYTE, 20, "the upload to be under way")
    assert sandbox.close().status_code == 200
    peer.sendall(b"x" * MEGABYTE)
    assert peer.recv(1000).startswith(b"HTTP/1.1 410")
    peer.close()


def test_sandbox_uses_the_file(create):
    """While it is written nothing of it can be seen inside, not even by who looks all the time."""
    sandbox = create()
    peer = begin_put(sandbox, "whole", MEGABYTE, 2 * MEGABYTE)
    host.until(lambda: used(sandbox) >= MEGABYTE and nameless(sandbox) == 1, 20, "the upload to be under way")
    assert sandbox.value("sorted(__import__('os').listdir('.'))") == []
    peer.sendall(b"x" * MEGABYTE)
    assert peer.recv(1000).startswith(b"HTTP/1.1 201")
    peer.close()
    assert listing(sandbox) == {"whole": 2 * MEGABYTE}


class Pattern:
    """A file-like gigabyte that costs no memory: every block is different."""

    def __init__(self, size):
        self.left, self.number, self.digest = size, 0, hashlib.sha256()
        self.block = os.urandom(MEGABYTE - 8)

    def __iter__(self):
        while self.left > 0:
            data = (self.number.to_bytes(8, "big") + self.block)[: self.left]
            self.number += 1
            self.left -= len(data)
            self.digest.update(data)
            yield data


def health_while(service, huskd, work):
    """Run generator `work`; between its steps ask for /health. The slowest answer and the most memory."""
    slowest, highest = 0.0, 0
    for step, _ in enumerate(work):
        if step % 64 == 0:
            slowest = max(slowest, service.get("/health").elapsed.total_seconds())
            highest = max(highest, huskd.resident_bytes)
    return slowest, highest


def test_a_gigabyte(private):
    """1 GiB in and out: the same bytes, huskd does not grow, and /health is answered meanwhile."""
    service = private().start()
    sandbox = service.create(disk_mb=1100)
    huskd = host.Process(service.process.pid)
    service.get("/health")
    before = huskd.resident_bytes
    pattern = Pattern(GIGABYTE)
    sending = http.client.HTTPConnection("127.0.0.1", service.port, timeout=120)
    sending.putrequest("PUT", f"{sandbox.path}/files/large")
    sending.putheader("Content-Length", str(GIGABYTE))
    sending.endheaders()
    slowest, highest = health_while(service, huskd, (sending.send(block) for block in pattern))
    answer = sending.getresponse()
    assert answer.status == 201, answer.read()
    sending.close()

    receiving = http.client.HTTPConnection("127.0.0.1", service.port, timeout=120)
    receiving.request("GET", f"{sandbox.path}/download/large")
    answer = receiving.getresponse()
    digest = hashlib.sha256()
    blocks = iter(lambda: answer.read(MEGABYTE), b"")
    slow_out, high_out = health_while(service, huskd, (digest.update(block) for block in blocks))
    receiving.close()
    assert digest.digest() == pattern.digest.digest()
    assert max(slowest, slow_out) < 2
    assert max(highest, high_out) - before < (64 if sanitized() else 8) * MEGABYTE
