"""`husk` and a service that is none, or a stranger's: what it says reaches a terminal as text, and scripts as one line for each thing."""

import pexpect
import pytest

import host
from fake_husk import FakeHusk, answer
from husk_command import Husk, ended
from prompt import CONTROL_C, ENTER, Prompt

EVIL = "a\x1b]0;owned\x07\x1b[2J\x9b5n\x7fz"
SEQUENCES = ("\x1b]", "\x1b[2J", "\x9b", "\x07", "\x7f")
SANDBOX = {"sandbox_id": EVIL, "name": EVIL, "state": EVIL, "created_at": EVIL, "expires_at": EVIL, "limits": {}}
CASES = {
    "create": (["create"], SANDBOX),
    "list": (["ls"], {"x": SANDBOX}),
    "ids": (["ls", "--quiet"], {"x": SANDBOX}),
    "json": (["ls", "--json"], {"x": SANDBOX}),
    "info": (["info", "x"], SANDBOX),
    "health": (["health"], {"status": "unhealthy", "version": EVIL, "reasons": [EVIL]}),
    "files": (["files", "x"], [{"path": EVIL, "size": 1, "type": EVIL, "modified_at": EVIL}]),
    "packages": (["packages", "x"], [{"name": EVIL, "version": EVIL, "status": EVIL}]),
}


@pytest.mark.parametrize("kind", CASES)
def test_nothing_steers_the_terminal(folder, kind):
    words, body = CASES[kind]
    # As it is, not as an escape of JSON, where JSON allows that.
    said = answer(body)
    with FakeHusk(said, answer(b"")) as fake:
        _, text = ended(Husk(fake.url, folder).terminal(*words))
        assert "owned" in text
        assert not [sequence for sequence in SEQUENCES if sequence in text]


def test_json_steers_no_terminal(folder):
    body = '{"sandbox_id": "x", "name": "\x9b5n\x7f"}'.encode()
    with FakeHusk(answer(body)) as fake:
        _, text = ended(Husk(fake.url, folder).terminal("info", "x", "--json"))
        assert "5n" in text and "\x9b" not in text and "\x7f" not in text
        # A program gets every byte.
        assert Husk(fake.url, folder)("info", "x", "--json", text=False).stdout == body + b"\n"


def test_the_greeting_of_the_prompt(folder):
    with FakeHusk(answer(SANDBOX)) as fake, Prompt(fake, folder) as prompt:
        prompt.until(lambda: "owned" in prompt.raw, "the greeting")
        assert not [sequence for sequence in SEQUENCES if sequence in prompt.raw]


def test_a_name_is_one_line_for_a_script(folder):
    """A file whose name has line breaks and tabs in it is not two files."""
    files = [{"path": "a\n7\t2026-01-01T00:00:00Z\tforged", "size": 1, "modified_at": "m"}, {"path": "b c", "size": 2}]
    with FakeHusk(answer(files)) as fake:
        husk = Husk(fake.url, folder)
        rows = [line.split("\t") for line in husk.out("files", "x").splitlines()]
        assert rows == [["1", "m", "a␊7␉2026-01-01T00:00:00Z␉forged"], ["2", "", "b c"]]
        assert husk.json("files", "x") == files


def hang(peer):
    while peer.recv(65536):
        pass


@pytest.mark.parametrize("words", [[], ["box"]])
def test_a_prompt_whose_service_hangs_can_be_left(folder, words):
    with FakeHusk(hang) as fake, Prompt(fake, folder, *words) as prompt:
        host.until(lambda: fake.requests, 30, "the first call")
        prompt.send(CONTROL_C)
        prompt.child.expect(pexpect.EOF, timeout=30)
        prompt.child.close()
        assert prompt.child.exitstatus == 130


@pytest.mark.parametrize("cell", [":files", ":restart", "name?"])
def test_calls_of_the_prompt_can_be_given_up(folder, cell):
    whole = answer({"status": "complete"})
    answers = [answer({"sandbox_id": "box"}), *([whole] if cell == "name?" else []), hang, answer({})]
    with FakeHusk(*answers) as fake, Prompt(fake, folder) as prompt:
        prompt.until_prompt(1)
        prompt.send(cell, ENTER)
        host.until(lambda: len(fake.requests) == len(answers) - 1, 30, "the call")
        prompt.send(CONTROL_C)
        prompt.until(lambda: prompt.raw.count("In [1]: ") > 1 and "cancelled" in prompt.raw or "Given up" in prompt.raw, "the next prompt")
