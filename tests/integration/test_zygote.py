"""Kernels that are forked from a zygote: alike in what they have imported, and in nothing else."""

import os
import secrets
import signal

import pytest

import host
from command_client import detach, fetch, kill
from service import later


def forked(sandbox):
    """A kernel that was executed has imported nothing of its own accord."""
    return sandbox.value("'pandas' in __import__('sys').modules")


def zygotes(service):
    return [p for p in host.processes() if "/opt/husk/zygote.py" in p.arguments and p.in_cgroup(service.tree)]


def zygote(service):
    [process] = [p for p in zygotes(service) if p.status("NSpid").count("\t") == 1]
    return process


def until_forking(service, create):
    """Wait until fresh sandboxes get forked kernels."""

    def try_one():
        sandbox = create()
        try:
            return forked(sandbox)
        finally:
            sandbox.close()

    host.until(try_one, 30, "forked kernels")


@pytest.fixture(scope="module", autouse=True)
def ready(service):
    until_forking(service, service.create)


def test_kernels_are_forked(sandbox):
    assert forked(sandbox)
    assert sandbox.value("__import__('os').getppid()") == 0, "its parent is outside"


def test_restarts_fork_as_well(sandbox):
    assert sandbox.post("restart").status_code == 200
    assert forked(sandbox)
    assert sandbox.execute("import os; os._exit(3)")["error_value"] == "the kernel ended with exit code 3"
    assert forked(sandbox)
    answer = sandbox.execute("import os; os.kill(os.getpid(), 11)")
    assert "SIGSEGV" in answer["error_value"]


RANDOM = """
import random, secrets, uuid, tempfile, os, numpy
print([random.random(), numpy.random.rand(), numpy.random.default_rng().random(), secrets.token_hex(),
       str(uuid.uuid4()), str(uuid.uuid1()), next(tempfile._get_candidate_names()), os.urandom(8),
       random.Random().random(), numpy.random.RandomState().rand()])
"""


def test_nothing_random_is_shared(create):
    drawn = [eval(create().run(RANDOM)) for _ in range(4)]
    again = create()
    drawn.append(eval(again.run(RANDOM)))
    assert again.post("restart").status_code == 200
    drawn.append(eval(again.run(RANDOM)))
    for values in zip(*drawn):
        assert len(set(values)) == len(values), values


def test_keys_files_and_environment_are_not_shared(create):
    first, second = create(env={"OWN": "first"}), create(env={"OWN": "second"})
    key = "__import__('json').load(open('/run/husk/kernel-1.json'))['key']"
    assert first.value(key) != second.value(key)
    assert (first.value("os.environ['OWN']") if first.run("import os") == "" else 0) == "first"
    assert second.run("import os; print(os.environ['OWN'])") == "second\n"
    first.run("open('mine', 'w').write('x'); import numpy; numpy.mark = 'of the first'; numpy.pi = 3")
    assert second.value("os.listdir(), hasattr(__import__('numpy'), 'mark')") == ([], False)
    assert create().value("__import__('numpy').pi > 3.14") is True


def test_nothing_of_an_earlier_sandbox_is_in_memory(create):
    """Its environment went through the zygote, on the way to its own kernel."""
    marker = secrets.token_hex(16)
    first = create(env={"FILLER": "x" * 4000, "SECRET": marker})
    assert first.run("import os; print(os.environ['SECRET'])") == marker + "\n"
    code = f"""
found = 0
needle = ({marker[:16]!r} + {marker[16:]!r}).encode()
with open('/proc/self/maps') as maps, open('/proc/self/mem', 'rb', 0) as memory:
    for line in maps:
        start, end = (int(part, 16) for part in line.split()[0].split('-'))
        if 'r' in line.split()[1] and not line.rstrip().endswith(('[vvar]', '[vsyscall]', '[vvar_vclock]')):
            memory.seek(start)
            found += memory.read(end - start).count(needle)
needle = None
print(found)
"""
    assert int(first.run(code)) > 1, "this is how one would find it"
    assert int(create().run(code)) <= 1, "the needle itself"


def test_environment_is_that_of_an_executed_kernel(create):
    sandbox = create(env={"OWN": "x"})
    environment = sandbox.value("dict(__import__('os').environ)")
    code = "import subprocess; print(subprocess.run(['env', '-0'], capture_output=True, text=True).stdout, end='')"
    assert environment == dict(entry.split("=", 1) for entry in sandbox.run(code).split("\0")[:-1])
    assert environment["OWN"] == "x" and environment["HOME"] == "/home/user" and "CANARY" not in environment
    assert "husk" not in sandbox.run("print(open('/proc/self/environ').read().lower().replace('share/husk', '').replace('/opt/husk/bin', ''))")


def test_no_descriptor_of_the_zygote(sandbox):
    code = "import os\nprint([os.readlink(f'/proc/self/fd/{n}') for n in sorted(map(int, os.listdir('/proc/self/fd')))[:-1]])"
    targets = eval(sandbox.run(code))
    assert not [target for target in targets if target.startswith("/") and target not in ("/dev/null", "/dev/urandom")], targets
    assert not [target for target in targets if "memfd" in target or "pidfd" in target or "signalfd" in target]


# Stops every new process of its own id again and again until it can write to that one's memory, and notes what is open in it then.
SPY = """
import os, signal, time
known = set(os.listdir('/proc'))
print('ready', flush=True)
def look(pid):
    while True:
        try:
            os.kill(pid, signal.SIGSTOP)
            os.close(os.open(f'/proc/{pid}/mem', os.O_RDWR))
            return [os.readlink(f'/proc/{pid}/fd/{fd}') for fd in os.listdir(f'/proc/{pid}/fd')]
        except PermissionError:
            pass
        finally:
            os.kill(pid, signal.SIGCONT)
while True:
    for name in set(os.listdir('/proc')) - known:
        if name.isdigit():
            try:
                print(look(int(name)), flush=True)
                known.add(name)
            except OSError:
                pass
"""


def test_nobody_looks_into_it_before_it_is_a_kernel(sandbox):
    """Commands go on while a kernel is forked, and until its descriptors are closed it has those of the zygote: folders from which
    a path leads to the host's files, and the socket over which the descriptors of other sandboxes come."""
    command = detach(sandbox, ["python", "-c", SPY])["command_id"]
    host.until(lambda: "ready" in fetch(sandbox, command)["stdout"], 20, "the spy")
    for count in range(1, 6):
        assert sandbox.post("restart").status_code == 200
        assert forked(sandbox)
        host.until(lambda count=count: fetch(sandbox, command)["stdout"].count("\n") > count, 20, "the spy to see it")
    seen = fetch(sandbox, command)["stdout"]
    assert kill(sandbox, command).status_code == 200
    for what in ("cgroup", "husk-filter", "pid:[", "signalfd", "pidfd"):
        assert what not in seen, seen


def test_confined_like_any_other(sandbox):
    status = dict(
        line.split(":\t", 1) for line in sandbox.run("print(open('/proc/self/status').read())").splitlines() if ":\t" in line
    )
    assert status["Uid"].split() == ["1000"] * 4 and status["Gid"].split() == ["1000"] * 4
    assert all(int(status[name], 16) == 0 for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"))
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    inside = {p.pid: p for p in sandbox.processes()}
    for kind in ("mnt", "net", "ipc", "uts", "cgroup", "pid", "user"):
        assert len({p.namespace(kind) for p in inside.values()}) == 1, kind
    assert all(p.in_cgroup(sandbox.id) for p in inside.values())


def test_threads_follow_the_cores(create):
    """Those of linear algebra, which start with the first product."""
    code = "import numpy, os\na = numpy.ones((500, 500)); a @ a\nprint(len(os.listdir('/proc/self/task')))"
    counts = {cpus: int(create(cpus=cpus).run(code)) for cpus in (0.5, 1, 2)}
    assert counts[0.5] == counts[1] and counts[2] == counts[1] + 1, counts


def test_changed_packages_are_imported_afresh(sandbox):
    """What the zygote has imported is not what is installed here any more."""
    sandbox.run("import os; os.makedirs('/opt/venv/lib/python3.13/site-packages/brand_new')")
    assert sandbox.post("restart").status_code == 200
    assert not forked(sandbox)
    assert sandbox.run("import brand_new, numpy; print(numpy.arange(3).sum())") == "3\n"


def test_zygote_is_killed(private):
    service = private().start()
    until_forking(service, service.create)
    sandbox = service.create()
    assert forked(sandbox)
    sandbox.run("kept = 'yes'")
    old = zygote(service)
    os.kill(old.pid, signal.SIGKILL)
    assert service.create().works(), "kernels are executed meanwhile"
    assert sandbox.value("kept") == "yes", "those that it forked live on"
    until_forking(service, service.create)
    assert zygote(service).pid != old.pid
    answer = sandbox.execute("import os; os._exit(1)")
    assert answer["status"] == "died" and answer["state_lost"] is True
    assert sandbox.works() and sandbox.close().status_code == 200


def test_keeper_is_killed(private):
    """A new keeper has a new zygote, and knows the sockets of the shims that were there."""
    service = private().start()
    until_forking(service, service.create)
    sandbox = service.create()
    sandbox.run("kept = 'yes'")
    old = service.keeper().pid
    os.kill(old, signal.SIGKILL)
    host.until(lambda: [p for p in service.programs("husk-keeper") if p.pid != old], 20, "another keeper")
    host.until(lambda: service.get("/health").status_code == 200, 20, "a healthy service")
    until_forking(service, service.create)
    assert sandbox.value("kept") == "yes"
    assert sandbox.post("restart").status_code == 200 and forked(sandbox)


def test_zygote_is_stopped(private):
    """It neither answers nor ends: a kernel that does not come is given up, and nothing else is held up."""
    service = private().start()
    until_forking(service, service.create)
    stuck = zygote(service)
    os.kill(stuck.pid, signal.SIGSTOP)
    try:
        made = later(service.create)
        assert service.get("/health").status_code == 200
        assert made.result(80).works()
    finally:
        os.kill(stuck.pid, signal.SIGCONT)


def test_zombies_are_reaped(service, create):
    for _ in range(3):
        create().close()
    host.until(
        lambda: not [p for p in host.processes() if p.parent == zygote(service).pid and p.state == "Z"], 10, "no zombies"
    )


IMMORTAL = """
import gc, sys, weakref
import numpy

class Thing:
    pass

thing = Thing()
seen = weakref.ref(thing)
del thing
print(sys.getrefcount(numpy) == sys.getrefcount(None), seen() is None)

# Even a collector that is let loose on all of it finds nothing to take apart.
loop = []
loop.append(loop)
del loop
gc.unfreeze()
print(gc.collect() > 0)
import pandas
print(pandas.DataFrame({"a": [1, 2]}).sum().a)
print(eval("1" + "+1" * 40), numpy.linalg.solve([[2.0]], [4.0])[0])
"""


def test_what_was_there_before_the_fork_is_immortal(sandbox):
    """And what came after it is not."""
    assert sandbox.run(IMMORTAL).split() == ["True", "True", "True", "3", "41", "2.0"]


def test_a_new_kernel_shares_its_memory(service, sandbox):
    """A page that a kernel writes to is its own. Of 80 MB of objects it wrote to 8 before they were immortal, 4 now."""
    sandbox.execute("1+1")
    inside = next(p.pid for p in zygotes(service) if p.in_cgroup(sandbox.id))
    lines = open(f"/proc/{inside}/smaps_rollup").read().splitlines()
    own = next(int(line.split()[1]) for line in lines if line.startswith("Private_Dirty:"))
    assert own < 7 * 1024
