"""What every benchmark shares: a service to measure, taking turns, percentiles, tables."""

import contextlib
import json
import os
import platform
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "integration"))

import host  # noqa: E402
from service import Service  # noqa: E402


@contextlib.contextmanager
def running_service(*arguments):
    """A huskd of the benchmark's own. Whatever happens, nothing of it is left."""
    host.become_reaper()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    folder = Path(tempfile.mkdtemp(prefix="husk-test-", dir="/run"))
    folder.chmod(0o755)
    service = Service(folder, *arguments)
    try:
        yield service.start()
        service.end()
    finally:
        if not service.is_gone():
            service.kill()
        host.reap(set())
        shutil.rmtree(folder)


def take_turns(contenders, count, turn):
    """Call each contender `count` times, `turn` times in a row and then the next one, so that what else the machine
    does hits all of them. A contender is (enter, call, leave): only call is timed. Gives a list of seconds for each."""
    samples = [[] for _ in contenders]
    while any(len(taken) < count for taken in samples):
        for taken, (enter, call, leave) in zip(samples, contenders):
            enter()
            for _ in range(min(turn, count - len(taken))):
                start = time.perf_counter()
                call()
                taken.append(time.perf_counter() - start)
            leave()
    return samples


def percentile(samples, percent):
    """By nearest rank: with less than 100 samples p99 is the slowest one."""
    ordered = sorted(samples)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


def milliseconds(samples):
    return {f"p{percent}_ms": round(percentile(samples, percent) * 1000, 3) for percent in (50, 99)}


def table(head, rows):
    """Rows of texts, aligned: the first column to the left, the others to the right."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = []
    for row in [head, *rows]:
        cells = [cell.rjust(width) for cell, width in zip(row, widths)]
        lines.append("  ".join([row[0].ljust(widths[0]), *cells[1:]]).rstrip())
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def target(name, value, limit):
    """A bar that a number should not exceed; said, never enforced: machines differ."""
    return {"target": name, "value": round(value, 3), "limit": limit, "met": value <= limit}


def describe(target):
    verdict = "met" if target["met"] else "MISSED"
    return f"target {verdict}: {target['target']} {target['value']:.2f} (at most {target['limit']})"


def machine():
    """What a reader must know to judge the numbers."""
    return {"cpus": os.cpu_count(), "kernel": platform.release(), "load": round(os.getloadavg()[0], 2)}


def save(path, group, rows, targets, before):
    """The same as JSON; `before` is what machine() said before the measuring."""
    report = {"group": group, "machine": before, "rows": rows, "targets": targets}
    Path(path).write_text(json.dumps(report, indent=2) + "\n")
