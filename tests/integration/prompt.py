"""`husk repl` on a pseudo-terminal, and the screen that a user would see."""

import os
import time

import pexpect
import pyte

from service import ANSWER_SECONDS, PROGRAMS

CONTROL_C, CONTROL_D, CONTROL_R, CONTROL_Z = "\x03", "\x04", "\x12", "\x1a"
TAB, ENTER, BACKSPACE, ESCAPE = "\t", "\r", "\x7f", "\x1b"
UP, DOWN, RIGHT, LEFT, HOME, END = "\x1b[A", "\x1b[B", "\x1b[C", "\x1b[D", "\x1b[H", "\x1b[F"


def pasted(text):
    """As a terminal sends what is pasted."""
    return f"\x1b[200~{text}\x1b[201~"


class Prompt:
    """A running `husk repl`. `screen` is what it looks like, `raw` is everything that it has written."""

    def __init__(self, service, folder, *arguments, environment=None, rows=40, columns=100):
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "XDG_STATE_HOME": str(folder / "state"),
            "HUSK_URL": service.url,
            "TERM": "linux",
            **{key: value for key, value in os.environ.items() if key.endswith("SAN_OPTIONS")},
            **(environment or {}),
        }
        self.screen = pyte.HistoryScreen(columns, rows, history=2000)
        self.stream = pyte.Stream(self.screen)
        self.raw = ""
        self.ended = False
        self.child = pexpect.spawn(
            str(PROGRAMS / "husk"),
            ["repl", *arguments],
            env=self.environment,
            cwd=str(folder),
            dimensions=(rows, columns),
            encoding="utf-8",
            echo=False,
        )
        self.child.delaybeforesend = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.close(force=True)

    # --- what it shows ---

    def read(self):
        try:
            text = self.child.read_nonblocking(65536, timeout=0.05)
        except pexpect.TIMEOUT:
            return
        except pexpect.EOF:
            self.ended = True
            return
        self.raw += text
        self.stream.feed(text)

    def lines(self):
        return [line.rstrip() for line in self.screen.display]

    def line(self):
        """The one with the cursor."""
        return self.lines()[self.screen.cursor.y]

    def shows(self, text):
        return any(text in line for line in self.lines())

    def until(self, condition, what):
        deadline = time.monotonic() + ANSWER_SECONDS
        while not condition():
            assert not self.ended, f"{what}: it has ended\n" + "\n".join(self.lines())
            assert time.monotonic() < deadline, f"{what}: not seen\n" + "\n".join(self.lines())
            self.read()

    def until_shown(self, text):
        self.until(lambda: self.shows(text), f"{text!r} on the screen")

    def until_line(self, text):
        """The line with the cursor is this one."""
        self.until(lambda: self.line() == text, f"{text!r} at the cursor")

    def until_prompt(self, number):
        """It waits for a cell, at an empty prompt."""
        text = f"In [{number}]:"
        self.until(
            lambda: self.line() == text and self.screen.cursor.x == len(text) + 1, f"the prompt of cell {number}"
        )

    # --- what it is told ---

    def send(self, *keys):
        for key in keys:
            self.child.send(key)

    def run(self, cell, number):
        """Type a cell of one line, and wait for the prompt with this number."""
        self.send(cell, ENTER)
        self.until_prompt(number)

    def resize(self, rows, columns):
        self.screen.resize(rows, columns)
        self.child.setwinsize(rows, columns)

    def end(self):
        """Ctrl-D; the exit status."""
        self.send(CONTROL_D)
        return self.status()

    def status(self):
        deadline = time.monotonic() + ANSWER_SECONDS
        while not self.ended:
            assert time.monotonic() < deadline, "it does not end\n" + "\n".join(self.lines())
            self.read()
        self.child.wait()
        return self.child.exitstatus
