"""A service that is none: it answers as it is told, byte by byte, and notes what it was asked."""

import json
import socket
import threading
from contextlib import suppress
from itertools import chain, repeat

CLOSE = "Connection: close\r\n"
HEAD = "HTTP/1.1 {status} Said So\r\nContent-Type: {type}\r\n" + CLOSE + "{more}\r\n"


def answer(body, status=200, kind="application/json", more=""):
    """An answer with its length."""
    if not isinstance(body, bytes):
        body = json.dumps(body).encode()
    head = HEAD.format(status=status, type=kind, more=f"Content-Length: {len(body)}\r\n{more}")
    return head.encode() + body


def chunked(parts, end=True, kind="application/x-ndjson", status=200):
    """An answer in chunks."""
    head = HEAD.format(status=status, type=kind, more="Transfer-Encoding: chunked\r\n").encode()
    return head + b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + (b"0\r\n\r\n" if end else b"")


def events(*objects):
    """Events of a stream, each a chunk of its own."""
    return chunked([json.dumps(event).encode() + b"\n" for event in objects])


def read_request(peer):
    """The head of a request, and its body if that has a length or chunks; None when there is none."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = peer.recv(65536)
        if not piece:
            return None
        data += piece
    head, body = data.split(b"\r\n\r\n", 1)
    fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head.decode().split("\r\n")[1:])}
    if fields.get("expect"):
        peer.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
    length = int(fields.get("content-length", 0))
    while len(body) < length or (fields.get("transfer-encoding") == "chunked" and not body.endswith(b"0\r\n\r\n")):
        piece = peer.recv(65536)
        if not piece:
            return None
        body += piece
    return Request(head.decode().split("\r\n")[0], fields, body)


class Request:
    def __init__(self, line, fields, body):
        self.line, self.fields, self.body = line, fields, body

    def __repr__(self):
        return f"{self.line} {self.fields} {self.body[:200]}"


class FakeHusk:
    """Listens; each request gets the next of `answers`: bytes, or a function that is called with the connection. After the last one
    it goes on with that. A connection serves one request, unless `keep`; `wrap` makes another of it (TLS)."""

    def __init__(self, *answers, keep=False, wrap=None):
        self.wrap = wrap or (lambda peer: peer)
        self.connections = 0
        self.answers = chain(answers, repeat(answers[-1]))
        self.keep = keep
        self.requests = []
        self.open = set()
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        with self.lock:
            for peer in self.open:
                with suppress(OSError):
                    peer.shutdown(socket.SHUT_RDWR)

    def _accept(self):
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            with self.lock:
                self.open.add(peer)
                self.connections += 1
            threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, plain):
        try:
            with self.wrap(plain) as peer:
                while (request := read_request(peer)) is not None:
                    with self.lock:
                        self.requests.append(request)
                        said = next(self.answers)
                    if callable(said):
                        said(peer)
                    else:
                        peer.sendall(said.replace(CLOSE.encode(), b"") if self.keep else said)
                    if not self.keep:
                        peer.shutdown(socket.SHUT_WR)
                        # Whatever the client still sends is read, so that the end is no reset.
                        while peer.recv(65536):
                            pass
                        return
        except OSError:
            pass  # the client has gone
        finally:
            with self.lock:
                self.open.discard(plain)
            plain.close()
