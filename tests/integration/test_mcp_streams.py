"""Streams of MCP sessions: what a client is told without having asked, how long streams live, and what ends them."""

import json
import signal
import time

import requests

import host
from mcp_client import run_session
from test_mcp_hostile import META, MODERN, error, initialize, message, modern, post


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
    with (
        Listening(service, "/sse") as one,
        Listening(service, "/mcp", **initialize(service)) as two,
        Subscribed(service, {}) as three,
    ):
        assert one.answer.status_code == two.answer.status_code == three.answer.status_code == 200
        before = time.monotonic()
        assert service.stop(signal.SIGTERM) == 0
        assert time.monotonic() - before < 4


# ---- subscriptions/listen ------------------------------------------------------------------------

SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


class Subscribed(Listening):
    """POST of subscriptions/listen: an iterator of messages."""

    def __init__(self, service, notifications, id=1):
        self.session = requests.Session()
        self.session.trust_env = False
        headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "subscriptions/listen"}
        body = message("subscriptions/listen", {"notifications": notifications, "_meta": META}, id)
        self.answer = self.session.post(service.url + "/mcp", json=body, headers=headers, stream=True, timeout=30)
        self.lines = self.answer.iter_lines(chunk_size=1)


def test_listening(service, sandbox):
    """The promise first, which has only what is kept; then changes, each with the id of the request, in its own type."""
    uri, other = f"husk://{sandbox.id}/log.txt", f"husk://{sandbox.id}/ü%20\"b"
    for id in (7, "7"):
        wish = {"resourceSubscriptions": [uri, "husk://nobody/x", other, "file:///etc/passwd"], "toolsListChanged": True}
        with Subscribed(service, wish, id) as stream:
            assert stream.answer.status_code == 200 and stream.answer.headers["Content-Type"] == "text/event-stream"
            meta = {SUBSCRIPTION: id}
            honoured = {"resourceSubscriptions": [uri, other]}
            assert stream.next() == {
                "jsonrpc": "2.0",
                "method": "notifications/subscriptions/acknowledged",
                "params": {"_meta": meta, "notifications": honoured},
            }
            for code in ("open('log.txt', 'w').write('1')", "import os; os.remove('log.txt')"):
                sandbox.run(code)
                assert stream.next() == {
                    "jsonrpc": "2.0",
                    "method": "notifications/resources/updated",
                    "params": {"_meta": meta, "uri": uri},
                }
    with Subscribed(service, {"promptsListChanged": True}) as stream:
        assert stream.next()["params"]["notifications"] == {}


def test_listening_to_what_is_none(service, sandbox):
    uri = f"husk://{sandbox.id}/x"
    wrong = [None, 5, [], "x", {"resourceSubscriptions": "x"}, {"resourceSubscriptions": [5]}, {"toolsListChanged": "yes"}]
    wrong += [{"resourceSubscriptions": [uri] * 65}, {"resourceSubscriptions": [uri + "\0"]}]
    for wish in wrong:
        error(modern(service, "subscriptions/listen", {"notifications": wish}), 200, -32602)
    error(modern(service, "subscriptions/listen"), 200, -32602)
    error(post(service, message("subscriptions/listen", {"notifications": {}})), 200, -32601)


def test_too_much_to_listen_to(private):
    """There is room again when somebody leaves; and what one has does not keep sessions from watching their own."""
    service = private().start()
    sandbox = service.create()
    streams = []
    wish = {"resourceSubscriptions": [f"husk://{sandbox.id}/{i}" for i in range(64)]}
    for _ in range(4):
        streams.append(Subscribed(service, wish))
        assert len(streams[-1].next()["params"]["notifications"]["resourceSubscriptions"]) == 64
    error(modern(service, "subscriptions/listen", {"notifications": wish}), 200, -32603)
    streams.pop().__exit__()

    def room():
        with Subscribed(service, wish) as stream:
            return "error" not in stream.next()

    host.until(room, 20, "room")
    for stream in streams:
        stream.__exit__()


def test_a_sandbox_that_ends_is_a_change(service, create):
    sandbox = create()
    sandbox.run("open('x', 'w').close()")
    uri = f"husk://{sandbox.id}/x"
    with Subscribed(service, {"resourceSubscriptions": [uri]}) as stream:
        assert stream.next()["method"].endswith("acknowledged")
        sandbox.close()
        assert stream.next()["params"]["uri"] == uri


def test_listening_until_the_end(private):
    """huskd's end is announced by the result."""
    service = private().start()
    with Subscribed(service, {}, "s") as stream:
        assert stream.next()["method"].endswith("acknowledged")
        assert service.stop(signal.SIGTERM) == 0
        end = stream.next()
        assert end["id"] == "s" and end["result"]["resultType"] == "complete" and end["result"]["_meta"][SUBSCRIPTION] == "s"
        assert stream.next() is None


def test_listening_with_the_python_sdk(service, sandbox):
    uri = f"husk://{sandbox.id}/log.txt"

    async def listen(client, way):
        assert client.server_capabilities.resources.subscribe
        async with client.listen(resource_subscriptions=[uri], tools_list_changed=True) as subscription:
            assert subscription.honored.resource_subscriptions == [uri] and not subscription.honored.tools_list_changed
            await client.call_tool("write_file", {"path": "log.txt", "content": "1", "sandbox_id": sandbox.id})
            event = await anext(subscription)
            assert event.uri == uri

    run_session(service, "auto", listen)
