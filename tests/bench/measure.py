"""What every group of benchmarks shares: a service to measure, taking turns, rows of numbers, progress."""

import contextlib
import dataclasses
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "integration"))

import host  # noqa: E402
from service import PROGRAMS, Service  # noqa: E402

PROGRESS_SECONDS = 2
STOP_SECONDS = 120  # for a thousand sandboxes


# --- rows ------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Row:
    """One line of the result. Everything is told in `unit`; where there is only one number, it is p50 without p99."""

    name: str
    unit: str
    p50: float | None = None
    p99: float | None = None
    samples: int = 1
    baselines: dict = dataclasses.field(default_factory=dict)  # name: row.key of somebody else, or why not
    more_is_better: bool = False
    target: tuple | None = None  # ("p50" or "p99", limit), or ("ratio" or "p99 ratio", limit, name of the baseline)
    note: str = ""

    @property
    def key(self):
        """Which of the two numbers is compared, with others and with what was before."""
        return "p99" if self.target and self.target[0].startswith("p99") else "p50"

    def ratio(self, baseline):
        value, other = getattr(self, self.key), self.baselines.get(baseline)
        if value is None or not isinstance(other, (int, float)) or not other:
            return None
        return value / other

    def judged(self):
        """The number that the target is about."""
        if self.target is None:
            return None
        kind, _, *baseline = self.target
        return self.ratio(*baseline) if kind.endswith("ratio") else getattr(self, self.key)

    def met(self):
        """None: there is no target, or nothing to hold against it. Said, never enforced: machines differ."""
        value = self.judged()
        if value is None:
            return None
        return value >= self.target[1] if self.more_is_better else value <= self.target[1]


def timed(name, samples, baselines=None, **more):
    """A row of milliseconds from lists of seconds: ours, and those of the others by name; or a text that says why there
    are none."""
    row = Row(name, "ms", samples=len(samples), **more)
    if samples:
        row.p50, row.p99 = (percentile(samples, percent) * 1000 for percent in (50, 99))
    for other, times in (baselines or {}).items():
        row.baselines[other] = times if isinstance(times, str) else percentile(times, int(row.key[1:])) * 1000
    return row


def percentile(samples, percent):
    """By nearest rank: with less than 100 samples p99 is the slowest one."""
    ordered = sorted(samples)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


# --- measuring -------------------------------------------------------------------------------------------------------


def take_turns(contenders, count, turn):
    """Call each contender `count` times, `turn` times in a row and then the next one, so that what else the machine
    does hits all of them. A contender is (enter, call, leave): only call is timed. Gives a list of seconds for each."""
    samples = [[] for _ in contenders]
    while any(len(taken) < count for taken in samples):
        for taken, (enter, call, leave) in zip(samples, contenders):
            enter()
            for _ in range(min(turn, count - len(taken))):
                taken.append(seconds(call)[0])
            leave()
    return samples


def seconds(function, *arguments):
    """How long a call took, and what it gave."""
    start = time.perf_counter()
    value = function(*arguments)
    return time.perf_counter() - start, value


def at_once(count, work):
    """Run work(number) in `count` threads; gives the results. The first failure is raised when all have ended."""
    results, failures = [None] * count, []

    def one(number):
        try:
            results[number] = work(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=one, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return results


# --- progress --------------------------------------------------------------------------------------------------------

_began = time.monotonic()
_last = 0.0


def progress(text):
    """What is done now: a line on stderr."""
    global _last
    _last = time.monotonic()
    print(f"[{_last - _began:5.0f} s] {text}", file=sys.stderr, flush=True)


def progress_count(text, done, total):
    """The same in a loop; says something every two seconds only."""
    if time.monotonic() - _last >= PROGRESS_SECONDS:
        progress(f"{text}: {done} of {total}")


# --- the service -----------------------------------------------------------------------------------------------------


def has_pool():
    """Does this huskd keep warm sandboxes?"""
    text = subprocess.run([PROGRAMS / "huskd", "--help"], capture_output=True, text=True, check=True).stdout
    return "--pool " in text


def has_zygote():
    return (PROGRAMS / "husk-zygote.so").exists()


def without_pool():
    """The flags of a service that makes every sandbox when it is asked for."""
    return ["--pool", "0"] if has_pool() else []


@contextlib.contextmanager
def running_service(*arguments):
    """A huskd of the benchmark's own. Whatever happens, nothing of it is left."""
    folder = Path(tempfile.mkdtemp(prefix="husk-test-", dir="/run"))
    folder.chmod(0o755)
    # In a session of its own, so that Ctrl-C is ours to handle.
    service = Service(folder, *arguments, user={"start_new_session": True})
    service.stop_seconds = STOP_SECONDS
    try:
        service.start()
        if has_zygote():  # it starts beside the service, and until then kernels are started in another way
            host.until(lambda: "the zygote is ready" in service.log(), 120, "the zygote to be ready")
        yield service
    finally:
        try:
            service.end()
        except BaseException as error:
            progress(f"the service did not end by itself ({error}); killing it")
            service.kill()
            raise
        finally:
            host.reap(set())
            shutil.rmtree(folder, ignore_errors=True)


def interrupted(number, _frame):
    """A signal that would end us ends us in order: what was started is ended too."""
    raise KeyboardInterrupt(number)


def machine():
    """What a reader must know to judge the numbers."""
    with open("/proc/meminfo") as file:
        memory = int(next(line for line in file if line.startswith("MemTotal")).split()[1])
    return {
        "cpus": os.cpu_count(),
        "memory_gb": round(memory / (1 << 20), 1),
        "kernel": os.uname().release,
        "load": round(os.getloadavg()[0], 2),
    }


def available_mb():
    with open("/proc/meminfo") as file:
        return int(next(line for line in file if line.startswith("MemAvailable")).split()[1]) / 1024
