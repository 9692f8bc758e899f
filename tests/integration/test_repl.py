"""`husk repl` as somebody at a terminal meets it. The fixtures start prompts; prompt.py has the keys and the screen."""

import os
import signal
import stat

import pytest

import host
from prompt import (
    BACKSPACE,
    CONTROL_C,
    CONTROL_D,
    CONTROL_R,
    DOWN,
    END,
    ENTER,
    HOME,
    LEFT,
    TAB,
    UP,
    pasted,
)
from service import ANSWER_SECONDS, later


# --- cells ---


def test_values_output_and_errors(prompt):
    prompt.run("6 * 7", 2)
    assert prompt.shows("Out[1]: 42")
    prompt.run("print('to be', end='')", 3)
    assert "to be" in prompt.lines()
    prompt.run("1 / 0", 4)
    assert prompt.shows("ZeroDivisionError: division by zero")
    assert "\x1b[31m" in prompt.raw  # the traceback has colours
    prompt.run("[1, 2]", 5)
    assert prompt.shows("Out[4]: [1, 2]")
    assert prompt.end() == 0


def test_without_colours(start):
    prompt = start(environment={"NO_COLOR": "1"})
    prompt.until_prompt(1)
    prompt.run("1 / 0", 2)
    assert "\x1b[3" not in prompt.raw


def test_a_block_wants_more_lines(prompt):
    """By the kernel's own judgement, with its indentation; a blank line ends it."""
    prompt.send("for i in range(2):", ENTER)
    prompt.until(lambda: prompt.line() == "   ...:" and prompt.screen.cursor.x == 12, "the indentation")
    prompt.send("print('line', i)", ENTER)
    second = "   ...:     print('line', i)"
    prompt.until(lambda: second in prompt.lines() and prompt.line() == "   ...:", "the third line")
    prompt.until(lambda: prompt.screen.cursor.x == 12, "its indentation")
    prompt.send(ENTER)
    prompt.until_prompt(2)
    assert {"line 0", "line 1"} <= set(prompt.lines())


def test_all_lines_of_a_cell_can_be_edited(prompt):
    prompt.send("for i in [1]:", ENTER)
    prompt.until(lambda: prompt.line() == "   ...:" and prompt.screen.cursor.x == 12, "the indentation")
    prompt.send("print(i)", UP, END, LEFT, LEFT, ", 2")
    prompt.until_line("In [1]: for i in [1, 2]:")
    prompt.send(DOWN, END, ENTER, ENTER)
    prompt.until_prompt(2)
    assert {"1", "2"} <= set(prompt.lines())


def test_lines_are_joined(prompt):
    """Backspace at a line's begin, and into its margin, takes the line break with it."""
    prompt.send(pasted("1 +\n2"), HOME, BACKSPACE)
    prompt.until_line("In [1]: 1 +2")
    prompt.send(ENTER)
    prompt.until_prompt(2)
    assert prompt.shows("Out[1]: 3")


def test_indentation_goes_step_by_step(prompt):
    prompt.send(TAB, TAB, "x", LEFT, BACKSPACE)
    prompt.until_line("In [1]:     x")


def test_paste_is_one_cell(prompt):
    """With the blank lines and the indentation that it has; control characters stay outside."""
    prompt.send(pasted("def f():\r\n    a = 1\r\n\r\n    return a\x1b[31m + 1\x07\r\n\r\nprint('f is', f())\r\n"))
    prompt.until_line("   ...: print('f is', f())")
    assert "   ...:     return a[31m + 1" in prompt.lines()
    for _ in range(2):
        prompt.send(UP)
    prompt.send(HOME, "    return a + 1 #", DOWN, DOWN, END, ENTER)
    prompt.until_prompt(2)
    assert "f is 2" in prompt.lines()


def test_text_of_all_widths(prompt):
    prompt.send('名字 = "你好世界"', LEFT, LEFT, LEFT, BACKSPACE, "们🦊")
    prompt.until_line('In [1]: 名字 = "你们🦊世界"')
    prompt.send(HOME, ENTER)
    prompt.until_prompt(2)
    prompt.run("名字, len(名字)", 3)
    assert prompt.shows("Out[2]: ('你们🦊世界', 5)")


def test_resize(prompt):
    prompt.send("value = [" + ", ".join(map(str, range(100, 130))) + "]")
    prompt.until(lambda: prompt.line().endswith("129]"), "the whole line")
    for columns in (40, 130, 60):
        prompt.resize(40, columns)
        prompt.until(lambda: prompt.line().endswith("129]"), f"the line with {columns} columns")
    prompt.send(LEFT, ", 130", ENTER)
    prompt.until_prompt(2)
    prompt.run("len(value), value[-1]", 3)
    assert prompt.shows("Out[2]: (31, 130)")


def test_what_is_typed_while_a_cell_runs_waits(prompt):
    prompt.send("import time; print('begun'); time.sleep(1); print('over')", ENTER)
    prompt.until(lambda: "begun" in prompt.lines(), "the begin")
    prompt.send("6 * 7", ENTER)
    prompt.until_prompt(3)
    lines = prompt.lines()
    assert lines.index("over") == lines.index("begun") + 1
    assert prompt.shows("Out[2]: 42")


def test_the_end_may_be_typed_while_a_cell_runs(prompt):
    prompt.send("import time; print('begun'); time.sleep(1); print('over')", ENTER)
    prompt.until(lambda: "begun" in prompt.lines(), "the begin")
    assert prompt.end() == 0
    assert prompt.shows("over")


def test_magics_and_commands_are_the_kernels(prompt):
    prompt.run("!echo from the $0", 2)
    assert prompt.shows("from the ")
    prompt.run("%pwd", 3)
    assert prompt.shows("Out[2]: '/home/user'")


# --- completion and inspection ---


@pytest.fixture
def knowing(start, sandbox):
    """A prompt in a sandbox whose completer has loaded what it needs: for the first answer that takes seconds."""
    asked = {"code": "pri", "cursor": 3}
    host.until(lambda: sandbox.post("complete", json=asked).status_code == 200, ANSWER_SECONDS, "the completer")
    prompt = start(sandbox.id)
    prompt.until_prompt(1)
    return prompt


def test_completion(knowing):
    prompt = knowing
    prompt.run("value_one, value_two = 1, 2", 2)
    prompt.send("val")
    prompt.send(TAB)
    prompt.until_line("In [2]: value_")
    prompt.send(TAB)
    prompt.until(lambda: "value_one  value_two" in prompt.lines() and prompt.line() == "In [2]: value_", "the list")
    prompt.send("t", TAB)
    prompt.until_line("In [2]: value_two")
    prompt.send(ENTER)
    prompt.until_prompt(3)
    assert prompt.shows("Out[2]: 2")


def test_completion_in_the_second_line(knowing):
    prompt = knowing
    prompt.run("value_one = 1", 2)
    prompt.send("if True:", ENTER)
    prompt.until(lambda: prompt.line() == "   ...:" and prompt.screen.cursor.x == 12, "the indentation")
    prompt.send("名字 = value", TAB)
    prompt.until_line("   ...:     名字 = value_one")


def test_inspection(prompt):
    prompt.send(pasted("def husky(kernel):\n    'What encloses it.'\n    return kernel"), ENTER, ENTER)
    prompt.until_prompt(2)
    prompt.send("husky?", ENTER)
    prompt.until_shown("What encloses it.")
    assert prompt.shows("husky(kernel)")
    prompt.until_prompt(2)
    prompt.send("husky??", ENTER)
    prompt.until(lambda: len([line for line in prompt.lines() if line.endswith("return kernel")]) == 2, "the source")
    prompt.until_prompt(2)
    prompt.send("nothing_of_this_name?", ENTER)
    prompt.until_shown("There is no nothing_of_this_name.")


# --- history ---


def test_history_outlives_sessions(start, folder):
    first = start()
    first.until_prompt(1)
    first.run("alpha = 1", 2)
    first.send(pasted("for i in [7]:\n    print('loop', i)"), ENTER, ENTER)
    first.until_prompt(3)
    first.run(" secret = 'not remembered'", 4)
    first.run("beta = 'C:\\\\new'", 5)
    assert first.end() == 0
    file = folder / "state" / "husk" / "history"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "secret" not in file.read_text()

    second = start()
    second.until_prompt(1)
    second.send(UP)
    second.until_line("In [1]: beta = 'C:\\\\new'")
    second.send(UP)
    second.until_line("   ...:     print('loop', i)")
    second.send(UP)
    second.until_line("In [1]: alpha = 1")
    second.send(DOWN, DOWN, DOWN)
    second.until_prompt(1)
    second.send("al", UP)
    second.until_line("In [1]: alpha = 1")
    second.send(CONTROL_C)
    second.until_prompt(1)
    second.send(CONTROL_R, "loop")
    second.until_line("   ...:     print('loop', i)")
    second.send(ENTER, ENTER)
    second.until_prompt(2)
    assert "loop 7" in second.lines()


def test_history_is_bounded(start, folder):
    file = folder / "state" / "husk" / "history"
    file.parent.mkdir(parents=True)
    file.write_text("".join(f"cell_{number}\n" for number in range(8000)))
    prompt = start()
    prompt.until_prompt(1)
    assert len(file.read_text().splitlines()) < 5000
    prompt.send(UP)
    prompt.until_line("In [1]: cell_7999")


# --- Ctrl-C ---


def test_control_c_drops_the_cell(prompt):
    prompt.send("for i in range(2):", ENTER)
    prompt.until(lambda: prompt.line() == "   ...:" and prompt.screen.cursor.x == 12, "the indentation")
    prompt.send("half a li", CONTROL_C)
    prompt.until_prompt(1)
    prompt.run("'alive'", 2)
    assert prompt.shows("Out[1]: 'alive'")


def test_control_c_interrupts_the_cell(prompt):
    prompt.run("kept = 5", 2)
    prompt.send("import time; print('begun'); time.sleep(600)", ENTER)
    prompt.until(lambda: "begun" in prompt.lines(), "the begin")
    prompt.send(CONTROL_C)
    prompt.until_prompt(3)
    assert prompt.shows("KeyboardInterrupt")
    prompt.run("kept", 4)
    assert prompt.shows("Out[3]: 5")


def test_code_that_does_not_stop_loses_its_kernel(prompt):
    """That is said, and a second Ctrl-C does no more harm than the first."""
    prompt.send(
        pasted("print('begun')\nwhile True:\n    try:\n        while True: pass\n    except BaseException: pass"),
        ENTER,
        ENTER,
    )
    prompt.until(lambda: "begun" in prompt.lines(), "the begin")
    prompt.send(CONTROL_C, CONTROL_C)
    prompt.until_shown("variables are gone, files are still there")
    prompt.until_prompt(1)
    prompt.run("'alive'", 2)


def test_control_c_leaves_the_code_of_others_alone(start, sandbox):
    other = later(sandbox.run, "import os, time\nwhile not os.path.exists('stop'): time.sleep(0.02)\nprint('unharmed')")
    sandbox.until_state("busy")
    prompt = start(sandbox.id)
    prompt.until_prompt(1)
    prompt.send("mine = 1", ENTER)
    prompt.until_shown("Something else runs in this sandbox")
    prompt.send(CONTROL_C)
    prompt.until_shown("Given up")
    sandbox.post("command", json={"command": "touch stop"})
    assert other.result(ANSWER_SECONDS) == "unharmed\n"
    prompt.until(lambda: prompt.line() == "In [1]:", "the prompt")
    prompt.send("'mine' in globals()", ENTER)
    prompt.until_shown("]: False")


def test_end_by_a_signal(start, service):
    """The sandbox is closed, the terminal is as it was."""
    prompt = start()
    prompt.until_prompt(1)
    [made] = [id for id in service.sandboxes()]
    prompt.send("import time; print('begun'); time.sleep(600)", ENTER)
    prompt.until(lambda: "begun" in prompt.lines(), "the begin")
    prompt.child.kill(signal.SIGTERM)
    assert prompt.status() == 128 + signal.SIGTERM
    assert made not in service.sandboxes()


def test_stop_and_go_on(prompt):
    prompt.send("6 *")
    prompt.until_line("In [1]: 6 *")
    os.kill(prompt.child.pid, signal.SIGTSTP)
    host.until(lambda: host.Process(prompt.child.pid).state == "T", ANSWER_SECONDS, "it to stop")
    os.kill(prompt.child.pid, signal.SIGCONT)
    prompt.send(" 7", ENTER)
    prompt.until_prompt(2)
    assert prompt.shows("Out[1]: 42")


# --- input() ---


def test_input(prompt):
    prompt.send("name = input('Who? ')", ENTER)
    prompt.until_line("Who?")
    prompt.send("Ada 你好", ENTER)
    prompt.until_prompt(2)
    assert "Who? Ada 你好" in prompt.lines()
    prompt.run("name", 3)
    assert prompt.shows("Out[2]: 'Ada 你好'")


def test_password_is_not_shown(prompt):
    prompt.send("import getpass; p = getpass.getpass('Word: ')", ENTER)
    prompt.until_line("Word:")
    prompt.send("xyzzy", ENTER)
    prompt.until_prompt(2)
    assert "xyzzy" not in prompt.raw
    prompt.run("p == 'xyz' 'zy'", 3)
    assert prompt.shows("Out[2]: True")


def test_end_of_input_and_interrupted_input(prompt):
    prompt.send("input('one? ')", ENTER)
    prompt.until_line("one?")
    prompt.send(CONTROL_D)
    prompt.until_prompt(2)
    assert prompt.shows("EOFError")
    prompt.send("input('two? ')", ENTER)
    prompt.until_line("two?")
    prompt.send(CONTROL_C)
    prompt.until_prompt(3)
    assert prompt.shows("KeyboardInterrupt")


# --- what is shown ---

FIGURE = "import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()"


def test_figures_are_saved(prompt, folder):
    prompt.run(FIGURE, 2)
    prompt.run(FIGURE, 3)
    assert prompt.shows("husk-figures/figure-1.png") and prompt.shows("husk-figures/figure-2.png")
    for number in (1, 2):
        assert (folder / "husk-figures" / f"figure-{number}.png").read_bytes().startswith(b"\x89PNG")
    assert "\x1b_G" not in prompt.raw and "\x1b]1337" not in prompt.raw


@pytest.mark.parametrize(
    "environment, begin",
    [
        ({"KITTY_WINDOW_ID": "1"}, "\x1b_Ga=T,f=100"),
        ({"TERM_PROGRAM": "iTerm.app"}, "\x1b]1337;File=inline=1"),
        ({"KITTY_WINDOW_ID": "1", "TMUX": "/tmp/x,1,0"}, None),
    ],
)
def test_figures_in_terminals_that_can(start, folder, environment, begin):
    prompt = start("--output", "plots", environment={"TERM": "xterm-256color", **environment})
    prompt.until(lambda: "In [1]: " in prompt.raw, "the prompt")
    prompt.send(FIGURE, ENTER)
    prompt.until(lambda: "In [2]: " in prompt.raw, "the second prompt")
    if begin:
        assert begin in prompt.raw
    else:
        assert "\x1b_G" not in prompt.raw
    assert (folder / "plots" / "figure-1.png").exists()


def test_no_images(start, folder):
    prompt = start("--images", "none", environment={"KITTY_WINDOW_ID": "1"})
    prompt.until_prompt(1)
    prompt.run(FIGURE, 2)
    assert prompt.shows("<Figure size")
    assert not (folder / "husk-figures").exists() and "\x1b_G" not in prompt.raw


def test_hostile_output(knowing):
    """Nothing that a sandbox says reaches the terminal as a command: not by output, errors, names, prompts or completions."""
    prompt = knowing
    bad = "\\x1b]0;owned\\x07\\x1b[2J\\x1b[?1049h\\x9b5n\\x1bc"
    prompt.run(f"bad = '{bad}'; print(bad); import sys; print(bad, file=sys.stderr)", 2)
    prompt.run("type('Bad', (), {'__repr__': lambda self: bad})()", 3)
    prompt.run("raise Exception(bad)", 4)
    prompt.run("from IPython.display import display; display({'text/plain': bad, 'evil/' + bad: 'x'}, raw=True)", 5)
    prompt.send("input(bad)", ENTER)
    prompt.until(lambda: prompt.raw.count("owned") >= 6, "the question")
    prompt.send("answer", ENTER)
    prompt.until_prompt(6)
    prompt.run("class T: __dir__ = lambda self: ['good_one', 'good_two', 'good_' + bad]", 7)
    prompt.run("t = T()", 8)
    prompt.send("t.goo", TAB)
    prompt.until_line("In [8]: t.good_")
    prompt.send(TAB)
    prompt.until(lambda: any("good_one" in line and "good_two" in line for line in prompt.lines()), "the list")
    for sequence in ("\x1b]", "\x1b[2J", "\x1b[?1049h", "\x9b", "\x1bc"):
        assert sequence not in prompt.raw
    assert prompt.screen.title == ""
    assert prompt.shows("In [2]: ") and prompt.shows("␛]0;owned")


def test_output_is_cleared_and_updated(prompt):
    prompt.send(
        pasted(
            "from IPython.display import clear_output, display\n"
            "for i in range(20):\n"
            "    clear_output(wait=True); print('step', i, '\\nsecond line')\n"
            "shown = display('first', display_id='here')\n"
            "for i in range(20): shown.update(f'update {i}')"
        ),
        ENTER,
        ENTER,
    )
    prompt.until_prompt(2)
    lines = prompt.lines()
    assert "step 19" in lines and "'update 19'" in lines
    assert not [line for line in lines if line.startswith(("step 18", "'first", "'update 18"))]
