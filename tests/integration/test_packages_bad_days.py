"""Packages on bad days: several at once, callers who leave, parts of the service that die, full disks."""

import os
import signal
import threading

import pytest
import requests

import host
from local_index import Index, Wheel
from package_client import failed, install, installed, listing, state
from service import later, problem


@pytest.fixture(scope="module")
def index():
    with Index(
        Wheel("plainpkg", "1.0"),
        Wheel("plainpkg", "2.0"),
        Wheel("with-script", "1.0", scripts={"greet-me": "with_script:main"}),
        Wheel("Mixed.Case_Name", "0.1", files={"mixed_case_name.py": "x = 1\n"}),
        Wheel("needs-old", "1.0", requires=["plainpkg<2"]),
        Wheel("needs-new", "1.0", requires=["plainpkg>=2"]),
    ) as index:
        yield index


def test_installs_in_one_sandbox_queue(box):
    results = [later(install, box, name) for name in ("plainpkg==1.0", "with-script", "mixed-case-name", "needs-old")]
    assert [one.result(90)["status"] for one in results] == ["success"] * 4
    assert {"plainpkg", "with-script", "needs-old"} <= set(installed(box))


def test_lists_and_installs_do_not_disturb_each_other(box):
    """Somebody asks what is installed all the time."""
    over = threading.Event()

    def ask():
        count = 0
        while not over.is_set():
            assert "numpy" in installed(box)
            count += 1
        return count

    asking = [later(ask) for _ in range(3)]
    try:
        for name in ("plainpkg==1.0", "with-script", "plainpkg==2.0", "needs-new", "mixed-case-name"):
            result = install(box, name)
            assert result["status"] == "success", result
    finally:
        over.set()
    assert all(one.result(30) > 0 for one in asking)


def test_silence_is_filled(private):
    with Index(Wheel("heldpkg", "1")) as index:
        service = private(environment={"HUSK_PACKAGE_INDEX": index.url}).start()
        sandbox = service.create()
        index.hold.clear()
        url = f"{service.url}/sandbox/{sandbox.id}/install"
        with requests.post(url, json={"packages": ["heldpkg"]}, headers={"Accept": "text/event-stream"}, stream=True) as answer:
            lines = answer.iter_lines()
            assert next(line for line in lines if line.startswith(b":")) == b": keep-alive"
            index.hold.set()
            assert b'"status":"success"' in list(lines)[-2]


def test_many_sandboxes_at_once(shop):
    boxes = [shop.create() for _ in range(6)]
    results = [later(install, sandbox, "plainpkg") for sandbox in boxes]
    assert [one.result(120)["status"] for one in results] == ["success"] * 6
    for sandbox in boxes:
        sandbox.close()


def test_the_caller_goes_away(private):
    with Index(Wheel("heldpkg", "1"), Wheel("other", "1")) as index:
        service = private(environment={"HUSK_PACKAGE_INDEX": index.url}).start()
        sandbox = service.create()
        before = listing(sandbox)
        index.hold.clear()
        url = f"{service.url}/sandbox/{sandbox.id}/install"
        with pytest.raises(requests.exceptions.ReadTimeout):
            requests.post(url, json={"packages": ["heldpkg"]}, timeout=2)
        host.until(lambda: not service.programs("husk-fetcher"), 10, "the fetcher to be gone")
        index.hold.set()
        assert listing(sandbox) == before and state(sandbox, "heldpkg")["status"] == "not_installed"
        assert install(sandbox, "other")["status"] == "success"


def test_the_sandbox_is_closed_meanwhile(private):
    with Index(Wheel("heldpkg", "1")) as index:
        service = private(environment={"HUSK_PACKAGE_INDEX": index.url}).start()
        sandbox = service.create()
        index.hold.clear()
        waiting = later(service.post, f"/sandbox/{sandbox.id}/install", json={"packages": ["heldpkg"]})
        host.until(lambda: service.programs("husk-fetcher"), 10, "a fetcher")
        assert sandbox.close().status_code == 200
        problem(waiting.result(30), 410, "sandbox_closed")
        host.until(lambda: not service.programs("husk-fetcher"), 10, "the fetcher to be gone")


def test_huskd_is_killed_meanwhile(private):
    with Index(Wheel("heldpkg", "1")) as index:
        service = private(environment={"HUSK_PACKAGE_INDEX": index.url}).start()
        sandbox = service.create()
        before = listing(sandbox)
        index.hold.clear()
        waiting = later(service.post, f"/sandbox/{sandbox.id}/install", json={"packages": ["heldpkg"]})
        host.until(lambda: service.programs("husk-fetcher"), 10, "a fetcher")
        service.process.kill()
        service.process.wait()
        with pytest.raises(requests.RequestException):
            waiting.result(30)
        host.until(lambda: not service.programs("husk-fetcher"), 10, "the fetcher to be gone")
        index.hold.set()
        service.start()
        assert listing(sandbox) == before
        assert install(sandbox, "heldpkg")["status"] == "success"


def test_the_keeper_is_killed_meanwhile(private):
    with Index(Wheel("heldpkg", "1")) as index:
        service = private(environment={"HUSK_PACKAGE_INDEX": index.url}).start()
        sandbox = service.create()
        index.hold.clear()
        waiting = later(install, sandbox, "heldpkg")
        host.until(lambda: service.programs("husk-fetcher"), 10, "a fetcher")
        os.kill(service.keeper().pid, signal.SIGKILL)
        assert waiting.result(60)["status"] == "failed"
        index.hold.set()
        host.until(lambda: install(sandbox, "heldpkg")["status"] == "success", 30, "a new keeper")


def test_a_restart_of_the_kernel_does_not_harm_an_install(box):
    results = [later(install, box, "plainpkg"), later(box.service.post, f"/sandbox/{box.id}/restart")]
    assert results[1].result(60).status_code == 200
    assert results[0].result(60)["status"] == "success"
    assert box.value("__import__('plainpkg').version") == "2.0"


def test_disk_full(private):
    with Index(Wheel("fat", "1", files={"fat.py": "", "data.bin": b"\1" * (24 << 20)})) as index:
        service = private(environment={"HUSK_PACKAGE_INDEX": index.url}).start()
        sandbox = service.create(disk_mb=16)
        assert "No space left" in failed(sandbox, "fat")
        assert sandbox.value("1 + 1") == 2


KILLS = """
import random, subprocess, time
for attempt in range(25):
    install = subprocess.Popen(['/opt/husk/bin/husk-venv', 'install', WHEEL], stdout=subprocess.DEVNULL)
    time.sleep(random.uniform(0.02, 0.4))
    install.kill()
    install.wait()
    subprocess.run(['pkill', '-9', 'uv'])
    if subprocess.run(['/opt/husk/bin/husk-venv', 'recover']).returncode:
        print('recover failed')
    version = subprocess.run(['/opt/husk/bin/husk-venv', 'list'], capture_output=True, text=True).stdout
    if 'changing 2' in version:
        print('done')
        break
"""


def test_an_install_that_is_killed_is_undone(private):
    """Whenever that happens: either all of the new is there, or all of the old."""
    many = {f"changing/part{i}/x{j}.py": f"x = {i}" for i in range(40) for j in range(10)}
    with Index(Wheel("changing", "1", files=many), Wheel("changing", "2", files=many | {"changing/new.py": ""})) as index:
        service = private(environment={"HUSK_PACKAGE_INDEX": index.url}).start()
        sandbox = service.create()
        assert install(sandbox, "changing==1")["status"] == "success"
        before = listing(sandbox)
        first = {path.name for path in (service.cache / "wheels").iterdir()}
        assert install(service.create(), "changing==2")["status"] == "success"
        [wheel] = [path for path in (service.cache / "wheels").iterdir() if path.name not in first]
        [file] = wheel.iterdir()
        killed = KILLS.replace("WHEEL", repr(f"{wheel.name}/{file.name}"))
        for _ in range(3):
            said = sandbox.run(killed, timeout=80)
            assert "failed" not in said
            if "done" in said:
                assert sandbox.value("__import__('os').path.exists('/opt/venv/lib/python3.13/site-packages/changing/new.py')")
                assert install(sandbox, "changing==1")["status"] == "success"
            else:
                assert listing(sandbox) == before
        assert install(sandbox, "changing==2")["status"] == "success"


def test_a_small_sandbox(private, index):
    service = private(environment={"HUSK_PACKAGE_INDEX": index.url}).start()
    sandbox = service.create(memory_mb=64, disk_mb=16, pids=32, cpus=0.5)
    assert install(sandbox, "plainpkg", "with-script")["status"] == "success"
