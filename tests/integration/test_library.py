"""libhusk against the real service: every function does what husk.h says, failures say what they are, calls can be cancelled."""

import ctypes
import io
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import tarfile
import threading

import pytest

import host
from fake_husk import FakeHusk, answer
from libhusk import FUNCTIONS, ON_EVENT, Code, Failed, Husk, Sandbox, filled, library
from local_index import Index, Wheel
from service import PROGRAMS, ROOT, later
from test_library_hostile import SANDBOX, valgrind

MEGABYTE = 1 << 20


@pytest.fixture(scope="module")
def index():
    with Index(Wheel("plainpkg", "1.0")) as index:
        yield index


@pytest.fixture
def husk(service):
    with Husk(service.url) as husk:
        yield husk


@pytest.fixture
def fails():
    """Call something that must fail, and give what it said."""

    def call(kind, function, *arguments, status=0, code="", **fields):
        with pytest.raises(Failed) as failed:
            function(*arguments, **fields)
        assert (failed.value.kind, failed.value.status, failed.value.code) == (kind, status, code), failed.value
        return failed.value

    return call


# --- sandboxes ---


def test_life_of_a_sandbox(husk, fails):
    made = husk.create(name="of-the-library", variables={"A": "b 正"}, memory_mb=300, cpus=0.5, pids=100, disk_mb=50,
                       ttl_seconds=1000, idle_seconds=500)  # fmt: skip
    assert made["name"] == "of-the-library" and made["state"] == "ready" and json.loads(made["json"])["sandbox_id"] == made["id"]
    assert (made["memory_mb"], made["cpus"], made["pids"], made["disk_mb"], made["idle_seconds"]) == (300, 0.5, 100, 50, 500)
    info = husk.info("of-the-library")
    assert info["id"] == made["id"] and info["has_usage"] and info["memory_bytes"] > 0 and info["used_pids"] > 0
    assert husk.execute("of-the-library", "import os; print(os.environ['A'])")["stdout_text"].decode() == "b 正\n"
    husk.extend("of-the-library", 5000)
    assert husk.info(made["id"])["expires_at"] > made["expires_at"]
    assert "exists" in fails("refused", husk.create, status=409, code="name_taken", name="of-the-library").message
    husk.close("of-the-library")
    fails("refused", husk.info, made["id"], status=410, code="sandbox_closed")
    fails("refused", husk.close, made["id"], status=410, code="sandbox_closed")


def test_list_is_sorted(husk, create):
    ids = [create().id for _ in range(3)]
    listed = [sandbox["id"] for sandbox in husk.list()["sandboxes"]]
    assert [entry for entry in listed if entry in ids] == ids


def test_health(husk, private):
    health = husk.health()
    assert health["healthy"] and health["reasons"] == "" and health["maximum"] > 0 and health["version"] == library.husk_version().decode()
    service = private(config="[server]\napi_key = a-key\n").start()
    with Husk(service.url) as stranger:
        assert stranger.health()["healthy"]


def test_unhealthy(fails):
    body = {"status": "unhealthy", "reasons": ["No memory.", "No disk."], "version": "1"}
    with FakeHusk(answer(body, 503)) as fake, Husk(fake.url) as husk:
        health = husk.health()
        assert not health["healthy"] and health["reasons"] == "No memory.\nNo disk." and len(fake.requests) == 1
    with FakeHusk(answer({"detail": "No.", "code": "c"}, 503)) as fake, Husk(fake.url) as husk:
        fails("answer", husk.health, status=503)


# --- code ---


def test_results(husk, shared):
    result = husk.execute(shared.id, "import sys; print('out 正'); print('err', file=sys.stderr); open('made', 'w').write('x' * 9); 6 * 7")
    assert result["stdout_text"].decode() == "out 正\n" and result["stderr_text"] == b"err\n"
    assert result["status"] == "ok" and result["error"] is None and not result["state_lost"] and result["execution_count"] > 0
    [output] = result["outputs"]
    assert output["type"] == "text/plain" and output["data"] == b"42" and output["main"]
    [file] = result["files"]
    assert (file["path"], file["size"], file["change"]) == ("made", 9, "created")
    assert shared.service.get(file["url"]).content == b"x" * 9
    failure = husk.execute(shared.id, "def f(): raise ValueError('no\\0yes')\nf()")
    assert failure["status"] == "error" and failure["error"] == "ValueError" and failure["error_value"] == "no\ufffdyes"
    assert "Traceback" in failure["traceback"] and "\x1b" not in failure["traceback"]
    assert "\x1b" in husk.execute(shared.id, "1 / 0", colors=True)["traceback"]


def test_bytes_are_kept(husk, shared):
    assert husk.execute(shared.id, "print('a\\0b', end='')")["stdout_text"] == b"a\0b"
    code = "print(len('a\0b'))  # 正"
    fields = filled(Code, code=b"x")
    data = ctypes.create_string_buffer(code.encode())
    fields.code, fields.length = ctypes.cast(data, ctypes.c_char_p), len(code.encode())
    result = husk.call("execute", shared.id, ctypes.byref(fields))
    assert result["error"] == "SyntaxError"  # of Python: a NUL in the code arrived


def test_forms_of_outputs(husk, shared):
    code = """
from IPython.display import display
display({"image/png": "iVBO\\nRw==", "image/svg+xml": "<svg/>", "application/json": {"a": "é"}, "text/html": "<b>", "image/gif": "none!",
         "application/vnd.x+json": [1], "text/plain": "t"}, raw=True, display_id="d");"""
    outputs = {output["type"]: output for output in husk.execute(shared.id, code)["outputs"]}
    assert {output["output"] for output in outputs.values()} == {0} and outputs["text/html"]["display_id"] == "d"
    data = {kind: output["data"] for kind, output in outputs.items()}
    assert data == {
        "image/png": b"\x89PNG", "image/svg+xml": b"<svg/>", "application/json": '{"a":"é"}'.encode(), "text/html": b"<b>",
        "image/gif": b"none!", "application/vnd.x+json": b"[1]", "text/plain": b"t",
    }  # fmt: skip


def test_streaming(husk, shared):
    code = """
import sys
from IPython.display import display, update_display, clear_output
print("one"); print("two", file=sys.stderr)
handle = display("first", display_id=True)
handle.update("second")
clear_output()
open("streamed", "w").write("x")
1 / 0"""
    events, result = husk.streaming(shared.id, code)
    kinds = [event["kind"] for event in events]
    assert kinds == "start stdout stderr result update clear error file".split()
    assert [event["text"] for event in events if event["kind"] in ("stdout", "stderr")] == [b"one\n", b"two\n"]
    assert events[3]["outputs"][0]["data"] == b"'first'" and events[4]["outputs"][0]["data"] == b"'second'"
    assert events[-1]["file"]["path"] == "streamed" and events[-2]["error"] == "ZeroDivisionError"
    assert result["status"] == "error" and result["error"] == "ZeroDivisionError" and result["traceback"] == events[-2]["traceback"]
    assert result["stdout_text"] == b"" and result["files"] == [] and result["duration_ms"] > 0
    assert all(json.loads(event["json"])["event"] for event in events)


def test_nobody_listens(husk, shared):
    result = husk.call("execute_streaming", shared.id, ctypes.byref(filled(Code, code="print(1)")), ON_EVENT(), None)
    assert result["status"] == "ok"


def test_timeout_and_stdin(husk, shared):
    assert husk.execute(shared.id, "while True: pass", timeout=0.5)["status"] == "timeout"
    assert husk.execute(shared.id, "print(input(), input())", stdin_text="a\nb")["stdout_text"] == b"a b\n"
    assert husk.execute(shared.id, "input()")["status"] == "error"


def test_variables_of_one_execution(husk, shared):
    assert husk.execute(shared.id, "import os; print(os.environ['X'])", variables={"X": "y"})["stdout_text"] == b"y\n"
    assert husk.execute(shared.id, "print('X' in os.environ)")["stdout_text"] == b"False\n"


def test_input(husk, shared, fails):
    other = husk.clone()

    def reply(event):
        if event["kind"] == "input":
            # The client itself is in use; its clone is not.
            assert "husk_clone" in fails("argument", husk.input, shared.id, "x").message
            other.input(shared.id, "Ada" if event["text"] == b"name? " else None)
            assert event["password"] == (event["text"] != b"name? ")

    events, result = husk.streaming(shared.id, "import getpass\nprint('hello', input('name? '))\ngetpass.getpass('secret? ')", reply, ask=True)
    assert b"".join(event["text"] for event in events if event["kind"] == "stdout") == b"hello Ada\n"
    assert result["error"] == "EOFError"
    fails("refused", other.input, shared.id, "x", status=409, code="no_input_expected")
    other.free()


def test_queued(husk, sandbox):
    other = husk.clone()
    first = later(other.execute, sandbox.id, "while True: pass", timeout=60)
    sandbox.until_state("busy")
    third = husk.clone()
    second = later(third.streaming, sandbox.id, "print(1)")
    host.until(lambda: sandbox.info()["queued"] == 1, 30, "the second to wait")
    husk.interrupt(sandbox.id)
    assert first.result(30)["error"] == "Interrupted"
    events, result = second.result(30)
    assert events[0]["kind"] == "queued" and events[0]["index"] == 1 and result["status"] == "ok"
    other.free(), third.free()


def test_detached(husk, shared):
    execution = husk.detached(shared.id, "print('begin', flush=True)\nimport time; time.sleep(0.3)\n5")
    host.until(lambda: husk.execution(shared.id, execution)["status"] == "ok", 60, "the end of it")
    result = husk.execution(shared.id, execution)
    assert result["stdout_text"] == b"begin\n" and result["outputs"][0]["data"] == b"5"


def test_interrupt_and_restart(husk, sandbox):
    husk.execute(sandbox.id, "kept = 1")
    other = husk.clone()
    running = later(other.streaming, sandbox.id, "print('on', flush=True)\nwhile True: pass", timeout=60)
    sandbox.until_state("busy")
    husk.interrupt(sandbox.id)
    events, result = running.result(30)
    assert result["error"] == "Interrupted" and husk.execute(sandbox.id, "kept")["outputs"][0]["data"] == b"1"
    husk.restart(sandbox.id)
    assert husk.execute(sandbox.id, "kept")["error"] == "NameError"
    other.free()


def test_prompts(husk, sandbox, fails):
    """The kernel may be slow at first: it imports what it completes with."""

    def patient(function, *arguments):
        def attempt():
            try:
                return function(*arguments)
            except Failed as failed:
                assert failed.code == "kernel_timeout", failed
                return None

        return host.until(attempt, 120, "the kernel to answer a prompt")

    husk.execute(sandbox.id, "variable_of_mine = 1")
    completion = patient(husk.complete, sandbox.id, "é = 1; variable_of_m", 20)
    assert "variable_of_mine" in completion["matches"] and (completion["start"], completion["end"]) == (7, 20)
    inspection = patient(husk.inspect, sandbox.id, "len", 3, 0)
    assert inspection["found"] and b"len(" in inspection["text"]
    assert not patient(husk.inspect, sandbox.id, "nowhere_to_be_found", 5, 0)["found"]
    completeness = patient(husk.is_complete, sandbox.id, "for i in range(3):")
    assert completeness["status"] == "incomplete" and completeness["indent"] == "    "
    assert patient(husk.is_complete, sandbox.id, "1 + 1")["status"] == "complete"
    fails("argument", husk.complete, sandbox.id, "é", 3)
    other = husk.clone()
    running = later(other.execute, sandbox.id, "while True: pass", timeout=60)
    sandbox.until_state("busy")
    fails("refused", husk.complete, sandbox.id, "le", 2, status=409, code="sandbox_busy")
    husk.interrupt(sandbox.id)
    assert running.result(30)["status"] == "interrupted"
    other.free()


# --- commands ---


def test_commands(husk, shared, fails):
    result = husk.command(shared.id, command="echo $A; cat; pwd; exit 3", cwd="/tmp", variables={"A": "b"}, stdin_text="in\n", timeout=30)
    assert result["stdout_text"] == b"b\nin\n/tmp\n" and result["exit_code"] == 3 and result["status"] == "error" and result["command_id"]
    assert husk.command(shared.id, arguments=["printf", "%s|", "a b", "正"])["stdout_text"].decode() == "a b|正|"
    assert husk.command(shared.id, command="kill -9 $$")["signal"] == "SIGKILL"
    events, result = husk.command_streaming(shared.id, command="echo 1; echo 2 >&2")
    assert events[0]["kind"] == "start" and result["command_id"] == events[0]["command_id"] and result["exit_code"] == 0
    assert {(event["kind"], event["text"]) for event in events[1:]} == {("stdout", b"1\n"), ("stderr", b"2\n")}
    command = husk.command_detached(shared.id, command="sleep 1000")
    assert husk.command_result(shared.id, command)["status"] == "running" and husk.command_result(shared.id, command)["exit_code"] == -1
    [process] = [process for process in husk.commands(shared.id)["processes"] if process["command_id"] == command]
    assert process["command"] == "sleep 1000" and process["status"] == "running" and process["pid"] > 1
    husk.command_kill(shared.id, command)
    assert husk.command_result(shared.id, command)["status"] == "interrupted"
    fails("refused", husk.command_kill, shared.id, "nothing", status=404, code="command_not_found")


# --- packages ---


def test_packages(shop, box):
    with Husk(shop.url) as husk:
        assert husk.package(box.id, "plainpkg")["packages"][0]["status"] == "not_installed"
        events, installed = husk.install(box.id, packages=["plainpkg"])
        assert installed["success"] and installed["error"] == "" and not installed["restart_needed"]
        assert [(package["name"], package["version"]) for package in installed["packages"]] == [("plainpkg", "1.0")]
        assert events and {event["kind"] for event in events} == {"progress"} and "plainpkg" in installed["output"]
        assert husk.package(box.id, "plainpkg")["packages"][0] == {"name": "plainpkg", "version": "1.0", "status": "installed", "error": ""}
        assert "numpy" in [package["name"] for package in husk.packages(box.id)["packages"]]
        events, installed = husk.install(box.id, requirements="no-such-package-here\n")
        assert not installed["success"] and "no-such-package-here" in installed["error"]
        with pytest.raises(Failed) as failed:
            husk.install(box.id, packages=["../evil"])
        assert failed.value.status == 422


# --- files ---


def test_files_both_ways(husk, sandbox, folder, fails):
    data = os.urandom(3 * MEGABYTE)
    husk.upload(sandbox.id, data, "deep/er/a b 正.bin")
    assert husk.download(sandbox.id, "deep/er/a b 正.bin")["data"] == data
    assert husk.download(sandbox.id, "/home/user/deep/er/a b 正.bin")["data"] == data
    (folder / "local").write_bytes(data)
    husk.upload_file(sandbox.id, str(folder / "local"), "from-file")
    husk.download_file(sandbox.id, "from-file", str(folder / "back"))
    assert (folder / "back").read_bytes() == data
    husk.upload_from(sandbox.id, [b"1", b"22" * 1000, b"3"], "from-function")
    husk.upload_from(sandbox.id, [b"1", b"22"], "from-function-2", total=3)
    husk.upload(sandbox.id, b"", "empty")
    pieces = []
    husk.download_to(sandbox.id, "from-function", lambda piece: pieces.append(piece))
    assert b"".join(pieces) == b"1" + b"22" * 1000 + b"3" and husk.download(sandbox.id, "empty")["data"] == b""
    listed = husk.files(sandbox.id)
    assert {file["path"]: file["size"] for file in listed["files"]} == {
        "deep/er/a b 正.bin": len(data), "from-file": len(data), "from-function": 2002, "from-function-2": 3, "empty": 0,
    } and not listed["incomplete"]  # fmt: skip
    assert [file["path"] for file in husk.files(sandbox.id, "deep", False)["files"]] == ["deep/er"]
    assert husk.files(sandbox.id, "deep", False)["files"][0]["type"] == "inode/directory"
    husk.remove(sandbox.id, "deep")
    fails("refused", husk.remove, sandbox.id, "deep", status=404, code="file_not_found")
    fails("refused", husk.download, sandbox.id, "../../etc/passwd", status=404, code="file_not_found")
    assert sorted(path.name for path in folder.iterdir()) == ["back", "local"]


def test_projects(husk, sandbox, folder, fails):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        archive.add(ROOT / "client" / "examples", "examples")
    husk.upload_from(sandbox.id, [packed.getvalue()], "project", extract=True)
    husk.upload_from(sandbox.id, [packed.getvalue()], "", total=len(packed.getvalue()), extract=True)
    first = (ROOT / "client" / "examples" / "first.c").read_bytes()
    assert husk.download(sandbox.id, "project/examples/first.c")["data"] == husk.download(sandbox.id, "examples/first.c")["data"] == first
    husk.download_file(sandbox.id, "project", str(folder / "project.tar"))
    with tarfile.open(folder / "project.tar") as archive:
        assert any(name.endswith("examples/first.c") for name in archive.getnames())
    fails("refused", husk.upload_from, sandbox.id, [b"no archive"], "x", extract=True, status=422, code="bad_archive")


def test_progress(husk, shared, fails):
    seen = []
    husk.on_progress(lambda done, total: seen.append((done, total)))
    husk.upload(shared.id, b"x" * MEGABYTE, "progress")
    assert seen[-1] == (MEGABYTE, MEGABYTE)
    seen.clear()
    husk.download(shared.id, "progress")
    assert seen[-1] == (MEGABYTE, MEGABYTE) and [done for done, _ in seen] == sorted(done for done, _ in seen)
    seen.clear()
    husk.info(shared.id)
    assert seen == []
    husk.on_progress(lambda done, total: 1)
    fails("cancelled", husk.download, shared.id, "progress")
    husk.on_progress(None)
    assert len(husk.download(shared.id, "progress")["data"]) == MEGABYTE


def test_files_of_this_machine(husk, shared, folder, fails):
    husk.upload(shared.id, b"content", "f")
    assert "cannot be read" in fails("file", husk.upload_file, shared.id, str(folder / "none"), "x").message
    assert "folder" in fails("file", husk.upload_file, shared.id, str(folder), "x").message
    fails("file", husk.download_file, shared.id, "f", str(folder))
    fails("file", husk.download_file, shared.id, "f", str(folder / "none" / "f"))
    fails("file", husk.download_file, shared.id, "f", "/dev/full")
    husk.download_file(shared.id, "f", "/dev/null")
    assert not os.path.isfile("/dev/null")
    # What is there is replaced, with its mode, through links; after a failure it is as it was.
    (folder / "old").write_bytes(b"old")
    (folder / "old").chmod(0o600)
    (folder / "link").symlink_to("old")
    fails("refused", husk.download_file, shared.id, "none", str(folder / "link"), status=404, code="file_not_found")
    assert (folder / "old").read_bytes() == b"old"
    husk.download_file(shared.id, "f", str(folder / "link"))
    assert (folder / "old").read_bytes() == b"content" and (folder / "old").stat().st_mode & 0o777 == 0o600
    assert (folder / "link").is_symlink() and sorted(path.name for path in folder.iterdir()) == ["link", "old"]
    # A file that is shorter than it was said to be.
    fails("file", husk.upload_from, shared.id, [b"12"], "short", total=3)
    fails("cancelled", husk.upload_from, shared.id, lambda room: -1, "given-up")
    fails("cancelled", husk.download_to, shared.id, "f", lambda piece: 1)
    assert {"short", "given-up"}.isdisjoint(file["path"] for file in husk.files(shared.id)["files"])


def test_standard_input_and_output(service, shared, folder):
    """As "-", in a program of its own."""
    program = f"""
import sys; sys.path.insert(0, {str(ROOT / "tests" / "integration")!r})
from libhusk import Husk
with Husk({service.url!r}) as husk:
    husk.upload_file({shared.id!r}, "-", "piped")
    husk.download_file({shared.id!r}, "piped", "-")
"""
    data = os.urandom(300000)
    done = subprocess.run([os.sys.executable, "-B", "-c", program], input=data, stdout=subprocess.PIPE, timeout=90, check=True)
    assert done.stdout == data


def test_uploads_that_are_not_wanted(private, fails):
    """The answer arrives, although most of the body was not sent."""
    service = private(config="[server]\napi_key = a-key\n").start()
    data = b"x" * (96 * MEGABYTE)
    with Husk(service.url, api_key="a-key") as husk, Husk(service.url, api_key="wrong") as stranger:
        fails("refused", stranger.upload, "any", data, "f", status=401, code="unauthorized")
        fails("refused", husk.upload, "nothing", data, "f", status=404, code="sandbox_not_found")
        sandbox = husk.create(disk_mb=16)["id"]
        fails("refused", husk.upload, sandbox, data, "f", status=507, code="disk_full")
        husk.upload(sandbox, b"x", "f")


# --- who calls, and where ---


def test_options(service, fails, monkeypatch):
    monkeypatch.setenv("HUSK_URL", service.url + "//")
    monkeypatch.setenv("HUSK_API_KEY", "")
    with Husk() as husk, husk.clone() as other:
        assert husk.url == other.url == service.url and other.health()["healthy"]
    for url in ("localhost:8000", "ftp://localhost", "http://", "http://a b", "http://localhost:99999", "http://x/?q", "http://x/#f", "http://x\n", "", "x" * 5000):
        fails("argument", Husk, url)
    for url in ("http://key@localhost", "http://user:hunter2@localhost", "http://:hunter2@localhost"):
        failure = fails("argument", Husk, url)
        assert "api_key" in failure.message and "hunter2" not in failure.message and "key@" not in failure.message
    fails("argument", Husk, service.url, api_key="a\r\nHost: evil")
    fails("argument", Husk, service.url, user_agent="a\nb")
    fails("argument", Husk, service.url, timeout_seconds=-1.0)
    fails("argument", Husk, service.url, connect_timeout_seconds=float("nan"))


def test_what_is_sent(monkeypatch):
    with FakeHusk(answer(SANDBOX)) as fake:
        monkeypatch.setenv("HUSK_API_KEY", "of-the-environment")
        with Husk(fake.url + "/some/prefix/", api_key="of-mine", user_agent="me/1") as husk:
            husk.info("../a/b?c#d %2e\u6b63")
        with Husk(fake.url) as husk:
            husk.info("x")
        with Husk(fake.url, api_key="") as husk:
            husk.info("x")
        first, second, third = fake.requests
    assert first.line == "GET /some/prefix/sandbox/..%2Fa%2Fb%3Fc%23d%20%252e%E6%AD%A3 HTTP/1.1"
    assert first.fields["authorization"] == "Bearer of-mine" and first.fields["user-agent"] == "me/1"
    assert second.fields["authorization"] == "Bearer of-the-environment" and second.fields["user-agent"].startswith("libhusk/")
    assert "authorization" not in third.fields


def test_arguments_that_make_no_sense(fails):
    with FakeHusk(b"") as fake, Husk(fake.url) as husk:
        for sandbox in (None, "", "x" * 1000, b"\xff"):
            fails("argument", husk.info, sandbox)
        fails("argument", husk.execute, "s", b"\xff")
        fails("argument", husk.call, "execute", "s", None)
        fails("argument", husk.execute, "s", "1", timeout=-1.0)
        fails("argument", husk.execute, "s", "1", timeout=float("inf"))
        fails("argument", husk.execute, "s", "1", ask=True)
        fails("argument", husk.streaming, "s", "1", ask=True, stdin_text="x")
        fails("argument", husk.command, "s")
        fails("argument", husk.command, "s", command="x", arguments=["y"])
        fails("argument", husk.install, "s")
        fails("argument", husk.create, memory_mb=2**64 - 1)
        fails("argument", husk.upload, "s", b"x", "")
        fails("argument", husk.remove, "s", "")
        fails("argument", husk.download, "s", "x" * 10000)
        fails("argument", husk.execution, "s", "")
        assert fake.requests == []


def test_no_error_wanted(husk):
    """NULL in the place of the error."""
    assert library.husk_info(husk.pointer, b"nothing", ctypes.byref(ctypes.POINTER(Sandbox)()), None) == -7
    assert library.husk_close(husk.pointer, b"", None) == -1


def test_unreachable(fails):
    with FakeHusk(b"") as fake:
        url = fake.url
    with Husk(url) as husk:
        failure = fails("connect", husk.execute, "s", "1")
        assert url in failure.message and "huskd" in failure.message
        fails("connect", husk.health)
    with Husk("http://name-that-does-not-exist.invalid") as husk:
        fails("connect", husk.health)


def test_proxies(service, monkeypatch):
    """This machine itself is never asked for through one; others are."""
    with FakeHusk(answer(SANDBOX)) as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "https_proxy"):
            monkeypatch.setenv(name, proxy.url)
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        for url in (service.url, service.url.replace("127.0.0.1", "localhost"), service.url.replace("127.0.0.1", "LOCALHOST")):
            with Husk(url) as husk:
                assert husk.health()["healthy"]
        assert proxy.requests == []
        with Husk("http://elsewhere.invalid") as husk:
            assert husk.info("s")["id"] == "s"
        assert proxy.requests[0].line.startswith("GET http://elsewhere.invalid/sandbox/s ")


def test_https(folder, fails):
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", folder / "key", "-out", folder / "cert", "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"], check=True, capture_output=True)  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert", folder / "key")
    with FakeHusk(answer(SANDBOX), wrap=lambda peer: context.wrap_socket(peer, server_side=True)) as fake:
        url = fake.url.replace("http://127.0.0.1", "https://localhost")
        with Husk(url, ca_file=str(folder / "cert"), api_key="k") as husk:
            assert husk.info("s")["id"] == "s"
        with Husk(url, api_key="k") as husk:
            fails("connect", husk.execute, "s", "1")
        with Husk(url.replace("localhost", "127.0.0.1"), ca_file=str(folder / "cert"), api_key="k") as husk:
            fails("connect", husk.execute, "s", "1")
        with Husk(url, ca_file=str(folder / "none")) as husk:
            fails("file", husk.execute, "s", "1")
        assert len(fake.requests) == 1


# --- threads, and cancelling ---


def test_clients_in_parallel(service, create):
    sandboxes = [create().id for _ in range(4)]

    def work(sandbox):
        with Husk(service.url) as husk:
            for number in range(10):
                assert husk.execute(sandbox, f"{number} * 7")["outputs"][0]["data"] == b"%d" % (number * 7)
                husk.upload(sandbox, b"%d" % number * 1000, f"f{number}")
                assert husk.download(sandbox, f"f{number}")["data"] == b"%d" % number * 1000
        return True

    assert all([call.result(180) for call in [later(work, sandbox) for sandbox in sandboxes]])


def test_connections_are_kept():
    with FakeHusk(answer(SANDBOX), keep=True) as fake, Husk(fake.url) as husk:
        for _ in range(10):
            husk.info("s")
        assert len(fake.requests) == 10 and fake.connections == 1


def cancelled(husk, call):
    husk.cancel()
    with pytest.raises(Failed) as failed:
        call.result(30)
    assert failed.value.kind == "cancelled"


def test_cancel_in_silence(husk, sandbox):
    """At once, and what ran is interrupted."""
    call = later(husk.execute, sandbox.id, "while True: pass", timeout=600)
    sandbox.until_state("busy")
    cancelled(husk, call)
    sandbox.until_state("ready")
    assert husk.execute(sandbox.id, "6 * 7")["outputs"][0]["data"] == b"42"


def test_cancel_while_streaming(husk, sandbox):
    begun = threading.Event()
    call = later(husk.streaming, sandbox.id, "while True: print('x' * 1000)", lambda event: begun.set(), timeout=600)
    assert begun.wait(30)
    cancelled(husk, call)
    sandbox.until_state("ready")
    assert husk.streaming(sandbox.id, "print(1)")[1]["status"] == "ok"


def test_cancel_by_the_callback(husk, sandbox, fails):
    fails("cancelled", husk.streaming, sandbox.id, "while True: print('x' * 1000)", lambda event: event["kind"] == "stdout", timeout=600)
    sandbox.until_state("ready")
    fails("cancelled", husk.streaming, sandbox.id, "print(1)", lambda event: husk.cancel())


def test_cancel_an_upload(husk, sandbox):
    begun = threading.Event()

    def endless(room):
        begun.set()
        return b"x" * min(room, 1000)

    call = later(husk.upload_from, sandbox.id, endless, "endless")
    assert begun.wait(30)
    cancelled(husk, call)
    assert husk.files(sandbox.id)["files"] == []
    # From a pipe that says nothing.
    reader, writer = os.pipe()
    call = later(husk.upload_file, sandbox.id, f"/proc/self/fd/{reader}", "pipe")
    os.write(writer, b"x")
    cancelled(husk, call)
    os.close(reader), os.close(writer)
    assert husk.files(sandbox.id)["files"] == []


def test_cancel_a_download(husk, sandbox, folder):
    sandbox.run("f = open('large', 'wb'); f.truncate(500 << 20); f.close()")
    begun = threading.Event()
    husk.on_progress(lambda done, total: begun.set())
    call = later(husk.download_file, sandbox.id, "large", str(folder / "large"))
    assert begun.wait(30)
    cancelled(husk, call)
    assert list(folder.iterdir()) == []


def test_cancel_while_connecting():
    """Nobody takes the connection: the queue of the listener is full."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        fillers = []
        for _ in range(8):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
            fillers.append(filler)
        with Husk(url) as husk:
            call = later(husk.execute, "s", "1")
            cancelled(husk, call)
        for filler in fillers:
            filler.close()


def test_cancel_beforehand(husk, shared, fails):
    husk.cancel()
    husk.cancel()
    fails("cancelled", husk.info, shared.id)
    assert husk.info(shared.id)["id"] == shared.id


def test_cancel_from_a_signal_handler(service, sandbox):
    """In a program whose only thread waits in the call."""
    program = PROGRAMS / "clients" / "interrupted"
    with subprocess.Popen([program, service.url, sandbox.id], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "begun\n"
        sandbox.until_state("busy")
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "cancelled\n"
        assert process.wait(30) == 0
    sandbox.until_state("ready")


# --- the service dies ---


def test_service_dies(private, fails):
    service = private().start()
    with Husk(service.url) as husk:
        sandbox = husk.create()["id"]
        call = later(husk.execute, sandbox, "kept = 1\nwhile True: pass", timeout=600)
        service.adopt(sandbox).until_state("busy")
        service.process.kill()
        service.process.wait()
        service.process = None
        with pytest.raises(Failed) as failed:
            call.result(30)
        assert failed.value.kind == "broken"
        fails("connect", husk.execute, sandbox, "1")
        service.start()
        husk.interrupt(sandbox)  # a service that dies is no caller that leaves
        assert husk.execute(sandbox, "kept")["outputs"][0]["data"] == b"1"


# --- the library itself ---


def test_every_function_under_valgrind(service, folder):
    names = re.findall(r'^    \{"(\w+)", call_', (ROOT / "tests" / "client" / "calls.c").read_text(), re.M)
    done = subprocess.run([*valgrind(), PROGRAMS / "clients" / "calls", service.url, "tour"], stdout=subprocess.PIPE, text=True,
                          timeout=300, env={**os.environ, "TMPDIR": str(folder)})  # fmt: skip
    assert done.returncode == 0 and done.stdout.split() == names
    assert {name for name in FUNCTIONS} - set(names) == {"close", "input", "upload_from", "download_to"}
