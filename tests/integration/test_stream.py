"""Output while it comes: events of every kind, readers that are slow, stop reading or go away."""

import http.client
import json
import os
import signal
import socket

import pytest

import host
from service import joined, later, problem

MIB = 1 << 20

FORMATS = pytest.mark.parametrize("lines", [False, True], ids=["sse", "ndjson"])


def request_text(sandbox, code, accept="text/event-stream"):
    body = json.dumps({"code": code}).encode()
    return (
        f"POST {sandbox.path}/execute HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode() + body


# --- events ---


@FORMATS
def test_every_kind_of_event(shared, lines):
    code = """
import sys
from IPython.display import clear_output
print('gone'); clear_output()
print('out'); print('err', file=sys.stderr)
handle = display('first', display_id=True)
handle.update('second')
open('made.txt', 'w').write('12345')
raise KeyError('missing')
"""
    with shared.stream(code, lines) as stream:
        stream.next("start")
        events = stream.rest()
    names = [event["event"] for event in events]
    assert names == ["stdout", "clear", "stdout", "stderr", "result", "update", "error", "file", "end"]
    answer = joined(events)
    assert (answer["stdout"], answer["stderr"]) == ("out\n", "err\n")
    assert [entry["data"] for entry in answer["results"]] == ["'second'"]
    assert answer["error"] == "KeyError" and "missing" in answer["traceback"]
    [file] = answer["files"]
    assert (file["path"], file["size"], file["change"]) == ("made.txt", 5, "created")
    assert answer["status"] == "error" and answer["state_lost"] is False and answer["truncated"] is False
    shared.run("import os; os.remove('made.txt')")


WHOLE = [
    "1 + 1",
    "print('a'); print('b'); 'c'",
    "import matplotlib.pyplot as plt\nfor n in (1, 2):\n    plt.plot([n]); plt.show()",
    "import pandas as pd; pd.DataFrame({'a': [1]})",
    "display('é \\u2028 🦊'); print('\\x00\\x85\\u2029')",
    "for n in range(300): display(n)",
    "raise ValueError('é')",
    "print('z' * 900_000)",
]


@FORMATS
@pytest.mark.parametrize("code", WHOLE)
def test_a_stream_amounts_to_the_answer(shared, code, lines):
    whole = shared.execute(code)
    with shared.stream(code, lines) as stream:
        streamed = joined(stream.rest())
    for key in ("execution_count", "duration_ms", "traceback"):  # the last one names the cell by its number
        whole.pop(key), streamed.pop(key)
    assert streamed == whole


@FORMATS
def test_output_comes_before_the_end(sandbox, lines):
    """The code would run for a minute; that it is interrupted after its first line proves that the line was there."""
    with sandbox.stream("print('first')\nimport time; time.sleep(60)", lines) as stream:
        stream.next("start")
        assert stream.next("stdout")["text"] == "first\n"
        assert sandbox.post("interrupt").status_code == 200
        end = stream.rest()[-1]
    assert (end["status"], end["error"]) == ("interrupted", "Interrupted")


def test_headers(shared):
    with shared.stream("1") as stream:
        assert stream.answer.headers["Cache-Control"] == "no-store"
        assert stream.answer.headers["X-Accel-Buffering"] == "no"
        assert stream.answer.headers["X-Request-Id"]
        stream.rest()


@pytest.mark.parametrize("accept", ["application/json", "*/*", "text/html", ""])
def test_other_types_are_answered_whole(shared, accept):
    answer = shared.post("execute", data=b"1", headers={"Accept": accept})
    assert answer.headers["Content-Type"] == "application/json" and answer.json()["status"] == "ok"


@pytest.mark.parametrize("accept", ["text/event-stream;q=0.9, */*", "application/json, Text/Event-Stream"])
def test_accept_with_several_types(shared, accept):
    answer = shared.post("execute", data=b"1", headers={"Accept": accept})
    assert answer.headers["Content-Type"] == "text/event-stream" and "event: end" in answer.text


def test_connection_is_used_again(shared):
    with shared.stream("print(1)") as stream:
        stream.rest()
        again = stream.session.post(f"{shared.service.url}{shared.path}/execute", data=b"print(2)")
        assert again.json()["stdout"] == "2\n"


def test_keep_alive_in_silence(create):
    """Both kinds at once, as each needs some silence."""
    code = "import time; time.sleep(12); print('end')"
    with create().stream(code) as events, create().stream(code, lines=True) as lines:
        assert events.next("start") and lines.next("start")
        assert lines.next("keepalive") == {"event": "keepalive"}
        assert [event["event"] for event in events.rest()] == ["stdout", "end"]
        assert events.comments == [": keep-alive"]
        assert lines.rest()[-1]["status"] == "ok"


# --- when it does not run as planned ---


def test_problems_are_no_streams(service, shared):
    headers = {"Accept": "text/event-stream"}
    problem(service.post("/sandbox/nobody/execute", data=b"1", headers=headers), 404, "sandbox_not_found")
    problem(shared.post("execute", data=b"\xff", headers=headers), 422)


def test_waiting_in_line(sandbox):
    running = later(sandbox.execute, "import time; time.sleep(2)")
    sandbox.until_state("busy")
    with sandbox.stream("print('ran')") as stream:
        assert stream.next("queued")["ahead"] == 1
        stream.next("start")
        assert stream.rest()[0]["text"] == "ran\n"
    assert running.result(10)["status"] == "ok"


def test_full_queue_is_a_problem(sandbox):
    running = later(sandbox.execute, "import time; time.sleep(60)")
    sandbox.until_state("busy")
    waiting = [sandbox.stream("1") for _ in range(16)]
    with sandbox.stream("1") as refused:
        problem(refused.answer, 429, "queue_full")
    assert sandbox.post("interrupt").status_code == 200
    assert running.result(20)["status"] == "interrupted"
    for stream in waiting:
        assert stream.rest()[-1]["status"] == "ok"
        stream.close()


def test_timeout_in_line(sandbox):
    running = later(sandbox.execute, "import time; time.sleep(3)")
    sandbox.until_state("busy")
    with sandbox.stream("print('ran')", timeout=0.5) as stream:
        assert [event["event"] for event in stream.rest()] == ["queued", "end"]
    assert running.result(10)["status"] == "ok"


def test_timeout(sandbox):
    with sandbox.stream("print('begun')\nwhile True: pass", timeout=1) as stream:
        events = stream.rest()
    assert joined(events)["stdout"] == "begun\n"
    assert (events[-1]["status"], events[-1]["error"]) == ("timeout", "TimeoutError")


def test_kernel_dies(sandbox):
    """What it said before is there. (What it says in its very last moment may be lost inside of it: libzmq sends by a thread.)"""
    events = []
    with sandbox.stream("print('last words')\ninput()\nimport os; os._exit(7)", stdin="ask") as stream:
        for event in stream:
            events.append(event)
            if event["event"] == "input_request":
                assert sandbox.post("input", json={"value": "go"}).status_code == 200
    answer = joined(events)
    assert answer["stdout"] == "last words\n"
    assert (answer["status"], answer["error"], answer["state_lost"]) == ("died", "KernelDied", True)
    assert "exit code 7" in answer["error_value"]


def test_restart(sandbox):
    with sandbox.stream("print('begun')\nimport time; time.sleep(60)") as stream:
        stream.until("stdout")
        assert sandbox.post("restart").status_code == 200
        end = stream.rest()[-1]
    assert (end["status"], end["state_lost"]) == ("interrupted", True)


@FORMATS
@pytest.mark.parametrize("how", ["close", "kill"])
def test_sandbox_ends(create, how, lines):
    sandbox = create()
    shim = sandbox.shim()
    with sandbox.stream("print('begun')\nimport time; time.sleep(60)", lines) as stream:
        stream.until("stdout")
        closing = later(sandbox.close) if how == "close" else os.kill(shim.pid, signal.SIGKILL)
        end = stream.rest()[-1]
    assert (end["status"], end["error"], end["state_lost"]) == ("died", "SandboxClosed", True)
    assert end["error_value"]
    if closing:
        assert closing.result(20).status_code == 200


def test_huskd_stops(private):
    service = private().start()
    sandbox = service.create()
    with sandbox.stream("print('begun')\nimport time; time.sleep(60)") as stream:
        stream.until("stdout")
        stopping = later(service.stop)
        end = stream.rest()[-1]
    assert (end["status"], end["error"]) == ("interrupted", "ServiceStopping")
    assert stopping.result(30) == 0
    service.start()
    assert service.adopt(sandbox.id).works()


def test_huskd_is_killed(private):
    """The execution goes on without a reader; the next huskd finds a sandbox that works."""
    service = private().start()
    sandbox = service.create()
    with sandbox.stream("print('begun')\nfor n in range(2_000_000): print('x' * 20)\nkept = n") as stream:
        stream.until("stdout")
        service.process.kill()
        service.process.wait()
    service.start()
    sandbox = service.adopt(sandbox.id)
    sandbox.until_state("ready", 60)
    assert sandbox.value("kept") == 1_999_999


# --- readers ---


PATTERN = """
for n in range(20_000):
    print(f'{n:06d} ' + 'x' * 992)
"""


@FORMATS
def test_reader_that_keeps_reading_gets_all(sandbox, bounded, lines):
    """20 MB, faster than Python parses them: the kernel has to wait now and then, and nothing is lost."""
    with sandbox.stream(PATTERN, lines) as stream:
        answer = joined(stream.rest())
    assert answer["truncated"] is False
    assert answer["stdout"] == "".join(f"{n:06d} {'x' * 992}\n" for n in range(20_000))


def test_reader_that_stops_reading(sandbox, bounded):
    """The code ends all the same; what the reader missed is told when it reads again."""
    size = 200 * MIB
    code = f"for n in range({size // 10_000}): print('y' * 9_999)\nkept = 'yes'"
    with socket.socket() as reader:
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
        reader.settimeout(60)
        reader.connect(("127.0.0.1", sandbox.service.port))
        reader.sendall(request_text(sandbox, code, "application/x-ndjson"))
        sandbox.until_state("busy")
        sandbox.until_state("ready", 60)
        assert sandbox.value("kept") == "yes", "others are served while the stream waits"
        answer = http.client.HTTPResponse(reader)
        answer.begin()
        text = answer.read()
    events = [json.loads(line) for line in text.splitlines()]
    dropped = [event for event in events if event["event"] == "dropped"]
    assert len(dropped) >= 1 and dropped[0]["events"] > 0 and dropped[0]["bytes"] > 100 * MIB
    assert events[-1]["status"] == "ok" and events[-1]["truncated"] is True
    assert len(text) < 16 * MIB, "what the sockets hold, and what waits"


def test_kernel_dies_while_its_output_is_held(sandbox):
    """What it had sent and nobody took is lost, and that is told."""
    code = """
import os, threading, time
written = 0
def kill_when_held():
    seen = -1
    while seen != written:
        seen = written
        time.sleep(0.3)
    os.kill(os.getpid(), 9)
threading.Thread(target=kill_when_held).start()
while True:
    print('y' * 9_999)
    written += 1
"""
    with socket.socket() as reader:
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
        reader.settimeout(60)
        reader.connect(("127.0.0.1", sandbox.service.port))
        reader.sendall(request_text(sandbox, code, "application/x-ndjson"))
        sandbox.until_state("busy")
        sandbox.until_state("ready", 60)
        answer = http.client.HTTPResponse(reader)
        answer.begin()
        end = json.loads(answer.read().splitlines()[-1])
    assert (end["status"], end["error"], end["truncated"]) == ("died", "KernelDied", True)


def test_reader_that_stops_and_never_comes_back(sandbox, bounded):
    """It is gone when its connection is closed, with its last bytes unread; others are not held up before that."""
    with socket.socket() as reader:
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
        reader.connect(("127.0.0.1", sandbox.service.port))
        reader.sendall(request_text(sandbox, "while True: print('z' * 1000)"))
        sandbox.until_state("busy")
        queued = later(sandbox.execute, "print('next')", timeout=60)
        host.until(lambda: sandbox.info()["queued"] == 1, 10, "the second to be queued")
    assert queued.result(30)["stdout"] == "next\n"


@FORMATS
def test_vanishing_reader_interrupts(sandbox, lines):
    sandbox.run("kept = 'yes'")
    with sandbox.stream("print('begun')\nimport time; time.sleep(60)", lines) as stream:
        stream.until("stdout")
    sandbox.until_state("ready", 15)
    assert sandbox.value("kept") == "yes"


def test_vanishing_reader_in_line(sandbox):
    running = later(sandbox.execute, "import time; time.sleep(3); left = 'no'")
    sandbox.until_state("busy")
    with sandbox.stream("left = 'it ran'") as stream:
        stream.next("queued")
    assert running.result(30)["status"] == "ok"
    assert sandbox.value("left") == "no"


def test_many_streams_at_once(create):
    """Each gets its own output and nothing of the others."""
    sandboxes = [create() for _ in range(4)]

    def run(sandbox, n):
        with sandbox.stream(f"for i in range(200): print('{n}:' + str(i))", lines=n % 2 == 0) as stream:
            return joined(stream.rest())["stdout"]

    futures = [later(run, sandboxes[n % 4], n) for n in range(32)]
    for n, future in enumerate(futures):
        assert future.result(60) == "".join(f"{n}:{i}\n" for i in range(200))


def test_a_gigabyte(sandbox, bounded):
    """Whoever wants all of it gets all of it."""
    code = "line = 'g' * 99_999\nfor n in range(10_000): print(line)"
    total, end = 0, None
    with sandbox.stream(code, lines=True, timeout=120) as stream:
        for event in stream:
            total += len(event.get("text", ""))
            end = event
    assert (end["event"], end["status"], end["truncated"]) == ("end", "ok", False)
    assert total == 1_000_000_000
