"""Folders: listed, downloaded as tar, removed; whatever the sandbox puts there or does to them meanwhile."""

import io
import os
import signal
import socket
import tarfile
import urllib.parse

import pytest
import requests

import host
from service import later, problem, sanitized
from test_upload import content, put


def files(sandbox, query=""):
    return sandbox.service.get(f"{sandbox.path}/files{query}")


def paths(sandbox, query=""):
    answer = files(sandbox, query)
    assert answer.status_code == 200, answer.text
    return [entry["path"] for entry in answer.json()]


def tar(sandbox, path):
    answer = sandbox.service.get(f"{sandbox.path}/download{path and '/' + urllib.parse.quote(path, safe='')}")
    assert answer.status_code == 200, answer.text
    assert answer.headers["Content-Type"] == "application/x-tar"
    return tarfile.open(fileobj=io.BytesIO(answer.content)), answer


def remove(sandbox, path):
    return sandbox.service.delete(f"{sandbox.path}/files/{urllib.parse.quote(path)}")


TREE = """
import os
os.makedirs('a/b/c'); os.makedirs('empty')
for name in ('top.txt', 'a/x.csv', 'a/b/y.png', 'a/b/c/z', '玉米.txt', 'quote"\\'.txt', 'line\\nbreak', '.hidden'):
    open(name, 'w').write(name)
os.symlink('a/x.csv', 'link'); os.symlink('/etc/passwd', 'out'); os.symlink('..', 'a/up')
os.mkfifo('fifo')
import socket; socket.socket(socket.AF_UNIX).bind('socket')
"""
FILES = [".hidden", "a/b/c/z", "a/b/y.png", "a/up", "a/x.csv", "line\nbreak", "link", "out", 'quote"\'.txt', "top.txt", "玉米.txt"]


@pytest.fixture(scope="module")
def tree(create_shared):
    sandbox = create_shared(name="tree")
    sandbox.run(TREE)
    return sandbox


# --- listing ---


def test_list(tree):
    answer = files(tree)
    assert answer.headers["Content-Type"] == "application/json" and "X-Husk-Incomplete" not in answer.headers
    entries = {entry["path"]: entry for entry in answer.json()}
    assert list(entries) == FILES
    assert all(entry.keys() == {"path", "size", "type", "modified_at"} for entry in entries.values())
    assert entries["a/x.csv"]["size"] == 7 and entries["a/x.csv"]["type"] == "text/csv; charset=utf-8"
    assert entries["link"]["type"] == entries["out"]["type"] == "inode/symlink"
    assert entries["top.txt"]["modified_at"].endswith("Z")
    assert paths(tree) == paths(tree, "?path=") == paths(tree, "?path=.") == paths(tree, "?path=/home/user") == FILES


def test_list_below(tree):
    assert paths(tree, "?path=a") == paths(tree, "?path=/home/user/a/") == [p for p in FILES if p.startswith("a/")]
    assert paths(tree, "?path=a/b/c") == ["a/b/c/z"] and paths(tree, "?path=empty") == []
    problem(files(tree, "?path=nothing"), 404, "file_not_found")
    problem(files(tree, "?path=top.txt"), 404, "file_not_found")
    for path in ("..", "/etc", "a/../..", "out", "a/up/..", "%2e%2e", "..%2f..", "%ff", "x%00", "%"):
        assert files(tree, f"?path={path}").status_code in (404, 422), path
    assert files(tree, "?path=%252e%252e").status_code == 404
    # It leads to the working directory, and no further.
    assert "a/up/top.txt" in paths(tree, "?path=a/up")


def test_list_one_level(tree):
    entries = {entry["path"]: entry for entry in files(tree, "?recursive=0").json()}
    assert set(entries) == {path for path in FILES if "/" not in path} | {"a", "empty"}
    assert entries["a"]["type"] == entries["empty"]["type"] == "inode/directory"
    assert paths(tree, "?recursive=0&path=a") == ["a/b", "a/up", "a/x.csv"]
    assert paths(tree, "?recursive=true") == FILES
    problem(files(tree, "?recursive=perhaps"), 422, "invalid_field")


def test_list_is_about_the_sandbox(service, tree):
    assert [entry["path"] for entry in service.get("/sandbox/tree/files").json()] == FILES
    problem(service.get("/sandbox/nobody/files"), 404, "sandbox_not_found")
    assert service.request("HEAD", "/sandbox/tree/files").status_code == 200
    assert service.post("/sandbox/tree/files").status_code == 405


def test_internals_are_not_listed(create):
    """Where the kernel keeps whole texts of cut outputs: there for who asks, not for who wants to know what the code made."""
    sandbox = create()
    sandbox.run("print('x' * 3_000_000)")
    assert paths(sandbox) == [] and paths(sandbox, "?recursive=0") == []
    assert len(paths(sandbox, "?path=.husk")) == 1
    archive, _ = tar(sandbox, "")
    assert archive.getnames() == []


def test_list_is_bounded(create):
    """More than is listed: the answer says that it is incomplete. What has no place in JSON makes it so, too."""
    sandbox = create(disk_mb=1024)
    sandbox.run("import os; os.mkdir('many'); [open(f'many/{n}', 'w').close() for n in range(100_001)]", timeout=120)
    answer = files(sandbox)
    assert answer.headers["X-Husk-Incomplete"] == "true" and len(answer.json()) == 100_000
    assert remove(sandbox, "many").status_code == 200
    assert "X-Husk-Incomplete" not in files(sandbox).headers
    sandbox.run("open(b'\\xff\\xfe', 'w').close(); open('good', 'w').close()")
    answer = files(sandbox)
    assert answer.headers["X-Husk-Incomplete"] == "true" and [entry["path"] for entry in answer.json()] == ["good"]


NESTED = """
import os
def nest(count):
    here = os.getcwd()
    for _ in range(count):
        os.mkdir('d'); os.chdir('d')
    open('bottom', 'w').write('x')
    os.chdir(here)
"""


def test_deep_tree(create, unharmed):
    """A hundred thousand folders in each other: the list is incomplete, a tar breaks off, and it can be removed."""
    sandbox = create()
    sandbox.run(NESTED + "nest(100_000)", timeout=120)
    answer = files(sandbox)
    assert answer.status_code == 200 and answer.headers["X-Husk-Incomplete"] == "true" and answer.json() == []
    with pytest.raises(Exception):
        sandbox.service.get(f"{sandbox.path}/download/d").content
    assert remove(sandbox, "d").status_code == 200
    assert sandbox.value("os.listdir('.')") == [] and paths(sandbox) == []
    sandbox.run("nest(200)")
    assert len(tar(sandbox, "d")[0].getnames()) == 201


# --- as tar ---


def test_tar(tree):
    archive, answer = tar(tree, "a")
    assert answer.headers["Content-Disposition"] == "attachment; filename*=UTF-8''a.tar"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    members = {member.name: member for member in archive.getmembers()}
    assert set(members) == {"a", "a/b", "a/b/c", "a/b/c/z", "a/b/y.png", "a/up", "a/x.csv"}
    assert archive.extractfile("a/b/c/z").read() == b"a/b/c/z"
    assert members["a/up"].issym() and members["a/up"].linkname == ".."
    assert tar(tree, "empty")[0].getnames() == ["empty"]
    assert members["a/x.csv"].mode == 0o644 and members["a/x.csv"].uname == "user"


def test_tar_of_everything(tree):
    for path in ("", ".", "./", "/home/user", "/home/user/"):
        archive, answer = tar(tree, path)
        assert set(archive.getnames()) == {*FILES, "a", "a/b", "a/b/c", "empty"}
        assert "home.tar" in answer.headers["Content-Disposition"]
    assert archive.extractfile("玉米.txt").read() == "玉米.txt".encode()
    assert archive.extractfile("line\nbreak").read() == b"line\nbreak"


def test_tar_by_other_ways(service, tree):
    answer = service.get("/sandbox/file", params={"sandbox_name": "tree", "file_path": "a/b"})
    assert sorted(tarfile.open(fileobj=io.BytesIO(answer.content)).getnames()) == ["b", "b/c", "b/c/z", "b/y.png"]
    answer = service.request("HEAD", "/sandbox/tree/download/a")
    assert answer.status_code == 200 and answer.content == b""
    archive, _ = tar(tree, "a/../a/b/..")
    assert all(name.split("/")[0] == "folder" for name in archive.getnames())
    for path in ("..", "a/../..", "out", "a/up/.."):
        # 503: Linux says of the last one that it cannot tell.
        assert service.get(f"/sandbox/tree/download/{urllib.parse.quote(path, safe='')}").status_code in (404, 503), path


def test_tar_round_trip(create):
    """What was downloaded can be uploaded again."""
    sandbox, other = create(), create()
    sandbox.run(TREE + "os.chmod('top.txt', 0o755); os.remove('out')")
    _, answer = tar(sandbox, "")
    up = other.post("upload?extract=1", files={"file": ("all.tar", answer.content)})
    assert up.status_code == 200, up.text
    assert paths(other) == [path for path in FILES if path != "out"]
    other.run("import os")
    assert other.value("(os.readlink('link'), os.stat('top.txt').st_mode & 0o777, os.path.isdir('empty'))") == ("a/x.csv", 0o755, True)


def test_large_tar(create):
    """100 MB and more in constant memory, and a client that goes away ends the job."""
    sandbox = create()
    service = sandbox.service
    sandbox.run("import os; os.mkdir('big'); d = os.urandom(1 << 20); [open(f'big/{n}', 'wb').write(d) for n in range(150)]")
    huskd = host.Process(service.process.pid)
    huskd.forget_peak()
    before = huskd.peak_bytes
    with service_stream(service, f"{sandbox.path}/download/big") as answer:
        size, slowest = 0, 0.0
        for number, block in enumerate(answer.iter_content(1 << 20)):
            size += len(block)
            if number % 20 == 0:
                slowest = max(slowest, service.get("/health").elapsed.total_seconds())
    assert size > 150 << 20 and slowest < 2
    assert huskd.peak_bytes - before < (300 if sanitized() else 16) << 20
    with service_stream(service, f"{sandbox.path}/download/big") as answer:
        answer.raw.read(1000)
        assert len(service.programs("husk-porter")) == 1
    host.until(lambda: not service.programs("husk-porter"), 20, "the porter to end")


def service_stream(service, path):
    """A download that is read as the test likes: by answer.raw."""
    session = requests.Session()
    session.trust_env = False
    return session.get(service.url + path, stream=True, timeout=60)


def test_files_that_change_while_they_are_packed(create):
    """Cut short, replaced by pipes, removed, appended to: the archive is whole, and nothing hangs."""
    sandbox = create(cpus=0.8)
    sandbox.run("""
import os, subprocess, sys
os.mkdir('moving')
code = '''
import itertools, os
for number in itertools.count():
    path = f'moving/{number % 50}'
    try:
        if os.path.lexists(path): os.unlink(path)
        if number % 7 == 0: os.mkfifo(path)
        elif number % 5 == 0: os.symlink('/etc/passwd', path)
        elif number % 3 == 0: os.mkdir(path); os.rmdir(path)
        else:
            with open(path, 'wb') as file:
                file.write(b'x' * (1000 * (number % 100))); file.truncate(number % 1000)
    except OSError:
        pass
    if number == 100: open('moves', 'w').close()
'''
mover = subprocess.Popen([sys.executable, '-c', code])
""")
    host.until(lambda: content(sandbox, "moves") is not None, 20, "the files to move")
    for _ in range(30):
        archive, _ = tar(sandbox, "moving")
        for member in archive.getmembers():
            assert member.isreg() or member.issym() or member.isdir(), member
            if member.isreg():
                assert set(archive.extractfile(member).read()) <= {ord("x"), 0}
        assert files(sandbox).status_code == 200
    sandbox.run("mover.kill(); mover.wait()")


# --- removing ---


def test_remove(create):
    sandbox = create()
    sandbox.run(TREE)
    for path in ("top.txt", "a/b", "link", "out", "fifo", "socket", "玉米.txt", 'quote"\'.txt', "line\nbreak", "empty"):
        answer = remove(sandbox, path)
        assert answer.status_code == 200 and answer.json()["path"] == path, answer.text
        problem(remove(sandbox, path), 404, "file_not_found")
    assert paths(sandbox) == [".hidden", "a/up", "a/x.csv"]
    assert remove(sandbox, "/home/user/a/").status_code == 200
    assert paths(sandbox) == [".hidden"]
    assert sandbox.value("open('/etc/passwd').read()[:4]") == "root"


def test_remove_the_home(shared):
    put(shared, "kept", b"kept")
    for path in (".", "./", "/home/user", "/home/user/", "%2fhome%2fuser"):
        answer = shared.service.delete(f"{shared.path}/files/{path}")
        assert answer.status_code in (404, 405, 422), (path, answer.text)
    problem(shared.service.delete(f"{shared.path}/files/%2fhome%2fuser"), 422, "invalid_field")
    assert content(shared, "kept") == b"kept"


def test_remove_does_not_follow_links(create):
    sandbox = create()
    sandbox.run("""
import os
os.makedirs('target/inner'); open('target/inner/kept', 'w').close(); open('/dev/shm/kept', 'w').close()
os.makedirs('gone')
os.symlink('../target', 'gone/to_target'); os.symlink('/dev/shm', 'gone/to_shm'); os.symlink('target', 'link')
""")
    assert remove(sandbox, "gone").status_code == 200 and remove(sandbox, "link").status_code == 200
    assert paths(sandbox) == ["target/inner/kept"]
    assert sandbox.value("os.listdir('/dev/shm')") == ["kept"]
    # A folder on the way may be a link, if it stays inside.
    sandbox.run("os.symlink('target', 'link'); os.symlink('/dev/shm', 'out')")
    assert remove(sandbox, "link/inner/kept").status_code == 200
    assert remove(sandbox, "out/kept").status_code in (404, 422)
    assert sandbox.value("os.listdir('/dev/shm')") == ["kept"]


def test_remove_what_its_owner_may_not_write(create):
    sandbox = create()
    sandbox.run("""
import os
os.makedirs('a/b/c'); open('a/b/x', 'w').close()
os.chmod('a/b/c', 0); os.chmod('a/b', 0o555); os.chmod('a', 0o500)
""")
    assert remove(sandbox, "a").status_code == 200
    assert sandbox.value("os.listdir('.')") == []
    sandbox.run("os.makedirs('a/b'); os.chmod('a', 0o555)")
    problem(remove(sandbox, "a/b"), 409, "file_conflict")


def test_remove_while_it_is_used(create):
    """A process that lives in the folder and makes files there does not keep it from going."""
    sandbox = create(cpus=0.8)
    sandbox.run("""
import os, subprocess, sys
code = '''
import itertools, os
for number in itertools.count():
    try:
        os.makedirs(f'd{number % 100}/e', exist_ok=True); open(f'd{number % 100}/f', 'w').close()
    except OSError: pass
'''
os.mkdir('busy')
maker = subprocess.Popen([sys.executable, '-c', code], cwd='busy')
""")
    host.until(lambda: paths(sandbox), 20, "files to appear")
    answer = later(remove, sandbox, "busy")
    host.until(lambda: not sandbox.value("os.path.exists('busy')"), 20, "the folder to be gone")
    sandbox.run("maker.kill(); maker.wait()")
    assert answer.result(60).status_code == 200
    assert paths(sandbox) == []


# --- bounds ---


def test_too_many_at_once(create):
    """Jobs on folders are bounded; who comes too many is told so, and later it works again."""
    sandbox = create()
    service = sandbox.service
    sandbox.run("import os; os.mkdir('big'); d = bytes(1 << 20); [open(f'big/{n}', 'wb').write(d) for n in range(40)]")
    readers = [service_stream(service, f"{sandbox.path}/download/big") for _ in range(4)]
    assert all(reader.status_code == 200 for reader in readers)
    problem(files(sandbox), 429, "too_many_file_jobs")
    assert files(sandbox).headers["Retry-After"]
    problem(remove(sandbox, "big"), 429, "too_many_file_jobs")
    other = create()
    assert files(other).status_code == 200
    for reader in readers:
        reader.close()
    host.until(lambda: files(sandbox).status_code == 200, 20, "the porters to end")


def test_clients_leave_before_the_answer(create):
    """What was waiting for them goes: a sanitizer would tell of it at the end of the service."""
    sandbox = create()
    host_name, port = sandbox.service.url.removeprefix("http://").split(":")
    for path in ("files", "download/.") * 20:
        with socket.create_connection((host_name, int(port))) as client:
            client.sendall(f"GET /sandbox/{sandbox.id}/{path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    # The service may see the last of them only now: until then there may be too many jobs.
    host.until(lambda: files(sandbox).status_code == 200, 30, "an answer")
    host.until(lambda: not sandbox.service.programs("husk-porter"), 30, "the porters to end")


def test_sandbox_ends_meanwhile(create):
    sandbox = create()
    service = sandbox.service
    sandbox.run("import os; os.mkdir('big'); d = bytes(1 << 20); [open(f'big/{n}', 'wb').write(d) for n in range(60)]")
    with service_stream(service, f"{sandbox.path}/download/big") as answer:
        answer.raw.read(1000)
        assert sandbox.close().status_code == 200
        assert not service.programs("husk-porter")
        with pytest.raises(Exception):
            while answer.raw.read(1 << 20):
                pass
    assert not sandbox.cgroups()


def test_porter_is_confined(create):
    """As the shim is: the sandbox's uid, no capability, a filter, its cgroup, its network, and home as its root."""
    sandbox = create()
    service = sandbox.service
    sandbox.run("import os; os.mkdir('big'); d = bytes(1 << 20); [open(f'big/{n}', 'wb').write(d) for n in range(40)]")
    with service_stream(service, f"{sandbox.path}/download/big") as answer:
        answer.raw.read(1000)
        [porter] = service.programs("husk-porter")
        for key, value in (("CapEff", "0" * 16), ("CapPrm", "0" * 16), ("CapBnd", "0" * 16), ("NoNewPrivs", "1"), ("Seccomp", "2")):
            assert porter.status(key) == value
        assert porter.status("Uid") == sandbox.shim().status("Uid")
        assert porter.in_cgroup(sandbox.id)
        assert porter.namespace("net") == sandbox.namespace("net")
        assert "big" in os.listdir(f"/proc/{porter.pid}/root")
        assert porter.descriptors() <= 12


def test_keeper_dies(private):
    """Its porters end with it: nobody would know of them."""
    service = private().start()
    sandbox = service.create()
    sandbox.run("import os; os.mkdir('big'); d = bytes(1 << 20); [open(f'big/{n}', 'wb').write(d) for n in range(40)]")
    with service_stream(service, f"{sandbox.path}/download/big") as answer:
        answer.raw.read(1000)
        os.kill(service.keeper().pid, signal.SIGKILL)
        host.until(lambda: not service.programs("husk-porter"), 20, "the porter to end")
    host.until(lambda: service.get("/health").status_code == 200, 20, "the service to be well")
    host.until(lambda: files(sandbox).status_code == 200, 20, "the next porter")
