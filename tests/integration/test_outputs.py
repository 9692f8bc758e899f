"""What code shows: results of every kind, and streams of every size."""

import base64
import re
import struct

import pytest

MIB = 1 << 20


def figure_sizes(answer):
    """Width and height of every PNG of an answer, from its own header."""
    sizes = []
    for result in answer["results"]:
        if result["type"] == "image/png":
            image = base64.b64decode(result["data"], validate=True)
            assert (
                image.startswith(b"\x89PNG\r\n\x1a\n") and image[12:16] == b"IHDR" and image.endswith(b"IEND\xaeB`\x82")
            )
            sizes.append(struct.unpack(">II", image[16:24]))
    return sizes


# --- results ---


def test_figure(shared):
    answer = shared.execute(
        "import matplotlib.pyplot as plt\nplt.figure(figsize=(6, 4))\nplt.plot([1, 4, 9])\nplt.show()"
    )
    assert answer["status"] == "ok", answer
    [(width, height)] = figure_sizes(answer)
    assert width >= 300 and height >= 200
    same = {result["type"] for result in answer["results"] if result["output"] == 0}
    assert same == {"image/png", "text/plain"}, "alternatives of one display"


def test_chinese_title_has_glyphs(shared):
    """A missing glyph would be a box in the picture and a UserWarning on stderr."""
    answer = shared.execute("import matplotlib.pyplot as plt\nplt.title('正态分布'); plt.plot([1, 2]); plt.show()")
    assert answer["status"] == "ok" and answer["stderr"] == ""
    assert len(figure_sizes(answer)) == 1


def test_figure_without_show(shared):
    answer = shared.execute("import matplotlib.pyplot as plt\n_ = plt.hist([1, 2, 2])")
    assert len(figure_sizes(answer)) == 1


def test_several_figures_in_order(shared):
    code = """
        import matplotlib.pyplot as plt
        for n in (2, 4, 6):
            plt.figure(figsize=(n, 2)); plt.plot([n]); plt.show()"""
    sizes = figure_sizes(shared.execute(code))
    assert len(sizes) == 3 and sizes[0][0] < sizes[1][0] < sizes[2][0]


def test_table_as_html(shared):
    answer = shared.execute("import pandas as pd\npd.DataFrame({'a': [1, 2], 'b': ['x', 'é']})")
    by_type = {result["type"]: result for result in answer["results"]}
    assert "<table" in by_type["text/html"]["data"] and "é" in by_type["text/html"]["data"]
    assert by_type["text/plain"]["data"].split()[:2] == ["a", "b"]
    assert all(result["main"] is True and result["output"] == 0 for result in answer["results"])


def test_json_result_stays_json(shared):
    answer = shared.execute("from IPython.display import JSON, display\ndisplay(JSON({'a': [1, None, 'ü']}))")
    [result] = [r for r in answer["results"] if r["type"] == "application/json"]
    assert result["data"] == {"a": [1, None, "ü"]}


def test_other_types(shared):
    code = (
        "from IPython.display import *\n"
        "display(Markdown('**b**'), Latex('$x$'), SVG(data='<svg xmlns=\"http://www.w3.org/2000/svg\"/>'))\n"
        "display({'text/x-made-up': 'own type'}, raw=True)"
    )
    types = [result["type"] for result in shared.execute(code)["results"]]
    for expected in ("text/markdown", "text/latex", "image/svg+xml", "text/x-made-up"):
        assert expected in types


def test_large_result(shared):
    [result] = shared.execute("from IPython.display import *\ndisplay({'text/plain': 'y' * 8_000_000}, raw=True)")[
        "results"
    ]
    assert result["data"] == "y" * 8_000_000


@pytest.mark.parametrize("size", [20_000_000, 40_000_000])
def test_result_beyond_the_limit(shared, size):
    """Left out, and the answer says so; above what a message may have there is a note where the result would be."""
    code = f"from IPython.display import *\ndisplay({{'text/plain': 'y' * {size}}}, raw=True)\nprint('after')"
    answer = shared.execute(code)
    assert answer["status"] == "ok" and answer["stdout"] == "after\n"
    data = "".join(result["data"] for result in answer["results"])
    assert answer["truncated"] is True
    assert len(data) < 1000 and ("too large" in data or size < 25_000_000)
    assert shared.works()


def test_more_results_than_the_limit(shared):
    answer = shared.execute("for n in range(5000): display(n)", timeout=60)
    assert answer["status"] == "ok" and answer["truncated"] is True
    assert 500 <= len(answer["results"]) <= 1024
    assert answer["results"][0]["data"] == "0"


def test_update_display_replaces(shared):
    code = "handle = display('first', display_id=True)\ndisplay('between')\nhandle.update('second')"
    data = [result["data"] for result in shared.execute(code)["results"]]
    assert data == ["'second'", "'between'"]


def test_clear_output_clears(shared):
    code = "from IPython.display import clear_output\nprint('gone'); display('gone')\nclear_output()\nprint('stays')"
    answer = shared.execute(code)
    assert answer["stdout"] == "stays\n" and answer["results"] == []


def test_clear_output_that_waits(shared):
    code = "from IPython.display import clear_output\nprint('old')\nclear_output(wait=True)"
    assert shared.execute(code)["stdout"] == "old\n"
    assert shared.execute(code + "\nprint('new')")["stdout"] == "new\n"


# --- streams ---


def test_carriage_returns_and_no_final_newline(shared):
    assert shared.execute("import sys\nsys.stdout.write('10%\\r20%\\rend')\nNone")["stdout"].endswith("end")


def test_many_threads_print(shared):
    code = """
    import threading
    def work(n):
        for i in range(50):
            print(f'{n}:{i}\\n', end='')
    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]"""
    lines = shared.run("if 1:" + code).split()
    assert sorted(lines) == sorted(f"{n}:{i}" for n in range(8) for i in range(50))


def test_thousands_of_threads_print(shared):
    """Each needs a socket inside the kernel, which has 1023, and gives it back."""
    code = """
    import threading
    for n in range(1500):
        thread = threading.Thread(target=print, args=(n,))
        thread.start()
        thread.join()"""
    assert shared.run("if 1:" + code).split() == [str(n) for n in range(1500)]


def test_output_of_a_subprocess(shared):
    code = "import subprocess\nsubprocess.run('echo to out; echo to err >&2', shell=True, check=True)\nNone"
    answer = shared.execute(code)
    assert "to out" in answer["stdout"] and "to err" in answer["stderr"] + answer["stdout"]


def test_output_after_the_end_does_not_hurt(shared):
    code = (
        "import threading, time\ndef late():\n    time.sleep(0.3); print('late')\nthreading.Thread(target=late).start()"
    )
    assert shared.execute(code)["status"] == "ok"
    answer = shared.execute("import time; time.sleep(0.6); print('next')")
    assert answer["status"] == "ok" and answer["stdout"].endswith("next\n")


def test_output_of_an_earlier_thread_is_not_the_answer(shared):
    shared.run(
        "import threading\ngo, done = threading.Event(), threading.Event()\n"
        "threading.Thread(target=lambda: (go.wait(), print('late'), display('late'), done.set())).start()"
    )
    answer = shared.execute("print('one'); go.set(); done.wait(); print('two')")
    assert answer["stdout"] == "one\ntwo\n" and answer["results"] == []


def test_output_of_an_earlier_process_is_not_the_answer(sandbox):
    sandbox.run(
        "import subprocess\nsubprocess.Popen('until [ -e go ]; do sleep 0.01; done; echo late; echo late >&2; touch gone',"
        " shell=True); None"
    )
    answer = sandbox.execute(
        "import os, time\nprint('one'); os.system('echo own; touch go')\n"
        "while not os.path.exists('gone'): time.sleep(0.01)\nprint('two')"
    )
    assert answer["stdout"] == "one\nown\ntwo\n" and answer["stderr"] == ""


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_hundred_megabytes(shared, stream):
    code = f"""
        import sys
        for n in range(100): print(chr(97 + n % 26) * 999_999, file=sys.{stream})
        print('the end', file=sys.{stream})"""
    answer = shared.execute(code, timeout=60)
    text = answer[stream]
    assert answer["status"] == "ok" and answer["truncated"] is True
    assert len(text) <= MIB + 4096
    assert text.startswith("aaaa") and text.endswith("the end\n")
    # A line between head and tail says how much is missing.
    marker = [
        line
        for line in text.splitlines()
        if "a" * 80 not in line and line != "the end" and any(c.isdigit() for c in line)
    ]
    assert marker, "no line says what is missing"
    assert shared.works()


# A gigabyte where the code can write it fast; less of what is made of large messages, which go the same way.
FLOODS = {
    "stdout": "for n in range(10_000): print('x' * 99_999)",
    "subprocess": "!yes xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx | head -c 1000000000",
    "stderr": "import sys\nfor n in range(2_000): print('x' * 99_999, file=sys.stderr)",
    "displays": "for n in range(20): display({'text/plain': 'x' * 10_000_000}, raw=True)",
    "updates": "shown = display('', display_id=True)\n"
    "for n in range(20): shown.update({'text/plain': 'x' * 10_000_000}, raw=True)",
    "clears": "from IPython.display import clear_output\n"
    "for n in range(20): print('x' * 10_000_000); clear_output()\nprint('x')",
    "errors": "for n in range(2):\n    try: raise ValueError('x' * 100_000_000)\n"
    "    except ValueError: get_ipython().showtraceback()",
}


@pytest.mark.parametrize("form", FLOODS)
def test_floods_in_any_form(sandbox, bounded, form):
    answer = sandbox.post("execute", json={"code": FLOODS[form], "timeout": 250}, timeout=300).json()
    assert answer["status"] == ("error" if form == "errors" else "ok"), {**answer, "stdout": "", "results": ""}
    assert answer["truncated"] is (form not in ("updates", "clears"))
    shown = sum(len(entry["data"]) for entry in answer["results"])
    assert len(answer["stdout"]) <= MIB and len(answer["stderr"]) <= MIB and shown <= 24 * MIB
    assert sandbox.works()


def test_whole_text_is_kept_in_a_file(sandbox):
    """What did not fit into the answer is in a file, and the line in the gap says where."""
    code = "for n in range(300_000): print('line', n)"
    answer = sandbox.execute(code, timeout=60)
    whole = "".join(f"line {n}\n" for n in range(300_000))
    assert answer["truncated"] is True and answer["stdout"].startswith("line 0\n")
    [note] = [line for line in answer["stdout"].splitlines() if line.startswith("[")]
    left_out, path = re.fullmatch(r"\[(\d+) bytes left out; the whole text is in (\S+)\]", note).groups()
    assert int(left_out) == len(whole) - len(answer["stdout"]) + len(note) + 2
    [file] = answer["files"]
    assert (file["path"], file["size"]) == (path, len(whole))
    assert sandbox.service.get(file["url"]).text == whole
    assert sandbox.value(f"open({path!r}).read() == ''.join(f'line {{n}}\\n' for n in range(300_000))") is True


def test_whole_text_that_does_not_fit_on_the_disk(create):
    sandbox = create(disk_mb=16)
    answer = sandbox.execute("for n in range(100): print('x' * 999_999)", timeout=60)
    assert answer["truncated"] is True and " bytes left out]\n" in answer["stdout"]
    assert answer["files"] == []
    assert sandbox.run("print(len(open('/dev/zero', 'rb').read(5)))") == "5\n"


def test_million_tiny_prints(shared):
    answer = shared.execute("for n in range(1_000_000): print(n)", timeout=80)
    assert answer["status"] == "ok" and answer["truncated"] is True
    assert answer["stdout"].startswith("0\n1\n2\n") and answer["stdout"].endswith("999998\n999999\n")
    assert len(answer["stdout"]) <= MIB + 4096
    assert shared.works()


def test_cut_keeps_characters_whole(shared):
    answer = shared.execute("print('é🦊' * 1_000_000)")
    assert answer["truncated"] is True and "\ufffd" not in answer["stdout"]


def test_output_below_the_limit_is_whole(shared):
    answer = shared.execute("print('z' * 900_000)")
    assert answer["stdout"] == "z" * 900_000 + "\n" and answer["truncated"] is False


def test_closed_stdout_object(sandbox):
    sandbox.execute("import sys; sys.stdout.close()")
    assert sandbox.execute("1 + 1")["results"][0]["data"] == "2"
    sandbox.execute("print('after')")
    assert sandbox.post("restart").status_code == 200
    assert sandbox.run("print('fresh')") == "fresh\n"


def test_closed_descriptors(sandbox):
    sandbox.execute("import os; os.close(1); os.close(2)")
    assert sandbox.execute("print('still here')")["stdout"] == "still here\n"
    assert sandbox.works()
    assert sandbox.post("restart").status_code == 200
    assert sandbox.works()


def test_every_descriptor_closed(sandbox):
    """The kernel cannot answer any more: it is replaced, in bounded time."""
    answer = sandbox.execute("import os; os.closerange(0, 1024)", timeout=5)
    assert answer["status"] in ("died", "timeout", "error") and answer["state_lost"] is True
    assert sandbox.works()
