"""What the kernel promises the shim, asked of the kernel itself: settings of one execution, input, whose output it is,
and where the whole of a long one lies."""

import re
from pathlib import Path

import pytest

import host
from attached import AttachedKernel

ANSI = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture(scope="module")
def kernel(shared):
    kernel = AttachedKernel(shared)
    yield kernel
    kernel.close()


@pytest.fixture
def fresh(sandbox):
    """The kernel of a sandbox that no other test has seen."""
    kernel = AttachedKernel(sandbox)
    kernel.home = Path(f"/proc/{sandbox.init().pid}/root/home/user")
    yield kernel
    kernel.close()


def succeeded(run):
    assert run.reply["content"]["status"] == "ok", run.reply["content"]
    return run


# --- environment ---

SHOW_ENV = "import os; print([os.environ.get(name) for name in ('GIVEN', 'HOME', 'OWN')])"


def test_environment_of_one_execution(kernel):
    code = SHOW_ENV + "\nos.environ['OWN'] = 'kept'; os.system('echo $GIVEN'); None"
    run = kernel.run(code, env={"GIVEN": "a 'b' \n ü", "HOME": "/tmp"})
    assert run.text().startswith("[\"a 'b' \\n ü\", '/tmp', None]\n") and "a 'b' ü" in run.text()
    assert kernel.run(SHOW_ENV).text() == "[None, '/home/user', 'kept']\n"
    kernel.run("del os.environ['OWN']")


@pytest.mark.parametrize(
    "code",
    [
        "1 / 0",
        "if",
        "os.environ.pop('GIVEN'); os.environ['HOME'] = '/changed'",
        "import asyncio; await asyncio.sleep(0)\nassert os.environ['GIVEN'] == 'x'",
        "raise SystemExit",
    ],
)
def test_environment_is_restored_after(kernel, code):
    kernel.run("import os")
    run = kernel.run(code, env={"GIVEN": "x", "HOME": "/tmp"})
    assert run.reply is not None
    assert kernel.run(SHOW_ENV).text() == "[None, '/home/user', None]\n"


@pytest.mark.parametrize("wait", ["time.sleep(60)", "await asyncio.sleep(60)", "input()", "sys.stdin.readline()"])
def test_environment_is_restored_after_an_interrupt(kernel, wait):
    run = kernel.send(f"import asyncio, sys, time; print('ready', flush=True); {wait}", env={"GIVEN": "x"}, stdin="ask")
    kernel.until(lambda: run.input_request or ("sleep" in wait and run.text()), "the code to wait")
    kernel.stop(run)
    assert run.reply["content"]["status"] == "error"
    assert kernel.run(SHOW_ENV).text() == "[None, '/home/user', None]\n"


def test_environment_that_cannot_be_set(kernel):
    """The shim does not send such names; but whoever does gets an answer."""
    run = kernel.run("print('ran')", env={"A=B": "x", "OK": "1"})
    assert run.reply is not None and run.text() == "ran\n"
    assert kernel.run("import os; 'OK' in os.environ").of_type("execute_result")[0]["content"]["data"] == {
        "text/plain": "False"
    }


# --- colours ---

ERRORS = {
    "plain": "def f(x):\n    return x / 0  # no\n\nf(1)",
    "syntax": "x = (1 +\nfor",
    "chained": "try:\n    {}['a']\nexcept KeyError as e:\n    raise ValueError('é' * 3) from e",
    "library": "import json\njson.loads('{')",
    "note": "e = TypeError('x'); e.add_note('a note'); raise e",
    "async": "import asyncio\nasync def g(): raise OSError(2, 'gone')\nawait g()",
    "recursion": "def h(): h()\nh()",
}


@pytest.mark.parametrize("code", ERRORS.values(), ids=ERRORS)
def test_coloured_traceback(kernel, code):
    plain = kernel.run(code)
    coloured = kernel.run(code, colors=True)
    assert "\x1b" not in plain.traceback and "\x1b[" in coloured.traceback
    assert normal(ANSI.sub("", coloured.traceback)) == normal(plain.traceback)
    assert coloured.reply["content"]["traceback"] == coloured.of_type("error")[0]["content"]["traceback"]
    assert "\x1b" not in kernel.run(code).traceback, "colours are for one execution"


def normal(traceback):
    """Without the number of the cell, which differs."""
    return re.sub(r"In\[\d+\]|Cell In\s*\[\d+\]", "In[]", traceback)


# --- input ---


def test_input_without_stdin(kernel):
    run = kernel.run("import sys; print([sys.stdin.readline(), sys.stdin.read(), list(sys.stdin)])\ninput('?')")
    assert run.text() == "['', '', []]\n"
    assert run.reply["content"]["ename"] == "StdinNotImplementedError"
    assert not run.of_type("husk_input")


def test_given_input_shows_prompts(kernel):
    code = "import getpass\na = input('name? ')\nprint('hi', a)\nb = getpass.getpass('secret? ')\nprint(len(b))"
    run = succeeded(kernel.run(code, answers=["Ann", "12345"], stdin="given"))
    assert run.text() == "name? hi Ann\n5\n"


def test_asked_input_shows_no_prompt(kernel):
    run = kernel.send("print('before', end=''); a = input('name? '); print('hi', a)", stdin="ask")
    kernel.until(lambda: run.input_request, "input_request")
    assert run.input_request["content"] == {"prompt": "name? ", "password": False}
    kernel.answer(run, "Bo")
    kernel.until(lambda: run.ended, "end")
    assert run.text() == "beforehi Bo\n"
    types = [message["msg_type"] for message in run.iopub if message["msg_type"] in ("stream", "husk_input")]
    assert types == ["stream", "husk_input", "stream"], "the request has its place among the outputs"
    assert run.of_type("husk_input")[0]["content"] == {}


def test_password_is_asked_as_one(kernel):
    run = kernel.send("import getpass; getpass.getpass()", stdin="ask")
    kernel.until(lambda: run.input_request, "input_request")
    assert run.input_request["content"]["password"] is True
    kernel.answer(run, "x")
    kernel.until(lambda: run.ended, "end")


def test_end_of_input(kernel):
    code = "import sys\nprint(repr(sys.stdin.readline()))\ninput()"
    run = kernel.run(code, stdin="given")
    assert run.text() == "''\n" and run.reply["content"]["ename"] == "EOFError"


@pytest.mark.parametrize(
    "code, expected",
    [
        ("sys.stdin.readline()", "'1 é\\n'"),
        ("sys.stdin.read()", "'1 é\\n22\\n\\n3\\n'"),
        ("list(sys.stdin)", "['1 é\\n', '22\\n', '\\n', '3\\n']"),
        ("sys.stdin.readlines()", "['1 é\\n', '22\\n', '\\n', '3\\n']"),
        ("(sys.stdin.read(2), sys.stdin.readline(), sys.stdin.readline(1), input())", "('1 ', 'é\\n', '2', '')"),
        ("sys.stdin.buffer.read().decode()", "'1 é\\n22\\n\\n3\\n'"),
        (
            "(sys.stdin.reconfigure(encoding='utf-8'), sys.stdin.buffer.read1(3), sys.stdin.read(2))",
            "(None, b'1 \\xc3', '\ufffd\\n')",
        ),
        ("(sys.stdin.buffer.readline(), sys.stdin.readline())", "(b'1 \\xc3\\xa9\\n', '22\\n')"),
        ("(input(), sys.stdin.readline(), sys.stdin.read())", "('1 é', '22\\n', '\\n3\\n')"),
        (
            "(sys.stdin.isatty(), sys.stdin.readable(), sys.stdin.encoding, sys.stdin.fileno())",
            "(False, True, 'utf-8', 0)",
        ),
    ],
)
def test_standard_input(kernel, code, expected):
    run = succeeded(kernel.run(f"import sys; print(repr({code}))", answers=["1 é", "22", "", "3"], stdin="given"))
    assert run.text() == expected + "\n"


def test_rest_of_a_line_is_not_for_the_next_execution(kernel):
    kernel.run("import sys; sys.stdin.read(1)", answers=["abc"], stdin="given")
    assert (
        kernel.run("import sys; print(repr(sys.stdin.readline()))", answers=["x"], stdin="given").text() == "'x\\n'\n"
    )


def test_thread_of_an_ended_execution_cannot_ask(kernel):
    kernel.run(
        "import threading, sys\ngo, lines = threading.Event(), []\n"
        "thread = threading.Thread(target=lambda: (go.wait(), lines.append(sys.stdin.readline())))\nthread.start()",
        stdin="given",
    )
    run = succeeded(kernel.run("go.set(); thread.join(); print(lines)", answers=["not for it"], stdin="given"))
    assert run.text() == "['']\n"


def test_forked_child_cannot_ask(kernel):
    code = (
        "import os, sys\npid = os.fork()\nif not pid:\n    print(repr(sys.stdin.readline())); os._exit(0)\n"
        "os.waitpid(pid, 0)\nprint(input())"
    )
    assert succeeded(kernel.run(code, answers=["parent"], stdin="given")).text() == "''\nparent\n"


# --- whose output ---

STARTERS = {
    "thread": "threading.Thread(target=late).start()",
    "timer": "threading.Timer(0, late).start()",
    "subclass": "type('Own', (threading.Thread,), {'run': lambda self: late()})().start()",
    "executor": "pool = ThreadPoolExecutor(); pool.submit(late)",
    "thread of a thread": "threading.Thread(target=lambda: threading.Thread(target=late).start()).start()",
    "task": "asyncio.get_running_loop().run_in_executor(None, late)",
}
PREPARE = """
import asyncio, threading, time
from concurrent.futures import ThreadPoolExecutor
go, done = threading.Event(), threading.Event()
def late():
    go.wait()
    print('late'); display('late display'); print('late error', file=__import__('sys').stderr)
    done.set()
"""


@pytest.mark.parametrize("start", STARTERS.values(), ids=STARTERS)
def test_output_of_threads_belongs_to_their_execution(kernel, start):
    first = succeeded(kernel.run(PREPARE + start))
    second = succeeded(kernel.run("print('one'); go.set(); done.wait(); print('two')"))
    kernel.until(lambda: "late error" in first.text("stderr"), "late output")
    assert second.text() == "one\ntwo\n" and second.text("stderr") == "" and not second.of_type("display_data")
    assert first.text() == "late\n" and len(first.of_type("display_data")) == 1


def test_task_of_asyncio_belongs_to_its_execution(kernel):
    first = kernel.run(
        "import asyncio\nevent = asyncio.Event()\nasync def late():\n    await event.wait(); print('late')\n"
        "    display('late display')\ntask = asyncio.create_task(late())"
    )
    second = succeeded(kernel.run("event.set(); await task; print('second')"))
    assert second.text() == "second\n" and not second.of_type("display_data")
    assert first.text() == "late\n" and len(first.of_type("display_data")) == 1


POOLS = {
    "executor": (
        "from concurrent.futures import ThreadPoolExecutor; pool = ThreadPoolExecutor(1)",
        "list(pool.map(print, [2]))",
    ),
    "thread pool": ("from multiprocessing.pool import ThreadPool; pool = ThreadPool(1)", "pool.map(print, [2])"),
    "apply": ("from multiprocessing.pool import ThreadPool; pool = ThreadPool(1)", "pool.apply(print, (2,))"),
    "imap": ("from multiprocessing.pool import ThreadPool; pool = ThreadPool(1)", "list(pool.imap(print, [2]))"),
}


@pytest.mark.parametrize("make, use", POOLS.values(), ids=POOLS)
def test_jobs_of_a_pool_belong_to_who_submitted_them(fresh, make, use):
    first = succeeded(fresh.run(f"{make}\n{use.replace('2', '1')}; None"))
    second = succeeded(fresh.run(f"{use}; None"))
    assert first.text() == "1\n" and second.text() == "2\n"


BACKGROUND = {
    "popen": "import subprocess; process = subprocess.Popen(['bash', '-c', SCRIPT])",
    "system": "import os; os.system(f'({SCRIPT}) &')",
    "magic": "!({SCRIPT}) &",
    "fork": "import os\nif not os.fork():\n    os.execvp('bash', ['bash', '-c', SCRIPT])",
    "posix_spawn": "import os; os.posix_spawn('/bin/bash', ['bash', '-c', SCRIPT], os.environ)",
    "multiprocessing": "import multiprocessing, os\n"
    "multiprocessing.get_context('fork').Process(target=os.system, args=(SCRIPT,)).start()",
}


@pytest.mark.parametrize("start", BACKGROUND.values(), ids=BACKGROUND)
def test_output_of_background_processes_belongs_to_their_execution(fresh, start):
    script = "SCRIPT = 'until [ -e go ]; do sleep 0.01; done; echo late; echo late error >&2; touch gone'\n"
    fresh.run(script)
    first = succeeded(fresh.run(start))
    second = succeeded(
        fresh.run(
            "import os, time\nprint('one'); os.system('echo own; touch go')\n"
            "while not os.path.exists('gone'): time.sleep(0.01)\nprint('two')"
        )
    )
    assert second.text() == "one\nown\ntwo\n" and second.text("stderr") == ""
    fresh.until(lambda: "late error" in first.text("stderr"), "late output")
    assert first.text() == "late\n"


def test_background_server_lives_on_and_pipes_end(fresh):
    """A pipe is watched as long as it has writers, and no longer."""
    count = (
        "import pathlib; print(sum(str(fd.resolve()).count('pipe:') for fd in pathlib.Path('/proc/self/fd').iterdir()))"
    )
    before = fresh.run(count).text()
    server = fresh.run(
        "import subprocess; server = subprocess.Popen('while echo alive; do sleep 0.01; done', shell=True)"
    )
    for _ in range(30):
        fresh.run("subprocess.run(['true'])")
    seen = len(server.text())
    fresh.until(lambda: len(server.text()) > seen, "more of the server's output")
    assert succeeded(fresh.run("assert server.poll() is None; server.kill(); server.wait(); None"))
    host.until(lambda: fresh.run(count).text() == before, 20, "old pipes to be closed")


def test_more_background_processes_than_pipes(fresh):
    fresh.run("import subprocess; servers = []")
    for _ in range(140):
        run = fresh.run("servers.append(subprocess.Popen(['sleep', 'infinity'])); print(len(servers))")
    assert run.text() == "140\n"
    fresh.run("for server in servers: server.kill(); server.wait()")
    assert fresh.run("subprocess.run(['echo', 'works']); None").text() == "works\n"


def test_redirected_descriptor_is_left_alone(fresh):
    fresh.run(
        "import os\nsaved = os.dup(1)\nos.dup2(os.open('file', os.O_CREAT | os.O_WRONLY), 1)\nos.system('echo a'); None"
    )
    fresh.run("os.system('echo b'); None")
    run = fresh.run("os.dup2(saved, 1); os.system('echo c; cat file'); None")
    assert run.text() == "c\na\nb\n"


# --- the whole text ---


def whole_texts(run):
    return {message["content"]["name"]: message["content"]["path"] for message in run.of_type("husk_whole_text")}


PRODUCERS = {
    "python": "import sys; print('é123456789\\n' * 300_000, end='', file=sys.{})",
    "many": "import sys\nfor n in range(300_000): print('é123456789', file=sys.{})",
    "subprocess": "import subprocess; subprocess.run([{python!r}, '-c', {inner!r}], check=True); None",
    "error": "import sys; print('é123456789\\n' * 300_000, end='', file=sys.{}); 1 / 0",
}


@pytest.mark.parametrize("name", ["stdout", "stderr"])
@pytest.mark.parametrize("producer", PRODUCERS)
def test_whole_text_in_a_file(fresh, producer, name):
    inner = PRODUCERS["python"].format(name)
    code = PRODUCERS[producer].format(name, python="/opt/venv/bin/python", inner=inner)
    run = fresh.run(code)
    path = f".husk/{name}-{run.reply['content']['execution_count']}.txt"
    assert whole_texts(run) == {name: path}
    text = "é123456789\n" * 300_000
    assert run.text(name) == text
    assert (fresh.home / path).read_bytes() == text.encode()
    types = [message["msg_type"] for message in run.iopub]
    assert types.index("husk_whole_text") > max(i for i, each in enumerate(types) if each == "stream")


def test_whole_text_after_an_interrupt(fresh):
    run = fresh.send("import time\nprint('x' * 3_000_000)\ntime.sleep(60)")
    fresh.until(lambda: len(run.text()) == 3_000_001, "the text")
    fresh.stop(run)
    assert (fresh.home / whole_texts(run)["stdout"]).stat().st_size == 3_000_001


def test_short_text_makes_no_file(fresh):
    for _ in range(3):
        assert not whole_texts(fresh.run("print('x' * 500_000)"))
    assert not (fresh.home / ".husk").exists()


def test_text_of_a_thread_that_is_late_is_not_part_of_it(fresh):
    fresh.run(PREPARE + "threading.Thread(target=late).start()")
    run = fresh.run("go.set(); done.wait(); print('x' * 2_000_000, end='')")
    assert (fresh.home / whole_texts(run)["stdout"]).read_text() == "x" * 2_000_000


def test_whole_text_replaces_that_of_an_earlier_kernel(fresh):
    succeeded(fresh.run("import os; os.mkdir('.husk'); os.mkfifo(f'.husk/stdout-{get_ipython().execution_count}.txt')"))
    run = fresh.run("print('x' * 2_000_000)")
    assert (fresh.home / whole_texts(run)["stdout"]).stat().st_size == 2_000_001


@pytest.mark.parametrize(
    "obstacle", ["open('.husk', 'w')", "os.makedirs(f'.husk/stdout-{get_ipython().execution_count}.txt')"]
)
def test_whole_text_that_cannot_be_written(fresh, obstacle):
    succeeded(fresh.run(f"import os; {obstacle}"))
    run = succeeded(fresh.run("print('x' * 2_000_000)"))
    assert not whole_texts(run) and len(run.text()) == 2_000_001


def test_whole_text_leaves_room_on_the_disk(create):
    kernel = AttachedKernel(create(disk_mb=64))
    run = succeeded(kernel.run("for n in range(40): print('x' * 999_999)"))
    assert not whole_texts(run) and len(run.text()) == 40_000_000
    assert kernel.run("import os; print(os.listdir('.husk'))").text() == "[]\n"
    kernel.close()


# --- too large ---


def test_replaced_message_says_so(kernel):
    run = kernel.run("from IPython.display import display\ndisplay({'text/plain': 'y' * 30_000_000}, raw=True)")
    [content] = [message["content"] for message in run.of_type("display_data")]
    assert content["husk_truncated"] is True and "too large" in content["data"]["text/plain"]
    [content] = [m["content"] for m in kernel.run("raise ValueError('z' * 30_000_000)").of_type("error")]
    assert content["husk_truncated"] is True


def test_dropped_buffers_are_told(kernel):
    code = "import comm\nc = comm.create_comm('t', data={'a': 1}, buffers=[b'x', bytes(30_000_000)]); c.close()"
    opened, closed = (m for m in succeeded(kernel.run(code)).iopub if m["msg_type"].startswith("comm_"))
    assert (
        opened["content"]["husk_truncated"] is True and opened["content"]["data"] == {"a": 1} and not opened["buffers"]
    )
    assert "husk_truncated" not in closed["content"]
