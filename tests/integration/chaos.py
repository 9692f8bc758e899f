"""Callers who keep books, and somebody who kills parts of the service meanwhile. Each caller has sandboxes of its own and knows what each
must answer: what is uncertain is only what was under way when a connection broke."""

import os
import random
import signal
import threading
import time

import requests

import host

# What a caller may be told when parts of the service are missing. Nothing has happened then, or nobody knows.
AWAY = (429, 503)


class Box:
    """A sandbox and what is known of it. `counts`: the values its variable may have."""

    def __init__(self, sandbox, name):
        self.sandbox, self.name = sandbox, name
        self.counts = {0}
        self.content = None  # of its file; None: not known
        self.detached = None  # an execution's id, and the values it may print
        self.may_end = False  # its shim or init was killed: by us
        self.may_forget = False  # its kernel was killed
        self.pid_namespace = None


class Caller(threading.Thread):
    """Uses its boxes until `end` and checks each answer. `wrong`: what should not have been answered."""

    def __init__(self, service, number, end):
        super().__init__(daemon=True)
        self.service, self.number, self.end = service, number, end
        self.random = random.Random(number)
        self.boxes, self.wrong, self.answers, self.made = [], [], 0, 0

    def run(self):
        while time.monotonic() < self.end:
            try:
                self.act()
            except requests.RequestException:
                self.service.back.wait(30)  # huskd is being started again
            except Exception as error:
                self.wrong.append(f"caller {self.number}: {error!r}")

    def act(self):
        if len(self.boxes) < 2:
            return self.create()
        box = self.random.choice(self.boxes)
        actions = [self.count, self.count, self.count, self.put, self.get, self.detach, self.fetch, self.close]
        return self.random.choice(actions)(box)

    def check(self, box, condition, text):
        if not condition and not box.may_end and not box.may_forget:
            self.wrong.append(f"caller {self.number}, {box.name} {box.sandbox.id}: {text}")

    def answered(self, box, answer, good=200):
        """Is this the answer to work with? If the sandbox has ended, that must be our own doing."""
        self.answers += 1
        if answer.status_code in (404, 410):
            self.check(box, False, f"{answer.status_code} {answer.text[:200]}")
            self.boxes.remove(box)
        elif answer.status_code not in (good, *AWAY):
            self.check(box, False, f"{answer.status_code} {answer.text[:300]}")
        return answer.status_code == good

    def create(self):
        self.made += 1
        name = f"box-{self.number}-{self.made}"
        blows = self.service.blows_to_forks
        answer = self.service.post("/sandbox/create", json={"name": name, "memory_mb": 256})
        if answer.status_code == 200:
            box = Box(self.service.adopt(answer.json()["sandbox_id"]), name)
            if self.answered(box, box.sandbox.post("execute", data=b"n = 0")):
                self.boxes.append(box)
        elif answer.status_code in AWAY or (blows != self.service.blows_to_forks and "kernel did not start" in answer.text):
            pass  # its kernel was killed with the zygote, while we waited
        else:
            self.wrong.append(f"create: {answer.status_code} {answer.text[:300]}")

    def settle(self, box, answer):
        """What an answer of counting code says about the variable."""
        if answer["state_lost"] or answer["error"] == "NameError":
            self.check(box, False, f"variables are lost: {answer}")
            box.sandbox.post("execute", data=b"n = 0")
            box.counts = {0}
            return
        if answer["status"] != "ok":
            self.check(box, answer["status"] == "interrupted", f"not ok: {answer}")
            box.counts |= {count + 1 for count in box.counts}
            return
        value = int(answer["stdout"])
        self.check(box, value in {count + 1 for count in box.counts}, f"{value} is not one more than {box.counts}")
        box.counts = {value}

    def count(self, box):
        before = set(box.counts)
        box.counts |= {count + 1 for count in before}  # if nobody answers it may have happened
        answer = box.sandbox.post("execute", data=b"n += 1; print(n)")
        if self.answered(box, answer):
            box.counts = before
            self.settle(box, answer.json())

    def put(self, box):
        content, box.content = os.urandom(self.random.randrange(200_000)), None
        answer = self.service.request("PUT", f"{box.sandbox.path}/files/data/file.bin", data=content)
        if answer.status_code == 201 or self.answered(box, answer):
            box.content = content

    def get(self, box):
        if box.content is None:
            return
        answer = self.service.get(f"{box.sandbox.path}/download/data/file.bin")
        if self.answered(box, answer):
            self.check(box, answer.content == box.content, "another file came back")

    def detach(self, box):
        if box.detached:
            return
        before = set(box.counts)
        box.counts |= {count + 1 for count in before}
        body = {"code": "import time; time.sleep(0.5); n += 1; print(n)", "detach": True}
        answer = box.sandbox.post("execute", json=body)
        if self.answered(box, answer, 202):
            box.detached = (answer.json()["execution_id"], {count + 1 for count in before})

    def fetch(self, box):
        if not box.detached:
            return
        execution, values = box.detached
        answer = self.service.get(f"{box.sandbox.path}/executions/{execution}")
        if not self.answered(box, answer) or answer.json()["status"] in ("queued", "running"):
            return
        box.detached = None
        answer = answer.json()
        if answer["status"] == "ok":
            self.check(box, int(answer["stdout"]) in values | box.counts, f"{answer['stdout']} is none of {values}")
        else:
            self.check(box, False, f"a detached execution was not finished: {answer}")

    def close(self, box):
        if self.random.random() < 0.8:
            return
        box.may_end = True
        if self.answered(box, box.sandbox.close()):
            self.boxes.remove(box)


class Vandal:
    """Kills parts of a service with SIGKILL. Every method leaves the service on its way back to health."""

    def __init__(self, service, callers, seed):
        self.service, self.callers, self.random = service, callers, random.Random(seed)
        self.done = {}

    def act(self):
        what = self.random.choice([self.huskd, self.keeper, self.zygotes, self.all_at_once, self.shim, self.init, self.kernel])
        what()
        self.done[what.__name__] = self.done.get(what.__name__, 0) + 1

    def kill_forkers(self, processes):
        self.service.blows_to_forks += 1
        self.kill(processes)

    def kill(self, processes):
        for process in processes:
            try:
                os.kill(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue

    def huskd(self):
        self.service.back.clear()
        self.service.stop(signal.SIGKILL)
        self.service.start()
        self.service.back.set()

    def keepers(self):
        return [p for p in self.service.programs("husk-keeper") if p.state != "Z"]

    def keeper(self):
        self.kill_forkers(self.keepers())

    def zygote_processes(self):
        """Not the kernels that one has just forked and that look the same still."""
        keepers = {p.pid for p in self.keepers()}
        found = [p for p in host.processes() if "/opt/husk/zygote.py" in p.arguments and p.parent in keepers]
        return [p for p in found if p.in_cgroup(self.service.tree)]

    def zygotes(self):
        self.kill_forkers(self.zygote_processes())

    def all_at_once(self):
        self.service.back.clear()
        self.kill_forkers(self.keepers() + self.zygote_processes())
        self.service.stop(signal.SIGKILL)
        self.service.start()
        self.service.back.set()

    def victim(self):
        boxes = [box for caller in self.callers for box in list(caller.boxes)]
        return self.random.choice(boxes) if boxes else None

    def shims_of(self, box):
        return [p for p in self.service.programs("husk-shim") if box.sandbox.id in p.arguments]

    def shim(self):
        box = self.victim()
        if box:
            box.may_end = True
            self.kill(self.shims_of(box))

    def inside(self, box):
        """The processes in its container: those in the network namespace that its shim has joined, but for the shim."""
        shims = self.shims_of(box)
        if not shims:
            return []
        network = shims[0].namespace("net")
        known = {p.pid for p in shims}
        return [p for p in host.processes() if p.pid not in known and p.namespace("net") == network and p.program != "husk-porter"]

    def init(self):
        box = self.victim()
        if box:
            box.may_end = True
            self.kill([p for p in self.inside(box) if p.program == "husk-init"])

    def kernel(self):
        box = self.victim()
        if box:
            box.may_forget = True
            self.kill([p for p in self.inside(box) if p.program != "husk-init"])
