"""`husk repl`, its sandboxes and its service, which may go away; and `husk repl` without a terminal."""

import os
import signal
import subprocess

import pytest

import host
from prompt import CONTROL_C, CONTROL_D, ENTER
from service import ANSWER_SECONDS, PROGRAMS


# --- when things go wrong ---


def test_a_service_that_is_away(start, private, folder):
    """The cell is not lost; when the service is back it runs, and the variables are there."""
    service = private().start()
    prompt = start(of=service)
    prompt.until_prompt(1)
    prompt.run("kept = 5", 2)
    assert service.stop() == 0
    prompt.send("kept + 1", ENTER)
    prompt.until_shown("The cell was not run.")
    prompt.until_line("In [2]: kept + 1")
    service.start()
    prompt.send(ENTER)
    prompt.until_prompt(3)
    assert prompt.shows("Out[2]: 6")
    assert prompt.end() == 0
    assert not service.sandboxes()


def test_a_service_that_dies_while_a_cell_runs(start, private):
    service = private().start()
    prompt = start(of=service)
    prompt.until_prompt(1)
    prompt.run("kept = 5", 2)
    prompt.send("import time; print('begun'); time.sleep(600)", ENTER)
    prompt.until(lambda: "begun" in prompt.lines(), "the begin")
    service.stop(signal.SIGKILL)
    prompt.until_shown("The cell may have run, or still run.")
    prompt.until_line("In [2]:")
    service.start()
    prompt.send("kept", ENTER)
    prompt.until_shown("Something else runs in this sandbox")
    prompt.send(CONTROL_C)
    prompt.until_shown("]: 5")
    assert prompt.end() == 0


def test_a_sandbox_that_is_closed(start, service):
    prompt = start()
    prompt.until_prompt(1)
    prompt.run("lost = 5", 2)
    [old] = service.sandboxes()
    assert service.delete(f"/sandbox/{old}").status_code == 200
    prompt.send("print('kept text')", ENTER)
    prompt.until_shown("The next cell runs in a new one")
    prompt.until_line("In [2]: print('kept text')")
    prompt.send(ENTER)
    prompt.until_prompt(2)
    assert "kept text" in prompt.lines()
    [new] = service.sandboxes()
    assert new != old
    prompt.send("import time; print('begun'); time.sleep(600)", ENTER)
    prompt.until(lambda: "begun" in prompt.lines(), "the begin")
    assert service.delete(f"/sandbox/{new}").status_code == 200
    prompt.until(lambda: prompt.line().startswith("In ["), "a prompt")
    prompt.send(CONTROL_C)
    assert prompt.end() == 0
    assert not service.sandboxes()


def test_kernel_that_dies(prompt):
    prompt.send("import os; os.kill(os.getpid(), 9)", ENTER)
    prompt.until_shown("variables are gone, files are still there")
    prompt.until_prompt(1)
    prompt.run("1 + 1", 2)
    assert prompt.shows("Out[1]: 2")


def test_no_service(start, private):
    service = private()
    prompt = start(of=service)
    assert prompt.status() == 4
    assert service.url in prompt.raw


# --- sandboxes, and commands of the prompt ---


def test_whose_sandbox_it_is(start, service, sandbox):
    """A new one goes with the prompt, unless it is kept; one that was there stays."""
    sandbox.run("there = 'already'")
    prompt = start(sandbox.id)
    prompt.until_prompt(2)
    prompt.run("there", 3)
    assert prompt.shows("Out[2]: 'already'")
    assert prompt.end() == 0
    assert list(service.sandboxes()) == [sandbox.id]
    prompt = start("--keep", "--name", "kept-one")
    prompt.until_prompt(1)
    prompt.run("there = 'again'", 2)
    assert prompt.end() == 0
    [kept] = [info for info in service.sandboxes().values() if info["name"] == "kept-one"]
    prompt = start("kept-one")
    prompt.until_prompt(2)
    prompt.run("there", 3)
    assert prompt.shows("Out[2]: 'again'")
    assert prompt.end() == 0


def test_own_commands(prompt, folder):
    (folder / "here is one.txt").write_text("from the host")
    prompt.send(":put 'here is one.txt' data/there.txt", ENTER)
    prompt.until_prompt(1)
    prompt.run("open('data/there.txt').read()", 2)
    assert prompt.shows("Out[1]: 'from the host'")
    prompt.run("open('made.txt', 'w').write('in the sandbox')", 3)
    prompt.send(":files", ENTER)
    prompt.until_shown("data/there.txt")
    prompt.send(":get made.txt back.txt", ENTER)
    host.until(lambda: (folder / "back.txt").exists(), ANSWER_SECONDS, "the file")
    assert (folder / "back.txt").read_text() == "in the sandbox"
    prompt.send(":nonsense", ENTER)
    prompt.until_shown("There is no :nonsense")
    prompt.send(":restart", ENTER)
    prompt.until_prompt(1)
    prompt.run("open('made.txt').read()", 2)
    prompt.send(":quit", ENTER)
    assert prompt.status() == 0


@pytest.mark.parametrize("farewell", ["exit", "quit()", CONTROL_D])
def test_farewell(start, service, farewell):
    prompt = start()
    prompt.until_prompt(1)
    prompt.send(farewell, *([] if farewell == CONTROL_D else [ENTER]))
    assert prompt.status() == 0
    assert not service.sandboxes()


# --- without a terminal ---


def piped(service, folder, text, *arguments):
    return subprocess.run(
        [PROGRAMS / "husk", "repl", *arguments],
        input=text,
        capture_output=True,
        text=True,
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "HUSK_URL": service.url},
        timeout=ANSWER_SECONDS,
    )


def test_piped_statements(service, folder):
    text = (
        "x = 1\nfor i in range(2):\n    print('i', i)\n\n    print('after blank')\nelse:\n    print('else')\n"
        "def f(a,\nb):\n    return a + b\nf(x, 41)\nname = input('who? ')\nAda\nprint('hello', name)\n"
        "%%capture caught\nprint('one')\nprint('two')\n\nlen(caught.stdout)\n"
    )
    answer = piped(service, folder, text)
    assert answer.stdout == "i 0\nafter blank\ni 1\nafter blank\nelse\n42\nwho? hello Ada\n8\n", answer
    assert answer.returncode == 0 and answer.stderr == ""


def test_piped_status_is_that_of_the_last(service, folder):
    answer = piped(service, folder, "1 / 0\nprint('goes on')\n")
    assert answer.returncode == 0 and answer.stdout == "goes on\n" and "ZeroDivisionError" in answer.stderr
    assert piped(service, folder, "print(1)\nraise SystemExit(7)\n").returncode == 7
    assert piped(service, folder, "x = (1,\n").returncode == 1
    assert piped(service, folder, "").returncode == 0
    assert not service.sandboxes()
