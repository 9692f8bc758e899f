"""Those that are compared, all with the same few words:

    place.client() -> client        somebody who asks, with a connection of its own
    client.create() -> kernel       when it returns, the kernel answers
    kernel.run(code) -> text        a cell; the text of its result
    kernel.close()                  when it returns, the kernel is gone

Husk over REST; a kernel of ipykernel, started and asked by jupyter_client; Jupyter Kernel Gateway over its REST API and
its websocket; Docker, which can only start a program: it has no client, but times()."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

import docker_engine
import host
import websocket
from client import TIMEOUT_SECONDS, Http
from jupyter_client import KernelManager
from service import IMAGE, free_port

KERNEL_SECONDS = 120
POLL_MS = 5


class Husk:
    """A huskd that measure.running_service() started."""

    def __init__(self, service):
        self.port = service.port

    def client(self):
        return HuskClient(self.port)


class HuskClient:
    def __init__(self, port):
        self.http = Http(port)

    def create(self):
        return HuskKernel(self.http, self.http.ask("POST", "/sandbox/create", {})["sandbox_id"])

    def health(self):
        return self.http.ask("GET", "/health")

    def close(self):
        self.http.close()


class HuskKernel:
    def __init__(self, http, sandbox_id):
        self.http, self.id = http, sandbox_id

    def run(self, code):
        answer = self.http.ask("POST", f"/sandbox/{self.id}/execute", {"code": code, "timeout": KERNEL_SECONDS})
        assert answer["status"] == "ok", answer
        return answer["stdout"] + "".join(r["data"] for r in answer["results"] if r["type"] == "text/plain")

    def close(self):
        self.http.ask("POST", f"/sandbox/{self.id}/close")


@contextlib.contextmanager
def _jupyter_environment():
    """Folders for what Jupyter writes, so that nobody's settings count and nothing is left."""
    folder = tempfile.mkdtemp(prefix="husk-test-", dir="/run")
    names = ("HOME", "IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "MPLCONFIGDIR")
    try:
        yield {**os.environ, **{name: f"{folder}/{name.lower()}" for name in names}}, Path(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Cold:
    """`python -m ipykernel_launcher` of our own environment. Place and client in one."""

    def __init__(self, environment, folder):
        self.environment, self.folder = environment, folder
        self.kernels = set()

    @classmethod
    @contextlib.contextmanager
    def place(cls):
        with _jupyter_environment() as (environment, folder):
            cold = cls(environment, folder)
            try:
                yield cold
            finally:
                for kernel in list(cold.kernels):
                    kernel.close()

    def client(self):
        return self

    def create(self):
        kernel = ColdKernel(self)
        self.kernels.add(kernel)
        kernel.wait()
        return kernel

    def close(self):
        pass


class ColdKernel:
    def __init__(self, cold):
        self.cold = cold
        path = cold.folder / f"kernel-{uuid.uuid4()}.json"
        self.manager = KernelManager(connection_file=str(path))
        self.manager.kernel_spec.argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        self.manager.start_kernel(env=cold.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.client = self.manager.blocking_client()

    def wait(self):
        """Until it answers, and its output arrives too: without that an execution would wait for its end in vain. Not
        wait_for_ready(), which goes on until there is no output for a moment."""
        self.client.start_channels(stdin=False, hb=False)
        self.client.kernel_info(reply=True, timeout=KERNEL_SECONDS)
        while not self.client.iopub_channel.socket.poll(POLL_MS):
            self.client.kernel_info(reply=True, timeout=KERNEL_SECONDS)

    def run(self, code):
        texts = []

        def take(message):
            content = message["content"]
            texts.append(content.get("text") or content.get("data", {}).get("text/plain", ""))

        reply = self.client.execute_interactive(code, allow_stdin=False, output_hook=take, timeout=KERNEL_SECONDS)
        assert reply["content"]["status"] == "ok", reply
        return "".join(texts)

    def close(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel()
        self.cold.kernels.discard(self)

    @property
    def pid(self):
        return self.manager.provisioner.process.pid


class Gateway:
    """Jupyter Kernel Gateway, as its documentation starts it."""

    def __init__(self, process, port):
        self.process, self.port = process, port

    @classmethod
    @contextlib.contextmanager
    def place(cls):
        with _jupyter_environment() as (environment, folder):
            port = free_port()
            command = [sys.executable, "-m", "kernel_gateway", "--ip=127.0.0.1", f"--port={port}", "--port_retries=0"]
            with (folder / "log").open("wb") as log:
                process = subprocess.Popen(
                    command, env=environment, cwd=folder, stdout=log, stderr=log, start_new_session=True
                )
            try:
                host.until(lambda: cls._answers(process, port, folder), 60, "Jupyter Kernel Gateway to answer")
                yield cls(process, port)
            finally:
                _end(process)

    @staticmethod
    def _answers(process, port, folder):
        assert process.poll() is None, (folder / "log").read_text()[-2000:]
        try:
            http = Http(port)
        except OSError:
            return False
        http.ask("GET", "/api")
        http.close()
        return True

    def client(self):
        return GatewayClient(self.port)

    def kernel_pids(self):
        return [process.pid for process in host.descendants(self.process.pid) if "ipykernel_launcher" in process.arguments]


def _end(process):
    """It and its kernels. They are gone when it is told to end; what is not, is killed."""
    below = host.descendants(process.pid)
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for orphan in below:
        if host.alive(orphan.pid) and host.Process(orphan.pid).arguments == orphan.arguments:
            os.kill(orphan.pid, 9)
    host.reap(set())


class GatewayClient:
    def __init__(self, port):
        self.port, self.http = port, Http(port)

    def create(self):
        return GatewayKernel(self, self.http.ask("POST", "/api/kernels", {"name": "python3"})["id"])

    def close(self):
        self.http.close()


class GatewayKernel:
    def __init__(self, client, kernel_id):
        self.client, self.id = client, kernel_id
        url = f"ws://127.0.0.1:{client.port}/api/kernels/{kernel_id}/channels"
        self.socket = websocket.create_connection(url, timeout=TIMEOUT_SECONDS, http_proxy_host=None)
        self._until_both(self._send("kernel_info_request", {}), "kernel_info_reply")

    def _send(self, kind, content):
        header = {"msg_id": uuid.uuid4().hex, "username": "", "session": "bench", "msg_type": kind, "version": "5.4"}
        message = {"header": header, "parent_header": {}, "metadata": {}, "content": content, "buffers": []}
        self.socket.send(json.dumps({**message, "channel": "shell"}))
        return header["msg_id"]

    def _until_both(self, request, reply):
        """The reply and the status idle; gives the text of outputs between."""
        texts, seen = [], set()
        while len(seen) < 2:
            message = json.loads(self.socket.recv())
            if message["parent_header"].get("msg_id") != request:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == reply:
                assert content.get("status", "ok") == "ok", content
                seen.add("reply")
            elif kind == "status" and content["execution_state"] == "idle":
                seen.add("idle")
            elif kind == "stream":
                texts.append(content["text"])
            elif kind == "execute_result":
                texts.append(content["data"]["text/plain"])
        return "".join(texts)

    def run(self, code):
        content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}}
        content |= {"allow_stdin": False, "stop_on_error": True}
        return self._until_both(self._send("execute_request", content), "execute_reply")

    def close(self):
        self.socket.close()
        self.client.http.ask("DELETE", f"/api/kernels/{self.id}")


class Docker:
    """`docker run --rm` with the tree of the kernel image, which is imported for it and removed afterwards."""

    NAME = "husk-bench"
    PROGRAMS = {
        "create": ["true"],
        "first": ["/opt/venv/bin/python", "-c", "print(1+1)"],
        "import": ["/opt/venv/bin/python", "-c", "import pandas"],
    }

    def __init__(self, environment):
        self.environment = environment

    @classmethod
    @contextlib.contextmanager
    def place(cls):
        """Gives None where there is no engine."""
        with docker_engine.engine() as environment:
            if environment is None:
                yield None
                return
            docker = cls(environment)
            docker.import_image()
            try:
                yield docker
            finally:
                docker.call("image", "rm", "-f", cls.NAME, check=False)

    def call(self, *arguments, **options):
        options = {"check": True, **options}
        subprocess.run(["docker", *arguments], env=self.environment, stdout=subprocess.DEVNULL, **options)

    def import_image(self):
        archive = subprocess.Popen(
            ["tar", "-C", str(IMAGE), "--owner=0", "--group=0", "--numeric-owner", "-c", "."], stdout=subprocess.PIPE
        )
        self.call("import", "-", self.NAME, stdin=archive.stdout)
        archive.wait()

    def times(self):
        """Seconds of one run of each program, from the call to its end."""
        taken = {}
        for key, program in self.PROGRAMS.items():
            start = time.perf_counter()
            self.call("run", "--rm", "--network", "none", self.NAME, *program)
            taken[key] = time.perf_counter() - start
        return taken
