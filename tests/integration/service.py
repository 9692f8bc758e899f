"""The service under test, and a small client for it."""

import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import Future
from pathlib import Path

import requests

import host

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = (ROOT / os.environ.get("HUSK_BUILD", "build")).resolve()
# Packages of Node.js, the same ones with and without sanitizers; node itself comes with the Python environment.
NODE_PACKAGES = (PROGRAMS.parent if PROGRAMS.name == "san" else PROGRAMS) / "node"
NODE = Path(sys.executable).parent / "node"
# What `default` points to may change while the tests run.
IMAGE = Path(os.environ.get("HUSK_TEST_IMAGE", "/var/lib/husk/images/default")).resolve()

# What huskd is started by, if by anything: an ordinary user's needs a delegated cgroup of its own (tests/vm).
LAUNCHER = shlex.split(os.environ.get("HUSK_TEST_LAUNCHER", ""))

# Generous: what is measured against them is whether something ends, not how fast it is.
START_SECONDS = 30
STOP_SECONDS = 30
ANSWER_SECONDS = 90


class StartFailed(Exception):
    """huskd ended instead of starting; `code` is its exit status and the text is what it said."""

    def __init__(self, code, text):
        super().__init__(f"exit status {code}: {text}")
        self.code, self.text = code, text


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def later(function, *arguments, **options):
    """Run a function in a thread of its own; its result is a future."""
    future = Future()

    def work():
        try:
            future.set_result(function(*arguments, **options))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return future


def problem(answer, status, code=None):
    """Check that an answer is a problem (RFC 9457) as API.md promises, and give it back."""
    assert answer.status_code == status, f"{answer.status_code} {answer.text[:500]}"
    assert answer.headers["Content-Type"].split(";")[0] == "application/problem+json", answer.headers
    assert answer.headers["X-Request-Id"]
    body = answer.json()
    assert body["status"] == status
    for key in ("type", "title", "detail", "code"):
        assert isinstance(body[key], str) and body[key], body
    assert body["code"] == body["code"].lower() and " " not in body["code"]
    if code is not None:
        assert body["code"] == code, body
    return body


def sanitized():
    """Were the programs built with AddressSanitizer? Then they need a multiple of the memory."""
    return b"__asan_init" in (PROGRAMS / "husk-shim").read_bytes()


def sanitized_huskd():
    return b"__asan_init" in (PROGRAMS / "huskd").read_bytes()


class Service:
    """One huskd with a state directory of its own, which may be stopped and started again. Without a warm pool, unless
    `pool` says otherwise (None: the default's): most tests are about sandboxes being made, and count what there is."""

    def __init__(self, folder, *arguments, image=IMAGE, pool=0, config=None, environment=None, user=None, listen=None):
        self.folder = Path(folder)
        self.state = self.folder / "state"
        self.log_path = self.folder / "log"
        self.cache = self.folder / "cache"
        self.port = free_port()
        self.listen = listen or f"127.0.0.1:{self.port}"
        self.url = f"http://127.0.0.1:{self.port}"
        self.verify = True  # or the certificate to trust, for https
        self.image = image
        self.pool = pool
        self.arguments = list(arguments)
        self.environment = {"PATH": os.environ["PATH"], "CANARY": "of-the-host", **(environment or {})}
        self.environment |= {key: value for key, value in os.environ.items() if key.endswith("SAN_OPTIONS")}
        if LAUNCHER:
            self.environment |= {key: os.environ[key] for key in ("XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS")}
        self.user = user
        self.stop_seconds = STOP_SECONDS
        self.location = PROGRAMS
        self.program = "huskd"
        self.process = None
        if config is not None:
            path = self.folder / "husk.conf"
            path.write_text(config)
            self.arguments += ["--config", str(path)]

    # --- life ---

    def move_programs(self, folder):
        """Run copies of them: not every user can go where they were built, and huskd must not care."""
        folder.mkdir(exist_ok=True)
        for name in (
            "huskd husk-anchor husk-keeper husk-shim husk-porter husk-fetcher husk-init husk-zygote.so".split()
        ):
            shutil.copy2(PROGRAMS / name, folder / name)
        self.location = folder

    def command(self, *arguments):
        return [
            *LAUNCHER,
            str(self.location / self.program),
            "--state", str(self.state),
            "--image", str(self.image),
            "--listen", self.listen,
            "--package-cache", str(self.cache),
            *([] if self.pool is None else ["--pool", str(self.pool)]),
            *self.arguments,
            *arguments,
        ]  # fmt: skip

    def launch(self, *arguments):
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                self.command(*arguments),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.environment,
                cwd="/",
                **(self.user or {}),
            )

    def start(self, *arguments):
        """Start huskd and wait until it is healthy."""
        self.launch(*arguments)
        host.until(self.ready, START_SECONDS, "huskd to become healthy")
        return self

    def ready(self):
        code = self.process.poll()
        if code is not None:
            self.process = None
            raise StartFailed(code, self.log())
        try:
            return self.get("/health", timeout=5).status_code == 200
        except requests.RequestException:
            return False

    def fails_to_start(self, *arguments):
        """Start huskd and expect it to end by itself; gives the StartFailed."""
        self.launch(*arguments)
        try:
            code = self.process.wait(START_SECONDS)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            self.process = None
        assert code != 0, self.log()
        return StartFailed(code, self.log())

    def stop(self, number=signal.SIGTERM):
        """Send a signal to huskd and wait for its end; gives its exit status."""
        self.process.send_signal(number)
        code = self.process.wait(self.stop_seconds)
        self.process = None
        return code

    def end(self):
        """End huskd and all its sandboxes, also when huskd itself is gone already."""
        if self.process is None and self.has_socket():
            self.start()
        if self.process is not None:
            assert self.stop(signal.SIGINT) == 0, self.log()[-2000:]
        host.until(self.is_gone, self.stop_seconds, f"nothing of {self.state} to be left")

    def kill(self):
        """For a service that does not do what it should: the anchor's end is the end of all of it."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None
        for process in host.processes():
            if process.program == "husk-anchor" and str(self.state) in process.arguments:
                os.kill(process.pid, signal.SIGKILL)
        host.until(lambda: not self.programs("husk-shim"), self.stop_seconds, "the kernel to end the service")

    def has_socket(self):
        return (self.state / "keeper.sock").exists()

    def log(self):
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    # --- requests ---

    def request(self, method, path, **options):
        options.setdefault("timeout", ANSWER_SECONDS)
        options.setdefault("verify", self.verify)
        with requests.Session() as session:
            session.trust_env = False
            return session.request(method, self.url + path, **options)

    def get(self, path, **options):
        return self.request("GET", path, **options)

    def post(self, path, **options):
        return self.request("POST", path, **options)

    def delete(self, path, **options):
        return self.request("DELETE", path, **options)

    def create(self, **fields):
        answer = self.post("/sandbox/create", json=fields)
        assert answer.status_code == 200, answer.text
        return Sandbox(self, answer.json())

    def sandboxes(self):
        answer = self.get("/sandboxes")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def adopt(self, sandbox_id):
        """A client for a sandbox that exists already."""
        return Sandbox(self, {"sandbox_id": sandbox_id})

    # --- seen from outside ---

    def is_gone(self):
        """No process, no cgroup and no mount of it is left."""
        return not (
            [p for p in host.processes() if str(self.state) in p.arguments and p.state != "Z"]
            or host.cgroups_with(self.tree)
            or host.mounts_with(str(self.state))
        )

    @property
    def tree(self):
        """The name of its cgroup in every hierarchy: it is made from the state directory."""
        return "husk" + str(self.state).replace("-", "--").replace("/", "-")

    def programs(self, name):
        """The processes of this service that run one of our programs."""
        return [p for p in host.processes() if p.program == name and p.in_cgroup(self.tree)]

    def keeper(self):
        """The keeper, not one of its children that has not become something else yet."""
        anchor = self.anchor().pid
        [process] = [p for p in self.programs("husk-keeper") if p.parent == anchor]
        return process

    def anchor(self, outside=False):
        """Pid 1 of the namespace P; or, the same program, the warden that cleans up when P has ended."""
        depth = 1 if outside else 2
        found = [p for p in host.processes() if p.program == "husk-anchor" and str(self.state) in p.arguments]
        [process] = [p for p in found if len(p.status("NSpid").split()) == depth]
        return process


class Stream:
    """A streamed execution or command: an iterator of events, each with its name under "event". A context manager: leaving it
    closes the connection."""

    def __init__(self, sandbox, route, body, lines):
        self.lines = lines
        kind = "application/x-ndjson" if lines else "text/event-stream"
        self.session = requests.Session()
        self.session.trust_env = False
        self.answer = self.session.post(
            f"{sandbox.service.url}{sandbox.path}/{route}",
            json=body,
            headers={"Accept": kind},
            stream=True,
            timeout=ANSWER_SECONDS,
            verify=sandbox.service.verify,
        )
        if self.answer.status_code == 200:
            assert self.answer.headers["Content-Type"] == kind
        self.comments = []
        self._events = self._parse()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.answer.close()
        self.session.close()

    def _parse(self):
        assert self.answer.status_code == 200, self.answer.text
        name = None
        for line in self.answer.iter_lines(chunk_size=None, delimiter=b"\n"):
            assert line.isascii()
            if self.lines:
                if line:
                    yield json.loads(line)
            elif line.startswith(b":"):
                self.comments.append(line.decode())
            elif line.startswith(b"event: "):
                name = line.removeprefix(b"event: ").decode()
            elif line.startswith(b"data: "):
                event = json.loads(line.removeprefix(b"data: "))
                assert event["event"] == name
                yield event
            else:
                assert line == b""

    def __iter__(self):
        return self._events

    def next(self, name):
        """The next event, which must be one of this name."""
        event = next(self._events)
        assert event["event"] == name, event
        return event

    def until(self, name):
        """Skip to the next event of this name."""
        return next(event for event in self._events if event["event"] == name)

    def rest(self):
        """All that is left, and that it ends properly."""
        events = list(self._events)
        assert events[-1]["event"] == "end", events[-1:]
        return events


def joined(events):
    """The answer that the events of a stream amount to, in the form of an answer that came whole."""
    answer = {"stdout": "", "stderr": "", "traceback": None, "results": [], "files": []}
    for event in events:
        event = dict(event)
        kind = event.pop("event")
        if kind in ("stdout", "stderr"):
            answer[kind] += event["text"]
        elif kind == "result":
            answer["results"] += event["results"]
        elif kind == "update":
            first = next(i for i, entry in enumerate(answer["results"]) if entry["output"] == event["output"])
            kept = [entry for entry in answer["results"] if entry["output"] != event["output"]]
            answer["results"] = kept[:first] + event["results"] + kept[first:]
        elif kind == "clear":
            answer |= {"stdout": "", "stderr": "", "results": []}
        elif kind == "error":
            answer["traceback"] = event["traceback"]
        elif kind == "file":
            answer["files"].append(event)
        elif kind == "end":
            answer |= event
    return answer


class Sandbox:
    def __init__(self, service, created):
        self.service = service
        self.created = created
        self.id = created["sandbox_id"]
        self.path = f"/sandbox/{self.id}"

    def post(self, route, **options):
        return self.service.post(f"{self.path}/{route}", **options)

    def execute(self, code, **fields):
        """Run code and give the answer; that the request worked is checked."""
        answer = self.post("execute", json={"code": code, **fields})
        assert answer.status_code == 200, answer.text
        return answer.json()

    def run(self, code, **fields):
        """Run code that must succeed, and give its stdout."""
        answer = self.execute(code, **fields)
        assert answer["status"] == "ok", answer
        return answer["stdout"]

    def stream(self, code, lines=False, **fields):
        """Run code and get its events as they come: server-sent events, or JSON lines."""
        return Stream(self, "execute", {"code": code, **fields}, lines)

    def command(self, command, **fields):
        """Run a command and give the answer; that the request worked is checked."""
        answer = self.post("command", json={"command": command, **fields})
        assert answer.status_code == 200, answer.text
        return answer.json()

    def command_stream(self, command, lines=False, **fields):
        return Stream(self, "command", {"command": command, **fields}, lines)

    def value(self, expression):
        """An expression of Python, evaluated inside and brought here by its repr()."""
        return eval(self.run(f"print(repr(({expression})))"), {"__builtins__": {}})

    def info(self):
        answer = self.service.get(self.path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def until_state(self, state, seconds=20):
        return host.until(lambda: self.info()["state"] == state, seconds, f"state {state}")

    def close(self):
        return self.post("close")

    def works(self):
        return self.value("6 * 7") == 42

    # --- seen from outside ---

    def namespace(self, kind):
        return self.value(f"__import__('os').readlink('/proc/self/ns/{kind}')")

    def processes(self):
        """The processes inside, as the host sees them."""
        return host.within("pid", self.namespace("pid"))

    def init(self):
        return next(p for p in self.processes() if p.status("NSpid").split()[-1] == "1")

    def cgroups(self):
        return host.cgroups_with(self.id)

    def shim(self):
        return next(p for p in host.within("net", self.namespace("net")) if p.program == "husk-shim")
