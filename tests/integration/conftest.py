"""Fixtures: a service for the whole session, sandboxes, services of one's own, and the check that nothing is left."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

import host
from prompt import Prompt
from service import IMAGE, Service, sanitized


class Harness:
    """Everything the session starts goes through here, so that the end of the session can account for it."""

    def __init__(self):
        self.first_id = IMAGE.stat().st_uid
        self.files = host.files(self.first_id)
        # Short, and under /run: the paths of unix sockets are limited to 107 bytes.
        self.folder = Path(tempfile.mkdtemp(prefix="husk-test-", dir=os.environ.get("HUSK_TEST_FOLDER", "/run")))
        self.folder.chmod(0o755)
        self.services = []
        self.remains = []
        host.become_reaper()

    def service(self, *arguments, **options):
        folder = self.folder / str(len(self.services))
        folder.mkdir()
        service = Service(folder, *arguments, **options)
        self.services.append(service)
        return service

    def end(self, service):
        """End a service. What it leaves in its state directory is remembered, then removed."""
        if service not in self.services or not service.folder.exists():
            return
        try:
            service.end()
        except Exception as error:
            self.remains.append(f"service {service.folder.name} did not end by itself: {error}")
            service.kill()
        self.reap()
        if service.state.exists():
            self.remains += [f"file {path}" for path in service.state.rglob("*")]
        for line in service.log().splitlines():
            if "Sanitizer" in line or "runtime error:" in line:
                self.remains.append(f"log of {service.folder.name}: {line}")
        shutil.rmtree(service.folder)

    def reap(self):
        host.reap({service.process.pid for service in self.services if service.process})

    def end_all(self):
        for service in self.services:
            self.end(service)

    def leaks(self):
        """What is left of all services, as lines for people."""
        self.reap()
        found = list(self.remains)
        found += [f"process {process}" for process in host.descendants(os.getpid())]
        found += [f"mount {line}" for line in host.mounts_with(str(self.folder))]
        found += [f"cgroup {path}" for path in sorted(host.cgroups_with(self.folder.name))]
        found += [f"file {path}" for path in sorted(host.files(self.first_id) - self.files)]
        return found


@pytest.fixture(scope="session")
def harness():
    harness = Harness()
    yield harness
    try:
        harness.end_all()
        leaks = harness.leaks()
    finally:
        shutil.rmtree(harness.folder)
    assert not leaks, "left behind:\n" + "\n".join(leaks)


@pytest.fixture(scope="session", autouse=True)
def nothing_left(harness):
    """Every run of the tests ends with the check, whichever tests were chosen."""


@pytest.fixture(scope="session")
def service(harness):
    """The service that tests share: defaults everywhere."""
    return harness.service().start()


@pytest.fixture
def private(harness):
    """Make services of the test's own (not yet started); they are ended with the test."""
    made = []

    def make(*arguments, **options):
        made.append(harness.service(*arguments, **options))
        return made[-1]

    yield make
    for service in made:
        harness.end(service)


@pytest.fixture
def folder(harness):
    """An empty directory that every user of the host may read."""
    path = Path(tempfile.mkdtemp(dir=harness.folder))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def _sandboxes(service):
    made = []

    def make(**fields):
        made.append(service.create(**fields))
        return made[-1]

    yield make
    for sandbox in made:
        assert sandbox.close().status_code in (200, 410)


@pytest.fixture
def create(service):
    """Make sandboxes; they are closed with the test."""
    yield from _sandboxes(service)


@pytest.fixture(scope="module")
def create_shared(service):
    yield from _sandboxes(service)


@pytest.fixture
def sandbox(create):
    """A sandbox that no other test has seen."""
    return create()


@pytest.fixture(scope="module")
def shared(create_shared):
    """A sandbox that the tests of a file share, for tests that leave its state as it was."""
    return create_shared()


@pytest.fixture(scope="module")
def neighbour(create_shared):
    """A sandbox that must come through everything that happens to the others."""
    sandbox = create_shared(name="neighbour")
    sandbox.run("untouched = 'yes'")
    return sandbox


@pytest.fixture
def unharmed(service, neighbour):
    """Whatever the test does to its sandbox, the service and the neighbour must be well afterwards."""
    yield
    assert neighbour.value("untouched") == "yes"
    assert service.get("/health").json()["status"] == "healthy"


@pytest.fixture
def bounded(service):
    """Whatever the test does, huskd and the shims never need much memory. Sanitizers need a multiple."""
    limit = (1000 if sanitized() else 150) << 20

    def programs():
        return [host.Process(service.process.pid), *service.programs("husk-shim")]

    for process in programs():
        process.forget_peak()
    yield
    for process in programs():
        assert process.peak_bytes < limit, process


@pytest.fixture(scope="module")
def fake_image():
    """The image, file by file linked, with fake_kernel.py in the place of its kernel."""
    copy = IMAGE.with_name(f"test-fake-kernel-{os.getpid()}")
    subprocess.run(["cp", "-al", IMAGE, copy], check=True)
    kernel = copy / "opt/husk/kernel.py"
    owner, mode = kernel.stat(), kernel.stat().st_mode
    kernel.unlink()
    shutil.copyfile(Path(__file__).with_name("fake_kernel.py"), kernel)
    kernel.chmod(mode)
    os.chown(kernel, owner.st_uid, owner.st_gid)
    yield copy
    shutil.rmtree(copy)


@pytest.fixture(scope="module")
def faking(harness, fake_image):
    service = harness.service(image=fake_image).start()
    yield service
    harness.end(service)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """A failure shows the last lines of the logs of the services that were running."""
    report = yield
    if report.failed and "harness" in item.funcargs:
        for service in item.funcargs["harness"].services:
            if service.folder.exists() and service.log():
                tail = "\n".join(service.log().splitlines()[-25:])
                report.sections.append((f"log of {service.folder}", tail))
    return report


# --- packages --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shop(harness, index):
    """A service whose packages come from the `index` of the test's file."""
    service = harness.service(environment={"HUSK_PACKAGE_INDEX": index.url}).start()
    yield service
    harness.end(service)


@pytest.fixture
def box(shop):
    sandbox = shop.create()
    yield sandbox
    sandbox.close()


# --- prompts ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def start(service, folder):
    """Start prompts; they are ended with the test, and so are their sandboxes."""
    before = set(service.sandboxes())
    made = []

    def begin(*arguments, **options):
        made.append(Prompt(options.pop("of", service), folder, *arguments, **options))
        return made[-1]

    yield begin
    for prompt in made:
        prompt.child.close(force=True)
    for left in set(service.sandboxes()) - before:
        service.delete(f"/sandbox/{left}")


@pytest.fixture
def prompt(start):
    """One in a new sandbox, ready for the first cell."""
    prompt = start()
    prompt.until_prompt(1)
    return prompt
