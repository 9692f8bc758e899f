"""libhusk and a service that is none, or is damaged: every answer is bounded, and none is taken for what it is not."""

import copy
import ctypes
import gc
import json
import os
import socket
import subprocess
import threading

import pytest

import host
from fake_husk import FakeHusk, answer, chunked, events
from libhusk import ON_EVENT, Code, Failed, Husk, filled
from service import PROGRAMS, later

RESULT = {
    "stdout": "a", "stderr": "b", "error": "E", "error_value": "v", "traceback": "t",
    "results": [
        {"type": "image/png", "data": "iVBORw==", "output": 0, "main": True, "display_id": "d", "update": True},
        {"type": "application/json", "data": {"x": [1]}, "output": 1},
    ],
    "files": [{"path": "p", "size": 1, "type": "t", "url": "/u", "change": "created"}],
    "status": "ok", "state_lost": False, "truncated": False, "execution_count": 1, "duration_ms": 1.5,
}  # fmt: skip
COMMAND = {**RESULT, "command_id": "c", "exit_code": 0, "signal": "SIGTERM"}
SANDBOX = {
    "sandbox_id": "s", "name": "n", "state": "ready", "created_at": "2026", "expires_at": "2027", "idle_seconds": 1,
    "limits": {"memory_mb": 1, "cpus": 1.0, "pids": 1, "disk_mb": 1},
    "usage": {"memory_bytes": 1, "cpu_seconds": 1.0, "pids": 1, "disk_bytes": 1},
    "execution_count": 1, "queued": 1, "commands": 1,
}  # fmt: skip
HEALTH = {"status": "healthy", "version": "1", "uptime_seconds": 1, "reasons": ["r"],
          "sandboxes": {"live": 1, "warm": 1, "creating": 1, "maximum": 1}}  # fmt: skip
PACKAGE = {"name": "n", "version": "1", "status": "installed", "error": "e"}
END = {key: value for key, value in RESULT.items() if key not in ("stdout", "stderr", "results", "files", "traceback")}

# What each function of tests/client/calls.c takes for a good answer. Those that give nothing back take any JSON.
WHOLE = {
    "health": HEALTH,
    "info": SANDBOX,
    "list": {"s": SANDBOX, "t": SANDBOX},
    "execute": RESULT,
    "execution": RESULT,
    "execute_detached": {"execution_id": "e"},
    "complete": {"matches": ["print"], "cursor_start": 0, "cursor_end": 4},
    "inspect": {"found": True, "data": {"text/plain": "d"}},
    "is_complete": {"status": "incomplete", "indent": "  "},
    "command": COMMAND,
    "command_detached": {"command_id": "c"},
    "command_result": COMMAND,
    "commands": {"commands": [{"command_id": "c", "pid": 1, "command": "x", "status": "running", "started_at": "2026"}]},
    "packages": [PACKAGE],
    "package": PACKAGE,
    "files": [{"path": "p", "size": 1, "type": "t", "modified_at": "2026"}],
}
STREAMS = {
    "execute_streaming": [
        {"event": "queued", "ahead": 1}, {"event": "start", "state_lost": False}, {"event": "stdout", "text": "a"},
        {"event": "stderr", "text": "b"}, {"event": "result", "output": 0, "results": RESULT["results"]},
        {"event": "update", "output": 0, "results": RESULT["results"]}, {"event": "clear"}, {"event": "keepalive"},
        {"event": "input_request", "prompt": "?", "password": True}, {"event": "new", "x": 1}, {"event": "dropped", "events": 1},
        {"event": "error", "error": "E", "error_value": "v", "traceback": "t"}, {"event": "file", **RESULT["files"][0]},
        {"event": "end", **END},
    ],
    "command_streaming": [
        {"event": "start", "command_id": "c", "pid": 1}, {"event": "command", "index": 0}, {"event": "stdout", "text": "a"},
        {"event": "end", **END, "exit_code": 0, "signal": "SIGTERM"},
    ],
    "install": [
        {"event": "progress", "text": "l"},
        {"event": "end", "status": "success", "installed": [PACKAGE], "error": "e", "restart_needed": False},
    ],
}  # fmt: skip


def call_many(name, answers, folder, *command, keep=False):
    """Call a function once for each answer, in one program; gives a line for each."""
    with FakeHusk(*answers, keep=keep) as fake:
        done = subprocess.run(
            [*command, PROGRAMS / "clients" / "calls", fake.url, name, str(len(answers))],
            stdout=subprocess.PIPE,
            text=True,
            timeout=600,
            env={**os.environ, "TMPDIR": str(folder)},
        )
        assert done.returncode == 0, done.stdout[-2000:]
        lines = done.stdout.splitlines()
        assert len(lines) == len(answers)
        return lines


def kinds(lines):
    return [line.split()[0] for line in lines]


# --- cut connections ---


@pytest.mark.parametrize("name", ["execute", "files", "health", "packages"])
def test_cut_at_every_byte(name, folder):
    whole = answer(WHOLE[name])
    # Those that only read are asked again when a connection ends without a byte of an answer only if it was a kept one.
    got = kinds(call_many(name, [whole[:length] for length in range(len(whole) + 1)], folder))
    assert got == ["broken"] * len(whole) + ["ok"]


@pytest.mark.parametrize("name", STREAMS)
def test_stream_cut_at_every_byte(name, folder):
    whole = events(*STREAMS[name])
    got = kinds(call_many(name, [whole[:length] for length in range(len(whole) + 1)], folder))
    # The very last byte adds nothing.
    assert got[:-2] == ["broken"] * (len(whole) - 1) and got[-1] == "ok"


@pytest.mark.parametrize("name", ["download", "download_file"])
@pytest.mark.parametrize("whole", [answer(b"content", kind="text/plain"), chunked([b"con", b"tent"], kind="text/plain")])
def test_download_cut_at_every_byte(name, whole, folder):
    got = kinds(call_many(name, [whole[:length] for length in range(len(whole) + 1)], folder))
    assert set(got[:-2]) == {"broken"} and got[-1] == "ok"
    assert [path.name for path in folder.iterdir()] in ([], ["calls.txt"])


def test_what_changes_something_is_never_sent_twice(folder):
    """curl would send it again when a kept connection ends without an answer."""
    good = answer(RESULT)

    def nothing(peer):
        peer.shutdown(socket.SHUT_RDWR)

    with FakeHusk(good, nothing, good, keep=True) as fake, Husk(fake.url) as husk:
        assert husk.execute("s", "1")["status"] == "ok"
        with pytest.raises(Failed) as failed:
            husk.execute("s", "2")
        assert failed.value.kind == "broken"
        assert husk.execute("s", "3")["status"] == "ok"
        assert [json.loads(request.body)["code"] for request in fake.requests] == ["1", "2", "3"]
    with FakeHusk(answer(SANDBOX), nothing, answer(SANDBOX), keep=True) as fake, Husk(fake.url) as husk:
        assert husk.info("s") and husk.info("s")  # but this only reads
        assert len(fake.requests) == 3


# --- what is not JSON, or not the right one ---


def paths(value, path=()):
    """Where the values of a JSON document are."""
    yield path
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in entries:
        yield from paths(entry, (*path, key))


def changed(value, path, new):
    if not path:
        return new
    value = copy.deepcopy(value)
    at = value
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = new
    return value


def get(value, path):
    for key in path:
        value = value[key]
    return value


STRANGE = [None, True, -1, 1.5, 2**63 - 1, "text", "a\0b", [], {}, [[]], [None], [1], {"x": None}]


def same_kind(old, new):
    """Would this be a value of the right type?"""
    if isinstance(old, bool) or isinstance(new, bool):
        return isinstance(old, bool) and isinstance(new, bool)
    if isinstance(old, float):
        return isinstance(new, (int, float))
    if isinstance(old, int):
        return isinstance(new, int) and new >= 0
    return type(old) is type(new)


def strange_values(document):
    """The document with each of its values replaced by each strange one, and whether that may be taken for good."""
    for path in paths(document):
        for new in STRANGE:
            old = get(document, path)
            inside_json = "data" in path and "x" in path or (path[-1:] == ("data",) and isinstance(old, dict))
            wrong = not (new is None or same_kind(old, new) or inside_json)
            yield changed(document, path, new), wrong, (path, new)


@pytest.mark.parametrize("name", WHOLE)
def test_wrong_types(name, folder):
    cases = list(strange_values(WHOLE[name]))
    # The list has its own keys: any object that holds sandboxes is one.
    lines = call_many(name, [answer(document) for document, _, _ in cases], folder)
    for line, (_, wrong, where) in zip(lines, cases, strict=True):
        assert line.split()[0] in ("ok", "answer"), (line, where)
        if wrong:
            assert line.startswith("answer 200 : "), (line, where)


@pytest.mark.parametrize("name", STREAMS)
def test_wrong_types_in_a_stream(name, folder):
    cases = []
    for index, event in enumerate(STREAMS[name]):
        for document, wrong, where in strange_values(event):
            free = event["event"] in ("new", "keepalive") or where[0] in (("state_lost",), ("pid",)) and event["event"] == "start"
            renamed = where[0] == ("event",)
            cases.append((changed(STREAMS[name], (index,), document), wrong and not free and not renamed, (event["event"], *where)))
    lines = call_many(name, [events(*sent) for sent, _, _ in cases], folder)
    for line, (_, wrong, where) in zip(lines, cases, strict=True):
        assert line.split()[0] in ("ok", "answer", "broken"), (line, where)
        if wrong:
            assert line.startswith("answer 200 : "), (line, where)


GARBAGE = [
    b"", b"null", b"{", b"[1,", b"\0", b"\xff\xfe", b"<html>", b'{"stdout": "\xff"}', b'{"stdout": "\\ud800"}', b"1" * 100000,
    b"[" * 100000, b"[" * 5000 + b"]" * 5000, b'{"a":' * 5000, b"nan", b'{"status": 1e999}', b'"' + b"a" * 1000000, b"{}garbage",
]  # fmt: skip


@pytest.mark.parametrize("name", [*WHOLE, *STREAMS])
def test_garbage(name, folder):
    lines = call_many(name, [answer(body) for body in GARBAGE], folder)
    assert {line.split()[0] for line in lines} <= {"answer", "broken"}, lines


def test_too_many_values(folder):
    """Each would cost some forty bytes."""
    lines = call_many("files", [answer(b"[" + b"0," * (9 << 20) + b"0]")], folder)
    assert lines[0].startswith("answer 200 : ") and "too many" in lines[0]


# --- sizes ---


def test_huge_headers(folder):
    many = answer(RESULT, more="".join(f"X-{i}: {'a' * 100}\r\n" for i in range(1000)))
    long = answer(RESULT, more=f"X: {'a' * 200000}\r\n")
    interim = b"HTTP/1.1 100 Continue\r\nX: y\r\n\r\n" * 5000 + answer(RESULT)
    lines = call_many("execute", [many, long, interim, answer(RESULT)], folder)
    assert kinds(lines) == ["answer", "answer", "answer", "ok"], lines
    assert "headers" in lines[0]


def send_forever(start, piece):
    """Send until the client has had enough of it."""

    def send(peer):
        peer.sendall(start)
        while True:
            peer.sendall(piece)

    return send


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"


def test_endless_answers(folder):
    """Each ends at a limit; the process stays small."""
    endless_line = send_forever(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"10000\r\n" + b"a" * 0x10000 + b"\r\n")
    endless_header = send_forever(HEAD, b"X: " + b"a" * 1000 + b"\r\n")
    refused = send_forever(HEAD.replace(b"200", b"500") + b"\r\n", b"a" * 65536)
    assert kinds(call_many("execute_streaming", [endless_line, endless_header, refused], folder)) == ["answer"] * 3
    assert kinds(call_many("execute", [endless_line, endless_header, refused], folder)) == ["answer"] * 3


def test_endless_stream_costs_no_memory():
    """A stream may go on for as long as it likes; its reader keeps nothing of it, and can end it."""
    piece = json.dumps({"event": "stdout", "text": "a" * 60000}).encode() + b"\n"
    stream = send_forever(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"%x\r\n%s\r\n" % (len(piece), piece))
    count = 0

    def enough(event, _):
        nonlocal count
        count += event.contents.text.length == 60000
        return count == 3000

    with FakeHusk(stream) as fake, Husk(fake.url) as husk:
        before = memory()
        with pytest.raises(Failed) as failed:
            husk.call("execute_streaming", "s", ctypes.byref(filled(Code, code="1")), ON_EVENT(enough), None)
        assert failed.value.kind == "cancelled" and count == 3000
        assert memory() < before + (64 << 20)


def memory():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_download_limit(folder):
    body = answer(b"x" * 1000, kind="text/plain")
    with FakeHusk(body) as fake, Husk(fake.url) as husk:
        assert len(husk.download("s", "f", 1000)["data"]) == 1000
        with pytest.raises(Failed) as failed:
            husk.download("s", "f", 999)
        assert failed.value.kind == "answer" and "999" in failed.value.message


def test_wrong_lengths(folder):
    body = json.dumps(RESULT).encode()

    def sized(length):
        return HEAD + b"Content-Length: %s\r\n\r\n" % length + body

    lengths = [b"%d" % (len(body) + 1), b"%d" % (len(body) - 1), b"1\r\nContent-Length: 2", b"0"]
    lines = call_many("execute", [sized(length) for length in lengths], folder)
    assert {line.split()[0] for line in lines} <= {"broken", "answer"}, lines
    # As if there were none: that JSON is complete shows, that a file is does not.
    lengths = [b"-1", b"99999999999999999999999", b"x"]
    lines = call_many("download_file", [sized(length) for length in lengths], folder)
    assert {line.split()[0] for line in lines} <= {"broken", "answer"}, lines
    chunks = [b"-1\r\n", b"x\r\n", b"ffffffffffffffffff\r\n", b"5\r\nabc", b"3\r\nabcdef\r\n0\r\n\r\n"]
    lines = call_many("execute", [HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunk for chunk in chunks], folder)
    assert {line.split()[0] for line in lines} <= {"broken", "answer"}, lines


def test_a_file_whose_length_is_not_told(folder):
    """It might be cut, and nobody could tell."""
    lines = call_many("download_file", [HEAD + b"\r\ncontent"], folder)
    assert lines[0].startswith("answer 200 : ") and "how long" in lines[0]
    assert list(folder.iterdir()) == []


def test_a_part_is_not_the_file(folder):
    lines = call_many("download_file", [answer(b"part", status=206), answer(b"", status=204), answer({}, status=201)], folder)
    assert set(kinds(lines)) == {"answer"} and list(folder.iterdir()) == []


# --- other things that are not Husk ---


def test_no_http(folder):
    lines = call_many("execute", [b"SSH-2.0-OpenSSH_9.2\r\n", b"\0" * 100, b"HTTP/9.9 200 OK\r\n\r\n", b"HTTP/1.1 banana\r\n\r\n"], folder)
    assert {line.split()[0] for line in lines} <= {"answer", "broken"}, lines


def test_refusals(folder):
    problem = {"type": "about:blank", "title": "T", "status": 409, "detail": "Wait.\x1b[31m\nred\x9b", "code": "c\x07"}
    lines = call_many(
        "execute",
        [
            answer(problem, 409, "application/problem+json"),
            answer({"title": "Only a title"}, 404),
            answer({"detail": 5, "code": "x"}, 400),
            answer(b"<html>Bad Gateway</html>", 502, "text/html"),
            answer({"detail": "x" * 100000, "code": "y" * 1000}, 500),
            answer({"detail": "é" * 1000}, 500),
        ],
        folder,
    )
    assert lines[0] == "refused 409 c : Wait. [31m red  "
    assert lines[1] == "refused 404 : Only a title"
    assert lines[2].startswith("answer 400 : ") and lines[3].startswith("answer 502 : ")
    assert lines[4] == f"refused 500 {'y' * 63}: {'x' * 511}" and lines[5] == "refused 500 : " + "é" * 255


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirections_are_not_followed(status):
    with FakeHusk(answer(RESULT)) as elsewhere:
        with FakeHusk(answer({}, status, more=f"Location: {elsewhere.url}/\r\n")) as fake:
            with Husk(fake.url, api_key="a-secret") as husk:
                for call in (lambda: husk.execute("s", "1"), lambda: husk.info("s"), lambda: husk.upload("s", b"x", "y"), lambda: husk.download("s", "f")):
                    with pytest.raises(Failed) as failed:
                        call()
                    assert failed.value.kind == "answer" and failed.value.status == status
                    assert "redirect" in failed.value.message and "a-secret" not in failed.value.message
            assert all(request.fields["authorization"] == "Bearer a-secret" for request in fake.requests)
        assert elsewhere.requests == []


# --- slowness ---


def test_slow_drip():
    """A byte now and then is no silence."""
    whole = events({"event": "stdout", "text": "a"}, {"event": "end", **END})
    pulse = threading.Event()

    def drip(peer):
        for position in range(len(whole)):
            peer.sendall(whole[position : position + 1])
            pulse.wait(0.01)

    with FakeHusk(drip) as fake, Husk(fake.url, timeout_seconds=1.0) as husk:
        seen, result = husk.streaming("s", "1")
        assert [event["text"] for event in seen] == [b"a"] and result["status"] == "ok"


def silent(peer):
    peer.recv(1)


@pytest.mark.parametrize("said", [b"", HEAD, HEAD + b"Content-Length: 100\r\n\r\n{", b"HTTP/1.1 100 Continue\r\n\r\n"])
def test_silence(said):
    def stop(peer):
        peer.sendall(said)
        silent(peer)

    with FakeHusk(stop) as fake, Husk(fake.url, timeout_seconds=0.3) as husk:
        with pytest.raises(Failed) as failed:
            husk.info("s")
        assert failed.value.kind == "timeout" and len(fake.requests) == 1


def test_callbacks_are_no_silence():
    """A person may think about an answer for longer than a service may be silent."""
    whole = events({"event": "input_request", "prompt": "?", "password": False}, {"event": "end", **END})
    with FakeHusk(whole) as fake, Husk(fake.url, timeout_seconds=0.2) as husk:
        pause = threading.Event()
        seen, result = husk.streaming("s", "1", lambda event: pause.wait(1) and None)
        assert len(seen) == 1 and result["status"] == "ok"


# --- retries ---


def test_retries():
    busy = answer({"detail": "Wait.", "code": "starting"}, 503, more="Retry-After: 0\r\n")
    with FakeHusk(busy, busy, answer(SANDBOX)) as fake, Husk(fake.url) as husk:
        assert husk.info("s")["id"] == "s" and len(fake.requests) == 3
    with FakeHusk(busy) as fake, Husk(fake.url) as husk:
        with pytest.raises(Failed) as failed:
            husk.info("s")
        assert failed.value.code == "starting" and len(fake.requests) == 4
    for call in (lambda husk: husk.execute("s", "1"), lambda husk: husk.create(), lambda husk: husk.restart("s"),
                 lambda husk: husk.upload("s", b"x", "y"), lambda husk: husk.remove("s", "y"), lambda husk: husk.command_kill("s", "c")):  # fmt: skip
        with FakeHusk(busy) as fake, Husk(fake.url) as husk:
            with pytest.raises(Failed) as failed:
                call(husk)
            assert failed.value.status == 503 and len(fake.requests) == 1
    late = answer({"detail": "Wait.", "code": "too_many"}, 429, more="Retry-After: 7\r\n")
    with FakeHusk(late) as fake, Husk(fake.url) as husk:
        with pytest.raises(Failed) as failed:
            husk.info("s")
        assert failed.value.retry_after == 7 and len(fake.requests) == 1


def test_cancel_between_retries():
    busy = answer({"detail": "Wait.", "code": "starting"}, 503, more="Retry-After: 600\r\n")
    with FakeHusk(busy) as fake, Husk(fake.url) as husk:
        call = later(husk.info, "s")
        host.until(lambda: fake.requests, 30, "the first request")
        husk.cancel()
        with pytest.raises(Failed) as failed:
            call.result(30)
        assert failed.value.kind == "cancelled" and len(fake.requests) == 1


# --- memory ---


@pytest.mark.parametrize(
    "name, good",
    [
        ("new", b""),
        ("execute", answer(RESULT)),
        ("streaming", events(*STREAMS["execute_streaming"])),
        ("list", answer(WHOLE["list"])),
        ("install", events(*STREAMS["install"])),
        ("download", answer(b"content", kind="text/plain")),
        ("file", answer(b"content", kind="text/plain")),
    ],
)
def test_every_allocation_fails_once(name, good, folder):
    """What fails says so and leaves nothing behind; tests/client/chaos.c."""
    with FakeHusk(good) as fake:
        environment = {**os.environ, "TMPDIR": str(folder)}
        done = subprocess.run([*valgrind(), PROGRAMS / "clients" / "chaos", fake.url, name], stdout=subprocess.PIPE, timeout=600, env=environment)
    assert done.returncode == 0 and int(done.stdout) > 3
    assert [path.name for path in folder.iterdir()] == (["chaos.txt"] if name == "file" else [])


@pytest.mark.parametrize("name", ["execute", "execute_streaming", "install", "list", "download_file"])
def test_valgrind(name, folder):
    """A choice of the above."""
    if name in STREAMS:
        whole = events(*STREAMS[name])
        documents = [changed(STREAMS[name], (index,), document) for index, event in enumerate(STREAMS[name]) for document, _, _ in strange_values(event)]
        answers = [events(*document) for document in documents[::7]]
    else:
        whole = answer(WHOLE.get(name, b"content"))
        answers = [answer(document) for document, _, _ in list(strange_values(WHOLE.get(name, {})))[::3]]
    answers += [whole[:length] for length in range(0, len(whole), 11)] + [whole] + [answer(body) for body in GARBAGE]
    lines = call_many(name, answers, folder, *valgrind())
    assert "ok" in lines


def valgrind():
    """Sanitizers look at the same things, and do not work below it."""
    if b"__asan_init" in (PROGRAMS / "clients" / "calls").read_bytes():
        return []
    return ["valgrind", "-q", "--leak-check=full", "--errors-for-leak-kinds=all", "--show-leak-kinds=definite,indirect,possible", "--error-exitcode=9"]
