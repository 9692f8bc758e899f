"""The iopub socket of the kernel."""

import ctypes
import operator
import threading
from itertools import repeat

import zmq
from ipykernel.iostream import IOPubThread

# In bytes. pyzmq hands larger frames to libzmq without copying them, and keeps them alive for it.
LARGEST_COPY = 64 * 1024

zmq_send = ctypes.PyDLL(zmq.backend.cython._zmq.__file__).zmq_send
zmq_send.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int)


def can_send_at_once(frames):
    return all(type(frame) is bytes and len(frame) <= LARGEST_COPY for frame in frames)


def send_at_once(socket, frames):
    """Send a message if that needs no waiting, and tell whether it did. pyzmq runs signal handlers after
    every frame: an interrupt would tear the message apart. Here only C runs between the frames, until one
    is refused (-1), and that can only be the first."""
    flags = [zmq.DONTWAIT | zmq.SNDMORE] * (len(frames) - 1) + [zmq.DONTWAIT]
    results = map(zmq_send, repeat(socket.underlying), frames, map(len, frames), flags)
    return all(map(operator.add, results, repeat(1)))


class Publisher(IOPubThread):
    """The main thread sends by itself: to wake the thread of the base class costs more than the message,
    because then the two fight for the GIL. That thread serves other threads and timers, and waits in place
    of the main thread when a reader is slow."""

    def __init__(self, *args, **kwargs):
        self._in_use = threading.Lock()  # the socket
        super().__init__(*args, **kwargs)

    def send_multipart(self, msg, *args, **kwargs):
        if not self._send_at_once(msg):
            super().send_multipart(msg, *args, **kwargs)

    def _send_at_once(self, msg):
        if threading.current_thread() is not threading.main_thread() or not self.thread.is_alive():
            return False
        if self._events or self._in_use.locked():  # not past what waits already
            return False
        if not can_send_at_once(msg):
            return False
        with self._in_use:
            sent = send_at_once(self.socket, msg)
            news = self.socket.get(zmq.EVENTS) & zmq.POLLIN
        if news:  # sending may have taken the mark of it off the descriptor
            self.schedule(self._take_subscriptions)
        return sent

    def _handle_event(self, msg):
        for _ in range(len(self._events)):
            with self._in_use:
                self._events.popleft()()

    # Who subscribes is welcomed. The base class does it with a stream, which does not know the lock.

    def _setup_xpub_listener(self):
        self.io_loop.asyncio_loop.add_reader(self.socket.FD, self._on_news)

    def _on_news(self):
        with self._in_use:
            self._take_subscriptions()

    def _take_subscriptions(self):
        while self.socket.get(zmq.EVENTS) & zmq.POLLIN:
            self._handle_subscription(self.socket.recv_multipart())

    # Other threads wake this one through a socket each. The base class looks every ten seconds whether a thread has ended, and
    # an idle kernel would wake up for that: whoever comes new does it instead.

    @property
    def _event_pipe(self):
        known = hasattr(self._local, "event_pipe")
        pipe = super()._event_pipe
        if not known:
            self._close_pipes_of_ended_threads()
        return pipe

    def _close_pipes_of_ended_threads(self):
        with self._event_pipe_gc_lock:
            for thread in [thread for thread in self._event_pipes if not thread.is_alive()]:
                self._event_pipes.pop(thread).close()

    async def _run_event_pipe_gc(self):
        pass
