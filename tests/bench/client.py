"""HTTP with the least that a client can do, so that what is measured is the server: one send, receive until the body is
complete."""

import json
import socket

TIMEOUT_SECONDS = 90


class Http:
    """One connection, kept open. Requests are put together before they are timed, if the caller likes."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    @staticmethod
    def request(method, path, body=None):
        text = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        if method == "POST":
            head += f"Content-Type: application/json\r\nContent-Length: {len(text)}\r\n"
        return f"{head}\r\n".encode() + text

    def call(self, request):
        """Send it; gives the answer's body, from JSON. Anything but success is an HttpError."""
        self.socket.sendall(request)
        data = bytearray()
        while (end := data.find(b"\r\n\r\n")) < 0:
            data += self._receive()
        status = int(data[9:12])
        head = bytes(data[:end]).lower()
        length = int(head.partition(b"content-length:")[2].partition(b"\r")[0] or 0)
        while len(data) < end + 4 + length:
            data += self._receive()
        body = json.loads(data[end + 4 :] or "null")
        if not 200 <= status < 300:
            raise HttpError(status, body)
        return body

    def ask(self, method, path, body=None):
        return self.call(self.request(method, path, body))

    def _receive(self):
        data = self.socket.recv(1 << 20)
        if not data:
            raise ConnectionError("the server closed the connection")
        return data

    def close(self):
        self.socket.close()


class HttpError(Exception):
    def __init__(self, status, body):
        text = body.get("detail") or body.get("message") or str(body) if isinstance(body, dict) else str(body)
        super().__init__(f"{status}: {text}")
        self.status, self.body = status, body
