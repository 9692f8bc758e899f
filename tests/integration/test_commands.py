"""Commands among others: streams, the kernel beside them, detached ones, and how many and how large they may be."""

import json
import signal
import socket
import uuid

import pytest

import host
from command_client import detach, fetch, inside, kill, listed, result, until_gone, until_inside
from service import joined, later, problem

MIB = 1 << 20
ENOUGH_TIME = 60

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


def test_reader_that_stops_reading(sandbox, bounded):
    """The command waits for two seconds, then it goes on, and the reader is told what it missed."""
    with sandbox.command_stream("seq 5000000; echo through > through", timeout=ENOUGH_TIME) as stream:
        stream.next("start")
        host.until(lambda: sandbox.command(["test", "-e", "through"])["exit_code"] == 0, 30, "the command to go on")
        events = stream.rest()
    assert "dropped" in [event["event"] for event in events]
    answer = joined(event for event in events if event["event"] != "dropped")
    assert (answer["status"], answer["truncated"], answer["exit_code"]) == ("ok", True, 0)


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


def test_a_server_for_the_code(sandbox):
    sandbox.run("open('page', 'w').write('served')")
    detach(sandbox, "python -m http.server 8080")
    code = "import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:8080/page').read().decode())"
    host.until(lambda: sandbox.execute(code)["stdout"] == "served\n", 20, "the server")
    assert sandbox.post("restart").status_code == 200
    assert sandbox.run(code) == "served\n"


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
    """A restart gets rid of it, and of nothing else."""
    sandbox = create(pids=64)
    command = detach(sandbox, "sleep 1234")
    sandbox.execute("import os\nif os.fork() == 0:\n  os.setsid()\n  while True:\n    try: os.fork()\n    except OSError: pass")
    host.until(lambda: sandbox.info()["usage"]["pids"] > 50, 20, "the bomb to go off")
    assert sandbox.post("restart").status_code == 200
    assert sandbox.works()
    host.until(lambda: sandbox.info()["usage"]["pids"] < 20, 20, "its end")
    assert fetch(sandbox, command["command_id"])["status"] == "running"


def test_fork_bomb_in_a_command(create):
    sandbox = create(pids=64)
    answer = sandbox.command("bomb() { bomb | bomb & bomb; }; bomb", timeout=2)
    assert answer["status"] in ("timeout", "error")
    assert sandbox.post("restart").status_code == 200
    host.until(lambda: sandbox.info()["usage"]["pids"] < 20, 20, "its end")
    assert sandbox.command("echo again")["stdout"] == "again\n"


def test_command_that_is_in_the_way_of_a_kernel(create):
    """It has all processes there may be, and none is left for a kernel: then it has to go."""
    sandbox = create(pids=32)
    script = "import os, signal\nwhile True:\n  try:\n    if os.fork() == 0: signal.pause()\n  except OSError: pass"
    holder = detach(sandbox, ["python", "-c", script])
    host.until(lambda: sandbox.info()["usage"]["pids"] >= 32, 20, "all processes to be in use")
    assert sandbox.post("restart").status_code == 200
    assert sandbox.works()
    over = result(sandbox, holder["command_id"])
    assert (over["status"], over["error"], over["signal"]) == ("died", "Swept", "SIGKILL")


def test_many_large_ones_at_once(create):
    """init takes them one by one, at the pace that the sandbox's share of the CPU allows."""
    sandbox = create(cpus=0.1)
    text = "x" * 60_000
    waiting = [later(sandbox.command, ["printf", "%s", text], timeout=ENOUGH_TIME) for _ in range(24)]
    for future in waiting:
        answer = future.result()
        assert (answer["status"], answer["stdout"] == text) == ("ok", True), answer["stderr"]


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
