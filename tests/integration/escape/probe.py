"""Probes: what code inside a sandbox tries, from where, and the exact refusal that it must get. A table of them is a list;
adding one is a line.

    Call("name", "mount", (b"none", b"/tmp", b"tmpfs", 0, 0), "EPERM")     a system call, from all places
    Look("name", "read('/proc/kcore')", ("ENOENT", "b''"))                 an expression in the words of toolkit.py

All probes of a place run in one go, one after the other: they are refused, so they leave nothing behind."""

import dataclasses
import errno
import json
import re
import subprocess
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent

KERNEL = "kernel"  # code that was sent to execute
COMMAND = "command"  # a program that was started beside it
PROGRAM = "program"  # one that talks to the Linux kernel by itself (raw.c)

# Numbers of calls that are newer than some headers; they are the same on all processors.
NEW_CALLS = {
    "pidfd_getfd": 438, "mount_setattr": 442, "quotactl_fd": 443, "landlock_create_ruleset": 444, "memfd_secret": 447,
    "process_mrelease": 448, "set_mempolicy_home_node": 450, "map_shadow_stack": 453, "statmount": 457, "listmount": 458,
    "lsm_get_self_attr": 459, "lsm_set_self_attr": 460, "lsm_list_modules": 461, "open_tree_attr": 467,
    "file_setattr": 469, "listns": 470,
}  # fmt: skip


@cache
def _numbers():
    """What this machine's headers call the numbers of system calls: a sandbox's are the same."""
    source = "#include <sys/syscall.h>\n"
    text = subprocess.run(["cc", "-dM", "-E", "-"], input=source, capture_output=True, text=True, check=True).stdout
    return NEW_CALLS | {name: int(number) for name, number in re.findall(r"#define __NR_(\w+) (\d+)$", text, re.M)}


def number(call):
    return call if isinstance(call, int) else _numbers()[call]


@dataclasses.dataclass(frozen=True)
class Call:
    name: str
    call: str | int
    arguments: tuple
    refusal: str | tuple
    places: tuple = (KERNEL, COMMAND, PROGRAM)
    door: str = "call"

    def code(self):
        return f"call({', '.join(map(repr, (number(self.call), *self.arguments)))})"

    def line(self):
        words = (f"x{word.hex()}" if isinstance(word, bytes) else str(word) for word in self.arguments)
        return " ".join([self.door, str(number(self.call)), *words])


@dataclasses.dataclass(frozen=True)
class Look:
    name: str
    expression: str
    refusal: str | tuple
    places: tuple = (KERNEL, COMMAND)

    def code(self):
        return self.expression


def refused(probe, found):
    return found in (probe.refusal if isinstance(probe.refusal, tuple) else (probe.refusal,))


class Inside:
    """A sandbox with the tools, and what the probes of a table found there."""

    def __init__(self, sandbox, folder):
        self.sandbox = sandbox
        self.raw = folder / "raw"
        subprocess.run(["cc", "-static", "-O1", "-o", self.raw, HERE / "raw.c"], check=True)
        for path in (self.raw, HERE / "toolkit.py"):
            assert self.put(path.name, path.read_bytes()).status_code in (200, 201)
        sandbox.run("import os, toolkit; os.chmod('raw', 0o755)")
        self.found = {}

    def put(self, name, data):
        return self.sandbox.service.request("PUT", f"{self.sandbox.path}/files/{name}", data=data)

    def outcome(self, table, probe, place):
        key = id(table), place
        if key not in self.found:
            self.found[key] = RUNNERS[place](self, [each for each in table if place in each.places])
        return self.found[key][probe.name]

    def in_kernel(self, probes):
        text = json.dumps({probe.name: probe.code() for probe in probes})
        return json.loads(self.sandbox.run(f"import json; print(json.dumps(toolkit.run({text!r})))"))

    def in_command(self, probes):
        text = json.dumps({probe.name: probe.code() for probe in probes})
        answer = self.sandbox.command(["python3", "toolkit.py"], stdin=text)
        assert answer["exit_code"] == 0, answer
        return json.loads(answer["stdout"])

    def in_program(self, probes):
        answer = self.sandbox.command(["./raw"], stdin="".join(probe.line() + "\n" for probe in probes))
        results = [int(line) for line in answer["stdout"].split()]
        assert answer["exit_code"] == 0 and len(results) == len(probes), answer
        return {
            probe.name: errno.errorcode.get(-result, str(result)) if result < 0 else repr(result)
            for probe, result in zip(probes, results)
        }


RUNNERS = {KERNEL: Inside.in_kernel, COMMAND: Inside.in_command, PROGRAM: Inside.in_program}
