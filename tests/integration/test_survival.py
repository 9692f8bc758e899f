"""Parts of the service end, by request or by accident; the sandboxes go on, or everything ends and nothing is left."""

import os
import signal
import time
from pathlib import Path

import pytest

import host
from service import later


@pytest.fixture
def running(private):
    """A service with a sandbox that has a variable, a file and a name."""
    service = private().start()
    sandbox = service.create(name="survivor", ttl_seconds=5000, env={"MARK": "kept"})
    sandbox.run("variable = 'kept'; open('file', 'w').write('kept')")
    return service, sandbox


def same_as_before(sandbox, before):
    assert sandbox.value("variable, open('file').read(), __import__('os').environ['MARK']") == ("kept",) * 3
    now = sandbox.info()
    for key in ("name", "sandbox_id", "created_at", "expires_at", "limits", "image"):
        assert now[key] == before[key], key
    assert now["execution_count"] >= before["execution_count"]


def gone(service):
    """Nothing of a service is left: no process, no mount, no cgroup, nothing in its state directory."""
    host.until(service.is_gone, 15, "everything to go")
    assert not service.state.exists() or list(service.state.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["SIGTERM", "SIGKILL"])
def test_huskd_stops_and_starts(running, number):
    service, sandbox = running
    before, namespace = sandbox.info(), sandbox.namespace("pid")
    code = service.stop(number)
    assert code == (0 if number == signal.SIGTERM else -signal.SIGKILL)
    assert host.within("pid", namespace), "the sandbox lives on"
    service.start()
    assert list(service.sandboxes()) == [sandbox.id]
    same_as_before(sandbox, before)
    assert sandbox.namespace("pid") == namespace
    assert service.get("/sandbox/survivor").json()["sandbox_id"] == sandbox.id
    assert service.post("/sandbox/create", json={"name": "survivor"}).status_code == 409
    assert sandbox.close().status_code == 200
    assert not host.within("pid", namespace)


@pytest.mark.parametrize("all_of_it", [False, True])
def test_huskd_starts_while_the_keeper_ends(running, all_of_it):
    """It has connected already; the keeper that answers in the end is another."""
    service, sandbox = running
    keeper = service.keeper()
    ending = [service.anchor(outside=True), service.anchor()] if all_of_it else [keeper]
    path = str(service.state / "keeper.sock")

    def connections():
        return sum(line.split()[-1] == path for line in Path("/proc/net/unix").read_text().splitlines())

    os.kill(keeper.pid, signal.SIGSTOP)
    service.stop(signal.SIGKILL)
    before = connections()
    service.launch()
    host.until(lambda: connections() > before, 20, "huskd to connect")
    for process in ending:
        os.kill(process.pid, signal.SIGKILL)
    host.until(service.ready, 20, "huskd to become healthy")
    assert service.keeper().pid != keeper.pid
    if all_of_it:
        assert service.sandboxes() == {} and service.create().works()
    else:
        assert list(service.sandboxes()) == [sandbox.id] and sandbox.value("variable") == "kept"


def test_huskd_killed_while_code_runs(running):
    """The caller's connection is gone, so nobody gets the answer; the kernel and its variables are as before."""
    service, sandbox = running
    call = later(sandbox.post, "execute", data=b"import time; time.sleep(3); variable = 'kept'; finished = True")
    sandbox.until_state("busy")
    service.stop(signal.SIGKILL)
    assert call.exception(10) is not None
    service.start()
    sandbox.until_state("ready", 30)
    assert sandbox.value("variable") == "kept"


def test_stop_while_code_runs_is_quick(running):
    service, sandbox = running
    later(sandbox.post, "execute", data=b"import time; time.sleep(60)")
    sandbox.until_state("busy")
    assert service.stop() == 0
    service.start()
    sandbox.until_state("ready", 30)
    assert sandbox.value("variable") == "kept"


def test_running_requests_finish(running):
    """SIGTERM drains: what ends within the grace period is answered, what is new is refused."""
    service, sandbox = running
    call = later(sandbox.post, "execute", data=b"import time; time.sleep(1); print('finished')")
    sandbox.until_state("busy")
    with sandbox.stream("import time\nfor i in range(3): print(i); time.sleep(0.2)") as stream:
        stream.until("queued")
        process = service.process
        process.send_signal(signal.SIGTERM)
        assert call.result(20).json()["stdout"] == "finished\n"
        assert "".join(event["text"] for event in stream.rest() if event["event"] == "stdout") == "0\n1\n2\n"
    assert process.wait(20) == 0
    service.process = None
    service.start()
    assert sandbox.value("variable") == "kept"


def test_expiry_while_huskd_is_away(private):
    service = private().start()
    sandbox = service.create()
    namespace = sandbox.namespace("pid")
    assert sandbox.post("extend", json={"ttl_seconds": 2}).status_code == 200
    service.stop()
    deadline = time.monotonic() + 2.5
    host.until(lambda: time.monotonic() > deadline, 5, "its time to pass")
    service.start()
    host.until(lambda: not service.sandboxes(), 10, "its expiry")
    host.until(lambda: not host.within("pid", namespace), 10, "its end")


def test_restarts_do_not_add_up(running):
    service, sandbox = running
    for _ in range(3):
        service.stop()
        service.start()
    assert service.keeper() and service.anchor() and len(service.programs("husk-shim")) == 1
    assert sandbox.works()


def test_keeper_killed(running):
    service, sandbox = running
    before, first = sandbox.info(), service.keeper().pid
    os.kill(first, signal.SIGKILL)
    host.until(lambda: [p for p in service.programs("husk-keeper") if p.pid != first], 10, "a new keeper")
    same_as_before(sandbox, before)
    host.until(lambda: service.get("/health").status_code == 200, 10, "health")
    another = service.create()
    assert another.works() and another.close().status_code == 200
    assert sandbox.close().status_code == 200
    assert not sandbox.cgroups()


def test_keeper_killed_while_it_creates(running):
    """The create either works or fails with an answer; what was half-made is removed."""
    service, sandbox = running
    creates = [later(service.post, "/sandbox/create") for _ in range(3)]
    host.until(lambda: len(service.programs("husk-shim")) > 1, 10, "a second shim")
    os.kill(service.keeper().pid, signal.SIGKILL)
    answers = [create.result(60) for create in creates]
    assert {answer.status_code for answer in answers} <= {200, 503}, [answer.text for answer in answers]
    made = {answer.json()["sandbox_id"] for answer in answers if answer.status_code == 200} | {sandbox.id}
    host.until(lambda: set(service.sandboxes()) == made, 10, "the list to be right")
    host.until(lambda: len(service.programs("husk-shim")) == len(made), 15, "half-made ones to go")
    for sandbox_id in made:
        assert service.adopt(sandbox_id).works()


def test_huskd_and_keeper_killed(running):
    service, sandbox = running
    before = sandbox.info()
    os.kill(service.keeper().pid, signal.SIGKILL)
    service.stop(signal.SIGKILL)
    service.start()
    same_as_before(sandbox, before)
    assert service.create().works()


def test_anchor_killed(running):
    """The one event that ends every sandbox: by the kernel, so nothing can be left."""
    service, sandbox = running
    namespace = sandbox.namespace("pid")
    os.kill(service.anchor().pid, signal.SIGKILL)
    host.until(lambda: not host.within("pid", namespace), 10, "the sandbox to end")
    host.until(lambda: not service.programs("husk-shim"), 10, "the shim to end")
    assert service.process.wait(15) != 0, "huskd cannot serve any more"
    assert "husk-anchor ended" in service.log()
    service.process = None
    before = service.log()
    service.start()
    assert "starting clean" in service.log().removeprefix(before)
    assert service.sandboxes() == {}
    assert service.create(name="survivor").works()


def test_warden_killed(running):
    """Nobody is left to clean up afterwards; the sandboxes go on, and the next start does it."""
    service, sandbox = running
    os.kill(service.anchor(outside=True).pid, signal.SIGKILL)
    assert sandbox.works() and service.create().works()
    assert service.stop(signal.SIGINT) == 0
    service.start()
    assert service.sandboxes() == {} and service.create().works()


def test_everything_killed(running):
    """As after a power cut: nobody cleaned up anything, and what lies around is no obstacle."""
    service, _ = running
    warden, anchor = service.anchor(outside=True), service.anchor()
    for process in (service.process, warden, anchor):
        os.kill(process.pid, signal.SIGKILL)
    service.process.wait()
    host.until(lambda: not service.programs("husk-shim"), 10, "the end")
    assert list(service.state.iterdir())
    service.start()
    assert "an earlier service ended without cleaning up" in service.log()
    assert service.sandboxes() == {} and service.create().works()


@pytest.mark.parametrize("how", ["SIGINT", "--stop-sandboxes"])
def test_stopping_everything(running, how):
    service, sandbox = running
    second = service.create()
    namespaces = [sandbox.namespace("pid"), second.namespace("pid")]
    if how == "SIGINT":
        assert service.stop(signal.SIGINT) == 0
    else:
        service.stop()
        service.start("--stop-sandboxes")
        assert service.stop() == 0
    assert not any(host.within("pid", namespace) for namespace in namespaces)
    gone(service)


def test_stopping_everything_while_busy(running):
    service, sandbox = running
    call = later(sandbox.post, "execute", data=b"while True: pass")
    sandbox.until_state("busy")
    assert service.stop(signal.SIGINT) == 0
    gone(service)
    assert call.exception(10) is not None or call.result().status_code in (200, 410, 503)


def test_stop_during_creates(private):
    service = private().start()
    creates = [later(service.post, "/sandbox/create") for _ in range(4)]
    host.until(lambda: service.programs("husk-shim"), 10, "a shim")
    assert service.stop(signal.SIGINT) == 0
    gone(service)
    for create in creates:
        assert create.exception(30) is not None or create.result().status_code in (200, 503)
