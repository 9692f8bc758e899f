"""Whose memory and CPU time it is, and who runs at all. Memory is PSS, which counts a page that n processes share as an n-th of a page for each
of them."""

import os
import re
from pathlib import Path

import host

SANDBOX = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
MB = 1 << 20


def pss(pid):
    """Bytes, 0 if the process has ended."""
    try:
        with open(f"/proc/{pid}/smaps_rollup") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("Pss:")) * 1024
    except (FileNotFoundError, ProcessLookupError, StopIteration):
        return 0


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def switches(pid):
    """How often all threads of a process began or ceased to run, since they exist."""
    total = 0
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        for line in status.read_text().splitlines():
            if "ctxt_switches:" in line:
                total += int(line.split()[1])
    return total


def tree_cpu_seconds(service):
    """Of everything in the service's cgroup: all but huskd. Finer than the ticks that processes are charged with."""
    for folder in host.CGROUPS.glob("*/" + service.tree):
        if (folder / "cpuacct.usage").exists():
            return int((folder / "cpuacct.usage").read_text()) / 1e9
    for folder in (*host.CGROUPS.glob(service.tree), *host.CGROUPS.glob("*/" + service.tree)):
        if (folder / "cpu.stat").exists():
            return int((folder / "cpu.stat").read_text().split()[1]) / 1e6
    return 0


class Census:
    """All processes of a service at one moment, by what they are for: `sandboxes` (id: pids of kernel, init, what they
    started, and the shim), and `huskd`, `keeper`, `anchor`, `zygote` (pids)."""

    def __init__(self, service):
        self.sandboxes, self.shims = {}, []
        self.huskd, self.keeper, self.anchor, self.zygote = [service.process.pid], [], [], []
        for process in host.processes():
            cgroup = self._cgroup(process, service.tree)
            if cgroup is None:
                continue
            name, inside = process.program, SANDBOX.search(cgroup)
            if name == "husk-shim":
                self.shims.append(process.pid)
                self.sandboxes.setdefault(process.arguments[1], []).append(process.pid)
            elif inside:
                self.sandboxes.setdefault(inside[0], []).append(process.pid)
            elif name in ("husk-keeper", "husk-anchor"):
                getattr(self, name.removeprefix("husk-")).append(process.pid)
            elif process.pid not in self.huskd:
                self.zygote.append(process.pid)

    @staticmethod
    def _cgroup(process, tree):
        """The line of /proc/PID/cgroup that names the service, if there is one; below it the sandbox."""
        try:
            lines = Path(f"/proc/{process.pid}/cgroup").read_text().splitlines()
        except (FileNotFoundError, ProcessLookupError):
            return None
        return next((line.partition(tree)[2] for line in lines if tree in line), None)

    def of_sandboxes(self, ids):
        """MB of each of these sandboxes."""
        return [sum(map(pss, self.sandboxes.get(one, []))) / MB for one in ids]

    def switches(self, ids):
        """So often something of each of these sandboxes has run."""
        return [sum(map(switches, self.sandboxes.get(one, []))) for one in ids]

    def of(self, name):
        """MB of one of the service's own programs."""
        return sum(map(pss, getattr(self, name))) / MB
