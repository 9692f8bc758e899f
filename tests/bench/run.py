"""How fast and how small Husk is, next to others in the same run. `make bench` calls this.

    make bench                              some minutes, up to 100 sandboxes
    make bench ARGS="--full"                longer, up to 1,000 sandboxes: wants the machine for itself
    make bench ARGS="--only creation"       one group; may be given again
    make bench ARGS="--json FILE"           the numbers for programs, also
    make bench ARGS="--full --save"         keep them in tests/bench/results.md

Each group is a file with run(full), which gives rows."""

import argparse
import importlib
import json
import os
import signal
import sys
import traceback
from pathlib import Path

import measure  # first: it knows where the tests' modules are
import host
import report

GROUPS = ("round_trip", "creation", "load", "attacks", "density")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--quick", action="store_true", help="fewer calls, up to 100 sandboxes (what is done by default)")
    mode.add_argument("--full", action="store_true", help="more calls, up to 1,000 sandboxes")
    parser.add_argument("--only", action="append", choices=GROUPS, help="this group; may be given again")
    parser.add_argument("--json", metavar="FILE", type=Path, help="also write the numbers here")
    parser.add_argument("--save", action="store_true", help=f"rewrite {report.RESULTS.name}")
    return parser.parse_args()


def measure_group(name, full):
    """Its rows; a group that breaks says why and does not take the others with it."""
    try:
        return importlib.import_module(name).run(full)
    except Exception:
        traceback.print_exc()
        measure.progress(f"{name} could not be measured")
        return None


def end_descendants():
    """Every program ends what it started; this is for what a failure or a signal left between two lines of ours."""
    for process in host.descendants(os.getpid()):
        if process.state not in "ZX":
            os.kill(process.pid, signal.SIGKILL)
    host.reap(set())


def summary(measured):
    rows = [(group, row) for group, rows in measured.items() for row in rows]
    for group, row in rows:
        if row.met() is False:
            limit = report.number(row.target[1])
            print(f"target missed: {group}: {row.name}: {report.number(row.judged())} instead of {limit}")
    judged = [row.met() for _, row in rows if row.met() is not None]
    print(f"{sum(judged)} of {len(judged)} targets met")


def main():
    options = arguments()
    host.become_reaper()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # also where they were ignored
        signal.signal(number, measure.interrupted)
    facts = report.facts(measure.machine(), "full" if options.full else "quick")
    last, _ = report.read_results()
    measured, broken = {}, []
    try:
        for name in options.only or GROUPS:
            rows = measure_group(name, options.full)
            if rows is None:
                broken.append(name)
            else:
                measured[name] = rows
                print(report.terminal(name, rows, last.get(name, {})), end="\n\n", flush=True)
    except KeyboardInterrupt as interrupt:
        name = signal.Signals(*interrupt.args).name if interrupt.args else "SIGINT"
        measure.progress(f"{name}: ending everything that was started")
        return 130
    finally:
        end_descendants()
    summary(measured)
    print(report.sentence(facts), "Much above 0.5 even the ratios vary.")
    if options.json:
        options.json.write_text(json.dumps(report.as_json(measured, facts, last), indent=2) + "\n")
    if options.save:
        report.save(measured, facts)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
