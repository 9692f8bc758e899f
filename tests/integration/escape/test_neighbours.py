"""What one sandbox, and the host, have lying open, and another sandbox that reaches for it: files, sockets of every kind,
shared memory, processes, memory. And the service's own API, from inside."""

import json
import os
import socket

import pytest

from probe import COMMAND, KERNEL, Look, number, refused

SECRET = "the neighbour's secret, 7f3a91"
PORT = 41234
SHARED_MEMORY_KEY = 0x6875736B
ABSTRACT = "husk-escape-probe"

# What the victim opens: each would be found by a neighbour who is not kept apart.
OPENED = f"""
import ctypes, os, signal, socket, subprocess, sys, threading
secret = {SECRET!r}
for path in ("/tmp/open", "/dev/shm/open", "/home/user/open", "/opt/venv/open", "/run/husk/open"):
    with open(path, "w") as file: file.write(secret)
    os.chmod(path, 0o666)
os.chmod("/home/user", 0o777)
listening = [socket.create_server(("127.0.0.1", {PORT})), socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)]
listening[1].bind("\\0{ABSTRACT}"); listening[1].listen()
listening[2].bind("/tmp/open.sock"); listening[2].listen()
os.chmod("/tmp/open.sock", 0o777)
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); datagrams.bind(("0.0.0.0", {PORT})); datagrams.setblocking(False)
libc = ctypes.CDLL(None)
memory = libc.shmget({SHARED_MEMORY_KEY}, 4096, 0o1666)
assert memory >= 0
process = subprocess.Popen(["sleep", "3600", ], env={{"SECRET": secret}})
handled = []
signal.signal(signal.SIGUSR1, lambda *_: handled.append(1))
"""

reaching = [
    *(Look(f"its file {path}", f"os.stat({path!r})", "ENOENT")
      for path in ("/tmp/open", "/dev/shm/open", "/home/user/open", "/opt/venv/open", "/run/husk/open")),
    Look("its server", f"connect(('127.0.0.1', {PORT}))", "ECONNREFUSED"),
    Look("its server by another address", f"connect(('127.1.2.3', {PORT}))", "ECONNREFUSED"),
    Look("its server of IPv6", f"connect(('::1', {PORT}))", ("ECONNREFUSED", "EADDRNOTAVAIL", "EAFNOSUPPORT")),
    Look("its abstract socket", f"connect('\\0{ABSTRACT}')", "ECONNREFUSED"),
    Look("its socket", "connect('/tmp/open.sock')", "ENOENT"),
    Look("its shared memory", f"call({{shmget}}, {SHARED_MEMORY_KEY}, 4096, 0)", "ENOENT"),
    Look("its processes",
         "[name for name in os.listdir('/proc') if name.isdigit() and b'sleep' in read(f'/proc/{name}/cmdline', 4096)]", "[]"),
    Look("its memory",
         "[name for name in os.listdir('/proc') if name.isdigit() and int(name) > 2 and b'7f3a91' in read(f'/proc/{name}/environ', 65536)]", "[]",
         (KERNEL,)),
    Look("its signals", "os.kill(-1, signal.SIGUSR1)", ("ESRCH", "None"), (COMMAND,)),
    Look("the host's abstract socket", f"connect('\\0{ABSTRACT}-host')", "ECONNREFUSED"),
    Look("the host's socket", "connect('{folder}/host.sock')", "ENOENT"),
    Look("the keeper's socket", "connect('{state}/keeper.sock')", "ENOENT"),
    Look("the API", "connect(('127.0.0.1', {port}))", "ECONNREFUSED"),
    Look("the API by the machine's address", "connect(({address!r}, {port}))", ("ENETUNREACH", "ECONNREFUSED")),
    Look("wheels of others", "os.listdir('/opt/husk/wheels')", ("EACCES", "ENOENT")),
    Look("the index of packages", "os.listdir('/opt/husk/notes')", "ENOENT"),
    Look("the API's key", "[path for path in ('/etc/husk', '/etc/husk.conf', '/root/.husk') if os.path.exists(path)]", "[]"),
]  # fmt: skip


def own_address():
    """One that the machine has on a real network; none is a documentation address, which leads nowhere."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            return probe.getsockname()[0]
        except OSError:
            return "192.0.2.1"


@pytest.fixture(scope="module")
def found(inside, victim, service, harness):
    """What all of them found, by place and name."""
    victim.sandbox.run(OPENED)
    with socket.socket(socket.AF_UNIX) as abstract, socket.socket(socket.AF_UNIX) as named:
        abstract.bind(f"\0{ABSTRACT}-host")
        named.bind(str(harness.folder / "host.sock"))
        os.chmod(harness.folder / "host.sock", 0o777)
        for listening in (abstract, named):
            listening.listen()
        values = {"{folder}": str(harness.folder), "{state}": str(service.state), "{port}": str(service.port),
                  "{address!r}": repr(own_address()), "{shmget}": str(number("shmget"))}  # fmt: skip

        def filled(probe):
            text = probe.expression
            for name, value in values.items():
                text = text.replace(name, value)
            return Look(probe.name, text, probe.refusal, probe.places)

        table = [filled(probe) for probe in reaching]
        yield lambda probe, place: inside.outcome(table, probe, place)
    os.remove(harness.folder / "host.sock")


@pytest.mark.parametrize(
    "probe, place", [pytest.param(probe, place, id=f"{probe.name}, {place}") for probe in reaching for place in probe.places]
)
def test_reaching(found, probe, place):
    outcome = found(probe, place)
    assert refused(probe, outcome), f"{probe.expression}: {outcome} instead of {probe.refusal}"


def test_the_victim_noticed_nothing(found, victim, inside):
    """Nobody connected, no datagram came, no signal."""
    inside.sandbox.run(f"""
import socket
for address in ("127.0.0.1", "127.255.255.255"):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        try: probe.sendto(b"x", (address, {PORT}))
        except OSError: pass""")
    seen = victim.sandbox.run("""
import select
got = select.select([*listening, datagrams], [], [], 0)[0]
print(len(got), len(handled), process.poll(), secret == open('/tmp/open').read())
process.kill(), process.wait(); [each.close() for each in [*listening, datagrams]]""")
    assert seen == "0 0 None True\n"


def test_ids_are_apart(inside, victim):
    """Even with a way into the other's files, the host's kernel would see a stranger."""
    ids = [{process.status("Uid").split()[0] for process in each.sandbox.processes()} for each in (inside, victim)]
    assert len(ids[0]) == len(ids[1]) == 1 and ids[0] != ids[1] and "0" not in ids[0] | ids[1]


NAMESPACES = ("mnt", "pid", "net", "ipc", "uts", "user", "cgroup")


def test_namespaces_are_apart(inside, victim):
    for kind in NAMESPACES:
        names = {inside.sandbox.namespace(kind), victim.sandbox.namespace(kind), os.readlink(f"/proc/self/ns/{kind}")}
        assert len(names) == 3, kind


def test_what_a_sandbox_says_of_others_is_not_believed(service, inside, victim):
    """Its shim passes on what it says; none of it is about another sandbox."""
    before = json.dumps(victim.sandbox.info()["limits"])
    inside.sandbox.execute(f"display({{'text/plain': 'x', 'sandbox_id': {victim.sandbox.id!r}}}, raw=True)")
    assert json.dumps(victim.sandbox.info()["limits"]) == before and victim.sandbox.works()
