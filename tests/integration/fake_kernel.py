"""A kernel that misbehaves on request, to be put in the place of /opt/husk/kernel.py.

    python fake_kernel.py -f CONNECTION_FILE

It speaks the Jupyter wire protocol over pyzmq's plain sockets, answers kernel_info_request and interrupt_request, and runs
code with exec(): what is printed becomes one stream message, an exception an error. Unless the first line of the code is

    # fake: WHAT [NUMBER]

Then the rest of the code is not run. WHAT is one of

    bad_signature       "forged" on stdout with a wrong signature, then "genuine", then the usual end
    replay              "once" on stdout, the same message three times
    reply_first         a failed reply; only then "output", the error, and idle
    reply_without_idle  "output", a reply, no idle
    idle_without_reply  "output", idle, no reply
    idle_again_and_again  "output", then idle three times a second, for NUMBER (10) seconds; no reply
    output_without_end  a reply, no idle, and output that never ends; nothing else is answered any more
    no_answer_at_all    nothing but busy; an interrupt_request is answered, and changes nothing
    ignore_interrupt    as before, and no answer to interrupt_request, and SIGINT does nothing
    hang                runs until it is interrupted, then ends with KeyboardInterrupt
    output_after_idle   the usual end, then "late" on stdout, belonging to the same request
    wrong_parent        "foreign" on stdout, an idle and a failed reply, all of another request; then "own" and the usual end
    huge_frame          "before", then 40 MiB on stdout in one message, then "after" and the usual end
    announced_frame     a frame that announces 2 GiB (on the stdin channel); "output" and the usual end
    endless_more        NUMBER MiB (1024) of frames that are all followed by MORE (on the stdin channel), then the last
                        one; "output" and the usual end
    too_many_frames     "lost" on stdout in a message of 1000 frames, then "output"
    garbage_json        messages whose header, parent or content is signed rubbish, then "output"
    deep_nesting        messages with 100,000 nested lists in header or content, then "output"
    many_values         a display of 3,000,000 zeros in JSON, then "output"
    wrong_types         every kind of message with members of the wrong type, then "output"; the reply too is of that kind
    invalid_utf8        "lost" with bytes that are no UTF-8, then "output"; the reply has such bytes too
    null_bytes          "a\\0b" on stdout
    unknown_types       messages of types that do not exist, then "output"
    flood               NUMBER (100000) stream messages of one line each
    unasked_input       1000 input_requests and 1000 notes that announce one, though nobody can be asked; then "output"
    input_without_note  an input_request, but not the note that tells its place; waits until it is interrupted
    note_without_input  the note, but no input_request; then "output"
    whole_text_lies     claims about files with the whole text, most of them rubbish, then 2 MiB of output
    die_before_reply    "output", then SIGKILL to itself
    die_after_busy      SIGKILL to itself right after busy
    die_after_reply     "output", a reply, then SIGKILL to itself
    exit_code           ends with the exit code NUMBER (3)
    die_at_start        every kernel that starts from now on ends at once with exit code 7 (a file in the home directory says so)
    silent_at_start     every kernel that starts from now on says nothing (likewise)

What a prompt asks (complete_request, inspect_request, is_complete_request) is answered with nothing found, unless the first
line of its code is like the above, where WHAT is one of the above, or

    reply               what follows, as JSON, is the content of the reply
    reply_alone         the same, but no idle
    unreadable_reply    the content of the reply is no JSON
    many_matches        NUMBER (2000) matches of 10 characters

All but the ones that must not do so end with busy, execute_input, outputs, execute_reply and idle, like a real kernel. The
environment variables FAKE_DIE_AT_START and FAKE_SILENT_AT_START do what die_at_start and silent_at_start do, for the first
kernel of a sandbox.
"""

import argparse
import contextlib
import hashlib
import hmac
import io
import json
import os
import signal
import socket
import struct
import sys
import threading
import time
import traceback
import uuid
from datetime import datetime, timezone

import zmq

DELIMITER = b"<IDS|MSG>"
MIB = 1024 * 1024
HOME = os.environ.get("HOME", "/tmp")
NOTHING_FOUND = {
    "complete_request": {"status": "ok", "matches": [], "cursor_start": 0, "cursor_end": 0, "metadata": {}},
    "inspect_request": {"status": "ok", "found": False, "data": {}, "metadata": {}},
    "is_complete_request": {"status": "unknown"},
}


def flag_file(name):
    return os.path.join(HOME, f".fake_{name}")


class RawChannel(threading.Thread):
    """The stdin channel without libzmq, which cannot be talked into sending what is wrong. It accepts a client, does the
    handshake of ZMTP 3.0 and then waits for something to send."""

    def __init__(self, path):
        super().__init__(daemon=True)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen()
        self.client = None
        self.connected = threading.Event()

    def run(self):
        while True:
            client, _ = self.listener.accept()
            try:
                client.sendall(b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32))
                ready = b"\x05READY" + b"\x0bSocket-Type" + struct.pack(">I", 6) + b"ROUTER"
                client.sendall(b"\x04" + bytes([len(ready)]) + ready)
                client.recv(4096)
            except OSError:
                continue
            self.client = client
            self.connected.set()

    def frame(self, data, more, announce=None):
        size = len(data) if announce is None else announce
        self.client.sendall(bytes([0x02 | int(more)]) + struct.pack(">Q", size) + data)


class FakeKernel:
    def __init__(self, connection):
        self.key = connection["key"].encode()
        self.session = uuid.uuid4().hex
        self.count = 0
        self.namespace = {"__name__": "__main__"}
        self.running = None  # a request that only an interrupt ends
        context = zmq.Context()

        def path(channel):
            return f"{connection['ip']}-{connection[channel + '_port']}"

        def bind(kind, channel):
            bound = context.socket(kind)
            bound.linger = 500
            bound.bind(f"ipc://{path(channel)}")
            return bound

        self.shell = bind(zmq.ROUTER, "shell")
        self.control = bind(zmq.ROUTER, "control")
        self.iopub = bind(zmq.XPUB, "iopub")
        self.raw = RawChannel(path("stdin"))
        self.raw.start()

    # ---- messages -----------------------------------------------------------------------------

    def header(self, kind):
        return {
            "msg_id": uuid.uuid4().hex,
            "session": self.session,
            "username": "fake",
            "date": datetime.now(timezone.utc).isoformat(),
            "msg_type": kind,
            "version": "5.3",
        }

    def frames(self, kind, content, parent):
        """The five frames behind the delimiter. Bytes stand for themselves, all else becomes JSON."""
        parts = [self.header(kind), parent, {}, content]
        return self.signed([part if isinstance(part, bytes) else json.dumps(part).encode() for part in parts])

    def signed(self, parts):
        digest = hmac.new(self.key, b"".join(parts), hashlib.sha256).hexdigest().encode()
        return [digest, *parts]

    def publish(self, kind, content, parent):
        self.iopub.send_multipart([kind.encode(), DELIMITER, *self.frames(kind, content, parent)])

    def reply(self, stream, identity, kind, content, parent):
        stream.send_multipart([*identity, DELIMITER, *self.frames(kind, content, parent)])

    def stdout(self, request, text):
        self.publish("stream", {"name": "stdout", "text": text}, request.header)

    def status(self, request, state):
        self.publish("status", {"execution_state": state}, request.header)

    def execute_reply(self, request, content=None):
        content = content or {"status": "ok", "execution_count": self.count, "payload": [], "user_expressions": {}}
        self.reply(self.shell, request.identity, "execute_reply", content, request.header)

    # ---- the loop -----------------------------------------------------------------------------

    def serve(self):
        self.publish("status", {"execution_state": "starting"}, {})
        poller = zmq.Poller()
        for stream in (self.shell, self.control, self.iopub):
            poller.register(stream, zmq.POLLIN)
        while True:
            for stream, _ in poller.poll():
                parts = stream.recv_multipart()
                if stream is self.iopub:  # a subscription
                    continue
                request = Request(parts)
                if not hmac.compare_digest(self.signed(request.signed)[0], request.signature):
                    print("a request has a wrong signature", file=sys.stderr)
                    continue
                self.handle(stream, request)

    def handle(self, stream, request):
        kind = request.header["msg_type"]
        if kind == "kernel_info_request":
            self.status(request, "busy")
            self.reply(
                stream,
                request.identity,
                "kernel_info_reply",
                {
                    "status": "ok",
                    "protocol_version": "5.3",
                    "implementation": "fake",
                    "implementation_version": "1",
                    "language_info": {"name": "python", "version": sys.version.split()[0]},
                },
                request.header,
            )
            self.status(request, "idle")
        elif kind == "interrupt_request":
            self.interrupt(request)
        elif kind == "execute_request":
            self.execute(request)
        elif kind in NOTHING_FOUND:
            self.answer(request, NOTHING_FOUND[kind])

    def interrupt(self, request):
        what = self.running and self.running[0]
        if what == "ignore_interrupt":
            return
        self.reply(self.control, request.identity, "interrupt_reply", {"status": "ok"}, request.header)
        if what == "hang":
            running, self.running = self.running[1], None
            self.fail(running, "KeyboardInterrupt", "", ["Traceback", "KeyboardInterrupt: "])
            self.status(running, "idle")

    def fail(self, request, name, value, lines):
        content = {"ename": name, "evalue": value, "traceback": lines}
        self.publish("error", content, request.header)
        self.execute_reply(request, {"status": "error", "execution_count": self.count, **content})

    def execute(self, request):
        code = request.content["code"]
        self.count += 1
        self.status(request, "busy")
        self.publish("execute_input", {"code": code, "execution_count": self.count}, request.header)
        first = code.split("\n", 1)[0]
        if first.startswith("# fake:"):
            what, *number = first.removeprefix("# fake:").split()
            getattr(self, f"fake_{what}")(request, *map(int, number))
        else:
            self.run(request, code)

    def answer(self, request, nothing):
        first, _, rest = request.content["code"].partition("\n")
        self.status(request, "busy")
        if not first.startswith("# fake:"):
            self.answer_with(request, nothing)
            return
        what, *number = first.removeprefix("# fake:").split()
        if what == "reply":
            self.answer_with(request, json.loads(rest))
        elif what == "reply_alone":
            self.answer_with(request, json.loads(rest), idle=False)
        elif what == "unreadable_reply":
            self.answer_with(request, b'{"status": "ok", "matches": ["\xff"')
        elif what == "many_matches":
            count = int(number[0]) if number else 2000
            self.answer_with(request, {**nothing, "matches": [f"match{n:05}" for n in range(count)]})
        else:
            getattr(self, f"fake_{what}")(request, *map(int, number))

    def answer_with(self, request, content, idle=True):
        kind = request.header["msg_type"].replace("request", "reply")
        self.reply(self.shell, request.identity, kind, content, request.header)
        if idle:
            self.status(request, "idle")

    def run(self, request, code):
        output = io.StringIO()
        try:
            with contextlib.redirect_stdout(output):
                exec(compile(code, "<code>", "exec"), self.namespace)
        except BaseException as error:
            self.stdout(request, output.getvalue())
            self.fail(request, type(error).__name__, str(error), traceback.format_exc().splitlines())
            self.status(request, "idle")
            return
        if output.getvalue():
            self.stdout(request, output.getvalue())
        self.end(request)

    def end(self, request):
        self.execute_reply(request)
        self.status(request, "idle")

    def end_with_output(self, request, text="output"):
        self.stdout(request, text)
        self.end(request)

    # ---- misbehaviour -------------------------------------------------------------------------

    def fake_bad_signature(self, request):
        frames = self.frames("stream", {"name": "stdout", "text": "forged"}, request.header)
        self.iopub.send_multipart([b"stream", DELIMITER, b"0" * 64, *frames[1:]])
        self.iopub.send_multipart([b"stream", DELIMITER, b"", *frames[1:]])
        self.end_with_output(request, "genuine")

    def fake_replay(self, request):
        frames = self.frames("stream", {"name": "stdout", "text": "once"}, request.header)
        for _ in range(3):
            self.iopub.send_multipart([b"stream", DELIMITER, *frames])
        self.end(request)

    def fake_reply_first(self, request):
        error = {"ename": "ValueError", "evalue": "once", "traceback": ["once"]}
        self.execute_reply(request, {"status": "error", "execution_count": self.count, **error})
        self.stdout(request, "output")
        self.publish("error", error, request.header)
        self.status(request, "idle")

    def fake_reply_without_idle(self, request):
        self.stdout(request, "output")
        self.execute_reply(request)

    def fake_idle_without_reply(self, request):
        self.stdout(request, "output")
        self.status(request, "idle")

    def fake_idle_again_and_again(self, request, seconds=10):
        self.stdout(request, "output")
        for _ in range(3 * seconds):
            self.status(request, "idle")
            time.sleep(0.33)

    def fake_output_without_end(self, request):
        self.execute_reply(request)
        while True:
            self.stdout(request, "x" * 65536)
            time.sleep(0.001)

    def fake_no_answer_at_all(self, request):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self.running = ("no_answer_at_all", request)

    def fake_ignore_interrupt(self, request):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self.running = ("ignore_interrupt", request)

    def fake_hang(self, request):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the message is enough
        self.running = ("hang", request)

    def fake_output_after_idle(self, request):
        self.end_with_output(request)
        time.sleep(0.1)
        self.stdout(request, "late")

    def ask(self, request):
        self.raw.connected.wait(10)
        parts = [DELIMITER, *self.frames("input_request", {"prompt": "?", "password": False}, request.header)]
        with contextlib.suppress(OSError):
            for part in parts:
                self.raw.frame(part, more=part is not parts[-1])

    def fake_unasked_input(self, request):
        for _ in range(1000):
            self.publish("husk_input", {}, request.header)
            self.ask(request)
        self.end_with_output(request)

    def fake_input_without_note(self, request):
        self.ask(request)
        self.fake_hang(request)

    def fake_note_without_input(self, request):
        self.publish("husk_input", {}, request.header)
        self.end_with_output(request)

    def fake_whole_text_lies(self, request):
        for path in ("", "x" * 1000, "a\nb", "\x1b[31m", "é", 7, None, ["a"], "honest.txt"):
            self.publish("husk_whole_text", {"name": "stdout", "path": path}, request.header)
            self.publish("husk_whole_text", {"name": path, "path": path}, request.header)
        for _ in range(2):
            self.stdout(request, "y" * MIB)
        self.end(request)

    def fake_wrong_parent(self, request):
        real, request.header = request.header, {**request.header, "msg_id": request.header["msg_id"] + "0"}
        self.stdout(request, "foreign")
        self.fail(request, "ForeignError", "of another request", [])
        self.status(request, "idle")
        request.header = real
        self.end_with_output(request, "own")

    def fake_huge_frame(self, request):
        self.stdout(request, "before")
        self.stdout(request, "x" * (40 * MIB))
        self.end_with_output(request, "after")

    def fake_announced_frame(self, request):
        self.raw.connected.wait(10)
        with contextlib.suppress(OSError):
            self.raw.frame(b"x" * 1000, more=False, announce=2 * 1024 * MIB)
        self.end_with_output(request)

    def fake_endless_more(self, request, mebibytes=1024):
        self.raw.connected.wait(10)
        chunk = b"x" * 65536
        with contextlib.suppress(OSError):
            for _ in range(mebibytes * MIB // len(chunk)):
                self.raw.frame(chunk, more=True)
            self.raw.frame(b"the last one", more=False)
        self.end_with_output(request)

    def fake_too_many_frames(self, request):
        frames = self.frames("stream", {"name": "stdout", "text": "lost"}, request.header)
        self.iopub.send_multipart([b"stream", DELIMITER, *frames, *[b"buffer"] * 1000])
        self.iopub.send_multipart([*[b"prefix"] * 1000, DELIMITER, *frames])
        self.end_with_output(request)

    def fake_garbage_json(self, request):
        parent = json.dumps(request.header).encode()
        header = json.dumps(self.header("stream")).encode()
        for rubbish in (
            b"",
            b"{",
            b"]",
            b"nonsense",
            b"\xff\xfe",
            b'{"a":}',
            b"[1,2",
            b'"',
            b"{}" * 1000,
            b"null",
            b"7",
        ):
            for parts in (
                [rubbish, parent, b"{}", b"{}"],
                [header, rubbish, b"{}", b"{}"],
                [header, parent, rubbish, rubbish],
            ):
                self.iopub.send_multipart([b"stream", DELIMITER, *self.signed(parts)])
                self.shell.send_multipart([*request.identity, DELIMITER, *self.signed(parts)])
        self.iopub.send_multipart([b"only one frame"])
        self.iopub.send_multipart([DELIMITER])
        self.end_with_output(request)

    def fake_deep_nesting(self, request):
        deep = b"[" * 100_000 + b"]" * 100_000
        data = b'{"data": {"application/json": ' + deep + b'}, "metadata": {}}'
        self.publish("display_data", data, request.header)
        self.publish("display_data", deep, request.header)
        parts = [deep[:60_000], json.dumps(request.header).encode(), b"{}", b"{}"]
        self.iopub.send_multipart([b"stream", DELIMITER, *self.signed(parts)])
        self.end_with_output(request)

    def fake_many_values(self, request):
        data = b'{"data": {"application/json": [' + b"0," * 3_000_000 + b'0]}, "metadata": {}}'
        self.publish("display_data", data, request.header)
        self.end_with_output(request)

    def fake_wrong_types(self, request):
        kinds = (
            "stream",
            "display_data",
            "execute_result",
            "update_display_data",
            "clear_output",
            "error",
            "status",
            "execute_input",
        )
        members = (
            "name text data metadata transient display_id wait ename evalue traceback execution_state execution_count code"
        ).split()
        for value in (None, 7, -1, 1.5, True, "text", [], [1, [2]], {}, {"text/plain": 7}, {"a": {"b": []}}):
            for kind in kinds:
                self.publish(kind, {member: value for member in members if member != "wait"}, request.header)
                self.publish(kind, value, request.header)
        self.publish(
            "display_data", {"data": {"text/plain": ["a", "b", "c"], "image/png": 7, "": None}}, request.header
        )
        self.stdout(request, "output")
        self.execute_reply(request, {"status": 7, "execution_count": "many", "ename": [], "evalue": {}, "traceback": 5})
        self.status(request, "idle")

    def fake_invalid_utf8(self, request):
        self.publish("stream", b'{"name": "stdout", "text": "lost \xff\xfe\xed\xa0\x80"}', request.header)
        self.stdout(request, "output")
        self.reply(self.shell, request.identity, "execute_reply", b'{"status": "ok", "x": "\xff"}', request.header)
        self.status(request, "idle")

    def fake_null_bytes(self, request):
        self.end_with_output(request, "a\0b")

    def fake_unknown_types(self, request):
        for kind in ("", "x" * 10_000, "comm_open", "debug_event", "iopub_welcome", "shutdown_reply", "\u0416"):
            self.publish(kind, {"anything": [1, 2, 3]}, request.header)
        self.end_with_output(request)

    def fake_flood(self, request, lines=100_000):
        for number in range(lines):
            self.stdout(request, f"line {number}\n")
        self.end(request)

    def settle(self):
        time.sleep(0.2)  # libzmq sends from a thread of its own

    def die(self):
        self.settle()
        os.kill(os.getpid(), signal.SIGKILL)

    def fake_die_before_reply(self, request):
        self.stdout(request, "output")
        self.die()

    def fake_die_after_busy(self, request):
        self.die()

    def fake_die_after_reply(self, request):
        self.stdout(request, "output")
        self.execute_reply(request)
        self.die()

    def fake_exit_code(self, request, code=3):
        self.settle()
        os._exit(code)

    def fake_die_at_start(self, request):
        open(flag_file("die_at_start"), "w").close()
        self.end_with_output(request)

    def fake_silent_at_start(self, request):
        open(flag_file("silent_at_start"), "w").close()
        self.end_with_output(request)


class Request:
    def __init__(self, parts):
        at = parts.index(DELIMITER)
        self.identity = parts[:at]
        self.signature = parts[at + 1]
        self.signed = parts[at + 2 : at + 6]
        self.header = json.loads(parts[at + 2])
        self.content = json.loads(parts[at + 5])


def asked(name):
    return os.path.exists(flag_file(name)) or f"FAKE_{name.upper()}" in os.environ


def main():
    parser = argparse.ArgumentParser(description="A kernel that misbehaves on request.")
    parser.add_argument("-f", dest="connection_file", required=True, metavar="CONNECTION_FILE")
    path = parser.parse_args().connection_file
    if asked("die_at_start"):
        print("the fake kernel was told to die", file=sys.stderr)
        sys.exit(7)
    if asked("silent_at_start"):
        print("the fake kernel was told to say nothing", file=sys.stderr)
        sys.stderr.flush()
        time.sleep(3600)
    with open(path, encoding="utf-8") as file:
        FakeKernel(json.load(file)).serve()


if __name__ == "__main__":
    main()
