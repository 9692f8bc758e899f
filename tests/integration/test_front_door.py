"""The front door: spellings that two servers in a row would read differently, giants, dawdlers and crowds."""

import contextlib
import json
import random
import re
import resource
import socket
import threading

import pytest

import host
from service import later, sanitized_huskd

HOST = b"Host: localhost\r\n"
GET = b"GET /health HTTP/1.1\r\n" + HOST
POST = b"POST /sandbox/nobody/execute HTTP/1.1\r\n" + HOST
# What an attacker would have the server take for a request of its own.
HIDDEN = b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: hidden\r\n\r\n"


def connect(service, seconds=20):
    return socket.create_connection(("127.0.0.1", service.port), seconds)


def converse(service, data, ends=True):
    """Send bytes; everything that comes back until the other side closes, and whether it did. `ends`: wait for that."""
    with connect(service, 20 if ends else 1) as peer:
        received = b""
        try:
            peer.sendall(data)
            while part := peer.recv(65536):
                received += part
        except ConnectionResetError:
            pass
        except TimeoutError:
            return received, False
        return received, True


def statuses(received):
    return [int(status) for status in re.findall(rb"HTTP/1\.[01] (\d+) ", received)]


# --- smuggling ---

REFUSED = {
    "two lengths, equal": POST + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
    "two lengths, different": POST + b"Content-Length: 3\r\nContent-Length: 5\r\n\r\nabc",
    "a list of lengths": POST + b"Content-Length: 3, 3\r\n\r\nabc",
    "a length with a sign": POST + b"Content-Length: +3\r\n\r\nabc",
    "a negative length": POST + b"Content-Length: -3\r\n\r\nabc",
    "a hexadecimal length": POST + b"Content-Length: 0x3\r\n\r\nabc",
    "a length with a blank": POST + b"Content-Length: 3 3\r\n\r\nabc",
    "an empty length": POST + b"Content-Length: \r\n\r\nabc",
    "a length beyond 64 bits": POST + b"Content-Length: 18446744073709551619\r\n\r\nabc",
    "length and chunked": POST + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunked and length": POST + b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
    "chunked twice": POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunked and identity": POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "a list of encodings": POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "chunked twice in a list": POST + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    "an unknown encoding": POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "a vertical tab before chunked": POST + b"Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n",
    "a blank before the colon, length": POST + b"Content-Length : 3\r\n\r\nabc",
    "a blank before the colon, chunked": POST + b"Transfer-Encoding : chunked\r\nContent-Length: 3\r\n\r\nabc",
    "folded length": POST + b"Content-Length:\r\n 3\r\n\r\nabc",
    "folded chunked": POST + b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
    "folded into a name": POST + b"Content-Lengt: 3\r\n h\r\n\r\nabc",
    "folded with a tab": GET + b"X: a\r\n\tb\r\n\r\n",
    "folded, a length in it": GET + b"X: a\r\n Content-Length: 3\r\n\r\n",
    "folded, made up for by bare LFs": GET + b"A:b\r\nC:d\nE:f\nX:a\r\n g\r\n\r\n",
    "a first line that is folded": b"GET /health HTTP/1.1\r\n Host: localhost\r\n\r\n",
    "bare LFs": b"GET /health HTTP/1.1\nHost: localhost\n\n",
    "a bare LF in a header": POST + b"X: a\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nabc",
    "a bare LF at the end": GET + b"X: a\r\n\n",
    "a bare CR in a header": POST + b"X: a\rTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nabc",
    "a NUL in a value": GET + b"X: a\0b\r\n\r\n",
    "a NUL in a value, others behind it": GET + b"X: a\0b\r\nY: c\r\n\r\n",
    "a NUL in a name": GET + b"X\0Y: a\r\n\r\n",
    "a NUL after chunked": POST + b"Transfer-Encoding: chunked\0\r\n\r\n0\r\n\r\n",
    "a NUL after a length": POST + b"Content-Length: 3\0\r\n\r\nabc",
    "a NUL in the target": b"GET /health\0x HTTP/1.1\r\n" + HOST + b"\r\n",
    "a line without a colon": GET + b"Xfoo\r\n\r\n",
    "a header without a name": GET + b": foo\r\n\r\n",
    "a blank in a name": GET + b"X Y: foo\r\n\r\n",
    "a bracket in a name": GET + b"X(Y: foo\r\n\r\n",
    "a target of another host": b"GET http://evil.example/health HTTP/1.1\r\n" + HOST + b"\r\n",
    "a target with a user": b"GET http://evil.example@localhost/health HTTP/1.1\r\n" + HOST + b"\r\n",
    "two hosts, equal": GET + HOST + b"\r\n",
    "two hosts, different": GET + b"Host: evil\r\n\r\n",
    "no host": b"GET /health HTTP/1.1\r\n\r\n",
    "no version": b"GET /health\r\n\r\n",
    "another version": b"GET /health HTTP/2.0\r\n" + HOST + b"\r\n",
    "a version in lower case": b"GET /health http/1.1\r\n" + HOST + b"\r\n",
    "two blanks": b"GET  /health HTTP/1.1\r\n" + HOST + b"\r\n",
    "a blank in the target": b"GET /hea lth HTTP/1.1\r\n" + HOST + b"\r\n",
    "tabs": b"GET\t/health\tHTTP/1.1\r\n" + HOST + b"\r\n",
    "the preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a chunk with no size": POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n",
    "a chunk of 0x3": POST + b"Transfer-Encoding: chunked\r\n\r\n0x3\r\nabc\r\n0\r\n\r\n",
    "a chunk of a negative size": POST + b"Transfer-Encoding: chunked\r\n\r\n-3\r\nabc\r\n0\r\n\r\n",
    "a chunk of a giant size": POST + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nabc\r\n0\r\n\r\n",
    "a chunk longer than it says": POST + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabcX0\r\n\r\n",
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_and_closed(service, case):
    """Whatever follows on the connection is not taken for a request."""
    received, closed = converse(service, REFUSED[case] + HIDDEN)
    assert closed and b"hidden" not in received, received
    assert set(statuses(received)) <= {400, 413, 505}, received
    assert b"<html" not in received.lower()


# A chunked body is where libmicrohttpd 0.9 is lenient: nothing is read after it. From 1.0 on it is strict, and what follows a
# body that is well-formed is the next request.
CHUNKED = {
    "plain": b"3\r\nabc\r\n0\r\n\r\n",
    "extensions": b'3;x="y"\r\nabc\r\n0;z\r\n\r\n',
    "bare LFs": b"3\nabc\n0\n\n",
    "a length behind it": b"0\r\nContent-Length: 50\r\n\r\n",
    "a host and a key behind it": b"0\r\nHost: evil\r\nAuthorization: Bearer x\r\n\r\n",
}


@pytest.mark.parametrize("case", CHUNKED)
def test_after_a_chunked_body(service, case):
    following = HIDDEN.removesuffix(b"\r\n") + b"Connection: close\r\n\r\n"
    received, closed = converse(service, POST + b"Transfer-Encoding: chunked\r\n\r\n" + CHUNKED[case] + following)
    clear = case != "bare LFs"
    assert closed and statuses(received) in [[404], [400], *([[404, 200]] if clear else [])], received


@pytest.mark.parametrize(
    "data",
    [
        b"GET http://localhost/health HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n",
        b"\r\n" + GET + b"Connection: close\r\n\r\n",
        GET + b"X:no-blank\r\nConnection:close\r\n\r\n",
        GET + b"X:   blanks\t \r\nEmpty:\r\nConnection: close\r\n\r\n",
        GET + b"Content-Length: 3\r\nConnection: close\r\n\r\nabc",
        GET + b"Content-Length: 0003\r\nConnection: close\r\n\r\nabc",
        GET + b"X: \xe4\xf6\xfc\r\nConnection: close\r\n\r\n",
        GET + b"Upgrade: h2c\r\nConnection: Upgrade, close\r\n\r\n",
        GET.replace(b"health", b"health?a=b&c") + b"Cookie: a=b; c=d\r\nConnection: close\r\n\r\n",
    ],
)
def test_unusual_but_clear(service, data):
    received, closed = converse(service, data)
    assert closed and statuses(received) == [200] and b'"healthy"' in received, received


# --- pieces, pipelines ---


def test_in_any_pieces(service):
    """Headers are judged by where their bytes are: how they were cut on the way must not matter."""
    chance = random.Random(5)
    lines = b"".join(b"X-%d: %s\r\n" % (number, b"y" * chance.randrange(200)) for number in range(120))
    data = GET + lines + b"Connection: close\r\n\r\n"
    assert 8_000 < len(data) < 16_000
    for cuts in (1, 3, 50, 400):
        places = [0, *sorted(chance.sample(range(1, len(data)), cuts)), len(data)]
        with connect(service) as peer:
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for start, end in zip(places, places[1:]):
                peer.sendall(data[start:end])
            received = b""
            while part := peer.recv(65536):
                received += part
        assert statuses(received) == [200], (cuts, received)


def test_byte_by_byte(service):
    data = POST.replace(b"nobody", b"x" * 40) + b"Content-Length: 5\r\nConnection: close\r\n\r\nabcde"
    with connect(service) as peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for place in range(len(data)):
            peer.sendall(data[place : place + 1])
        received = b""
        while part := peer.recv(65536):
            received += part
    assert statuses(received) == [404]


def test_long_pipeline(service, shared):
    """Hundreds of requests at once, of several kinds: each is answered, in order."""
    execute = f"POST {shared.path}/execute HTTP/1.1\r\n".encode() + HOST
    parts, expected = [], []
    for number in range(300):
        code = b"print('answer %d')" % number
        if number % 30 == 0:
            parts.append(execute + b"Content-Length: %d\r\n\r\n" % len(code) + code)
            expected.append(b'"answer %d\\n"' % number)
        else:
            parts.append(GET + b"X-Request-Id: number-%d\r\n\r\n" % number)
            expected.append(b"number-%d\r" % number)
    parts.append(GET + b"Connection: close\r\n\r\n")
    received, closed = converse(service, b"".join(parts))
    assert closed and statuses(received) == [200] * 301
    places = [received.index(mark) for mark in expected]
    assert places == sorted(places)


# --- giants ---


@pytest.mark.parametrize(
    "data",
    [
        GET + b"".join(b"X%d: y\r\n" % number for number in range(5_000)) + b"\r\n",
        GET + b"".join(b"X%d: y\r\n" % number for number in range(300_000)) + b"\r\n",
        GET + b"X: " + b"y" * 20_000 + b"\r\n\r\n",
        GET + b"X: " + b"y" * 4_000_000 + b"\r\n\r\n",
        GET + b"x" * 100_000 + b": y\r\n\r\n",
        GET + b"Cookie: " + b"a=b; " * 20_000 + b"\r\n\r\n",
        b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n",
        b"GET /" + b"x" * 4_000_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n",
        b"GET /health?" + b"a&" * 7_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n",
        b"G" * 1_000_000 + b" / HTTP/1.1\r\n" + HOST + b"\r\n",
    ],
    ids=lambda data: f"{len(data)}-{data[:14]!r}",
)
def test_giants(service, bounded, data):
    received, closed = b"", True
    with contextlib.suppress(BrokenPipeError):
        received, closed = converse(service, data + HIDDEN)
    assert closed and b"hidden" not in received
    assert set(statuses(received)) <= {400, 414, 431}, received[:300]
    assert service.get("/health").status_code == 200


def test_as_large_as_allowed(service):
    line = GET + b"Connection: close\r\nX: "
    room = 16 * 1024 - len(line) - 4
    received, _ = converse(service, line + b"y" * room + b"\r\n\r\n")
    assert statuses(received) == [200]
    received, _ = converse(service, line + b"y" * (room + 1) + b"\r\n\r\n")
    assert statuses(received) == [431]


def memory(service):
    return host.Process(service.process.pid).resident_bytes


def megabytes(count):
    """Sanitizers need a multiple."""
    return (count << 20) * (6 if sanitized_huskd() else 1)


def test_giants_leave_nothing(private):
    """Requests that end before their headers do: nothing is kept of them."""
    service = private().start()
    data = b"GET /health?" + b"a&" * 7_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n" + HIDDEN

    def send(count):
        """Whoever sends that does not wait for an answer."""
        for _ in range(count):
            with connect(service) as peer, contextlib.suppress(ConnectionError):
                peer.sendall(data)
        host.until(lambda: host.Process(service.process.pid).descriptors() < 60, 30, "the connections to be gone")

    send(200)
    before = memory(service)
    send(2000)
    # AddressSanitizer holds back 256 MB of what is freed; LeakSanitizer says at the end what was not.
    limit = 300 << 20 if sanitized_huskd() else 10 << 20
    assert memory(service) - before < limit, "2,000 of them would be 28 MB"
    assert service.stop() == 0


# --- dawdlers and crowds ---


class Crowd:
    """Many connections. A context manager: leaving it closes them."""

    def __init__(self, service):
        self.service = service
        self.peers = []

    def __enter__(self):
        self.limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (self.limits[1], self.limits[1]))
        return self

    def __exit__(self, *_):
        for peer in self.peers:
            peer.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, self.limits)

    def grow(self, count, *beginnings):
        for number in range(count):
            peer = connect(self.service)
            self.peers.append(peer)
            self.send(peer, beginnings[number % len(beginnings)] if beginnings else b"")

    @staticmethod
    def send(peer, data):
        """Some are shut out already, and that is fine."""
        with contextlib.suppress(ConnectionError):
            peer.sendall(data)

    def drip(self, stop):
        while not stop.wait(0.05):
            for peer in self.peers:
                self.send(peer, b"x")


def test_slowloris(service, create):
    """Hundreds of clients that send a byte now and then: in their headers, in a body, in a chunk, in one that was refused."""
    sandbox = create()
    stop = threading.Event()
    with Crowd(service) as crowd:
        crowd.grow(
            400,
            b"GET /health HTTP/1.1\r\nX-",
            b"G",
            POST + b"Content-Length: 100000\r\n\r\n",
            POST + b"Transfer-Encoding: chunked\r\n\r\n8000\r\n",
            f"PUT {sandbox.path}/files/slow HTTP/1.1\r\n".encode() + HOST + b"Content-Length: 100000\r\n\r\n",
        )
        dripping = later(crowd.drip, stop)
        try:
            for number in range(20):
                assert service.get("/health").status_code == 200
                assert sandbox.run(f"print({number})") == f"{number}\n"
        finally:
            stop.set()
        dripping.result(60)




def test_ten_thousand_idle_connections(private):
    """They come, they stay, they want nothing. Who wants something is served; what was begun goes on; memory is bounded."""
    service = private().start()
    sandbox = service.create()
    with sandbox.stream("import time\nfor i in range(10**9): print(i); time.sleep(0.05)") as stream, Crowd(service) as crowd:
        stream.until("stdout")
        for _ in range(20):
            crowd.grow(500)
            assert service.get("/health").status_code == 200
        assert sandbox.command("echo here")["stdout"] == "here\n"
        stream.until("stdout")
        process = host.Process(service.process.pid)
        assert process.descriptors() < 4500
        assert memory(service) < megabytes(100)
        other = service.create()
        assert other.works()
    host.until(lambda: host.Process(service.process.pid).descriptors() < 200, 60, "the connections to be gone")
    sandbox.until_state("ready")
    assert sandbox.works() and other.works()


def test_crowd_with_half_requests(private):
    """The same with as much in each connection as it takes: still bounded, and still there is room for who has a request."""
    service = private().start()
    with Crowd(service) as crowd:
        beginnings = (GET + b"X: " + b"y" * 12_000, POST + b"Content-Length: 200000\r\n\r\n" + b"z" * 10_000)
        for _ in range(10):
            crowd.grow(600, *beginnings)
            assert service.get("/health").status_code == 200
        assert memory(service) < megabytes(400)
    assert service.create().works()


def test_few_descriptors(private):
    """With a low limit there are fewer places for connections, and some are left for sandboxes."""
    few = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))}
    service = private(user=few).start()
    with Crowd(service) as crowd:
        for _ in range(4):
            crowd.grow(400)
            assert service.get("/health").status_code == 200
        sandbox = service.create()
        assert sandbox.works()
        assert host.Process(service.process.pid).descriptors() < 800
    assert sandbox.works()


def test_refused_callers_make_room(private):
    """Strangers without a key cannot hold connections by sending bodies slowly."""
    service = private(config="[server]\napi_key = correct-horse-battery\n").start()
    key = {"X-API-Key": "correct-horse-battery"}
    sandbox = json.loads(service.post("/sandbox/create", headers=key).text)["sandbox_id"]
    with Crowd(service) as crowd:
        beginning = f"POST /sandbox/{sandbox}/execute HTTP/1.1\r\n".encode() + HOST + b"Content-Length: 1000\r\n\r\nx"
        for _ in range(10):
            crowd.grow(500, beginning)
            assert service.get(f"/sandbox/{sandbox}", headers=key).status_code == 200
        assert host.Process(service.process.pid).descriptors() < 4500
