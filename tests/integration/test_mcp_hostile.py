"""MCP with everything that is wrong: what clients send, when they leave, and how many they are."""

import json
import random
import re
import selectors
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

import host
from service import later, problem

MODERN = "2026-07-28"
VERSION, CAPABILITIES = "io.modelcontextprotocol/protocolVersion", "io.modelcontextprotocol/clientCapabilities"
META = {VERSION: MODERN, CAPABILITIES: {}}


def post(service, body, path="/mcp", **headers):
    data = body if isinstance(body, (bytes, str)) else json.dumps(body)
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"} | {
        key.replace("_", "-"): value for key, value in headers.items() if value is not None
    }
    return service.post(path, data=data, headers=headers)


def message(method, params=None, id=1):
    return {"jsonrpc": "2.0", "id": id, "method": method} | ({} if params is None else {"params": params})


def modern(service, method, params=None, headers=None, id=1, meta=META):
    params = {**(params or {}), "_meta": meta}
    usual = {"MCP_Protocol_Version": MODERN, "Mcp_Method": method}
    if "name" in params or "uri" in params:
        usual["Mcp_Name"] = params.get("name", params.get("uri"))
    return post(service, message(method, params, id), **(usual | (headers or {})))


def initialize(service, version="2025-11-25"):
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    answer = post(service, message("initialize", params))
    assert answer.status_code == 200, answer.text
    assert answer.json()["result"]["protocolVersion"] == version
    return {"Mcp_Session_Id": answer.headers["Mcp-Session-Id"], "MCP_Protocol_Version": version}


def error(answer, status, code, id=1):
    assert answer.status_code == status, answer.text
    body = answer.json()
    assert body["jsonrpc"] == "2.0" and body["error"]["code"] == code and body["error"]["message"], body
    assert body.get("id") == id and "result" not in body, body
    return body["error"]


def events(answer):
    """The messages of an answer that is JSON or a stream."""
    if answer.headers["Content-Type"] == "application/json":
        return [answer.json()]
    return [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")]


# --- what is no message ---


@pytest.mark.parametrize(
    "body, code",
    [
        (b"", -32700),
        (b"{", -32700),
        (b"\xff\xfe", -32700),
        (b"nonsense", -32700),
        (b'{"jsonrpc": "2.0", "id": 123456789012345678901234567890, "method": "ping"}', -32700),
        (b"[" * 1000 + b"]" * 1000, -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":' + b'{"a":' * 100 + b"1" + b"}" * 101, -32700),
        (b"[" + b"1," * 200000 + b"1]", -32700),
        (b"5", -32600),
        (b"null", -32600),
        (b'"ping"', -32600),
        (b"[]", -32600),
        (b"{}", -32600),
        (b'{"id": 1, "method": "ping"}', -32600),
        (b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}', -32600),
        (b'{"jsonrpc": 2.0, "id": 1, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": [1], "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": true, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": "' + b"x" * 300 + b'", "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": 5}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "' + b"m" * 200 + b'"}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": [1]}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": "x"}', -32600),
    ],
)
def test_not_a_message(service, body, code):
    answer = post(service, body)
    assert answer.status_code == 400 and answer.json()["error"]["code"] == code, answer.text


@pytest.mark.parametrize("id", [0, -1, 2**53 + 1, 2**63 - 1, -(2**63), "", "x" * 256, "ü\u0000\n\"'", "1"])
def test_ids_come_back_as_they_were(service, id):
    assert post(service, message("ping", id=id)).json() == {"jsonrpc": "2.0", "id": id, "result": {}}


def test_content_types(service):
    body = json.dumps(message("ping"))
    for kind in ("text/plain", "application/x-www-form-urlencoded", "application/jsonx", None):
        answer = service.post("/mcp", data=body.encode(), headers={"Content-Type": kind})
        assert answer.status_code == 415, answer.text
    answer = service.post("/mcp", data=body, headers={"Content-Type": "application/json; charset=utf-8"})
    assert answer.status_code == 200
    assert service.get("/mcp").status_code == 405


# --- who may ask ---


@pytest.mark.parametrize("path", ["/mcp", "/messages?sessionId=x", "/mcp/tools/list_sandboxes"])
def test_foreign_pages(service, path):
    for headers in ({"Origin": "http://evil.example.com"}, {"Host": "evil.example.com"}, {"Origin": "null"}):
        assert post(service, message("ping"), path, **headers).status_code == 403
    assert service.get("/sse", headers={"Origin": "http://evil.example.com"}).status_code == 403


def test_the_key(private):
    service = private("--pool", "0", environment={"HUSK_API_KEY": "a-long-enough-key"}).start()
    for path in ("/mcp", "/mcp/tools/list_sandboxes", "/messages"):
        answer = post(service, message("ping"), path)
        assert answer.status_code == 401 and answer.headers["WWW-Authenticate"] == "Bearer"
    assert service.get("/sse").status_code == 401
    assert post(service, message("ping"), Authorization="Bearer a-long-enough-key").status_code == 200


# --- the modern era ---


@pytest.mark.parametrize(
    "meta", [None, 5, [], "x", {}, {CAPABILITIES: {}}, {VERSION: 5, CAPABILITIES: {}}, {VERSION: MODERN},
             {VERSION: MODERN, CAPABILITIES: []}, {VERSION: MODERN, CAPABILITIES: None}]
)  # fmt: skip
def test_envelopes(service, meta):
    error(modern(service, "tools/list", meta=meta), 400, -32602)


@pytest.mark.parametrize(
    "headers",
    [
        {"MCP_Protocol_Version": None},
        {"Mcp_Method": None},
        {"Mcp_Method": "tools/list"},
        {"Mcp_Method": "TOOLS/CALL"},
        {"Mcp_Name": None},
        {"Mcp_Name": "close_sandbox"},
        {"Mcp_Name": "=?base64?bGlzdF9zYW5kYm94ZXM?="},
        {"Mcp_Name": "=?base64?!!!!?="},
        {"Mcp_Name": "=?base64?" + "A" * 8000 + "?="},
        {"MCP_Protocol_Version": "2025-11-25"},
    ],
)
def test_header_mismatches(service, headers):
    error(modern(service, "tools/call", {"name": "list_sandboxes"}, headers), 400, -32020)


def test_headers_that_match(service):
    for name in ("list_sandboxes", "list_sandboxes\t ", "=?base64?bGlzdF9zYW5kYm94ZXM=?="):
        answer = modern(service, "tools/call", {"name": "list_sandboxes"}, {"Mcp_Name": name})
        assert answer.json()["result"]["isError"] is False


def test_versions(service):
    for version in ("2025-11-25", "2099-01-01", "v999", ""):
        meta = META | {VERSION: version}
        wrong = error(modern(service, "tools/list", headers={"MCP_Protocol_Version": version or None}, meta=meta), 400, -32022)
        assert wrong["data"] == {"supported": [MODERN], "requested": version}
    error(post(service, message("ping"), MCP_Protocol_Version="1999-01-01"), 400, -32000)
    assert post(service, message("initialize", {"protocolVersion": MODERN})).json()["result"]["protocolVersion"] == "2025-11-25"
    error(post(service, message("tools/list"), MCP_Protocol_Version=MODERN), 400, -32602)
    error(post(service, message("initialize", {"protocolVersion": "2025-11-25"}), MCP_Protocol_Version=MODERN), 400, -32020)


@pytest.mark.parametrize("method", ["initialize", "ping", "nonsense", "logging/setLevel", "tasks/get", "tools/call/x", ""])
def test_methods_that_are_not_there(service, method):
    error(modern(service, method), 404, -32601)
    if method not in ("initialize", "ping"):
        error(post(service, message(method)), 200, -32601)


def test_modern_answers(service):
    answer = modern(service, "server/discover").json()["result"]
    assert answer["resultType"] == "complete" and answer["supportedVersions"] == [MODERN]
    assert answer["ttlMs"] >= 0 and answer["cacheScope"] in ("public", "private")
    assert answer["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "husk"
    legacy = post(service, message("tools/list")).json()["result"]
    assert legacy.keys() == {"tools"}


# --- parameters of the wrong type, everywhere ---

WRONG = [None, 5, -1, 1.5, True, "", "x", "\u0000", [], [1], {}, {"a": 1}, 10**18, "x" * 5000]


@pytest.mark.parametrize("value", WRONG, ids=lambda value: repr(value)[:20])
def test_wrong_types(service, value):
    session = initialize(service)
    requests_of = [
        ("tools/call", {"name": value}),
        ("tools/call", {"name": "list_sandboxes", "arguments": value}),
        ("tools/list", {"cursor": value}),
        ("resources/read", {"uri": value}),
        ("resources/list", {"cursor": value}),
        ("prompts/get", {"name": value}),
        ("prompts/get", {"name": "python_sandbox", "arguments": value}),
        ("prompts/get", {"name": "python_sandbox", "arguments": {"task": value}}),
        ("completion/complete", {"ref": value, "argument": value}),
        ("completion/complete", {"ref": {"type": value}, "argument": {"name": value, "value": value}}),
        ("initialize", {"protocolVersion": value, "capabilities": value, "clientInfo": value}),
        ("ping", {"_meta": value}),
        ("ping", {"_meta": {"progressToken": value}}),
    ]
    tools = [tool["name"] for tool in post(service, message("tools/list")).json()["result"]["tools"]]
    keys = ("sandbox_id", "code", "timeout_seconds", "stdin", "ttl_seconds", "name", "env", "memory_mb", "cpus")
    for tool in tools:
        requests_of += [("tools/call", {"name": tool, "arguments": {"sandbox_id": "nobody", key: value}}) for key in keys]
    made = []
    for method, params in requests_of:
        answer = post(service, message(method, params), **(session if method != "initialize" else {}))
        assert answer.status_code == 200, (method, params, answer.text)
        body = answer.json()
        assert ("result" in body) != ("error" in body) and body["id"] == 1
        made += re.findall(r'"sandbox_id": ?"([0-9a-f-]{36})"', answer.text)
    for sandbox in set(made):
        service.adopt(sandbox).close()


def test_random_messages(service):
    """Messages with pieces torn out and others put in. Whatever they are, there is an answer, and the service lives."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    good = json.dumps(message("tools/call", {"name": "list_sandboxes", "arguments": {}, "_meta": META})).encode()
    for _ in range(400):
        data = bytearray(good)
        for _ in range(chance.randrange(1, 6)):
            at = chance.randrange(len(data))
            if chance.random() < 0.5:
                del data[at : at + chance.randrange(1, 10)]
            else:
                data[at:at] = chance.choice([b"{", b"}", b"[", b"]", b'"', b",", b"null", b"\\u0000", b"\xff", b"1e999", b"-"])
        answer = post(service, bytes(data))
        assert answer.status_code in (200, 202, 400, 404), (bytes(data), answer.text)
    assert service.get("/health").status_code == 200


# --- sessions ---


def test_sessions(service):
    session = initialize(service)
    assert post(service, message("ping"), **session).status_code == 200
    error(post(service, message("ping"), Mcp_Session_Id="0" * 36), 404, -32001)
    error(post(service, message("ping"), Mcp_Session_Id="x" * 5000), 404, -32001)
    headers = {"Mcp-Session-Id": session["Mcp_Session_Id"]}
    assert service.delete("/mcp", headers=headers).status_code == 200
    error(post(service, message("ping"), **session), 404, -32001)
    assert service.delete("/mcp", headers=headers).status_code == 404
    assert service.delete("/mcp").status_code == 400


def test_many_sessions(service):
    """More than there is room for: old ones are forgotten, and nobody is refused."""
    first = initialize(service)
    with requests.Session() as connection:
        connection.trust_env = False
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}}
        for _ in range(4200):
            answer = connection.post(f"{service.url}/mcp", json=message("initialize", params))
            assert answer.headers["Mcp-Session-Id"]
    assert post(service, message("ping"), **first).status_code == 404
    assert post(service, message("ping"), **initialize(service)).status_code == 200


# --- batches ---


def test_batches(service):
    batch = [message("ping", id=1), {"jsonrpc": "2.0", "method": "notifications/x"}, message("nope", id="b"), 5]
    for headers in (initialize(service, "2025-03-26"), {}):
        answer = post(service, batch, **headers)
        assert answer.status_code == 200, answer.text
        by_id = {item.get("id"): item for item in answer.json()}
        assert by_id[1]["result"] == {} and by_id["b"]["error"]["code"] == -32601 and by_id[None]["error"]["code"] == -32600
    assert post(service, [{"jsonrpc": "2.0", "method": "notifications/x"}]).status_code == 202
    for bad in ([], [message("ping")] * 33, [message("tools/list", {"_meta": META})], [message("initialize", {})]):
        answer = post(service, bad)
        assert answer.status_code == 400 and answer.json()["error"]["code"] == -32600
    for version in ("2025-06-18", "2025-11-25"):
        assert post(service, batch, **initialize(service, version)).status_code == 400


def test_a_batch_that_waits(service, sandbox):
    calls = [
        message("tools/call", {"name": "execute_python_code", "arguments": {"code": str(i), "sandbox_id": sandbox.id}}, id=i)
        for i in range(5)
    ]
    answers = post(service, calls).json()
    assert {item["id"]: item["result"]["content"][0]["text"] for item in answers} == {i: str(i) for i in range(5)}


# --- clients that leave ---


def endless(sandbox, id=7):
    code = "import time\nwhile True: time.sleep(0.01)"
    return "tools/call", {"name": "execute_python_code", "arguments": {"code": code, "sandbox_id": sandbox.id}}, id


def leave(service, body, headers, until):
    """Send a request and close the connection when the condition holds."""
    data = json.dumps(body).encode()
    lines = ["POST /mcp HTTP/1.1", f"Host: 127.0.0.1:{service.port}", "Content-Type: application/json"]
    lines += ["Accept: application/json, text/event-stream", f"Content-Length: {len(data)}"]
    lines += [f"{key.replace('_', '-')}: {value}" for key, value in headers.items()]
    with socket.create_connection(("127.0.0.1", service.port)) as connection:
        connection.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + data)
        until(connection)


@pytest.mark.parametrize("progress", [False, True])
def test_leaving_cancels_in_the_modern_era(service, sandbox, progress):
    method, params, id = endless(sandbox)
    params["_meta"] = META | ({"progressToken": "p"} if progress else {})
    headers = {"MCP_Protocol_Version": MODERN, "Mcp_Method": method, "Mcp_Name": "execute_python_code"}

    def busy(connection):
        sandbox.until_state("busy")
        received = b""
        while progress and b"notifications/progress" not in received:
            received += connection.recv(1 << 16)

    leave(service, message(method, params, id), headers, busy)
    sandbox.until_state("ready")
    assert sandbox.works()


def test_leaving_does_not_cancel_in_the_legacy_era(service, sandbox):
    session = initialize(service)
    arguments = {"code": "import time\ntime.sleep(3)\nopen('done', 'w').close()", "sandbox_id": sandbox.id}
    body = message("tools/call", {"name": "execute_python_code", "arguments": arguments}, 7)
    leave(service, body, session, lambda _: sandbox.until_state("busy"))
    sandbox.until_state("ready")
    assert sandbox.value("__import__('os').path.exists('done')")


def test_cancelled_by_a_notification(service, sandbox):
    session, other = initialize(service), initialize(service)
    pending = later(post, service, message(*endless(sandbox)), **session)
    sandbox.until_state("busy")
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
    # Not by somebody else, and not with the id of another request.
    assert post(service, cancel, **other).status_code == 202
    assert post(service, cancel).status_code == 202
    assert post(service, cancel | {"params": {"requestId": "7"}}, **session).status_code == 202
    assert sandbox.info()["state"] == "busy" and not pending.done()
    assert post(service, cancel, **session).status_code == 202
    answer = pending.result(20)
    assert answer.status_code == 200 and events(answer) == []
    sandbox.until_state("ready")


def test_a_session_that_ends_cancels(service, sandbox):
    session = initialize(service)
    pending = later(post, service, message(*endless(sandbox)), **session)
    sandbox.until_state("busy")
    assert service.delete("/mcp", headers={"Mcp-Session-Id": session["Mcp_Session_Id"]}).status_code == 200
    assert events(pending.result(20)) == []
    sandbox.until_state("ready")


def test_a_session_that_ends_with_a_batch(service, sandbox):
    session = initialize(service, "2025-03-26")
    pending = later(post, service, [message(*endless(sandbox, id)) for id in range(3)], **session)
    sandbox.until_state("busy")
    assert service.delete("/mcp", headers={"Mcp-Session-Id": session["Mcp_Session_Id"]}).status_code == 200
    assert pending.result(20).json() == []
    sandbox.until_state("ready")


def test_a_batch_that_is_left(service, sandbox):
    session = initialize(service, "2025-03-26")
    arguments = {"code": "import time; time.sleep(1)", "sandbox_id": sandbox.id}
    calls = [message("tools/call", {"name": "execute_python_code", "arguments": arguments}, id) for id in range(3)]
    leave(service, calls, session, lambda _: sandbox.until_state("busy"))
    host.until(lambda: sandbox.info()["execution_count"] == 3, 20, "all of the batch to run")


def test_a_stream_that_ends_cancels(service, sandbox):
    with requests.Session() as connection:
        connection.trust_env = False
        with connection.get(f"{service.url}/sse", stream=True, timeout=30) as stream:
            lines = stream.iter_lines()
            assert next(lines) == b"event: endpoint"
            path = next(lines).decode().removeprefix("data: ")
            assert post(service, message(*endless(sandbox)), path).status_code == 202
            sandbox.until_state("busy")
        sandbox.until_state("ready")
    host.until(lambda: post(service, message("ping"), path).status_code == 404, 10, "the session to end")


def test_a_sandbox_that_is_closed_meanwhile(service, sandbox):
    pending = later(post, service, message(*endless(sandbox)), **initialize(service))
    sandbox.until_state("busy")
    assert sandbox.close().status_code == 200
    [answer] = events(pending.result(20))
    assert answer["result"]["isError"] and "closed" in answer["result"]["content"][0]["text"]


def test_a_reader_that_does_not_read(service, sandbox, bounded):
    """Answers of many megabytes for clients that take nothing."""
    code = "from IPython.display import display\ndisplay({'image/png': 'iVBORw0K' * 1_000_000}, raw=True)"
    body = message("tools/call", {"name": "execute_python_code", "arguments": {"code": code, "sandbox_id": sandbox.id}})
    data = json.dumps(body).encode()
    head = f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    connections = [socket.create_connection(("127.0.0.1", service.port)) for _ in range(4)]
    for connection in connections:
        connection.sendall(head.encode() + data)
    host.until(lambda: sandbox.info()["execution_count"] >= 4, 30, "the executions to end")
    assert sandbox.works()
    for connection in connections:
        connection.close()


# --- tools for scripts ---


def tool(service, name, body, **headers):
    return service.post(f"/mcp/tools/{name}", data=body, headers={"Content-Type": "application/json"} | headers)


def test_tools_for_scripts(service, sandbox):
    for headers in ({}, {"Content-Type": "text/plain"}, {"Accept": "text/event-stream"}):
        answer = tool(service, "execute_python_code", json.dumps({"code": "6 * 7", "sandbox_id": sandbox.id}), **headers)
        assert answer.status_code == 200 and answer.headers["Content-Type"] == "application/json"
        result = answer.json()
        assert result["content"] == [{"type": "text", "text": "42"}] and result["isError"] is False
        assert result["structuredContent"]["sandbox_id"] == sandbox.id
    assert sandbox.id in tool(service, "list_sandboxes", "").text
    assert tool(service, "execute_python_code", "{}").json()["isError"] is True
    problem(tool(service, "no_such_tool", "{}"), 404)
    problem(tool(service, "list_sandboxes", "{"), 400, "malformed_json")
    problem(tool(service, "list_sandboxes", "[" * 1000), 400, "malformed_json")
    for body in ("[]", "5", "null"):
        assert problem(tool(service, "list_sandboxes", body), 422)
    assert service.get("/mcp/tools/list_sandboxes").status_code == 405


def test_a_script_that_leaves_interrupts(service, sandbox):
    arguments = json.dumps({"code": "while True: pass", "sandbox_id": sandbox.id})
    head = f"POST /mcp/tools/execute_python_code HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(arguments)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", service.port)) as connection:
        connection.sendall((head + arguments).encode())
        sandbox.until_state("busy")
    sandbox.until_state("ready")


# --- many at once ---


def test_a_thousand_calls(service, create):
    """Over twenty connections, in five sandboxes, each answer checked."""
    sandboxes = [create() for _ in range(5)]

    def worker(number):
        good = 0
        with requests.Session() as connection:
            connection.trust_env = False
            for i in range(50):
                value = number * 1000 + i
                arguments = {"code": f"{value} + 0", "sandbox_id": sandboxes[number % 5].id}
                body = message("tools/call", {"name": "execute_python_code", "arguments": arguments}, value)
                answer = connection.post(f"{service.url}/mcp", json=body, timeout=90).json()
                assert answer["id"] == value and answer["result"]["content"][0]["text"] == str(value), answer
                good += 1
        return good

    with ThreadPoolExecutor(20) as pool:
        assert sum(pool.map(worker, range(20))) == 1000


def test_a_thousand_at_once(service, create):
    """A thousand connections that all ask before the first answer is read. Each gets one: its result, or that too much waits."""
    sandboxes = [create() for _ in range(3)]
    selector = selectors.DefaultSelector()
    received = {}
    for i in range(1000):
        arguments = {"code": f"{i} + 0", "sandbox_id": sandboxes[i % 3].id}
        data = json.dumps(message("tools/call", {"name": "execute_python_code", "arguments": arguments}, i)).encode()
        head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
        connection = socket.create_connection(("127.0.0.1", service.port))
        connection.sendall(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
        selector.register(connection, selectors.EVENT_READ, i)
        received[i] = b""
    while selector.get_map():
        ready = selector.select(30)
        assert ready, f"{len(selector.get_map())} have no answer"
        for key, _ in ready:
            data = key.fileobj.recv(1 << 16)
            received[key.data] += data
            if not data:
                selector.unregister(key.fileobj)
                key.fileobj.close()
    results = 0
    for i, data in received.items():
        answer = json.loads(data.split(b"\r\n\r\n", 1)[1])
        text = answer["result"]["content"][0]["text"]
        assert answer["id"] == i and (text == str(i) or "waiting" in text), answer
        results += text == str(i)
    assert results >= 3


def test_more_calls_than_one_session_may_have(service, sandbox):
    session = initialize(service)
    with ThreadPoolExecutor(80) as pool:
        def wait(i):
            arguments = {"code": "import time; time.sleep(1)", "sandbox_id": sandbox.id, "timeout_seconds": 3}
            return post(service, message("tools/call", {"name": "execute_python_code", "arguments": arguments}, i), **session)

        answers = list(pool.map(wait, range(80)))
    for answer in answers:
        assert answer.status_code in (200, 429), answer.text
    assert any(answer.status_code == 200 for answer in answers)
    assert post(service, message("ping"), **session).status_code == 200
