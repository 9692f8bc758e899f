"""Running code: what goes in, and what the answer says."""

import re

import pytest

from service import problem

ANSWER_FIELDS = {
    "stdout": str,
    "stderr": str,
    "error": (str, type(None)),
    "error_value": (str, type(None)),
    "traceback": (str, type(None)),
    "results": list,
    "status": str,
    "state_lost": bool,
    "execution_count": int,
    "duration_ms": int,
    "truncated": bool,
}


def test_answer_has_every_field(shared):
    answer = shared.execute("1 + 1")
    for field, kind in ANSWER_FIELDS.items():
        assert isinstance(answer[field], kind), (field, answer)
    assert answer["status"] == "ok"
    assert answer["error"] is answer["error_value"] is answer["traceback"] is None
    assert not answer["truncated"] and not answer["state_lost"]
    assert 0 <= answer["duration_ms"] < 60_000


def test_stdout_and_stderr(shared):
    answer = shared.execute("import sys; print('out'); print('err', file=sys.stderr)")
    assert (answer["stdout"], answer["stderr"]) == ("out\n", "err\n")
    assert answer["status"] == "ok" and answer["results"] == []


def test_variables_are_kept(shared):
    shared.run("kept = [1, 2]")
    shared.run("kept.append(3)")
    assert shared.value("kept") == [1, 2, 3]


def test_execution_count(sandbox):
    counts = [sandbox.execute(code)["execution_count"] for code in ("1", "1/0", "2")]
    assert counts == [1, 2, 3]
    assert sandbox.info()["execution_count"] == 3


def test_last_expression_is_main(shared):
    results = shared.execute("display('shown'); 40 + 2")["results"]
    plain = [(r["data"], r.get("main", False)) for r in results if r["type"] == "text/plain"]
    assert plain == [("'shown'", False), ("42", True)]
    assert [r["output"] for r in results] == sorted(r["output"] for r in results)


def test_semicolon_hides_the_result(shared):
    assert shared.execute("40 + 2;")["results"] == []


# --- bodies ---


@pytest.mark.parametrize(
    "content_type",
    [
        None,
        "text/plain",
        "text/x-python; charset=utf-8",
        "application/octet-stream",
        "application/x-www-form-urlencoded",
    ],
)
def test_raw_body(shared, content_type):
    headers = {"Content-Type": content_type} if content_type else {}
    answer = shared.post("execute", data=b"print('a=b&c=%41', 1 + 1)", headers=headers)
    assert answer.status_code == 200
    assert answer.headers["Content-Type"].split(";")[0] == "application/json"
    assert answer.json()["stdout"] == "a=b&c=%41 2\n"


def test_raw_body_that_looks_like_json(shared):
    answer = shared.post("execute", data=b'{"code": "print(1)"}', headers={"Content-Type": "text/plain"})
    assert answer.json()["results"][-1]["data"] == "{'code': 'print(1)'}"


@pytest.mark.parametrize("content_type", ["application/json", "application/json; charset=utf-8", "Application/JSON"])
def test_json_body(shared, content_type):
    answer = shared.post("execute", data=b'{"code": "print(1)", "unknown": 5}', headers={"Content-Type": content_type})
    assert answer.json()["stdout"] == "1\n"


def test_timeout_in_query(shared):
    answer = shared.post("execute?timeout=0.5", data=b"import time; time.sleep(30)")
    assert answer.status_code == 200 and answer.json()["status"] == "timeout"


def test_timeout_as_json_number(shared):
    assert shared.execute("import time; time.sleep(30)", timeout=0.5)["status"] == "timeout"


@pytest.mark.parametrize("code", ["", " \n\t\n", "# only a comment", "# one\n\n# two\n", "pass"])
def test_code_that_does_nothing(shared, code):
    answer = shared.execute(code)
    assert (answer["status"], answer["stdout"], answer["stderr"], answer["results"]) == ("ok", "", "", [])


def test_empty_raw_body(shared):
    answer = shared.post("execute", data=b"")
    assert answer.status_code == 200 and answer.json()["status"] == "ok"


def test_nul_bytes(shared):
    """Python refuses them in source code; either it or Husk says so, and nothing else happens."""
    answer = shared.post("execute", data=b"print('a\0b')")
    if answer.status_code == 200:
        assert answer.json()["error"] in ("SyntaxError", "ValueError")
    else:
        problem(answer, 422)
    answer = shared.post(
        "execute", data=b'{"code": "print(\'a\\u0000b\')"}', headers={"Content-Type": "application/json"}
    )
    assert answer.status_code in (200, 422), answer.text
    assert shared.works()


def test_nul_in_output(shared):
    assert shared.run(r"print('a\0b')") == "a\0b\n"


@pytest.mark.parametrize("code", [b"print('\xff\xfe')", b"x = '\xc3'", b"\x80", b"print('\xed\xa0\x80')"])
def test_invalid_utf8(shared, code):
    answer = shared.post("execute", data=code)
    assert answer.status_code in (400, 422), answer.text
    problem(answer, answer.status_code)
    assert shared.works()


def test_five_mebibytes_of_code(shared):
    problem(shared.post("execute", data=b"#" * (5 << 20)), 413)
    problem(shared.post("execute", json={"code": "#" * (5 << 20)}), 413)
    assert shared.works()


def test_code_up_to_the_limit(shared):
    code = "text = '" + "x" * ((4 << 20) - 64) + "'\nprint(len(text))"
    assert shared.run(code) == f"{(4 << 20) - 64}\n"
    assert shared.post("execute", data=code.encode()).json()["stdout"] == f"{(4 << 20) - 64}\n"
    shared.run("del text")


def test_unicode_round_trip(shared):
    text = "naïve 正态分布 🦊👩‍👩‍👧 \u200f\u2028 e\u0301 \U0010ffff"
    assert shared.run(f"print({text!r})") == text + "\n"
    raw = shared.post("execute", data=f"print('''{text}''')".encode())
    assert raw.json()["stdout"] == text + "\n"
    assert shared.run("变量 = 'π'\nprint(变量)") == "π\n"


def test_lone_surrogate_in_output(shared):
    """Not encodable as UTF-8: the answer is still valid JSON and the kernel lives."""
    answer = shared.execute(r"print('a\udc80b')")
    assert answer["status"] in ("ok", "error")
    answer = shared.execute(r"'\ud800'")
    assert answer["status"] in ("ok", "error")
    assert shared.works()


# --- errors of the code ---


def test_error(shared):
    answer = shared.execute("def broken():\n    return 1 / 0\nprint('before')\nbroken()")
    assert answer["status"] == "error"
    assert (answer["error"], answer["error_value"]) == ("ZeroDivisionError", "division by zero")
    assert answer["stdout"] == "before\n"
    assert "\x1b" not in answer["traceback"]
    assert "broken()" in answer["traceback"] and "ZeroDivisionError" in answer["traceback"]
    assert not answer["state_lost"]
    assert shared.works()


def test_error_after_results(shared):
    answer = shared.execute("display(1)\nraise KeyError('missing')")
    assert answer["error"] == "KeyError" and answer["results"][0]["data"] == "1"


def test_syntax_error(shared):
    answer = shared.execute("def f(:\n  pass")
    assert (answer["status"], answer["error"]) == ("error", "SyntaxError")
    assert answer["traceback"] and not re.search(r"\x1b\[", answer["traceback"])


def test_error_with_hostile_text(shared):
    code = "class E(Exception):\n    def __str__(self): return '\\x1b[31mred\\x1b[0m \"quoted\" \\\\ \\u2028'\nraise E"
    answer = shared.execute(code)
    assert answer["error"] == "E" and "red" in answer["error_value"]
    assert "\x1b[31m" not in answer["traceback"]


def test_error_whose_text_fails(shared):
    answer = shared.execute("class Bad(Exception):\n    def __str__(self): raise ValueError\nraise Bad")
    assert answer["status"] == "error" and answer["error"]
    assert shared.works()


def test_deep_recursion(shared):
    answer = shared.execute("def f(): return f()\nf()")
    assert answer["error"] == "RecursionError"
    assert shared.works()


def test_sys_exit_keeps_the_kernel(shared):
    shared.run("before_exit = 5")
    answer = shared.execute("import sys; sys.exit(3)")
    assert answer["status"] in ("ok", "error") and answer["error"] in (None, "SystemExit")
    assert shared.value("before_exit") == 5


def test_exit_and_quit_leave_a_sandbox_that_works(sandbox):
    """IPython's exit() ends the kernel a moment later: an execution may meet the old kernel, the gap or the new one."""
    sandbox.execute("exit()")
    for _ in range(4):
        answer = sandbox.execute("print('here')")
        assert answer["status"] in ("ok", "died"), answer
    assert answer["status"] == "ok"


def test_input_is_refused_at_once(shared):
    answer = shared.execute("input('name? ')", timeout=10)
    assert answer["status"] == "error" and answer["error"] in ("StdinNotImplementedError", "EOFError", "RuntimeError")
    assert answer["duration_ms"] < 5000


def test_magics_and_shell(shared):
    assert shared.run("!echo from the shell").strip() == "from the shell"
    assert shared.run("%%bash\necho from bash").strip() == "from bash"
    assert "/home/user" in shared.execute("%pwd")["results"][0]["data"]


def test_async_code(shared):
    assert shared.run("import asyncio\nawait asyncio.sleep(0.01)\nprint('awaited')") == "awaited\n"


def test_working_directory_is_an_empty_home(sandbox):
    assert sandbox.value("__import__('os').getcwd()") == "/home/user"
    assert sandbox.value("__import__('os').listdir()") == []
    assert sandbox.run("open('x.txt', 'w').write('kept')\nprint(open('/home/user/x.txt').read())") == "kept\n"
