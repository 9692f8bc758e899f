"""The `husk` command as scripts use it: every verb, --json, exit statuses, and what it says when something is wrong."""

import json
import os
import signal
import subprocess

import pytest

import host
from husk_command import HUSK, Husk, environment
from local_index import Index, Wheel
from service import free_port, sanitized


@pytest.fixture
def husk(service, folder):
    return Husk(service, folder)


@pytest.fixture
def box(husk, sandbox):
    return sandbox.id


# ---- run -----------------------------------------------------------------------------------------


def test_run(husk, service):
    assert husk.out("run", "-c", "print('hello'); 6 * 7") == "hello\n42\n"
    assert service.sandboxes() == {}


def test_run_a_file_with_arguments(husk, service, folder):
    (folder / "program.py").write_text("import sys\nprint(sys.argv, __name__)\n")
    words = ["a b", "--json", "-c", "数据", "'\"\\"]
    assert husk.out("run", "program.py", *words) == f"{['program.py', *words]} __main__\n"
    assert husk.out("run", stdin="import sys; print(sys.argv)") == "['-']\n"
    assert husk.out("run", "-", "x", stdin="import sys; print(sys.argv)") == "['-', 'x']\n"
    assert husk.out("run", "-c", "import sys; print(sys.argv)", "x") == "['-c', 'x']\n"


def test_run_traceback_has_the_lines_of_the_file(husk, folder):
    (folder / "program.py").write_text("x = 1\n\n\nx / 0\n")
    done = husk("run", "program.py", "argument", status=1)
    assert "line 4" in done.stderr and "ZeroDivisionError: division by zero" in done.stderr and done.stdout == ""
    assert "\x1b" not in done.stderr


@pytest.mark.parametrize(
    "code, status, said",
    [
        ("import sys; sys.exit(7)", 7, ""),
        ("import sys; sys.exit()", 0, ""),
        ("raise SystemExit(None)", 0, ""),
        ("import sys; sys.exit('no good')", 1, "no good\n"),
        ("raise SystemExit(-1)", 255, ""),
        ("import os; os._exit(3)", 137, None),
        ("1/", 1, None),
    ],
)
def test_run_exit_status(husk, service, code, status, said):
    done = husk("run", "-c", code, status=status)
    assert said is None or done.stderr == said
    assert service.sandboxes() == {}


def test_run_timeout(husk, service):
    done = husk("run", "--timeout", "0.5", "-c", "while True: pass", status=124)
    assert "--timeout" in done.stderr and service.sandboxes() == {}


def test_run_environment_and_limits(husk):
    code = "import os; print(os.environ['GIVEN'], os.environ['TAKEN'])"
    assert husk.out("run", "-e", "GIVEN=a=b", "--env=TAKEN", "-c", code, env={"TAKEN": "from here"}) == "a=b from here\n"
    husk("run", "-e", "MISSING", "-c", "1", status=2)
    assert husk.out("run", "-k", "-n", "limited", "-m", "256M", "--disk", "64", "--pids=32", "--cpus", "0.5", "--ttl", "1h", "-c", "1") == "1\n"
    known = husk.json("info", "limited")
    assert known["limits"] == {"memory_mb": 256, "cpus": 0.5, "pids": 32, "disk_mb": 64}
    husk("close", "limited")


def test_run_keeps(husk, service):
    done = husk("run", "--keep", "-c", "kept = 5")
    [sandbox] = service.sandboxes()
    assert sandbox in done.stderr and husk.out("exec", sandbox, "-c", "kept") == "5\n"
    husk("close", sandbox)


def test_run_saves_figures_and_never_replaces_one(husk, folder):
    code = "import matplotlib.pyplot as plt\nfor i in range(2):\n    plt.plot([i, 2]); plt.show()\n"
    (folder / "figure-1.png").write_text("mine")
    done = husk("run", "-c", code)
    assert (folder / "figure-1.png").read_text() == "mine" and done.stdout == ""
    for name in ("figure-2.png", "figure-3.png"):
        assert (folder / name).read_bytes().startswith(b"\x89PNG") and f"saved {name}" in done.stderr
    done = husk("run", "--output", "deep/er", "-c", code)
    assert sorted(os.listdir(folder / "deep/er")) == ["figure-1.png", "figure-2.png"] and "saved deep/er/figure-1.png" in done.stderr
    svg = "from IPython.display import SVG, display\nh = display(SVG('<svg>1</svg>'), display_id=True)\nh.update(SVG('<svg>2</svg>'))"
    husk("run", "-q", "-o", "svg", "-c", svg)
    assert [(path.name, path.read_text()) for path in (folder / "svg").iterdir()] == [("figure-1.svg", "<svg>2</svg>")]
    (folder / "file").write_text("")
    assert "cannot be used" in husk("run", "-o", "file", "-c", code).stderr


def test_run_uploads_and_gets(husk, folder, service):
    (folder / "in.csv").write_text("1,2\n")
    (folder / "library").mkdir()
    (folder / "library/tool.py").write_text("def double(x): return 2 * x\n")
    code = "from library.tool import double\nimport os\nos.mkdir('made')\nopen('made/out.csv', 'w').write(double(open('in.csv').read()));"
    husk("run", "-u", "in.csv", "--upload", folder / "library", "--get", "made", "-o", "results", "-c", code)
    assert (folder / "results/made/out.csv").read_text() == "1,2\n1,2\n"
    done = husk("run", "-c", "open('lost.txt', 'w').write('x');")
    assert "lost.txt" in done.stderr and "--get" in done.stderr
    assert "lost.txt" not in husk("run", "-q", "-c", "open('lost.txt', 'w').write('x');").stderr
    husk("run", "-u", "not-there", "-c", "1", status=5)
    husk("run", "-g", "not-there", "-c", "1", status=3)
    assert service.sandboxes() == {}


def test_run_input(husk):
    code = "name = input('name? '); print('hello', name, input())"
    assert husk.out("run", "-c", code, stdin="you\nagain\n") == "name? hello you again\n"
    assert "EOFError" in husk("run", "-c", "input()", stdin="", status=1).stderr
    assert husk.out("run", "-c", "import getpass; print(getpass.getpass('p: '))", stdin="secret\n").endswith("secret\n")


def test_run_json(husk):
    lines = [json.loads(line) for line in husk.out("run", "--json", "-c", "print('x'); 1 / 0", status=1).splitlines()]
    assert [line["event"] for line in lines] == ["start", "stdout", "error", "end"]
    assert lines[-1]["error"] == "ZeroDivisionError"


def test_bytes_pass_unchanged_when_nobody_sees_them(husk):
    text = "\x1b]0;title\x07\x1b[2J\x1b[31mred\r\n\x9b"
    assert husk("run", "-c", f"print({text!r}, end='')", text=False, stdin=b"").stdout == text.encode()


def test_a_reader_that_leaves_ends_it(husk, service):
    child = husk.start("run", "-c", "import itertools\nfor i in itertools.count(): print(i)")
    assert child.stdout.readline() == "0\n"
    child.stdout.close()
    assert child.wait(60) == 141
    child.stderr.close()
    assert service.sandboxes() == {}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_clean_up(husk, service, number):
    child = husk.start("run", "-c", "import time\nprint('begun', flush=True)\ntime.sleep(600)")
    assert child.stdout.readline() == "begun\n"
    child.send_signal(number)
    child.communicate(timeout=60)
    assert child.returncode == 128 + number
    assert service.sandboxes() == {}


def test_signal_while_packages_are_installed(private, folder):
    with Index(Wheel("plainpkg", "1.0")) as index:
        shop = private(environment={"HUSK_PACKAGE_INDEX": index.url}).start()
        index.hold.clear()
        for words in (["run", "-i", "plainpkg", "-c", "1"], ["create", "-i", "plainpkg"]):
            index.requests.clear()
            child = Husk(shop, folder).start(*words)
            host.until(lambda: index.requests, 60, "the install to begin")
            child.send_signal(signal.SIGINT)
            child.communicate(timeout=60)
            assert child.returncode == 130 and shop.sandboxes() == {}


# ---- sandboxes -----------------------------------------------------------------------------------


def test_life(husk, service):
    sandbox = husk.out("create", "--name", "first", "--env", "COLOUR=blue", "--idle", "10m").strip()
    assert list(service.sandboxes()) == [sandbox]
    assert husk.out("exec", "first", "-c", "import os; print(os.environ['COLOUR'])") == "blue\n"
    [line] = husk.out("ls").splitlines()
    assert line.split("\t")[:3] == [sandbox, "first", "ready"]
    assert husk.out("ls", "-q") == f"{sandbox}\n"
    assert husk.json("ls")[sandbox]["name"] == "first" and json.loads(husk.out("--json", "ls"))[sandbox]
    info = husk.out("info", "first")
    assert sandbox in info and "of 1024 MB" in info and "600 s without work" in info
    assert husk.json("extend", "first", "2h") == {"status": "success", "sandbox_id": "first"}
    husk("extend", "first", "soon", status=2)
    husk("exec", "first", "-c", "x = 1")
    husk("restart", "first")
    assert "NameError" in husk("exec", "first", "-c", "x", status=1).stderr
    assert husk.json("close", "first")["status"] == "success"
    assert "closed" in husk("close", "first", status=3).stderr
    assert husk.out("ls") == "" and husk.json("ls") == {}


def test_create_with_packages(private, folder):
    with Index(Wheel("plainpkg", "1.0")) as index:
        shop = private(environment={"HUSK_PACKAGE_INDEX": index.url}).start()
        husk = Husk(shop, folder)
        sandbox = husk.out("create", "-i", "plainpkg").strip()
        assert husk.out("packages", sandbox, "plainpkg") == "plainpkg\t1.0\tinstalled\n"
        assert husk.out("install", sandbox, "plainpkg", "-U") == "plainpkg 1.0\n"
        assert "numpy\t" in husk.out("packages", sandbox)
        assert husk.json("packages", sandbox, "nothing", status=1)["status"] == "not_installed"
        failed = husk("install", sandbox, "nothing", status=1)
        assert "nothing" in failed.stderr and failed.stdout == ""
        events = [json.loads(line) for line in husk.out("install", sandbox, "plainpkg", "--json").splitlines()]
        assert {"progress", "end"} == {event["event"] for event in events} and events[-1]["status"] == "success"
        (folder / "requirements.txt").write_text("plainpkg==1.0\n")
        husk("install", sandbox, "-r", "requirements.txt")
        husk("install", sandbox, "-r", "-", stdin="plainpkg")
        husk("install", sandbox, status=2)
        husk("close", sandbox)
        assert husk.out("run", "--install", "plainpkg", "-c", "import plainpkg; plainpkg.version") == "'1.0'\n"
        assert husk.out("run", "--auto-install", "-c", "import plainpkg; plainpkg.version") == "'1.0'\n"
        husk("run", "-i", "nothing", "-c", "1", status=1)
        husk("create", "-i", "nothing", status=1)
        assert shop.sandboxes() == {}


def test_close_all(private, folder):
    husk = Husk(private().start(), folder)
    names = [husk.out("create", "-n", f"one-of-{i}") for i in range(3)]
    assert len(names) == 3
    husk("close", status=2)
    husk("close", "--all", "one-of-1", status=2)
    done = husk("close", "one-of-0", "not-there", "one-of-1", status=3)
    assert "not-there" in done.stderr and "husk ls" in done.stderr
    husk("close", "--all")
    assert husk.json("ls") == {}
    husk("close", "--all")


def test_health(husk, service):
    assert husk.out("health").startswith(f"healthy: huskd 0.1.0 at {service.url}")
    assert husk.json("health")["status"] == "healthy"


# ---- code and commands ---------------------------------------------------------------------------


def test_exec(husk, box, folder):
    husk("exec", box, "-c", "x = 6")
    assert husk.out("exec", box, stdin="x * 7\n") == "42\n"
    (folder / "more.py").write_text("import sys\nprint(x, sys.argv[1:])")
    assert husk.out("exec", box, "more.py", "--flag") == "6 ['--flag']\n"
    before = husk.out("exec", box, "-c", "import sys; print(sys.argv)")
    assert husk.out("exec", box, "-c", "print(sys.argv)") == before
    assert husk.out("exec", box, "-e", "A=1", "-c", "import os; print(os.environ['A'])") == "1\n"
    assert "not-there" in husk("exec", "not-there", "-c", "1", status=3).stderr
    husk("exec", box, "no-such-file.py", status=5)
    assert husk.out("exec", box, "-c", "") == ""


def test_exec_that_is_interrupted(husk, box, sandbox):
    child = husk.start("exec", box, "-c", "import time\nx = 1\nprint('begun', flush=True)\ntime.sleep(600)")
    assert child.stdout.readline() == "begun\n"
    husk("interrupt", box)
    assert child.wait(60) == 130
    child.communicate()
    child = husk.start("exec", box, "-c", "print('begun', flush=True)\ntime.sleep(600)")
    assert child.stdout.readline() == "begun\n"
    child.send_signal(signal.SIGINT)
    assert child.wait(60) == 130
    child.communicate()
    assert husk.out("exec", box, "-c", "x") == "1\n"


def test_exec_kernel_that_dies(husk, box):
    done = husk("exec", box, "-c", "import os; os.kill(os.getpid(), 9)", status=137)
    assert "KernelDied" in done.stderr and "variables are gone" in done.stderr


def test_sh(husk, box):
    done = husk("sh", box, "echo out; echo error >&2; exit 9", status=9)
    assert (done.stdout, done.stderr) == ("out\n", "error\n")
    assert husk.out("sh", box, "printf", "%s|", "a b", "--json", "$HOME") == "a b|--json|$HOME|"
    assert husk.out("sh", box, "-C", "/tmp", "--env", "A=1", "pwd; echo $A") == "/tmp\n1\n"
    assert husk.out("sh", box, "cat", stdin="from here\n") == "from here\n"
    assert husk.out("sh", box, "-n", "cat", stdin="not read") == ""
    assert husk.out("sh", box, "cat", stdin=None) == ""
    husk("sh", box, "no-such-program", "x", status=127)
    husk("sh", box, "kill -9 $$", status=137)
    assert "--timeout" in husk("sh", box, "-t", "1", "sleep 100", status=124).stderr
    husk("sh", box, "cat", stdin="zero\0byte", status=5)
    husk("sh", box, "cat", stdin="x" * (1 << 20 | 1), status=5)
    husk("sh", box, status=2)
    events = [json.loads(line) for line in husk.out("--json", "sh", box, "echo x").splitlines()]
    assert [event["event"] for event in events] == ["start", "stdout", "end"] and events[-1]["exit_code"] == 0


# ---- what is wrong -------------------------------------------------------------------------------


def test_no_service(folder):
    husk = Husk(f"http://127.0.0.1:{free_port()}", folder)
    for words in (["ls"], ["run", "-c", "1"], ["exec", "x", "-c", "1"], ["health"], ["get", "x", "y"]):
        said = husk(*words, status=4).stderr
        assert "make run" in said and "systemctl start husk" in said and "HUSK_URL" in said
    error = json.loads(husk("ls", "--json", status=4).stderr)["error"]
    assert error["kind"] == "connect" and error["http_status"] == 0
    husk("ls", "--url", "nonsense://x", status=2)


def test_the_url_of_the_command_line_counts(service, folder):
    husk = Husk(f"http://127.0.0.1:{free_port()}", folder)
    assert husk.json("ls", "--url", service.url) == {} and husk.out("--url", service.url, "ls") == ""


def test_keys(private, folder):
    service = private(environment={"HUSK_API_KEY": "right-one-of-the-tests"})
    service.launch()
    husk = Husk(service, folder)
    host.until(lambda: subprocess.run([HUSK, "health"], env=environment(service), capture_output=True).returncode == 0, 30, "the service")
    assert "HUSK_API_KEY" in husk("ls", status=3).stderr
    assert "HUSK_API_KEY" in husk("ls", "--api-key", "wrong", status=3).stderr
    assert husk.json("ls", "--api-key", "right-one-of-the-tests") == {}
    assert husk.json("ls", env={"HUSK_API_KEY": "right-one-of-the-tests"}) == {}
    assert husk.out("run", "-c", "2", env={"HUSK_API_KEY": "right-one-of-the-tests"}) == "2\n"


@pytest.mark.parametrize(
    "words, said",
    [
        (["nonsense"], "no verb 'nonsense'"),
        (["clsoe"], "did you mean 'close'?"),
        (["--nonsense"], "--nonsense"),
        (["ls", "--jsn"], "did you mean --json?"),
        (["ls", "--json=yes"], "takes no value"),
        (["ls", "-Z"], "-Z"),
        (["ls", "extra"], "too much"),
        (["info"], "missing"),
        (["info", "a", "b"], "too much"),
        (["create", "name"], "--name"),
        (["create", "--memory", "lots"], "megabytes"),
        (["create", "--ttl"], "wants a time"),
        (["create", "--cpus", "-1"], "--cpus"),
        (["put", "box"], "missing"),
        (["put", "box", "-"], "--to"),
        (["run", "-c"], "-c"),
    ],
)
def test_wrong_words(husk, words, said):
    done = husk(*words, status=2)
    assert said in done.stderr and done.stdout == ""


def test_help(husk):
    whole = husk.out("--help")
    assert whole == husk.out() == husk.out("help") == husk.out("-h")
    verbs = [line.split()[0] for line in whole.split("Options of all verbs")[0].splitlines() if line.startswith("  ")]
    assert verbs[:2] == ["run", "create"] and len(verbs) >= 17
    for verb in verbs:
        said = husk.out(verb, "--help")
        assert said.startswith(f"Usage: husk {verb}") and said == husk.out("help", verb), verb
    assert husk.out("close", "x", "--help") == husk.out("close", "--help")
    assert husk.out("--version") == "husk 0.1.0\n"
    husk("help", "clsoe", status=2)


# ---- memory --------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [["ls"], ["run", "-u", ".", "-g", "made", "-c", "open('made', 'w').write('x'); 1"]])
def test_valgrind(husk, folder, words):
    """No error, and nothing that is lost. With sanitizers they say so themselves."""
    (folder / "file").write_text("text")
    checker = ["valgrind", "-q", "--leak-check=full", "--errors-for-leak-kinds=definite", "--error-exitcode=99"]
    done = subprocess.run(
        [*([] if sanitized() else checker), HUSK, *words],
        capture_output=True, text=True, cwd=folder, env=environment(husk.service), stdin=subprocess.DEVNULL, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
