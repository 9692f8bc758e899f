"""Packages: installing them through the API, from an index of the tests' own and from the real one."""

import json
import os
import signal
import socket
import subprocess
import time

import pytest
import requests

import host
from local_index import Index, Wheel
from package_client import failed, install, installed, listing, state
from service import problem

LOGIN = "reader:s3cr3t-of-the-index"


@pytest.fixture(scope="module")
def index():
    with Index(
        Wheel("plainpkg", "1.0"),
        Wheel("plainpkg", "2.0", requires=["depends-on-me>=1"]),
        Wheel("depends-on-me", "1.5"),
        Wheel("Mixed.Case_Name", "0.1", files={"mixed_case_name.py": "x = 1\n"}),
        Wheel("with-script", "1.0", scripts={"greet-me": "with_script:main"},
              files={"with_script/__init__.py": "def main(): print('hello from a script')\n"}),
        Wheel("needs-old", "1.0", requires=["plainpkg<2"]),
        Wheel("needs-new", "1.0", requires=["plainpkg>=2"]),
        login=LOGIN,
    ) as index:  # fmt: skip
        index.sdists["only-source"] = ["only-source-1.0.tar.gz"]
        yield index


# ---- the ways to ask -----------------------------------------------------------------------------


def test_install_and_import(box):
    result = install(box, "plainpkg==1.0")
    assert result["status"] == "success" and result["error"] is None and not result["restart_needed"], result
    assert result["installed"] == [{"name": "plainpkg", "version": "1.0"}]
    assert "Collecting plainpkg==1.0" in result["output"] and "Successfully installed plainpkg-1.0" in result["output"]
    assert box.value("__import__('plainpkg').version") == "1.0"
    assert installed(box)["plainpkg"] == "1.0"
    assert state(box, "plainpkg") == {"name": "plainpkg", "status": "installed", "version": "1.0", "error": None}


def test_package_name_and_dependencies(box):
    answer = box.service.post(f"/sandbox/{box.id}/install", json={"package_name": "plainpkg"}).json()
    assert {one["name"]: one["version"] for one in answer["installed"]} == {"plainpkg": "2.0", "depends-on-me": "1.5"}


def test_already_there(box):
    install(box, "plainpkg==1.0")
    again = install(box, "plainpkg")
    assert again["status"] == "success" and "Requirement already satisfied: plainpkg" in again["output"]
    assert again["installed"] == [{"name": "plainpkg", "version": "1.0", "already": True}]
    assert install(box, "plainpkg", upgrade=True)["installed"][-1]["version"] == "2.0"


def test_requirements_text(box):
    text = "# what we need\n\nplainpkg == 1.0   # pinned\nwith-script ; python_version >= '3'\n"
    answer = box.service.post(f"/sandbox/{box.id}/install", json={"requirements": text}).json()
    assert {one["name"] for one in answer["installed"]} == {"plainpkg", "with-script"}


def test_requirements_file_by_name(box):
    box.run("open('requirements.txt', 'w').write('plainpkg==1.0\\n')")
    answer = box.service.post(f"/sandbox/{box.id}/install", json={"requirements_file": "requirements.txt"}).json()
    assert answer["status"] == "success" and installed(box)["plainpkg"] == "1.0"
    for path in ("none.txt", "../../etc/passwd", "/etc/passwd"):
        wrong = box.service.post(f"/sandbox/{box.id}/install", json={"requirements_file": path})
        assert wrong.status_code in (404, 422), wrong.text


def test_names_are_normalised_and_sandboxes_have_names(shop):
    sandbox = shop.create(name="by-name")
    try:
        answer = shop.post("/sandbox/by-name/install", json={"package_name": "mixed_case.name"}).json()
        assert answer["status"] == "success", answer
        for name in ("Mixed.Case_Name", "mixed-case-name", "MIXED__CASE..NAME"):
            assert shop.get(f"/sandbox/by-name/packages/{name}").json()["status"] == "installed"
        problem(shop.get("/sandbox/by-name/packages/-bad-"), 422, "invalid_field")
        problem(shop.get("/sandbox/nobody/packages"), 404, "sandbox_not_found")
        problem(shop.post("/sandbox/nobody/install", json={"package_name": "x"}), 404, "sandbox_not_found")
    finally:
        sandbox.close()


def test_scripts_are_found(box):
    install(box, "with-script")
    assert "hello from a script" in box.run("!greet-me")


def test_without_waiting(box, index):
    index.hold.clear()
    try:
        answer = box.service.post(f"/sandbox/{box.id}/install", json={"packages": ["with-script"], "wait": False})
        assert answer.status_code == 202 and answer.json()["status"] == "installing"
        assert state(box, "with-script")["status"] in ("installing", "installed")
    finally:
        index.hold.set()

    def done():
        now = state(box, "with-script")
        assert now["status"] != "failed", now
        return now["status"] == "installed"

    host.until(done, 60, "the install")


@pytest.mark.parametrize("accept", ["text/event-stream", "application/x-ndjson"])
def test_progress_is_streamed(box, accept):
    url = f"{box.service.url}/sandbox/{box.id}/install"
    with requests.post(url, json={"packages": ["plainpkg"]}, headers={"Accept": accept}, stream=True) as answer:
        assert answer.status_code == 200 and answer.headers["Content-Type"] == accept
        lines = [line.decode() for line in answer.iter_lines() if line.startswith((b"data: ", b"{"))]
    events = [json.loads(line.removeprefix("data: ")) for line in lines]
    assert [one["event"] for one in events[:-1]] == ["progress"] * (len(events) - 1)
    assert any("Successfully installed" in one["text"] for one in events[:-1])
    assert events[-1]["event"] == "end" and events[-1]["status"] == "success"


def test_create_with_packages(shop):
    sandbox = shop.create(packages=["plainpkg==1.0"])
    assert sandbox.value("__import__('plainpkg').version") == "1.0"
    sandbox.close()
    before = set(shop.sandboxes())
    body = problem(shop.post("/sandbox/create", json={"packages": ["no-such-thing"]}), 422, "install_failed")
    assert "no-such-thing" in body["detail"]
    host.until(lambda: set(shop.sandboxes()) == before, 10, "the sandbox to be gone")
    problem(shop.post("/sandbox/create", json={"packages": ["../x"]}), 422, "invalid_field")
    problem(shop.post("/sandbox/create", json={"packages": "x"}), 422, "invalid_field")


def test_create_with_packages_takes_a_warm_one(private, index):
    service = private(pool=1, environment={"HUSK_PACKAGE_INDEX": index.url}).start()
    host.until(lambda: service.get("/health").json()["sandboxes"]["warm"] == 1, 30, "a warm sandbox")
    sandbox = service.create(packages=["plainpkg==1.0"], name="furnished")
    assert sandbox.created["installed"] == [{"name": "plainpkg", "version": "1.0"}]
    assert sandbox.value("__import__('plainpkg').version") == "1.0"


@pytest.mark.parametrize("pool", [0, 1])
def test_who_asked_for_a_sandbox_with_packages_goes_away(private, pool):
    with Index(Wheel("heldpkg", "1")) as index:
        service = private(pool=pool, environment={"HUSK_PACKAGE_INDEX": index.url}).start()
        index.hold.clear()
        with pytest.raises(requests.exceptions.ReadTimeout):
            requests.post(f"{service.url}/sandbox/create", json={"packages": ["heldpkg"]}, timeout=3)
        host.until(lambda: not service.sandboxes() and not service.programs("husk-fetcher"), 20, "nothing to be left of it")


# ---- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ["", " ", "-r x.txt", "--index-url=http://evil", "-e .", "https://evil/x.whl", "x @ http://evil/x.whl", "./x", "/etc/passwd",
     "x.whl", "a b", "name==", "name[", "name[a", "name>=1 --hash=x", "name;$(id)", "ä", "a\nb", "-", "name@1", "x" * 600,
     "name ; python_version > '3' # x\n--pre"],
)  # fmt: skip
def test_strange_requirements_are_refused(box, text):
    problem(box.service.post(f"/sandbox/{box.id}/install", json={"packages": [text]}), 422, "invalid_field")


def test_strange_bodies(box):
    for body in ({}, {"packages": "x"}, {"packages": [1]}, {"packages": []}, {"package_name": 5}, {"wait": "x", "packages": ["a"]}):
        problem(box.service.post(f"/sandbox/{box.id}/install", json=body), 422, "invalid_field")
    many = {"packages": [f"p{i}" for i in range(300)]}
    problem(box.service.post(f"/sandbox/{box.id}/install", json=many), 422, "invalid_field")
    text = {"requirements": "--extra-index-url http://evil\nplainpkg\n"}
    assert "option" in problem(box.service.post(f"/sandbox/{box.id}/install", json=text), 422)["detail"]


# ---- what cannot be had --------------------------------------------------------------------------


def test_no_such_package(box):
    error = failed(box, "no-such-thing")
    assert "Could not find a version that satisfies the requirement no-such-thing" in error
    assert "No matching distribution found for no-such-thing" in error
    assert state(box, "no-such-thing")["status"] == "failed" and "No matching" in state(box, "no-such-thing")["error"]
    assert state(box, "never-heard-of")["status"] == "not_installed"


def test_no_such_version(box):
    assert "No matching distribution found for plainpkg" in failed(box, "plainpkg==7")
    assert "No matching distribution found for plainpkg>7" in failed(box, "plainpkg>7")


def test_source_only(box):
    error = failed(box, "only-source")
    assert "Only wheels" in error and "only-source" in error


def test_conflict(box):
    error = failed(box, "needs-old", "needs-new")
    assert "plainpkg<2" in error and "plainpkg>=2" in error and "ResolutionImpossible" in error


def test_one_bad_one_installs_none(box):
    failed(box, "plainpkg", "no-such-thing")
    assert "plainpkg" not in installed(box)


# ---- replacing -----------------------------------------------------------------------------------


def test_replacing_what_is_imported_says_so(box):
    install(box, "plainpkg==1.0")
    box.run("import plainpkg")
    result = install(box, "plainpkg==2.0")
    assert result["restart_needed"] and "restart" in result["message"] and "restart the kernel" in result["output"]
    assert box.value("plainpkg.version") == "1.0"
    assert box.service.post(f"/sandbox/{box.id}/restart").status_code == 200
    assert box.value("__import__('plainpkg').version") == "2.0"


def test_replacing_leaves_nothing_of_the_old(harness, private):
    with Index(
        Wheel("changing", "1", files={"changing/__init__.py": "", "changing/old.py": "", "changing/deep/er/x.py": ""}),
        Wheel("changing", "2", files={"changing.py": "x = 2\n"}),
    ) as index:
        sandbox = private(environment={"HUSK_PACKAGE_INDEX": index.url}).start().create()
        install(sandbox, "changing==1")
        assert install(sandbox, "changing==2")["status"] == "success"
        assert sandbox.value("__import__('changing').x") == 2
        assert sandbox.value("__import__('os').path.exists('/opt/venv/lib/python3.13/site-packages/changing')") is False
        assert sandbox.value("__import__('os').path.exists('/opt/venv/.husk')") is False


# ---- the cache -----------------------------------------------------------------------------------


def test_second_install_is_fast_and_works_without_the_index(private):
    with Index(Wheel("cachedpkg", "1.0", requires=["cached-too"]), Wheel("cached-too", "1.0")) as index:
        service = private(environment={"HUSK_PACKAGE_INDEX": index.url}).start()
        assert install(service.create(), "cachedpkg")["status"] == "success"
        assert len(index.downloads) == 2
        began = time.monotonic()
        second = install(service.create(), "cachedpkg")
        assert second["status"] == "success" and "Using cached cachedpkg" in second["output"]
        assert time.monotonic() - began < 5  # well under a second on a machine that has nothing else to do
        assert len(index.downloads) == 2
    third = install(service.create(), "cachedpkg")
    assert third["status"] == "success" and "cannot be reached" in third["output"], third
    fourth = install(service.create(), "something-else")
    assert fourth["status"] == "failed"


def test_sandboxes_cannot_list_or_change_the_cache(box):
    install(box, "plainpkg==1.0")
    result = box.run(
        "import os\n"
        "for action in (lambda: os.listdir('/opt/husk/wheels'), lambda: open('/opt/husk/wheels/x', 'w'),\n"
        "               lambda: os.mkdir('/opt/husk/wheels/y'), lambda: os.remove('/opt/husk/bin/pip'),\n"
        "               lambda: open('/opt/tools/uv', 'r+')):\n"
        "    try:\n        action(); print('done')\n    except OSError as error:\n        print(error.errno)\n"
    )
    assert "done" not in result and len(result.split()) == 5


def test_the_oldest_wheels_are_removed(private):
    big = {"big.bin": b"\0" * (9 << 20)}
    with Index(*[Wheel(f"big{i}", "1", files=big | {f"big{i}.py": f"x = {i}"}) for i in range(3)]) as index:
        service = private("--package-cache-mb", "16", environment={"HUSK_PACKAGE_INDEX": index.url}).start()
        sandbox = service.create()
        wheels = service.cache / "wheels"
        assert install(sandbox, "big0")["status"] == "success"
        [first] = wheels.iterdir()
        os.utime(first, (1, 1))
        assert install(sandbox, "big1")["status"] == "success"
        host.until(lambda: not first.exists(), 10, "the older one to go: 18 MB are more than 16")
        assert sandbox.value("__import__('big0').x") == 0


class HalfIndex(Index):
    """Sends half of a wheel, then waits."""

    def send(self, handler, status, data, kind="text/plain"):
        if not handler.headers.get("User-Agent", "").startswith("curl"):
            return super().send(handler, status, data, kind)
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data[: len(data) // 2])
        handler.wfile.flush()
        self.hold.clear()
        self.hold.wait(60)


def downloading(service):
    return sum(path.stat().st_size for path in (service.cache / "parts").rglob("wheel"))


@pytest.mark.parametrize("killed", [False, True])
def test_half_a_download_is_not_kept(private, killed):
    """Else a sandbox could fill the host's disk, asking and hanging up in turns."""
    with HalfIndex(Wheel("halfpkg", "1", files={"big.bin": b"\0" * (4 << 20)})) as index:
        service = private(environment={"HUSK_PACKAGE_INDEX": index.url}).start()
        sandbox = service.create()
        body = json.dumps({"packages": ["halfpkg"]})
        with socket.create_connection(("127.0.0.1", service.port)) as caller:
            caller.sendall(
                f"POST {sandbox.path}/install HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\n\r\n{body}".encode()
            )
            host.until(lambda: downloading(service) > 1 << 20, 30, "half of it to arrive")
            if killed:
                [os.kill(fetcher.pid, signal.SIGKILL) for fetcher in service.programs("husk-fetcher")]
        host.until(lambda: not service.programs("husk-fetcher"), 10, "the fetcher to be gone")
        index.hold.set()
        if killed:
            failed(sandbox, "no-such-thing")  # the next one cleans up
        host.until(lambda: downloading(service) == 0, 10, "half a download to go")
        assert not list((service.cache / "parts").iterdir())


# ---- secrets and lists ---------------------------------------------------------------------------


def test_credentials_appear_nowhere(shop, box):
    secrets = ["s3cr3t-of-the-index", "reader:s3cr3t"]
    texts = [json.dumps(install(box, "plainpkg==1.0", "with-script")), json.dumps(install(box, "no-such-thing"))]
    texts.append(box.run("import os, subprocess\nprint(os.environ)\n!pip install nothing-like-it; pip config list; env\n"
                         "print(subprocess.run('cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null; grep -rs s3cr3t /run/husk /opt/husk /etc', shell=True, capture_output=True).stdout)"))  # fmt: skip
    texts.append(shop.log())
    for process in host.processes():
        if process.pid != shop.process.pid and process.in_cgroup(shop.tree):
            for name in ("environ", "cmdline"):
                try:
                    texts.append(open(f"/proc/{process.pid}/{name}", errors="replace").read())
                except OSError:
                    pass
    texts.append("".join(str(path) for path in shop.cache.rglob("*")))
    for path in (shop.cache / "wheels").rglob("*"):
        if path.is_file():
            texts.append(path.read_bytes().decode("latin-1"))
    for secret in secrets:
        assert all(secret not in text for text in texts)
    assert "s3cr3t" not in shop.get(f"/sandbox/{box.id}/packages/no-such-thing").text


def test_settings_do_not_print_secrets(shop):
    out = subprocess.run([*shop.command(), "--print-config"], env=shop.environment, capture_output=True, text=True).stdout
    assert "[packages]" in out and "index_url is set" in out and "s3cr3t" not in out


def test_allow_and_deny(private, index):
    service = private("--package-allow", "plain*, with-script", "--package-deny", "depends-on-me,with-script",
                      environment={"HUSK_PACKAGE_INDEX": index.url}).start()  # fmt: skip
    sandbox = service.create()
    assert install(sandbox, "plainpkg==1.0")["status"] == "success"
    url = f"/sandbox/{sandbox.id}/install"
    problem(service.post(url, json={"packages": ["Mixed.Case_Name"]}), 403, "package_not_allowed")
    problem(service.post(url, json={"packages": ["with_script"]}), 403, "package_not_allowed")
    assert "depends-on-me" in failed(sandbox, "plainpkg==2.0")
    inside = sandbox.execute("!pip install needs-old; echo code $?")
    assert "may not be installed" in inside["stderr"] and "code 1" in inside["stdout"]


def test_switched_off(private):
    service = private("--packages=no").start()
    sandbox = service.create()
    problem(service.post(f"/sandbox/{sandbox.id}/install", json={"packages": ["six"]}), 403, "packages_disabled")
    assert "switched that off" in sandbox.execute("!pip install six")["stderr"]
    assert not service.cache.exists()
    assert "numpy" in installed(sandbox)


def test_size_limit(private):
    with Index(Wheel("large", "1", files={"large.py": "", "data.bin": b"\0" * (3 << 20)})) as index:
        service = private("--package-max-mb", "1", environment={"HUSK_PACKAGE_INDEX": index.url}).start()
        assert "larger than what may be downloaded" in failed(service.create(), "large")
        assert not [path for path in (service.cache / "wheels").iterdir()]


def test_time_limit(private):
    with Index(Wheel("slow", "1")) as index:
        index.hold.clear()
        service = private("--package-timeout-seconds", "2", environment={"HUSK_PACKAGE_INDEX": index.url}).start()
        began = time.monotonic()
        assert "too long" in failed(service.create(), "slow")
        assert time.monotonic() - began < 30
        host.until(lambda: not service.programs("husk-fetcher"), 10, "the fetcher to be gone")


# ---- the real index ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def reachable(service):
    """A sandbox of a service without any setting. A machine without a package index could not have built the image."""
    sandbox = service.create()
    yield sandbox
    sandbox.close()


def test_real_index_pure_and_binary(reachable):
    result = install(reachable, "toolz", "ujson")
    assert result["status"] == "success", result
    assert reachable.value("__import__('ujson').dumps(__import__('toolz').identity([1]))") == "[1]"


def test_real_index_no_such_package(reachable):
    assert "No matching distribution" in failed(reachable, "husk-no-such-package-at-all")


def test_replacing_a_package_of_the_image(reachable):
    """It was imported before the kernel was forked, and a fresh kernel must have the new one."""
    before = reachable.value("__import__('numpy').__version__")
    result = install(reachable, f"numpy!={before}")
    assert result["status"] == "success" and result["restart_needed"], result
    assert reachable.service.post(f"/sandbox/{reachable.id}/restart").status_code == 200
    after = reachable.value("__import__('numpy').__version__")
    assert after != before and after == installed(reachable)["numpy"]
