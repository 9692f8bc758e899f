"""A long while of ordinary use: afterwards the service has no more of anything than it had before. `make soak` does it for an hour
(HUSK_SOAK_SECONDS), this for seconds."""

import os
import random
import threading
import time
from pathlib import Path

import host

SECONDS = float(os.environ.get("HUSK_SOAK_SECONDS", "20"))
CALLERS = 3
# What malloc keeps of what was used once; a leak in each of some hundred rounds would be more.
ROOM = 6 << 20


class Caller(threading.Thread):
    """Makes sandboxes, uses them in every way, closes them."""

    def __init__(self, service, number, end):
        super().__init__(daemon=True)
        self.service, self.random, self.end = service, random.Random(number), end
        self.rounds, self.wrong = 0, []

    def run(self):
        while time.monotonic() < self.end:
            try:
                self.round()
                self.rounds += 1
            except Exception as error:
                self.wrong.append(repr(error))

    def round(self):
        sandbox = self.service.create(memory_mb=256)
        uses = [self.execute, self.stream, self.fail, self.figure, self.command, self.files, self.detach, self.restart, self.mcp]
        for use in self.random.sample(uses, 4):
            use(sandbox)
        if self.random.random() < 0.9:
            assert sandbox.close().status_code == 200
        else:
            assert sandbox.post("extend", json={"ttl_seconds": 1}).status_code == 200

    def execute(self, sandbox):
        assert sandbox.value("sum(range(100))") == 4950

    def stream(self, sandbox):
        with sandbox.stream("for i in range(100): print('x' * 1000)") as stream:
            assert len("".join(e["text"] for e in stream.rest() if e["event"] == "stdout")) == 100 * 1001

    def fail(self, sandbox):
        assert sandbox.execute("1 / 0")["error"] == "ZeroDivisionError"
        assert sandbox.execute("while True: pass", timeout=0.2)["status"] == "timeout"

    def figure(self, sandbox):
        code = "import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()"
        assert any(entry["type"] == "image/png" for entry in sandbox.execute(code)["results"])

    def command(self, sandbox):
        assert sandbox.command("echo one; echo two >&2")["stderr"] == "two\n"

    def files(self, sandbox):
        content = os.urandom(300_000)
        assert self.service.request("PUT", f"{sandbox.path}/files/a/b.bin", data=content).status_code == 201
        assert self.service.get(f"{sandbox.path}/download/a/b.bin").content == content
        assert [entry["path"] for entry in self.service.get(f"{sandbox.path}/files").json()] == ["a/b.bin"]
        assert self.service.delete(f"{sandbox.path}/files/a").status_code == 200

    def detach(self, sandbox):
        execution = sandbox.post("execute", json={"code": "print(1)", "detach": True}).json()["execution_id"]
        route = f"{sandbox.path}/executions/{execution}"
        host.until(lambda: self.service.get(route).json()["status"] == "ok", 30, "its end")

    def restart(self, sandbox):
        assert sandbox.post("restart").status_code == 200 and sandbox.works()

    def mcp(self, sandbox):
        body = {"sandbox_id": sandbox.id, "code": "print(6 * 7)"}
        answer = self.service.post("/mcp/tools/execute_python_code", json=body)
        assert answer.json()["structuredContent"]["stdout"] == "42\n"


def state(service):
    """How much of everything the service has. Only while nothing is under way."""
    parts = {"huskd": host.Process(service.process.pid), "keeper": service.keeper(), "anchor": service.anchor()}
    parts["warden"] = service.anchor(outside=True)
    zygotes = [p for p in host.processes() if "/opt/husk/zygote.py" in p.arguments and p.in_cgroup(service.tree)]
    counted = {f"descriptors of {name}": part.descriptors() for name, part in parts.items()}
    counted |= {f"mounts of {name}": part.mounts() for name, part in parts.items()}
    counted["zygotes"] = len(zygotes)
    counted["processes"] = len([p for p in host.processes() if p.in_cgroup(service.tree)])
    counted["cgroups"] = len(host.cgroups_with(service.tree))
    counted["files"] = len(list(service.state.rglob("*")))
    memory = {name: part.resident_bytes for name, part in parts.items()} | {"zygotes": sum(p.resident_bytes for p in zygotes)}
    return counted, memory


def settled(service):
    """No sandbox is left, and nothing changes any more."""

    def quiet():
        if service.sandboxes() or service.programs("husk-shim") or service.programs("husk-porter"):
            return None
        first = state(service)[0]
        return first if first == state(service)[0] else None

    host.until(quiet, 60, "everything to end")
    return state(service)


def use(service, seconds):
    end = time.monotonic() + seconds
    callers = [Caller(service, number, end) for number in range(CALLERS)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(seconds + 120)
        assert not caller.is_alive(), "a request was never answered"
    assert [line for caller in callers for line in caller.wrong] == []
    return sum(caller.rounds for caller in callers)


def test_soak(private):
    service = private().start()
    use(service, min(SECONDS / 2, 60))  # what is made once is made
    counted, memory = settled(service)
    rounds = use(service, SECONDS)
    counted_after, memory_after = settled(service)
    print(f"{rounds} sandboxes; memory before {memory}, after {memory_after}")
    assert counted_after == counted
    grown = {name: memory_after[name] - size for name, size in memory.items()}
    assert all(size < ROOM for size in grown.values()), grown
    assert not [path for path in Path("/dev/shm").iterdir() if path.name.startswith("husk")]
