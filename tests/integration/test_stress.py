"""Fifty sandboxes, a hundred executions of all kinds in each, all at once; and every single answer must be the right one."""

import hashlib
import random
import threading

import requests

import host
from service import joined

SANDBOXES = 50
EXECUTIONS = 100


class Caller(threading.Thread):
    """Works with one sandbox, and checks the content of each answer."""

    def __init__(self, service, number):
        super().__init__(daemon=True)
        self.service, self.number = service, number
        self.random = random.Random(number)
        self.session = requests.Session()
        self.session.trust_env = False
        self.count = 0  # what the kernel should have counted
        self.kept = 0  # a variable that it should have
        self.done = 0
        self.failure = None

    def run(self):
        try:
            self.sandbox = self.service.create()
            self.execute("kept = 0")
            for _ in range(EXECUTIONS):
                self.random.choice(KINDS)(self)
                self.done += 1
            assert self.sandbox.close().status_code == 200
        except BaseException as error:
            self.failure = f"sandbox {self.number}, after {self.done} executions: {error!r}"
        finally:
            self.session.close()

    # --- ways to run code ---

    def post(self, fields, **options):
        return self.session.post(
            f"{self.service.url}{self.sandbox.path}/execute", json=fields, timeout=120, **options
        )

    def check(self, answer, status="ok"):
        self.count += 1
        assert answer["status"] == status, answer
        assert answer["execution_count"] == self.count, answer
        assert answer["state_lost"] is False and answer["truncated"] is False, answer
        return answer

    def execute(self, code, status="ok", **fields):
        answer = self.post({"code": code, **fields})
        assert answer.status_code == 200, answer.text
        return self.check(answer.json(), status)

    def unique(self):
        return f"{self.number}-{self.done}-{self.random.getrandbits(64):x}"

    # --- what is run ---

    def arithmetic(self):
        a, b = self.random.randrange(10**9), self.random.randrange(10**9)
        answer = self.execute(f"{a} * {b}")
        assert answer["results"] == [{"type": "text/plain", "data": str(a * b), "output": 0, "main": True}]
        assert answer["stdout"] == answer["stderr"] == ""

    def print_lines(self):
        text = self.unique()
        answer = self.execute(f"import sys\nfor i in range(20): print('{text}', i)\nprint('e', file=sys.stderr)")
        assert answer["stdout"] == "".join(f"{text} {i}\n" for i in range(20)) and answer["stderr"] == "e\n"

    def print_much(self):
        seed = self.unique()
        answer = self.execute(f"import hashlib\nprint(''.join(hashlib.sha256(f'{seed}{{i}}'.encode()).hexdigest() for i in range(2000)))")
        assert answer["stdout"] == "".join(hashlib.sha256(f"{seed}{i}".encode()).hexdigest() for i in range(2000)) + "\n"

    def error(self):
        text = self.unique()
        answer = self.execute(f"print('before')\nraise KeyError('{text}')", "error")
        assert (answer["error"], answer["error_value"], answer["stdout"]) == ("KeyError", f"'{text}'", "before\n")
        assert text in answer["traceback"]

    def variable(self):
        self.kept += 1
        assert self.execute("kept += 1; print(kept)")["stdout"] == f"{self.kept}\n"

    def displays(self):
        texts = [self.unique() for _ in range(3)]
        answer = self.execute("\n".join(f"display({text!r})" for text in texts))
        assert [entry["data"] for entry in answer["results"]] == [repr(text) for text in texts]
        assert [entry["output"] for entry in answer["results"]] == [0, 1, 2]

    def file(self):
        name, text = f"{self.unique()}.txt", self.unique()
        [entry] = self.execute(f"open('{name}', 'w').write('{text}');")["files"]
        assert (entry["path"], entry["size"], entry["change"]) == (name, len(text), "created")
        got = self.session.get(self.service.url + entry["url"], timeout=60)
        assert (got.status_code, got.text) == (200, text)

    def given_input(self):
        text = self.unique()
        assert self.execute("print(input()[::-1])", stdin=text)["stdout"] == text[::-1] + "\n"

    def environment(self):
        text = self.unique()
        assert self.execute("import os; print(os.environ['HERE'])", env={"HERE": text})["stdout"] == text + "\n"

    def stream(self):
        text = self.unique()
        code = f"for i in range(10): print('{text}', i)\n'{text}'"
        with self.sandbox.stream(code, self.random.random() < 0.5) as stream:
            answer = self.check(joined(stream.rest()))
        assert answer["stdout"] == "".join(f"{text} {i}\n" for i in range(10))
        assert answer["results"][0]["data"] == repr(text)

    def detached(self):
        text = self.unique()
        accepted = self.post({"code": f"print('{text}')", "detach": True})
        assert accepted.status_code == 202, accepted.text
        url = f"{self.service.url}{self.sandbox.path}/executions/{accepted.json()['execution_id']}"

        def over():
            answer = self.session.get(url, timeout=60).json()
            return answer["status"] not in ("queued", "running") and answer

        assert self.check(host.until(over, 60, "a detached execution"))["stdout"] == text + "\n"

    def subprocess(self):
        text = self.unique()
        assert self.execute(f"!echo {text}")["stdout"] == text + "\n"


KINDS = [
    *[Caller.arithmetic, Caller.print_lines, Caller.error, Caller.variable, Caller.displays] * 3,
    *[Caller.given_input, Caller.environment, Caller.stream, Caller.file, Caller.print_much] * 2,
    *[Caller.detached, Caller.subprocess],
]


def test_every_answer_is_right(private):
    service = private(config=f"[limits]\nmax_sandboxes = {SANDBOXES}\n").start()
    callers = [Caller(service, number) for number in range(SANDBOXES)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(400)
        assert not caller.is_alive(), "a request was never answered"
    assert [caller.failure for caller in callers if caller.failure] == []
    assert sum(caller.done for caller in callers) == SANDBOXES * EXECUTIONS
    host.until(lambda: not service.programs("husk-shim"), 20, "the end of all shims")
