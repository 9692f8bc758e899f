"""Downloads: the right bytes with the right headers, and nothing outside the working directory by any means."""

import hashlib
import http.client
import os
import signal
import socket
import time
import urllib.parse

import pytest

import host
from service import later, problem, sanitized

MEGABYTE = 1 << 20


class Reply:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body


def get(sandbox, path, method="GET", headers=None):
    """Ask for exactly this path: nothing is normalised or encoded on the way."""
    connection = http.client.HTTPConnection("127.0.0.1", sandbox.service.port, timeout=30)
    try:
        connection.putrequest(method, f"{sandbox.path}/download/{path}", skip_accept_encoding=True)
        for name, value in (headers or {}).items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        return Reply(answer.status, answer.headers, answer.read())
    finally:
        connection.close()


def quoted(name):
    return urllib.parse.quote(name, safe="/")


def refused(sandbox, path, status=404, code="file_not_found"):
    reply = get(sandbox, path)
    assert reply.status == status, (path, reply.status, reply.body[:300])
    assert code.encode() in reply.body, (path, reply.body)
    assert reply.headers["Content-Type"] == "application/problem+json"
    assert b"root:" not in reply.body


def write(sandbox, name, content):
    sandbox.run(f"import os; os.makedirs(os.path.dirname({name!r}) or '.', exist_ok=True)")
    sandbox.run(f"with open({name!r}, 'wb') as f: f.write({content!r})")


# --- what is there ---


@pytest.mark.parametrize(
    "name, content",
    [
        ("plain.txt", b"hello\n"),
        ("empty", b""),
        ("a/b/c/deep.bin", bytes(range(256)) * 10),
        (".hidden", b"x"),
        ("with space.txt", b"x"),
        ("per%cent%2e", b"x"),
        ("plus+and&?#;=", b"x"),
        ("quotes\"'\\.txt", b"x"),
        ("line\r\nbreak: yes", b"x"),
        ("玉米\U0001f33d.csv", b"x"),
        ("n" * 255, b"x"),
        ("…", b"x"),
    ],
)
def test_contents(shared, name, content):
    write(shared, name, content)
    for path in (quoted(name), "/home/user/" + quoted(name), "%2fhome%2Fuser%2f" + quoted(name)):
        reply = get(shared, path)
        assert reply.status == 200, reply.body
        assert reply.body == content
        assert reply.headers["Content-Length"] == str(len(content))
        assert reply.headers["X-Content-Type-Options"] == "nosniff"
        assert reply.headers["Content-Security-Policy"] == "sandbox"
        assert reply.headers["X-Request-Id"]
        kind, _, encoded = reply.headers["Content-Disposition"].partition("; filename*=UTF-8''")
        assert kind == "attachment"
        assert encoded.isascii() and not set(encoded) & set("\"'\r\n; \\")
        assert urllib.parse.unquote(encoded, errors="strict") == name.rpartition("/")[2]


@pytest.mark.parametrize(
    "name, kind",
    [
        ("t.png", "image/png"),
        ("t.csv", "text/csv; charset=utf-8"),
        ("t.HTML", "text/html; charset=utf-8"),
        ("t.json", "application/json"),
        ("t", "application/octet-stream"),
    ],
)
def test_content_types(shared, name, kind):
    write(shared, name, b"x")
    assert get(shared, name).headers["Content-Type"] == kind


def test_head(shared):
    write(shared, "head.bin", b"12345")
    reply = get(shared, "head.bin", "HEAD")
    assert reply.status == 200 and reply.body == b"" and reply.headers["Content-Length"] == "5"
    assert "head.bin" in reply.headers["Content-Disposition"]
    assert get(shared, "nothing", "HEAD").status == 404


def test_other_methods(shared):
    for method in ("POST", "PUT", "DELETE"):
        assert get(shared, "plain.txt", method).status == 405


def test_by_name(service, create):
    sandbox = create(name="downloads")
    write(sandbox, "x", b"by name")
    assert service.get("/sandbox/downloads/download/x").content == b"by name"


def test_unreadable_for_its_owner(shared):
    """Modes are for the processes inside; whoever has the sandbox has its files."""
    write(shared, "shut", b"content")
    shared.run("import os; os.chmod('shut', 0)")
    assert get(shared, "shut").body == b"content"


def test_several_on_one_connection(shared):
    write(shared, "kept", b"k" * 100_000)
    connection = http.client.HTTPConnection("127.0.0.1", shared.service.port, timeout=30)
    for _ in range(5):
        connection.request("GET", f"{shared.path}/download/kept")
        assert connection.getresponse().read() == b"k" * 100_000
    connection.close()


# --- what is not there ---


def test_no_such_sandbox(service):
    problem(service.get("/sandbox/nobody/download/x"), 404, "sandbox_not_found")


def test_closed_sandbox(service, create):
    sandbox = create()
    write(sandbox, "x", b"x")
    sandbox.close()
    found = problem(service.get(f"{sandbox.path}/download/x"), 410, "sandbox_closed")
    assert found["why"] == "closed"


@pytest.mark.parametrize(
    "path",
    [
        "nothing",
        "nothing/at/all",
        "/",
        "//",
        "/home/user//etc/passwd",
        "..",
        "../",
        "../../../../../../../../etc/passwd",
        "..%2f..%2f..%2f..%2fetc%2fpasswd",
        "%2e%2e/%2e%2e/%2e%2e/etc/passwd",
        "%252e%252e/%252e%252e/etc/passwd",
        "%252e%252e%252fetc%252fpasswd",
        "..%255c..%255cetc%255cpasswd",
        "..%5c..%5c..%5cetc%5cpasswd",
        "..\\..\\..\\etc\\passwd",
        "....//....//etc/passwd",
        "%c0%ae%c0%ae/etc/passwd",
        "%e0%80%ae%e0%80%ae/etc/passwd",
        "%uff0e%uff0e/etc/passwd",
        "folder/../../../../../etc/passwd",
        "/etc/passwd",
        "%2fetc%2fpasswd",
        "/home/user/../../etc/passwd",
        "/home/user/../upper",
        "../upper",
        "/proc/self/environ",
        "/proc/1/environ",
        "/dev/zero",
        "x%00",
        "%00",
        "x%00.png",
        "%",
        "%2",
        "%zz",
        "%ff",
        "%ed%a0%80",
        "x/",
        "n" * 256,
        "n/" * 500,
        "n" * 1025,
        "%6e" * 1025,
        "n/" * 2000,
    ],
)
def test_nothing_outside(shared, path):
    write(shared, "folder/inside", b"x")
    write(shared, "x", b"x")
    refused(shared, path)


def test_one_level_up(shared):
    """/dev/shm of the sandbox is beside its home on the same file system: the nearest thing that '..' could reach."""
    shared.run("open('/dev/shm/outside', 'w').write('root:')")
    shared.run("import os; os.path.lexists('to_shm') or os.symlink('../shm', 'to_shm')")
    write(shared, "folder/inside", b"x")
    for path in (
        "../shm/outside",
        "%2e%2e/shm/outside",
        "..%2fshm%2foutside",
        "%2e%2e%2f%73hm%2foutside",
        "./../shm/outside",
        "folder/../../shm/outside",
        "folder/%2e%2e/%2e%2e/shm/outside",
        "/home/user/../shm/outside",
        "%2fhome/user%2f../shm/outside",
        "to_shm/outside",
        "%252e%252e/shm/outside",
        "..%5cshm%5coutside",
    ):
        refused(shared, path)


def test_ranges(shared):
    write(shared, "r.bin", bytes(range(100)))
    whole = get(shared, "r.bin")
    assert whole.headers["Accept-Ranges"] == "bytes" and whole.headers["Last-Modified"].endswith("GMT")
    for asked, first, last in (("0-0", 0, 0), ("10-19", 10, 19), ("90-", 90, 99), ("-5", 95, 99), ("50-1000", 50, 99), ("-1000", 0, 99)):
        reply = get(shared, "r.bin", headers={"Range": f"bytes={asked}"})
        assert reply.status == 206 and reply.body == bytes(range(first, last + 1))
        assert reply.headers["Content-Range"] == f"bytes {first}-{last}/100"
        assert reply.headers["Content-Length"] == str(last - first + 1)
        assert reply.headers["ETag"] == whole.headers["ETag"]
    for asked in ("bytes=100-", "bytes=-0", "bytes=1000-2000"):
        reply = get(shared, "r.bin", headers={"Range": asked})
        assert reply.status == 416 and reply.headers["Content-Range"] == "bytes */100"
        assert b"range_not_satisfiable" in reply.body
    for asked in ("bytes=5-2", "bytes=x", "lines=1-2", "bytes=0-1,3-4", ""):
        reply = get(shared, "r.bin", headers={"Range": asked})
        assert reply.status == 200 and len(reply.body) == 100
    # A HEAD has no part.
    reply = get(shared, "r.bin", "HEAD", headers={"Range": "bytes=0-1"})
    assert reply.status == 200 and reply.headers["Content-Length"] == "100"


def test_conditions(shared):
    write(shared, "c.bin", b"first")
    first = get(shared, "c.bin")
    tag = first.headers["ETag"]
    for value in (tag, f'"x", {tag}', f"W/{tag}", "*"):
        reply = get(shared, "c.bin", headers={"If-None-Match": value})
        assert reply.status == 304 and reply.body == b"" and reply.headers["ETag"] == tag
    assert get(shared, "c.bin", headers={"If-Modified-Since": first.headers["Last-Modified"]}).status == 304
    part = {"Range": "bytes=0-1"}
    assert get(shared, "c.bin", headers={**part, "If-Range": tag}).status == 206
    assert get(shared, "c.bin", headers={**part, "If-Range": '"other"'}).status == 200
    write(shared, "c.bin", b"other")
    changed = get(shared, "c.bin", headers={"If-None-Match": tag})
    assert changed.status == 200 and changed.body == b"other" and changed.headers["ETag"] != tag
    assert get(shared, "c.bin", headers={**part, "If-Range": tag}).body == b"other"


def test_sandbox_file(service, create):
    """The same by query: by id or by name."""
    sandbox = create(name="asked")
    write(sandbox, "a b/c+d.csv", b"content")
    for query in ({"sandbox_id": sandbox.id}, {"sandbox_name": "asked"}):
        for path in ("a b/c+d.csv", "/home/user/a b/c+d.csv"):
            reply = service.get("/sandbox/file", params={**query, "file_path": path})
            assert reply.status_code == 200 and reply.content == b"content", reply.text
            assert reply.headers["Content-Type"] == "text/csv; charset=utf-8"
    reply = service.get("/sandbox/file", params={**query, "file_path": "a b/c+d.csv"}, headers={"Range": "bytes=0-2"})
    assert reply.status_code == 206 and reply.content == b"con"
    for query in ("", "?sandbox_id=asked", "?file_path=x", "?sandbox_name=&file_path=x"):
        problem(service.get(f"/sandbox/file{query}"), 422, "invalid_field")
    problem(service.get("/sandbox/file?sandbox_id=nobody&file_path=x"), 404, "sandbox_not_found")
    for path in ("nothing", "../x", "..%2f..%2fetc%2fpasswd", "%252e%252e%252fx", "/etc/passwd", "x%00", "%ff", "%"):
        problem(service.get(f"/sandbox/file?sandbox_name=asked&file_path={path}"), 404, "file_not_found")


def test_empty_path(shared):
    """The whole working directory."""
    for path in ("", ".", "./", "/home/user", "%2fhome%2fuser"):
        reply = get(shared, path)
        assert reply.status == 200 and reply.headers["Content-Type"] == "application/x-tar"


def test_links_and_where_they_lead(shared):
    write(shared, "folder/real", b"content")
    shared.run("""
import os
def link(target, name):
    if os.path.lexists(name): os.unlink(name)
    os.symlink(target, name)
link('folder/real', 'inside')
link('../folder/real', 'folder/around')
link('folder', 'folder_link')
link('/etc/passwd', 'absolute')
link('/home/user/folder/real', 'absolute_inside')
link('../../../../etc/passwd', 'relative')
link('/', 'root')
link('..', 'up')
link('loop', 'loop')
link('/proc/self/fd', 'descriptors')
link('/proc/self/environ', 'environment')
link('/proc/1/root/etc/passwd', 'init_root')
link('nothing', 'dangling')
if not os.path.exists('hard'): os.link('folder/real', 'hard')
""")
    for path in ("inside", "folder/around", "folder_link/real", "hard", "folder/../hard"):
        assert get(shared, path).body == b"content", path
    for path in (
        "absolute",
        "absolute_inside",
        "relative",
        "root/etc/passwd",
        "up/home/folder/real",
        "up",
        "loop",
        "descriptors/0",
        "environment",
        "init_root",
        "dangling",
    ):
        refused(shared, path)


def test_what_is_no_file(shared):
    """A FIFO answers at once, and whoever waits at its other end does not notice."""
    shared.run("""
import os, socket
if not os.path.exists('fifo'): os.mkfifo('fifo')
if not os.path.exists('socket'): socket.socket(socket.AF_UNIX).bind('socket')
os.symlink('fifo', 'to_fifo') if not os.path.lexists('to_fifo') else None
import subprocess
writer = subprocess.Popen(['sh', '-c', 'echo woken > fifo'])
""")
    started = time.monotonic()
    for path in ("fifo", "socket", "to_fifo"):
        for _ in range(5):
            refused(shared, path)
    assert time.monotonic() - started < 10
    assert shared.value("writer.poll()") is None
    shared.run("writer.kill(); writer.wait()")


def test_devices_cannot_be_made(shared):
    answer = shared.execute("import os; os.mknod('device', 0o20600, os.makedev(1, 3))")
    assert answer["error"] == "PermissionError"
    refused(shared, "device")


def test_file_with_a_lease(shared):
    """Opening such a file waits for its holder, by default for 45 seconds; that must not be the keeper."""
    write(shared, "leased", b"mine")
    shared.run("""
import fcntl, signal
signal.signal(signal.SIGIO, signal.SIG_IGN)
held = open('leased', 'r+b')
fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_WRLCK)
""")
    started = time.monotonic()
    refused(shared, "leased", 503, "file_unavailable")
    assert time.monotonic() - started < 10
    shared.run("held.close()")
    assert get(shared, "leased").body == b"mine"


# --- races ---

FLIP = """
import os, subprocess, sys
open('safe', 'w').write('safe')
code = '''
import itertools, os
for number in itertools.count():
    for target in ({targets}):
        os.symlink(target, 'next')
        os.rename('next', 'flipping')
    if number == 10:
        open('flips', 'w').close()
'''
flipper = subprocess.Popen([sys.executable, '-c', code])
"""


def test_link_that_is_exchanged(create):
    """A link flips between a file of the sandbox and files outside while it is downloaded: its own content, or 404."""
    sandbox = create(cpus=0.5)
    sandbox.run(FLIP.format(targets="'safe', '/etc/passwd', '/proc/1/environ', '../../../../etc/passwd'"))
    host.until(lambda: get(sandbox, "flips").status == 200, 20, "the link to flip")
    seen = set()
    for _ in range(400):
        reply = get(sandbox, "flipping")
        assert reply.status in (200, 404), reply.body
        if reply.status == 200:
            assert reply.body == b"safe"
        seen.add(reply.status)
    assert seen == {200, 404}
    sandbox.run("flipper.kill(); flipper.wait()")


def test_folder_that_is_moved_away(create):
    """'..' of a folder that moves up and down while it is walked through."""
    sandbox = create(cpus=0.5)
    sandbox.run("""
import os, subprocess, sys
os.makedirs('a/b/c'); open('a/target', 'w').write('a'); open('target', 'w').write('home')
code = '''
import os
while True:
    os.rename('a/b/c', 'c'); os.rename('c', 'a/b/c')
'''
mover = subprocess.Popen([sys.executable, '-c', code])
""")
    for _ in range(300):
        reply = get(sandbox, "a/b/c/../../target")
        assert reply.status in (200, 404, 503), reply.body
        assert reply.status != 200 or reply.body in (b"a", b"home")
        refused_or_unclear = get(sandbox, "a/b/c/../../../../upper")
        assert refused_or_unclear.status in (404, 503)
    sandbox.run("mover.kill(); mover.wait()")


def test_file_that_is_replaced(create):
    """Each answer is one version of the file, whole."""
    sandbox = create(cpus=0.5)
    sandbox.run("""
import subprocess, sys
code = '''
import itertools, os
for number in itertools.count():
    with open('next', 'wb') as file:
        file.write(bytes([65 + number % 26]) * (100_000 + number % 1000))
    os.rename('next', 'replaced')
'''
replacer = subprocess.Popen([sys.executable, '-c', code])
""")
    host.until(lambda: get(sandbox, "replaced").status == 200, 20, "the first version")
    for _ in range(100):
        reply = get(sandbox, "replaced")
        assert reply.status == 200
        assert len(set(reply.body)) == 1 and len(reply.body) == int(reply.headers["Content-Length"]) >= 100_000
    sandbox.run("replacer.kill(); replacer.wait()")


def begin(sandbox, path):
    """Ask for a file and read only the start of the answer, so that the rest waits to be sent."""
    peer = socket.create_connection(("127.0.0.1", sandbox.service.port), 30)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    peer.sendall(f"GET {sandbox.path}/download/{path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    received = b""
    while b"\r\n\r\n" not in received:
        received += peer.recv(1024)
    return peer, received


def rest(peer, received):
    """The body: what came with the headers, and the rest, until it is whole or the connection ends."""
    head, _, body = received.partition(b"\r\n\r\n")
    length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length"))
    parts, count = [body], len(body)
    peer.settimeout(30)
    while count < length and (part := peer.recv(MEGABYTE)):
        parts.append(part)
        count += len(part)
    peer.close()
    return length, b"".join(parts)


@pytest.mark.parametrize("how", ["f.truncate(1000)", "f.truncate(0)", "os.unlink('cut')"])
def test_file_that_is_cut_short(create, how):
    """What is missing is not waited for: the connection ends early, and the service goes on."""
    sandbox = create()
    sandbox.run("import os; f = open('cut', 'wb'); f.write(b'c' * 50_000_000); f.flush()")
    peer, received = begin(sandbox, "cut")
    sandbox.run(how)
    length, body = rest(peer, received)
    assert length == 50_000_000 and set(body) == {ord("c")}
    if "unlink" in how:
        assert len(body) == length, "a file that has no name any more is still whole"
    else:
        assert len(body) < length
    assert sandbox.works() and sandbox.service.get("/health").status_code == 200


def test_file_that_grows(create):
    """What is appended while a file is sent is not part of the answer."""
    sandbox = create()
    sandbox.run("f = open('growing', 'wb'); f.write(b'a' * 20_000_000); f.flush()")
    peer, received = begin(sandbox, "growing")
    sandbox.run("f.write(b'b' * 1_000_000); f.flush()")
    length, body = rest(peer, received)
    assert length == len(body) == 20_000_000 and set(body) == {ord("a")}
    assert len(get(sandbox, "growing").body) == 21_000_000


def test_sandbox_that_is_closed_meanwhile(create):
    """The download ends one way or the other, and nothing is left of the sandbox."""
    sandbox = create()
    sandbox.run("f = open('large', 'wb'); f.write(b'l' * 20_000_000); f.flush()")
    peer, received = begin(sandbox, "large")
    assert sandbox.close().status_code == 200
    _, body = rest(peer, received)
    assert set(body) == {ord("l")}
    assert get(sandbox, "large").status == 410


def test_client_that_goes_away(create):
    """Files of clients that went away amid a download are not kept open."""
    sandbox = create()
    service = sandbox.service
    sandbox.run("f = open('large', 'wb'); f.write(b'l' * 20_000_000); f.flush()")
    huskd = host.Process(service.process.pid)
    before = huskd.descriptors()
    for peer, _ in [begin(sandbox, "large") for _ in range(10)]:
        peer.close()
    host.until(lambda: huskd.descriptors() <= before, 30, "the files to be closed")


# --- size ---


def test_large_file(create):
    """100 MB pass through a service that does not grow and answers others meanwhile."""
    sandbox = create()
    service = sandbox.service
    digest = sandbox.value(
        "(lambda d: (open('large', 'wb').write(d), __import__('hashlib').sha256(d).hexdigest())[1])"
        "(__import__('os').urandom(1 << 20) * 100)"
    )
    huskd = host.Process(service.process.pid)
    before = huskd.resident_bytes
    downloads = [later(get, sandbox, "large") for _ in range(3)]
    highest, slowest = before, 0.0
    while not all(download.done() for download in downloads):
        slowest = max(slowest, service.get("/health").elapsed.total_seconds())
        highest = max(highest, huskd.resident_bytes)
    for download in downloads:
        body = download.result().body
        assert len(body) == 100 * MEGABYTE and hashlib.sha256(body).hexdigest() == digest
    assert slowest < 2
    assert highest - before < (64 if sanitized() else 8) * MEGABYTE


def test_many_at_once(shared):
    write(shared, "popular", b"p" * 300_000)
    downloads = [later(get, shared, "popular") for _ in range(40)]
    assert all(download.result(60).body == b"p" * 300_000 for download in downloads)


# --- who may ---


def test_needs_the_key(private):
    service = private(environment={"HUSK_API_KEY": "correct-horse-battery"}).start()
    key = {"X-API-Key": "correct-horse-battery"}
    path = "/sandbox/" + service.post("/sandbox/create", headers=key).json()["sandbox_id"]
    service.post(f"{path}/execute", data=b"open('x', 'w').write('mine')", headers=key)
    assert service.get(f"{path}/download/x", headers=key).content == b"mine"
    wrong = f"?expires=9999999999&signature={'0' * 64}"
    for query in ("", wrong, "?expires=9999999999", "?signature=0"):
        problem(service.get(f"{path}/download/x{query}"), 401, "unauthorized")
        problem(service.get(f"{path}/download/nothing{query}"), 401, "unauthorized")
        problem(service.get(f"/sandbox/nobody/download/x{query}"), 401, "unauthorized")
    assert service.get(f"{path}/download/x{wrong}", headers=key).content == b"mine"
    # A link opens nothing but downloads.
    problem(service.get(f"{path}{wrong}"), 401, "unauthorized")


@pytest.mark.parametrize("query", ["expires=9999999999&signature=" + "0" * 64, "expires=1", "signature=x", "expires=&signature="])
def test_wrong_link_without_a_key(shared, query):
    """Who needs no key is told that the link is wrong, rather than left to believe in it."""
    write(shared, "x", b"x")
    refused(shared, f"x?{query}", 403, "link_invalid")
    refused(shared, f"nothing?{query}", 403, "link_invalid")


def test_keeper_dies(private):
    """While there is no keeper a download is answered with a problem or waits for the next one; never with anything else."""
    service = private().start()
    sandbox = service.create()
    write(sandbox, "x", b"content")
    for _ in range(3):
        keeper = service.keeper().pid
        os.kill(keeper, signal.SIGKILL)
        reply = get(sandbox, "x")
        assert reply.status in (200, 503), reply.body
        assert reply.status == 503 or reply.body == b"content"
        host.until(lambda: get(sandbox, "x").body == b"content", 20, "the next keeper")
        host.until(lambda: [p for p in service.programs("husk-keeper") if p.pid != keeper], 20, "another keeper")
        host.until(lambda: service.get("/health").status_code == 200, 20, "the service to be well")
