"""Rows as a table for a terminal, as JSON, and as results.md, which is also what the next run is compared with."""

import dataclasses
import datetime
import re
import subprocess
from pathlib import Path

RESULTS = Path(__file__).parent / "results.md"
WORSE = 1.1  # times what it was, and not only because the machine was slower: the ratios say that too
HEAD = """# Results of `make bench`

The last numbers that were kept (`make bench ARGS="--full --save"`); "change" is against those that were here before.
Next to each number of somebody else stands ours as a multiple of it: trust these more than the milliseconds. A row is
WORSE if both the number and that multiple grew by more than a tenth.
"""


# --- cells -----------------------------------------------------------------------------------------------------------


def number(value):
    if value is None:
        return "-"
    return f"{value:.{0 if value >= 100 else 1 if value >= 10 else 2 if value >= 1 else 3}f}"


def _baseline(row, name):
    other = row.baselines.get(name)
    if other is None or isinstance(other, str):
        return other or ""
    ratio = row.ratio(name)
    return number(other) + (f" ({number(ratio)}×)" if ratio is not None else "")


def _target(row):
    if row.target is None:
        return ""
    kind, limit, *baseline = row.target
    ratio = "".join(baseline) + " × "
    what = {"p50": "", "p99": "p99 ", "ratio": ratio, "p99 ratio": f"p99 {ratio}"}[kind]
    met = row.met()
    verdict = "" if met is None else " met" if met else " MISSED"
    return f"{'≥' if row.more_is_better else '≤'} {what}{limit:.4g}{verdict}"


def cells(rows, last):
    """The head and the lines of a group's table."""
    names = list(dict.fromkeys(name for row in rows for name in row.baselines))
    head = ["row", "unit", "p50", "p99", "n", *names, "target", "change", "note"]
    lines = [
        [
            row.name,
            row.unit,
            number(row.p50),
            "" if row.p50 is not None and row.p99 is None else number(row.p99),
            str(row.samples),
            *(_baseline(row, name) for name in names),
            _target(row),
            change(row, last)[0],
            row.note,
        ]
        for row in rows
    ]
    return head, lines


# --- what it was before ----------------------------------------------------------------------------------------------


def change(row, last):
    """Against what results.md said: a text, and whether it is worse."""
    before = last.get(row.name)
    value, old = getattr(row, row.key), before and _parsed(before.get(row.key))
    if not old or not value:
        return ("", False) if value is None else ("new", False)
    growth = [value / old]
    for name in row.baselines:
        cell = re.search(r"\(([\d.]+)×\)", before.get(name, ""))
        if cell and float(cell[1]) and row.ratio(name):
            growth.append(row.ratio(name) / float(cell[1]))
            break
    if row.more_is_better:
        growth = [1 / each for each in growth]
    worse = min(growth) > WORSE
    return f"{(value / old - 1) * 100:+.0f} %{' WORSE' if worse else ''}", worse


def _parsed(text):
    try:
        return float(text)
    except (TypeError, ValueError):
        return None


def _columns(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def read_results(path=RESULTS):
    """The groups of results.md: {group: {name of row: {column: cell}}}, and the text of each section."""
    groups, texts = {}, {}
    for section in (path.read_text() if path.exists() else "").split("\n## ")[1:]:
        name = section.partition("\n")[0].strip()
        texts[name] = f"## {section.strip()}\n"
        table = [_columns(line) for line in section.splitlines() if line.startswith("|")]
        groups[name] = {line[0]: dict(zip(table[0], line)) for line in table[2:]} if table else {}
    return groups, texts


# --- forms -----------------------------------------------------------------------------------------------------------


def terminal(group, rows, last):
    head, lines = cells(rows, last)
    head[0] = group
    used = [i for i in range(len(head)) if any(line[i] for line in lines)]
    head, *lines = [[line[i] for i in used] for line in [head, *lines]]
    widths = [max(len(line[i]) for line in [head, *lines]) for i in range(len(head))]
    left = {0, 1, len(head) - 1}

    def aligned(line):
        return "  ".join(c.ljust(w) if i in left else c.rjust(w) for i, (c, w) in enumerate(zip(line, widths))).rstrip()

    return "\n".join([aligned(head), "  ".join("-" * width for width in widths), *map(aligned, lines)])


def markdown(group, rows, last, facts):
    head, lines = cells(rows, last)
    table = [head, ["---"] * len(head), *lines]
    text = "\n".join("| " + " | ".join(cell.replace("|", "/") for cell in line) + " |" for line in table)
    return f"## {group}\n\n{sentence(facts)}\n\n{text}\n"


def sentence(facts):
    machine = facts["machine"]
    return (
        f"{facts['date']}, commit {facts['commit']}, {facts['mode']}; {machine['cpus']} cores, {machine['memory_gb']} GB, "
        f"Linux {machine['kernel']}, load {machine['load']} before it began."
    )


def save(measured, facts, path=RESULTS):
    """Rewrite results.md: the groups that were measured; others stay as they were."""
    groups, texts = read_results(path)
    for group, rows in measured.items():
        texts[group] = markdown(group, rows, groups.get(group, {}), facts)
    path.write_text("\n".join([HEAD, *texts.values()]))


def as_json(measured, facts, last):
    def row_as_json(group, row):
        text, worse = change(row, last.get(group, {}))
        ratios = {name: row.ratio(name) for name in row.baselines}
        return {**dataclasses.asdict(row), "ratios": ratios, "met": row.met(), "change": text, "worse": worse}

    return {**facts, "groups": {name: [row_as_json(name, row) for row in rows] for name, rows in measured.items()}}


def facts(machine, mode):
    git = ["git", "-c", "safe.directory=*", "-C", str(Path(__file__).parent)]

    def ask(*arguments):
        return subprocess.run([*git, *arguments], capture_output=True, text=True, check=False).stdout.strip()

    changed = " with changes" if ask("status", "--porcelain", "--untracked-files=no") else ""
    commit = (ask("rev-parse", "--short", "HEAD") or "unknown") + changed
    return {"date": datetime.date.today().isoformat(), "commit": commit, "mode": mode, "machine": machine}
