"""MCP, when things end in the wrong order or do not fit: streams before their calls, huskd before its clients, and answers that nobody reads."""

import json
import signal
import socket

import host
from local_index import Index, Wheel
from service import later, sanitized
from test_mcp_hostile import META, endless, error, events, initialize, leave, message, post
from test_mcp_streams import Listening


def test_a_claim_to_be_modern_on_the_older_transport(service, sandbox):
    """It belongs to the handshake's era, whatever a message says: a call ends with the stream that would have carried its answer."""
    method, params, id = endless(sandbox)
    with Listening(service, "/sse") as stream:
        path = next(line for line in stream.lines if line.startswith(b"data: "))[6:].decode()
        assert post(service, message("server/discover", {"_meta": META}), path).status_code == 202
        assert stream.next()["error"]["code"] == -32601
        assert post(service, message(method, params | {"_meta": META}, id), path).status_code == 202
        sandbox.until_state("busy")
    sandbox.until_state("ready")
    assert sandbox.works()


def test_the_end_of_huskd_while_abandoned_calls_wait(private):
    """Calls of the legacy era go on when their clients leave; they must not outlive the sandboxes that they wait for."""
    service = private().start()
    session = initialize(service)
    body = message("tools/call", {"name": "create_sandbox", "arguments": {}})
    for _ in range(40):
        leave(service, body, session, lambda _: None)
    host.until(lambda: len(service.get("/sandboxes").json()) > 0, 20, "the first sandbox")
    assert service.stop(signal.SIGINT) == 0


def test_a_slow_reader_of_a_whole_answer(service, sandbox, create):
    """No keep-alive comes after it, or into it."""
    clock = create()
    code = "from IPython.display import display\ndisplay({'image/png': 'iVBORw0K' * 1_000_000}, raw=True)"
    body = message("tools/call", {"name": "execute_python_code", "arguments": {"code": code, "sandbox_id": sandbox.id}})
    received = b""

    def read(connection):
        nonlocal received
        received = connection.recv(1000)
        clock.run("import time; time.sleep(11)")  # longer than a silence that would be broken
        while data := connection.recv(1 << 20):
            received += data

    leave(service, body, {"Connection": "close"}, read)
    head, answer = received.split(b"\r\n\r\n", 1)
    assert json.loads(answer)["result"]["isError"] is False


def held_bytes(service):
    return host.Process(service.process.pid).peak_bytes


def test_files_that_nobody_reads(private):
    """Each asked for before the first answer is there: huskd holds a bounded amount of them, and says so to the others."""
    service = private().start()
    sandbox = service.create()
    sandbox.run("open('big', 'wb').write(bytes(8 << 20))")
    body = json.dumps(message("resources/read", {"uri": f"husk://{sandbox.id}/big"})).encode()
    head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"
    request = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    connections = [socket.create_connection(("127.0.0.1", service.port), 60) for _ in range(100)]
    for connection in connections:
        connection.sendall(request)
    first = [connection.recv(12) for connection in connections]
    assert all(line == b"HTTP/1.1 200" for line in first)
    assert held_bytes(service) < (2500 if sanitized() else 400) << 20
    answers = []
    for connection in connections:
        received = b""
        while data := connection.recv(1 << 20):
            received += data
        answers.append(json.loads(received.split(b"\r\n\r\n", 1)[1]))
        connection.close()
    assert {"result" in answer for answer in answers} == {True, False}
    for answer in answers:
        assert "result" in answer or "Try again" in answer["error"]["message"]
    assert sandbox.works()


def test_a_batch_of_large_answers(private):
    service = private().start()
    sandbox = service.create()
    sandbox.run("open('big', 'wb').write(bytes(8 << 20))")
    batch = [message("resources/read", {"uri": f"husk://{sandbox.id}/big"}, id) for id in range(32)]
    answers = post(service, batch).json()
    assert {answer["id"] for answer in answers} == set(range(32))
    assert {"result" in answer for answer in answers} == {True, False}
    assert held_bytes(service) < (2500 if sanitized() else 250) << 20


def test_a_cancellation_in_the_batch_of_its_request(service, sandbox):
    session = initialize(service, "2025-03-26")
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
    assert post(service, [message(*endless(sandbox)), cancel], **session).status_code == 202
    answer = post(service, [message(*endless(sandbox)), cancel, message("ping", id=8)], **session)
    assert answer.json() == [{"jsonrpc": "2.0", "id": 8, "result": {}}]
    sandbox.until_state("ready")


def test_names_that_end_early(service):
    """A NUL ends a name in C, and nowhere else."""
    assert post(service, message("ping\0x")).json()["error"]["code"] in (-32600, -32601)
    answer = post(service, message("prompts/get", {"name": "python_sandbox\0x"}))
    error(answer, 200, -32602)


def test_large_questions_that_wait(private):
    """What a call was asked is held until it is over, whoever still waits for it; all together that is bounded."""
    with Index(Wheel("held-back")) as index:
        service = private(environment={"HUSK_PACKAGE_INDEX": index.url}).start()
        index.hold.clear()
        params = {"name": "install_packages", "_meta": {"padding": "x" * (20 << 20)}}
        waiting = []
        for _ in range(14):
            params["arguments"] = {"packages": ["held-back"], "sandbox_id": service.create(memory_mb=64).id}
            waiting.append(later(post, service, message("tools/call", params)))
        host.until(lambda: any(answer.done() for answer in waiting), 60, "one that is too much")
        index.hold.set()
        answers = [answer.result(60) for answer in waiting]
    assert {answer.status_code for answer in answers} == {200, 429}
    assert all(events(answer)[0]["result"]["isError"] is False for answer in answers if answer.status_code == 200)
