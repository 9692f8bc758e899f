"""Parts of the service are killed at random moments while callers keep books of what they must be answered (chaos.py). `make chaos`
does it for minutes (HUSK_CHAOS_SECONDS), this for seconds."""

import os
import random
import threading
import time

import host
from chaos import Caller, Vandal

SECONDS = float(os.environ.get("HUSK_CHAOS_SECONDS", "15"))
SEED = int(os.environ.get("HUSK_CHAOS_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
CALLERS = 5



def test_chaos(private):
    print(f"HUSK_CHAOS_SEED={SEED} repeats the order of the blows, not their moments")
    service = private(pool=2).start()
    service.back = threading.Event()
    service.blows_to_forks = 0  # to what new kernels come from
    service.back.set()
    end = time.monotonic() + SECONDS
    callers = [Caller(service, number, end) for number in range(CALLERS)]
    for caller in callers:
        caller.start()
    vandal = Vandal(service, callers, SEED)
    while time.monotonic() < end:
        pause = time.monotonic() + vandal.random.uniform(0.2, 2)
        host.until(lambda at=pause: time.monotonic() > at, 10, "the next moment")
        vandal.act()
    for caller in callers:
        caller.join(90)
        assert not caller.is_alive(), "a request was never answered"
    print("blows:", vandal.done, "answers:", sum(caller.answers for caller in callers))

    host.until(lambda: service.get("/health").status_code == 200, 30, "health")
    assert [line for caller in callers for line in caller.wrong] == []
    boxes = [box for caller in callers for box in caller.boxes]
    for box in boxes:
        if box.may_end or box.may_forget:
            continue
        host.until(lambda box=box: box.sandbox.info()["state"] == "ready", 30, "what is under way to end")
        assert box.sandbox.value("n") in box.counts, box.name
        assert service.get(f"/sandbox/{box.name}").json()["sandbox_id"] == box.sandbox.id
    for sandbox_id in service.sandboxes():
        assert service.adopt(sandbox_id).close().status_code == 200
    service.stop()
    service.start("--pool", "0")
    host.until(lambda: not service.programs("husk-shim"), 30, "the end of all shims")
