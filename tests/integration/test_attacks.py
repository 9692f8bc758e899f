"""Attacks on what sandboxes share: while each of them goes on, the neighbours and the service answer, what the attacker has stays within its
limits by the kernel's own count, and afterwards nothing of it is left. What they cost the neighbours is for `make bench`."""

from pathlib import Path

import pytest

import host
from hostile_code import ATTACKS
from service import sanitized

MIB = 1 << 20
SERVICE_BYTES = (4000 if sanitized() else 1000) * MIB  # keeper, zygote, anchor and all shims of the session
LOG_BYTES = 1 * MIB

pytestmark = pytest.mark.usefixtures("unharmed")


def charged(folder):
    """What the kernel charges to a cgroup, its own memory included."""
    for name in ("memory.usage_in_bytes", "memory.current"):
        if (folder / name).exists():
            return int((folder / name).read_text())
    return None


def of_sandbox(sandbox):
    [amount] = [found for folder in sandbox.cgroups() if (found := charged(Path(folder))) is not None]
    return amount


def of_service(service):
    folders = [Path(folder) for folder in host.cgroups_with(f"{service.tree}/service")]
    [amount] = [found for folder in folders if (found := charged(folder)) is not None]
    return amount


def under_way(sandbox, attack):
    """It has all that it can get, or at least has worked for it."""
    info = sandbox.info()
    usage, limits = info["usage"], info["limits"]
    if attack.at_its_bound:
        return eval(attack.at_its_bound, {"usage": usage, "limits": limits})
    return usage["cpu_seconds"] > 1


@pytest.mark.parametrize("name", ATTACKS)
def test_attack(service, create, neighbour, name):
    attack = ATTACKS[name]
    sandbox = create(**attack.limits)
    log = len(service.log())
    taken = sandbox.post("execute", json={"code": attack.code, "detach": True, "timeout": 300})
    assert taken.status_code == 202, taken.text
    cgroups = sandbox.cgroups()
    host.until(lambda: under_way(sandbox, attack), 60, "the attack to be under way")

    for _ in range(10):
        assert neighbour.works()
    assert neighbour.command(["true"])["exit_code"] == 0
    assert service.get("/health").json()["status"] == "healthy"
    another = service.create()
    assert another.works() and another.close().status_code == 200

    info = sandbox.info()
    limits = info["limits"]
    assert of_sandbox(sandbox) <= (limits["memory_mb"] + limits["disk_mb"]) * MIB
    assert info["usage"]["pids"] <= limits["pids"]
    assert info["usage"]["disk_bytes"] <= limits["disk_mb"] * MIB
    assert of_service(service) <= SERVICE_BYTES
    assert len(service.log()) - log < LOG_BYTES

    assert sandbox.close().status_code == 200
    assert not [folder for folder in cgroups if Path(folder).exists()]


def test_attacks_go_on_until_they_are_stopped(create):
    """Or the tests above would test nothing: each is still at it, and none was ended by its own mistake."""
    sandboxes = {}
    for name in ("sockets", "pipes", "ipc", "names", "signals", "threads"):
        sandboxes[name] = create(**ATTACKS[name].limits)
        answer = sandboxes[name].post("execute", json={"code": ATTACKS[name].code, "detach": True, "timeout": 300}).json()
        sandboxes[name].execution = answer["execution_id"]
    for name, sandbox in sandboxes.items():
        host.until(lambda: sandbox.info()["usage"]["cpu_seconds"] > 1, 60, f"{name} to be under way")
        found = sandbox.service.get(f"{sandbox.path}/executions/{sandbox.execution}").json()
        assert found["status"] == "running", (name, found)


TIMER = (
    "(ctypes := __import__('ctypes')) and (lambda libc, timer: libc.timer_create(1, None, ctypes.byref(timer)))"
    "(ctypes.CDLL(None), ctypes.c_void_p())"
)


def test_one_sandbox_cannot_queue_signals_for_all(create, neighbour):
    """The kernel counts what is pending for all of them together; each has a small part of it."""
    sandbox = create()
    code = """
import ctypes, os, signal
libc = ctypes.CDLL(None)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN])
count = 0
while libc.sigqueue(os.getpid(), int(signal.SIGRTMIN), None) == 0 and count < 200_000: count += 1
print(count, flush=True)
signal.pause()"""
    with sandbox.command_stream(["python3", "-c", code]) as stream:
        assert 0 < int(stream.until("stdout")["text"]) <= 1024
        assert neighbour.value(TIMER) == 0


def test_one_sandbox_cannot_take_all_inotify_instances(create, neighbour):
    """128 for everybody, by default: each sandbox has a part."""
    take = "(lambda libc: sum(libc.inotify_init1(0) >= 0 for _ in range(200)))(__import__('ctypes').CDLL(None))"
    first, second = create(), create()
    assert 0 < first.value(take) <= 16
    assert 0 < second.value(take) <= 16
    assert neighbour.value("(lambda fd: fd >= 0 and not __import__('os').close(fd))(__import__('ctypes').CDLL(None).inotify_init1(0))")
