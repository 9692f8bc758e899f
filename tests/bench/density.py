"""Many sandboxes at once: what each costs in memory while it idles, and whether anything gets slower with their number.

PSS is that of a sandbox's kernel, init and shim. A zygote is not a part of any sandbox: it is told by itself. What the
machine lost is the whole truth (memory of the kernel, too), but of everything that ran at the time."""

import itertools
import os
import threading
import time
from collections import Counter

import measure
from contenders import Cold, Gateway, Husk
from creation import CODE, HEALTH
from health import Probe
from measure import Row, percentile, timed
from memory import MB, Census, pss, tree_cpu_seconds

IMPORTS = "import numpy, pandas, matplotlib.pyplot"
LEVELS = (1, 10, 100, 1000)
OTHERS = 4  # kernels of ipykernel and of the gateway
FILLERS = 2 * (os.cpu_count() or 1)
IDLE_SECONDS = 60  # in which nothing of them should run
PATIENCE_SECONDS = 90  # for the imports of one level
FAILURES = 3  # then no further sandbox is tried
RESERVE_MB = 2500  # of the machine's memory, for everybody else
SANDBOX_TARGET, HUSKD_MB, HUSKD_KB_EACH = 18, 20, 32


class Crowd:
    """Sandboxes that live, and why others do not."""

    def __init__(self, service, imports):
        self.husk, self.imports = Husk(service), imports
        self.ids, self.failures = [], Counter()
        self.lock = threading.Lock()
        self.each_seconds = self.each_mb = 0

    def fill(self, level):
        """Up to so many. Ends early where the machine does: the reason is in `failures`."""
        tickets = itertools.count(len(self.ids))
        began, before, had = time.monotonic(), measure.available_mb(), len(self.ids)

        def one(_number):
            client = self.husk.client()
            while next(tickets) < level and self.failures.total() < FAILURES:
                if measure.available_mb() < RESERVE_MB:
                    self.failures[f"less than {RESERVE_MB / 1000:.1f} GB of memory were left"] += 1
                    break
                try:
                    kernel = client.create()
                    if self.imports:
                        kernel.run(IMPORTS)
                except Exception as error:
                    self.failures[str(error)] += 1
                    continue
                with self.lock:
                    self.ids.append(kernel.id)
                    measure.progress_count("density: live sandboxes", len(self.ids), level)
            client.close()

        measure.at_once(FILLERS, one)
        made = len(self.ids) - had
        if made:
            self.each_seconds = (time.monotonic() - began) / made
            self.each_mb = max(0, before - measure.available_mb()) / made
        return len(self.ids) == level

    def reason(self):
        return "; ".join(f"{count}× {text}" if count > 1 else text for text, count in self.failures.items())

    def too_much(self, level):
        """Why the next level is better not tried."""
        wanted = level - len(self.ids)
        if wanted * self.each_seconds > PATIENCE_SECONDS:
            return f"would take {wanted * self.each_seconds:.0f} s"
        if wanted * self.each_mb > measure.available_mb() - RESERVE_MB:
            return f"would take {wanted * self.each_mb / 1000:.0f} GB"
        return ""

    def answering(self):
        """How many execute code: every one of them is asked."""
        tickets, right = iter(list(self.ids)), []

        def one(_number):
            client = self.husk.client()
            while True:
                with self.lock:
                    sandbox_id = next(tickets, None)
                if sandbox_id is None:
                    break
                body = {"code": CODE, "timeout": 60}
                answer = client.http.ask("POST", f"/sandbox/{sandbox_id}/execute", body)
                if answer["status"] == "ok":
                    right.append(sandbox_id)
                measure.progress_count("density: asking every sandbox", len(right), len(self.ids))
            client.close()

        measure.at_once(FILLERS, one)
        return len(right)


# --- memory ----------------------------------------------------------------------------------------------------------


def others_memory():
    """MB of kernels of the others, idle and with the imports: {(name, imports): MB}."""
    found = {}
    for name, place_of in (("ipykernel", Cold), ("gateway", Gateway)):
        measure.progress(f"density: memory of {OTHERS} kernels of {name}")
        with place_of.place() as place:
            clients = [place.client() for _ in range(OTHERS)]
            kernels = [client.create() for client in clients]
            pids = place.kernel_pids() if name == "gateway" else [kernel.pid for kernel in kernels]
            for imports in (False, True):
                for kernel in kernels:
                    kernel.run(IMPORTS if imports else CODE)
                found[name, imports] = sum(map(pss, pids)) / len(pids) / MB
            for kernel in kernels:
                kernel.close()
    return found


def memory_row(census, crowd, level, others):
    loaded = ", numpy + pandas + matplotlib" if crowd.imports else ""
    each = census.of_sandboxes(crowd.ids)
    row = Row(f"idle sandbox at {level}{loaded}", "MB PSS", percentile(each, 50), percentile(each, 99), len(each))
    row.baselines = {name: value for (name, imports), value in others.items() if imports == crowd.imports}
    if crowd.imports:
        row.target = ("p50", SANDBOX_TARGET)
    return row


def idle_rows(service, census, crowd, level):
    """What happens while nothing happens: how often anything of a sandbox runs, and what all of them use of one core. The second
    is as coarse as the kernel's accounting, and includes the keeper."""
    measure.progress(f"density: {level} sandboxes idle for {IDLE_SECONDS} s")
    before, cpu = census.switches(crowd.ids), tree_cpu_seconds(service)
    time.sleep(IDLE_SECONDS)
    cpu = tree_cpu_seconds(service) - cpu
    each = [after - since for after, since in zip(census.switches(crowd.ids), before)]
    name = f"idle sandbox at {level}: context switches in {IDLE_SECONDS} s"
    awake = Row(name, "", percentile(each, 50), percentile(each, 99), len(each), target=("p50", 0))
    return [awake, Row(f"idle sandboxes at {level}, together", "% of a core", cpu / IDLE_SECONDS * 100)]


def program_rows(service, census, crowd, level, lost_mb):
    live = len(crowd.ids)
    huskd = Row(f"huskd at {level}", "MB PSS", census.of("huskd"))
    huskd.target = ("p50", HUSKD_MB + live * HUSKD_KB_EACH / 1024)
    keeper = Row(f"keeper and anchor at {level}", "MB PSS", census.of("keeper") + census.of("anchor"))
    lost = Row(f"the machine's memory for each at {level}", "MB", lost_mb / live if lost_mb > 0 else None)
    lost.note = "" if lost_mb > 0 else "others gave back more"
    idle = [] if level < 100 else idle_rows(service, census, crowd, level)
    zygote = Row(f"zygote at {level}", "MB PSS", census.of("zygote") if census.zygote else None)
    zygote.note = "" if census.zygote else "no zygote"
    return [huskd, keeper, zygote, lost, *idle]


def loaded_rows(levels, others):
    """Idle sandboxes that have imported the three libraries; as many as patience and memory allow."""
    rows = []
    flags = ["--max-sandboxes", str(levels[-1] + 10), *measure.without_pool()]
    with measure.running_service(*flags) as service:
        crowd = Crowd(service, imports=True)
        crowd.fill(1)
        for level in levels[1:]:
            measure.progress(f"density: {level} sandboxes with the imports")
            reason = crowd.too_much(level)
            if not reason and not crowd.fill(level):
                reason = crowd.reason()
            if reason:
                rows.append(Row(f"idle sandbox at {level}, numpy + pandas + matplotlib", "MB PSS", note=reason))
                break
            rows.append(memory_row(Census(service), crowd, level, others))
    return rows


# --- growth ----------------------------------------------------------------------------------------------------------


def operations(full, crowd):
    """Seconds of what a caller does while the crowd idles."""
    client, samples = crowd.husk.client(), {}
    count = 30 if full else 10

    def add(name, function, *arguments):
        taken, value = measure.seconds(function, *arguments)
        samples.setdefault(name, []).append(taken)
        return value

    for _ in range(count):
        kernel = add("create", client.create)
        add("first result", kernel.run, CODE)
        add("close", kernel.close)
        add("GET /sandboxes", client.http.ask, "GET", "/sandboxes")
    execute = client.http.request("POST", f"/sandbox/{crowd.ids[0]}/execute", {"code": CODE})
    health = client.http.request("GET", "/health")
    for _ in range(10 * count):
        add("1+1", client.http.call, execute)
        add("/health", client.http.call, health)
    client.close()
    return samples


def growth_rows(full, levels, others):
    memory, programs, growth = [], [], {}
    flags = ["--max-sandboxes", str(levels[-1] + 10), *measure.without_pool()]
    with measure.running_service(*flags) as service, Probe(service.port) as probe:
        crowd, before = Crowd(service, imports=False), measure.available_mb()
        for level in levels:
            measure.progress(f"density: {level} sandboxes")
            whole = crowd.fill(level)
            lost = before - measure.available_mb()
            meanwhile = probe.samples()
            census = Census(service)
            if level > 1:
                row = memory_row(census, crowd, level, others)
                row.note = "" if whole else f"with {len(crowd.ids)}: {crowd.reason()}"
                memory.append(row)
                programs += program_rows(service, census, crowd, level, lost)
                programs.append(timed(f"/health while it grows to {level}", meanwhile, target=HEALTH))
            for name, samples in operations(full, crowd).items():
                growth.setdefault(name, {})[level] = samples
            if not whole:
                break
        answering = crowd.answering()
        live = Row("live sandboxes that answer", "", answering, more_is_better=True, note=crowd.reason())
        live.target = ("p50", levels[-1])
    grown = [
        timed(f"{name} at {level}", samples, {"at 1": by_level[1]})
        for name, by_level in growth.items()
        for level, samples in by_level.items()
        if level >= 100
    ]
    return memory, [*programs, live, *grown]


def run(full):
    levels = LEVELS if full else LEVELS[:-1]
    others = others_memory()
    memory, rest = growth_rows(full, levels, others)
    return memory + loaded_rows(levels, others) + rest
