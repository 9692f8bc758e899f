"""How long a caller waits for the result of a cell: over REST, next to jupyter_client on the very same kernel.

REST is a plain socket kept open, with requests that were put together before: what is measured is Husk, not a client.
Its answer is parsed as JSON, as jupyter_client parses its messages. jupyter_client is called from the host through the
sandbox's own ipc sockets; it has an execution when it has the reply, the idle status and all output between.

The two take turns. jupyter_client is subscribed to the outputs only in its turns, so it does not slow down Husk's. The
shim listens in all of them: that costs jupyter_client a little where cores are few.
"""

import functools
import itertools
import json

import measure
from client import Http
from jupyter_client.blocking import BlockingKernelClient

TURN = 10  # calls of the one before it is the other's turn
FIGURE = """
import matplotlib.pyplot as plt
plt.figure(figsize=(3, 2))
plt.plot([1, 4, 9])
plt.show()
"""

# name, code, calls, what must come out: stdout, and the beginning of one of the results
ROWS = [
    ("pass", "pass", 1000, "", None),
    ("1+1", "1+1", 1000, "", "2"),
    ("print(1)", "print(1)", 1000, "1\n", None),
    ("print of 1 MB", "print('x' * 1_000_000)", 150, "x" * 1_000_000 + "\n", None),
    ("small figure", FIGURE, 60, "", "iVBOR"),
]
BASELINE = "jupyter_client"
RATIO = {"1+1": 0.8}  # of Husk's p50 to jupyter_client's, at most


class Rest:
    """A connection to Husk, for the cells of one sandbox."""

    def __init__(self, service, sandbox):
        self.http = Http(service.port)
        self.path = f"{sandbox.path}/execute"

    def request(self, code):
        return self.http.request("POST", self.path, {"code": code})

    def call(self, request):
        return self.http.call(request)

    @staticmethod
    def outputs(answer):
        return answer["stdout"], [result["data"] for result in answer["results"]]

    def close(self):
        self.http.close()


class Jupyter:
    """jupyter_client's BlockingKernelClient on the kernel of a sandbox."""

    def __init__(self, sandbox):
        folder = f"/proc/{sandbox.init().pid}/root/run/husk"
        with open(f"{folder}/kernel-1.json") as file:
            connection = json.load(file)
        prefix = connection["ip"].rpartition("/")[2]
        self.turns = itertools.count()
        self.client = BlockingKernelClient()
        self.client.load_connection_info({**connection, "ip": f"{folder}/{prefix}"})
        self.client.start_channels(stdin=False, hb=False)
        self.iopub = self.client.iopub_channel.socket
        self.client.wait_for_ready(timeout=30)
        self.unsubscribe()

    def subscribe(self):
        """To all outputs, and then to a topic that is new to the kernel: when it welcomes that one, it has both."""
        topic = f"turn-{next(self.turns)}".encode()
        self.iopub.subscribe(b"")
        self.iopub.subscribe(topic)
        while self.client.get_iopub_msg(timeout=30)["msg_type"] != "iopub_welcome":
            pass
        self.iopub.unsubscribe(topic)

    def unsubscribe(self):
        self.iopub.unsubscribe(b"")

    def call(self, code):
        messages = []
        reply = self.client.execute_interactive(code, allow_stdin=False, output_hook=messages.append, timeout=60)
        assert reply["content"]["status"] == "ok", reply
        return messages

    @staticmethod
    def outputs(messages):
        contents = [message["content"] for message in messages]
        stdout = "".join(content["text"] for content in contents if content.get("name") == "stdout")
        return stdout, [data for content in contents for data in content.get("data", {}).values()]

    def close(self):
        self.client.stop_channels()


def compare(rest, jupyter, name, code, calls, stdout, result):
    """One row: the times of both, in turns."""
    request = rest.request(code)
    contenders = [
        (lambda: None, functools.partial(rest.call, request), lambda: None),
        (jupyter.subscribe, functools.partial(jupyter.call, code), jupyter.unsubscribe),
    ]
    measure.take_turns(contenders, TURN, TURN)  # warm
    for client, (enter, call, leave) in zip((rest, jupyter), contenders):
        enter()
        printed, results = client.outputs(call())
        leave()
        assert printed == stdout, printed[:200]
        assert any(data.startswith(result) for data in results) if result else not results, results
    husk, other = measure.take_turns(contenders, calls, TURN)
    row = measure.timed(name, husk, {BASELINE: other})
    if name in RATIO:
        row.target = ("ratio", RATIO[name], BASELINE)
    return row


def run(full):
    rows = []
    with measure.running_service() as service:
        sandbox = service.create()
        rest, jupyter = Rest(service, sandbox), Jupyter(sandbox)
        try:
            for name, code, calls, *expected in ROWS:
                measure.progress(f"round trips: {name}")
                rows.append(compare(rest, jupyter, name, code, calls if full else calls // 4, *expected))
        finally:
            jupyter.close()
            rest.close()
    return rows
