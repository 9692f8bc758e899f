"""Code that wants more than its sandbox has: memory, processes, disk; or that spoils what the sandbox is made of. The
service and the neighbours must not notice, and the sandbox must work again."""

import ctypes
import os
import time

import pytest

import host
from service import later

pytestmark = pytest.mark.usefixtures("unharmed")


def test_memory_beyond_the_limit(create):
    sandbox = create(memory_mb=256, disk_mb=16)
    answer = sandbox.execute("hog = []\nwhile True: hog.append(bytearray(b'x') * (8 << 20))", timeout=60)
    assert (answer["status"], answer["error"]) == ("died", "OutOfMemory"), answer
    assert answer["state_lost"] is True and answer["error_value"]
    assert sandbox.works()


def test_memory_of_a_subprocess(create):
    """The kernel of the host chooses the victim; the sandbox survives whichever it is."""
    sandbox = create(memory_mb=256, disk_mb=16)
    answer = sandbox.execute("!python3 -c 'x = []\nwhile True: x.append(bytearray(b\"x\") * (8 << 20))'", timeout=60)
    assert answer["status"] in ("ok", "error", "died")
    assert sandbox.works()


SOCKETS_FULL_OF_DATA = """
import socket
server = socket.socket(); server.bind(("127.0.0.1", 0)); server.listen(500)
keep, queued = [], 0
for _ in range(60):
    sender = socket.socket(); sender.setsockopt(1, 7, 4 << 20); sender.connect(server.getsockname())
    receiver, _ = server.accept(); receiver.setsockopt(1, 8, 4 << 20); sender.setblocking(False)
    keep += [sender, receiver]
    try:
        while True: queued += sender.send(bytes(65536))
    except BlockingIOError: pass
queued >> 20
"""


def test_memory_in_socket_buffers(create):
    """It is the host's, so it counts: 60 connections could hold 600 MB otherwise."""
    sandbox = create(memory_mb=64, disk_mb=16)
    answer = sandbox.execute(SOCKETS_FULL_OF_DATA, timeout=60)
    assert answer["status"] == "died" or int(answer["results"][0]["data"]) < 160, answer
    assert sandbox.works()


@pytest.mark.parametrize(
    "what", ["import ctypes\nctypes.CDLL(None).inotify_init1(0)", "import os\nos.openpty()[0]"], ids=["inotify", "pty"]
)
def test_quotas_of_the_host_are_not_used_up(create, what):
    """What the kernel counts per user is not counted as root's, and terminals are limited for each sandbox."""
    sandbox = create()
    sandbox.run(f"kept = []\ntry:\n    for _ in range(1000):\n        {what.splitlines()[0]}\n"
                f"        kept.append({what.splitlines()[1]})\n        assert kept[-1] >= 0\n"
                "except (OSError, AssertionError): pass")
    instance = ctypes.CDLL(None).inotify_init1(0)
    assert instance >= 0
    os.close(instance)
    for terminal in os.openpty():
        os.close(terminal)
    assert create().value("len(__import__('os').openpty())") == 2


@pytest.mark.parametrize(
    "bomb",
    [
        "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
        "import subprocess; subprocess.run(['bash', '-c', ':(){ :|:& };:'])\nimport time; time.sleep(100)",
    ],
    ids=["fork", "shell"],
)
def test_fork_bomb(create, bomb):
    sandbox = create(pids=64)
    started = time.monotonic()
    answer = sandbox.execute(bomb, timeout=3)
    assert answer["status"] in ("timeout", "died", "error"), answer
    assert time.monotonic() - started < 40
    assert sandbox.post("restart").status_code == 200
    assert sandbox.works()
    # They were killed before the new kernel was started, but may die after it: each has memory to give back.
    host.until(lambda: len(sandbox.processes()) < 10, 20, "the end of everything that the bomb left")


def test_closing_a_fork_bomb(service):
    sandbox = service.create()
    namespace = sandbox.namespace("pid")
    later(sandbox.post, "execute", data=b"import os\nwhile True:\n    try: os.fork()\n    except OSError: pass")
    host.until(lambda: len(host.within("pid", namespace)) > 100, 30, "the bomb")
    assert sandbox.close().status_code == 200
    assert not host.within("pid", namespace) and not sandbox.cgroups()


def test_orphans_are_reaped(sandbox):
    sandbox.run("import subprocess\nfor n in range(20): subprocess.run('(sleep 0.1 &)', shell=True)")
    host.until(lambda: len(sandbox.processes()) <= 3, 10, "orphans to be reaped")


def test_threads_beyond_the_limit(create):
    sandbox = create(pids=64)
    code = """
        import threading
        event = threading.Event()
        for n in range(500): threading.Thread(target=event.wait, daemon=True).start()"""
    assert sandbox.execute(code)["error"] == "RuntimeError"
    sandbox.run("event.set()")


FILL = """
def fill(folder):
    import os
    total = 0
    try:
        with open(os.path.join(folder, 'fill'), 'wb', buffering=0) as f:
            while total < 1 << 30:
                total += f.write(bytes(1 << 20))
    except OSError as error:
        return error.errno, total
"""


def test_filling_the_disk(create):
    sandbox = create(disk_mb=32)
    sandbox.run(FILL)
    number, total = sandbox.value("fill('/home/user')")
    assert number == 28 and total <= 32 << 20, "ENOSPC at the limit"
    assert sandbox.works()
    assert sandbox.info()["usage"]["disk_bytes"] >= 30 << 20
    assert sandbox.post("restart").status_code == 200, "a full disk is no reason to lose the kernel"
    assert sandbox.value("__import__('os').path.getsize('fill')") == total
    sandbox.run("import os; os.remove('fill'); open('again', 'w').write('x' * 1000)")


@pytest.mark.parametrize("folder", ["/tmp", "/dev/shm", "/opt/venv", "/run/husk"])
def test_every_writable_place_is_limited(create, folder):
    sandbox = create(disk_mb=32, memory_mb=256)
    sandbox.run(FILL)
    number, total = sandbox.value(f"fill('{folder}')")
    assert number in (28, 122) and total <= 300 << 20
    assert sandbox.works()


def test_too_many_files(create):
    sandbox = create(disk_mb=16)
    code = """
        count = 0
        try:
            while count < 500_000: open(f'f{count}', 'w').close(); count += 1
        except OSError as error: print(error.errno, count)"""
    number, count = sandbox.run(code).split()
    assert number == "28" and int(count) <= (16 << 20) // 4096
    assert sandbox.works()


@pytest.mark.parametrize(
    "sabotage",
    [
        "shutil.rmtree('/run/husk', ignore_errors=True)",
        "[os.mkdir(f'/run/husk/{name}') for name in ('kernel-2.json', 'k2-1', 'k2-2', 'k2-3', 'k2-4', 'k2-5')]",
        "[os.symlink('/etc/passwd', f'/run/husk/{name}') for name in ('kernel-2.json', 'k2-1', 'k2-2')]",
        "os.mkfifo('/run/husk/kernel-2.json')",
        "os.chmod('/run/husk', 0)",
        "[os.remove('/run/husk/' + name) for name in os.listdir('/run/husk')]",
    ],
    ids=["rmtree", "folders", "links", "fifo", "mode", "remove"],
)
def test_sabotage_of_the_sockets(service, sabotage):
    """The sandbox may write to the folder of its kernel's sockets. It can hurt itself there, and nobody else."""
    sandbox = service.create()
    sandbox.execute(f"import os, shutil\n{sabotage}", timeout=10)
    restarted = sandbox.post("restart")
    assert restarted.status_code in (200, 410, 503), restarted.text
    if restarted.status_code == 200:
        assert sandbox.works()
    else:
        host.until(lambda: service.get(sandbox.path).status_code == 410, 20, "its end")
    assert sandbox.close().status_code in (200, 410)
