"""Many callers who do everything at once, while parts of the service are killed. What each of them gets may vary; what
must hold at the end does not."""

import contextlib
import os
import random
import signal
import socket
import threading
import time

import pytest
import requests

import host

SECONDS = 8
CALLERS = 6
CODES = [
    ("1 + 1", 5),
    ("print('x' * 3_000_000)", 5),
    ("import time; time.sleep(0.2)", 5),
    ("1 / 0", 5),
    ("while True: pass", 0.3),
    ("import os; os._exit(1)", 5),
    ("import os, signal; os.kill(os.getpid(), signal.SIGSTOP)", 0.3),
    ("import subprocess; subprocess.Popen(['sleep', '100'])", 5),
    ("exit()", 5),
]


class Caller(threading.Thread):
    """Does one thing after the other to sandboxes that it shares with the others."""

    def __init__(self, service, known, seed):
        super().__init__(daemon=True)
        self.service, self.known, self.random = service, known, random.Random(seed)
        self.strange = []

    def run(self):
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            try:
                self.act()
            except (requests.ConnectionError, ConnectionError):
                time.sleep(0.05)  # huskd is being started again
            except Exception as error:
                self.strange.append(repr(error))

    def act(self):
        sandbox = self.random.choice(list(self.known) or [None])
        what = self.random.choice(
            ["create", "execute", "execute", "execute", "leave", "interrupt", "restart", "close", "get"]
        )
        if what == "create" or sandbox is None:
            answer = self.service.post("/sandbox/create", json={"memory_mb": 256})
            if answer.status_code == 200:
                self.known.append(answer.json()["sandbox_id"])
        elif what == "leave":
            return self.leave(sandbox)
        elif what == "execute":
            code, timeout = self.random.choice(CODES)
            answer = self.service.post(f"/sandbox/{sandbox}/execute", json={"code": code, "timeout": timeout})
        elif what == "get":
            answer = self.service.get(f"/sandbox/{sandbox}")
        else:
            answer = self.service.post(f"/sandbox/{sandbox}/{what}")
        # 404: a huskd that was started again does not know what was closed before.
        if answer.status_code not in (200, 404, 410, 429, 503):
            self.strange.append(f"{what}: {answer.status_code} {answer.text[:300]}")
        if answer.status_code in (404, 410):
            with contextlib.suppress(ValueError):  # another caller was faster
                self.known.remove(sandbox)

    def leave(self, sandbox):
        """Ask, and go before the answer comes."""
        code, timeout = self.random.choice(CODES)
        head = f"POST /sandbox/{sandbox}/execute?timeout={timeout} HTTP/1.1\r\nHost: localhost\r\n"
        with socket.create_connection(("127.0.0.1", self.service.port)) as peer:
            peer.sendall(f"{head}Content-Length: {len(code)}\r\n\r\n{code}".encode())
            time.sleep(self.random.random() * 0.2)


def kill_keeper(service):
    os.kill(service.keeper().pid, signal.SIGKILL)


def kill_huskd(service):
    service.stop(signal.SIGKILL)
    service.start()


@pytest.mark.parametrize("harm", [kill_keeper, kill_huskd])
def test_storm(private, harm):
    service = private(config="[limits]\nmax_sandboxes = 6\n").start()
    known = []
    callers = [Caller(service, known, seed) for seed in range(CALLERS)]
    for caller in callers:
        caller.start()
    for moment in (0.3, 0.6):
        time_of_harm = time.monotonic() + SECONDS * moment / 2
        host.until(lambda at=time_of_harm: time.monotonic() > at, SECONDS, "the moment")
        harm(service)
    for caller in callers:
        caller.join(60)
        assert not caller.is_alive(), "a request was never answered"
    assert [line for caller in callers for line in caller.strange] == []

    live = service.sandboxes()
    host.until(lambda: len(service.programs("husk-shim")) == len(live), 10, "as many shims as sandboxes")
    for sandbox_id in live:
        sandbox = service.adopt(sandbox_id)
        assert sandbox.post("restart").status_code == 200 and sandbox.works()
        assert sandbox.close().status_code == 200
    host.until(lambda: not service.programs("husk-shim"), 10, "the end of all shims")
    assert service.get("/health").status_code == 200
