"""The IPython kernel of a sandbox.

    /opt/venv/bin/python -P /opt/husk/kernel.py -f CONNECTION_FILE

It is ipykernel with what Husk needs changed: output that is prompt, complete and bounded per message,
no debugger, no heartbeat, no history file, no subshells. A zygote uses the two halves apart:

    prepare()                 before the fork: imports, configuration, the shell with its magics.
                              Leaves no thread and no socket, keeps no secret.
    serve(connection_file)    after the fork: the sockets, the threads, the loop. Does not return.
"""

import sys

# ipykernel imports debugpy if it can, for a debugger that no client of Husk can reach.
sys.modules["debugpy"] = None

import argparse
import asyncio
import contextlib
import faulthandler
import functools
import json
import os
import signal
import subprocess
import tempfile
import threading
import uuid
import warnings

import jupyter_client.session
import zmq
import tornado.platform.asyncio  # or the first loop imports it, after the fork
import ipykernel.ipkernel
from ipykernel.control import ControlThread
from ipykernel.ipkernel import IPythonKernel
from ipykernel.kernelapp import IPKernelApp
from ipykernel.zmqshell import ZMQInteractiveShell
from IPython.core.error import StdinNotImplementedError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.profiledir import ProfileDir
from IPython.utils.text import LSString, SList
from jupyter_client.session import Session, json_default
from jupyter_client.jsonutil import json_clean
from traitlets import default
from traitlets.config import Config
from zmq.eventloop.zmqstream import ZMQStream

# The other parts of the kernel lie beside this file, a folder that the user's code does not search.
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import husk_executions as executions
import husk_packages
import husk_publisher
import husk_shell_stream
import husk_streams

del sys.path[0]

# The reader takes frames of up to 32 MiB. Leave room for what a message has around its content.
MESSAGE_LIMIT = 24 * 1024 * 1024

# Messages that wait in the kernel for a slow reader. See KernelApp._bind_socket.
IOPUB_QUEUE = 64

# After so many, most of the code that they run through is as it stays.
REHEARSALS = 3

CONFIG = Config(
    {
        "HistoryManager": {"enabled": False},
        # The readers are programs; and a traceback without colours takes half the time to format.
        # A request can ask for them: Shell.coloured.
        "InteractiveShell": {"colors": "nocolor"},
        # Looks at what is there. jedi reads the source of libraries instead: most of a second for the first answer, and as
        # long for some others.
        "IPCompleter": {"use_jedi": False},
        # The end of an execution is known by its reply and its idle status together, so the kernel
        # need not give the one a head start over the other.
        "IPythonKernel": {"_execute_sleep": 0.0},
        "IPKernelApp": {"log_level": "WARN"},
    }
)


# ---- what ipykernel does again for every request ----------------------------------------------

# Dates in headers: made of the request's text, and text again in every message that names it as its
# parent. Nothing in a kernel looks at them.
jupyter_client.session.extract_dates = lambda header: header


@functools.cache
def accepted_parameters(method, names, find=ipykernel.ipkernel._accepts_parameters):
    return find(method, names)


ipykernel.ipkernel._accepts_parameters = lambda method, names: accepted_parameters(method, tuple(names))


# ---- messages ---------------------------------------------------------------------------------

ENCODER = json.JSONEncoder(default=json_default, ensure_ascii=False, allow_nan=False)


def pack(value):
    """JSON in UTF-8 that a strict reader accepts, whatever the user's strings contain."""
    try:
        text = ENCODER.encode(value)
    except (TypeError, ValueError):
        text = ENCODER.encode(json_clean(value))
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
    return truncated({**msg, "content": content})


def truncated(msg):
    """A message that tells that something of it is missing."""
    return {**msg, "content": {**msg["content"], "husk_truncated": True}}


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

    def send(self, stream, msg_or_type, content=None, parent=None, ident=None, buffers=None, *args, **kwargs):
        # Buffers are attachments of widget messages. One that is too large cannot be shortened.
        if buffers and any(memoryview(buffer).nbytes > MESSAGE_LIMIT for buffer in buffers):
            buffers = None
            if isinstance(msg_or_type, str):
                content = truncated({"content": content or {}})["content"]
            else:
                msg_or_type = truncated(msg_or_type)
        return super().send(stream, msg_or_type, content, parent, ident, buffers, *args, **kwargs)


# ---- shell, kernel, application ---------------------------------------------------------------


class Shell(ZMQInteractiveShell):
    COLOURS = "neutral"  # readable on dark and on bright

    _cell = None  # the request's code, which ipykernel and then IPython want transformed
    _transformed_cell = None

    def expect_cell(self, code):
        self._cell, self._transformed_cell = code, None

    def transform_cell(self, raw_cell):
        if raw_cell is not self._cell:
            return super().transform_cell(raw_cell)
        if self._transformed_cell is None:
            self._transformed_cell = super().transform_cell(raw_cell)
        return self._transformed_cell

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

    @contextlib.contextmanager
    def coloured(self, wanted):
        """Tracebacks and inspections with ANSI colours, if wanted."""
        formatters = (self.InteractiveTB, self.SyntaxTB, self.inspector) if wanted else ()
        for formatter in formatters:
            formatter.set_theme_name(self.COLOURS)
        try:
            yield
        finally:
            for formatter in formatters:
                formatter.set_theme_name(self.colors)

    def _get_exc_info(self, exc_tuple=None):
        """What a traceback is made of, without the frames in which input() waits for its answer."""
        kind, value, trace = super()._get_exc_info(exc_tuple)
        asking = (IPythonKernel.raw_input.__code__, IPythonKernel.getpass.__code__, Kernel.raw_input.__code__)
        frame = trace
        while frame is not None and frame.tb_next is not None:
            if frame.tb_next.tb_frame.f_code in asking:
                frame.tb_next = None
            frame = frame.tb_next
        return kind, value, trace

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

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self._running = None  # the request whose code runs
        self._environment = executions.Environment()
        self._echo_prompts = False
        self._stdin = executions.StandardInput(self.read_line)

    def parent_variables(self):
        """The context variables that hold the request that the running code belongs to."""
        shell = self.shell
        publishers = (shell, shell.displayhook, shell.display_pub, self._stdout, self._stderr)
        return [self._shell_parent, self._shell_parent_ident, *(one._parent_header for one in publishers)]

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

    # One execution. The shim says in the metadata of the request what it is about:
    #   {"husk": {"env": {"NAME": "value"}, "colors": bool, "stdin": "none" | "given" | "ask", "auto_install": bool}}

    async def execute_request(self, stream, ident, parent):
        self._begin(parent)
        try:
            await super().execute_request(stream, ident, parent)
        finally:
            self._end()

    async def do_execute(self, code, silent, *args, cell_meta=None, **kwargs):
        husk = cell_meta.get("husk", {})
        self._echo_prompts = husk.get("stdin") == "given"
        try:
            self.shell.expect_cell(code)
            self._environment.set(husk.get("env", {}))
            if husk.get("auto_install", False):
                code = self._install_missing(code)
            with self.shell.coloured(husk.get("colors", False)):
                return await super().do_execute(code, silent, *args, cell_meta=cell_meta, **kwargs)
        finally:
            self.shell.expect_cell(None)
            self._environment.restore()

    def _install_missing(self, code):
        """The code to run then."""
        try:
            husk_packages.install_missing(self.shell, code)
        except KeyboardInterrupt:
            return "raise KeyboardInterrupt"
        return code

    def finish_metadata(self, parent, metadata, reply_content):
        """Called when all output has been flushed and the reply has not been sent yet."""
        self._end(flushed=sys.stdout is self._stdout and sys.stderr is self._stderr)
        return super().finish_metadata(parent, metadata, reply_content)

    def _begin(self, parent):
        self._running = parent
        self._environment.restore()  # if an interrupt hit that
        self._stdin.forget()
        executions.carry_into_pools()
        for stream in (self._stdout, self._stderr):
            stream.begin_execution(self.execution_count)

    def _end(self, flushed=False):
        """Tell where the whole of an output is that is too long for the answer."""
        running, self._running = self._running, None
        if running is None:
            return
        for stream in (self._stdout, self._stderr):
            if not flushed and not stream.closed:
                stream.flush()
            path = stream.end_execution()
            if path:
                self._publish("husk_whole_text", {"name": stream.name, "path": path}, running)

    def _publish(self, message_type, content, parent):
        self.session.send(self.iopub_socket, message_type, content, parent, ident=self._topic(message_type))

    # Questions of a prompt.

    async def do_complete(self, code, cursor_pos):
        return executions.without_dots(executions.answer(super().do_complete, code, cursor_pos), code)

    async def do_inspect(self, *question):
        colours = self.get_parent("shell")["metadata"].get("husk", {}).get("colors", False)
        with self.shell.coloured(colours):
            return executions.answer(super().do_inspect, *question)

    async def do_is_complete(self, code):
        return executions.answer(super().do_is_complete, code)

    # Input. The base class replaces input() and getpass() while code runs.

    def _restore_input(self):
        super()._restore_input()
        self._allow_stdin = False

    def raw_input(self, prompt=""):
        if self._echo_prompts and self._allow_stdin:
            sys.stdout.write(str(prompt))  # as a script does whose input is a file
        return super().raw_input(prompt)

    def read_line(self):
        """For sys.stdin: a line with its end, or nothing at the end of the file or if nobody can be asked."""
        if not self._allow_stdin:
            return ""
        ident = self._get_shell_context_var(self._shell_parent_ident)
        try:
            return self._input_request("", ident, self.get_parent("shell")) + "\n"
        except (EOFError, StdinNotImplementedError):
            return ""

    def _input_request(self, prompt, ident, parent, password=False):
        if parent is not self._running or os.getpid() != self.session.pid:
            # A thread of an earlier execution, or a forked child, which cannot use the socket.
            raise StdinNotImplementedError("Only the code that runs in the kernel now can ask for input.")
        self._stdout.flush()
        self._stderr.flush()
        # The request goes by another socket than the output. This marks its place there.
        self._publish("husk_input", {}, parent)
        return super()._input_request(prompt, ident, parent, password)

    # The shim knows what it has asked for, and need not be told that the kernel is at it.

    def _publish_execute_input(self, code, parent, execution_count):
        if "husk" not in parent["metadata"]:
            super()._publish_execute_input(code, parent, execution_count)

    def _publish_status(self, status, channel, parent=None):
        if status != "busy" or "husk" not in self.get_parent(channel).get("metadata", {}):
            super()._publish_status(status, channel, parent)

    def start(self):
        # The base class warns if there is no debugger. Skip over it.
        self.shell.exit_now = False
        super(IPythonKernel, self).start()
        self.shell_stream.receive_with(functools.partial(self.shell_main, None))


class NoShellChannel:
    """In place of the thread that subshells need; false, but the base class asks for one attribute."""

    def __init__(self):
        self.parent_thread = threading.main_thread()

    def __bool__(self):
        return False


class KernelApp(IPKernelApp):
    kernel_class = Kernel
    outstream_class = f"{husk_streams.__name__}.Stream"

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

    def init_iopub(self, context):
        """As the base class does it, with a publisher of our own."""
        socket = context.socket(zmq.XPUB)
        socket.linger = 1000
        self.iopub_port = self._bind_socket(socket, self.iopub_port)
        self.configure_tornado_logger()
        self.iopub_thread = husk_publisher.Publisher(socket, pipe=True, session=self.session)
        self.iopub_thread.start()
        self.iopub_socket = self.iopub_thread.background_socket

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
        kernel.shell_stream = husk_shell_stream.ShellStream(self.shell_socket)
        kernel.control_stream = ZMQStream(self.control_socket, self.control_thread.io_loop)
        kernel.control_thread = self.control_thread
        kernel.shell.displayhook.pub_socket = self.iopub_socket
        kernel.shell.displayhook.topic = kernel._topic("execute_result")
        kernel.shell.display_pub.pub_socket = self.iopub_socket
        kernel.record_ports({f"{name}_port": port for name, port in self._ports.items()})
        self.displayhook.get_execution_count = lambda: kernel.execution_count
        self.control_thread.start()
        sys.stdin = kernel._stdin
        executions.carry_into_threads(kernel.parent_variables())
        executions.process_starts.watch()

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
        for _ in range(REHEARSALS):
            self.rehearse()

    def rehearse(self):
        """Go through the motions of connect() and of a first request, with things that are thrown away. The
        interpreter rewrites code while it runs for the first times; what it has rewritten by the time of a
        fork, no kernel has to, each on pages of its own. Threads that start here end here."""
        with tempfile.TemporaryDirectory() as folder:
            context = zmq.Context()

            def bound(kind, name):
                socket = context.socket(kind)
                socket.linger = 0
                socket.bind(f"ipc://{folder}/{name}")
                return socket

            publisher = husk_publisher.Publisher(bound(zmq.XPUB, "iopub"), pipe=False, session=self.session)
            publisher.start()
            control = ControlThread(daemon=True)
            control_stream = ZMQStream(bound(zmq.ROUTER, "control"), control.io_loop)
            control_stream.on_recv(print)
            control.start()
            stream = husk_shell_stream.ShellStream(bound(zmq.ROUTER, "shell"))
            stream.receive_with(functools.partial(self._answer_rehearsal, stream, publisher))
            client = context.socket(zmq.DEALER)
            client.linger = 0
            client.connect(f"ipc://{folder}/shell")
            self.session.send(client, "kernel_info_request")
            stream.io_loop.start()

            control.stop()
            control.join()
            publisher.stop()
            publisher.close()
            stream.close()
            stream.io_loop.close()
            asyncio.set_event_loop(None)
            context.destroy(linger=0)
        self.session.digest_history.clear()

    async def _answer_rehearsal(self, stream, publisher, frames):
        identities, frames = self.session.feed_identities(frames, copy=False)
        request = self.session.deserialize(frames, content=False, copy=False)
        self.session.send(publisher.background_socket, "status", {"execution_state": "busy"}, request)
        self.session.send(stream, "kernel_info_reply", self.kernel.kernel_info, request, identities)
        stream.io_loop.add_callback(stream.io_loop.stop)

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
    husk_packages.record_imports()
    app = KernelApp.instance()
    app.connect(connection_file)
    app.start()


def main():
    parser = argparse.ArgumentParser(description="The IPython kernel of a sandbox.")
    parser.add_argument("-f", dest="connection_file", required=True, metavar="CONNECTION_FILE")
    serve(parser.parse_args().connection_file)


if __name__ == "__main__":
    main()
