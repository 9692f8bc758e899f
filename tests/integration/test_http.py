"""HTTP: what is malformed, what is refused, and what a browser or a slow client may do."""

import json
import socket
import time

import pytest

import host
from service import later, problem

JSON = {"Content-Type": "application/json"}


def exchange(service, data, seconds=10):
    """Send raw bytes and give what comes back until the other side closes or is silent."""
    with socket.create_connection(("127.0.0.1", service.port), seconds) as peer:
        peer.sendall(data)
        peer.settimeout(seconds)
        received = b""
        try:
            while part := peer.recv(65536):
                received += part
        except TimeoutError:
            pass
        except ConnectionResetError:
            pass
        return received


# --- bodies ---


@pytest.mark.parametrize("route", ["create", "execute", "extend"])
@pytest.mark.parametrize(
    "body",
    [b"{", b"{'a': 1}", b'{"a": 1,}', b'{"name": "x"} x', b"\xff", b'{"a": "\xc3"}', b'{"a": NaN}', b"[" * 100_000],
)
def test_malformed_json(service, shared, route, body):
    path = "/sandbox/create" if route == "create" else f"{shared.path}/{route}"
    problem(service.post(path, data=body, headers=JSON), 400)


@pytest.mark.parametrize("route", ["create", "execute", "extend"])
@pytest.mark.parametrize("body", [b"[]", b'"text"', b"5", b"null", b"true"])
def test_json_that_is_no_object(service, shared, route, body):
    path = "/sandbox/create" if route == "create" else f"{shared.path}/{route}"
    problem(service.post(path, data=body, headers=JSON), 422)


WRONG = {
    "name": [5, [], {}, True, None, 1.5],
    "ttl_seconds": ["60", 0, -1, 1e30, [], True, 366 * 86400],
    "idle_seconds": ["60", -1, 1e30, {}, False],
    "memory_mb": ["512", 0, -5, 1, 10**9, 10**30, True],
    "cpus": ["1", 0, -1, 1e9, [], True],
    "pids": ["64", 0, -1, 10**9, 1.5, True],
    "disk_mb": ["64", 0, -1, 10**9, {}, True],
    "env": [5, [], "A=B", {"A": 5}, {"": "x"}, {"A=B": "x"}, {"A": None}, {"A": "x\0y"}, {"A": "x" * 40_000}],
}


@pytest.mark.parametrize("field, value", [(f, v) for f, values in WRONG.items() for v in values if v is not None])
def test_wrong_create_fields(service, field, value):
    found = problem(service.post("/sandbox/create", json={field: value}), 422)
    assert field in found["detail"], "the sentence names the field"


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"code": 5},
        {"code": None},
        {"code": ["print(1)"]},
        {"code": "1", "timeout": "5"},
        {"code": "1", "timeout": -1},
        {"code": "1", "timeout": 0},
        {"code": "1", "timeout": 1e12},
        {"code": "1", "timeout": True},
    ],
)
def test_wrong_execute_fields(shared, fields):
    problem(shared.post("execute", json=fields), 422)


@pytest.mark.parametrize("timeout", ["", "x", "-1", "0", "1e12", "nan", "inf", "5x"])
def test_wrong_timeout_in_query(shared, timeout):
    problem(shared.post(f"execute?timeout={timeout}", data=b"1"), 422)


@pytest.mark.parametrize("value", [None, "5", 0, -1, 1e30, True, [], {}])
def test_wrong_extend_fields(shared, value):
    problem(shared.post("extend", json={"ttl_seconds": value}), 422)
    problem(shared.post("extend", json={}), 422)


def test_bodies_are_limited(service, shared):
    big = json.dumps({"name": "x", "filler": "y" * 2_000_000})
    problem(service.post("/sandbox/create", data=big, headers=JSON), 413)
    problem(shared.post("extend", data=big, headers=JSON), 413)


def test_chunked_body(shared):
    assert shared.post("execute", data=iter([b"print(", b"1 + ", b"1)"])).json()["stdout"] == "2\n"


def test_chunked_body_is_limited_too(shared):
    """The server may cut a sender off that does not stop; then the answer can be lost, but not the service."""
    try:
        problem(shared.post("execute", data=iter([b"#" * (1 << 20)] * 6)), 413)
    except OSError:
        pass
    assert shared.works()


# --- routes ---


@pytest.mark.parametrize(
    "path", ["/", "/nothing", "/sandbox", "/sandbox/", "/sandbox/a/b/c", "//", "/sandboxes/", "/health/x"]
)
def test_unknown_routes(service, path):
    answer = service.get(path)
    assert answer.status_code in (404, 405)
    problem(answer, answer.status_code)


@pytest.mark.parametrize(
    "method, path, allowed",
    [
        ("GET", "/sandbox/create", {"POST"}),
        ("POST", "/sandboxes", {"GET", "HEAD"}),
        ("POST", "/health", {"GET", "HEAD"}),
        ("PUT", "/sandbox/x", {"GET", "HEAD", "DELETE"}),
        ("GET", "/sandbox/x/execute", {"POST"}),
        ("DELETE", "/sandbox/x/close", {"POST"}),
        ("PATCH", "/sandbox/x/extend", {"POST"}),
        ("BREW", "/sandbox/x/restart", {"POST"}),
    ],
)
def test_wrong_method(service, method, path, allowed):
    answer = service.request(method, path)
    problem(answer, 405)
    named = {name.strip() for name in answer.headers["Allow"].split(",")}
    assert allowed - {"HEAD"} <= named and not named & ({"GET", "POST", "PUT", "DELETE", "PATCH"} - allowed)


def test_head(service):
    for path in ("/health", "/sandboxes"):
        answer = service.request("HEAD", path)
        assert answer.status_code == 200 and answer.content == b"" and answer.headers["X-Request-Id"]


def test_percent_encoding(service, create):
    sandbox = create(name="en.coded")
    assert service.get("/sandbox/en%2ecoded").json()["sandbox_id"] == sandbox.id
    assert service.get("/%73andboxes").status_code in (200, 404)
    for path in (
        "/sandbox/en%2",
        "/sandbox/en%zz",
        "/sandbox/%00",
        "/sandbox/en.coded%00",
        "/sandbox/en.coded%2fexecute",
        "/sandbox/%ff",
    ):
        reply = exchange(service, f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        assert reply.split()[1] in (b"400", b"404", b"405"), (path, reply)
        assert b"problem+json" in reply


def test_request_id(service):
    first, second = (service.get("/health").headers["X-Request-Id"] for _ in range(2))
    assert first and second and first != second
    assert service.get("/health", headers={"X-Request-Id": "my-id.1"}).headers["X-Request-Id"] == "my-id.1"
    for hostile in ("x" * 500, "a b", 'a"b', "ä".encode("latin-1")):
        assert service.get("/health", headers={"X-Request-Id": hostile}).headers["X-Request-Id"] not in (hostile, "")
    service.get("/nothing", headers={"X-Request-Id": "find-me-in-the-log"})
    host.until(lambda: "find-me-in-the-log" in service.log(), 5, "the log line")


# --- who may ask ---


@pytest.mark.parametrize(
    "name", ["localhost", "localhost:{port}", "127.0.0.1", "127.0.0.1:{port}", "[::1]:{port}", "LOCALHOST"]
)
def test_allowed_hosts(service, name):
    assert service.get("/health", headers={"Host": name.format(port=service.port)}).status_code == 200


@pytest.mark.parametrize(
    "name", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80", "", "localhost@evil", "0.0.0.0"]
)
def test_refused_hosts(service, name):
    problem(service.get("/sandboxes", headers={"Host": name}), 403)


def test_missing_host(service):
    reply = exchange(service, b"GET /health HTTP/1.1\r\nConnection: close\r\n\r\n")
    assert reply.split()[1] in (b"400", b"403")


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://localhost.evil.example", "file://", "https://127.0.0.1.evil"]
)
def test_refused_origins(service, origin):
    answer = service.post("/sandbox/create", headers={"Origin": origin})
    problem(answer, 403)
    assert "Access-Control-Allow-Origin" not in answer.headers


def test_allowed_origin_without_cors(service):
    answer = service.get("/health", headers={"Origin": f"http://localhost:{service.port}"})
    assert answer.status_code == 200 and "Access-Control-Allow-Origin" not in answer.headers


def test_cors(private):
    service = private(config="[server]\ncors_origins = https://app.example\n").start()
    origin = {"Origin": "https://app.example"}
    ask = origin | {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}
    answer = service.request("OPTIONS", "/sandbox/create", headers=ask)
    assert answer.status_code in (200, 204)
    assert answer.headers["Access-Control-Allow-Origin"] == "https://app.example"
    assert "POST" in answer.headers["Access-Control-Allow-Methods"]
    assert "content-type" in answer.headers["Access-Control-Allow-Headers"].lower()
    assert "origin" in answer.headers["Vary"].lower()
    answer = service.get("/health", headers=origin)
    assert answer.status_code == 200 and answer.headers["Access-Control-Allow-Origin"] == "https://app.example"
    answer = service.get("/health", headers={"Origin": "https://other.example"})
    problem(answer, 403)
    assert "Access-Control-Allow-Origin" not in answer.headers


def test_preflight_without_cors(service):
    ask = {"Origin": "https://app.example", "Access-Control-Request-Method": "POST"}
    assert service.request("OPTIONS", "/sandbox/create", headers=ask).status_code in (403, 405)


def test_api_key(private):
    service = private(config="[server]\napi_key = correct-horse-battery\n").start()
    assert service.get("/health").status_code == 200
    for headers in (
        {},
        {"X-API-Key": "wrong"},
        {"X-API-Key": ""},
        {"X-API-Key": "correct-horse-batter"},
        {"X-API-Key": "correct-horse-battery1"},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Basic correct-horse-battery"},
        {"Authorization": "correct-horse-battery"},
    ):
        answer = service.get("/sandboxes", headers=headers)
        problem(answer, 401)
        assert "Bearer" in answer.headers["WWW-Authenticate"]
        problem(service.post("/nothing", headers=headers), 401)
    for headers in ({"X-API-Key": "correct-horse-battery"}, {"Authorization": "Bearer correct-horse-battery"}):
        assert service.get("/sandboxes", headers=headers).json() == {}
    assert "correct-horse" not in service.log()


# --- connections ---


def test_keep_alive(service):
    request = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with socket.create_connection(("127.0.0.1", service.port), 10) as peer:
        for _ in range(3):
            peer.sendall(request)
            head = b""
            while b"\r\n\r\n" not in head:
                head += peer.recv(4096)
            head, _, body = head.partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200")
            [length] = [
                int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")
            ]
            while len(body) < length:
                body += peer.recv(4096)
            assert json.loads(body)["status"] == "healthy"


def test_pipelining(service):
    request = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    last = request.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    assert exchange(service, request * 3 + last).count(b'"healthy"') == 4


def test_expect_continue(service, shared):
    head = f"POST {shared.path}/execute HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nExpect: 100-continue\r\n"
    with socket.create_connection(("127.0.0.1", service.port), 10) as peer:
        peer.sendall(f"{head}Content-Length: 8\r\n\r\n".encode())
        assert peer.recv(4096).startswith(b"HTTP/1.1 100")
        peer.sendall(b"print(1)")
        received = b""
        while part := peer.recv(4096):
            received += part
        assert received.startswith(b"HTTP/1.1 200") and b'"1\\n"' in received
    refused = exchange(service, f"{head}Content-Length: 9999999\r\n\r\n".encode())
    assert refused.startswith(b"HTTP/1.1 413"), "refused before the body is sent"


def test_huge_headers(service):
    for head in (
        f"GET /{'x' * 200_000} HTTP/1.1\r\nHost: localhost\r\n\r\n",
        f"GET /health HTTP/1.1\r\nHost: localhost\r\nX: {'y' * 200_000}\r\n\r\n",
    ):
        reply = exchange(service, head.encode(), 5)
        assert reply == b"" or reply.split()[1] in (b"400", b"413", b"414", b"431"), reply[:200]
        assert b"<html" not in reply.lower(), reply[:200]
    assert service.get("/health").status_code == 200


@pytest.mark.parametrize(
    "data", [b"\x00" * 1000, b"GET\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00", b"GET /health HTTP/9.9\r\n\r\n"]
)
def test_garbage(service, data):
    exchange(service, data + b"\r\n\r\n", 2)
    assert service.get("/health").status_code == 200


def test_contradictory_lengths(service):
    head = b"POST /sandbox/create HTTP/1.1\r\nHost: localhost\r\n"
    for lines in (b"Content-Length: -5\r\n", b"Content-Length: x\r\n", b"Content-Length: 99999999999999999999\r\n"):
        reply = exchange(service, head + lines + b"\r\n", 2)
        assert reply == b"" or reply.split()[1] in (b"400", b"413"), reply[:200]
    assert service.get("/health").status_code == 200


def test_slow_clients_block_nobody(service, shared):
    slow = [socket.create_connection(("127.0.0.1", service.port)) for _ in range(50)]
    try:
        for number, peer in enumerate(slow):
            half = (
                b"POST /sandbox/create HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{"
                if number % 2
                else b"GET /hea"
            )
            peer.sendall(half)
        started = time.monotonic()
        assert service.get("/health").status_code == 200 and shared.works()
        assert time.monotonic() - started < 5
    finally:
        for peer in slow:
            peer.close()


def test_client_that_does_not_read(service, shared):
    """A large answer that nobody takes waits in its connection, not in the service."""
    code = b"from IPython.display import *\ndisplay({'text/plain': 'y' * 8_000_000}, raw=True)"
    with socket.create_connection(("127.0.0.1", service.port)) as peer:
        peer.sendall(
            f"POST {shared.path}/execute HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(code)}\r\n\r\n".encode()
            + code
        )
        count = shared.info()["execution_count"]
        host.until(
            lambda: shared.info()["execution_count"] > count or shared.info()["state"] == "ready", 20, "the execution"
        )
        assert service.get("/health").elapsed.total_seconds() < 2
        assert shared.works()


def test_answers_while_sandboxes_work(service, shared):
    running = later(shared.execute, "import time; time.sleep(2)")
    shared.until_state("busy")
    for _ in range(20):
        assert service.get("/health").elapsed.total_seconds() < 1
    assert running.result(20)["status"] == "ok"
