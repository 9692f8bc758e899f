"""Executions that nobody waits for; and what an execution can be given."""

import contextlib
import socket
import uuid

import pytest

import host
from service import later, problem, sanitized

MIB = 1 << 20

OVER = ("ok", "error", "timeout", "interrupted", "died")


def detach(sandbox, code, **fields):
    answer = sandbox.post("execute", json={"code": code, "detach": True, **fields})
    assert answer.status_code == 202, answer.text
    body = answer.json()
    assert set(body) == {"execution_id"} and uuid.UUID(body["execution_id"])
    return body["execution_id"]


def fetch(sandbox, execution_id):
    answer = sandbox.service.get(f"{sandbox.path}/executions/{execution_id}")
    assert answer.status_code == 200, answer.text
    assert answer.json()["execution_id"] == execution_id
    return answer.json()


def result(sandbox, execution_id, seconds=30):
    return host.until(
        lambda: (found := fetch(sandbox, execution_id))["status"] in OVER and found, seconds, "the end of an execution"
    )


def test_result_is_what_an_answer_would_be(shared):
    code = "print('out'); open('detached.txt', 'w').write('x'); 6 * 7"
    whole = result(shared, detach(shared, code))
    assert (whole["stdout"], whole["status"]) == ("out\n", "ok")
    assert whole["results"][0]["data"] == "42"
    assert [file["path"] for file in whole["files"]] == ["detached.txt"]
    shared.run("import os; os.remove('detached.txt')")


def test_output_so_far(sandbox):
    code = "print('begun', flush=True)\nwhile not os.path.exists('go on'): time.sleep(0.01)\nprint('done')"
    execution = detach(sandbox, "import os, time\n" + code)
    running = host.until(lambda: (f := fetch(sandbox, execution))["stdout"] and f, 20, "the first output")
    assert (running["status"], running["stdout"]) == ("running", "begun\n")
    waiting = detach(sandbox, "print('second')")
    assert fetch(sandbox, waiting)["status"] == "queued"
    assert sandbox.info()["queued"] == 1 and sandbox.info()["state"] == "busy"
    assert sandbox.post("interrupt").status_code == 200
    assert result(sandbox, execution)["status"] == "interrupted"
    assert result(sandbox, waiting)["stdout"] == "second\n"


def test_many_fetch_a_large_result(sandbox):
    """All at the same time: the shim holds one or two of such answers, and the others wait for huskd to read those."""
    execution = detach(sandbox, "display({'text/plain': 'x' * 11_000_000, 'text/html': 'y' * 11_000_000}, raw=True)")
    assert result(sandbox, execution)["status"] == "ok"
    asked = [later(sandbox.service.get, f"{sandbox.path}/executions/{execution}") for _ in range(10)]
    meanwhile = later(sandbox.execute, "print('meanwhile')")
    for answer in asked:
        assert (answer.result().status_code, len(answer.result().content) > 22_000_000) == (200, True)
    assert meanwhile.result()["stdout"] == "meanwhile\n"


def test_answers_that_nobody_reads(private):
    """huskd holds some of them for their clients, and then no more: there may be thousands of clients."""
    service = private().start()
    sandbox = service.create()
    execution = detach(sandbox, "display({'text/plain': 'x' * 11_000_000, 'text/html': 'y' * 11_000_000}, raw=True)")
    assert result(sandbox, execution)["status"] == "ok"
    path = f"{sandbox.path}/executions/{execution}"
    with contextlib.ExitStack() as clients:
        for _ in range(40):
            client = clients.enter_context(socket.create_connection(("127.0.0.1", service.port)))
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        host.until(lambda: service.get(path).status_code == 503, 60, "another one to be refused")
        problem(service.get(path), 503, "out_of_memory")
        problem(sandbox.post("execute", json={"code": "1"}), 503, "out_of_memory")
        with sandbox.stream("print('streams hold little')") as stream:
            assert stream.until("stdout") and stream.rest()[-1]["status"] == "ok"
        if not sanitized():
            assert host.Process(service.process.pid).resident_bytes < 400 * MIB
    host.until(lambda: service.get(path).status_code == 200, 20, "the clients that left to be forgotten")
    assert sandbox.execute("print('again')")["stdout"] == "again\n"


def test_caller_need_not_stay(sandbox):
    """The connection of the request is closed long before the end, and the code runs on."""
    execution = detach(sandbox, "import time; time.sleep(1); print('ran to its end')")
    assert result(sandbox, execution)["stdout"] == "ran to its end\n"


def test_result_can_be_fetched_again(sandbox):
    execution = detach(sandbox, "1 + 1")
    assert result(sandbox, execution) == fetch(sandbox, execution)


def test_order_is_kept(sandbox):
    sandbox.run("order = []")
    executions = [detach(sandbox, f"order.append({n})") for n in range(10)]
    assert sandbox.value("order") == list(range(10))
    assert [result(sandbox, execution)["execution_count"] for execution in executions] == list(range(2, 12))


def test_errors_and_timeouts(sandbox):
    failed = result(sandbox, detach(sandbox, "1 / 0"))
    assert (failed["status"], failed["error"]) == ("error", "ZeroDivisionError")
    late = result(sandbox, detach(sandbox, "while True: pass", timeout=0.5))
    assert (late["status"], late["error"]) == ("timeout", "TimeoutError")
    died = result(sandbox, detach(sandbox, "import os; os._exit(3)"))
    assert (died["status"], died["state_lost"]) == ("died", True) and "exit code 3" in died["error_value"]


def test_restart_ends_them(sandbox):
    executions = [detach(sandbox, "import time; time.sleep(60)") for _ in range(2)]
    assert sandbox.post("restart").status_code == 200
    for execution in executions:
        assert result(sandbox, execution)["status"] == "interrupted"


def test_queue_is_bounded(sandbox):
    running = later(sandbox.execute, "import time; time.sleep(60)")
    sandbox.until_state("busy")
    for _ in range(16):
        detach(sandbox, "1")
    problem(sandbox.post("execute", json={"code": "1", "detach": True}), 429, "queue_full")
    assert sandbox.post("interrupt").status_code == 200
    assert running.result(20)["status"] == "interrupted"


def test_oldest_results_are_forgotten(sandbox):
    executions = []
    for n in range(40):
        executions.append(detach(sandbox, str(n)))
        result(sandbox, executions[-1])
    problem(sandbox.service.get(f"{sandbox.path}/executions/{executions[0]}"), 404, "execution_not_found")
    assert fetch(sandbox, executions[-1])["results"][0]["data"] == "39"


@pytest.mark.parametrize("execution", ["nobody", str(uuid.uuid4()), "%00", "x" * 300, "é"])
def test_unknown_execution(shared, execution):
    answer = shared.service.get(f"{shared.path}/executions/{execution}")
    assert answer.status_code == 404, answer.text
    problem(answer, 404)


def test_others_cannot_fetch_it(create):
    mine, other = create(), create()
    execution = detach(mine, "'secret'")
    problem(mine.service.get(f"{other.path}/executions/{execution}"), 404, "execution_not_found")


def test_results_outlive_huskd(private):
    service = private().start()
    sandbox = service.create()
    finished = detach(sandbox, "'finished before'")
    result(sandbox, finished)
    running = detach(sandbox, "import time; time.sleep(3); print('finished after')")
    service.process.kill()
    service.process.wait()
    service.start()
    sandbox = service.adopt(sandbox.id)
    assert fetch(sandbox, finished)["results"][0]["data"] == "'finished before'"
    assert result(sandbox, running)["stdout"] == "finished after\n"


def test_idle_time_does_not_count_while_it_runs(private):
    service = private().start()
    sandbox = service.create(idle_seconds=1)
    execution = detach(sandbox, "import time; time.sleep(4); print('alive')")
    assert result(sandbox, execution)["stdout"] == "alive\n"


def test_detach_in_the_query(shared):
    answer = shared.post("execute?detach=1", data=b"print('q')")
    assert answer.status_code == 202
    assert result(shared, answer.json()["execution_id"])["stdout"] == "q\n"


def test_cannot_be_streamed(shared):
    headers = {"Accept": "text/event-stream"}
    refused = problem(shared.post("execute", json={"code": "1", "detach": True}, headers=headers), 422)
    assert "detach" in refused["detail"]


@pytest.mark.parametrize("field, value", [("detach", "yes"), ("detach", 1), ("colors", "no"), ("env", []), ("env", {"a": 1})])
def test_unusable_options(shared, field, value):
    refused = problem(shared.post("execute", json={"code": "1", field: value}), 422, "invalid_field")
    assert field in refused["detail"]


# --- the environment and colours of one execution ---


def test_environment_of_one_execution(shared):
    tricky = {"PLAIN": "1", "TRICKY": "'\"\\\n; import os; os._exit(1) #${HOME}", "UTF8": "é🦊"}
    code = "import os, subprocess\nprint({k: os.environ[k] for k in ('PLAIN', 'TRICKY', 'UTF8')})\n"
    code += "print(subprocess.run(['printenv', 'PLAIN'], capture_output=True, text=True).stdout)"
    assert shared.run(code, env=tricky) == f"{tricky}\n1\n\n"
    assert shared.value("[__import__('os').environ.get(k) for k in ('PLAIN', 'TRICKY', 'UTF8')]") == [None] * 3


def test_environment_is_restored(shared):
    shared.run("import os; os.environ['OWN'] = 'before'")
    assert shared.execute("import os; print(os.environ['OWN']); 1 / 0", env={"OWN": "during"})["stdout"] == "during\n"
    assert shared.execute("while True: pass", env={"OWN": "during"}, timeout=0.5)["status"] == "timeout"
    assert shared.execute("import asyncio; await asyncio.sleep(0.01)", env={"OWN": "during"})["status"] == "ok"
    assert shared.value("os.environ['OWN']") == "before"
    shared.run("os.environ['OTHER'] = 'set by the code'", env={"OWN": "during"})
    assert shared.value("os.environ['OTHER']") == "set by the code"
    shared.run("del os.environ['OWN'], os.environ['OTHER']")


def test_colours_on_request(shared):
    plain = shared.execute("1 / 0")["traceback"]
    coloured = shared.execute("1 / 0", colors=True)["traceback"]
    assert "\x1b[" in coloured and "\x1b[" not in plain
    assert "\x1b[" in shared.post("execute?colors=1", data=b"1 / 0").json()["traceback"]
    assert "\x1b[" not in shared.execute("1 / 0")["traceback"], "only where it was asked for"
