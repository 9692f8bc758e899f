"""`husk mcp` as a child, and a client of it that writes and reads lines: what the tests of it share."""

import json
import os
import queue
import subprocess
import threading

import host
from service import ANSWER_SECONDS, PROGRAMS

HUSK = PROGRAMS / "husk"
MODERN = "2026-07-28"
ERAS = ["legacy", "modern"]


def environment(url=None, **more):
    own = {key: value for key, value in os.environ.items() if key.endswith("SAN_OPTIONS")}
    return {"PATH": os.environ["PATH"], "HOME": "/root", **({"HUSK_URL": url} if url else {}), **own, **more}


class Bridge:
    """A context manager: leaving it closes stdin, and the exit status must be 0."""

    def __init__(self, url, cwd, *arguments, era="legacy", version="2025-11-25", variables=None):
        self.era = era
        self.version = version
        self.process = subprocess.Popen(
            [HUSK, "mcp", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=environment(url, **(variables or {})),
        )
        self.count = 0
        self.answers = {}
        self.notes = []
        self.arrived = threading.Condition()
        self.errors = queue.Queue()
        self.said = []
        self.reading = threading.Event()
        self.reading.set()
        self.threads = [threading.Thread(target=work, daemon=True) for work in (self._read, self._listen)]
        for thread in self.threads:
            thread.start()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind:
            self.process.kill()
        status = self.end()
        assert kind or status == 0, self.said

    # --- what it says ---

    def _read(self):
        for line in self.process.stdout:
            self.reading.wait()
            try:
                message = json.loads(line)
                assert isinstance(message, list) or message["jsonrpc"] == "2.0"
            except Exception:
                self.errors.put(line)
                continue
            with self.arrived:
                key = json.dumps(message.get("id")) if isinstance(message, dict) else "batch"
                if "method" in message:
                    self.notes.append(message)
                else:
                    self.answers.setdefault(key, []).append(message)
                self.arrived.notify_all()

    def _listen(self):
        for line in self.process.stderr:
            self.said.append(line.decode(errors="replace"))

    def answer(self, number, seconds=ANSWER_SECONDS):
        """The answer to a request; None is what has no id, "batch" what is a list."""
        key = number if number == "batch" else json.dumps(number)
        with self.arrived:
            assert self.arrived.wait_for(lambda: self.answers.get(key), seconds), (self.said, self.answers.keys())
            return self.answers[key].pop(0)

    def note(self, method, seconds=ANSWER_SECONDS):
        def found():
            return next((note for note in self.notes if note["method"] == method), None)

        with self.arrived:
            return self.arrived.wait_for(found, seconds)

    # --- what it is told ---

    def write(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def line(self, message):
        return json.dumps(message).encode() + b"\n"

    def make(self, method, params, token=None):
        self.count += 1
        meta = {} if token is None else {"progressToken": token}
        if self.era == "modern":
            meta |= {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}
        params = {**params, **({"_meta": meta} if meta else {})}
        return {"jsonrpc": "2.0", "id": self.count, "method": method, "params": params}

    def send(self, method, token=None, **params):
        """A request; gives its id."""
        message = self.make(method, params, token)
        self.write(self.line(message))
        return message["id"]

    def notify(self, method, **params):
        self.write(self.line({"jsonrpc": "2.0", "method": method, "params": params}))

    def cancel(self, number):
        self.notify("notifications/cancelled", requestId=number, reason="enough")

    def initialize(self):
        params = {"protocolVersion": self.version, "capabilities": {}, "clientInfo": {"name": "tests", "version": "1"}}
        answer = self.ask("initialize", **params)
        self.notify("notifications/initialized")
        return answer

    def begin(self):
        """Whatever there is to do before the first call."""
        if self.era == "legacy":
            self.initialize()
        return self

    def ask(self, method, **params):
        answer = self.answer(self.send(method, **params))
        assert "result" in answer, answer
        return answer["result"]

    def start(self, tool, token=None, **arguments):
        return self.send("tools/call", token, name=tool, arguments=arguments)

    def tool(self, tool, error=False, **arguments):
        answer = self.answer(self.start(tool, **arguments))
        assert "result" in answer, answer
        result = answer["result"]
        assert result["isError"] == error, result
        assert (result.get("resultType") == "complete") == (self.era == "modern"), result
        return result

    def text(self, tool, error=False, **arguments):
        return self.tool(tool, error, **arguments)["content"][0]["text"]

    # --- its end ---

    def end(self, seconds=30):
        """Close stdin and wait; gives the exit status. Nothing but messages may have been written."""
        if self.process.stdin and not self.process.stdin.closed:
            self.process.stdin.close()
        try:
            status = self.process.wait(seconds)
        finally:
            self.process.kill()
            for thread in self.threads:
                thread.join(10)
            self.process.stdout.close()
            self.process.stderr.close()
        assert self.errors.empty(), self.errors.get()
        return status


def busy(service, sandbox):
    """Wait until code runs there."""
    return host.until(lambda: service.get(f"/sandbox/{sandbox}").json()["state"] == "busy", 30, "the code to run")


def idle(service, sandbox):
    return host.until(lambda: service.get(f"/sandbox/{sandbox}").json()["state"] == "ready", 30, "the code to be stopped")
