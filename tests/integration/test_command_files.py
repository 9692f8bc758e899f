"""`husk put` and `husk get`: files and folders there and back, and archives of a service or sandbox that means harm."""

import http.server
import io
import json
import os
import stat
import tarfile
import threading

import pytest

from husk_command import Husk


@pytest.fixture
def husk(service, folder):
    return Husk(service, folder)


@pytest.fixture
def box(husk, sandbox):
    return sandbox.id


def tree(folder):
    """Everything below a folder: names, and what they hold, or point to."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        found[name] = f"-> {os.readlink(path)}" if path.is_symlink() else "/" if path.is_dir() else path.read_text()
    return found


def listing(husk, box, *words):
    return {line.split("\t")[2]: line.split("\t")[0] for line in husk.out("files", box, *words).splitlines()}


@pytest.fixture
def project(folder):
    top = folder / "project"
    (top / "package/empty").mkdir(parents=True)
    (top / ".git").mkdir()
    (top / ".git/config").write_text("[core]")
    (top / "package/__init__.py").write_text("x = 1\n")
    (top / "run.sh").write_text("#!/bin/sh\n")
    (top / "run.sh").chmod(0o755)
    (top / "数据 1.csv").write_text("1,2\n")
    (top / "link").symlink_to("package/__init__.py")
    return top


# ---- put -----------------------------------------------------------------------------------------


def test_put_files(husk, box, folder):
    (folder / "a.csv").write_text("1\n")
    (folder / "b 数.csv").write_text("22\n")
    assert husk.json("put", box, "a.csv") == {"status": "success", "path": "a.csv"}
    husk("put", box, "a.csv", "b 数.csv", "--to", "data")
    husk("put", box, folder / "a.csv", "--to", "deep/er/name.csv")
    husk("put", box, "a.csv", "--to", "kept/")
    husk("put", box, "-", "--to", "from/stdin", stdin="typed")
    assert listing(husk, box) == {
        "a.csv": "2", "data/a.csv": "2", "data/b 数.csv": "3", "deep/er/name.csv": "2", "kept/a.csv": "2", "from/stdin": "5",
    }  # fmt: skip
    assert listing(husk, box, "-1", "deep") == {"deep/er/": ""} and listing(husk, box, "from") == {"from/stdin": "5"}
    assert {entry["path"] for entry in husk.json("files", box, "data")} == {"data/a.csv", "data/b 数.csv"}
    husk("rm", box, "data", "from/stdin", "kept", "deep")
    assert listing(husk, box) == {"a.csv": "2"}
    husk("rm", box, "not-there", status=3)
    husk("put", box, "not-there", status=5)
    husk("put", box, "a.csv", "--to", "../outside", status=3)
    husk("put", "no-such-box", "a.csv", status=3)


def test_put_folders(husk, box, folder, project):
    husk("put", box, "project")
    husk("put", box, "project/", "--to", "renamed", "--exclude", ".git", "-x", "*.csv")
    husk("put", box, "project", "--to", "into/", "-x", "package")
    husk("put", box, ".", "--to", "here", cwd=project)
    names = set(listing(husk, box))
    whole = {".git/config", "package/__init__.py", "run.sh", "数据 1.csv", "link"}
    assert names == (
        {f"project/{name}" for name in whole}
        | {f"renamed/{name}" for name in ("package/__init__.py", "run.sh", "link")}
        | {f"into/project/{name}" for name in (".git/config", "run.sh", "数据 1.csv", "link")}
        | {f"here/{name}" for name in whole}
    )
    assert husk.out("sh", box, "./project/run.sh && ls -d project/package/empty && cat project/link") == "project/package/empty\nx = 1\n"


def test_put_leaves_out_what_cannot_be_there(husk, box, project):
    (project / "outside").symlink_to("/etc/passwd")
    (project / "package/up").symlink_to("../../..")
    os.mkfifo(project / "pipe")
    said = husk("put", box, "project").stderr
    assert "left out 3" in said and "'outside'" in said
    assert {name for name in listing(husk, box)} & {"project/outside", "project/package/up", "project/pipe"} == set()
    assert husk("put", "-q", box, "project").stderr == ""


def test_put_a_folder_in_the_place_of_a_file(husk, box, project):
    husk("exec", box, "-c", "open('project', 'w').write('a file');")
    husk("put", box, "project", status=3)
    assert listing(husk, box) == {"project": "6"}


# ---- get -----------------------------------------------------------------------------------------


def test_get_files(husk, box, folder):
    husk("exec", box, "-c", "import os; os.mkdir('d'); open('d/x.txt', 'w').write('x'); open('y.bin', 'wb').write(bytes(range(256)));")
    assert husk.json("get", box, "d/x.txt") == {"status": "success", "path": "d/x.txt", "local": "x.txt"}
    husk("get", box, "y.bin", "-o", "renamed.bin")
    husk("get", box, "/home/user/d/x.txt", "y.bin", "-o", "new/folder")
    husk("get", box, "y.bin", "-o", "with/slash/")
    assert (folder / "x.txt").read_text() == "x" and (folder / "renamed.bin").read_bytes() == bytes(range(256))
    assert sorted(os.listdir(folder / "new/folder")) == ["x.txt", "y.bin"] and os.listdir(folder / "with/slash") == ["y.bin"]
    husk("get", box, "d/x.txt", "-o", "new")
    assert (folder / "new/x.txt").read_text() == "x"
    assert husk("get", box, "y.bin", "-o", "-", text=False, stdin=b"").stdout == bytes(range(256))
    assert "not-there" in husk("get", box, "not-there", status=3).stderr
    husk("get", "no-such-box", "x", status=3)
    husk("get", box, "y.bin", "-o", "no/such/folder", status=5)
    assert not (folder / "no").exists()


def test_get_folders(husk, box, folder, project):
    husk("put", box, "project")
    husk("get", box, "project", "-o", "back")
    assert tree(folder / "back") == tree(project)
    assert stat.S_IMODE((folder / "back/run.sh").stat().st_mode) == 0o755
    husk("get", box, "project/package", "project/.git", "-o", "both")
    assert tree(folder / "both") == {
        "package": "/", "package/empty": "/", "package/__init__.py": "x = 1\n", ".git": "/", ".git/config": "[core]",
    }  # fmt: skip
    husk("get", box, "project/package")
    assert (folder / "package/__init__.py").exists()
    husk("get", box, ".", "-o", "all")
    assert tree(folder / "all/project") == tree(project)
    husk("get", box, ".")
    assert tree(folder / box / "project") == tree(project)
    with tarfile.open(fileobj=io.BytesIO(husk("get", box, "project", "-o", "-", text=False, stdin=b"").stdout)) as archive:
        assert "project/run.sh" in archive.getnames()


def test_get_leaves_links_that_lead_out(husk, box, folder):
    husk("exec", box, "-c", """
import os
os.makedirs('d/e')
os.symlink('/etc/passwd', 'd/absolute'); os.symlink('../..', 'd/e/up'); os.symlink('e/../../..', 'd/hidden')
os.symlink('e', 'd/good'); os.symlink('/home/user/d/e', 'd/home'); open('d/file', 'w').write('x')
os.mkfifo('d/pipe'); os.chmod('d/file', 0o4777);""")  # fmt: skip
    assert "left out" in husk("get", box, "d").stderr
    assert tree(folder / "d") == {"e": "/", "good": "-> e", "file": "x"}
    assert not (folder / "d/file").stat().st_mode & stat.S_ISUID


def test_get_does_not_follow_links_of_this_machine(husk, box, folder):
    """They are replaced. Only the folder that it goes into may be one, because its owner chose it."""
    husk("exec", box, "-c", "import os; os.makedirs('d/e'); open('d/e/x', 'w').write('new'); open('d/y', 'w').write('new');")
    (folder / "elsewhere").mkdir()
    (folder / "d").mkdir()
    (folder / "d/e").symlink_to(folder / "elsewhere")
    (folder / "victim").write_text("old")
    (folder / "d/y").symlink_to(folder / "victim")
    husk("get", box, "d")
    assert os.listdir(folder / "elsewhere") == [] and (folder / "victim").read_text() == "old"
    assert tree(folder / "d") == {"e": "/", "e/x": "new", "y": "new"}
    (folder / "chosen").symlink_to(folder / "elsewhere")
    husk("get", box, "d", "-o", "chosen")
    assert (folder / "elsewhere/d/e/x").read_text() == "new"


# ---- a service that means harm -------------------------------------------------------------------


class Liar:
    """Says that everything is a folder, and sends an archive of the test's choice for it."""

    def __init__(self, archive):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                body = archive if "/download/" in self.path else json.dumps([]).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/x-tar" if "/download/" in self.path else "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def member(name, kind=tarfile.REGTYPE, target="", content=b"evil", **fields):
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, target, len(content) if kind == tarfile.REGTYPE else 0
    for key, value in fields.items():
        setattr(info, key, value)
    return info, io.BytesIO(content)


def archive_of(*members):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for info, content in members:
            archive.addfile(info, content)
    return out.getvalue()


@pytest.mark.parametrize(
    "members",
    [
        [member("d/../../evil")],
        [member("../evil")],
        [member("/tmp/husk-unit-evil")],
        [member("d//../../evil")],
        [member("d/link", tarfile.SYMTYPE, ".."), member("d/link/evil")],
        [member("d/link", tarfile.SYMTYPE, "/"), member("d/link/tmp/husk-unit-evil")],
        [member("d/a", tarfile.SYMTYPE, "b"), member("d/b", tarfile.SYMTYPE, ".."), member("d/a/evil")],
        [member("d/a/b/x", tarfile.SYMTYPE, "../.."), member("d/l", tarfile.SYMTYPE, "a/b/x/.."), member("d/l/evil")],
        [member("d/hard", tarfile.LNKTYPE, "../secret"), member("d/hard")],
        [member("d/hard", tarfile.LNKTYPE, "/etc/passwd")],
        [member("d/device", tarfile.CHRTYPE, devmajor=1, devminor=3), member("d/pipe", tarfile.FIFOTYPE)],
        [member("d/huge", pax_headers={"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": str(1 << 60), "GNU.sparse.name": "d/huge"})],
        [member("d"), member("d/x")],
        [member(".."), member("."), member("./"), member("/"), member("d/.")],
    ],
)
def test_hostile_archives(folder, members):
    """Nothing outside of the folder, no link that leads out, nothing special. How it ends is not the point."""
    (folder / "secret").write_text("secret")
    (folder / "work").mkdir()
    with Liar(archive_of(*members)) as liar:
        husk = Husk(liar.url, folder / "work")
        for status in (0, 5):
            try:
                husk("get", "box", "d", status=status)
                break
            except AssertionError:
                assert status == 0
    assert sorted(os.listdir(folder)) == ["secret", "work"] and (folder / "secret").read_text() == "secret"
    assert set(os.listdir(folder / "work")) <= {"d"} and not os.path.exists("/tmp/husk-unit-evil")
    for path in (folder / "work").rglob("*"):
        assert path.is_symlink() or path.is_dir() or path.is_file(), path
        assert path.resolve().is_relative_to(folder / "work/d") and path.lstat().st_nlink < 10
        assert path.is_dir() or path.lstat().st_size < 100


def test_what_is_no_archive(folder):
    for content in (b"", b"no tar", b"x" * 100000, archive_of(member("d/x"))[:700]):
        with Liar(content) as liar:
            husk = Husk(liar.url, folder)
            done = husk("get", "box", "d", status=5)
            assert "Traceback" not in done.stderr
    assert not list(folder.glob(".husk*"))
