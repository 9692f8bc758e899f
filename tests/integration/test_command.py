"""Commands: what they are given, how they end, what they put out and leave."""

import re
import uuid

import pytest

import host
from command_client import inside, result, until_file, until_gone
from service import later

MIB = 1 << 20
ENOUGH_TIME = 60


# --- what is run ---


def test_answer(shared):
    answer = shared.command("echo out; echo err >&2; exit 3")
    assert uuid.UUID(answer.pop("command_id")) and answer.pop("pid") > 1
    assert 0 <= answer.pop("duration_ms") < 10_000
    assert answer == {
        "stdout": "out\n",
        "stderr": "err\n",
        "exit_code": 3,
        "signal": None,
        "error": None,
        "error_value": None,
        "status": "error",
        "truncated": False,
        "files": [],
    }
    assert shared.command("true")["status"] == "ok"


def test_text_is_for_a_login_shell(shared):
    answer = shared.command('shopt -q login_shell && echo login; echo "$BASH $0"; echo {1..3} | tr " " -')
    assert answer["stdout"] == "login\n/bin/bash /bin/bash\n1-2-3\n"


def test_list_is_executed_as_it_is(shared):
    arguments = ["printf", "%s|", "two words", "$HOME", "*", "", "é🦊", "'"]
    assert shared.command(arguments)["stdout"] == "two words|$HOME|*||é🦊|'|"


def test_programs_are_the_environment_s(shared):
    for command in ("command -v python pip", ["bash", "-c", "command -v python pip"]):
        assert shared.command(command)["stdout"] == "/opt/venv/bin/python\n/opt/husk/bin/pip\n"
    code = "import sys, numpy; print(sys.prefix)"
    assert shared.command(["python", "-c", code])["stdout"] == "/opt/venv\n"


def test_environment_is_the_kernel_s(create):
    sandbox = create(env={"COLOUR": "blue", "SHAPE": "round"})
    code = "import os, json; print(json.dumps(dict(os.environ)))"
    kernel = eval(sandbox.run(code))
    command = eval(sandbox.command(["python", "-c", code])["stdout"])
    for name in ("PATH", "HOME", "USER", "LANG", "VIRTUAL_ENV", "MPLCONFIGDIR", "OMP_NUM_THREADS", "COLOUR", "SHAPE"):
        assert command[name] == kernel[name], name
    shell = sandbox.command("env", env={"SHAPE": "square", "EXTRA": "é\n!", "PATH": "/opt/venv/bin:/bin"})["stdout"]
    assert "SHAPE=square\n" in shell and "COLOUR=blue\n" in shell and "EXTRA=é\n!\n" in shell
    assert "PATH=/opt/venv/bin:/bin\n" in shell, "a login shell leaves it alone"
    assert sandbox.command("echo $SHAPE")["stdout"] == "round\n", "for one command only"


def test_working_directory(sandbox):
    sandbox.run("import os; os.makedirs('a/b c')")
    pwd = {cwd: sandbox.command("pwd", cwd=cwd)["stdout"] for cwd in ("a", "a/b c", "/tmp", ".", "/home/user/a/../a")}
    assert pwd == {
        "a": "/home/user/a\n",
        "a/b c": "/home/user/a/b c\n",
        "/tmp": "/tmp\n",
        ".": "/home/user\n",
        "/home/user/a/../a": "/home/user/a\n",
    }
    assert sandbox.command(["pwd"])["stdout"] == "/home/user\n"


@pytest.mark.parametrize("cwd, why", [("/nope", "No such file"), ("/etc/passwd", "Not a directory"), ("x" * 300, "too long")])
def test_working_directory_that_is_none(shared, cwd, why):
    answer = shared.command("echo ran", cwd=cwd)
    assert (answer["status"], answer["exit_code"], answer["error"]) == ("error", 126, "NotStarted")
    assert answer["stdout"] == "" and why in answer["stderr"] and "cwd" in answer["error_value"]


def test_input(shared):
    assert shared.command("cat", stdin="é\nlast line")["stdout"] == "é\nlast line"
    assert shared.command("cat; echo $?")["stdout"] == "0\n", "without stdin there is its end"
    assert shared.command(["wc", "-c"], stdin="x" * MIB)["stdout"] == f"{MIB}\n"
    assert shared.command("head -c 3", stdin="x" * MIB)["stdout"] == "xxx", "who does not want it all"


def test_input_that_nobody_reads(shared):
    assert shared.command("exec 0<&-; echo done", stdin="x" * MIB)["stdout"] == "done\n"
    answer = shared.command("sleep 60", stdin="x" * MIB, timeout=0.5)
    assert (answer["status"], answer["duration_ms"] < 10_000) == ("timeout", True)


# --- how it ends ---


@pytest.mark.parametrize(
    "command, code, text",
    [
        (["no-such-program"], 127, "no-such-program: command not found"),
        (["./missing"], 127, "./missing: No such file or directory"),
        (["/etc/passwd"], 126, "/etc/passwd: Permission denied"),
        (["/tmp"], 126, "/tmp: Is a directory"),
        (["/etc/passwd/x"], 126, "/etc/passwd/x: Not a directory"),
    ],
)
def test_what_cannot_be_executed(shared, command, code, text):
    answer = shared.command(command)
    assert (answer["status"], answer["exit_code"], answer["signal"]) == ("error", code, None)
    assert (answer["error"], answer["error_value"]) == ("NotStarted", text)
    assert answer["stderr"] == f"husk: {text}\n"


def test_exit_code_is_not_taken_for_a_failure_to_start(shared):
    answer = shared.command("exit 127")
    assert (answer["exit_code"], answer["error"], answer["stderr"]) == (127, None, "")
    assert "command not found" in shared.command("no-such-program")["stderr"]


def test_signals(shared):
    answer = shared.command(["bash", "-c", "kill -SEGV $$"])
    assert (answer["exit_code"], answer["signal"], answer["status"]) == (139, "SIGSEGV", "error")


def test_script_without_a_first_line(sandbox):
    sandbox.run("open('script', 'w').write('echo from a script'); import os; os.chmod('script', 0o755)")
    assert sandbox.command(["./script"])["stdout"] == "from a script\n"


def test_timeout_ends_the_whole_group(sandbox):
    answer = sandbox.command("sleep 1234 & sleep 1235 | cat; echo never", timeout=0.5)
    assert (answer["status"], answer["error"]) == ("timeout", "TimeoutError")
    assert (answer["exit_code"], answer["signal"], answer["stdout"]) == (143, "SIGTERM", "")
    assert answer["duration_ms"] < 5000
    assert not inside(sandbox, "sleep 123"), "nothing of it is left when the answer comes"


@pytest.mark.parametrize(
    "command",
    [
        "trap '' TERM; sleep 1234",
        # The shell ends by the first signal, and the one that does not has a group of its own.
        "set -m; (trap '' TERM; while true; do sleep 1234; done) & wait",
        "python -c 'import signal, time; signal.signal(15, signal.SIG_IGN); print(flush=True); time.sleep(1234)' >/dev/null & wait",
    ],
)
def test_timeout_of_what_ignores_sigterm(sandbox, command):
    answer = sandbox.command(command, timeout=1.5)
    assert (answer["status"], answer["duration_ms"] < 10_000) == ("timeout", True)
    until_gone(sandbox, "1234")


def test_time_to_clean_up(sandbox):
    answer = sandbox.command("trap 'echo cleaned > up; echo bye; exit 0' TERM; while true; do sleep 0.05; done", timeout=0.3)
    assert (answer["status"], answer["exit_code"], answer["stdout"]) == ("timeout", 0, "bye\n")
    assert [file["path"] for file in answer["files"]] == ["up"]


def test_background_process_that_holds_the_pipes(sandbox):
    answer = sandbox.command("(while sleep 0.05; do echo tick; done) & echo started")
    assert (answer["status"], answer["exit_code"]) == ("ok", 0)
    assert answer["stdout"].startswith("started\n") and answer["duration_ms"] < 5000
    assert inside(sandbox, "while sleep 0.05"), "it goes on"
    assert sandbox.post("restart").status_code == 200
    until_gone(sandbox, "while sleep 0.05")


def test_background_writer_lives_on(sandbox):
    """Its pipe is still read after the answer, so a server may be started like that: several times what fits into a pipe."""
    script = "import time, os; time.sleep(1); [print('x' * 1023, flush=True) for _ in range(300)]; open('through', 'w')"
    answer = sandbox.command(f'python -c "{script}" & echo started')
    assert (answer["stdout"], answer["duration_ms"] < 5000) == ("started\n", True)
    until_file(sandbox, "through")


def test_no_zombies(sandbox):
    for _ in range(5):
        sandbox.command("for i in 1 2 3; do (true &); done; (sleep 0.01 &) ; true")
    code = "import glob; print([s for p in glob.glob('/proc/[0-9]*/stat') if (s := open(p).read().split()[2]) == 'Z'])"
    host.until(lambda: sandbox.run(code) == "[]\n", 10, "no zombies")


# --- several ---


def test_several_in_order(sandbox):
    answer = sandbox.post("command", json={"commands": ["echo a > file", ["cat", "file"], "echo b"]}).json()
    assert (answer["stdout"], answer["exit_code"], answer["status"]) == ("a\nb\n", 0, "ok")
    assert [step["command"] for step in answer["commands"]] == ["echo a > file", ["cat", "file"], "echo b"]
    assert [(step["status"], step["exit_code"]) for step in answer["commands"]] == [("ok", 0)] * 3
    assert [file["path"] for file in answer["files"]] == ["file"]


def test_several_until_one_fails(shared):
    answer = shared.post("command", json={"commands": ["echo a", "echo b; exit 5", "echo c"]}).json()
    assert (answer["stdout"], answer["exit_code"], answer["status"]) == ("a\nb\n", 5, "error")
    assert [step["status"] for step in answer["commands"]] == ["ok", "error", "not_run"]
    assert [step["exit_code"] for step in answer["commands"]] == [0, 5, None]
    answer = shared.post("command", json={"commands": ["true", ["nope"], "echo c"]}).json()
    assert (answer["exit_code"], answer["error"]) == (127, "NotStarted")


def test_several_share_the_time(shared):
    answer = shared.post("command", json={"commands": ["sleep 0.4"] * 5, "timeout": 1}).json()
    assert answer["status"] == "timeout"
    statuses = [step["status"] for step in answer["commands"]]
    assert statuses.count("timeout") == 1 and statuses[0] == "ok" and statuses[-1] == "not_run"


# --- output ---


def test_output_that_is_no_text(shared):
    answer = shared.command(r"printf 'a\xff\xc3(b\xe2\x82\x00\xf0\x9f\xa6'; printf '\x80' >&2")
    assert (answer["stdout"], answer["stderr"]) == ("a\ufffd\ufffd(b\ufffd\x00\ufffd", "\ufffd")


def test_characters_are_not_cut(shared):
    """The pieces in which it is read end anywhere."""
    text = "é€🦊x" * 60_000
    script = "import os; d = ('é€🦊x' * 60000).encode(); [os.write(1, d[i : i + 977]) for i in range(0, len(d), 977)]"
    assert shared.command(["python", "-c", script])["stdout"] == text


def test_long_output(sandbox):
    answer = sandbox.command("seq 400000; echo last")
    assert answer["truncated"] is True and len(answer["stdout"]) <= MIB
    assert answer["stdout"].startswith("1\n2\n") and answer["stdout"].endswith("\n400000\nlast\n")
    path = re.search(r"\n\[\d+ bytes left out; the whole text is in (\S+)\]\n", answer["stdout"])[1]
    [file] = answer["files"]
    assert file["path"] == path and path.startswith(".husk/")
    whole = sandbox.service.get(file["url"]).text
    assert whole == "".join(f"{n}\n" for n in range(1, 400_001)) + "last\n"
    assert sandbox.run(f"import os; print(os.access('{path}', os.W_OK))") == "True\n", "it is the sandbox's own"


@pytest.mark.parametrize("trap", ["os.symlink('/etc', '.husk')", "os.mkfifo('.husk')", "os.mkdir('.husk', 0o500)"])
def test_whole_text_where_there_is_no_place(sandbox, trap):
    sandbox.run(f"import os; {trap}")
    answer = sandbox.command("seq 400000")
    assert answer["truncated"] is True and "bytes left out]" in answer["stdout"] and answer["status"] == "ok"


def test_whole_text_that_does_not_fit(create):
    sandbox = create(disk_mb=16)
    answer = sandbox.command("seq 2000000")
    assert "bytes left out]" in answer["stdout"]
    assert sandbox.run("import os; print(os.listdir('.husk'))") == "[]\n", "no part of it passes for the whole"


def test_a_gigabyte(sandbox, bounded):
    answer = sandbox.command("head -c 1073741824 /dev/zero | tr '\\0' 'x'; echo end", timeout=ENOUGH_TIME)
    assert (answer["status"], answer["truncated"]) == ("ok", True), answer["stderr"]
    assert answer["stdout"].endswith("xend\n") and len(answer["stdout"]) <= MIB


def test_files(sandbox):
    sandbox.run("open('old', 'w').write('1'); open('same', 'w').write('1')")
    answer = sandbox.command("mkdir sub; echo 22 > sub/new; echo 1 >> old")
    assert {file["path"]: (file["size"], file["change"]) for file in answer["files"]} == {
        "old": (3, "changed"),
        "sub/new": (3, "created"),
    }
    assert sandbox.service.get(answer["files"][1]["url"]).text == "22\n"


def test_files_of_what_runs_at_the_same_time(sandbox):
    """In a tree so large that it is watched: who asks first must not take the news from the other."""
    sandbox.run("import os\nfor d in range(30):\n  os.mkdir(str(d))\n  for n in range(60): open(f'{d}/{n}', 'w')")
    sandbox.run("pass")
    sandbox.run("pass")
    waiting = later(sandbox.command, "echo x > 3/made; while [ ! -e go ]; do sleep 0.02; done", timeout=ENOUGH_TIME)
    host.until(lambda: sandbox.info()["commands"] == 1, 10, "the command to run")
    host.until(lambda: sandbox.value("os.path.exists('3/made')"), 10, "its file")
    assert "3/made" not in [file["path"] for file in sandbox.execute("open('4/other', 'w')")["files"]]
    for n in range(5):
        sandbox.run("pass")
    sandbox.run("open('go', 'w')")
    assert {"3/made", "4/other", "go"} <= {file["path"] for file in waiting.result()["files"]}
