"""A Jupyter client for the kernel of a running sandbox, beside the shim: what the kernel really says, to whom and when.
The tests run as root, so they reach its sockets through the root directory of a process of the sandbox."""

import json
import time
from pathlib import Path

import zmq
from jupyter_client import BlockingKernelClient

ANSWER_SECONDS = 60


def connection(sandbox):
    """The connection file of a sandbox's kernel, with paths that hold on the host."""
    folder = Path(f"/proc/{sandbox.init().pid}/root/run/husk")
    [file] = folder.glob("kernel-*.json")
    info = json.loads(file.read_text())
    info["ip"] = str(folder / Path(info["ip"]).name)
    return info


class Run:
    """One execution: what came back for it, in the order of arrival."""

    def __init__(self, request):
        self.id = request["header"]["msg_id"]
        self.iopub = []
        self.reply = None
        self.input_request = None  # the one that waits for an answer

    def of_type(self, *types):
        return [message for message in self.iopub if message["msg_type"] in types]

    @property
    def ended(self):
        return self.reply is not None and any(
            message["content"]["execution_state"] == "idle" for message in self.of_type("status")
        )

    def text(self, name="stdout"):
        streams = [message["content"] for message in self.of_type("stream")]
        return "".join(content["text"] for content in streams if content["name"] == name)

    @property
    def traceback(self):
        [error] = self.of_type("error")
        return "\n".join(error["content"]["traceback"])


class AttachedKernel:
    def __init__(self, sandbox):
        self.client = BlockingKernelClient()
        self.client.load_connection_info(connection(sandbox))
        self.client.start_channels(hb=False)
        self.runs = {}
        self.strays = []  # messages on iopub that belong to no run
        self.channels = {
            channel.socket: (channel, name)
            for name in ("iopub", "stdin", "shell")
            for channel in [getattr(self.client, f"{name}_channel")]
        }
        self._wait_until_subscribed()

    def close(self):
        self.client.stop_channels()

    def _wait_until_subscribed(self):
        while not self.client.iopub_channel.socket.poll(100):
            self.client.kernel_info()

    def send(self, code, stdin="none", **husk):
        """Ask for an execution; `husk` is what the shim says about it in the metadata."""
        content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}}
        content |= {"allow_stdin": stdin != "none", "stop_on_error": False}
        request = self.client.session.msg("execute_request", content, metadata={"husk": {"stdin": stdin, **husk}})
        run = self.runs[request["header"]["msg_id"]] = Run(request)
        self.client.shell_channel.send(request)
        return run

    def run(self, code, answers=(), **husk):
        """Execute and wait for the end, giving these answers to input() and then the end of the file."""
        run = self.send(code, **husk)
        waiting = list(answers)
        while not run.ended:
            self.receive()
            if run.input_request:
                self.answer(run, waiting.pop(0) if waiting else "\x04")
        return run

    def answer(self, run, value):
        reply = self.client.session.msg("input_reply", {"value": value}, parent=run.input_request)
        run.input_request = None
        self.client.stdin_channel.send(reply)

    def stop(self, run):
        """Interrupt it until it has ended, again and again as the shim does: Python overlooks a signal that comes between its last
        look and a system call that waits."""
        deadline = time.monotonic() + ANSWER_SECONDS
        while not run.ended:
            assert time.monotonic() < deadline, f"the end: not within {ANSWER_SECONDS} s"
            self.client.control_channel.send(self.client.session.msg("interrupt_request", {}))
            again = time.monotonic() + 2
            while not run.ended and time.monotonic() < again:
                self.take(again - time.monotonic())

    def until(self, condition, what):
        deadline = time.monotonic() + ANSWER_SECONDS
        while not condition():
            assert time.monotonic() < deadline, f"{what}: not within {ANSWER_SECONDS} s"
            self.receive()

    def receive(self):
        """Take in what has arrived, waiting for something if nothing has."""
        assert self.take(ANSWER_SECONDS), f"no message from the kernel within {ANSWER_SECONDS} s"

    def take(self, seconds):
        """Take in what has arrived, waiting so long if nothing has. Was there anything?"""
        ready = zmq.select(list(self.channels), [], [], max(seconds, 0))[0]
        for channel, name in (self.channels[socket] for socket in ready):
            message = channel.get_msg(timeout=0)
            run = self.runs.get(message["parent_header"].get("msg_id"))
            if run is None:
                self.strays.append(message)
            elif name == "iopub":
                run.iopub.append(message)
            elif name == "stdin":
                run.input_request = message
            else:
                run.reply = message
        return bool(ready)
