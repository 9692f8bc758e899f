"""A sandbox from its creation to its end: limits, names, times, capacity."""

import os
import re
import time
import uuid
from collections import Counter
from datetime import datetime, timedelta, timezone

import pytest

import host
from service import later, problem


def moment(text):
    """A time of the API: RFC 3339, UTC."""
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", text), text
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


@pytest.mark.parametrize("headers", [{}, {"Content-Type": "application/json"}])
def test_create_without_a_body(service, headers):
    answer = service.post("/sandbox/create", headers=headers)
    assert answer.status_code == 200 and answer.headers["Content-Type"].startswith("application/json")
    body = answer.json()
    assert str(uuid.UUID(body["sandbox_id"])) == body["sandbox_id"]
    created, expires = moment(body["created_at"]), moment(body["expires_at"])
    assert abs(datetime.now(timezone.utc) - created) < timedelta(seconds=30)
    assert abs((expires - created) - timedelta(hours=24)) < timedelta(seconds=2)
    closed = service.post(f"/sandbox/{body['sandbox_id']}/close")
    assert closed.status_code == 200
    assert closed.json() == {"status": "success", "message": "Sandbox closed"}


def test_information(service, create):
    sandbox = create(name="informed")
    info = sandbox.info()
    assert info["sandbox_id"] == sandbox.id and info["name"] == "informed" and info["state"] == "ready"
    assert info["limits"] == {"memory_mb": 1024, "cpus": 1.0, "pids": 256, "disk_mb": 1024}
    assert info["execution_count"] == 0 and info["queued"] == 0
    assert info["image"] and info["kernel"]["language"] == "python"
    moment(info["created_at"]), moment(info["expires_at"])
    assert service.get("/sandbox/informed").json()["sandbox_id"] == sandbox.id
    assert service.sandboxes()[sandbox.id]["name"] == "informed"


def test_limits_are_reflected_and_enforced(create):
    sandbox = create(memory_mb=300, cpus=0.5, pids=40, disk_mb=48)
    assert sandbox.info()["limits"] == {"memory_mb": 300, "cpus": 0.5, "pids": 40, "disk_mb": 48}
    size, inodes = sandbox.value(
        "(lambda s: (s.f_blocks * s.f_frsize, s.f_files))(__import__('os').statvfs('/home/user'))"
    )
    assert size == 48 << 20 and inodes <= 48 << 8
    code = """
import os, time
started, used = time.monotonic(), time.process_time()
while time.monotonic() < started + 2: pass
print((time.process_time() - used) / (time.monotonic() - started))"""
    assert 0.35 < float(sandbox.run(code)) < 0.65, "half a core"
    code = """
import subprocess
children = []
try:
    while len(children) < 100: children.append(subprocess.Popen(['sleep', '100']))
except OSError as error: print(error.errno, len(children))
for child in children: child.kill(); child.wait()"""
    number, count = sandbox.run(code).split()
    assert number == "11" and 10 < int(count) < 40


def test_environment(create):
    sandbox = create(env={"COLOUR": "grün = green", "EMPTY": ""})
    expression = "[__import__('os').environ.get(k) for k in ('COLOUR', 'EMPTY', 'CANARY')]"
    assert sandbox.value(expression) == ["grün = green", "", None]
    assert sandbox.run("!echo $COLOUR").strip() == "grün = green"
    assert sandbox.post("restart").status_code == 200
    assert sandbox.value(expression)[0] == "grün = green"


def test_usage_is_plausible(sandbox):
    sandbox.run(
        "import os, time\nopen('data', 'wb').write(os.urandom(20 << 20))\nballast = bytearray(b'x') * (100 << 20)"
    )
    sandbox.run("started = time.process_time()\nwhile time.process_time() < started + 0.5: pass")
    usage = host.until(lambda: (u := sandbox.info()["usage"])["cpu_seconds"] >= 0.5 and u, 10, "usage to be current")
    assert 100 << 20 < usage["memory_bytes"] < 800 << 20
    assert 20 << 20 <= usage["disk_bytes"] < 60 << 20
    assert 2 <= usage["pids"] < 60 and usage["cpu_seconds"] < 60


# --- names ---


def test_name_is_an_id(service, create):
    sandbox = create(name="Worker_1.a-b")
    assert sandbox.created["name"] == "Worker_1.a-b"
    answer = service.post("/sandbox/Worker_1.a-b/execute", data=b"print(1)")
    assert answer.json()["stdout"] == "1\n"


def test_name_taken(service, create):
    create(name="taken")
    problem(service.post("/sandbox/create", json={"name": "taken"}), 409, "name_taken")


def test_two_creates_with_one_name_at_once(service):
    answers = [later(service.post, "/sandbox/create", json={"name": "contested"}) for _ in range(4)]
    answers = [future.result(60) for future in answers]
    assert sorted(answer.status_code for answer in answers) == [200, 409, 409, 409]
    [made] = [answer.json() for answer in answers if answer.status_code == 200]
    assert [i for i, info in service.sandboxes().items() if info["name"] == "contested"] == [made["sandbox_id"]]
    assert service.delete("/sandbox/contested").status_code == 200


def test_name_is_free_again(service):
    for _ in range(2):
        sandbox = service.create(name="again")
        assert sandbox.close().status_code == 200


@pytest.mark.parametrize(
    "name", ["", "a" * 64, "a/b", "a b", "..", "ä", "a\n", "?", "00000000-0000-4000-8000-000000000000"]
)
def test_bad_names(service, name):
    problem(service.post("/sandbox/create", json={"name": name}), 422)


# --- unknown and closed ---

ROUTES = [
    ("GET", ""), ("POST", "/execute"), ("POST", "/close"), ("DELETE", ""),
    ("POST", "/extend"), ("POST", "/interrupt"), ("POST", "/restart"),
]  # fmt: skip


@pytest.mark.parametrize("method, route", ROUTES)
@pytest.mark.parametrize("unknown", ["00000000-0000-4000-8000-000000000000", "nobody", "%2e%2e", "a" * 2000])
def test_unknown_sandbox(service, method, route, unknown):
    body = {"json": {"ttl_seconds": 5, "code": "1"}} if method == "POST" else {}
    problem(service.request(method, f"/sandbox/{unknown}{route}", **body), 404, "sandbox_not_found")


def test_closed_sandbox(service):
    sandbox = service.create(name="short-lived")
    namespace = sandbox.namespace("pid")
    assert host.within("pid", namespace)
    assert service.delete(sandbox.path).json() == {"status": "success", "message": "Sandbox closed"}
    assert not host.within("pid", namespace), "nothing of it is left when the answer comes"
    assert not sandbox.cgroups()
    for method, route in ROUTES:
        body = {"json": {"ttl_seconds": 5, "code": "1"}} if method == "POST" else {}
        closed = problem(service.request(method, sandbox.path + route, **body), 410, "sandbox_closed")
        assert "closed" in closed["detail"]
    assert sandbox.id not in service.sandboxes()


def test_close_while_busy(service):
    sandbox = service.create()
    calls = [later(sandbox.post, "execute", data=b"import time; time.sleep(60)") for _ in range(3)]
    host.until(lambda: sandbox.info()["queued"] == 2, 10, "two to be queued")
    assert sandbox.close().status_code == 200
    for answer in [call.result(10) for call in calls]:
        if answer.status_code == 200:
            assert answer.json()["status"] in ("died", "interrupted")
        else:
            problem(answer, 410, "sandbox_closed")


def test_concurrent_closes(service):
    sandbox = service.create()
    answers = [later(sandbox.close) for _ in range(5)]
    assert Counter(future.result(30).status_code for future in answers) in ({200: 1, 410: 4}, {200: 5})


# --- time ---


def test_extend(sandbox):
    answer = sandbox.post("extend", json={"ttl_seconds": 100})
    assert answer.status_code == 200
    left = moment(sandbox.info()["expires_at"]) - datetime.now(timezone.utc)
    assert timedelta(seconds=80) < left <= timedelta(seconds=101)


def test_expiry_by_age(service):
    sandbox = service.create(ttl_seconds=3)
    namespace = sandbox.namespace("pid")
    host.until(lambda: service.get(sandbox.path).status_code == 410, 15, "expiry")
    assert "expired" in problem(service.get(sandbox.path), 410, "sandbox_closed")["detail"]
    host.until(lambda: not host.within("pid", namespace), 10, "its processes to end")


def test_extended_sandbox_lives_on(service):
    sandbox = service.create(ttl_seconds=4)
    assert sandbox.post("extend", json={"ttl_seconds": 60}).status_code == 200
    end = time.monotonic() + 4.5
    host.until(lambda: time.monotonic() > end, 10, "the first expiry to pass")
    assert sandbox.works() and sandbox.close().status_code == 200


def test_expiry_by_idleness(service):
    sandbox = service.create(idle_seconds=2)
    assert sandbox.run("import time; time.sleep(4); print('busy is not idle')")
    host.until(lambda: sandbox.id not in service.sandboxes(), 15, "expiry")
    assert "expired" in problem(service.get(sandbox.path), 410, "sandbox_closed")["detail"]


# --- many ---


def test_many_sandboxes_at_once(service):
    """Six sandboxes, twenty executions each, all at the same time: every caller gets his own answer."""
    sandboxes = [later(service.create) for _ in range(6)]
    sandboxes = [future.result(60) for future in sandboxes]

    def work(number, sandbox):
        sandbox.run(f"total = {number}")
        for step in range(20):
            assert sandbox.run(f"total += {step}; print({number}, total)").split()[0] == str(number)
        return sandbox.value("total")

    totals = [later(work, number, sandbox) for number, sandbox in enumerate(sandboxes)]
    assert [future.result(60) for future in totals] == [number + 190 for number in range(6)]
    for closed in [later(sandbox.close) for sandbox in sandboxes]:
        assert closed.result(30).status_code == 200


def test_nothing_adds_up(private):
    """After sandboxes have come and gone the programs hold no more descriptors and mounts than before, but for one or
    two that are opened when they are first needed."""
    service = private().start()

    def cycle():
        sandbox = service.create()
        sandbox.run("open('file', 'w').write('x')")
        assert sandbox.post("restart").status_code == 200
        assert sandbox.close().status_code == 200

    def held():
        programs = [host.Process(service.process.pid), service.keeper(), service.anchor(), service.anchor(outside=True)]
        return [count for program in programs for count in (program.descriptors(), program.mounts())]

    def as_before():
        return all(now <= then + 2 for now, then in zip(held(), before, strict=True))

    before = held()
    for _ in range(5):
        cycle()
    host.until(as_before, 5, f"what is held to be {before} again")
    assert service.programs("husk-shim") == []
    assert os.listdir(service.state / "shims") == []


# --- capacity ---


def test_health(service):
    answer = service.get("/health")
    body = answer.json()
    assert answer.status_code == 200 and body["status"] == "healthy"
    assert re.match(r"\d+\.\d+\.\d+", body["version"])
    live = body["sandboxes"]["live"] if isinstance(body.get("sandboxes"), dict) else body["live_sandboxes"]
    assert live == len(service.sandboxes())


def test_more_creates_than_capacity(private):
    """200 at once where 12 fit: every caller gets a clear answer, and nothing is half-made."""
    service = private(config="[limits]\nmax_sandboxes = 12\n").start()
    answers = [later(service.post, "/sandbox/create", json={"memory_mb": 256}) for _ in range(200)]
    answers = [future.result(120) for future in answers]
    counts = Counter(answer.status_code for answer in answers)
    assert set(counts) <= {200, 429, 503} and counts[200] == 12, counts
    for answer in answers:
        if answer.status_code != 200:
            code = problem(answer, answer.status_code)["code"]
            assert code == "at_capacity" or answer.status_code == 429
            assert int(answer.headers["Retry-After"]) >= 1
    made = {answer.json()["sandbox_id"] for answer in answers if answer.status_code == 200}
    assert set(service.sandboxes()) == made
    for sandbox_id in made:
        assert service.adopt(sandbox_id).works()
    assert len(service.programs("husk-shim")) == 12
    per_sandbox = Counter(os.path.dirname(path) for path in host.cgroups_with(service.tree))
    assert all(count == 13 for folder, count in per_sandbox.items() if folder.endswith(service.tree)), per_sandbox
    assert service.adopt(made.pop()).close().status_code == 200
    again = service.create(memory_mb=256)
    assert again.works()
