"""What hostile code costs its neighbours: `1+1` of theirs while the attack goes on, next to the same before and after it.

The attacks are those of tests/integration/hostile_code.py, each in a sandbox with its limits. The neighbours are asked one after the other
over one connection; whoever asks has a high priority, so that what is measured is Husk and not the client's wait for a core. A row's note
says what the machine had less of in memory meanwhile, and what the attacker's limits allow: memory, disk, and what its shim may have."""

import contextlib
import os
import time
from pathlib import Path

import host
import measure
from client import Http
from hostile_code import ATTACKS
from measure import timed

TARGET = ("p99 ratio", 2, "without")
ATTACK_SECONDS = 90
SHIM_MB = 384  # SHIM_MEMORY_BYTES
UNDER_WAY = 0.5  # seconds of CPU


@contextlib.contextmanager
def high_priority():
    """For this process, and for its session: where sessions are scheduled as a whole the first means little."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    session = Path("/proc/self/autogroup")
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, -20)
        session.write_text("-20")
    try:
        yield
    finally:
        os.setpriority(os.PRIO_PROCESS, 0, before)
        with contextlib.suppress(OSError):
            session.write_text("0")


class Neighbours:
    def __init__(self, http, count):
        self.http = http
        self.ids = [http.ask("POST", "/sandbox/create", {})["sandbox_id"] for _ in range(count)]
        self.requests = [http.request("POST", f"/sandbox/{each}/execute", {"code": "1+1"}) for each in self.ids]
        self.ask(2 * count)

    def ask(self, count):
        """Seconds of each answer."""
        return [measure.seconds(self.http.call, self.requests[i % len(self.requests)])[0] for i in range(count)]

    def close(self):
        for each in self.ids:
            self.http.ask("POST", f"/sandbox/{each}/close")


def begin(http, attack):
    """A sandbox in which the attack is under way."""
    path = f"/sandbox/{http.ask('POST', '/sandbox/create', attack.limits)['sandbox_id']}"
    http.ask("POST", f"{path}/execute", {"code": attack.code, "detach": True, "timeout": ATTACK_SECONDS})
    host.until(lambda: http.ask("GET", path)["usage"]["cpu_seconds"] > UNDER_WAY, 60, "the attack to be under way")
    return path


def one(http, name, attack, count):
    neighbours = Neighbours(http, attack.neighbours)
    without = neighbours.ask(count // 2)
    memory = measure.available_mb()
    began = time.monotonic()
    path = begin(http, attack)
    under = neighbours.ask(count)
    used = memory - measure.available_mb()
    assert time.monotonic() - began < ATTACK_SECONDS, f"{name} was over before it was measured"
    limits = http.ask("GET", path)["limits"]
    closing, _ = measure.seconds(http.ask, "POST", f"{path}/close")
    without += neighbours.ask(count - count // 2)
    neighbours.close()
    allowed = limits["memory_mb"] + limits["disk_mb"] + SHIM_MB
    note = f"memory {max(used, 0):.0f} of {allowed} MB; closed in {closing * 1000:.0f} ms"
    return timed(f"{name}: 1+1 of {attack.neighbours} neighbours", under, {"without": without}, target=TARGET, note=note)


def run(full):
    found = []
    with measure.running_service(*measure.without_pool()) as service, high_priority():
        for name, attack in ATTACKS.items():
            measure.progress(f"attacks: {name}")
            http = Http(service.port)
            found.append(one(http, name, attack, 1000 if full else 400))
            http.close()
    return found
