"""The warm pool: sandboxes that wait, their kernel ready. With real containers; the states in between are in the unit
tests."""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

import host
from service import IMAGE, later, problem

SIZE = 4
FILL_SECONDS = 60


def health(service):
    return service.get("/health").json()


def fill(service, size=SIZE):
    """Wait until the pool is full, and give the ids of those that wait there: the cgroups tell."""
    host.until(lambda: health(service)["sandboxes"]["warm"] == size, FILL_SECONDS, "a full pool")
    return waiting(service)


def waiting(service):
    return {shim_id(shim) for shim in service.programs("husk-shim")} - set(service.sandboxes())


def shim_id(shim):
    """The sandbox that a shim belongs to: it is the only argument that is one."""
    return next(argument for argument in shim.arguments if len(argument) == 36 and argument.count("-") == 4)


@pytest.fixture(scope="module")
def pooled(harness):
    service = harness.service(pool=SIZE).start()
    yield service
    harness.end(service)


@pytest.fixture
def full(pooled):
    """A service whose pool is full; what a test leaves is closed."""
    fill(pooled)
    yield pooled
    for sandbox in pooled.sandboxes():
        assert pooled.adopt(sandbox).close().status_code == 200


def test_create_takes_a_warm_one(full):
    warm = waiting(full)
    before = int(time.time())
    sandbox = full.create(name="lucky", ttl_seconds=500, idle_seconds=300)
    assert sandbox.id in warm
    assert sandbox.created["name"] == "lucky"
    assert sandbox.created["state"] == "ready"
    assert sandbox.created["execution_count"] == 0
    assert sandbox.created["idle_seconds"] == 300
    expires = time.mktime(time.strptime(sandbox.created["expires_at"], "%Y-%m-%dT%H:%M:%SZ")) - time.timezone
    assert before + 500 <= expires <= time.time() + 500
    assert set(full.sandboxes()) == {sandbox.id}
    assert full.get("/sandbox/lucky").json()["sandbox_id"] == sandbox.id


def test_a_warm_one_is_as_good_as_new(full):
    first, second = full.create(), full.create()
    assert first.id != second.id
    answer = first.execute("x = 1\nopen('mine', 'w').write('x')\nprint(sorted(n for n in dir() if n[0] != '_'))")
    assert answer["execution_count"] == 1 and answer["state_lost"] is False
    assert [file["path"] for file in answer["files"]] == ["mine"]
    assert full.get(answer["files"][0]["url"]).text == "x"
    assert "'x'" not in second.run("print(sorted(n for n in dir() if n[0] != '_'))")
    assert second.value("__import__('os').listdir('/home/user')") == []
    assert second.works()


def test_members_are_invisible(full):
    assert full.sandboxes() == {}
    for member in waiting(full):
        problem(full.get(f"/sandbox/{member}"), 404, "sandbox_not_found")
        problem(full.post(f"/sandbox/{member}/execute", data="1"), 404, "sandbox_not_found")
        problem(full.post(f"/sandbox/{member}/close"), 404, "sandbox_not_found")
        problem(full.get(f"/sandbox/{member}/download/x"), 404, "sandbox_not_found")
    body = health(full)
    assert body["sandboxes"]["live"] == 0 and body["sandboxes"]["warm"] == SIZE
    assert body["pool"]["size"] == SIZE and body["pool"]["failures"] == 0


def read_limit(sandbox, *names):
    """The first of these files that a cgroup of the sandbox has."""
    for folder in sandbox.cgroups():
        for name in names:
            if (Path(folder) / name).exists():
                return (Path(folder) / name).read_text().split()
    raise AssertionError(f"no cgroup has {names}")


@pytest.mark.parametrize(
    ("memory", "cpus", "pids", "disk"), [(512, 0.5, 64, 64), (2048, 2, 1000, 2048), (1024, 1, 256, 32)]
)
def test_other_limits_are_in_force(full, memory, cpus, pids, disk):
    warm = waiting(full)
    sandbox = full.create(memory_mb=memory, cpus=cpus, pids=pids, disk_mb=disk)
    assert sandbox.id in warm
    expected = {"memory_mb": memory, "cpus": cpus, "pids": pids, "disk_mb": disk}
    assert sandbox.created["limits"] == expected == sandbox.info()["limits"]
    assert int(read_limit(sandbox, "memory.max", "memory.limit_in_bytes")[0]) == (memory + disk) << 20
    assert int(read_limit(sandbox, "cpu.max", "cpu.cfs_quota_us")[0]) == cpus * 100000
    assert int(read_limit(sandbox, "pids.max")[0]) == pids
    sandbox.run("import os; disk = os.statvfs('/home/user')")
    blocks, size, inodes = sandbox.value("(disk.f_blocks, disk.f_frsize, disk.f_files)")
    assert blocks * size == disk << 20
    assert inodes == (disk << 20) // 4096
    if disk < 100:
        assert sandbox.execute(f"open('big', 'wb').write(bytes({disk + 1} << 20))")["error"] == "OSError"


def write_to_disk(shim, size):
    """From outside, with the sandbox's id: the root directory of its shim is on its disk."""
    folder = os.open(f"/proc/{shim.pid}/root", os.O_RDONLY | os.O_DIRECTORY)
    owner = int(shim.status("Uid").split()[0])
    command = f"head -c {size} /dev/zero > /proc/self/fd/{folder}/filler"
    try:
        subprocess.run(["/bin/sh", "-c", command], check=True, user=owner, group=owner, pass_fds=[folder], cwd="/")
    finally:
        os.close(folder)


def test_limits_below_what_is_used_are_made(private):
    """A warm sandbox that holds more than somebody asks for is not cut down: his is made."""
    service = private("--disk-mb", "256", pool=1).start()
    [member] = fill(service, 1)
    shim = next(p for p in service.programs("husk-shim") if shim_id(p) == member)
    write_to_disk(shim, 32 << 20)
    sandbox = service.create(disk_mb=16)
    assert sandbox.id != member
    assert sandbox.works()
    # Nothing has changed for the one that could not have them.
    assert service.create().id == member
    assert service.adopt(member).info()["limits"]["disk_mb"] == 256


def test_environment_is_there_from_the_start(full):
    warm = waiting(full)
    sandbox = full.create(env={"GREETING": "hello"})
    assert sandbox.id not in warm
    assert sandbox.value("__import__('os').environ['GREETING']") == "hello"


def test_a_burst_is_served(full):
    """Twenty at once: the pool is emptied, the others are made, everybody gets his own, and then the pool is full again."""
    warm = waiting(full)
    futures = [later(full.create, name=f"burst-{number}") for number in range(20)]
    made = [future.result(120) for future in futures]
    assert len({sandbox.id for sandbox in made}) == 20
    assert warm <= {sandbox.id for sandbox in made}
    for number, sandbox in enumerate(made):
        assert sandbox.created["name"] == f"burst-{number}"
        assert sandbox.works()
    assert set(full.sandboxes()) == {sandbox.id for sandbox in made}
    assert health(full)["status"] == "healthy"
    fill(full)


def test_members_use_no_cpu(full):
    def used():
        return sum(sum(cpu_ticks(p.pid)) for p in host.processes() if any(p.in_cgroup(member) for member in warm))

    warm = waiting(full)
    assert len([p for p in host.processes() if any(p.in_cgroup(member) for member in warm)]) >= 2 * SIZE
    begin, ticks = time.monotonic(), used()
    host.until(lambda: time.monotonic() > begin + 2, 5, "two seconds")
    assert used() - ticks <= 20  # hundredths of a second, of two seconds, for four


def cpu_ticks(pid):
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0, 0
    return int(fields[11]), int(fields[12])


# --- others die, or change ---


@pytest.fixture
def other_image():
    """The image, file by file linked, with one more file."""
    copy = IMAGE.with_name(f"test-pool-{os.getpid()}")
    subprocess.run(["cp", "-al", IMAGE, copy], check=True)
    (copy / "opt/husk/other").write_text("other")
    yield copy
    shutil.rmtree(copy)


def test_huskd_is_killed(private):
    service = private(pool=2).start()
    fill(service, 2)
    mine = service.create(name="mine")
    mine.run("kept = 1")
    warm = fill(service, 2)
    service.stop(signal.SIGKILL)
    service.start()
    assert waiting(service) == warm
    assert set(service.sandboxes()) == {mine.id}
    assert mine.value("kept") == 1
    taken = service.create()
    assert taken.id in warm and taken.works()


def test_huskd_is_killed_over_a_burst(private):
    """Whatever was between the pool and somebody: it is in the pool, or it is listed; nothing else exists."""
    service = private(pool=SIZE).start()
    for _ in range(3):
        fill(service)
        futures = [later(service.post, "/sandbox/create", json={}) for _ in range(8)]
        host.until(lambda: any(future.done() for future in futures), 60, "the first answer")
        service.stop(signal.SIGKILL)
        told = set()
        for future in futures:
            if future.exception(60) is None and future.result().status_code == 200:
                told.add(future.result().json()["sandbox_id"])
        service.start()
        assert told <= set(service.sandboxes())
        for sandbox in told:
            assert service.adopt(sandbox).works()
        fill(service)
        shims = host.until(lambda: settled(service), 30, "as many shims as sandboxes")
        assert len(shims) == len(set(shims))
        for sandbox in service.sandboxes():
            assert service.adopt(sandbox).close().status_code == 200


def settled(service):
    shims = [shim_id(shim) for shim in service.programs("husk-shim")]
    return shims if len(shims) == len(service.sandboxes()) + SIZE else None


def test_keeper_is_killed(private):
    service = private(pool=2).start()
    warm = fill(service, 2)
    old = service.keeper().pid
    os.kill(old, signal.SIGKILL)
    host.until(lambda: [p for p in service.programs("husk-keeper") if p.pid != old], 20, "another keeper")
    host.until(lambda: health(service)["status"] == "healthy", 20, "the service to be well")
    assert fill(service, 2) == warm
    sandbox = service.create(memory_mb=300)
    assert sandbox.id in warm and sandbox.works()
    # The new limits are those that the next keeper knows.
    os.kill(service.keeper().pid, signal.SIGKILL)
    host.until(lambda: health(service)["status"] == "healthy", 20, "the service to be well")
    assert sandbox.works()
    fill(service, 2)


def test_a_member_dies(private):
    service = private(pool=2).start()
    warm = fill(service, 2)
    victim = service.programs("husk-shim")[0]
    os.kill(victim.pid, signal.SIGKILL)
    # Another one: huskd has noticed. That the process is gone does not say so, it vanishes before its sockets do.
    host.until(lambda: waiting(service) - warm, 20, "another in its place")
    assert len(fill(service, 2) & warm) == 1
    assert service.create().works()


def test_limits_change(private):
    service = private(pool=2).start()
    warm = fill(service, 2)
    service.stop()
    service.start("--memory-mb", "256")
    host.until(lambda: not waiting(service) & warm, 20, "the old ones to go")
    fill(service, 2)
    sandbox = service.create()
    assert sandbox.created["limits"]["memory_mb"] == 256
    assert int(read_limit(sandbox, "memory.max", "memory.limit_in_bytes")[0]) == (256 + 1024) << 20


def test_image_changes(private, folder, other_image):
    """`default` points to another image: what was made of the old one is not given to anybody, and no restart is needed."""
    link = folder / "default"
    link.symlink_to(IMAGE)
    service = private(image=link, pool=2).start()
    warm = fill(service, 2)
    link.unlink()
    link.symlink_to(other_image)
    first = service.create()
    assert first.id not in warm
    assert not fill(service, 2) & warm
    for sandbox in (first, service.create()):
        assert sandbox.value("open('/opt/husk/other').read()") == "other"


def test_pool_is_switched_off(private):
    service = private(pool=2).start()
    warm = fill(service, 2)
    service.stop()
    service.pool = 0
    service.start()
    host.until(lambda: not service.programs("husk-shim"), 20, "the pool's end")
    assert health(service)["pool"]["size"] == 0
    assert service.create().id not in warm


def test_places_are_for_those_who_ask(private):
    service = private("--max-sandboxes", "2", pool=SIZE).start()
    fill(service, 2)
    first = service.create(env={"A": "1"})
    second = service.create(env={"A": "2"})
    problem(service.post("/sandbox/create"), 503, "at_capacity")
    assert first.works() and second.works()
    host.until(lambda: len(service.programs("husk-shim")) == 2, 20, "room")
    first.close()
    fill(service, 1)
    assert service.create().works()


def test_stopping_leaves_nothing(private):
    service = private(pool=SIZE).start()
    fill(service, SIZE)
    service.end()
    assert not service.state.exists()


def test_default(private):
    service = private(pool=None).start()
    assert health(service)["pool"]["size"] == 4
    assert service.create().works()
