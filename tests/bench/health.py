"""How fast a server answers its simplest question while it does other things: a process of its own asks every ten
milliseconds. It has a high priority, so that what it measures is the server and not its own wait for a core."""

import contextlib
import json
import os
import select
import subprocess
import sys
import time

from client import Http, HttpError

PAUSE_SECONDS = 0.01


class Probe:
    """`samples()` gives the seconds of every answer since it was last called."""

    def __init__(self, port, path="/health"):
        self.process = subprocess.Popen(
            [sys.executable, "-B", __file__, str(port), path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self.samples()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def samples(self):
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, "the probe ended"
        return json.loads(line)


def main(port, path):
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, -20)
    http, samples = Http(port), []
    request = http.request("GET", path)
    while True:
        if select.select([sys.stdin], [], [], PAUSE_SECONDS)[0]:
            if not sys.stdin.readline():
                return
            print(json.dumps(samples), flush=True)
            samples = []
            continue
        start = time.perf_counter()
        with contextlib.suppress(HttpError):  # to say that it is unwell is an answer
            http.call(request)
        samples.append(time.perf_counter() - start)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
