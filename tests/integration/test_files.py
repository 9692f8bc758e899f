"""`files` of an answer: what the execution created or changed, no more and no less, in trees of any size."""

import os

import host
import pytest

# Above this number of entries the shim sets watches instead of looking at everything (UNWATCHED_FILES).
WATCHED_ENTRIES = 1000


def changes(answer):
    """The paths of the files of an answer, each with what happened to it."""
    assert "files_truncated" not in answer, answer["files"]
    return {entry["path"]: entry["change"] for entry in answer["files"]}


def watches(sandbox):
    """How many inotify descriptors the sandbox's shim has."""
    folder = f"/proc/{sandbox.shim().pid}/fd"
    return [os.readlink(f"{folder}/{fd}") for fd in os.listdir(folder)].count("anon_inode:inotify")


@pytest.fixture(params=["small", "watched"])
def tree(request, create):
    """A sandbox with few files, or with 20,000 in 200 folders that its shim watches."""
    sandbox = create()
    sandbox.run("import os, subprocess; os.makedirs('old'); _ = open('old/file', 'w').write('old')")
    if request.param == "watched":
        sandbox.run(
            "for folder in range(200):\n"
            "    os.makedirs(f'data/{folder}')\n"
            "    for file in range(100):\n"
            "        _ = open(f'data/{folder}/{file}', 'w').write('x')"
        )
    for _ in range(4):
        answer = sandbox.execute("1")
    assert changes(answer) == {}
    assert watches(sandbox) == (request.param == "watched")
    return sandbox


def test_what_code_does(tree):
    for code, expected in {
        "1": {},
        "open('old/file').read(); os.listdir('old')": {},
        "_ = open('new', 'w').write('1')": {"new": "created"},
        "_ = open('new', 'a').write('2')": {"new": "changed"},
        "with open('old/file', 'r+') as f: _ = f.write('O')": {"old/file": "changed"},
        "os.truncate('old/file', 1)": {"old/file": "changed"},
        "os.chmod('old/file', 0o600)": {"old/file": "changed"},
        "os.rename('new', 'old/renamed')": {"old/renamed": "changed"},
        "_ = open('tmp', 'w').write('1'); os.replace('tmp', 'old/renamed')": {"old/renamed": "created"},
        "os.makedirs('a/b/c/d'); _ = open('a/b/c/d/deep', 'w').write('1')": {"a/b/c/d/deep": "created"},
        "os.rename('a/b', 'moved')": {},
        "_ = open('moved/c/d/deep', 'a').write('1')": {"moved/c/d/deep": "changed"},
        "os.remove('moved/c/d/deep'); os.rmdir('moved/c/d'); os.mkdir('moved/c/d')": {},
        "_ = open('moved/c/d/deep', 'w').write('1')": {"moved/c/d/deep": "created"},
        "os.symlink('old/file', 'link')": {},
        "os.link('old/file', 'second')": {"old/file": "changed", "second": "changed"},
        "_ = open('second', 'a').write('1')": {"old/file": "changed", "second": "changed"},
        "os.remove('second')": {"old/file": "changed"},
        "1 + 1": {},
    }.items():
        assert changes(tree.execute(code)) == expected, code


def test_subprocesses(tree):
    answer = tree.execute("_ = subprocess.run('mkdir -p s/t; echo 1 > s/t/new; echo 2 >> old/file', shell=True)")
    assert changes(answer) == {"s/t/new": "created", "old/file": "changed"}


def test_what_was_opened_before(tree):
    tree.run("f = open('old/log', 'w', buffering=1); g = open('old/renamed', 'w', buffering=1)")
    tree.run("os.rename('old/renamed', 'elsewhere')")
    assert changes(tree.execute("_ = f.write('line\\n')")) == {"old/log": "changed"}
    assert changes(tree.execute("_ = g.write('line\\n')")) == {"elsewhere": "changed"}
    tree.run("import mmap; m = open('mapped', 'w+b'); m.truncate(1 << 20); m = mmap.mmap(m.fileno(), 0)")
    assert changes(tree.execute("m[500000] = 1")) == {"mapped": "changed"}


def test_between_executions(tree):
    """What happens in the background belongs to no execution, and does not hide what belongs to the next one."""
    tree.run("_ = subprocess.Popen('sleep 0.3; mkdir late; echo 1 > late/file; echo 1 >> old/file', shell=True)")
    host.until(lambda: tree.service.get(f"{tree.path}/download/old/file").content == b"old1\n", 10, "it to be written")
    assert changes(tree.execute("1")) == {}
    assert changes(tree.execute("_ = open('late/file', 'a').write('1')")) == {"late/file": "changed"}


def test_kernel_that_is_replaced(tree):
    answer = tree.execute("_ = open('last', 'w').write('words'); os._exit(1)")
    assert answer["status"] == "died" and changes(answer) == {"last": "created"}
    assert changes(tree.execute("_ = open('old/file', 'a').write('1')")) == {"old/file": "changed"}


def test_many(tree):
    """More than an answer tells of: it says so, and the next one is right again."""
    for folder in ("first", "second"):
        answer = tree.execute(f"os.mkdir({folder!r})\nfor i in range(1000): _ = open(f'{folder}/{{i}}', 'w').write('1')")
        assert len(answer["files"]) == 256 and answer["files_truncated"] is True
        assert changes(tree.execute("1")) == {}
        assert changes(tree.execute(f"_ = open('{folder}/7', 'a').write('1')")) == {f"{folder}/7": "changed"}


def test_too_deep(tree):
    tree.run("home = os.getcwd()\nfor i in range(70): os.mkdir('d'); os.chdir('d')\nos.chdir(home)")
    for _ in range(3):
        answer = tree.execute("_ = open('new', 'w').write('1')")
        assert [entry["path"] for entry in answer["files"]] == ["new"] and answer["files_truncated"] is True
    tree.run("import shutil; shutil.rmtree('d')")
    assert changes(tree.execute("1")) == {}


def test_write_storm(tree):
    """More events than the queue of an inotify holds."""
    code = "for i in range(20000):\n    for name in ('old/file', 'storm'): open(name, 'a').write('x')"
    assert changes(tree.execute(code)) == {"old/file": "changed", "storm": "created"}
    assert changes(tree.execute("_ = open('storm', 'a').write('x')")) == {"storm": "changed"}


def test_small_again(create):
    """A tree that has become small gives back what there is little of."""
    sandbox = create()
    sandbox.run(f"import os, shutil; os.mkdir('d')\nfor i in range({2 * WATCHED_ENTRIES}): open(f'd/{{i}}', 'w').close()")
    host.until(lambda: changes(sandbox.execute("1")) == {} and watches(sandbox) == 1, 10, "watches")
    sandbox.run("shutil.rmtree('d')")
    assert changes(sandbox.execute("1")) == {} and watches(sandbox) == 0


def test_idle(tree):
    """Writing in the background does not wake the shim."""
    tree.run("p = subprocess.Popen('while :; do echo 1 >> old/file; echo 1 > junk; rm junk; done', shell=True)")
    shim = tree.shim().pid

    def ticks():
        with open(f"/proc/{shim}/stat") as stat:
            return sum(map(int, stat.read().rpartition(")")[2].split()[11:13]))

    before = ticks()
    host.until(lambda: int(tree.service.get(f"{tree.path}/download/old/file").headers["Content-Length"]) > 2000, 20, "writes")
    assert ticks() - before <= 5
    tree.run("p.kill(); _ = p.wait()")
