"""stdout and stderr of the kernel's process."""

import codecs
import contextlib
import fcntl
import os
import select
import sys
import termios
import threading
from functools import partial
from time import monotonic

from husk_executions import process_starts
from husk_whole_text import WholeText
from ipykernel.iostream import OutStream
from ipykernel.thread import CONTROL_THREAD_NAME

# Text per stream message. A character takes at most 4 bytes.
STREAM_CHUNK_BYTES = 256 * 1024

NO_BYTES = bytes(4)  # what FIONREAD says of an empty pipe


class Pipe:
    """A pipe behind a file descriptor, and the execution that its writers belong to."""

    SIZE = 256 * 1024

    def __init__(self, parent):
        self.parent = parent
        self.reader, self.writer = os.pipe()
        os.set_blocking(self.reader, False)
        with contextlib.suppress(PermissionError):  # a user with very many pipes gets small ones
            fcntl.fcntl(self.writer, fcntl.F_SETPIPE_SZ, self.SIZE)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def put_behind(self, fd):
        os.dup2(self.writer, fd)
        os.close(self.writer)

    def is_behind(self, fd):
        """Not so if the user's code has closed or redirected it."""
        try:
            return os.path.samestat(os.fstat(self.reader), os.fstat(fd))
        except OSError:
            return False

    def read(self):
        """What it holds now."""
        waiting = fcntl.ioctl(self.reader, termios.FIONREAD, NO_BYTES)
        if waiting == NO_BYTES:
            return ""
        return self._decoder.decode(os.read(self.reader, int.from_bytes(waiting, sys.byteorder)))


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
    CHILD_BUFFER = 8 * 1024
    MAX_OLD_PIPES = 128

    flush_interval = PROMPT

    def __init__(self, session, pub_thread, name, **kwargs):
        self._pieces = []  # [(parent header, [text, ...]), ...], oldest first
        self._size = 0  # characters in them
        self._written = 0  # texts ever appended
        self._taken = 0  # and taken out again
        self._sent = 0  # and sent
        self._last_parent = self._last_texts = None  # the newest of them
        self._forked = False
        self._pipe_lock = threading.Lock()
        self._next_look = 0.0  # into the pipe
        self._whole_text = None  # of the execution that runs
        self._home = os.environ.get("HOME", "/home/user")
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
            self._append(text, self.parent_header)
            if "\n" in text or self._size >= self.CHILD_BUFFER:
                self._write_to_pipe()
            return len(text)
        # A million prints come through here, so do not ask the system each time. In 0.2 ms no
        # subprocess starts, writes and ends.
        now = monotonic()
        if now > self._next_look:
            self._next_look = now + 0.0002
            self._drain_pipe()
        self._append(text, self._parent_header.get(None) or self._parent_header_global)
        if not self._flush_pending or self._size >= self.HIGH_WATER:
            self._send_soon()
        return len(text)

    def flush(self):
        if self._forked:
            self._write_to_pipe()
            return
        self._drain_pipe()
        if self._sent == self._written:
            return  # six times in a cell, and a wait costs two switches between threads
        if threading.current_thread().name == CONTROL_THREAD_NAME:
            # Must stay able to take an interrupt, however slow the reader is.
            self._queue_flush()
        else:
            self._flush_and_wait()

    def _append(self, text, parent):
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
        self._sent = self._taken
        self.flush_interval = self.FLOODED if writes > self.FLOOD_WRITES else self.PROMPT

    def _send(self, parent, text):
        whole_text = self._whole_text
        if whole_text is not None and parent.get("msg_id") == whole_text.message_id:
            whole_text.add(text)
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
    #
    # Nothing but the pipe says which execution a process belongs to. So if one may have started
    # processes, the next gets a fresh pipe, and the old one is watched until its last writer is gone.
    # It is not closed before: that would kill a server that runs in the background.

    def _setup_stream_redirects(self, name):
        fd = getattr(sys, name).fileno()
        self._original_stdstream_fd = fd
        self._original_stdstream_copy = os.dup(fd)  # where this process logs
        self._pipes = {}  # by the descriptor that is read from
        self._epoll = select.epoll()
        self._use_pipe(Pipe({}))
        self.watch_fd_thread = threading.Thread(target=self._watch_pipe_fd, name=f"{name} pipe", daemon=True)
        self.watch_fd_thread.start()

    def _use_pipe(self, pipe):
        self._pipe = self._pipes[pipe.reader] = pipe
        self._pipe_starts = process_starts.count
        pipe.put_behind(self._original_stdstream_fd)
        self._epoll.register(pipe.reader, select.EPOLLIN)

    def _replace_pipe(self, parent):
        """If it cannot be done, output of processes in the background goes to whatever runs."""
        if len(self._pipes) > self.MAX_OLD_PIPES or not self._pipe.is_behind(self._original_stdstream_fd):
            return False
        try:
            pipe = Pipe(parent)
        except OSError:  # the user's code has all the descriptors
            return False
        self._use_pipe(pipe)
        return True

    def _watch_pipe_fd(self):
        while self._should_watch:
            for fd, events in self._epoll.poll():
                pipe = self._pipes[fd]
                self._drain_pipe(pipe)
                if events & select.EPOLLHUP:  # no more writers
                    self._forget_pipe(pipe)

    def _forget_pipe(self, pipe):
        with self._pipe_lock:
            self._epoll.unregister(pipe.reader)
            if pipe is not self._pipe:  # else somebody closed the descriptor, and it is still looked into
                del self._pipes[pipe.reader]
                os.close(pipe.reader)

    def _drain_pipe(self, pipe=None):
        """Take in what a pipe holds now: that of the descriptor, or an old one."""
        with self._pipe_lock:
            pipe = pipe or self._pipe
            text = pipe.read()
            if not text:
                return
            self._append(text, pipe.parent)
        self._send_soon()

    # Executions.

    def begin_execution(self, count):
        """The kernel has set the parent: what comes through the descriptor from here on belongs to it."""
        if self.closed:
            return
        parent = self.parent_header
        with self._pipe_lock:
            rest = self._pipe.read()
            if rest:
                self._append(rest, self._pipe.parent)
            if self._pipe_starts == process_starts.count or not self._replace_pipe(parent):
                self._pipe.parent = parent
        if rest:
            self._send_soon()
        self._whole_text = WholeText(self._home, self.name, count, parent.get("msg_id"))

    def end_execution(self):
        """After a flush: the path of the file that holds all of the text, if there is one."""
        whole_text, self._whole_text = self._whole_text, None
        return whole_text and whole_text.end()

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
