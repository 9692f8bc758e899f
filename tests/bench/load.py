"""What the service itself costs while kernels use all cores, and whether it still answers.

Two kinds of load: one long loop in as many sandboxes as there are cores, and twice as many sandboxes that get short cells
(some ten milliseconds of work, one line of output) one after another. The gateway gets the same. Shares are of one core."""

import os
import time

import measure
from contenders import Gateway, Husk
from creation import HEALTH
from health import Probe
from measure import Row, timed
from memory import Census, cpu_seconds

CORES = os.cpu_count() or 1
LOOP = "import time\nend = time.monotonic() + {}\nwhile time.monotonic() < end: pass"
CELL = "n = 0\nfor i in range(150_000): n += i\nprint(n)"
SHARE = ("p50", 10)


def loops(place, duration, cost):
    """Gives the seconds, and what cost() grew by."""
    clients = [place.client() for _ in range(CORES)]
    kernels = [client.create() for client in clients]
    before = cost()
    elapsed, _ = measure.seconds(measure.at_once, CORES, lambda i: kernels[i].run(LOOP.format(duration)))
    grown = {key: value - before[key] for key, value in cost().items()}
    _end(kernels, clients)
    return elapsed, grown, CORES


def cells(place, duration, cost):
    """The same, and how many cells were executed."""
    count = 2 * CORES
    clients = [place.client() for _ in range(count)]
    kernels = [client.create() for client in clients]
    for kernel in kernels:
        kernel.run(CELL)
    end = time.monotonic() + duration

    def one(number):
        done = 0
        while time.monotonic() < end:
            kernels[number].run(CELL)
            done += 1
        return done

    before = cost()
    elapsed, done = measure.seconds(measure.at_once, count, one)
    grown = {key: value - before[key] for key, value in cost().items()}
    _end(kernels, clients)
    return elapsed, grown, sum(done)


def _end(kernels, clients):
    for kernel, client in zip(kernels, clients):
        kernel.close()
        client.close()


def run(full):
    duration = 20 if full else 6
    kinds = {"loops": loops, "short cells": cells}
    gateway_results, husk_results = {}, {}
    with Gateway.place() as gateway, Probe(gateway.port, "/api") as probe:
        for kind, function in kinds.items():
            measure.progress(f"load: {kind}, the gateway")
            probe.samples()
            result = function(gateway, duration, lambda: {"gateway": cpu_seconds(gateway.process.pid)})
            gateway_results[kind] = (*result, probe.samples())
    with measure.running_service(*measure.without_pool()) as service, Probe(service.port) as probe:

        def cost():
            census = Census(service)
            return {
                "huskd": sum(map(cpu_seconds, census.huskd)),
                "keeper": sum(map(cpu_seconds, census.keeper)),
                "shims": sum(map(cpu_seconds, census.shims)),
            }

        for kind, function in kinds.items():
            measure.progress(f"load: {kind}, Husk")
            probe.samples()
            husk_results[kind] = (*function(Husk(service), duration, cost), probe.samples())
    return [row for kind in kinds for row in rows(kind, husk_results[kind], gateway_results[kind])]


def rows(kind, ours, theirs):
    elapsed, grown, done, health = ours
    their_elapsed, their_grown, their_done, their_health = theirs
    share = {key: value / elapsed * 100 for key, value in grown.items()}
    their_share = their_grown["gateway"] / their_elapsed * 100
    found = [
        Row(f"{kind}: huskd", "% of a core", share["huskd"], baselines={"gateway": their_share}, target=SHARE),
        Row(f"{kind}: shims together", "% of a core", share["shims"]),
        Row(f"{kind}: keeper", "% of a core", share["keeper"]),
    ]
    if kind != "loops":
        rate = Row(f"{kind}: executed", "/s", done / elapsed, samples=done, more_is_better=True)
        rate.baselines["gateway"] = their_done / their_elapsed
        found.append(rate)
        each = Row(f"{kind}: huskd and shims, for each", "ms of CPU", (grown["huskd"] + grown["shims"]) / done * 1000)
        each.baselines["gateway"] = their_grown["gateway"] / their_done * 1000
        found.append(each)
    found.append(timed(f"{kind}: /health", health, {"gateway": their_health}, target=HEALTH))
    return found
