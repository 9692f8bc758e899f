"""Archives that are uploaded to be unpacked: whole projects arrive as they are, and hostile ones leave nothing."""

import base64
import gzip
import io
import os
import signal
import socket
import stat
import tarfile
import zipfile

import pytest

import host
from service import later, problem
from test_folders import paths
from test_upload import content, form, put, used

MEGABYTE = 1 << 20
PROJECT = {"README.md": b"# hi\n", "src/main.py": b"print('works')\n", "src/data/t.csv": b"a\n1\n", "空/玉米\U0001f33d.txt": b"x", "n" * 255: b""}


def entry(name, kind=tarfile.REGTYPE, data=b"", link="", mode=0o644):
    info = tarfile.TarInfo(name)
    info.type, info.size, info.linkname, info.mode = kind, len(data), link, mode
    return info, data


def make_tar(*entries, mode="w"):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode, format=tarfile.PAX_FORMAT) as archive:
        for info, data in entries:
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def make_zip(entries, method=zipfile.ZIP_DEFLATED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in entries:
            archive.writestr(name, data)
    return out.getvalue()


def project(kind):
    if kind == "zip":
        return make_zip(PROJECT.items())
    return make_tar(*[entry(name, data=data) for name, data in PROJECT.items()], mode=f"w:{kind}" if kind else "w")


def extract(sandbox, archive, file_path=None):
    fields = {"file_path": file_path} if file_path is not None else {}
    return sandbox.post("upload?extract=1", files={"file": ("archive", archive)}, data=fields)


@pytest.fixture
def kept(sandbox):
    """A sandbox with files, and the check that nothing but those is there."""
    put(sandbox, "kept/x", b"kept")
    disk = used(sandbox)

    def check():
        assert paths(sandbox) == ["kept/x"] and content(sandbox, "kept/x") == b"kept"
        assert sandbox.value("sorted(__import__('os').listdir('.'))") == ["kept"]
        assert used(sandbox) <= disk
        assert not sandbox.service.programs("husk-porter")

    return sandbox, check


# --- good ones ---


@pytest.mark.parametrize("kind", ["", "gz", "bz2", "xz", "zip"])
def test_project(sandbox, kind):
    answer = extract(sandbox, project(kind))
    assert answer.status_code == 200, answer.text
    assert answer.json() == {"file_path": ".", "extracted": {"entries": len(PROJECT), "bytes": sum(map(len, PROJECT.values()))}}
    assert set(paths(sandbox)) == set(PROJECT)
    for name, data in PROJECT.items():
        assert content(sandbox, name) == data
    assert sandbox.run("%run src/main.py") == "works\n"
    sandbox.run("import os; open('src/new', 'w').close(); os.remove('README.md')")
    assert sandbox.value("(os.stat('src').st_uid, os.stat('src/main.py').st_uid)") == (1000, 1000)


ZSTANDARD = base64.b64decode(
    "KLUv/QRoDQIA4kIKEaCrA3DdC8dVNTJxRaL7f3sKp3QUu32dZO2CcRjT3klHLD1dBpTsCRcJINAP94Uvc+qA5OEAAw8YFGA2sTml+ESZ"
)


def test_zstandard(sandbox):
    """Made beforehand: Python has no module for it yet."""
    assert extract(sandbox, ZSTANDARD).status_code == 200
    assert content(sandbox, "x/zstd.txt") == b"small"


@pytest.mark.parametrize("where", ["into/a/folder", "into/a/folder/", "/home/user/into/a/folder"])
def test_into_a_folder(sandbox, where):
    assert extract(sandbox, project("gz"), where).json()["file_path"] == "into/a/folder"
    assert set(paths(sandbox)) == {f"into/a/folder/{name}" for name in PROJECT}


def test_modes_times_and_links(sandbox):
    first = entry("bin/tool", data=b"#!/bin/sh\necho ran\n", mode=0o4755)
    first[0].mtime = 1_000_000_000
    archive = make_tar(
        entry("./", tarfile.DIRTYPE, mode=0o755),
        first,
        entry("bin/secret", data=b"x", mode=0o400),
        entry("closed", tarfile.DIRTYPE, mode=0),
        entry("closed/in", data=b"y"),
        entry("link", tarfile.SYMTYPE, link="bin/tool"),
        entry("bin/up", tarfile.SYMTYPE, link="../bin/secret"),
        entry("hard", tarfile.LNKTYPE, link="bin/tool"),
    )
    assert extract(sandbox, archive).status_code == 200
    sandbox.run("import os, stat, subprocess")
    assert sandbox.value("subprocess.check_output('./link').decode()") == "ran\n"
    assert sandbox.value("oct(os.stat('bin/tool').st_mode)") == oct(stat.S_IFREG | 0o755), "not setuid"
    assert sandbox.value("(os.stat('bin/tool').st_mtime, os.stat('bin/tool').st_nlink)") == (1_000_000_000, 2)
    assert sandbox.value("(os.readlink('link'), os.readlink('bin/up'), open('closed/in').read())") == ("bin/tool", "../bin/secret", "y")


def test_merges(sandbox):
    """Files replace files, folders become one, what is not in the archive stays."""
    sandbox.run("""
import os
os.makedirs('src/data'); open('src/main.py', 'w').write('old'); open('src/own', 'w').write('own')
os.symlink('own', 'src/link'); os.symlink('nothing', 'README.md')
""")
    assert extract(sandbox, project("zip")).status_code == 200
    assert content(sandbox, "src/main.py") == PROJECT["src/main.py"] and content(sandbox, "src/own") == b"own"
    assert content(sandbox, "README.md") == PROJECT["README.md"]
    assert sandbox.value("(os.readlink('src/link'), os.path.islink('README.md'))") == ("own", False)
    again = make_tar(entry("a", data=b"1"), entry("a", data=b"22"), entry("b", tarfile.SYMTYPE, link="a"), entry("b", data=b"file"))
    assert extract(sandbox, again).status_code == 200
    assert (content(sandbox, "a"), content(sandbox, "b")) == (b"22", b"file"), "the last one of a name counts"


def test_several_and_empty(sandbox):
    archives = [("file", (f"a{n}.tar", make_tar(entry(f"f{n}", data=b"x")))) for n in range(3)]
    answer = sandbox.post("upload?extract=1", files=archives)
    assert answer.json()["extracted"] == {"entries": 3, "bytes": 3}
    assert paths(sandbox) == ["f0", "f1", "f2"]
    assert extract(sandbox, make_zip([])).status_code in (200, 422)


# --- what is in the way ---


def test_conflicts(kept):
    """A folder where the archive has a file, or the other way round: all stays as it was."""
    sandbox, check = kept
    for archive in (
        make_tar(entry("new", data=b"x"), entry("kept", data=b"x")),
        make_tar(entry("new", data=b"x"), entry("kept/x", tarfile.DIRTYPE)),
        make_tar(entry("new", data=b"x"), entry("kept/x/below", data=b"x")),
        make_tar(entry("kept", tarfile.SYMTYPE, link="new")),
    ):
        problem(extract(sandbox, archive), 409, "file_conflict")
        check()
    problem(extract(sandbox, project(""), "kept/x"), 409, "file_conflict")
    problem(extract(sandbox, project(""), "kept/x/y"), 409, "file_conflict")
    check()


def test_links_in_the_way(create):
    """Nothing is ever unpacked through a link of the sandbox."""
    sandbox = create()
    sandbox.run("""
import os
os.mkdir('/dev/shm/out'); os.mkdir('inside')
os.symlink('/dev/shm/out', 'src'); os.symlink('inside', 'link'); os.symlink('..', 'up')
""")
    for where in (None, "link", "up", "src", "link/x"):
        problem(extract(sandbox, project(""), where), 409, "file_conflict")
    assert sandbox.value("(os.listdir('/dev/shm/out'), os.listdir('inside'), sorted(os.listdir('.')))") == ([], [], ["inside", "link", "src", "up"])


def test_folder_that_is_exchanged(create):
    """While archives are unpacked into a folder, the sandbox flips it between a folder and a link out."""
    sandbox = create(cpus=0.8)
    sandbox.run("""
import os, subprocess, sys
os.mkdir('/dev/shm/out')
code = '''
import itertools, os, shutil
for number in itertools.count():
    os.symlink('/dev/shm/out', 'next'); os.rename('next', 'flip'); os.unlink('flip')
    os.mkdir('flip'); shutil.rmtree('flip', ignore_errors=True)
    if os.path.isdir('flip') and not os.path.islink('flip'): os.rename('flip', f'moved{number}')
    if number == 10: open('flips', 'w').close()
'''
flipper = subprocess.Popen([sys.executable, '-c', code], stderr=subprocess.DEVNULL)
""")
    host.until(lambda: content(sandbox, "flips") is not None, 20, "the folder to flip")
    archive = make_tar(*[entry(f"flip/f{n}", data=b"x") for n in range(5)])
    seen = {extract(sandbox, archive).status_code for _ in range(60)}
    assert seen <= {200, 404, 409, 422, 503}, seen
    sandbox.run("flipper.kill(); flipper.wait()")
    assert sandbox.value("os.listdir('/dev/shm/out')") == []


# --- hostile ones ---

HOSTILE = {
    "dots": make_tar(entry("good", data=b"x"), entry("../out", data=b"x")),
    "dots in the middle": make_tar(entry("a/../../out", data=b"x")),
    "dots that would stay": make_tar(entry("a/../b", data=b"x")),
    "absolute": make_tar(entry("/etc/out", data=b"x")),
    "absolute home": make_tar(entry("/home/user/out", data=b"x")),
    "link out": make_tar(entry("l", tarfile.SYMTYPE, link="/etc/passwd")),
    "relative link out": make_tar(entry("d/l", tarfile.SYMTYPE, link="../../out")),
    "through a link": make_tar(entry("l", tarfile.SYMTYPE, link="."), entry("l/x", data=b"x")),
    "through a link up": make_tar(entry("d/l", tarfile.SYMTYPE, link=".."), entry("d/l/x", data=b"x")),
    "hard link out": make_tar(entry("h", tarfile.LNKTYPE, link="../kept/x")),
    "hard link absolute": make_tar(entry("h", tarfile.LNKTYPE, link="/etc/passwd")),
    "hard link to nothing": make_tar(entry("h", tarfile.LNKTYPE, link="kept/x")),
    "hard link to a link": make_tar(entry("l", tarfile.SYMTYPE, link="x"), entry("h", tarfile.LNKTYPE, link="l")),
    "fifo": make_tar(entry("good", data=b"x"), entry("f", tarfile.FIFOTYPE)),
    "character device": make_tar(entry("c", tarfile.CHRTYPE)),
    "block device": make_tar(entry("b", tarfile.BLKTYPE)),
    "file and folder": make_tar(entry("a", data=b"x"), entry("a/b", data=b"x")),
    "folder and file": make_tar(entry("a/b", data=b"x"), entry("a", data=b"x")),
    "long name": make_tar(entry("n" * 256, data=b"x")),
    "long path": make_tar(entry("/".join(["n" * 100] * 11), data=b"x")),
    "deep": make_tar(entry("d/" * 65 + "x", data=b"x")),
    "zip dots": make_zip([("good", b"x"), ("../out", b"x")]),
    "zip absolute": make_zip([("/etc/out", b"x")]),
    "not UTF-8": make_zip([("N\u00c4ME", b"x")]).replace("N\u00c4ME".encode(), b"N\xff\xfeME"),
    "cut": project("gz")[:-40],
    "cut zip": project("zip")[:200],
    "cut tar": make_tar(entry("x", data=b"x" * 10_000))[:5_000],
    "no archive": b"this is no archive" * 100,
    "empty": b"",
    "only gzip": gzip.compress(b"just text" * 1000),
    "random": os.urandom(10_000),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile(kept, name):
    sandbox, check = kept
    found = problem(extract(sandbox, HOSTILE[name]), 422, "bad_archive")
    assert len(found["detail"]) > 20
    check()
    problem(extract(sandbox, HOSTILE[name], "new/folder"), 422, "bad_archive")
    check()


def symlink_zip(target):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        info = zipfile.ZipInfo("link")
        info.create_system = 3
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(info, target)
    return out.getvalue()


def test_zip_links(kept):
    sandbox, check = kept
    problem(extract(sandbox, symlink_zip("/etc/passwd")), 422, "bad_archive")
    problem(extract(sandbox, symlink_zip("../x")), 422, "bad_archive")
    check()
    assert extract(sandbox, symlink_zip("kept/x")).status_code == 200
    assert content(sandbox, "link") == b"kept"


def sparse_tar(size):
    """An old GNU sparse file: a few bytes that claim to be a terabyte."""
    info = tarfile.TarInfo("sparse")
    info.type, info.size = tarfile.GNUTYPE_SPARSE, 512
    header = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    header[386:398] = b"%011o\0" % (size - 512) if size - 512 < 8**11 else b"\x80" + (size - 512).to_bytes(11, "big")
    header[398:410] = b"%011o\0" % 512
    header[483:495] = b"%011o\0" % size if size < 8**11 else b"\x80" + size.to_bytes(11, "big")
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + b"x" * 512 + bytes(1024)


@pytest.mark.parametrize("kind", ["gz", "bz2", "xz", "zip", "sparse", "count"])
def test_bombs(create, kind):
    """Small archives that become large: refused, soon, and nothing is left."""
    sandbox = create(disk_mb=512)
    before = used(sandbox)
    zeros = bytes(64 * MEGABYTE)
    if kind == "zip":
        archive = make_zip([(f"z{n}", zeros) for n in range(4)])
    elif kind == "sparse":
        archive = sparse_tar(1 << 40)
    elif kind == "count":
        archive = make_tar(*[entry(f"{n}") for n in range(100_001)], mode="w:gz")
    else:
        archive = make_tar(*[entry(f"z{n}", data=zeros) for n in range(4)], mode=f"w:{kind}")
    assert len(archive) < 4 * MEGABYTE
    found = problem(extract(sandbox, archive), 422, "bad_archive")
    assert "times" in found["detail"] or "entries" in found["detail"], found
    assert paths(sandbox) == [] and used(sandbox) <= before


def test_archive_in_archives(kept):
    """Compressed twenty times over: no memory for that, and no time."""
    sandbox, check = kept
    archive = make_tar(entry("x", data=bytes(MEGABYTE)))
    for _ in range(20):
        archive = gzip.compress(archive)
    assert extract(sandbox, archive).status_code in (200, 422)


def test_disk_full(create):
    """507, and what was unpacked until then is gone."""
    sandbox = create(disk_mb=32)
    put(sandbox, "kept", b"kept")
    disk = used(sandbox)
    archive = make_tar(*[entry(f"new/{n}", data=os.urandom(MEGABYTE)) for n in range(20)])
    for _ in range(2):
        problem(extract(sandbox, archive), 507, "disk_full")
        assert paths(sandbox) == ["kept"] and used(sandbox) <= disk
    assert extract(sandbox, make_tar(*[entry(f"new/{n}", data=os.urandom(MEGABYTE)) for n in range(10)])).status_code == 200


# --- who dies ---


def large_archive():
    return make_tar(*[entry(f"big/{n}", data=os.urandom(1000) * 500) for n in range(300)], mode="w:gz")


def test_porter_is_killed(private):
    """Amid its work: nothing of it can be seen, the client is told, and the next job clears up."""
    service = private().start()
    sandbox = service.create(cpus=0.2)
    put(sandbox, "kept", b"kept")
    disk = used(sandbox)
    archive = large_archive()
    answer = later(extract, sandbox, archive)
    [porter] = host.until(lambda: service.programs("husk-porter"), 30, "the porter")
    host.until(lambda: used(sandbox) > disk + len(archive) + 10 * MEGABYTE, 30, "the porter to be amid its work")
    os.kill(porter.pid, signal.SIGKILL)
    problem(answer.result(60), 503, "file_unavailable")
    assert paths(sandbox) == ["kept"]
    assert sandbox.value("__import__('os').listdir('.')") == ["kept"]
    assert used(sandbox) > disk, "the leftovers are there, out of sight"
    assert extract(sandbox, make_tar(entry("small", data=b"x"))).status_code == 200
    assert used(sandbox) <= disk + MEGABYTE
    assert paths(sandbox) == ["kept", "small"]


def test_client_goes_away(private):
    """The porter notices and clears up after itself."""
    service = private().start()
    sandbox = service.create(cpus=0.2)
    put(sandbox, "kept", b"kept")
    disk = used(sandbox)
    archive = large_archive()
    body = form(('name="file"; filename="a"', archive))
    head = "Host: localhost\r\nContent-Type: multipart/form-data; boundary=XX"
    with socket.create_connection(("127.0.0.1", service.port), 30) as peer:
        peer.sendall(f"POST {sandbox.path}/upload?extract=1 HTTP/1.1\r\n{head}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        host.until(lambda: used(sandbox) > disk + len(archive) + 10 * MEGABYTE, 30, "the porter to be amid its work")
    host.until(lambda: not service.programs("husk-porter"), 60, "the porter to end")
    host.until(lambda: used(sandbox) <= disk, 30, "the disk to be as it was")
    assert paths(sandbox) == ["kept"]


def test_sandbox_is_closed_meanwhile(private):
    service = private().start()
    sandbox = service.create(cpus=0.2)
    answer = later(extract, sandbox, large_archive())
    host.until(lambda: service.programs("husk-porter"), 30, "the porter")
    assert sandbox.close().status_code == 200
    assert not service.programs("husk-porter")
    problem(answer.result(60), 410, "sandbox_closed")


def test_two_at_once(create):
    """Jobs do not take each other's unpacked files for leftovers."""
    sandbox = create(cpus=1)
    answers = [later(extract, sandbox, make_tar(*[entry(f"{n}/{m}", data=b"x" * 1000) for m in range(500)])) for n in range(4)]
    assert [answer.result(60).status_code for answer in answers] == [200] * 4
    assert len(paths(sandbox)) == 2000
