"""A kernel that breaks the protocol on purpose (fake_kernel.py, in the place of the image's kernel). Whatever it does,
the caller gets a sane answer in bounded time, shim and huskd stay small, and the next execution works."""

import json
import socket
import time

import pytest

import host
from service import problem, sanitized

MIB = 1 << 20
SHIM_BYTES = 384 * MIB  # SHIM_MEMORY_BYTES of include/husk/limits.h
HUSKD_BYTES = 200 * MIB
if sanitized():  # no limit can be set then
    SHIM_BYTES, HUSKD_BYTES = 2048 * MIB, 1024 * MIB


@pytest.fixture(scope="module")
def enduring(faking):
    """For what a kernel should come through."""
    sandbox = faking.create()
    sandbox.run("kept = 'yes'")
    return sandbox


@pytest.fixture
def fresh(faking):
    sandbox = faking.create()
    yield sandbox
    assert sandbox.close().status_code in (200, 410)


@pytest.fixture(autouse=True)
def small(faking):
    """Whatever a kernel sends, those who read it stay within their bounds."""
    yield
    for process in faking.programs("husk-shim"):
        assert process.resident_bytes < SHIM_BYTES, process
    assert host.Process(faking.process.pid).resident_bytes < HUSKD_BYTES


def fake(sandbox, what, timeout=30):
    started = time.monotonic()
    answer = sandbox.execute(f"# fake: {what}", timeout=timeout)
    assert time.monotonic() - started < timeout + 25
    assert answer["status"] in ("ok", "error", "timeout", "interrupted", "died")
    return answer


def test_fake_kernel_runs_code(enduring):
    assert enduring.execute("print(1 + 1)")["stdout"] == "2\n"
    assert enduring.info()["kernel"]


@pytest.mark.parametrize(
    "what, stdout",
    [
        ("bad_signature", "genuine"),
        ("replay", "once"),
        ("wrong_parent", "own"),
        ("too_many_frames", "output"),
        ("garbage_json", "output"),
        ("deep_nesting", "output"),
        ("many_values", "output"),
        ("unknown_types", "output"),
        ("null_bytes", "a\0b"),
        ("announced_frame", "output"),
        ("unasked_input", "output"),
        ("note_without_input", "output"),
    ],
)
def test_bad_messages_are_dropped(enduring, what, stdout):
    answer = fake(enduring, what)
    assert (answer["status"], answer["stdout"]) == ("ok", stdout), answer
    assert answer["error"] is None and answer["state_lost"] is False
    assert enduring.value("kept") == "yes"


@pytest.mark.parametrize("what", ["wrong_types", "invalid_utf8"])
def test_bad_replies(enduring, what):
    answer = fake(enduring, what)
    assert answer["stdout"].endswith("output") and "lost" not in answer["stdout"]
    assert enduring.value("kept") == "yes"


def test_input_that_is_never_noted(enduring):
    """Nobody knows where among the output it belongs, so it waits, until the time is over."""
    answer = enduring.execute("# fake: input_without_note", timeout=1, stdin="a line")
    assert (answer["status"], answer["state_lost"]) == ("timeout", False)
    assert enduring.value("kept") == "yes"


def test_lies_about_the_whole_text(enduring):
    answer = fake(enduring, "whole_text_lies")
    assert answer["truncated"] is True
    assert "; the whole text is in honest.txt]\n" in answer["stdout"]


def test_output_after_idle_belongs_to_nobody(enduring):
    assert fake(enduring, "output_after_idle")["stdout"] == "output"
    answer = enduring.execute("import time; time.sleep(0.3); print('next')")
    assert answer["stdout"] == "next\n"


def test_reply_before_its_outputs(enduring):
    """They come by two sockets. The error is told once, and in its place."""
    with enduring.stream("# fake: reply_first") as events:
        told = [(event["event"], event.get("text", event.get("error"))) for event in events]
    assert told[1:-1] == [("stdout", "output"), ("error", "ValueError")]


def test_reply_without_idle(enduring):
    answer = fake(enduring, "reply_without_idle")
    assert answer["status"] == "ok" and answer["stdout"] == "output"
    assert answer["duration_ms"] < 15_000
    assert enduring.value("kept") == "yes"


def test_idle_without_reply(enduring):
    answer = fake(enduring, "idle_without_reply")
    assert (answer["error"], answer["stdout"], answer["state_lost"]) == ("NoReply", "output", False)
    assert answer["duration_ms"] < 15_000
    assert enduring.value("kept") == "yes"


def test_idle_again_and_again(fresh):
    """Whoever says so, and is not, does not get away with it: the code runs no longer, and nobody is told that the variables
    are there."""
    answer = fake(fresh, "idle_again_and_again 60", timeout=60)
    assert (answer["error"], answer["stdout"], answer["state_lost"]) == ("NoReply", "output", True)
    assert answer["duration_ms"] < 30_000
    assert fresh.execute("print('next')")["stdout"] == "next\n"


def test_output_without_end(faking, fresh):
    """The code has ended, its output has not, and nobody reads it: that is over when the time is."""
    body = json.dumps({"code": "# fake: output_without_end", "timeout": 1})
    with socket.create_connection(("127.0.0.1", faking.port)) as client:
        client.sendall(
            f"POST {fresh.path}/execute HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
        )
        host.until(lambda: fresh.info()["state"] == "busy", 10, "it to run")
        host.until(lambda: fresh.info()["state"] == "ready", 20, "it to end")
    assert fresh.execute("print('next')")["stdout"] == "next\n"


def test_huge_frame(enduring):
    answer = fake(enduring, "huge_frame")
    assert answer["truncated"] is True
    assert answer["stdout"].startswith("before") or answer["stdout"].endswith("after")
    assert len(answer["stdout"]) < 2 * MIB
    assert enduring.works()


def test_flood(enduring):
    answer = fake(enduring, "flood 100000", timeout=60)
    assert answer["status"] in ("ok", "timeout")
    assert len(answer["stdout"]) < 2 * MIB
    assert enduring.works()


def test_endless_message(faking, enduring, fresh):
    """More than a shim may hold, and libzmq gathers it before anybody sees it: at worst that sandbox ends."""
    shim = fresh.value("1") and [p for p in faking.programs("husk-shim")]
    answer = fresh.post("execute", json={"code": "# fake: endless_more 1024", "timeout": 30})
    assert answer.status_code in (200, 410), answer.text
    for process in shim:
        if host.alive(process.pid):
            assert process.resident_bytes < SHIM_BYTES
    if answer.status_code == 200 and faking.get(fresh.path).status_code == 200:
        host.until(lambda: fresh.execute("print(1)")["stdout"] == "1\n", 20, "the next execution")
    assert enduring.works(), "no other sandbox is touched"


def test_hang_ends_by_interrupt(enduring):
    answer = fake(enduring, "hang", timeout=1)
    assert (answer["status"], answer["state_lost"]) == ("timeout", False)
    assert enduring.value("kept") == "yes"


@pytest.mark.parametrize("what", ["no_answer_at_all", "ignore_interrupt"])
def test_kernel_that_does_not_stop_is_replaced(fresh, what):
    fresh.run("variable = 1")
    answer = fake(fresh, what, timeout=1)
    assert (answer["status"], answer["error"], answer["state_lost"]) == ("timeout", "TimeoutError", True)
    assert fresh.value("'variable' in globals()") is False


@pytest.mark.parametrize("what", ["die_before_reply", "die_after_busy", "exit_code 3"])
def test_death(fresh, what):
    answer = fake(fresh, what)
    assert (answer["status"], answer["error"], answer["state_lost"]) == ("died", "KernelDied", True)
    assert answer["duration_ms"] < 10_000
    if what == "die_before_reply":
        assert answer["stdout"] == "output"
    assert fresh.works()


def test_death_after_the_reply(fresh):
    answer = fake(fresh, "die_after_reply")
    assert answer["stdout"] == "output" and answer["state_lost"] is True
    assert fresh.works()


def test_first_kernel_dies_at_its_start(faking):
    """Nobody gets half a sandbox: the create fails, with the kernel's last words, and nothing of it is left."""
    before = len(faking.programs("husk-shim"))
    answer = faking.post("/sandbox/create", json={"env": {"FAKE_DIE_AT_START": "1"}})
    assert answer.status_code in (500, 503)
    problem(answer, answer.status_code)
    assert "told to die" in answer.json()["detail"]
    assert len(faking.programs("husk-shim")) == before
    assert faking.create().close().status_code == 200, "the next create works"


def test_later_kernels_die_at_their_start(faking, fresh):
    fake(fresh, "die_at_start")
    assert fake(fresh, "exit_code 1")["status"] == "died"
    answer = fresh.post("execute", data=b"print(1)")
    assert answer.status_code in (200, 410, 503), answer.text
    host.until(lambda: faking.get(fresh.path).status_code == 410, 30, "the sandbox to be given up")
    assert "died" in problem(faking.get(fresh.path), 410, "sandbox_closed")["detail"]


def test_silent_kernel(faking, fresh):
    """A fresh kernel that says nothing: executions end at their deadline, and others are not held up."""
    fake(fresh, "silent_at_start")
    assert fake(fresh, "exit_code 1")["status"] == "died"
    answer = fresh.execute("print(1)", timeout=2)
    assert answer["status"] == "timeout" and answer["duration_ms"] < 15_000
    assert fresh.close().status_code == 200
    assert faking.get("/health").status_code == 200
