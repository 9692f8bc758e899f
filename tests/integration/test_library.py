"""libhusk against the real service: every function does what husk.h says, and failures say what they are."""

import ctypes
import io
import json
import os
import re
import subprocess
import sys
import tarfile

import pytest

import host
from fake_husk import FakeHusk, answer
from libhusk import FUNCTIONS, ON_EVENT, Code, Failed, Husk, fails, filled, library
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


# --- sandboxes ---


def test_life_of_a_sandbox(husk):
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


def test_list(husk, create):
    ids = {create().id for _ in range(3)}
    assert ids <= {sandbox["id"] for sandbox in husk.list()["sandboxes"]}
    times = ["2026-11-18T07:00:02Z", "2026-11-18T07:00:00Z", "2026-11-18T07:00:03Z", "2026-11-18T07:00:00Z"]
    body = {f"s{i}": {**SANDBOX, "sandbox_id": f"s{i}", "created_at": time} for i, time in enumerate(times)}
    with FakeHusk(answer(body)) as fake, Husk(fake.url) as other:
        assert [sandbox["id"] for sandbox in other.list()["sandboxes"]] == ["s1", "s3", "s0", "s2"]


def test_health(husk, private):
    health = husk.health()
    assert health["healthy"] and health["reasons"] == "" and health["maximum"] > 0 and health["version"] == library.husk_version().decode()
    service = private(config="[server]\napi_key = a-key\n").start()
    with Husk(service.url) as stranger:
        assert stranger.health()["healthy"]


def test_unhealthy():
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


def test_input(husk, shared):
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


def test_prompts(husk, sandbox):
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


def test_commands(husk, shared):
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


def test_files_both_ways(husk, sandbox, folder):
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


def test_projects(husk, sandbox, folder):
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


def test_progress(husk, shared):
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


def test_files_of_this_machine(husk, shared, folder):
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
    done = subprocess.run([sys.executable, "-B", "-c", program], input=data, stdout=subprocess.PIPE, timeout=90, check=True)
    assert done.stdout == data


def test_uploads_that_are_not_wanted(private):
    """The answer arrives, although most of the body was not sent."""
    service = private(config="[server]\napi_key = a-key\n").start()
    data = b"x" * (96 * MEGABYTE)
    with Husk(service.url, api_key="a-key") as husk, Husk(service.url, api_key="wrong") as stranger:
        fails("refused", stranger.upload, "any", data, "f", status=401, code="unauthorized")
        fails("refused", husk.upload, "nothing", data, "f", status=404, code="sandbox_not_found")
        sandbox = husk.create(disk_mb=16)["id"]
        fails("refused", husk.upload, sandbox, data, "f", status=507, code="disk_full")
        husk.upload(sandbox, b"x", "f")


# --- the library itself ---


def test_every_function_under_valgrind(service, folder):
    names = re.findall(r'^    \{"(\w+)", call_', (ROOT / "tests" / "client" / "calls.c").read_text(), re.M)
    done = subprocess.run([*valgrind(), PROGRAMS / "clients" / "calls", service.url, "tour"], stdout=subprocess.PIPE, text=True,
                          timeout=300, env={**os.environ, "TMPDIR": str(folder)})  # fmt: skip
    assert done.returncode == 0 and done.stdout.split() == names
    assert {name for name in FUNCTIONS} - set(names) == {"close", "input", "upload_from", "download_to"}
