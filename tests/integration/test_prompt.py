"""What a prompt asks the kernel while no code runs: completion, inspection, is this all? With a real kernel, with objects
whose code loops, raises or kills, and with a kernel that breaks the protocol."""

import json
import signal
import socket

import pytest

import host
from service import later, problem

QUESTION_SECONDS = 5  # QUESTION_MILLISECONDS of include/husk/limits.h
MATCHES = 1000  # MAX_MATCHES
HOSTILE = """
import os, time
class Hostile:
    def __init__(self, action): self._action = action
    def __dir__(self): return self._action()
    def __getattr__(self, name): return self._action()
def begin():
    open("begun", "w").close()
def forever():
    while True: time.sleep(0.01)
def stubborn():
    while True:
        try: time.sleep(0.01)
        except BaseException: pass
def fail(error):
    raise error
"""


def until_begun(sandbox):
    """Until code that a question calls has made the file "begun"."""
    host.until(lambda: sandbox.service.get(f"{sandbox.path}/download/begun").status_code == 200, 10, "the question")


def complete(sandbox, code, **fields):
    answer = sandbox.post("complete", json={"code": code, **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()


def inspect(sandbox, code, **fields):
    answer = sandbox.post("inspect", json={"code": code, **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.fixture(scope="module")
def hostile(create_shared):
    """A kernel that must come through what it is asked."""
    sandbox = create_shared()
    sandbox.run(HOSTILE)
    sandbox.run("kept = 'yes'")
    return sandbox


# --- completion ------------------------------------------------------------------------------------------------------


def test_attribute_of_a_variable(shared):
    shared.run("text = 'abc'")
    assert complete(shared, "print(text.upp") == {
        "matches": ["upper"],
        "cursor_start": 11,
        "cursor_end": 14,
        "metadata": {"_jupyter_types_experimental": [
            {"start": 11, "end": 14, "text": "upper", "type": "attribute", "signature": ""}
        ]},
        "status": "ok",
        "truncated": False,
    }  # fmt: skip


@pytest.mark.parametrize(
    "code, match",
    [
        ("import json\njson.", "dumps"),
        ("import nump", "numpy"),
        ("from collections import Ordered", "OrderedDict"),
        ("%timei", "%timeit"),
        ("%%tim", "%%time"),
        ("letters['al", "alpha"),
        ("lette", "letters"),
        ("open('/etc/host", "/etc/hostname"),
    ],
)
def test_completion(shared, code, match):
    shared.run("import json; letters = {'alpha': 1}")
    answer = complete(shared, code)
    assert match in answer["matches"], answer
    assert code[: answer["cursor_start"]] + match
    assert 0 <= answer["cursor_start"] <= answer["cursor_end"] == len(code)


def test_the_cursor_counts_code_points(shared):
    shared.run("text = 'abc'")
    code = "'ä€😀' + text.upp; more"
    cursor = code.index(";")
    answer = complete(shared, code, cursor=cursor)
    assert answer["matches"] == ["upper"]
    assert code[answer["cursor_start"] : answer["cursor_end"]] == "upp"
    assert complete(shared, code, cursor=0)["cursor_end"] == 0


def test_nothing_to_complete(shared):
    answer = complete(shared, "no_such_thing_anywhere.at")
    assert answer["matches"] == [] and answer["status"] == "ok"
    assert complete(shared, "")["status"] == "ok"


def test_a_huge_list_of_matches_is_cut(shared):
    shared.run("class Many:\n    def __dir__(self): return [f'name_{n}' for n in range(20_000)]\nmany = Many()")
    matches = complete(shared, "many.")["matches"]
    assert "name_0" in matches and len(matches) <= MATCHES, "IPython has a limit of its own"


def test_long_matches_are_left_out(shared):
    shared.run("class Long:\n    def __dir__(self): return ['x' * 2_000_000, 'short']\nlong = Long()")
    answer = complete(shared, "long.")
    assert answer["matches"] == ["short"] and answer["truncated"] is True


# --- inspection and completeness -------------------------------------------------------------------------------------


def test_inspecting_a_function(shared):
    shared.run("def greet(name: str) -> str:\n    'Say hello.'\n    return 'hello ' + name")
    answer = inspect(shared, "greet('x')", cursor=3)
    assert answer["found"] is True and answer["status"] == "ok" and answer["truncated"] is False
    text = answer["data"]["text/plain"]
    assert "greet(name: str) -> str" in text and "Say hello." in text and "\x1b" not in text
    assert "return 'hello '" not in text
    assert "return 'hello '" in inspect(shared, "greet", detail=1)["data"]["text/plain"]


def test_inspection_with_colours(shared):
    shared.run("def greet(name): 'Say hello.'")
    assert "\x1b[" in inspect(shared, "greet", colors=True, detail=1)["data"]["text/plain"]
    answer = shared.post("inspect?colors=1", json={"code": "greet"})
    assert "\x1b[" in answer.json()["data"]["text/plain"]
    assert "\x1b[" not in inspect(shared, "greet", detail=1)["data"]["text/plain"], "only if asked for"


def test_nothing_is_found(shared):
    assert inspect(shared, "no_such_thing") == {
        "found": False, "data": {}, "metadata": {}, "status": "ok", "truncated": False
    }  # fmt: skip


@pytest.mark.parametrize(
    "code, status, indent",
    [
        ("x = 1", "complete", ""),
        ("for n in range(3):", "incomplete", "    "),
        ("x = (1,", "incomplete", ""),
        ("1 +* 2", "invalid", ""),
        ("", "complete", ""),
    ],
)
def test_is_it_complete(shared, code, status, indent):
    answer = shared.post("is_complete", json={"code": code})
    assert answer.json() == {"status": status, "indent": indent}


def test_the_count_of_executions_stays(sandbox):
    sandbox.run("text = 'abc'")
    complete(sandbox, "text.")
    inspect(sandbox, "text")
    assert sandbox.info()["execution_count"] == 1
    assert sandbox.execute("text")["execution_count"] == 2


@pytest.mark.parametrize(
    "route, body",
    [
        ("complete", {}),
        ("complete", {"code": 7}),
        ("complete", {"code": "ab", "cursor": 3}),
        ("complete", {"code": "😀", "cursor": 2}),
        ("complete", {"code": "ab", "cursor": -1}),
        ("inspect", {"code": "ab", "detail": 2}),
        ("inspect", {"code": "ab", "colors": "yes"}),
        ("is_complete", {"code": None}),
    ],
)
def test_bad_fields(shared, route, body):
    problem(shared.post(route, json=body), 422, "invalid_field")


def test_other_bad_requests(service, shared):
    problem(shared.post("complete", data=b"{"), 400, "malformed_json")
    problem(shared.post("inspect?colors=perhaps", json={"code": "x"}), 422, "invalid_field")
    problem(service.get(f"{shared.path}/complete"), 405)
    problem(service.post("/sandbox/nobody/complete", json={"code": "x"}), 404, "sandbox_not_found")


# --- while code runs -------------------------------------------------------------------------------------------------


def test_busy(sandbox):
    sandbox.run("text = 'abc'")
    with sandbox.stream("print('on', flush=True)\nimport time; time.sleep(60)") as running:
        running.until("stdout")
        for route in ("complete", "inspect", "is_complete"):
            detail = problem(sandbox.post(route, json={"code": "text."}), 409, "sandbox_busy")["detail"]
            assert "runs or waits" in detail
        waiting = later(sandbox.execute, "1 + 1")
        host.until(lambda: sandbox.info()["queued"] == 1, 10, "the second execution to wait")
        problem(sandbox.post("complete", json={"code": "text."}), 409, "sandbox_busy")
    assert waiting.result(30)["status"] == "ok"
    assert "upper" in complete(sandbox, "text.up")["matches"]


def test_an_execution_waits_for_a_question(hostile):
    """It runs right after it, and the state that others see does not change meanwhile."""
    hostile.run("slow = Hostile(lambda: begin() or time.sleep(1) or ['late'])")
    asked = later(complete, hostile, "slow.")
    until_begun(hostile)
    assert hostile.info()["state"] == "ready"
    assert hostile.execute("os.remove('begun')")["status"] == "ok"
    assert asked.result(20)["matches"] == ["late"]


def test_several_questions_at_once(hostile):
    hostile.run("slow = Hostile(lambda: time.sleep(0.3) or ['late'])")
    asked = [later(complete, hostile, "slow.") for _ in range(4)]
    assert [one.result(20)["matches"] for one in asked] == [["late"]] * 4


# --- objects with code of their own ----------------------------------------------------------------------------------


@pytest.mark.parametrize("error", ["ValueError()", "KeyboardInterrupt()", "SystemExit(3)", "GeneratorExit()"])
def test_code_that_raises(hostile, error):
    hostile.run(f"raising = Hostile(lambda: fail({error}))")
    for route, code in (("complete", "raising."), ("inspect", "raising.attribute.more")):
        answer = hostile.post(route, json={"code": code})
        if answer.status_code != 200:
            assert "variables are kept" in problem(answer, 503, "kernel_unavailable")["detail"]
    assert hostile.value("kept") == "yes"


def test_a_repr_that_raises(hostile):
    hostile.run("class Bad:\n    def __repr__(self): raise RuntimeError\nbad = Bad()")
    answer = hostile.post("inspect", json={"code": "bad"})
    assert answer.status_code in (200, 503)
    assert hostile.value("kept") == "yes"


@pytest.mark.parametrize("route, code", [("complete", "endless."), ("inspect", "endless.attribute.more")])
def test_code_that_loops(hostile, route, code):
    hostile.run("endless = Hostile(forever)")
    body = problem(hostile.post(route, json={"code": code}), 504, "kernel_timeout")
    assert f"{QUESTION_SECONDS} seconds" in body["detail"] and "variables are kept" in body["detail"]
    answer = hostile.execute("kept")
    assert answer["status"] == "ok" and answer["state_lost"] is False


def test_a_repr_that_loops(hostile):
    hostile.run("class Loop:\n    def __repr__(self): forever()\nloop = Loop()")
    problem(hostile.post("inspect", json={"code": "loop"}), 504, "kernel_timeout")
    assert hostile.value("kept") == "yes"


def test_code_that_does_not_stop(sandbox):
    """The kernel has to be replaced; who asked is told, and so is who runs code next."""
    sandbox.run(HOSTILE)
    sandbox.run("endless = Hostile(stubborn)")
    body = problem(sandbox.post("complete", json={"code": "endless."}), 504, "kernel_timeout")
    assert "variables are lost" in body["detail"]
    answer = sandbox.execute("1 + 1")
    assert answer["status"] == "ok" and answer["state_lost"] is True
    assert sandbox.execute("1 + 1")["state_lost"] is False


def test_the_kernel_dies(sandbox):
    sandbox.run(HOSTILE)
    sandbox.run("deadly = Hostile(lambda: os.kill(os.getpid(), 9))")
    body = problem(sandbox.post("complete", json={"code": "deadly."}), 503, "kernel_unavailable")
    assert "was killed by SIGKILL" in body["detail"] and "variables are lost" in body["detail"]
    answer = sandbox.execute("1 + 1")
    assert answer["status"] == "ok" and answer["state_lost"] is True


def test_a_restart_meanwhile(sandbox):
    sandbox.run(HOSTILE)
    sandbox.run("endless = Hostile(lambda: begin() or forever())")
    asked = later(sandbox.post, "complete", json={"code": "endless."})
    until_begun(sandbox)
    assert sandbox.post("restart").status_code == 200
    assert "was interrupted" in problem(asked.result(20), 503, "kernel_unavailable")["detail"]
    assert sandbox.execute("1 + 1")["state_lost"] is False, "whoever restarts knows"


def test_what_it_prints_is_in_no_answer(hostile):
    hostile.run("loud = Hostile(lambda: print('loud') or ['name'])")
    assert complete(hostile, "loud.")["matches"] == ["name"]
    assert hostile.run("print('own')") == "own\n"


def test_it_cannot_ask_for_input(hostile):
    hostile.run("asking = Hostile(lambda: [input('?')])")
    assert complete(hostile, "asking.")["matches"] == []


def test_warnings_that_are_errors(sandbox):
    sandbox.run("import warnings; warnings.simplefilter('error'); text = 'abc'")
    assert complete(sandbox, "text.upp")["matches"] == ["upper"]
    assert inspect(sandbox, "text")["found"] is True


def test_the_caller_leaves(hostile):
    """Its question is interrupted, and the kernel is free again."""
    hostile.run("endless = Hostile(lambda: begin() or forever())")
    body = b'{"code": "endless."}'
    head = f"POST {hostile.path}/complete HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", hostile.service.port)) as client:
        client.sendall(head.encode() + body)
        until_begun(hostile)
    assert hostile.value("os.remove('begun') or kept") == "yes"


# --- a kernel that breaks the protocol -------------------------------------------------------------------------------


@pytest.fixture
def fake(faking):
    sandbox = faking.create()
    sandbox.run("kept = 'yes'")
    yield sandbox
    assert sandbox.close().status_code == 200


def ask_fake(sandbox, what, content=None, route="complete"):
    return sandbox.post(route, json={"code": f"# fake: {what}\n{json.dumps(content)}"})


def test_while_the_kernel_is_replaced(fake):
    fake.run("# fake: silent_at_start")
    later(fake.post, "restart")
    fake.until_state("restarting")
    assert "being replaced" in problem(ask_fake(fake, "reply"), 409, "sandbox_busy")["detail"]


@pytest.mark.parametrize("route", ["complete", "inspect", "is_complete"])
def test_replies_that_are_none(fake, route):
    for content in ({}, [], None, 7, "text", {"status": "error"}, {"status": "ok"}, {"status": ["ok"]}):
        detail = problem(ask_fake(fake, "reply", content, route), 503, "kernel_unavailable")["detail"]
        assert "variables are kept" in detail
    problem(ask_fake(fake, "unreadable_reply", route=route), 503, "kernel_unavailable")
    assert fake.value("kept") == "yes"


@pytest.mark.parametrize("start, end", [(-1, 0), (2, 1), (0, 10**6), ("0", 0), (0.5, 1), (None, None)])
def test_positions_outside_of_the_code(fake, start, end):
    content = {"status": "ok", "matches": ["x"], "cursor_start": start, "cursor_end": end, "metadata": {}}
    problem(ask_fake(fake, "reply", content), 503, "kernel_unavailable")


def test_matches_of_all_kinds(fake):
    content = {"status": "ok", "matches": ["a", 7, None, [], "b"], "cursor_start": 0, "cursor_end": 2, "metadata": 7}
    answer = ask_fake(fake, "reply", content).json()
    assert (answer["matches"], answer["truncated"], answer["metadata"]) == (["a", "b"], True, {})


def test_too_many_matches(fake):
    answer = ask_fake(fake, "many_matches 500000").json()
    assert len(answer["matches"]) == MATCHES and answer["truncated"] is True
    problem(ask_fake(fake, "many_matches 3000000"), 503, "kernel_unavailable")
    assert fake.value("kept") == "yes"


def test_no_reply(fake):
    assert "variables are kept" in problem(ask_fake(fake, "idle_without_reply"), 503, "kernel_unavailable")["detail"]
    assert fake.value("kept") == "yes"


def test_no_idle(fake):
    answer = ask_fake(fake, "reply_alone", {"status": "complete"}, route="is_complete")
    assert answer.json() == {"status": "complete", "indent": ""}
    assert fake.value("kept") == "yes"


@pytest.mark.parametrize("what", ["no_answer_at_all", "ignore_interrupt"])
def test_no_answer_at_all(fake, what):
    assert "variables are lost" in problem(ask_fake(fake, what), 504, "kernel_timeout")["detail"]
    answer = fake.execute("print(1)")
    assert answer["stdout"] == "1\n" and answer["state_lost"] is True


def test_death(fake):
    body = problem(ask_fake(fake, "die_before_reply"), 503, "kernel_unavailable")
    assert signal.Signals.SIGKILL.name in body["detail"] and "variables are lost" in body["detail"]
    assert fake.execute("print(1)")["state_lost"] is True
