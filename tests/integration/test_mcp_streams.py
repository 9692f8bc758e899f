"""Streams of MCP sessions: what a client is told without having asked, how long streams live, and what ends them."""

import json
import signal
import time

import requests

from test_mcp_hostile import initialize, message, post


class Listening:
    """GET on an endpoint: an iterator of messages."""

    def __init__(self, service, path, **headers):
        self.session = requests.Session()
        self.session.trust_env = False
        headers = {"Accept": "text/event-stream"} | {key.replace("_", "-"): value for key, value in headers.items()}
        self.answer = self.session.get(service.url + path, headers=headers, stream=True, timeout=30)
        self.lines = self.answer.iter_lines(chunk_size=1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.answer.close()
        self.session.close()

    def next(self):
        for line in self.lines:
            if line.startswith(b"data: "):
                return json.loads(line[6:])
        return None


def test_told_of_changes(service, sandbox):
    session = initialize(service)
    uri = f"husk://{sandbox.id}/log.txt"
    with Listening(service, "/mcp", **session) as stream:
        assert stream.answer.status_code == 200 and stream.answer.headers["Content-Type"] == "text/event-stream"
        for _ in range(2):
            assert post(service, message("resources/subscribe", {"uri": uri}), **session).json()["result"] == {}
        for code in ("open('log.txt', 'w').write('1')", "open('log.txt', 'a').write('2')", "import os; os.remove('log.txt')"):
            sandbox.run(code)
            assert stream.next() == {"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": uri}}
        assert post(service, message("resources/unsubscribe", {"uri": uri}), **session).json()["result"] == {}
        # A newer stream takes the place of this one.
        with Listening(service, "/mcp", **session) as newer:
            assert stream.next() is None
            assert service.delete("/mcp", headers={"Mcp-Session-Id": session["Mcp_Session_Id"]}).status_code == 200
            assert newer.next() is None


def test_what_cannot_be_subscribed_to(service, sandbox):
    session = initialize(service)
    for uri in ("husk://nobody/x", "file:///etc/passwd", f"husk://{sandbox.id}/", 5, None, "x" * 10000):
        assert "error" in post(service, message("resources/subscribe", {"uri": uri}), **session).json()
    assert "error" in post(service, message("resources/subscribe", {"uri": f"husk://{sandbox.id}/x"})).json()
    statuses = {
        "error" in post(service, message("resources/subscribe", {"uri": f"husk://{sandbox.id}/{i}"}), **session).json()
        for i in range(300)
    }
    assert statuses == {True, False}


def test_streams_need_a_session(service):
    assert service.get("/mcp", headers={"Accept": "text/event-stream"}).status_code == 405
    assert service.get("/mcp", headers={"Accept": "text/event-stream", "Mcp-Session-Id": "x"}).status_code == 404
    session = {"Mcp-Session-Id": initialize(service)["Mcp_Session_Id"]}
    assert service.get("/mcp", headers=session | {"Accept": "application/json"}).status_code == 405
    assert service.request("HEAD", "/mcp", headers=session | {"Accept": "text/event-stream"}).status_code == 200
    assert service.request("HEAD", "/sse").status_code == 200


def test_a_silent_call_becomes_a_stream(service, sandbox):
    """Proxies cut connections on which nothing happens. A client that takes no events waits in silence."""
    arguments = {"code": "import time; time.sleep(11); 42", "sandbox_id": sandbox.id}
    body = message("tools/call", {"name": "execute_python_code", "arguments": arguments})
    answer = post(service, body)
    assert answer.headers["Content-Type"] == "text/event-stream" and answer.text.startswith(": keep-alive\n\n")
    [line] = [line for line in answer.text.splitlines() if line.startswith("data: ")]
    assert json.loads(line[6:])["result"]["content"][0]["text"] == "42"


def test_open_streams_do_not_delay_the_end(private):
    service = private().start()
    with Listening(service, "/sse") as one, Listening(service, "/mcp", **initialize(service)) as two:
        assert one.answer.status_code == two.answer.status_code == 200
        before = time.monotonic()
        assert service.stop(signal.SIGTERM) == 0
        assert time.monotonic() - before < 4
