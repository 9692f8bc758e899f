"""`husk mcp` and a service that lies: what it says must not become half a file, nor a secret in a log."""

import json
import os
import subprocess
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from stdio_bridge import HUSK, Bridge, environment

FOUND = {"sandbox_id": "box", "path": "data.csv", "size": 5}


@contextmanager
def liar(download, found=FOUND):
    """Knows a file, and answers these bytes when that is fetched."""

    class Handler(BaseHTTPRequestHandler):
        def say(self, body):
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self):
            message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            result = {"content": [], "structuredContent": found, "isError": False}
            self.say(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode())

        def do_GET(self):
            if not self.path.startswith("/sandbox/"):
                return self.say(b"{}")
            self.wfile.write(download)
            self.close_connection = True

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


HEAD = b"HTTP/1.1 200 OK\r\n"
CUT = {
    "no length": HEAD + b"\r\nab",
    "no length, nothing": HEAD + b"\r\n",
    "length": HEAD + b"Content-Length: 5\r\n\r\nab",
    "chunks": HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n",
    "headers": HEAD + b"Content-Length: 5\r\n",
    "first line": HEAD,
    "negative": HEAD + b"Content-Length: -1\r\n\r\nab",
}


@pytest.mark.parametrize("kind", CUT)
def test_half_a_file_is_none(folder, kind):
    with liar(CUT[kind]) as url, Bridge(url, folder, era="modern") as bridge:
        answer = bridge.answer(bridge.start("download_file", path="data.csv", local_path="data.csv", sandbox_id="box"))
        assert answer["result"]["isError"], answer
        assert os.listdir(folder) == []


@pytest.mark.parametrize("whole", [b"Content-Length: 5\r\n\r\nabcde", b"Transfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n"])
def test_a_whole_one_is_written(folder, whole):
    with liar(HEAD + whole) as url, Bridge(url, folder, era="modern") as bridge:
        answer = bridge.answer(bridge.start("download_file", path="data.csv", local_path="data.csv", sandbox_id="box"))
        assert not answer["result"]["isError"], answer
        assert (folder / "data.csv").read_text() == "abcde"


@pytest.mark.parametrize("path", ["..", "a/..", "a/", "\0", "x" * 300, 7, None])
def test_names_that_a_service_makes_up(folder, path):
    """Where the caller named a folder, the name of the file is the service's."""
    outside = sorted(os.listdir(folder.parent))
    whole = HEAD + b"Content-Length: 5\r\n\r\nabcde"
    with liar(whole, FOUND | {"path": path}) as url, Bridge(url, folder, era="modern") as bridge:
        bridge.answer(bridge.start("download_file", path="data.csv", local_path=".", sandbox_id="box"))
    assert set(os.listdir(folder)) <= {"data.csv"} and sorted(os.listdir(folder.parent)) == outside


@pytest.mark.parametrize("url", ["http://me:sesame@127.0.0.1:1", "http://sesame@127.0.0.1:1", "nonsense://me:sesame@127.0.0.1:1"])
def test_a_secret_in_the_address_is_not_repeated(folder, url):
    done = subprocess.run(
        [HUSK, "mcp", "--url", url], input='{"jsonrpc":"2.0","id":1,"method":"ping"}\n', env=environment(), cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("husk: ") and "sesame" not in done.stderr


def test_too_many_arguments_for_huskd(folder):
    done = subprocess.run(
        [HUSK, "mcp", "--start", "--", *["--listen"] * 65], stdin=subprocess.DEVNULL, env=environment(), cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 2 and "64" in done.stderr, done
