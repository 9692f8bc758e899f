"""The whole of what one execution writes to one stream, in a file once it is more than the answer holds."""

import contextlib
import os
import threading

# From here on the text goes to a file. Must be below MAX_STREAM_BYTES of include/husk/limits.h, where
# the shim begins to leave text out: whatever it leaves out is then in a file.
WHOLE_TEXT_THRESHOLD = 1024 * 1024 - 4 * 1024

# A file that would be larger, or take more than this part of the space that is free, is not kept.
WHOLE_TEXT_LIMIT = 256 * 1024 * 1024
WHOLE_TEXT_SHARE_OF_FREE_SPACE = 4

FOLDER = ".husk"


class WholeText:
    """Holds the text up to the threshold, and writes it to a file from there on. Given up for good when
    the file cannot be complete: a part of the text must not pass for the whole.

    Text is added by the thread that sends; the end is told by the one that executes.
    """

    def __init__(self, home, stream, execution_count, message_id):
        self.message_id = message_id  # of the execution
        self._home = home
        self._name = f"{stream}-{execution_count}.txt"
        self._lock = threading.Lock()
        self._held = []
        self._size = 0
        self._limit = WHOLE_TEXT_LIMIT
        self._file = None
        self._ended = False

    def add(self, text):
        with self._lock:
            if self._ended:
                return
            data = text.encode(errors="replace")
            self._size += len(data)
            if self._file is None and self._size <= WHOLE_TEXT_THRESHOLD:
                self._held.append(data)
                return
            try:
                self._write(data)
            except OSError:  # disk full, no more inodes, a file where the folder should be
                self._give_up()

    def end(self):
        """The path of the file, relative to the home directory; None if there is none."""
        with self._lock:
            file, self._file, self._held, self._ended = self._file, None, [], True
            if file is None:
                return None
            file.close()
            return f"{FOLDER}/{self._name}"

    def _write(self, data):
        if self._file is None:
            self._open()
        if self._size > self._limit:
            self._give_up()
            return
        rest = memoryview(data)
        while rest:
            rest = rest[self._file.write(rest) :]

    def _open(self):
        folder = os.path.join(self._home, FOLDER)
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, self._name)
        # One of an earlier kernel, which counted from 1 as well. Anything may be there, so create anew.
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        space = os.statvfs(folder)
        self._limit = min(self._limit, space.f_bavail * space.f_frsize // WHOLE_TEXT_SHARE_OF_FREE_SPACE)
        self._file = open(path, "xb", buffering=0)
        held, self._held = self._held, []
        for data in held:
            self._write(data)

    def _give_up(self):
        self._ended, self._held = True, []
        if self._file is not None:
            self._file.close()
            with contextlib.suppress(OSError):
                os.unlink(self._file.name)
            self._file = None
