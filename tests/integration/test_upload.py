"""Uploads: forms and plain bodies arrive whole, in their place and as the sandbox's own, or nothing of them is left."""

import os
import socket
import time
import urllib.parse

import pytest

import host
from service import later, problem


def upload(sandbox, *files, query="", **fields):
    """Send a form; each file is (name, content)."""
    parts = [("file", (name, content)) for name, content in files]
    return sandbox.post("upload" + query, files=parts, data=fields)


def put(sandbox, path, content, **options):
    return sandbox.service.request("PUT", f"{sandbox.path}/files/{path}", data=content, **options)


def content(sandbox, path):
    answer = sandbox.service.get(f"{sandbox.path}/download/{urllib.parse.quote(path)}")
    return answer.content if answer.status_code == 200 else None


def listing(sandbox):
    return {entry["path"]: entry["size"] for entry in sandbox.service.get(f"{sandbox.path}/files").json()}


def used(sandbox):
    return sandbox.info()["usage"]["disk_bytes"]


# --- what arrives ---


def test_one_file(sandbox):
    answer = upload(sandbox, ("data.csv", b"a,b\n1,2\n"))
    assert answer.status_code == 200, answer.text
    assert answer.json() == {"file_path": "data.csv", "files": [{"path": "data.csv", "size": 8}]}
    assert content(sandbox, "data.csv") == b"a,b\n1,2\n"
    assert sandbox.value("__import__('pandas').read_csv('data.csv')['b'].tolist()") == [2]


def test_belongs_to_the_sandbox(sandbox):
    upload(sandbox, ("x", b"1"), file_path="new/folder/x")
    put(sandbox, "other/folder/y", b"2")
    sandbox.run("import os, stat")
    for path in ("new", "new/folder", "other/folder"):
        assert sandbox.value(f"(os.stat({path!r}).st_uid, stat.S_IMODE(os.stat({path!r}).st_mode))") == (1000, 0o755)
    for path in ("new/folder/x", "other/folder/y"):
        found = f"os.stat({path!r})"
        assert sandbox.value(f"({found}.st_uid, {found}.st_gid, stat.S_IMODE({found}.st_mode), {found}.st_nlink)") == (1000, 1000, 0o644, 1)
    sandbox.run("open('new/folder/x', 'a').write('more'); os.rename('new', 'renamed')")
    assert content(sandbox, "renamed/folder/x") == b"1more"


@pytest.mark.parametrize(
    "file_path, expected",
    [
        ("place.txt", "place.txt"),
        ("a/b/c/place.txt", "a/b/c/place.txt"),
        ("a/b/", "a/b/name.txt"),
        ("/home/user/abs.txt", "abs.txt"),
        ("/home/user/", "name.txt"),
        ("./x/./y//z", "x/y/z"),
        ("玉米/\U0001f33d.txt", "玉米/\U0001f33d.txt"),
        ("quotes\"'\\.txt", "quotes\"'\\.txt"),
        ("line\r\nbreak: yes", "line\r\nbreak: yes"),
        ("n" * 255, "n" * 255),
        ("per%2e%2e/cent", "per%2e%2e/cent"),
        ("back\\slash", "back\\slash"),
    ],
)
def test_where_it_goes(shared, file_path, expected):
    answer = upload(shared, ("name.txt", file_path.encode()), file_path=file_path)
    assert answer.json()["file_path"] == expected, answer.text
    assert content(shared, expected) == file_path.encode()
    query = "?file_path=" + urllib.parse.quote(file_path, safe="")
    assert upload(shared, ("name.txt", b"by query"), query=query).json()["file_path"] == expected
    assert content(shared, expected) == b"by query"
    if not file_path.endswith("/"):
        path = urllib.parse.quote(file_path, safe="/")
        assert put(shared, path, b"put").json() == {"path": expected, "size": 3}
        assert content(shared, expected) == b"put"


def test_names_of_clients(shared):
    """Only the last component of what a client calls its file is used, and names may be in any language."""
    for name, expected in (
        ("C:\\Users\\me\\table.xlsx", "table.xlsx"),
        ("/etc/passwd", "passwd"),
        ("../../up.txt", "up.txt"),
        ("数据.csv", "数据.csv"),
        ("n" * 255, "n" * 255),
    ):
        answer = upload(shared, (name, b"x"))
        assert answer.status_code == 200 and answer.json()["file_path"] == expected, answer.text
        assert content(shared, expected) == b"x"


def form(*parts, boundary="XX"):
    """A form written by hand: (header, content) of each part."""
    body = b"".join(
        f"--{boundary}\r\nContent-Disposition: form-data; {header}\r\n\r\n".encode() + data + b"\r\n" for header, data in parts
    )
    return body + f"--{boundary}--\r\n".encode()


def post_form(sandbox, body, boundary="XX"):
    return sandbox.post("upload", data=body, headers={"Content-Type": f"multipart/form-data; boundary={boundary}"})


def test_forms_of_other_clients(shared):
    """RFC 8187 names (aiohttp), quotes as browsers and curl escape them, the path behind the file or in front of it, no file name."""
    for parts, expected in (
        ([('name="file"; filename="%E7%8E%89.csv"; filename*=UTF-8\'\'%E7%8E%89.csv', b"1")], "玉.csv"),
        ([('name="file"; filename="a%22b.txt"', b"2")], 'a"b.txt'),
        ([('name="file"; filename="a\\"c.txt"', b"3")], 'a"c.txt'),
        ([('name="file_path"', b"first/x"), ('name="file"; filename="y"', b"4")], "first/x"),
        ([('name="file"; filename="y"', b"5"), ('name="file_path"', b"last/x"), ('name="other"', b"z" * 5000)], "last/x"),
        ([('name="file"', b"6"), ('name="file_path"', b"unnamed")], "unnamed"),
        ([('name="anything"; filename="any.txt"', b"7")], "any.txt"),
        ([('name="file"; filename="y"', b"8\r\n--X\r\n--\r\n"), ('name="file_path"', b"near")], "near"),
    ):
        answer = post_form(shared, form(*parts))
        assert answer.status_code == 200 and answer.json()["file_path"] == expected, answer.text
        assert content(shared, expected) == next(data for header, data in parts if "file_path" not in header)


def test_chunks_that_end_where_parts_begin(shared):
    """All chunks come at once, and the file has to be made while the second one is there already."""
    body = form(('name="file"; filename="chunks"', b"content"))
    begin = body.index(b"content")
    for cut in range(begin - 4, begin + 2):
        chunks = [body[:cut], body[cut:]]
        sent = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in [*chunks, b""])
        with socket.create_connection(("127.0.0.1", shared.service.port), 30) as peer:
            peer.sendall(
                f"POST {shared.path}/upload?file_path=chunks{cut} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                "Content-Type: multipart/form-data; boundary=XX\r\nTransfer-Encoding: chunked\r\n\r\n".encode() + sent
            )
            answer = b"".join(iter(lambda: peer.recv(65536), b""))
        assert answer.startswith(b"HTTP/1.1 200 "), answer
        assert content(shared, f"chunks{cut}") == b"content"


def test_several_files(sandbox):
    files = [(f"f{i}.txt", b"%d" % i * i) for i in range(20)]
    answer = upload(sandbox, *files, file_path="many")
    assert [entry["path"] for entry in answer.json()["files"]] == [f"many/{name}" for name, _ in files]
    assert answer.json()["file_path"] == "many/f0.txt"
    assert listing(sandbox) == {f"many/{name}": len(data) for name, data in files}
    for name, data in files:
        assert content(sandbox, f"many/{name}") == data


def test_empty_files(sandbox):
    assert upload(sandbox, ("empty", b""), ("also", b"")).json()["files"] == [{"path": "empty", "size": 0}, {"path": "also", "size": 0}]
    assert put(sandbox, "third", b"").status_code == 201
    assert listing(sandbox) == {"empty": 0, "also": 0, "third": 0}


def test_put(sandbox):
    answer = put(sandbox, "x.bin", bytes(range(256)))
    assert answer.status_code == 201 and answer.json() == {"path": "x.bin", "size": 256}
    answer = put(sandbox, "x.bin", b"shorter", headers={"Content-Type": "application/json"})
    assert answer.status_code == 200 and answer.json() == {"path": "x.bin", "size": 7}
    assert content(sandbox, "x.bin") == b"shorter"
    # Without a length, in chunks.
    answer = put(sandbox, "chunked", (b"part%d " % i for i in range(1000)))
    assert answer.status_code == 201 and content(sandbox, "chunked") == b"".join(b"part%d " % i for i in range(1000))


@pytest.mark.parametrize("size", [1, 3, 50, 150, 1000])
def test_form_in_chunks(service, sandbox, size):
    """All of them in one packet: those behind the beginning of a file wait until there is a place for it."""
    body = form(('name="file"; filename="a"', b"of a " * 100), ('name="file"; filename="b"', b""), ('name="file"; filename="c"', b"of c"))
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(body[at : at + size]), body[at : at + size]) for at in range(0, len(body), size))
    head = f"POST {sandbox.path}/upload HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=XX\r\nTransfer-Encoding: chunked\r\n\r\n"
    with socket.create_connection(("127.0.0.1", service.port), 10) as peer:
        peer.sendall(head.encode() + chunks + b"0\r\n\r\n")
        assert b" 200 " in peer.recv(1000).partition(b"\r\n")[0]
    assert listing(sandbox) == {"a": 500, "b": 0, "c": 4} and content(sandbox, "a") == b"of a " * 100


def test_expect_continue(shared):
    """A client that asks first gets its answer before it sends anything."""
    with socket.create_connection(("127.0.0.1", shared.service.port), 10) as peer:
        head = f"PUT {shared.path}/files/%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"
        peer.sendall((head % "waited").encode())
        assert peer.recv(1000).startswith(b"HTTP/1.1 100")
        peer.sendall(b"hello")
        assert peer.recv(1000).startswith(b"HTTP/1.1 201")
    with socket.create_connection(("127.0.0.1", shared.service.port), 10) as peer:
        peer.sendall((head % "../up").encode())
        assert peer.recv(1000).startswith(b"HTTP/1.1 422")


def test_many_at_once(shared):
    answers = [later(put, shared, f"many/{n}", b"%d" % n * 10_000) for n in range(50)]
    assert all(answer.result(60).status_code in (200, 201) for answer in answers)
    for n in range(0, 50, 7):
        assert content(shared, f"many/{n}") == b"%d" % n * 10_000


def test_by_name_and_in_the_log(service, create):
    sandbox = create(name="uploads")
    answer = service.post("/sandbox/uploads/upload", files={"file": ("x", b"1")}, headers={"X-Request-Id": "upload-by-name"})
    assert answer.status_code == 200
    assert service.request("PUT", "/sandbox/uploads/files/y", data=b"2").status_code == 201
    assert {entry["path"] for entry in service.get("/sandbox/uploads/files").json()} == {"x", "y"}
    assert any("upload-by-name" in line and sandbox.id in line for line in service.log().splitlines())
    assert used(sandbox) > 0


def test_counts_as_use(service, create):
    """A sandbox into which files are put is not idle, although more than its idle time passes in all."""
    sandbox = create(idle_seconds=2)
    for number in range(4):
        time.sleep(0.7)  # what is measured is time
        assert put(sandbox, f"f{number}", b"x").status_code == 201
        assert service.get(f"{sandbox.path}/files").status_code == 200
    assert sandbox.info()["state"] == "ready"
    host.until(lambda: service.get(sandbox.path).status_code == 410, 20, "the sandbox to expire")


# --- what does not ---


@pytest.mark.parametrize(
    "path",
    [
        "..",
        "../x",
        "../../../../etc/cron.d/x",
        "a/../../x",
        "/etc/passwd",
        "/x",
        "/home/user2/x",
        "/home/user/../x",
        "/home/user//etc/x",
        "n" * 256,
        "n/" * 513 + "n",
    ],
)
def test_nothing_outside(shared, path):
    before = listing(shared)
    problem(upload(shared, ("name", b"x"), file_path=path), 422)
    problem(upload(shared, ("name", b"x"), query="?file_path=" + urllib.parse.quote(path, safe="")), 422)
    gone = shared.service.delete(f"{shared.path}/files/{urllib.parse.quote(path, safe='')}")
    assert gone.status_code in (404, 422), "clients take '..' out of paths"
    problem(shared.service.get(f"{shared.path}/files?path={urllib.parse.quote(path, safe='')}"), 422)
    assert listing(shared) == before


@pytest.mark.parametrize(
    "path",
    ["%2e%2e/x", "%2e%2e%2fx", "..%2f..%2fx", "a/%2e%2e/%2e%2e/x", "%2fetc%2fx", "x%00", "%00", "%ff", "%c0%ae%c0%ae/x", "%", "x/", "."],
)
def test_put_outside(shared, path):
    before = listing(shared)
    with socket.create_connection(("127.0.0.1", shared.service.port), 10) as peer:
        peer.sendall(f"PUT {shared.path}/files/{path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx".encode())
        assert peer.recv(1000).split()[1] in (b"404", b"422")
    assert listing(shared) == before


def test_names_that_only_look_dangerous(shared):
    """Encoded twice, with backslashes: names like any others, inside."""
    for path, name in (("%252e%252e/deep", "%2e%2e/deep"), ("..%5c..%5cx", "..\\..\\x"), ("%252fetc", "%2fetc")):
        assert put(shared, path, b"x").json()["path"] == name
        assert content(shared, name) == b"x"


@pytest.mark.parametrize("name", ["", ".", "..", "a/", "\\\\"])
def test_useless_names(shared, name):
    answer = post_form(shared, form((f'name="file"; filename="{name}"', b"x")))
    problem(answer, 422)


def test_malformed_forms(shared):
    before = listing(shared)
    good = form(('name="file"; filename="half"', b"content"))
    problem(post_form(shared, good[:-10]), 400, "malformed_request")
    problem(post_form(shared, b""), 400, "malformed_request")
    problem(post_form(shared, b"--XXrubbish" + good), 400, "malformed_request")
    problem(post_form(shared, form(('name="other"', b"x"))), 422, "invalid_field")
    problem(post_form(shared, form(('name="file"; filename="%s"' % ("x" * 9000), b"x"))), 400, "malformed_request")
    problem(post_form(shared, form(*[(f'name="file"; filename="f{i}"', b"") for i in range(101)])), 422, "invalid_field")
    problem(post_form(shared, form(*[(f'name="f{i}"', b"") for i in range(600)])), 422, "invalid_field")
    problem(post_form(shared, form(('name="file"; filename="x"', b""), ('name="file_path"', b"a\0b"))), 422, "invalid_field")
    problem(post_form(shared, form(('name="file"; filename="x"', b""), ('name="file_path"', b"\xff"))), 422, "invalid_field")
    problem(shared.post("upload", data=b"x", headers={"Content-Type": "text/plain"}), 415, "unsupported_media_type")
    problem(shared.post("upload", data=b"x"), 415, "unsupported_media_type")
    problem(shared.post("upload?extract=maybe", files={"file": b"x"}), 422, "invalid_field")
    assert listing(shared) == before


def test_no_such_sandbox(service, create):
    for _ in range(3):
        problem(service.post("/sandbox/nobody/upload", files={"file": b"x" * 100_000}), 404, "sandbox_not_found")
        problem(service.request("PUT", "/sandbox/nobody/files/x", data=b"x" * 100_000), 404, "sandbox_not_found")
    sandbox = create()
    sandbox.close()
    problem(put(sandbox, "x", b"x"), 410, "sandbox_closed")


def test_too_large(shared):
    """More than 1 GiB is refused by its length, before anything is sent."""
    with socket.create_connection(("127.0.0.1", shared.service.port), 10) as peer:
        peer.sendall(
            f"PUT {shared.path}/files/huge HTTP/1.1\r\nHost: localhost\r\nContent-Length: {(1 << 30) + 1}\r\n\r\n".encode()
        )
        assert peer.recv(1000).startswith(b"HTTP/1.1 413")


def test_in_the_way(sandbox):
    sandbox.run("import os; os.makedirs('folder/inner'); open('file', 'w').write('kept')")
    problem(put(sandbox, "folder", b"x"), 409, "file_conflict")
    problem(put(sandbox, "folder/inner", b"x"), 409, "file_conflict")
    problem(put(sandbox, "file/below", b"x"), 409, "file_conflict")
    problem(upload(sandbox, ("x", b"x"), file_path="file/"), 409, "file_conflict")
    assert listing(sandbox) == {"file": 4} and content(sandbox, "file") == b"kept"


def test_links(sandbox):
    """A link is replaced and not followed; folders behind links are used if they are inside."""
    sandbox.run("""
import os
os.makedirs('real/folder')
open('/dev/shm/outside', 'w').write('kept')
open('target', 'w').write('kept')
for name, to in (('to_file', 'target'), ('to_outside', '/dev/shm/outside'), ('to_etc', '/etc/passwd'), ('dangling', 'nothing'),
                 ('to_folder', 'real/folder'), ('absolute', '/dev/shm'), ('up', '..'), ('loop', 'loop'), ('proc', '/proc/self/fd')):
    os.symlink(to, name)
os.link('target', 'hard')
os.mkfifo('fifo')
""")
    for name in ("to_file", "to_outside", "to_etc", "dangling", "loop", "hard", "fifo"):
        assert put(sandbox, name, b"new").status_code == 200, name
        assert content(sandbox, name) == b"new"
        assert not sandbox.value(f"os.path.islink({name!r})")
    assert content(sandbox, "target") == b"kept"
    assert sandbox.value("open('/dev/shm/outside').read()") == "kept"
    assert put(sandbox, "to_folder/x", b"inside").status_code == 201
    assert content(sandbox, "real/folder/x") == b"inside"
    for name in ("absolute/x", "up/x", "absolute/outside", "up/shm/outside", "proc/1"):
        problem(put(sandbox, name, b"x"), 422)
        problem(upload(sandbox, ("x", b"x"), file_path=name), 422)
    assert sandbox.value("(open('/dev/shm/outside').read(), os.listdir('/dev/shm'))") == ("kept", ["outside"])


def test_folder_that_is_exchanged(create):
    """A folder on the way flips between a folder and links out of the sandbox's home: the file is inside, or nowhere."""
    sandbox = create(cpus=0.5)
    sandbox.run("""
import os, subprocess, sys
os.makedirs('safe')
code = '''
import itertools, os
for number in itertools.count():
    for target in ('safe', '/dev/shm', '..', '../shm', '/tmp'):
        os.symlink(target, 'next')
        os.rename('next', 'flipping')
    if number == 10:
        open('flips', 'w').close()
'''
flipper = subprocess.Popen([sys.executable, '-c', code])
""")
    host.until(lambda: content(sandbox, "flips") is not None, 20, "the link to flip")
    seen = set()
    for number in range(200):
        answer = put(sandbox, f"flipping/f{number}", b"x")
        seen.add(answer.status_code)
        assert answer.status_code in (201, 422, 404, 409, 503), answer.text
    assert {201, 422} <= seen
    sandbox.run("flipper.kill(); flipper.wait()")
    assert sandbox.value("(os.listdir('/dev/shm'), [n for n in os.listdir('/tmp') if n[0] == 'f'])") == ([], [])
    assert {os.path.dirname(path) for path in listing(sandbox)} <= {"", "safe"}


def test_link_is_not_followed_at_the_end(create):
    """The target itself flips between a file and a link out: never is anything written through it."""
    sandbox = create(cpus=0.5)
    sandbox.run("""
import os, subprocess, sys
open('/dev/shm/outside', 'w').write('kept')
code = '''
import itertools, os
for number in itertools.count():
    os.symlink('/dev/shm/outside', 'next'); os.rename('next', 'flipping')
    open('other', 'w').close(); os.rename('other', 'flipping')
    if number == 10:
        open('flips', 'w').close()
'''
flipper = subprocess.Popen([sys.executable, '-c', code])
""")
    host.until(lambda: content(sandbox, "flips") is not None, 20, "the link to flip")
    for _ in range(100):
        assert put(sandbox, "flipping", b"written").status_code in (200, 201)
    sandbox.run("flipper.kill(); flipper.wait()")
    assert sandbox.value("open('/dev/shm/outside').read()") == "kept"
    assert not [path for path in listing(sandbox) if path.startswith(".husk-")]
