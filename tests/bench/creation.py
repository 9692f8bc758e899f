"""From the request to a kernel that answers: one at a time, many at a time, with a warm pool and with none.

A sandbox's life is: create, first result, `import pandas`, close. The others live through the same, in turns with it.
`docker run` is the container alone, and then one with a plain Python, which is no kernel yet: less than Husk does."""

import contextlib
import threading
import time

import host
import measure
from contenders import Cold, Docker, Gateway, Husk
from health import Probe
from measure import Row, percentile, timed

CODE = "1+1"
CLIENTS = (1, 8, 32)
BURST = 100
POOL = 4
HEALTH = ("p99", 20)


def live(client, imports=True):
    """Seconds of each step of one life."""
    taken = {}
    taken["create"], kernel = measure.seconds(client.create)
    taken["result"], result = measure.seconds(kernel.run, CODE)
    assert result == "2", result
    taken["first"] = taken["create"] + taken["result"]
    if imports:
        taken["import"], _ = measure.seconds(kernel.run, "import pandas")
    taken["close"], _ = measure.seconds(kernel.close)
    return taken


class Lives:
    """What many lives took, step by step."""

    def __init__(self):
        self.taken = {}

    def add(self, taken):
        for step, value in taken.items():
            self.taken.setdefault(step, []).append(value)

    def __getitem__(self, step):
        return self.taken.get(step, [])


# --- one at a time ---------------------------------------------------------------------------------------------------


def in_turns(full, husk, others, docker):
    """Lives of all of them: several of Husk's for one of each other."""
    rounds, ours = (20, 10) if full else (6, 5)
    lives = {name: Lives() for name in ("husk", *others, "docker")}
    clients = {name: place.client() for name, place in others.items()}
    client = husk.client()
    live(client)  # the first one reads the image from disk
    for number in range(rounds):
        measure.progress_count("lives with an empty pool, and others", number, rounds)
        for turn in range(ours):
            lives["husk"].add(live(client, imports=turn == 0))
        for name, other in clients.items():
            lives[name].add(live(other))
        if docker:
            lives["docker"].add(docker.times())
    for other in (client, *clients.values()):
        other.close()
    return lives


def warm_lives(full):
    """Lives from a pool that is full again before each of them."""
    lives = Lives()
    with measure.running_service("--pool", str(POOL)) as service:
        client = Husk(service).client()
        count = 100 if full else 30
        for number in range(count):
            measure.progress_count("lives with a warm pool", number, count)
            host.until(lambda: client.health()["sandboxes"]["warm"] >= POOL, 60, "a full pool")
            lives.add(live(client, imports=number % 5 == 0))
        client.close()
    return lives


def single_rows(full, lives, docker):
    others = [name for name in lives if name not in ("husk", "docker")]

    def next_to(step):
        there = {name: lives[name][step] for name in others}
        return {**there, "docker": (lives["docker"][step] or "-") if docker else "no engine"}

    def rows(which, ours, create_target, first_target):
        return [
            timed(f"create, {which}", ours["create"], next_to("create"), target=create_target),
            timed(f"create + first result, {which}", ours["first"], next_to("first"), target=first_target),
            timed(f"import pandas in a new one, {which}", ours["import"], next_to("import")),
        ]

    targets = ("p50", 2), ("p50", 25)
    if measure.has_pool():
        measure.progress("creation: warm pool")
        warm = rows("warm pool", warm_lives(full), *targets)
    else:
        warm = rows("warm pool", Lives(), *targets)
        for row in warm:
            row.note = "no pool"
    cold = rows("empty pool", lives["husk"], ("p50", 60), None)
    return [*warm, *cold, timed("close", lives["husk"]["close"], next_to("close"))]


# --- many at a time --------------------------------------------------------------------------------------------------


def sustained(place, clients, duration):
    """Clients that create and close without a pause: creations a second, and the seconds of each creation."""
    samples, lock = [], threading.Lock()
    end = time.monotonic() + duration

    def one(_number):
        client = place.client()
        while time.monotonic() < end:
            taken, kernel = measure.seconds(client.create)
            kernel.close()
            with lock:
                samples.append(taken)
                measure.progress_count(f"{clients} clients create and close", len(samples), "more")
        client.close()

    elapsed, _ = measure.seconds(measure.at_once, clients, one)
    return len(samples) / elapsed, samples


def burst(place, count):
    """So many clients create at the same moment: seconds of each, and until the last has its kernel."""
    clients = [place.client() for _ in range(count)]
    gate = threading.Barrier(count + 1)
    done = []

    def one(number):
        gate.wait()
        taken, kernel = measure.seconds(clients[number].create)
        done.append(number)
        measure.progress_count(f"burst of {count}", len(done), count)
        return taken, kernel

    def release():
        gate.wait()
        return time.perf_counter()

    began = []
    threading.Thread(target=lambda: began.append(release()), daemon=True).start()
    results = measure.at_once(count, one)
    elapsed = time.perf_counter() - began[0]
    for client, (_, kernel) in zip(clients, results):
        kernel.close()
        client.close()
    return elapsed, [taken for taken, _ in results]


def gateway_crowd(full, duration, size):
    """What the gateway does with many clients: creations a second by their number, milliseconds for each of a burst, and
    how it answers meanwhile. Where it fails, the first words of why: that is no reason not to measure Husk."""
    rates, health = {}, {}
    with Gateway.place() as gateway, Probe(gateway.port, "/api") as probe:
        for clients in CLIENTS if full else CLIENTS[:2]:
            measure.progress(f"creation: the gateway with {clients} clients")
            rates[clients] = or_reason(lambda: sustained(gateway, clients, duration)[0])
        health["sustained"] = or_reason(probe.samples)
    with Gateway.place() as gateway, Probe(gateway.port, "/api") as probe:
        measure.progress(f"creation: a burst of {size} for the gateway")
        each = or_reason(lambda: burst(gateway, size)[0] / size * 1000)
        health["burst"] = or_reason(probe.samples)
    return rates, each, health


def or_reason(function):
    """What it gives, or a text that says why it gives nothing."""
    try:
        return function() or "nothing"
    except Exception as error:
        measure.progress(f"the gateway failed: {error!r}")
        return f"failed: {str(error)[:30] or type(error).__name__}"


def crowd_rows(full):
    duration, gateway_burst = (15, 32) if full else (4, 8)
    rates, its_burst, health = gateway_crowd(full, duration, gateway_burst)
    best = max((rate for rate in rates.values() if not isinstance(rate, str)), default="failed")
    rows = []
    with measure.running_service() as service, Probe(service.port) as probe:
        husk = Husk(service)
        for clients in CLIENTS:
            measure.progress(f"creation: {clients} clients create and close")
            rate, samples = sustained(husk, clients, duration)
            low, high = (round(percentile(samples, percent) * 1000) for percent in (50, 99))
            row = Row(f"sustained creates, {clients} clients", "/s", rate, samples=len(samples), more_is_better=True)
            row.target = ("p50", 25)
            row.note = f"each p50 {low}, p99 {high} ms"
            row.baselines["gateway"] = rates.get(clients, best)
            if clients not in rates:
                row.note += "; the gateway: its best with fewer clients"
            rows.append(row)
        during = probe.samples()
        rows.append(timed("/health meanwhile", during, {"gateway": health["sustained"]}, target=HEALTH))
        measure.progress(f"creation: a burst of {BURST}")
        elapsed, samples = burst(husk, BURST)
        rows.append(timed(f"burst of {BURST}: create", samples))
        last = Row(f"burst of {BURST}: until the last, for each", "ms", elapsed / BURST * 1000, samples=BURST)
        last.baselines["gateway"] = its_burst
        last.note = f"the gateway: a burst of {gateway_burst}"
        rows.append(last)
        rows.append(timed("/health during the burst", probe.samples(), {"gateway": health["burst"]}, target=HEALTH))
    return rows


def run(full):
    measure.progress("creation: lives, in turns with a cold ipykernel and the gateway")
    with contextlib.ExitStack() as stack:
        service = stack.enter_context(measure.running_service(*measure.without_pool()))
        others = {"ipykernel": stack.enter_context(Cold.place()), "gateway": stack.enter_context(Gateway.place())}
        docker = stack.enter_context(Docker.place())
        lives = in_turns(full, Husk(service), others, docker)
    return single_rows(full, lives, docker) + crowd_rows(full)
