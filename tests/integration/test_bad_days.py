"""Code that kills its kernel or does not stop; full queues; callers who go away; hosts that kill parts of a sandbox.
The service and the neighbours must not notice, and the caller must be told what happened."""

import os
import signal
import socket

import pytest

import host
from service import later, problem


pytestmark = pytest.mark.usefixtures("unharmed")


# --- the kernel dies ---


@pytest.mark.parametrize("code", ["os._exit(1)", "os._exit(0)", "os.kill(os.getpid(), 9)", "os.abort()"])
def test_kernel_death(sandbox, code):
    sandbox.run("open('file', 'w').write('stays'); variable = 1")
    answer = sandbox.execute(f"import os; print('last words', flush=True); {code}", timeout=30)
    assert (answer["status"], answer["error"]) == ("died", "KernelDied")
    assert answer["state_lost"] is True and answer["error_value"]
    assert answer["duration_ms"] < 10_000
    assert sandbox.value("open('file').read(), 'variable' in globals()") == ("stays", False)
    assert sandbox.value("__import__('os').listdir()") == ["file"], "no core file"


def test_kernel_dies_again_and_again(sandbox):
    for _ in range(3):
        assert sandbox.execute("import os; os._exit(1)")["status"] == "died"
    assert sandbox.works()


def test_kernel_dies_between_executions(sandbox):
    """Nobody waits for an answer then, so the next answer tells it."""
    sandbox.run("import threading, os\nthreading.Timer(0.3, os._exit, [1]).start()")
    host.until(lambda: (i := sandbox.info())["execution_count"] == 0 and i["state"] == "ready", 20, "a fresh kernel")
    answer = sandbox.execute("'threading' in globals()")
    assert (answer["status"], answer["state_lost"], answer["results"][0]["data"]) == ("ok", True, "False")
    assert sandbox.execute("1")["state_lost"] is False


def test_segmentation_fault(sandbox):
    answer = sandbox.execute("import ctypes; ctypes.string_at(0)")
    assert answer["status"] == "died" and answer["state_lost"] is True
    assert sandbox.works()


def test_queued_executions_after_a_death(sandbox):
    """What waits behind the one that dies runs in the fresh kernel, or is told that it did not run."""
    first = later(sandbox.execute, "import os, time; time.sleep(1); os._exit(1)")
    sandbox.until_state("busy")
    second = later(sandbox.execute, "print('second')")
    assert first.result(60)["status"] == "died"
    answer = second.result(60)
    assert answer["stdout"] == "second\n" or answer["status"] == "died"
    assert sandbox.works()


# --- the kernel does not stop ---


def test_endless_loop(sandbox):
    sandbox.run("kept = 'yes'")
    answer = sandbox.execute("while True: pass", timeout=1)
    assert (answer["status"], answer["error"], answer["state_lost"]) == ("timeout", "TimeoutError", False)
    assert 900 <= answer["duration_ms"] < 10_000
    assert sandbox.value("kept") == "yes"


def test_sleep_is_interrupted_too(sandbox):
    sandbox.run("kept = 'yes'")
    answer = sandbox.execute("import time; print('start', flush=True); time.sleep(100)", timeout=1)
    assert (answer["status"], answer["state_lost"]) == ("timeout", False)
    assert answer["stdout"].startswith("start\n")
    assert sandbox.value("kept") == "yes"


STUBBORN = """
while True:
    try:
        while True: pass
    except KeyboardInterrupt:
        pass
"""


def test_loop_that_swallows_the_interrupt(sandbox):
    sandbox.run("open('file', 'w').write('stays'); variable = 1")
    answer = sandbox.execute(STUBBORN, timeout=1)
    assert (answer["status"], answer["error"], answer["state_lost"]) == ("timeout", "TimeoutError", True)
    assert answer["duration_ms"] < 30_000
    assert sandbox.value("open('file').read(), 'variable' in globals()") == ("stays", False)


def test_signals_ignored(sandbox):
    code = "import signal\nfor n in (2, 15): signal.signal(n, signal.SIG_IGN)\n" + STUBBORN
    answer = sandbox.execute(code, timeout=1)
    assert answer["status"] == "timeout" and answer["state_lost"] is True
    assert sandbox.works()


def test_stopped_kernel(sandbox):
    """SIGSTOP: the kernel answers nothing, not even interrupts."""
    answer = sandbox.execute("import os, signal; os.kill(os.getpid(), signal.SIGSTOP)", timeout=1)
    assert answer["status"] == "timeout" and answer["state_lost"] is True
    assert sandbox.works()


def test_loop_in_c(sandbox):
    """The interpreter is never asked, so no interrupt arrives."""
    answer = sandbox.execute("import re; re.match(r'(a|a)*b', 'a' * 60)", timeout=1)
    assert answer["status"] == "timeout"
    assert sandbox.works()


def test_timeout_counts_from_acceptance(sandbox):
    first = later(sandbox.execute, "import time; time.sleep(3)")
    sandbox.until_state("busy")
    answer = sandbox.execute("print('ran')", timeout=0.5)
    assert answer["status"] == "timeout" and answer["stdout"] == "" and answer["state_lost"] is False
    assert first.result(30)["status"] == "ok", "the one that ran was not its to interrupt"


# --- the queue ---


def test_executions_run_in_order(sandbox):
    sandbox.run("order = []")
    first = later(sandbox.execute, "import time; time.sleep(1); order.append(1)")
    sandbox.until_state("busy")
    second = later(sandbox.execute, "order.append(2)")
    host.until(lambda: sandbox.info()["queued"] == 1, 10, "the second to be queued")
    third = sandbox.execute("order.append(3); print(order)")
    assert third["stdout"] == "[1, 2, 3]\n"
    assert first.result(10)["status"] == second.result(10)["status"] == "ok"


def test_never_run(sandbox):
    """The answer has all that every answer has."""
    running = later(sandbox.execute, "import time; time.sleep(2)")
    sandbox.until_state("busy")
    answer = sandbox.execute("1", timeout=0.2)
    assert (answer["status"], answer["duration_ms"], answer["files"]) == ("timeout", 0, [])
    assert set(answer) == set(running.result(20))


def test_shim_that_takes_nothing(sandbox):
    """What does not fit into the queue to it is refused, streams too; the rest runs when it goes on."""
    shim = sandbox.shim()
    code = "print('ran')\n#" + "\1" * 4_000_000  # six times as long on its way
    os.kill(shim.pid, signal.SIGSTOP)
    try:
        streams = [later(sandbox.stream, code) for _ in range(6)]
        host.until(lambda: any(stream.done() for stream in streams), 60, "one to be refused")
    finally:
        os.kill(shim.pid, signal.SIGCONT)
    answers = [stream.result(60) for stream in streams]
    refused = [stream for stream in answers if stream.answer.status_code != 200]
    for stream in refused:
        problem(stream.answer, 429, "queue_full")
    assert 1 <= len(refused) < len(answers)
    for stream in answers:
        if stream not in refused:
            stream.until("stdout")
            assert stream.rest()[-1]["status"] == "ok"
    assert sandbox.value("1 + 1") == 2


def test_queue_is_bounded(sandbox):
    running = later(sandbox.execute, "import time; time.sleep(60)")
    sandbox.until_state("busy")
    waiting = [later(sandbox.post, "execute", data=b"1") for _ in range(24)]
    refused = host.until(lambda: [f.result() for f in waiting if f.done()], 20, "a refusal")
    for answer in refused:
        problem(answer, 429, "queue_full")
        assert int(answer.headers["Retry-After"]) >= 1
    assert sandbox.post("interrupt").status_code == 200
    assert running.result(30)["status"] == "interrupted"
    statuses = [future.result(60).status_code for future in waiting]
    assert statuses.count(429) == 8 and statuses.count(200) == 16
    assert sandbox.works()


# --- callers ---


def test_interrupt(sandbox):
    sandbox.run("kept = 'yes'")
    running = later(sandbox.execute, "import time\nprint('started', flush=True)\ntime.sleep(60)")
    sandbox.until_state("busy")
    answer = sandbox.post("interrupt")
    assert answer.status_code == 200 and answer.json()["status"] == "success"
    assert sandbox.info()["state"] == "ready"
    answer = running.result(10)
    assert answer["status"] == "interrupted" and answer["error"] in ("Interrupted", "KeyboardInterrupt")
    assert answer["state_lost"] is False
    assert sandbox.value("kept") == "yes"


def test_interrupt_when_nothing_runs(sandbox):
    assert sandbox.post("interrupt").status_code == 200
    assert sandbox.works()


def test_interrupt_of_the_stubborn(sandbox):
    def used():
        return sandbox.info()["usage"]["cpu_seconds"]

    before = used()
    running = later(sandbox.execute, STUBBORN)
    host.until(lambda: used() > before + 0.3, 20, "the loop to spin")
    assert sandbox.post("interrupt").status_code == 200
    answer = running.result(30)
    assert answer["status"] in ("interrupted", "died") and answer["state_lost"] is True
    assert sandbox.works()


def test_restart(sandbox):
    sandbox.run("open('file', 'w').write('stays'); variable = 1")
    answer = sandbox.post("restart")
    assert answer.status_code == 200 and answer.json()["status"] == "success"
    info = sandbox.info()
    assert info["state"] == "ready" and info["execution_count"] == 0
    assert sandbox.value("open('file').read(), 'variable' in globals()") == ("stays", False)


def test_restart_while_busy(sandbox):
    running = later(sandbox.execute, "import time; time.sleep(60)")
    sandbox.until_state("busy")
    waiting = later(sandbox.execute, "print('waited')")
    host.until(lambda: sandbox.info()["queued"] == 1, 10, "the second to be queued")
    assert sandbox.post("restart").status_code == 200
    for future in (running, waiting):
        answer = future.result(10)
        assert answer["status"] == "interrupted" and answer["state_lost"] is True, answer
    assert sandbox.works()


def test_restart_ends_background_processes(sandbox):
    sandbox.run("import subprocess; p = subprocess.Popen(['sleep', '1000'], start_new_session=True)")
    assert any(p.name == "sleep" for p in sandbox.processes())
    assert sandbox.post("restart").status_code == 200
    assert not any(p.name == "sleep" for p in sandbox.processes())


def test_caller_going_away_interrupts(sandbox, service):
    sandbox.run("kept = 'yes'")
    code = b"import time\ntime.sleep(60)"
    with socket.create_connection(("127.0.0.1", service.port)) as caller:
        head = f"POST {sandbox.path}/execute HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(code)}\r\n\r\n"
        caller.sendall(head.encode() + code)
        sandbox.until_state("busy")
    sandbox.until_state("ready", 15)
    assert sandbox.value("kept") == "yes"


def test_caller_going_away_from_the_queue(sandbox, service):
    running = later(sandbox.execute, "import time; time.sleep(3); left = 'no'")
    sandbox.until_state("busy")
    code = b"left = 'it ran'"
    with socket.create_connection(("127.0.0.1", service.port)) as caller:
        head = f"POST {sandbox.path}/execute HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(code)}\r\n\r\n"
        caller.sendall(head.encode() + code)
        host.until(lambda: sandbox.info()["queued"] == 1, 10, "it to be queued")
    assert running.result(30)["status"] == "ok"
    assert sandbox.value("left") == "no"


# --- killed from outside ---


@pytest.mark.parametrize("victim", ["init", "shim"])
def test_sandbox_dies_when_a_part_of_it_does(service, victim):
    sandbox = service.create(name=f"victim-{victim}")
    namespace = sandbox.namespace("pid")
    init, shim = sandbox.init(), sandbox.shim()
    running = later(sandbox.post, "execute", data=b"import time; time.sleep(60)")
    sandbox.until_state("busy")
    os.kill(init.pid if victim == "init" else shim.pid, signal.SIGKILL)
    answer = running.result(20)
    assert answer.status_code in (200, 410), answer.text
    if answer.status_code == 200:
        assert answer.json()["status"] == "died"
    host.until(lambda: service.get(sandbox.path).status_code == 410, 10, "410")
    assert "died" in problem(service.get(sandbox.path), 410, "sandbox_closed")["detail"]
    assert sandbox.id not in service.sandboxes()
    host.until(lambda: not host.within("pid", namespace) and not host.alive(shim.pid), 10, "its processes to end")
    host.until(lambda: not sandbox.cgroups(), 10, "its cgroups to go")
    again = service.create(name=f"victim-{victim}")
    assert again.works() and again.close().status_code == 200
