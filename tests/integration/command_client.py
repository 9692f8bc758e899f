"""What the tests of commands share: detached ones, and processes as the host sees them."""

import uuid

import host


def detach(sandbox, command, **fields):
    answer = sandbox.post("command", json={"command": command, "detach": True, **fields})
    assert answer.status_code == 202, answer.text
    body = answer.json()
    assert set(body) == {"command_id", "pid"} and uuid.UUID(body["command_id"])
    return body


def fetch(sandbox, reference):
    answer = sandbox.service.get(f"{sandbox.path}/commands/{reference}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def result(sandbox, reference, seconds=30):
    return host.until(
        lambda: (found := fetch(sandbox, reference))["status"] != "running" and found, seconds, "the end of a command"
    )


def listed(sandbox):
    answer = sandbox.service.get(f"{sandbox.path}/commands")
    assert answer.status_code == 200, answer.text
    return answer.json()["commands"]


def kill(sandbox, reference):
    return sandbox.service.delete(f"{sandbox.path}/commands/{reference}")


def inside(sandbox, text):
    """The processes inside whose command line has this text, as the host sees them."""
    return [p for p in sandbox.processes() if text in open(f"/proc/{p.pid}/cmdline").read().replace("\0", " ")]


def until_inside(sandbox, text):
    return host.until(lambda: inside(sandbox, text), 20, f"a process with {text}")


def until_gone(sandbox, text):
    host.until(lambda: not inside(sandbox, text), 20, f"the end of processes with {text}")


def until_file(sandbox, name):
    host.until(lambda: sandbox.command(["test", "-e", name])["exit_code"] == 0, 20, name)
