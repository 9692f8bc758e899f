"""The socket that execute requests come from."""

import asyncio
import contextvars

import zmq
from zmq.eventloop.zmqstream import ZMQStream

from husk_publisher import can_send_at_once, send_at_once


class ShellStream(ZMQStream):
    """The base class puts every message into a queue, in both directions, and looks at the socket in the
    next rounds of the loop. Here a request goes to its task at once, and a reply to the socket."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._context = contextvars.copy_context()  # one for all requests, as ipykernel has it
        self._tasks = set()  # that run; the loop itself would not keep them alive

    def receive_with(self, take):
        """Have the coroutine function `take` called with every message."""

        def begin(msg):
            task = asyncio.get_running_loop().create_task(take(msg), context=self._context)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        self.on_recv(begin, copy=False)

    def send_multipart(self, msg, *args, **kwargs):
        if self.sending() or not can_send_at_once(msg) or not send_at_once(self.socket, msg):
            super().send_multipart(msg, *args, **kwargs)
        else:
            self._rebuild_io_state()  # sending may have taken the mark of a new message off the descriptor

    def _handle_events(self, fd, events):
        if not self.socket or self._flushed or self.sending() or not self.receiving():
            super()._handle_events(fd, events)
            return
        try:
            while self.receiving():
                self._run_callback(self._recv_callback, self.socket.recv_multipart(zmq.NOBLOCK, copy=False))
        except zmq.Again:
            pass
