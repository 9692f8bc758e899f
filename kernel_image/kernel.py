"""The IPython kernel of a sandbox.

    /opt/venv/bin/python -P /opt/husk/kernel.py -f CONNECTION_FILE

It is ipykernel with what Husk needs changed: output that is prompt, complete and bounded per message,
no debugger, no heartbeat, no history file, no subshells. A zygote uses the two halves apart:

    prepare()                 before the fork: imports, configuration, the shell with its magics.
                              Starts no thread, opens no socket, keeps no secret.
    serve(connection_file)    after the fork: the sockets, the threads, the loop. Does not return.
"""

import sys

# ipykernel imports debugpy if it can, for a debugger that no client of Husk can reach.
sys.modules["debugpy"] = None

import argparse
import codecs
import contextlib
import fcntl
import faulthandler
import json
import os
import select
import signal
import subprocess
import tempfile
import termios
import threading
import uuid
import warnings
from functools import partial
from time import monotonic

import zmq
import tornado.platform.asyncio  # or the first loop imports it, after the fork
from ipykernel.control import ControlThread
from ipykernel.iostream import OutStream
from ipykernel.ipkernel import IPythonKernel
from ipykernel.kernelapp import IPKernelApp
from ipykernel.thread import CONTROL_THREAD_NAME
from ipykernel.zmqshell import ZMQInteractiveShell
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.profiledir import ProfileDir
from IPython.utils.text import LSString, SList
from jupyter_client.session import Session, json_default
from jupyter_client.jsonutil import json_clean
from traitlets import default
from traitlets.config import Config
from zmq.eventloop.zmqstream import ZMQStream

# The reader takes frames of up to 32 MiB. Leave room for what a message has around its content.
MESSAGE_LIMIT = 24 * 1024 * 1024

# Text per stream message. A character takes at most 4 bytes.
STREAM_CHUNK_BYTES = 256 * 1024

# Messages that wait in the kernel for a slow reader. See KernelApp._bind_socket.
IOPUB_QUEUE = 64

# The user's code becomes __main__, so this module needs another name to be found by.
MODULE = "husk_kernel"
sys.modules[MODULE] = sys.modules[__name__]

CONFIG = Config(
    {
        "HistoryManager": {"enabled": False},
        # The readers are programs; and a traceback without colours takes half the time to format.
        "InteractiveShell": {"colors": "nocolor"},
        # The end of an execution is known by its reply and its idle status together, so the kernel
        # need not give the one a head start over the other.
        "IPythonKernel": {"_execute_sleep": 0.0},
        "IPKernelApp": {"log_level": "WARN"},
    }
)


# ---- messages ---------------------------------------------------------------------------------


def pack(value):
    """JSON in UTF-8 that a strict reader accepts, whatever the user's strings contain."""
    try:
        text = json.dumps(value, default=json_default, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError):
        text = json.dumps(json_clean(value), default=json_default, ensure_ascii=False, allow_nan=False)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="replace")  # lone surrogates, such as in undecodable file names


def megabytes(size):
    return f"{size / 1024 / 1024:.1f} MB"


def smaller(msg, size):
    """What to send in place of a message that the reader would refuse."""
    content = msg["content"] if isinstance(msg["content"], dict) else {}
    note = f"[{megabytes(size)} of output is too large to be shown. Save it to a file instead.]"
    if "data" in content and "metadata" in content:  # display_data, update_display_data, execute_result
        content = {**content, "data": {"text/plain": note}, "metadata": {}}
    elif "traceback" in content:  # error, and execute_reply after one
        head = str(content.get("evalue", ""))[:10_000]
        content = {**content, "evalue": f"{head} {note}", "traceback": [f"{content.get('ename')}: {head}", note]}
    else:
        content = {"status": "error", "ename": "MessageTooLarge", "evalue": note, "traceback": []}
    return {**msg, "content": content}


class LimitedSession(Session):
    """A session that never sends a message too large for the reader."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.pack = pack

    def serialize(self, msg, ident=None):
        frames = super().serialize(msg, ident)
        size = sum(map(len, frames))
        if size > MESSAGE_LIMIT:
            frames = super().serialize(smaller(msg, size), ident)
        return frames

    def send(self, stream, msg_or_type, *args, buffers=None, **kwargs):
        # Buffers are attachments of widget messages. One that is too large cannot be shortened.
        if buffers and any(memoryview(buffer).nbytes > MESSAGE_LIMIT for buffer in buffers):
            buffers = None
        return super().send(stream, msg_or_type, *args, buffers=buffers, **kwargs)


# ---- output -----------------------------------------------------------------------------------


NO_BYTES = bytes(4)  # what FIONREAD says of an empty pipe


class Stream(OutStream):
    """stdout or stderr: what is written arrives within milliseconds, in order, in messages of bounded
    size, and before the cell that wrote it is reported as finished.

    Three sources write here: Python code of this process (write); whatever writes to file descriptor 1
    or 2, such as subprocesses and C libraries, through a pipe; forked children, through the same pipe.
    Only the iopub thread sends, so order is kept and an interrupt cannot hit a message in the making.
    """

    PROMPT = 0.004  # seconds a line waits for more of the same
    FLOODED = 0.05  # the same while output pours
    FLOOD_WRITES = 64  # writes in one interval that count as pouring
    HIGH_WATER = 1024 * 1024  # characters after which a writer waits for the sender
    PIPE_SIZE = 256 * 1024
    CHILD_BUFFER = 8 * 1024

    flush_interval = PROMPT

    def __init__(self, session, pub_thread, name, **kwargs):
        self._pieces = []  # [(parent header, [text, ...]), ...], oldest first
        self._size = 0  # characters in them
        self._written = 0  # texts ever appended
        self._taken = 0  # and taken out again
        self._last_parent = self._last_texts = None  # the newest of them
        self._forked = False
        self._pipe_lock = threading.Lock()
        self._next_look = 0.0  # into the pipe
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        super().__init__(session, pub_thread, name, **kwargs)
        os.register_at_fork(after_in_child=self._after_fork)

    def fileno(self):
        return self._original_stdstream_fd

    def write(self, text):
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if self.pub_thread is None:
            raise ValueError("I/O operation on closed file")
        if self._forked:
            self._append(text)
            if "\n" in text or self._size >= self.CHILD_BUFFER:
                self._write_to_pipe()
            return len(text)
        # A million prints come through here, so do not ask the system each time. In 0.2 ms no
        # subprocess starts, writes and ends.
        now = monotonic()
        if now > self._next_look:
            self._next_look = now + 0.0002
            self._drain_pipe()
        self._append(text)
        if not self._flush_pending or self._size >= self.HIGH_WATER:
            self._send_soon()
        return len(text)

    def flush(self):
        if self._forked:
            self._write_to_pipe()
            return
        self._drain_pipe()
        if threading.current_thread().name == CONTROL_THREAD_NAME:
            # Must stay able to take an interrupt, however slow the reader is.
            self._queue_flush()
        else:
            self._flush_and_wait()

    def _append(self, text):
        parent = self._parent_header.get(None) or self._parent_header_global
        with self._buffer_lock:
            if parent is not self._last_parent:
                self._last_parent, self._last_texts = parent, []
                self._pieces.append((parent, self._last_texts))
            self._last_texts.append(text)
            self._size += len(text)
            self._written += 1

    def _take(self, limit=None):
        """Take out all, or the texts up to the one with this number."""
        with self._buffer_lock:
            if limit is None or limit >= self._written:
                pieces, self._pieces, self._size = self._pieces, [], 0
                self._last_parent = None
                self._taken = self._written
                return pieces
            pieces = []
            while self._taken < limit:
                parent, texts = self._pieces[0]
                taken = texts[: limit - self._taken]
                del texts[: len(taken)]
                if not texts:
                    self._pieces.pop(0)
                self._taken += len(taken)
                self._size -= sum(map(len, taken))
                pieces.append((parent, taken))
            return pieces

    # Sending. Everything that goes out on iopub passes through one queue of the iopub thread. A flush
    # sends from its place in that queue what was written until it was put there, and nothing newer:
    # so the order with all else is kept.

    def _send_soon(self):
        if self._size >= self.HIGH_WATER:
            self._flush_and_wait()
        elif not self._flush_pending:
            self._flush_pending = True
            self.pub_thread.schedule(self._start_timer)

    def _start_timer(self):
        self._io_loop.call_later(self.flush_interval, self._queue_flush)

    def _queue_flush(self):
        self._flush_pending = False  # what is written from here on needs another one
        self.pub_thread.schedule(partial(self._flush, self._written))

    def _flush_and_wait(self):
        thread = self.pub_thread and self.pub_thread.thread
        if not thread or not thread.is_alive() or thread is threading.current_thread():
            self._flush()
            return
        self._queue_flush()
        done = threading.Event()
        self.pub_thread.schedule(done.set)
        done.wait()

    def _flush(self, limit=None):
        writes = 0
        for parent, texts in self._take(limit):
            writes += len(texts)
            text = "".join(texts)
            chunk = STREAM_CHUNK_BYTES if text.isascii() else STREAM_CHUNK_BYTES // 4
            for start in range(0, len(text), chunk):
                self._send(parent, text[start : start + chunk])
        self.flush_interval = self.FLOODED if writes > self.FLOOD_WRITES else self.PROMPT

    def _send(self, parent, text):
        msg = self.session.msg("stream", {"name": self.name, "text": text}, parent=parent)
        for hook in self._hooks:
            msg = hook(msg)
            if msg is None:
                return
        self.session.send(self, msg, ident=self.topic)

    def send_multipart(self, *args, **kwargs):
        """Called by the session, for which this is the socket."""
        self.pub_thread._really_send(*args, **kwargs)

    # The pipe behind the file descriptor. Taken in by a thread, so that it is prompt, and before every
    # write and flush, so that what a subprocess wrote before it ended comes before what follows.

    def _setup_stream_redirects(self, name):
        fd = getattr(sys, name).fileno()
        reader, writer = os.pipe()
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, self.PIPE_SIZE)
        os.set_blocking(reader, False)
        self._fid = reader
        self._original_stdstream_fd = fd
        self._original_stdstream_copy = os.dup(fd)  # where this process logs
        os.dup2(writer, fd)
        os.close(writer)
        self.watch_fd_thread = threading.Thread(target=self._watch_pipe_fd, name=f"{name} pipe", daemon=True)
        self.watch_fd_thread.start()

    def _watch_pipe_fd(self):
        poll = select.poll()
        poll.register(self._fid, select.POLLIN)
        while self._should_watch:
            (_, events), *_ = poll.poll()
            self._drain_pipe()
            if events & select.POLLHUP:  # someone closed the descriptor: no more writers
                return

    def _drain_pipe(self):
        """Take in what the pipe holds now."""
        with self._pipe_lock:
            waiting = fcntl.ioctl(self._fid, termios.FIONREAD, NO_BYTES)
            if waiting == NO_BYTES:
                return
            self._append(self._decoder.decode(os.read(self._fid, int.from_bytes(waiting, sys.byteorder))))
        self._send_soon()

    # A forked child has none of the threads, but it still has the pipe.

    def _after_fork(self):
        self._forked = True
        self._buffer_lock = threading.RLock()
        self._take()  # belongs to the parent, which sends it

    def _write_to_pipe(self):
        for _, texts in self._take():
            data = memoryview("".join(texts).encode(errors="replace"))
            while data:
                data = data[os.write(self._original_stdstream_fd, data) :]


# ---- shell, kernel, application ---------------------------------------------------------------


class Shell(ZMQInteractiveShell):
    def init_environment(self):
        """Leave the environment alone: the default asks every program for colours."""

    def system(self, cmd):
        """!cmd, without the terminal that the base class needs: stdout and stderr stay apart."""
        self.user_ns["_exit_code"] = subprocess.call(["bash", "-c", self.var_expand(cmd, depth=1)])

    def getoutput(self, cmd, split=True, depth=0):
        """x = !cmd"""
        cmd = self.var_expand(cmd, depth=depth + 1)
        done = subprocess.run(
            ["bash", "-c", cmd], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        )
        self.user_ns["_exit_code"] = done.returncode
        return SList(done.stdout.splitlines()) if split else LSString(done.stdout)

    def ask_exit(self):
        """exit() and quit() end the cell, as sys.exit() does, and not the kernel with its variables."""
        raise SystemExit


class Profile(ProfileDir):
    def _mkdir(self, path, mode=None):
        """It is complete in the image, and not the user's to change the permissions of."""
        return False


class Kernel(IPythonKernel):
    shell_class = Shell

    # Subshells cost a thread and two hops per message. Husk runs one thing at a time in a kernel.
    _supports_kernel_subshells = False

    @contextlib.contextmanager
    def _cancel_on_sigint(self, future):
        """While an async cell runs: interrupt the statement that is running, or else the await."""

        def interrupt(_, frame):
            while frame is not None:
                if frame.f_code is InteractiveShell.run_code.__code__:
                    raise KeyboardInterrupt  # in the user's code; anywhere else it would end the loop
                frame = frame.f_back
            loop.call_soon_threadsafe(future.cancel)

        loop = self.io_loop.asyncio_loop
        saved = signal.signal(signal.SIGINT, interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, saved)

    def start(self):
        # The base class warns if there is no debugger. Skip over it.
        self.shell.exit_now = False
        super(IPythonKernel, self).start()


class NoShellChannel:
    """In place of the thread that subshells need; false, but the base class asks for one attribute."""

    def __init__(self):
        self.parent_thread = threading.main_thread()

    def __bool__(self):
        return False


class KernelApp(IPKernelApp):
    kernel_class = Kernel
    outstream_class = f"{MODULE}.Stream"

    @default("session")
    def _default_session(self):
        return LimitedSession(parent=self)

    def _bind_socket(self, s, port):
        if s.type == zmq.XPUB:
            # A PUB socket drops messages when its queue is full, even the one that says a cell has
            # ended. This one waits: a cell that prints faster than it is read becomes slow, and the
            # queue cannot eat the sandbox's memory.
            s.sndhwm = IOPUB_QUEUE
            s.xpub_nodrop = True
        return super()._bind_socket(s, port)

    def init_control(self, context):
        """As the base class does it, without the sockets of the debugger and of subshells."""
        self.control_socket = context.socket(zmq.ROUTER)
        self.control_socket.linger = 1000
        self.control_port = self._bind_socket(self.control_socket, self.control_port)
        self.control_socket.router_handover = 1
        self.control_thread = ControlThread(daemon=True)

    def init_kernel(self):
        """Give the prepared kernel what the base class would have made it from."""
        kernel = self.kernel
        kernel.ident = str(uuid.uuid4())
        kernel._stdout, kernel._stderr = sys.stdout, sys.stderr
        kernel.iopub_thread = self.iopub_thread
        kernel.iopub_socket = self.iopub_socket
        kernel.stdin_socket = self.stdin_socket
        kernel.shell_stream = ZMQStream(self.shell_socket)
        kernel.control_stream = ZMQStream(self.control_socket, self.control_thread.io_loop)
        kernel.control_thread = self.control_thread
        kernel.shell.displayhook.pub_socket = self.iopub_socket
        kernel.shell.displayhook.topic = kernel._topic("execute_result")
        kernel.shell.display_pub.pub_socket = self.iopub_socket
        kernel.record_ports({f"{name}_port": port for name, port in self._ports.items()})
        self.displayhook.get_execution_count = lambda: kernel.execution_count
        self.control_thread.start()

    def log_connection_info(self):
        """Note the ports; the base class also prints how to connect a console."""
        names = ("shell", "iopub", "stdin", "control")
        self._ports = {name: getattr(self, f"{name}_port") for name in names}

    def init_path(self):
        """The working directory is importable, though Python was started with -P for this file's sake."""
        if "" not in sys.path:
            sites = [i for i, path in enumerate(sys.path) if path.endswith(("site-packages", "dist-packages"))]
            sys.path.insert(sites[0] if sites else 0, "")

    def prepare(self):
        """The part of initialize() that needs neither connection nor thread."""
        self.log.setLevel(self.log_level)
        self.init_crash_handler()
        self.init_pdb()
        self.profile_dir = Profile(location=os.path.join(self.ipython_dir, "profile_default"))
        self.kernel = self.kernel_class.instance(
            parent=self,
            session=self.session,
            shell_channel_thread=NoShellChannel(),
            log=self.log,
            profile_dir=self.profile_dir,
        )

    def warm_up(self):
        """Go once through what every kernel does first, for all that it imports and builds on the way."""
        shell = self.kernel.shell
        shell.run_cell("None", silent=True)
        try:
            raise RuntimeError
        except RuntimeError as error:
            shell.InteractiveTB.structured_traceback(RuntimeError, error, error.__traceback__)

    def connect(self, connection_file):
        """The rest of it."""
        self.session.pid = os.getpid()
        self.session.session = uuid.uuid4().hex
        self.connection_file = connection_file
        self.load_connection_file()
        self.init_sockets()
        self.log_connection_info()
        self.init_io()
        self.init_signal()
        self.init_kernel()
        self.init_path()
        self.init_shell()
        self.init_gui_pylab()


def prepare(warm_up=True):
    """Everything that can be done before it is known for whom. Safe to fork afterwards."""
    if KernelApp.initialized():
        return
    # matplotlib reads this when it is imported, which may be before the kernel exists.
    os.environ.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    # Or the first cell looks for a folder it can write to, and fails on a full disk: then nobody
    # could even delete something.
    tempfile.tempdir = "/tmp"
    warnings.filterwarnings("ignore", message="To exit: use 'exit'", module="IPython")
    app = KernelApp.instance(config=CONFIG)
    app.prepare()
    if warm_up:
        app.warm_up()


def serve(connection_file):
    """Be the kernel that the connection file describes, until told to shut down."""
    prepare(warm_up=False)  # unless a zygote did it: here it would only delay the start
    # Where this process logs, and not into the pipe that it could no longer read from.
    faulthandler.enable(os.dup(2))
    app = KernelApp.instance()
    app.connect(connection_file)
    app.start()


def main():
    parser = argparse.ArgumentParser(description="The IPython kernel of a sandbox.")
    parser.add_argument("-f", dest="connection_file", required=True, metavar="CONNECTION_FILE")
    serve(parser.parse_args().connection_file)


if __name__ == "__main__":
    main()
