"""The `husk` command on a terminal: colours, tables, progress, questions, Ctrl-C; and what sandboxes may do to it."""

import http.server
import json
import os
import re
import threading

import pexpect
import pytest

import host
from husk_command import Husk, ended
from local_index import Index, Wheel

COLOUR = "\x1b[1m"


@pytest.fixture
def husk(service, folder):
    return Husk(service, folder)


# ---- what a sandbox may do to a terminal ---------------------------------------------------------

# Title, clipboard, screen, cursor, query, device control, character set, C1 of eight bits.
ATTACKS = ["\x1b]0;title\x07", "\x1b]52;c;cm0gLXJm\x07", "\x1b[2J\x1b[H", "\x1b[3A", "\x1b[6n", "\x1bP+q\x1b\\", "\x1b(0", "\x9d52;c;eA\x9c", "\x05"]  # fmt: skip


def without_colours(text):
    return re.sub("\x1b\\[[0-9;]*[mK]", "", text)


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_control_sequences_are_defused(husk, stream):
    code = f"import sys; sys.{stream}.write({''.join(ATTACKS)!r} + '\\x1b[31mred\\x1b[0m 正 end\\n')"
    status, text = ended(husk.terminal("run", "-c", code))
    assert status == 0 and "\x1b[31mred\x1b[0m 正 end" in text
    rest = without_colours(text)
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]", rest), rest
    assert "␛]52;c;cm0gLXJm␇" in rest


def test_every_way_to_the_terminal_is_defused(husk, sandbox):
    """Results, errors, their values, names of files, of sandboxes' figures; files that are fetched to it; commands."""
    attack = "mark\x1b]0;title\x07"
    run = (
        f"import os\nopen({attack!r}, 'w').write({attack!r})\nprint(input({attack!r}))\n"
        f"class Shown:\n    def __repr__(self): return {attack!r}\nShown()\n"
    )
    child = husk.terminal("exec", sandbox.id, "-c", run)
    child.expect_exact("mark␛]0;title␇")
    child.sendline("x")
    texts = [child.before, ended(child)[1]]
    for words in (
        ["exec", sandbox.id, "-c", f"raise ValueError({attack!r})"],
        ["exec", sandbox.id, "-c", f"import sys; sys.exit({attack!r})"],
        ["files", sandbox.id],
        ["get", sandbox.id, attack, "-o", "-"],
        ["get", sandbox.id, "not" + attack],
        ["sh", sandbox.id, f"printf '{attack}'; printf '{attack}' >&2"],
    ):
        texts.append(ended(husk.terminal(*words))[1])
        assert "mark" in texts[-1], words
    for text in texts:
        assert "\x1b]" not in text and "\x07" not in text, text


def test_colours_do_not_leak(husk):
    status, text = ended(husk.terminal("run", "-c", "print('\\x1b[41;5mred')"))
    assert status == 0 and text.rstrip().endswith("\x1b[0m")


# ---- tables and colours --------------------------------------------------------------------------


def test_tables(husk, create):
    sandbox = create(name="a-rather-long-name-for-a-sandbox-of-the-tests")
    status, text = ended(husk.terminal("ls", columns=120))
    title, *rows = text.splitlines()
    assert status == 0 and title.startswith(COLOUR) and [row for row in rows if row.startswith(sandbox.id)]
    [row] = [row for row in ended(husk.terminal("ls", columns=90))[1].splitlines() if row.startswith(sandbox.id)]
    assert len(row) <= 90 and "…" in row
    for environment in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert "\x1b" not in ended(husk.terminal("ls", env=environment))[1]
    assert COLOUR in ended(husk.terminal("--help"))[1]
    assert ended(husk.terminal("ls", "--json"))[1].startswith("{")


def test_no_sandboxes(private, folder):
    assert "husk create" in ended(Husk(private().start(), folder).terminal("ls"))[1]


def test_tracebacks_have_colours(husk):
    assert "\x1b[" in ended(husk.terminal("run", "-c", "1 / 0"))[1]
    assert "\x1b[" not in ended(husk.terminal("run", "-c", "1 / 0", env={"NO_COLOR": "1"}))[1]


# ---- questions -----------------------------------------------------------------------------------


def test_input(husk):
    child = husk.terminal("run", "-c", "name = input('who? ')\nprint('hello', name)\nprint(input('again? '))")
    child.expect_exact("who? ")
    child.sendline("正")
    child.expect_exact("hello 正")
    child.expect_exact("again? ")
    child.sendline("yes")
    assert ended(child)[0] == 0


def test_end_of_input(husk):
    child = husk.terminal("run", "-c", "input('who? ')")
    child.expect_exact("who? ")
    child.sendeof()
    status, text = ended(child)
    assert status == 1 and "EOFError" in text


def test_passwords_are_not_shown(husk):
    child = husk.terminal("run", "-c", "import getpass\np = getpass.getpass('secret: ')\nprint(len(p))")
    child.expect_exact("secret: ")
    child.waitnoecho()
    child.sendline("swordfish")
    status, text = ended(child)
    assert status == 0 and "9" in text and "swordfish" not in text


def test_close_all_asks(private, folder):
    husk = Husk(private().start(), folder)
    husk("create")
    for answer, left in (("n", 1), ("", 1), ("y", 0)):
        child = husk.terminal("close", "--all")
        child.expect_exact("[y/N]")
        child.sendline(answer)
        assert ended(child)[0] == left and len(husk.json("ls")) == left
    husk("create")
    assert ended(husk.terminal("close", "--all", "--yes"))[0] == 0 and husk.json("ls") == {}


def test_no_code(husk):
    status, text = ended(husk.terminal("run"))
    assert status == 2 and "-c CODE" in text


# ---- Ctrl-C --------------------------------------------------------------------------------------


def test_interrupt_code(husk, service):
    child = husk.terminal("run", "-c", "import time\nprint('begun')\ntime.sleep(600)")
    child.expect_exact("begun")
    child.sendintr()
    assert ended(child)[0] == 130 and service.sandboxes() == {}


@pytest.mark.parametrize("key, status", [("c", 130), ("\\", 131)])
def test_interrupt_a_question(husk, service, key, status):
    """The terminal shows again what is typed."""
    child = husk.terminal("run", "-c", "import getpass; getpass.getpass('secret: ')")
    child.expect_exact("secret: ")
    child.waitnoecho()
    child.sendcontrol(key)
    child.expect_exact("\n")
    host.until(child.getecho, 30, "the echo")
    assert ended(child)[0] == status and service.sandboxes() == {}


def test_interrupt_a_command(husk, sandbox):
    child = husk.terminal("sh", sandbox.id, "echo begun; exec sleep 600")
    child.expect_exact("begun")
    child.sendintr()
    assert ended(child)[0] == 130
    host.until(lambda: "sleep" not in husk.out("sh", sandbox.id, "-n", "cat /proc/[0-9]*/comm"), 30, "the command to end")


# ---- progress ------------------------------------------------------------------------------------


class Dripping:
    """A service whose one file comes in pieces, until the test has seen enough."""

    def __init__(self):
        self.enough = threading.Event()
        dripping = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                download = "/download/" in self.path
                body = b"x" * 1000000 if download else json.dumps({"code": "file_not_found", "detail": "no", "status": 404}).encode()
                self.send_response(200 if download else 404)
                self.send_header("Content-Type", "application/octet-stream" if download else "application/problem+json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                for at in range(0, len(body), 10000):
                    dripping.enough.wait(0.05 if download else 0)
                    self.wfile.write(body[at : at + 10000])

            def log_message(self, *arguments):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.enough.set()
        self.server.shutdown()
        self.server.server_close()


def test_progress_of_a_download(folder):
    with Dripping() as dripping:
        husk = Husk(dripping.url, folder)
        child = husk.terminal("get", "box", "file")
        child.expect(r"\rfile +\d+%  █*░+ [\d.]+ KB  [\d.]+ KB/s\x1b\[K")
        dripping.enough.set()
        status, text = ended(child)
        assert status == 0 and text.endswith("\r\x1b[K") and (folder / "file").stat().st_size == 1000000
        assert husk("get", "box", "file").stderr == ""


def test_progress_of_an_upload(husk, sandbox, folder):
    """From a pipe: how much it will be is not known. One beside it, that takes as long, is quiet."""
    pipes = [folder / "loud", folder / "quiet"]
    for pipe in pipes:
        os.mkfifo(pipe)
    loud = husk.terminal("put", sandbox.id, "--to", "loud", "-", stdin=pipes[0])
    quiet = husk.terminal("put", "-q", sandbox.id, "--to", "quiet", "-", stdin=pipes[1])
    sent = 0
    with pipes[0].open("wb", buffering=0) as first, pipes[1].open("wb", buffering=0) as second:

        def more():
            nonlocal sent
            sent += first.write(b"x" * 1000)
            second.write(b"x" * 1000)
            return loud.expect([r"standard input  [\d.]+ K?B  [\d.]+ K?B/s", pexpect.TIMEOUT], timeout=0) == 0

        host.until(more, 60, "the progress")
    assert ended(loud)[0] == 0 and ended(quiet) == (0, "")
    assert [line.split("\t")[0] for line in husk.out("files", sandbox.id).splitlines()] == [str(sent), str(sent)]


def test_progress_of_an_install(private, folder):
    with Index(Wheel("plainpkg", "1.0")) as index:
        shop = private(environment={"HUSK_PACKAGE_INDEX": index.url}).start()
        husk = Husk(shop, folder)
        sandbox = husk.out("create").strip()
        index.hold.clear()
        child = husk.terminal("install", sandbox, "plainpkg")
        child.expect_exact("installing  0s  Collecting plainpkg\x1b[K")
        index.hold.set()
        status, text = ended(child)
        assert status == 0 and text.endswith("\r\x1b[Kplainpkg 1.0\r\n")
        husk("close", sandbox)
