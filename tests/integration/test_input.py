"""input() and its like: answered from given lines, by the caller while it reads the stream, or not at all."""

import pytest

import host
from service import joined, later, problem


def answer(sandbox, value):
    reply = sandbox.post("input", json={"value": value})
    assert reply.status_code == 200, reply.text


# --- given lines ---


@pytest.mark.parametrize(
    "given, lines",
    [
        ("a\nb\n", ["a", "b"]),
        ("a\nb", ["a", "b"]),
        (["a", "b"], ["a", "b"]),
        (["a\n", "b"], ["a", "b"]),
        ("\n\n", ["", ""]),
        ("正态 🦊", ["正态 🦊"]),
        ("", []),
        ([], []),
    ],
)
def test_lines_answer_input(shared, given, lines):
    code = """
taken = []
try:
    while True: taken.append(input())
except EOFError:
    print(taken)
"""
    assert shared.run(code, stdin=given) == f"{lines}\n"


def test_prompt_is_in_the_output(shared):
    """As it is when a script reads from a file."""
    assert shared.run("print('hello', input('name? '))", stdin="Ada") == "name? hello Ada\n"


def test_sys_stdin(shared):
    assert shared.run("import sys; print(repr(sys.stdin.read()))", stdin="1 2\n3\n") == "'1 2\\n3\\n'\n"
    assert shared.run("import sys; print([line for line in sys.stdin])", stdin="a\nb") == "['a\\n', 'b\\n']\n"
    assert shared.run("import sys; print(repr(sys.stdin.readline()), repr(sys.stdin.readline()))", stdin="a") == (
        "'a\\n' ''\n"
    )


def test_getpass(shared):
    code = "import getpass; print(getpass.getpass('secret? ') == 'xyzzy')"
    assert shared.run(code, stdin="xyzzy").endswith("True\n")


def test_end_of_input(shared):
    result = shared.execute("input(); input()", stdin="only one")
    assert (result["status"], result["error"]) == ("error", "EOFError")
    assert "/opt/" not in result["traceback"], "nothing of the kernel's own"


def test_no_input_at_all(shared):
    assert shared.execute("input()")["error"] == "StdinNotImplementedError"
    assert shared.run("import sys; print(repr(sys.stdin.read()))") == "''\n"


def test_what_was_not_read_is_gone(shared):
    shared.run("print(input())", stdin="one\ntwo\nthree")
    assert shared.run("print(input())", stdin="four") == "four\n"


def test_thousands_of_lines(shared):
    text = "".join(f"{n}\n" for n in range(2000))
    assert shared.run("print(sum(int(input()) for _ in range(2000)))", stdin=text, timeout=60) == "1999000\n"


def test_given_input_in_a_stream(shared):
    with shared.stream("print(input('? '))", stdin="given") as stream:
        assert joined(stream.rest())["stdout"] == "? given\n"


@pytest.mark.parametrize("stdin", [7, {"a": 1}, [1], True, ["a", None], "x" * (1 << 20) + "x", "\n" * 100_001])
def test_unusable_stdin(shared, stdin):
    refused = problem(shared.post("execute", json={"code": "1", "stdin": stdin}), 422, "invalid_field")
    assert "stdin" in refused["detail"]


def test_ask_without_a_stream_is_a_line(shared):
    assert shared.run("print(input())", stdin="ask") == "ask\n"


# --- the caller is asked ---


def test_asking(sandbox):
    code = "print('before')\nname = input('name? ')\nprint('hello', name)"
    with sandbox.stream(code, stdin="ask") as stream:
        stream.next("start")
        assert stream.next("stdout")["text"] == "before\n"
        assert stream.next("input_request") == {"event": "input_request", "prompt": "name? ", "password": False}
        answer(sandbox, "Grace")
        assert joined(stream.rest())["stdout"] == "hello Grace\n"


def test_asking_in_order(sandbox):
    """The question is always behind the output that was written before it, though it goes by another way."""
    code = "for n in range(200):\n    print(n)\n    assert input(str(n)) == str(n)"
    with sandbox.stream(code, stdin="ask", timeout=80) as stream:
        stream.next("start")
        for n in range(200):
            events = []
            while not events or events[-1]["event"] == "stdout":
                events.append(next(iter(stream)))
            assert joined(events)["stdout"] == f"{n}\n"
            assert events[-1] == {"event": "input_request", "prompt": str(n), "password": False}
            answer(sandbox, str(n))
        assert stream.rest()[-1]["status"] == "ok"


def test_asking_for_a_password(sandbox):
    with sandbox.stream("import getpass; len(getpass.getpass('key: '))", stdin="ask") as stream:
        assert stream.until("input_request")["password"] is True
        answer(sandbox, "12345")
        assert stream.next("result")["results"][0]["data"] == "5"
        stream.rest()


@pytest.mark.parametrize("body", [{"value": None}, {"eof": True}])
def test_answering_with_the_end(sandbox, body):
    with sandbox.stream("input()", stdin="ask") as stream:
        stream.until("input_request")
        assert sandbox.post("input", json=body).status_code == 200
        assert stream.rest()[-1]["error"] == "EOFError"


def test_timeout_while_waiting(sandbox):
    sandbox.run("kept = 'yes'")
    with sandbox.stream("input('forever? ')", stdin="ask", timeout=1) as stream:
        stream.until("input_request")
        end = stream.rest()[-1]
    assert (end["status"], end["error"], end["state_lost"]) == ("timeout", "TimeoutError", False)
    problem(sandbox.post("input", json={"value": "too late"}), 409, "no_input_expected")
    assert sandbox.value("kept") == "yes"


def test_interrupt_while_waiting(sandbox):
    with sandbox.stream("input()", stdin="ask") as stream:
        stream.until("input_request")
        assert sandbox.post("interrupt").status_code == 200
        assert stream.rest()[-1]["status"] == "interrupted"
    assert sandbox.works()


def test_interrupt_that_the_code_survives(sandbox):
    """The question that was interrupted is over: the next answer belongs to the next question."""
    code = "try:\n    input('first')\nexcept KeyboardInterrupt:\n    print(input('second'))"
    with sandbox.stream(code, stdin="ask") as stream:
        assert stream.until("input_request")["prompt"] == "first"
        interrupted = later(sandbox.post, "interrupt")
        assert stream.until("input_request")["prompt"] == "second"
        answer(sandbox, "this one")
        assert joined(stream.rest())["stdout"] == "this one\n"
    assert interrupted.result(10).status_code == 200


def test_reader_vanishes_while_code_waits(sandbox):
    with sandbox.stream("input()", stdin="ask") as stream:
        stream.until("input_request")
    sandbox.until_state("ready", 15)
    assert sandbox.works()


def test_answer_without_a_question(sandbox):
    problem(sandbox.post("input", json={"value": "x"}), 409, "no_input_expected")
    running = later(sandbox.execute, "import time; time.sleep(60)")
    sandbox.until_state("busy")
    problem(sandbox.post("input", json={"value": "x"}), 409, "no_input_expected")
    assert sandbox.post("interrupt").status_code == 200
    assert running.result(20)["status"] == "interrupted"


@pytest.mark.parametrize("body", [{}, {"value": 7}, {"value": ["a"]}, {"value": "x" * (1 << 20) + "x"}, {"eof": 1}])
def test_unusable_answer(shared, body):
    problem(shared.post("input", json=body), 422, "invalid_field")


def test_only_the_running_execution_is_answered(sandbox):
    """Of two that ask, the second has to wait for its turn."""
    with sandbox.stream("print('A', input())", stdin="ask") as first:
        first.until("input_request")
        with sandbox.stream("print('B', input())", stdin="ask") as second:
            second.next("queued")
            answer(sandbox, "for the first")
            assert joined(first.rest())["stdout"] == "A for the first\n"
            second.until("input_request")
            answer(sandbox, "for the second")
            assert joined(second.rest())["stdout"] == "B for the second\n"


def test_waiting_for_input_costs_no_time_of_others(create):
    sandbox, other = create(), create()
    with sandbox.stream("input()", stdin="ask") as stream:
        stream.until("input_request")
        host.until(other.works, 10, "another sandbox to work")
        answer(sandbox, "")
        stream.rest()
