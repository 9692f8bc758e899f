"""A Docker engine to measure against: the one that answers, or else one of our own, if dockerd is installed and we are root. Ours
listens on a socket of its own, has no network, and leaves nothing behind."""

import contextlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import host

START_SECONDS = 30
STOP_SECONDS = 30
FLAGS = ["--iptables=false", "--ip6tables=false", "--bridge=none"]


def answers(environment):
    question = ["docker", "version", "--format", "{{.Server.Version}}"]
    with contextlib.suppress(subprocess.TimeoutExpired):
        return subprocess.run(question, env=environment, capture_output=True, timeout=20, check=False).returncode == 0
    return False


@contextlib.contextmanager
def engine():
    """Gives the environment for calls of `docker`, or None."""
    if not shutil.which("docker"):
        yield None
    elif answers(os.environ):
        yield dict(os.environ)
    elif shutil.which("dockerd") and os.geteuid() == 0:
        with _own_engine() as environment:
            yield environment
    else:
        yield None


@contextlib.contextmanager
def _own_engine():
    # On a disk: it is to hold an image, and to mount overlays as it does for everybody.
    folder = Path(tempfile.mkdtemp(prefix="husk-test-", dir="/var/tmp"))
    environment = {**os.environ, "DOCKER_HOST": f"unix://{folder}/socket"}
    places = [f"--data-root={folder}/data", f"--exec-root={folder}/run", f"--pidfile={folder}/pid"]
    before = _cgroups()
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            ["dockerd", *FLAGS, *places, "-H", environment["DOCKER_HOST"]], stdout=log, stderr=log, start_new_session=True
        )
    try:
        with contextlib.suppress(AssertionError):
            host.until(lambda: process.poll() is not None or answers(environment), START_SECONDS, "dockerd to answer")
        yield environment if answers(environment) else None
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for line in Path("/proc/self/mountinfo").read_text().splitlines():
            if str(folder) in line:
                subprocess.run(["umount", "-l", line.split()[4]], check=False)
        shutil.rmtree(folder, ignore_errors=True)
        for path in _cgroups() - before:
            with contextlib.suppress(OSError):
                path.rmdir()


def _cgroups():
    return set(host.CGROUPS.glob("*/docker"))
