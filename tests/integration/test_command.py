"""Commands beside the kernel: what they are given, how they end, what they leave, and who may rely on them."""

import json
import re
import signal
import socket
import uuid

import pytest

import host
from service import joined, later, problem

MIB = 1 << 20
ENOUGH_TIME = 60


def detach(sandbox, command, **fields):
    answer = sandbox.post("command", json={"command": command, "detach": True, **fields})
    assert answer.status_code == 202, answer.text
    body = answer.json()
    assert set(body) == {"command_id", "pid"} and uuid.UUID(body["command_id"])
    return body


def fetch(sandbox, reference):
    answer = sandbox.service.get(f"{sandbox.path}/commands/{reference}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def result(sandbox, reference, seconds=30):
    return host.until(
        lambda: (found := fetch(sandbox, reference))["status"] != "running" and found, seconds, "the end of a command"
    )


def listed(sandbox):
    answer = sandbox.service.get(f"{sandbox.path}/commands")
    assert answer.status_code == 200, answer.text
    return answer.json()["commands"]


def kill(sandbox, reference):
    return sandbox.service.delete(f"{sandbox.path}/commands/{reference}")


def inside(sandbox, text):
    """The processes inside whose command line has this text, as the host sees them."""
    return [p for p in sandbox.processes() if text in open(f"/proc/{p.pid}/cmdline").read().replace("\0", " ")]


def until_inside(sandbox, text):
    return host.until(lambda: inside(sandbox, text), 20, f"a process with {text}")


def until_gone(sandbox, text):
    host.until(lambda: not inside(sandbox, text), 20, f"the end of processes with {text}")


def until_file(sandbox, name):
    host.until(lambda: sandbox.command(["test", "-e", name])["exit_code"] == 0, 20, name)


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
        assert shared.command(command)["stdout"] == "/opt/venv/bin/python\n/opt/venv/bin/pip\n"
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


# --- streams ---

FORMATS = pytest.mark.parametrize("lines", [False, True], ids=["sse", "ndjson"])


@FORMATS
def test_stream(shared, lines):
    with shared.command_stream("echo out; sleep 0.1; echo é >&2; echo x > made; exit 4", lines) as stream:
        start = stream.next("start")
        assert uuid.UUID(start["command_id"]) and start["pid"] > 1
        assert stream.next("stdout")["text"] == "out\n"
        events = stream.rest()
    assert [event["event"] for event in events] == ["stderr", "file", "end"]
    answer = joined(events)
    assert (answer["stderr"], answer["exit_code"], answer["status"]) == ("é\n", 4, "error")
    assert answer["files"][0]["path"] == "made"
    shared.run("import os; os.remove('made')")


@FORMATS
def test_stream_comes_as_it_is_written(sandbox, lines):
    with sandbox.command_stream("echo first; while [ ! -e go ]; do sleep 0.02; done; echo second", lines) as stream:
        stream.until("stdout")
        sandbox.run("open('go', 'w')")
        assert joined(stream.rest())["stdout"] == "second\n"


def test_stream_of_several(shared):
    answer = shared.post(
        "command", json={"commands": ["echo a", "false", "echo b"]}, headers={"Accept": "application/x-ndjson"}
    )
    events = [json.loads(line) for line in answer.text.splitlines()]
    assert [event["event"] for event in events] == ["command", "start", "stdout", "command", "end"]
    assert [step["status"] for step in events[-1]["commands"]] == ["ok", "error", "not_run"]


def test_slow_reader_makes_the_command_wait(sandbox, bounded):
    """Nothing is lost for one that reads, however slowly; and the rest waits in the command's pipe."""
    with sandbox.command_stream("seq 3000000; echo through > through", timeout=ENOUGH_TIME) as stream:
        read = []
        for event in stream:
            read.append(event)
            if len(read) == 20:
                assert sandbox.command(["test", "-e", "through"])["exit_code"] == 1
        answer = joined(read)
    assert answer["stdout"] == "".join(f"{n}\n" for n in range(1, 3_000_001))
    assert (answer["status"], answer["truncated"]) == ("ok", False)


def test_reader_that_leaves(sandbox):
    with sandbox.command_stream("echo begun; sleep 1234") as stream:
        stream.until("stdout")
        until_inside(sandbox, "sleep 1234")
    until_gone(sandbox, "sleep 1234")
    host.until(lambda: sandbox.info()["commands"] == 0, 10, "no command to run")


def test_caller_that_leaves(sandbox):
    body = b'{"command": "sleep 1234"}'
    with socket.create_connection(("127.0.0.1", sandbox.service.port)) as client:
        client.sendall(
            f"POST {sandbox.path}/command HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
        )
        until_inside(sandbox, "sleep 1234")
    until_gone(sandbox, "sleep 1234")


# --- beside the kernel ---


def test_while_the_kernel_is_busy(sandbox):
    busy = later(sandbox.execute, "import time\nwhile not __import__('os').path.exists('go'): time.sleep(0.01)")
    sandbox.until_state("busy")
    assert sandbox.command("echo beside")["stdout"] == "beside\n"
    sandbox.command("touch go")
    assert busy.result()["status"] == "ok"


def test_interrupt_hits_the_kernel_alone(sandbox):
    waiting = later(sandbox.command, "while [ ! -e go ]; do sleep 0.02; done; echo whole", timeout=ENOUGH_TIME)
    host.until(lambda: sandbox.info()["commands"] == 1, 10, "the command to run")
    busy = later(sandbox.execute, "while True: pass")
    sandbox.until_state("busy")
    assert sandbox.post("interrupt").status_code == 200
    assert busy.result()["status"] == "interrupted"
    sandbox.run("open('go', 'w')")
    assert waiting.result()["stdout"] == "whole\n"


@pytest.mark.parametrize("how", ["restart", "death", "unstoppable"])
def test_a_new_kernel_leaves_commands_alone(sandbox, how):
    server = detach(sandbox, "sleep 1234 & while [ ! -e go ]; do sleep 0.02; done; kill %1; echo served")
    sandbox.run("import subprocess; subprocess.Popen(['sleep', '4321'], start_new_session=True)")
    if how == "restart":
        assert sandbox.post("restart").status_code == 200
    elif how == "death":
        assert sandbox.execute("import os; os.kill(os.getpid(), 9)")["status"] == "died"
    else:
        stopped = sandbox.execute("import os, signal; os.kill(os.getpid(), signal.SIGSTOP)", timeout=0.5)
        assert (stopped["status"], stopped["state_lost"]) == ("timeout", True)
    sandbox.until_state("ready")
    until_gone(sandbox, "sleep 4321")
    assert inside(sandbox, "sleep 1234"), "with what it has started"
    assert fetch(sandbox, server["command_id"])["status"] == "running"
    sandbox.run("open('go', 'w')")
    done = result(sandbox, server["command_id"])
    assert (done["status"], done["stdout"]) == ("ok", "served\n")


def test_fork_bomb_of_the_kernel(create):
    """A restart gets rid of it, with the command or without."""
    sandbox = create(pids=64)
    detach(sandbox, "sleep 1234")
    sandbox.execute("import os\nif os.fork() == 0:\n  os.setsid()\n  while True:\n    try: os.fork()\n    except OSError: pass")
    host.until(lambda: sandbox.info()["usage"]["pids"] > 50, 20, "the bomb to go off")
    assert sandbox.post("restart").status_code == 200
    assert sandbox.works()
    host.until(lambda: sandbox.info()["usage"]["pids"] < 20, 20, "its end")


def test_fork_bomb_in_a_command(create):
    sandbox = create(pids=64)
    answer = sandbox.command("bomb() { bomb | bomb & bomb; }; bomb", timeout=2)
    assert answer["status"] in ("timeout", "error")
    assert sandbox.post("restart").status_code == 200
    host.until(lambda: sandbox.info()["usage"]["pids"] < 20, 20, "its end")
    assert sandbox.command("echo again")["stdout"] == "again\n"


def test_no_process_to_be_had(create):
    sandbox = create(pids=32)
    holder = detach(sandbox, "for i in {1..100}; do sleep 1234 & done; wait")
    host.until(lambda: sandbox.info()["usage"]["pids"] >= 32, 20, "all processes to be in use")
    answer = sandbox.command(["true"])
    assert (answer["status"], answer["error"], answer["exit_code"]) == ("error", "NotStarted", 126)
    assert "as many processes as it may have" in answer["error_value"]
    assert kill(sandbox, holder["command_id"]).status_code == 200
    assert sandbox.command(["echo", "again"])["stdout"] == "again\n"


def test_memory(create):
    sandbox = create(memory_mb=128, disk_mb=16)
    answer = sandbox.command(["python", "-c", "x = bytearray(1 << 30); x[::4096] = x[::4096]"])
    assert (answer["status"], answer["error"], answer["exit_code"]) == ("died", "OutOfMemory", 137)
    assert sandbox.works()


def test_as_confined_as_the_kernel(shared):
    def status(text):
        return {line.partition(":")[0]: line.partition(":")[2].strip() for line in text.splitlines()}

    kernel = status(shared.run("print(open('/proc/self/status').read())"))
    for command in (["cat", "/proc/self/status"], "cat /proc/self/status"):
        mine = status(shared.command(command)["stdout"])
        for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
            assert int(mine[name], 16) == 0, name
        for name in ("Uid", "Gid", "Groups", "NoNewPrivs", "Seccomp", "Seccomp_filters"):
            assert mine.get(name) == kernel.get(name), name
        assert (mine["NoNewPrivs"], mine["Seccomp"]) == ("1", "2")
        assert int(mine["SigBlk"], 16) == int(mine["SigIgn"], 16) == 0
    limits = ["cat", "/proc/self/limits"]
    assert shared.command(limits)["stdout"] == shared.run("print(open('/proc/self/limits').read(), end='')")
    for name in ("cgroup", "pid", "net", "mnt", "user", "ipc", "uts"):
        assert shared.command(["readlink", f"/proc/self/ns/{name}"])["stdout"].strip() == shared.namespace(name)


def test_nothing_open_but_stdio(shared):
    script = "import os; print({n: os.readlink(f'/proc/self/fd/{n}') for n in os.listdir('/proc/self/fd') if n != '3'})"
    found = eval(shared.command(["python", "-c", script])["stdout"])
    assert set(found) == {"0", "1", "2"} and found["0"] == "/dev/null"
    assert found["1"].startswith("pipe:") and found["2"].startswith("pipe:") and found["1"] != found["2"]
    script = "echo to stdout > /dev/stdout; echo to stderr > /dev/stderr"
    answer = shared.command(script)
    assert (answer["stdout"], answer["stderr"]) == ("to stdout\n", "to stderr\n")


# --- detached ones ---


def test_detached(sandbox):
    begun = detach(sandbox, "echo begun; while [ ! -e go ]; do sleep 0.02; done; echo done; exit 7")
    running = host.until(lambda: (f := fetch(sandbox, begun["command_id"]))["stdout"] and f, 20, "the first output")
    assert (running["status"], running["stdout"], running["exit_code"]) == ("running", "begun\n", None)
    assert fetch(sandbox, begun["pid"])["command_id"] == begun["command_id"]
    [entry] = listed(sandbox)
    assert (entry["status"], entry["detached"], entry["pid"]) == ("running", True, begun["pid"])
    assert entry["command"].startswith("echo begun") and entry["command_id"] == begun["command_id"]
    sandbox.run("open('go', 'w')")
    over = result(sandbox, begun["command_id"])
    assert (over["status"], over["stdout"], over["exit_code"]) == ("error", "begun\ndone\n", 7)
    [entry] = listed(sandbox)
    assert (entry["status"], entry["exit_code"]) == ("error", 7)
    assert fetch(sandbox, begun["pid"])["stdout"] == "begun\ndone\n"


def test_detached_that_cannot_start(sandbox):
    over = result(sandbox, detach(sandbox, ["no-such-program"])["command_id"])
    assert (over["exit_code"], over["error"]) == (127, "NotStarted")


@pytest.mark.parametrize("by", ["pid", "command_id"])
def test_kill(sandbox, by):
    begun = detach(sandbox, "trap 'echo caught; exit 9' TERM; echo ready; while true; do sleep 0.05; done")
    host.until(lambda: fetch(sandbox, begun["command_id"])["stdout"], 20, "the first output")
    assert kill(sandbox, begun[by]).json() == {"status": "success"}
    over = fetch(sandbox, begun["command_id"])
    assert (over["status"], over["error"], over["stdout"]) == ("interrupted", "Interrupted", "ready\ncaught\n")
    assert kill(sandbox, begun[by]).status_code == 200, "it has ended, as was asked for"


def test_kill_a_waiting_caller_s(sandbox):
    waiting = later(sandbox.command, "sleep 1234")
    [entry] = host.until(lambda: (found := listed(sandbox)) and found[0]["pid"] and found, 20, "the command")
    assert entry["detached"] is False
    assert kill(sandbox, entry["pid"]).status_code == 200
    assert waiting.result()["status"] == "interrupted"
    assert listed(sandbox) == []


def test_unknown_commands(shared):
    for reference in ("1", "999999", "0", "-1", "x", "00000000-0000-4000-8000-000000000000", "9" * 30):
        path = f"{shared.path}/commands/{reference}"
        problem(shared.service.get(path), 404, "command_not_found")
        problem(shared.service.delete(path), 404, "command_not_found")


def test_the_oldest_results_are_forgotten(sandbox):
    begun = []
    for n in range(40):
        begun.append(detach(sandbox, f"echo {n}")["command_id"])
        result(sandbox, begun[-1])
    assert [entry["command_id"] for entry in listed(sandbox)] == begun[-32:]
    problem(sandbox.service.get(f"{sandbox.path}/commands/{begun[0]}"), 404, "command_not_found")
    assert fetch(sandbox, begun[-1])["stdout"] == "39\n"


def test_detached_ones_outlive_huskd(private):
    service = private().start()
    sandbox = service.create(name="lasting")
    begun = detach(sandbox, "echo before; while [ ! -e go ]; do sleep 0.02; done; echo after")
    caller = later(sandbox.post, "command", json={"command": "sleep 1234"})
    until_inside(sandbox, "sleep 1234")
    service.stop(signal.SIGKILL)
    assert caller.exception(30)
    service.start()
    sandbox = service.adopt(sandbox.id)
    assert fetch(sandbox, begun["command_id"])["status"] == "running"
    until_gone(sandbox, "sleep 1234")
    assert service.post("/sandbox/lasting/command", json={"command": "touch go"}).status_code == 200
    assert result(sandbox, begun["pid"])["stdout"] == "before\nafter\n"


def test_keeps_an_idle_sandbox(service):
    sandbox = service.create(idle_seconds=2)
    begun = detach(sandbox, "sleep 5; echo through")
    used_up = later(lambda: host.until(lambda: service.get(sandbox.path).status_code == 410, 30, "expiry"))
    # Asking for it would count as use, so only the list of all sandboxes is looked at.
    host.until(lambda: service.sandboxes()[sandbox.id]["commands"] == 0, 20, "the end of the command")
    assert service.sandboxes()[sandbox.id]["state"] == "ready"
    assert fetch(sandbox, begun["command_id"])["stdout"] == "through\n"
    assert used_up.result(40)


# --- bounds ---


def test_many_at_once(sandbox):
    waiting = [
        later(sandbox.command, f"echo {n}; while [ ! -e go ]; do sleep 0.1; done; echo {n}", timeout=ENOUGH_TIME)
        for n in range(32)
    ]
    host.until(lambda: sandbox.info()["commands"] == 32, 30, "all to run")
    refused = sandbox.post("command", json={"command": "echo one too many"})
    assert problem(refused, 429, "too_many_commands") and refused.headers["Retry-After"]
    sandbox.run("open('go', 'w')")
    for n, future in enumerate(waiting):
        assert future.result()["stdout"] == f"{n}\n{n}\n"
    assert sandbox.command("echo again")["stdout"] == "again\n"
    assert sandbox.info()["commands"] == 0


BAD = [
    {},
    {"command": None},
    {"command": ""},
    {"command": " \n"},
    {"command": []},
    {"command": [""]},
    {"command": 5},
    {"command": ["a", 5]},
    {"command": {"a": 1}},
    {"command": "a\0b"},
    {"command": ["a", "b\0"]},
    {"command": "x" * 65537},
    {"command": ["x"] * 513},
    {"command": ["x" * 40000, "y" * 40000]},
    {"command": "a", "commands": ["a"]},
    {"commands": []},
    {"commands": "a"},
    {"commands": ["a", ""]},
    {"commands": ["a"] * 65},
    {"command": "a", "timeout": 0},
    {"command": "a", "timeout": 1e9},
    {"command": "a", "timeout": "1"},
    {"command": "a", "cwd": 5},
    {"command": "a", "cwd": ""},
    {"command": "a", "cwd": "a\0b"},
    {"command": "a", "cwd": "x" * 4096},
    {"command": "a", "env": []},
    {"command": "a", "env": {"A": 1}},
    {"command": "a", "env": {"A=": "1"}},
    {"command": "a", "env": {"A": "x" * 40000}},
    {"command": "a", "env": {f"A{n}": "" for n in range(129)}},
    {"command": "a", "stdin": ["a"]},
    {"command": "a", "stdin": "x" * (MIB + 1)},
    {"command": "a", "detach": 1},
]


@pytest.mark.parametrize("body", BAD, ids=lambda body: str(body)[:40])
def test_bad_fields(shared, body):
    problem(shared.post("command", json=body), 422, "invalid_field")


def test_not_json(shared):
    problem(shared.post("command", data="ls -l"), 400, "malformed_json")


def test_detached_streams_are_refused(shared):
    answer = shared.post("command", json={"command": "ls", "detach": True}, headers={"Accept": "text/event-stream"})
    problem(answer, 422, "invalid_field")


def test_as_large_as_allowed(shared):
    variables = {f"V{n}": "é" * 100 for n in range(128)}
    longest = ["printf", "%s"] + ["x" * 126] * 510
    answer = shared.command(longest, env=variables, cwd="/" + "./" * 2047, stdin="s" * MIB)
    assert answer["stdout"] == "x" * 126 * 510
    text = "echo " + "y" * (65536 - 5)
    assert shared.command(text, env=variables)["stdout"] == "y" * (65536 - 5) + "\n"


def test_names_and_others(create, service):
    sandbox = create(name="commander")
    answer = service.post("/sandbox/commander/command", json={"command": "echo by name"})
    assert answer.json()["stdout"] == "by name\n"
    assert service.get("/sandbox/commander/commands").json() == {"commands": []}
    problem(service.post("/sandbox/nobody/command", json={"command": "ls"}), 404, "sandbox_not_found")
    waiting = later(sandbox.post, "command", json={"command": "sleep 1234"})
    until_inside(sandbox, "sleep 1234")
    sandbox.close()
    assert waiting.result().status_code == 410
    problem(service.post(f"{sandbox.path}/command", json={"command": "ls"}), 410, "sandbox_closed")
    assert '"command ended"' in service.log()
