"""`husk mcp`: MCP on standard input and output, in both eras, carried to a huskd that lives its own life."""

import json
import os
import signal
import subprocess
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import host
from service import free_port
from stdio_bridge import ERAS, HUSK, Bridge, busy, environment, idle


@pytest.fixture(params=ERAS)
def bridge(request, service, folder):
    """A bridge to the shared service, after the handshake if there is one."""
    with Bridge(service.url, folder, era=request.param) as bridge:
        yield bridge.begin()


@pytest.fixture
def box(service, create):
    return create().id


def test_a_session(bridge, box):
    tools = {tool["name"]: tool for tool in bridge.ask("tools/list")["tools"]}
    assert {"execute_python_code", "upload_file", "close_sandbox"} <= tools.keys()
    bridge.tool("execute_python_code", code="x = 6", sandbox_id=box)
    assert bridge.text("execute_python_code", code="x * 7", sandbox_id=box) == "42"
    assert "ZeroDivisionError" in bridge.text("execute_python_code", error=True, code="1/0", sandbox_id=box)
    # A name that no header can hold as it is.
    uri = f"husk://{box}/grün und \t so"
    answer = bridge.answer(bridge.send("resources/read", uri=uri))
    assert answer["error"]["code"] in (-32602, -32002), answer
    answer = bridge.answer(bridge.send("no/such/method"))
    assert answer["error"]["code"] == -32601


def test_which_sandbox_if_none_is_named(service, folder):
    with Bridge(service.url, folder) as bridge:
        bridge.begin()
        made = bridge.tool("execute_python_code", code="y = 5")["structuredContent"]["sandbox_id"]
        assert bridge.tool("execute_python_code", code="y")["structuredContent"]["sandbox_id"] == made
        bridge.tool("close_sandbox", sandbox_id=made)


def test_lines_that_come_before_the_handshake_is_over(service, folder):
    """As a script writes them: all at once, and then the end of input. What is quick is answered."""
    handshake = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    lines = [
        {"jsonrpc": "2.0", "id": "a", "method": "initialize", "params": handshake},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": "b", "method": "ping"},
        {"jsonrpc": "2.0", "id": "c", "method": "tools/list"},
    ]
    text = "\n\r\n".join(json.dumps(line) for line in lines)  # no line end after the last one
    done = subprocess.run(
        [HUSK, "mcp"], input=text, env=environment(service.url), cwd=folder, capture_output=True, text=True, timeout=60
    )
    answers = {answer["id"]: answer for answer in map(json.loads, done.stdout.splitlines())}
    assert done.returncode == 0 and answers.keys() == {"a", "b", "c"}, done
    assert answers["a"]["result"]["protocolVersion"] == "2025-06-18"


def test_files_for_input_and_output(service, folder):
    (folder / "in").write_text('{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    with open(folder / "in") as source, open(folder / "out", "w") as sink:
        done = subprocess.run([HUSK, "mcp"], stdin=source, stdout=sink, env=environment(service.url), cwd=folder, timeout=60)
    assert done.returncode == 0
    assert json.loads((folder / "out").read_text()) == {"jsonrpc": "2.0", "id": 1, "result": {}}


def test_many_calls_at_once(bridge, box):
    """Each waits for all others: one after the other they would never end."""
    wait = "mkdir -p r; touch r/{}; until [ $(ls r | wc -l) = 30 ]; do sleep 0.05; done; echo {}"
    bridge.tool("execute_terminal_command", command="mkdir -p r", sandbox_id=box)
    calls = {bridge.start("execute_terminal_command", command=wait.format(i, i), sandbox_id=box): i for i in range(30)}
    for number, i in calls.items():
        result = bridge.answer(number)["result"]
        assert result["structuredContent"]["stdout"] == f"{i}\n", result


def test_progress(bridge, box):
    code = "import time\nfor i in range(3):\n    print('step', i)\n    time.sleep(1)"
    number = bridge.start("execute_python_code", token="tok", code=code, sandbox_id=box)
    assert "step 2" in json.dumps(bridge.answer(number))
    steps = [note["params"] for note in bridge.notes if note["method"] == "notifications/progress"]
    assert len(steps) >= 2 and all(step["progressToken"] == "tok" for step in steps)
    assert [step["progress"] for step in steps] == sorted({step["progress"] for step in steps})


@pytest.mark.parametrize("token", [None, "wanted"])
def test_cancellation(bridge, service, box, token):
    bridge.tool("execute_python_code", code="x = 1", sandbox_id=box)
    number = bridge.start("execute_python_code", token=token, code="while True: pass", timeout_seconds=600, sandbox_id=box)
    busy(service, box)
    bridge.cancel(number)
    assert bridge.text("execute_python_code", code="x", sandbox_id=box) == "1"
    assert json.dumps(number) not in bridge.answers


def test_a_cancellation_right_behind_its_call(bridge, service, box):
    """They travel on two connections: the second may be there first."""
    for _ in range(5):
        code = {"code": "while True: pass", "timeout_seconds": 600, "sandbox_id": box}
        call = bridge.make("tools/call", {"name": "execute_python_code", "arguments": code})
        note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": call["id"]}}
        bridge.write(bridge.line(call) + bridge.line(note))
    bridge.cancel("nobody")
    assert bridge.text("execute_python_code", code="6 * 7", sandbox_id=box) == "42"


def test_what_huskd_says_by_itself(service, folder, box):
    with Bridge(service.url, folder) as bridge:
        bridge.begin()
        bridge.tool("write_file", path="a.txt", content="1", sandbox_id=box)
        bridge.ask("resources/subscribe", uri=f"husk://{box}/a.txt")
        bridge.tool("write_file", path="a.txt", content="22", sandbox_id=box)
        assert bridge.note("notifications/resources/updated")["params"]["uri"] == f"husk://{box}/a.txt"


def test_batches_of_the_revision_that_had_them(service, folder, box):
    with Bridge(service.url, folder, version="2025-03-26") as bridge:
        bridge.begin()
        ping, listing = bridge.make("ping", {}), bridge.make("tools/list", {})
        bridge.write(bridge.line([ping, {"jsonrpc": "2.0", "method": "notifications/x"}, listing]))
        answer = bridge.answer("batch")
        assert {item["id"] for item in answer} == {ping["id"], listing["id"]}


# --- what is wrong ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line, code",
    [
        (b"garbage", -32700),
        (b"{", -32700),
        (b'"text"', -32700),
        (b"\xff\xfe\x00{}", -32700),
        (b"[" * 5000 + b"]" * 5000, -32700),
        (b'{"a":' * 5000 + b"1" + b"}" * 5000, -32700),
        (b'{"jsonrpc":"2.0","id":1e999,"method":"ping"}', -32700),
        (b"{}", -32600),
        (b'{"jsonrpc":"2.0","method":7,"id":{}}', -32600),
        (b'{"jsonrpc":"2.0","method":"ping","id":null}', -32600),
        (b'{"jsonrpc":"2.0","method":"ping","id":[1]}', -32600),
        (b'{"jsonrpc":"2.0","method":"ping","id":"' + b"x" * 1000 + b'"}', -32600),
    ],
    ids=range(12),
)
def test_garbage(bridge, line, code):
    bridge.write(line + b"\n")
    assert bridge.answer(None)["error"]["code"] == code
    assert "tools" in bridge.ask("tools/list")


def test_messages_that_only_look_right(bridge):
    """They are huskd's to judge, and each is answered."""
    for number, extra in enumerate([{"jsonrpc": "1.0"}, {"params": [1]}, {"method": "x" * 1000}, {"params": {"_meta": 3}}]):
        message = {"jsonrpc": "2.0", "id": f"odd-{number}", "method": "tools/list"} | extra
        bridge.write(bridge.line(message))
        answer = bridge.answer(f"odd-{number}")
        assert "error" in answer or extra == {"params": {"_meta": 3}}, answer
    bridge.write(bridge.line({"jsonrpc": "2.0", "id": 9, "result": {}}))
    assert "tools" in bridge.ask("tools/list")


def test_a_line_that_is_too_long(bridge):
    for _ in range(30):
        bridge.write(b"x" * (1 << 20))
    bridge.write(b"\n")
    assert bridge.answer(None)["error"]["code"] == -32600
    assert "tools" in bridge.ask("tools/list")


def test_a_client_that_does_not_read(bridge, box):
    """Nothing is lost, and it does not keep the bridge from hearing."""
    bridge.reading.clear()
    code = "print('x' * 60000)"
    calls = [bridge.start("execute_python_code", code=code, sandbox_id=box) for _ in range(8)]
    big = "import base64, os; base64.b64encode(os.urandom(4 << 20)).decode(); open('big', 'wb').write(os.urandom(6 << 20))"
    calls.append(bridge.start("execute_python_code", code=big, sandbox_id=box))
    calls += [bridge.start("download_file", path="big", sandbox_id=box) for _ in range(6)]
    bridge.reading.set()
    for number in calls:
        assert "result" in bridge.answer(number)


# --- who dies --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
def test_the_end_of_input_in_the_middle(service, folder, box, era):
    bridge = Bridge(service.url, folder, era=era).begin()
    bridge.start("execute_python_code", code="while True: pass", timeout_seconds=600, sandbox_id=box)
    busy(service, box)
    assert bridge.end() == 0
    idle(service, box)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_in_the_middle(service, folder, box, number):
    bridge = Bridge(service.url, folder).begin()
    bridge.start("execute_python_code", code="while True: pass", timeout_seconds=600, sandbox_id=box)
    busy(service, box)
    bridge.process.send_signal(number)
    assert bridge.process.wait(30) == 0
    idle(service, box)
    bridge.end()


def test_the_reader_goes(service, folder, box):
    reader, writer = os.pipe()
    own = environment(service.url)
    process = subprocess.Popen([HUSK, "mcp"], stdin=subprocess.PIPE, stdout=writer, env=own, cwd=folder, text=True)
    os.close(writer)
    handshake = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    code = {"code": "while True: pass", "timeout_seconds": 600, "sandbox_id": box}
    call = {"name": "execute_python_code", "arguments": code}
    try:
        for number, (method, params) in enumerate([("initialize", handshake), ("tools/call", call)]):
            print(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}), file=process.stdin, flush=True)
        busy(service, box)
        os.close(reader)
        print('{"jsonrpc":"2.0","id":9,"method":"ping"}', file=process.stdin, flush=True)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.stdin.close()
        process.wait()
    idle(service, box)


@pytest.mark.parametrize("era", ERAS)
def test_huskd_is_killed_and_comes_back(private, folder, era):
    service = private().start()
    boxes = [service.create().id for _ in range(2)]
    with Bridge(service.url, folder, era=era) as bridge:
        bridge.begin()
        calls = []
        for box, token in zip(boxes, (None, "steps")):
            bridge.tool("execute_python_code", code="kept = 42", sandbox_id=box)
            code = {"code": "import time; time.sleep(600)", "timeout_seconds": 900, "sandbox_id": box}
            calls.append(bridge.start("execute_python_code", token=token, **code))
            busy(service, box)
        service.stop(signal.SIGKILL)
        for number in calls:
            error = bridge.answer(number)["error"]
            assert "may have been done" in error["message"] and service.url in error["message"], error
        error = bridge.answer(bridge.start("list_sandboxes"))["error"]
        assert "No huskd answers" in error["message"] and "--start" in error["message"], error
        service.start()
        for box in boxes:
            bridge.tool("interrupt_execution", sandbox_id=box)
            assert bridge.text("execute_python_code", code="kept", sandbox_id=box) == "42"
        if era == "legacy":
            # The stream is there again, too.
            bridge.tool("write_file", path="a", content="1", sandbox_id=box)
            bridge.ask("resources/subscribe", uri=f"husk://{box}/a")
            bridge.tool("write_file", path="a", content="22", sandbox_id=box)
            assert bridge.note("notifications/resources/updated")


def test_many_calls_when_the_session_is_forgotten(private, folder):
    service = private().start()
    box = service.create().id
    with Bridge(service.url, folder) as bridge:
        bridge.begin()
        service.stop()
        service.start()
        calls = [bridge.start("execute_terminal_command", command=["echo", str(i)], sandbox_id=box) for i in range(20)]
        for i, number in enumerate(calls):
            assert bridge.answer(number)["result"]["structuredContent"]["stdout"] == f"{i}\n"


# --- is there a huskd? -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
def test_without_a_service(folder, era):
    url = f"http://127.0.0.1:{free_port()}"
    with Bridge(url, folder, era=era) as bridge:
        method = "initialize" if era == "legacy" else "tools/list"
        error = bridge.answer(bridge.send(method, protocolVersion="2025-11-25"))["error"]
        assert url in error["message"] and "--start" in error["message"]
        host.until(lambda: url in "".join(bridge.said), 10, "the same on stderr")


def find_huskd(service):
    return [p for p in host.processes() if p.program == "huskd" and str(service.state) in p.arguments and p.state != "Z"]


@pytest.mark.parametrize("era", ERAS)
def test_starting_huskd(private, folder, era):
    service = private()
    options = service.command()[1:]
    at = options.index("--listen")
    del options[at : at + 2]  # that comes from the URL
    variables = {"HOME": str(folder), "XDG_STATE_HOME": str(folder / "log")}
    try:
        with Bridge(service.url, folder, "--start", "--", *options, era=era, variables=variables) as bridge:
            bridge.begin()
            first = bridge.tool("execute_python_code", code="x = 7")
            box = first["structuredContent"]["sandbox_id"]
            [huskd] = find_huskd(service)
            os.kill(huskd.pid, signal.SIGKILL)
            host.until(lambda: not find_huskd(service), 30, "huskd to be gone")
            # It is started again, and the call that was not heard is sent again.
            assert bridge.text("execute_python_code", code="x", sandbox_id=box) == "7"
        [huskd] = find_huskd(service)  # it stays
        assert service.get("/health").status_code == 200
        assert "huskd" in (folder / "log/husk/huskd.log").read_text()
    finally:
        for process in find_huskd(service):
            os.kill(process.pid, signal.SIGTERM)
        host.until(lambda: not find_huskd(service), 30, "huskd to end")


def test_a_huskd_that_does_not_start(folder):
    url, variables = f"http://127.0.0.1:{free_port()}", {"HOME": str(folder), "XDG_STATE_HOME": str(folder)}
    with Bridge(url, folder, "--start", "--", "--no-such-option", variables=variables) as bridge:
        error = bridge.answer(bridge.send("initialize", protocolVersion="2025-11-25"))["error"]
        assert str(folder / "husk/huskd.log") in error["message"]
    assert "no-such-option" in (folder / "husk/huskd.log").read_text()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--start", "--url", "http://example.com:8000"],
        ["--url", "ftp://127.0.0.1"],
        ["--url", "nonsense"],
        ["--root", "/no/such/folder"],
        ["--api-key-file", "/no/such/file"],
        ["--no-such-option"],
        ["words"],
    ],
    ids=" ".join,
)
def test_a_command_line_that_makes_no_sense(folder, arguments):
    done = subprocess.run(
        [HUSK, "mcp", *arguments], stdin=subprocess.DEVNULL, env=environment(), cwd=folder, capture_output=True, text=True, timeout=30
    )
    assert done.returncode in (2, 5) and done.stderr.startswith("husk: ") and done.stdout == "", done


def test_api_keys(private, folder):
    service = private(environment={"HUSK_API_KEY": "sesame"})
    service.launch()
    host.until(lambda: service.has_socket() and service.get("/health").status_code == 200, 30, "huskd")
    (folder / "key").write_text("sesame\n")
    for arguments, variables in (((), {"HUSK_API_KEY": "sesame"}), (("--api-key-file", "key"), {}), (("--api-key", "sesame"), {})):
        with Bridge(service.url, folder, *arguments, variables=variables) as bridge:
            assert bridge.initialize()["protocolVersion"] == "2025-11-25"
    with Bridge(service.url, folder) as bridge:
        error = bridge.answer(bridge.send("initialize", protocolVersion="2025-11-25"))["error"]
        assert "HUSK_API_KEY" in error["message"]
    assert "sesame" not in "".join(bridge.said)


# --- a service that is none ------------------------------------------------------------------------------------------


@contextmanager
def impostor(status, headers, body, cut=0):
    """Answers everything with this; `cut`: it promises so many bytes more than it sends."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self):
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body) + cut))
            self.end_headers()
            self.wfile.write(body)
            self.close_connection = True

        do_GET = do_POST = do_DELETE = answer

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


JSON, EVENTS = {"Content-Type": "application/json"}, {"Content-Type": "text/event-stream"}
ANSWERS = {
    "empty": (200, JSON, b""),
    "no json": (200, JSON, b"{nonsense"),
    "deep": (200, JSON, b"[" * 100000),
    "other id": (200, JSON, b'{"jsonrpc":"2.0","id":77,"result":{}}'),
    "no id": (400, JSON, b'{"jsonrpc":"2.0","error":{"code":-32600,"message":"no"}}'),
    "a list": (200, JSON, b"[1,2]"),
    "html": (502, {"Content-Type": "text/html"}, b"<html>\nBad gateway\n</html>"),
    "elsewhere": (302, {"Location": "http://127.0.0.1:1/mcp"}, b""),
    "accepted": (202, {}, b""),
    "cut": (200, JSON, b'{"jsonrpc":"2.0",', 100),
    "no event": (200, EVENTS, b": hello\n\ndata: x\n\ndata"),
    "other event": (200, EVENTS, b'data: {"jsonrpc":"2.0","id":99,"result":{}}\n\n'),
    "header": (200, JSON | {"Mcp-Session-Id": "x" * 5000}, b"{}"),
    "error of a wrong kind": (200, JSON, b'{"jsonrpc":"2.0","error":7,"id":null}'),
}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("kind", ANSWERS)
def test_a_service_that_is_none(folder, era, kind):
    with impostor(*ANSWERS[kind]) as url, Bridge(url, folder, era=era) as bridge:
        for method in ("initialize", "tools/list", "tools/call"):
            error = bridge.answer(bridge.send(method, name="upload_file", arguments={}))["error"]
            assert isinstance(error["code"], int) and error["message"]
        (folder / "file").write_text("x")
        answer = bridge.answer(bridge.start("upload_file", path="x", local_path="file"))
        assert "error" in answer or answer["result"]["isError"]


def test_lines_in_answers_become_one(folder):
    body = b'{\r\n"jsonrpc":"2.0",\n"id":1,\n"result":{}}\n'
    with impostor(200, JSON, body) as url, Bridge(url, folder) as bridge:
        assert bridge.answer(bridge.send("ping"))["result"] == {}
    events = b'event: message\r\ndata: {"jsonrpc":"2.0",\r\ndata:"id":1,"result":{}}\r\n\r\n'
    with impostor(200, EVENTS, events) as url, Bridge(url, folder) as bridge:
        assert bridge.answer(bridge.send("ping"))["result"] == {}
