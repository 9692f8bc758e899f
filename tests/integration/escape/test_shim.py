"""A sandbox against its own shim, the one process outside that reads what it sends: sockets that are replaced, descriptors that are passed,
the id they share. It may lose its kernel that way, never more."""

import pytest

import host

pytestmark = pytest.mark.usefixtures("unharmed", "bounded")


def descriptors(sandbox):
    return sandbox.shim().descriptors()


def test_priority_of_everything_with_its_id(sandbox):
    """The shim has the sandbox's id, and is out of reach in another pid namespace."""
    shim = sandbox.shim()
    sandbox.run("import os; os.setpriority(os.PRIO_USER, 0, 19); os.setpriority(os.PRIO_USER, 1000, 19)")
    with open(f"/proc/{shim.pid}/stat") as file:
        assert file.read().rpartition(")")[2].split()[16] == "0", "its niceness"
    assert sandbox.value("__import__('os').getpriority(0, 0)") == 19


def test_signals_for_everybody(sandbox):
    shim = sandbox.shim()
    sandbox.command(["python3", "-c", "import os; os.kill(-1, 9)"])
    assert host.alive(shim.pid)
    assert sandbox.execute("1")["status"] in ("ok", "died")
    assert sandbox.works()


REPLACED = """
import os, socket, threading
kept = []
for name in sorted(os.listdir('/run/husk')):
    path = '/run/husk/' + name
    if name.endswith('.json') or name == 'modules': continue
    os.rename(path, '/run/husk/old-' + name)
    {replacement}
"""
REPLACEMENTS = {
    "nothing": "pass",
    "a link to the old one": "os.symlink('old-' + name, path)",
    "a link to a neighbour's place": "os.symlink('/proc/1/root/run/husk/' + name, path)",
    "a link to itself": "os.symlink(path, path)",
    "a device": "os.symlink('/dev/zero', path)",
    "a file": "open(path, 'w').write('x' * 65536)",
    "a pipe": "os.mkfifo(path)",
    "a socket that never answers": "s = socket.socket(socket.AF_UNIX); s.bind(path); s.listen(); kept.append(s)",
    "datagrams": "s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.bind(path); kept.append(s)",
}


@pytest.mark.parametrize("name", REPLACEMENTS)
def test_replaced_sockets(service, name):
    """The channels are connected already; a new kernel makes new ones."""
    sandbox = service.create()
    sandbox.run(REPLACED.format(replacement=REPLACEMENTS[name]))
    assert sandbox.works()
    assert sandbox.command(["true"])["exit_code"] == 0
    restarted = sandbox.post("restart")
    assert restarted.status_code in (200, 410, 503), restarted.text
    if restarted.status_code == 200:
        assert sandbox.works()
    assert sandbox.close().status_code in (200, 410)


PASSED = """
import array, os, socket
folder = os.open('/', os.O_PATH)
sent = 0
for round in range(64):
    client = socket.socket(socket.AF_UNIX)
    try:
        client.connect({path!r})
        client.sendmsg([b'x' * 16], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [folder] * 250))])
        sent += 1
    except OSError: pass
    client.close()
sent
"""


def sockets_of(sandbox):
    return sandbox.value(
        "[path for path in ('/run/husk/' + n for n in __import__('os').listdir('/run/husk'))"
        " if __import__('stat').S_ISSOCK(__import__('os').stat(path).st_mode)]"
    )


def test_descriptors_passed_to_the_shim(sandbox):
    """16,000 of them, over every socket there is: none stays."""
    before = descriptors(sandbox)
    paths = sockets_of(sandbox)
    assert "/run/husk/packages.sock" in paths
    for path in paths:
        sandbox.run(PASSED.format(path=path))
    host.until(lambda: descriptors(sandbox) <= before + 1, 20, "the shim to have as many descriptors as before")
    assert sandbox.works()
    assert sandbox.command(["true"])["exit_code"] == 0


def test_folders_passed_between_kernel_and_command(sandbox):
    """Both see the same tree: a folder of one leads the other nowhere new."""
    code = """
import array, os, socket, subprocess
server = socket.socket(socket.AF_UNIX); server.bind('/tmp/pass'); server.listen()
"""
    sandbox.run(code)
    taken = sandbox.post("command", json={"detach": True, "command": ["python3", "-c", (
        "import socket, os\n"
        "client = socket.socket(socket.AF_UNIX); client.connect('/tmp/pass')\n"
        "socket.send_fds(client, [b'x'], [os.open('/', os.O_PATH), os.open('/proc', os.O_PATH)])\n"
    )]})  # fmt: skip
    assert taken.status_code == 202
    found = sandbox.run("""
peer, _ = server.accept()
_, (root, proc), _, _ = socket.recv_fds(peer, 1, 2)
for path in ('../../var/lib/husk', '../..', '1/root/etc/passwd'):
    try: print(os.stat(path, dir_fd=proc if path[0] == '1' else root).st_ino == os.stat('/').st_ino)
    except OSError as error: print(error.errno)
""")
    assert found.split() == ["2", "True", "13"]


def test_flooding_sockets_of_ones_own(sandbox):
    """Connections to every socket that are opened and left: the shim takes what it has places for."""
    sandbox.run("import socket; kept = []")
    for path in sockets_of(sandbox):
        sandbox.run(f"""
for _ in range(300):
    client = socket.socket(socket.AF_UNIX); client.setblocking(False)
    try: client.connect({path!r}); client.send(b'\\xff' * 4096)
    except OSError: pass
    kept.append(client)""")
    assert sandbox.works()
    assert sandbox.shim().descriptors() < 500
    sandbox.run("[client.close() for client in kept]")
    assert sandbox.works()


def test_limits_of_init_and_kernel(sandbox):
    """Whoever has the same id could take away init's descriptors: then commands never started, and never ended."""
    answer = sandbox.command(["python3", "-c", (
        "import resource\n"
        "for pid in (1, 2):\n"
        "    try: print(resource.prlimit(pid, resource.RLIMIT_NOFILE, (0, 0)))\n"
        "    except OSError as error: print(error.errno)\n"
    )])  # fmt: skip
    assert answer["stdout"].split() == ["1", "1"]
    assert sandbox.command(["true"])["exit_code"] == 0 and sandbox.works()
