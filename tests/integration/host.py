"""What the host sees of Husk: processes, namespaces, mounts, cgroups. All of it is read from the kernel, so that the
tests need not take the service's word for anything."""

import ctypes
import os
import time
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
CGROUPS = Path("/sys/fs/cgroup")


def until(condition, seconds, what):
    """Wait for a condition, and give back what it returned. The only way in which these tests wait."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(0.02)


# --- processes -------------------------------------------------------------------------------------------------------


def become_reaper():
    """Orphans of our descendants become our children: so nothing that a test starts can escape the count."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


class Process:
    """A process as it was when it was looked at."""

    def __init__(self, pid):
        self.pid = pid
        head, _, rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
        self.name = head.partition("(")[2]
        self.state, parent = rest.split()[:2]
        self.parent = int(parent)
        self.arguments = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]

    def __repr__(self):
        return f"{self.pid} {self.name} ({self.state}) {' '.join(self.arguments)[:120]}"

    @property
    def program(self):
        try:
            return os.path.basename(os.readlink(f"/proc/{self.pid}/exe")).removesuffix(" (deleted)")
        except OSError:
            return ""

    def namespace(self, kind):
        try:
            return os.readlink(f"/proc/{self.pid}/ns/{kind}")
        except OSError:
            return ""

    def status(self, key):
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(key + ":"):
                return line.partition(":")[2].strip()
        return ""

    def in_cgroup(self, text):
        try:
            return text in Path(f"/proc/{self.pid}/cgroup").read_text()
        except OSError:
            return False

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def mounts(self):
        return len(Path(f"/proc/{self.pid}/mountinfo").read_text().splitlines())

    @property
    def resident_bytes(self):
        return int(self.status("VmRSS").split()[0]) * 1024

    @property
    def peak_bytes(self):
        """The most that it ever had, or since forget_peak()."""
        return int(self.status("VmHWM").split()[0]) * 1024

    def forget_peak(self):
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")


def processes():
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                found.append(Process(int(entry)))
            except (FileNotFoundError, ProcessLookupError):
                continue
    return found


def descendants(pid):
    """Every process below pid, zombies too."""
    children = {}
    for process in processes():
        children.setdefault(process.parent, []).append(process)
    found, waiting = [], [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += [process.pid for process in below]
    return found


def reap(keep):
    """Collect the orphans that came to us; those in `keep` have a waiter of their own."""
    for process in processes():
        if process.parent == os.getpid() and process.state == "Z" and process.pid not in keep:
            os.waitpid(process.pid, 0)


def alive(pid):
    try:
        return Process(pid).state not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def within(kind, name):
    """Those below us that are in a namespace; `name` is what /proc/PID/ns/KIND says. Names are used again, so that an
    old one may well be that of somebody else's namespace."""
    return [process for process in descendants(os.getpid()) if process.namespace(kind) == name]


# --- mounts, cgroups, files ------------------------------------------------------------------------------------------


def mounts_with(text):
    """Lines of mount tables, the host's and every process's, that contain the text."""
    tables, found = set(), []
    for process in processes():
        namespace = process.namespace("mnt")
        if namespace in tables:
            continue
        tables.add(namespace)
        try:
            lines = Path(f"/proc/{process.pid}/mountinfo").read_text().splitlines()
        except OSError:
            continue
        found += [f"{process.pid}: {line}" for line in lines if text in line]
    return found


def cgroups_with(text):
    """Every cgroup directory, of all hierarchies, whose path contains the text."""
    return {folder for folder, _, _ in os.walk(CGROUPS) if text in folder}


def files(first_id):
    """What lies around in the places for temporary files and is ours by its name or by its owner, an id of the service.
    Other tests and other services, each with a state directory of its own, may run at the same time."""
    found = set()
    for folder in ("/tmp", "/var/tmp", "/run", "/dev/shm"):
        for path in Path(folder).iterdir():
            try:
                ours = path.name.startswith("husk-") or first_id <= path.lstat().st_uid < first_id + 65536
            except FileNotFoundError:
                continue
            others = path.name.startswith(("husk-unit-", "husk-test-")) or (path / "anchor.lock").exists()
            if ours and not others:
                found.add(str(path))
    return found


def mounts_of(pid):
    """The mounts that a process sees, as lines of mountinfo."""
    with open(f"/proc/{pid}/mountinfo") as lines:
        return lines.read().splitlines()
