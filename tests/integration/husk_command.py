"""The `husk` command of the tests: as a script calls it, and on a terminal of its own."""

import json
import os
import subprocess

import pexpect

from service import ANSWER_SECONDS, PROGRAMS

HUSK = str(PROGRAMS / "husk")


def environment(service, **more):
    """What it sees: nothing of whoever runs the tests."""
    url = service if isinstance(service, str) else service.url
    kept = {key: value for key, value in os.environ.items() if key.endswith("SAN_OPTIONS")}
    return {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "LANG": "C.UTF-8", "HUSK_URL": url, **kept, **more}


class Husk:
    """Calls the command, for one service, in a folder of its own."""

    def __init__(self, service, folder):
        self.service, self.folder = service, folder

    def __call__(self, *arguments, status=0, stdin="", cwd=None, env=None, text=True):
        """Run it and check its exit status; gives subprocess's result. `stdin` None: /dev/null."""
        words = [str(argument) for argument in arguments]
        done = subprocess.run(
            [HUSK, *words],
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=text,
            cwd=cwd or self.folder,
            env=environment(self.service, **(env or {})),
            timeout=ANSWER_SECONDS,
        )
        assert done.returncode == status, f"{words}: {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        return done

    def out(self, *arguments, **options):
        return self(*arguments, **options).stdout

    def json(self, *arguments, **options):
        return json.loads(self(*arguments, "--json", **options).stdout)

    def start(self, *arguments, **options):
        """Start it, and do not wait."""
        return subprocess.Popen(
            [HUSK, *[str(argument) for argument in arguments]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            env=environment(self.service),
            **options,
        )

    def terminal(self, *arguments, columns=100, env=None, stdin=None):
        """Start it on a terminal; `stdin` may be a file."""
        words = [HUSK, *[str(argument) for argument in arguments]]
        if stdin:
            words = ["sh", "-c", 'exec "$@" < "$0"', str(stdin), *words]
        return pexpect.spawn(
            words[0],
            words[1:],
            cwd=str(self.folder),
            env=environment(self.service, **{"TERM": "xterm", **(env or {})}),
            dimensions=(30, columns),
            encoding="utf-8",
            timeout=ANSWER_SECONDS,
        )


def ended(child):
    """Wait for the end of a command on a terminal: its exit status, and what it wrote since the last expect()."""
    child.expect(pexpect.EOF)
    child.close()
    return child.exitstatus, child.before
