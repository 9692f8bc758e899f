"""What belongs to one execution: its threads, its processes, its environment and its standard input."""

import _posixsubprocess
import contextlib
import contextvars
import functools
import io
import os
import posix
import subprocess
import sys
import threading

# ---- threads ----------------------------------------------------------------------------------

# A message says by its parent which execution it belongs to. ipykernel keeps the parent in context
# variables. Tasks of asyncio inherit them, but threads do not, so that output of a thread would go
# to the execution that happens to run. Hence: a thread belongs to the execution that started it, a
# job of a thread pool to the one that submitted it. (A thread that a C library started belongs to
# nobody; its output still goes to whatever runs.)

_variables: list[contextvars.ContextVar] = []


def _belonging():
    """The values that say which execution the caller belongs to."""
    values = [(variable, variable.get(None)) for variable in _variables]
    return [(variable, value) for variable, value in values if value is not None]


def _adopt(belonging):
    for variable, value in belonging:
        variable.set(value)


def carry_into_threads(variables):
    """Have new threads take over these context variables, and only these."""
    _variables.extend(variables)
    start = threading._start_joinable_thread

    # Here and not around Thread.run(), which people override, nor where it would show in tracebacks.
    def start_joinable_thread(function, **options):
        belonging = _belonging()

        def begin():
            _adopt(belonging)
            function()

        return start(begin, **options)

    threading._start_joinable_thread = start_joinable_thread


@functools.cache
def _carry_into_executors(futures):
    class WorkItem(futures._WorkItem):
        def __init__(self, *args):
            super().__init__(*args)
            self.belonging = _belonging()

        def run(self):
            _adopt(self.belonging)
            super().run()

    futures._WorkItem = WorkItem


@functools.cache
def _carry_into_thread_pools(pools):
    def carrying(method):
        @functools.wraps(method)
        def call(pool, func, *args, **kwargs):
            belonging = _belonging()

            def run(*values, **named):
                _adopt(belonging)
                return func(*values, **named)

            return method(pool, run, *args, **kwargs)

        return call

    for name in ("apply_async", "_map_async", "imap", "imap_unordered"):
        setattr(pools.ThreadPool, name, carrying(getattr(pools.ThreadPool, name)))


def carry_into_pools():
    """The same for jobs of pools. To be called before every execution: the modules take milliseconds to
    import, so wait until somebody else does. A pool matters only from the next execution on."""
    if futures := sys.modules.get("concurrent.futures.thread"):
        _carry_into_executors(futures)
    if pools := sys.modules.get("multiprocessing.pool"):
        _carry_into_thread_pools(pools)


# ---- processes --------------------------------------------------------------------------------


class ProcessStarts:
    """Counts the processes that Python code starts. An audit hook would see the same, but it would also be
    called for every id() and make ordinary code slower."""

    def __init__(self):
        self.count = 0

    def _note(self):
        self.count += 1

    def watch(self):
        os.register_at_fork(before=self._note)  # os.fork, os.forkpty, pty, multiprocessing
        subprocess._fork_exec = _posixsubprocess.fork_exec = self._noting(_posixsubprocess.fork_exec)
        for name in ("system", "posix_spawn", "posix_spawnp"):
            noting = self._noting(getattr(os, name))
            # In both modules, or pickle would not find by its name what it was given.
            setattr(os, name, noting)
            setattr(posix, name, noting)

    def _noting(self, function):
        @functools.wraps(function)
        def start(*args, **kwargs):
            self._note()
            return function(*args, **kwargs)

        return start


process_starts = ProcessStarts()


# ---- environment ------------------------------------------------------------------------------


class Environment:
    """Variables that are set for one execution only."""

    def __init__(self):
        self._saved = {}

    def set(self, variables):
        self.restore()
        for name, value in variables.items():
            with contextlib.suppress(TypeError, ValueError):  # not a name that a variable can have
                self._saved[name] = os.environ.get(name)
                os.environ[name] = value

    def restore(self):
        """May be called again: an interrupt can hit it half way."""
        while self._saved:
            name, value = next(iter(self._saved.items()))
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
            self._saved.pop(name, None)


# ---- questions ---------------------------------------------------------------------------------


def answer(find, *question):
    """What a prompt gets: `find` calls the user's code (__dir__, properties, __repr__), which may raise anything. Without
    a reply the shim would have to find out by itself that none will come."""
    try:
        return find(*question)
    except BaseException as error:  # KeyboardInterrupt: it took too long
        return {"status": "error", "ename": type(error).__name__, "evalue": "", "traceback": []}


def without_dots(completion, code):
    """IPython completes "x.na" by ".name". What stands behind the dot is what programs show."""
    start, matches = completion.get("cursor_start", 0), completion.get("matches", [])
    if code[start : start + 1] == "." and matches and all(match[:1] == "." for match in matches):
        completion |= {"cursor_start": start + 1, "matches": [match[1:] for match in matches]}
        for types in completion["metadata"].values():
            for one in types:
                one |= {"start": one["start"] + 1, "text": one["text"][1:]}
    return completion


# ---- standard input ---------------------------------------------------------------------------


class StandardInput(io.TextIOBase):
    """sys.stdin: asks the client for lines, one by one, as input() does. Empty when nobody answers."""

    encoding = "utf-8"
    errors = "strict"
    name = "<stdin>"
    mode = "r"

    def __init__(self, ask):
        self._ask = ask  # gives a line with its end, or "" at the end of the file
        self._rest = b""  # of a line that was not read to its end
        self.buffer = StandardInputBytes(self)

    def forget(self):
        """What one execution did not read is not for the next."""
        self._rest = b""

    def take(self, size=-1):
        """Up to `size` bytes of the next line."""
        if size == 0:
            return b""
        data = self._rest or self._ask().encode(errors="replace")
        end = data.find(b"\n") + 1 or len(data)
        if 0 <= size < end:
            end = size
        self._rest = data[end:]
        return data[:end]

    def readline(self, size=-1):
        if size == 0:
            return ""
        text = self.take().decode(errors="replace")
        if size is not None and 0 <= size < len(text):
            self._rest = text[size:].encode() + self._rest
            text = text[:size]
        return text

    def read(self, size=-1):
        pieces, missing = [], sys.maxsize if size is None or size < 0 else size
        while missing and (piece := self.readline(missing)):
            pieces.append(piece)
            missing -= len(piece)
        return "".join(pieces)

    def readable(self):
        return True

    def reconfigure(self, **options):
        """Scripts ask for UTF-8 this way, and have it already."""

    def fileno(self):
        return 0  # /dev/null, for subprocesses


class StandardInputBytes(io.RawIOBase):
    """sys.stdin.buffer"""

    def __init__(self, text):
        self._text = text

    def readinto(self, target):
        data = self._text.take(len(target))
        target[: len(data)] = data
        return len(data)

    def readline(self, size=-1):
        return self._text.take(-1 if size is None else size)

    read1 = readline

    def readable(self):
        return True

    def fileno(self):
        return 0
