"""Starting huskd: what is wrong is said in a sentence that helps, and nothing is left of a start that failed."""

import os
import re
import shutil
import signal
import socket
import stat
import subprocess

import pytest

import host
from local_index import Index, Wheel
from service import IMAGE, PROGRAMS, Service


def huskd(*arguments, **options):
    """Run huskd to its end."""
    options.setdefault("env", {"PATH": os.environ["PATH"]})
    return subprocess.run([PROGRAMS / "huskd", *arguments], capture_output=True, text=True, timeout=20, **options)


def config(folder, text):
    path = folder / "husk.conf"
    path.write_text(text)
    return str(path)


# --- configuration ---


def test_version():
    result = huskd("--version")
    assert result.returncode == 0 and re.search(r"\d+\.\d+\.\d+", result.stdout)


def test_help():
    result = huskd("--help")
    assert result.returncode == 0
    for flag in (
        "--listen",
        "--state",
        "--config",
        "--image",
        "--check",
        "--print-config",
        "--stop-sandboxes",
        "--no-limits",
    ):
        assert flag in result.stdout


def test_unknown_flag():
    result = huskd("--frobnicate")
    assert result.returncode != 0 and "frobnicate" in result.stderr


@pytest.mark.parametrize(
    "text, line",
    [
        ("[server]\nlisten = 127.0.0.1:8000\nfrobnicate = 1\n", 3),
        ("[nonsense]\nlisten = 1\n", 2),
        ("[server]\nlisten = nowhere\n", 2),
        ("[server]\nlisten = 127.0.0.1:99999\n", 2),
        ("\n\n[limits]\nmax_sandboxes = many\n", 4),
        ("[limits]\nmax_sandboxes = -1\n", 2),
        ("[limits]\n\nmax_sandboxes = 5\nno equals sign\n", 4),
    ],
)
def test_config_errors(folder, text, line):
    path = config(folder, text)
    result = huskd("--config", path, "--check")
    assert result.returncode != 0
    assert f"{path}:{line}" in result.stderr, result.stderr


def test_config_missing():
    result = huskd("--config", "/nonexistent/husk.conf", "--check")
    assert result.returncode != 0 and "/nonexistent/husk.conf" in result.stderr


def test_check_of_a_good_file(folder):
    result = huskd(
        "--image", IMAGE, "--config", config(folder, "# a comment\n[limits]\nmax_sandboxes = 5\n"), "--check"
    )
    assert result.returncode == 0, result.stderr


def test_print_config_is_a_config(folder):
    first = huskd("--print-config", "--listen", "127.0.0.1:1234")
    assert first.returncode == 0 and "[server]" in first.stdout and "127.0.0.1:1234" in first.stdout
    assert "link_seconds = 86400" in first.stdout
    again = huskd("--config", config(folder, first.stdout), "--print-config")
    assert again.returncode == 0 and again.stdout == first.stdout


def test_flags_beat_environment_beats_file(folder):
    path = config(folder, "[server]\nlisten = 127.0.0.1:1001\n")
    environment = {"HUSK_LISTEN": "127.0.0.1:1002"}
    assert "127.0.0.1:1001" in huskd("--config", path, "--print-config").stdout
    assert "127.0.0.1:1002" in huskd("--config", path, "--print-config", env=environment).stdout
    assert (
        "127.0.0.1:1003"
        in huskd("--config", path, "--print-config", "--listen", "127.0.0.1:1003", env=environment).stdout
    )


def test_print_config_hides_the_key(folder):
    result = huskd("--config", config(folder, "[server]\napi_key = correct-horse-battery\n"), "--print-config")
    assert result.returncode == 0 and "correct-horse" not in result.stdout + result.stderr


# --- surroundings ---


def nothing_runs(service):
    host.until(service.is_gone, 10, "everything to go")


def test_image_missing(private):
    service = private(image="/nonexistent/image")
    failed = service.fails_to_start()
    assert "/nonexistent/image" in failed.text and "make image" in failed.text
    nothing_runs(service)


def test_image_broken(private, folder):
    (folder / "opt" / "husk").mkdir(parents=True)
    service = private(image=folder)
    failed = service.fails_to_start()
    assert str(folder) in failed.text and ("kernel.py" in failed.text or "image" in failed.text)
    nothing_runs(service)


def test_port_in_use(private):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        service = private(listen=f"127.0.0.1:{port}")
        failed = service.fails_to_start()
    assert str(port) in failed.text and "in use" in failed.text
    nothing_runs(service)


def test_open_to_the_network_needs_a_key(private):
    for listen in ("0.0.0.0:0", "[::]:8123", "192.0.2.1:8123"):
        failed = private(listen=listen).fails_to_start()
        assert "key" in failed.text, failed.text


def test_open_to_the_network_with_a_key(private):
    service = private(environment={"HUSK_API_KEY": "correct-horse-battery"})
    service.listen = f"0.0.0.0:{service.port}"
    service.start()
    assert service.get("/sandboxes").status_code == 401
    assert service.get("/sandboxes", headers={"X-API-Key": "correct-horse-battery"}).status_code == 200


def test_loopback_of_ipv6(private):
    service = private()
    service.listen = f"[::1]:{service.port}"
    service.url = f"http://[::1]:{service.port}"
    service.start()
    assert service.get("/sandboxes").status_code == 200


def test_state_directory_with_a_long_name(private):
    service = private()
    own, service.state = service.state, service.folder / ("long" * 30)
    assert "too long" in service.fails_to_start().text
    service.state = own


def test_state_directory_cannot_be_made(private):
    service = private()
    service.state = "/proc/nowhere/state"
    failed = service.fails_to_start()
    assert "/proc/nowhere" in failed.text
    service.state = service.folder / "state"


def test_second_service_on_one_state_directory(private, service):
    second = private()
    own, second.state = second.state, service.state
    failed = second.fails_to_start()
    assert str(service.state) in failed.text
    second.state = own
    assert service.get("/health").status_code == 200


def test_state_directory_is_private(service):
    mode = service.state.stat().st_mode
    assert not mode & (stat.S_IWGRP | stat.S_IWOTH)
    for path in service.state.rglob("*"):
        assert not path.lstat().st_mode & stat.S_IWOTH, path


def connects_as_nobody(path):
    """Can a process of no particular user connect to this socket?"""
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setresgid(65534, 65534, 65534)
        os.setresuid(65534, 65534, 65534)
        for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
            try:
                socket.socket(socket.AF_UNIX, kind).connect(str(path))
                os._exit(1)
            except OSError:
                continue
        os._exit(0)
    return os.waitpid(child, 0)[1] != 0


def test_sockets_are_private(service, create):
    """Another user of the host reaches neither the keeper nor a shim."""
    create()
    sockets = [path for path in service.state.rglob("*") if path.is_socket()]
    assert len(sockets) >= 2
    assert not [path for path in sockets if connects_as_nobody(path)]


def test_service_runs_without_privileges(service):
    """root of the host is needed for nothing after the start."""
    assert service.process is not None
    huskd_itself = host.Process(service.process.pid)
    inside = [service.anchor(), service.keeper(), *service.programs("husk-shim")]
    for process in [huskd_itself, *inside]:
        assert "0" not in process.status("Uid").split(), process
        assert "0" not in process.status("Gid").split(), process
    assert int(huskd_itself.status("CapEff"), 16) == 0 and int(huskd_itself.status("CapPrm"), 16) == 0
    mine = os.readlink("/proc/self/ns/user")
    assert all(process.namespace("user") != mine for process in inside)


def test_state_directory_of_somebody_else(private):
    """Its owner could exchange it while root works in it."""
    service = private()
    service.state.mkdir()
    os.chown(service.state, 65534, 65534)
    failed = service.fails_to_start()
    assert "not safe" in failed.text and "--state" in failed.text, failed.text
    os.chown(service.state, 0, 0)
    service.state.chmod(0o777)
    assert "not safe" in service.fails_to_start().text
    service.state.rmdir()


def test_links_in_the_state_directory_lead_nowhere(private, folder):
    """Whoever takes over the keeper owns the state directory; the warden, which is root, must not be led away by it."""
    victim = folder / "victim"
    victim.mkdir()
    (victim / "file").write_text("stays")
    service = private().start()
    shims = service.state / "shims"
    shims.rename(service.state / "old")
    shims.symlink_to(victim)
    assert service.stop(signal.SIGINT) == 0
    assert (victim / "file").exists()
    shutil.rmtree(service.state)


def test_locks_are_for_nobody_else(service):
    for name in ("lock", "anchor.lock"):
        assert (service.state / name).stat().st_mode & 0o007 == 0


# --- ordinary users ---


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


class User:
    """A user of the host for the time of a test, by default without subordinate ids."""

    def __init__(self, first_id=None):
        self.name = f"husktest{os.getpid()}"
        run("useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", self.name)
        if first_id:
            ids = f"{first_id}-{first_id + 65535}"
            run("usermod", "--add-subuids", ids, "--add-subgids", ids, self.name)
        self.uid, self.gid = int(run("id", "-u", self.name)), int(run("id", "-g", self.name))

    def remove(self):
        # By force, as its ids are in use: sandboxes of the service that root started have them too.
        run("userdel", "--force", self.name)


@pytest.fixture
def started_by(private):
    """A service that an ordinary user starts."""
    made = []

    def make(user, *arguments):
        made.append(user)
        service = private(*arguments)
        service.move_programs(service.folder / "programs")
        os.chown(service.folder, user.uid, user.gid)
        service.user = {"user": user.uid, "group": user.gid, "extra_groups": []}
        service.environment |= {"USER": user.name, "HOME": "/nonexistent"}
        return service

    yield make
    for user in made:
        user.remove()


def test_user_without_subordinate_ids(started_by):
    user = User()
    failed = started_by(user, "--no-limits").fails_to_start()
    assert "subordinate ids" in failed.text and user.name in failed.text and "usermod" in failed.text, failed.text


def test_user_without_delegated_limits(started_by):
    """Nothing of the cgroups was given to this user: huskd says so, and what to do."""
    failed = started_by(User(200_000), "--no-limits=no").fails_to_start()
    assert "--no-limits" in failed.text and "root" in failed.text, failed.text


def test_user_with_subordinate_ids(started_by, harness):
    """The range begins where the ids of the image do, so that its files have an owner in the user's namespace."""
    service = started_by(User(IMAGE.stat().st_uid), "--no-limits").start()
    sandbox = service.create()
    assert sandbox.execute("1 + 1")["results"][0]["data"] == "2"
    assert sandbox.value("__import__('os').getuid()") == 1000
    assert sandbox.post("upload", files={"file": ("x", b"content")}).status_code == 200
    assert service.get(f"{sandbox.path}/files").json()[0]["path"] == "x"
    with Index(Wheel("plainpkg")) as index:
        assert service.stop() == 0
        service.environment["HUSK_PACKAGE_INDEX"] = index.url
        service.start()
        assert "Successfully installed plainpkg-1.0" in sandbox.run("!pip install plainpkg")
    assert sandbox.close().status_code == 200
    sandbox = service.create()
    namespace = sandbox.namespace("pid")
    harness.end(service)
    assert not host.within("pid", namespace)


def test_programs_can_be_anywhere(private, folder):
    """huskd finds the others beside itself, not in the current directory."""
    service: Service = private()
    service.move_programs(folder)
    service.start()
    sandbox = service.create()
    assert sandbox.works()
