"""Calls of libhusk: where they go and what they carry; how they end, by being cancelled or because the service dies."""

import ctypes
import os
import signal
import socket
import ssl
import subprocess
import threading

import pytest

from fake_husk import FakeHusk, answer
from libhusk import Failed, Husk, Sandbox, fails, library
from service import PROGRAMS, later
from test_library_hostile import SANDBOX


@pytest.fixture
def husk(service):
    with Husk(service.url) as husk:
        yield husk


# --- who calls, and where ---


def test_options(service, monkeypatch):
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


def test_arguments_that_make_no_sense():
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


def test_unreachable():
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


def test_https(folder):
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


def test_cancel_by_the_callback(husk, sandbox):
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


def test_cancel_beforehand(husk, shared):
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


def test_service_dies(private):
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
