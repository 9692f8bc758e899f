"""How long a caller waits for the result of a cell: over REST, next to jupyter_client on the very same kernel.

    make bench ARGS="--json round_trip.json"

REST is a plain socket kept open, with requests that were put together before: what is measured is Husk, not a client.
Its answer is parsed as JSON, as jupyter_client parses its messages. jupyter_client is called from the host through the
sandbox's own ipc sockets; it has an execution when it has the reply, the idle status and all output between.

The two take turns. jupyter_client is subscribed to the outputs only in its turns, so it does not slow down Husk's. The
shim listens in all of them: that costs jupyter_client a little where cores are few.
"""

import argparse
import functools
import itertools
import json
import socket

from jupyter_client.blocking import BlockingKernelClient

import measure

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
RATIO = {"1+1": 0.8}  # of Husk's p50 to jupyter_client's, at most


class Rest:
    """HTTP with the least that a client can do: one send, receive until the body is complete."""

    def __init__(self, service, sandbox):
        self.socket = socket.create_connection(("127.0.0.1", service.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.path = f"{sandbox.path}/execute"

    def request(self, code):
        body = json.dumps({"code": code}).encode()
        head = f"POST {self.path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body

    def call(self, request):
        self.socket.sendall(request)
        data = bytearray()
        while (end := data.find(b"\r\n\r\n")) < 0:
            data += self.receive()
        assert data.startswith(b"HTTP/1.1 200 "), bytes(data)
        head = bytes(data[:end]).lower()
        length = int(head.partition(b"content-length:")[2].partition(b"\r")[0])
        while len(data) < end + 4 + length:
            data += self.receive()
        return json.loads(data[end + 4 :])

    def receive(self):
        data = self.socket.recv(1 << 20)
        assert data, "huskd closed the connection"
        return data

    @staticmethod
    def outputs(answer):
        return answer["stdout"], [result["data"] for result in answer["results"]]


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
    husk, other = map(measure.milliseconds, measure.take_turns(contenders, calls, TURN))
    ratios = {key.replace("_ms", "_ratio"): round(husk[key] / other[key], 3) for key in husk}
    return {"name": name, "calls": calls, "husk": husk, "jupyter_client": other, **ratios}


def run(chosen):
    with measure.running_service() as service:
        sandbox = service.create()
        rest, jupyter = Rest(service, sandbox), Jupyter(sandbox)
        try:
            return [compare(rest, jupyter, *row) for row in ROWS if row[0] in chosen]
        finally:
            jupyter.close()
            rest.socket.close()


def show(rows):
    head = ["round trip, ms", "husk p50", "p99", "jupyter_client p50", "p99", "ratio p50", "p99"]
    lines = []
    for row in rows:
        times = [f"{row[side][key]:.2f}" for side in ("husk", "jupyter_client") for key in ("p50_ms", "p99_ms")]
        lines.append([row["name"], *times, f"{row['p50_ratio']:.2f}", f"{row['p99_ratio']:.2f}"])
    print(measure.table(head, lines))


def main():
    parser = argparse.ArgumentParser(description="Round trips of executions: Husk over REST next to jupyter_client.")
    parser.add_argument("--json", metavar="FILE", help="also write the numbers here")
    names = [row[0] for row in ROWS]
    parser.add_argument("--only", action="append", choices=names, help="measure this one; may be given again")
    options = parser.parse_args()
    before = measure.machine()
    rows = run(options.only or names)
    targets = [
        measure.target(f"{row['name']}, p50 next to jupyter_client", row["p50_ratio"], RATIO[row["name"]])
        for row in rows
        if row["name"] in RATIO
    ]
    show(rows)
    for target in targets:
        print(measure.describe(target))
    print(f"{before['cpus']} cores, load {before['load']} before the start. Much above 0.5 even the ratios vary.")
    if options.json:
        measure.save(options.json, "round_trip", rows, targets, before)


if __name__ == "__main__":
    main()
