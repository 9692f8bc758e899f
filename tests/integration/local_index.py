"""A package index of the tests' own: the simple API (PEP 503) on loopback, with wheels that the tests make, good and bad."""

import base64
import hashlib
import http.server
import io
import threading
import zipfile


def record_line(name, data):
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(data)}\n"


class Wheel:
    """A wheel in memory. `files`: what is in it besides its metadata; `record`: further lines of RECORD."""

    def __init__(self, name, version="1.0", *, files=None, requires=(), scripts=None, record="", metadata_name=None,
                 metadata_version=None, tag="py3-none-any", compress=False):  # fmt: skip
        self.name, self.version = name, version
        module = name.replace("-", "_")
        self.filename = f"{module}-{version}-{tag}.whl"
        info = f"{module}-{version}.dist-info"
        content = {f"{module}/__init__.py": f"version = '{version}'\n"} if files is None else dict(files)
        lines = [f"Metadata-Version: 2.1\nName: {metadata_name or name}\nVersion: {metadata_version or version}\n"]
        lines += [f"Requires-Dist: {one}\n" for one in requires]
        content[f"{info}/METADATA"] = "".join(lines)
        content[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: {tag}\n"
        if scripts:
            entries = "".join(f"{key} = {value}\n" for key, value in scripts.items())
            content[f"{info}/entry_points.txt"] = f"[console_scripts]\n{entries}"
        content = {key: value.encode() if isinstance(value, str) else value for key, value in content.items()}
        listing = "".join(record_line(key, value) for key, value in content.items()) + record + f"{info}/RECORD,,\n"
        content[f"{info}/RECORD"] = listing.encode()
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED) as archive:
            for key, value in content.items():
                archive.writestr(key, value)
        self.data = buffer.getvalue()
        self.sha256 = hashlib.sha256(self.data).hexdigest()


class Index:
    """Serves wheels until it is stopped. With `login` ("user:password") it answers nobody else."""

    def __init__(self, *wheels, login=None):
        self.wheels = list(wheels)
        self.sdists = {}
        self.login = login
        self.requests = []
        self.downloads = []  # of whole wheels; the resolver looks into them, too
        self.hold = threading.Event()  # set: files are handed out; cleared: they make their readers wait
        self.hold.set()
        index = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                index.answer(self)

            do_HEAD = do_GET

            def log_message(self, *arguments):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def add(self, *wheels):
        self.wheels += wheels

    @property
    def url(self):
        login = f"{self.login}@" if self.login else ""
        return f"http://{login}127.0.0.1:{self.port}/simple"

    def stop(self):
        self.hold.set()
        self.server.shutdown()
        self.server.server_close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def answer(self, handler):
        self.requests.append(handler.path)
        if handler.headers.get("User-Agent", "").startswith("curl"):
            self.downloads.append(handler.path)
        wanted = base64.b64encode((self.login or "").encode()).decode()
        if self.login and handler.headers.get("Authorization") != f"Basic {wanted}":
            return self.send(handler, 401, b"who are you?")
        parts = handler.path.split("?")[0].strip("/").split("/")
        if parts[0] == "simple" and len(parts) == 2:
            return self.send_page(handler, parts[1])
        if parts[0] == "files":
            if handler.command == "GET":
                self.hold.wait(60)
            for wheel in self.wheels:
                if wheel.filename == parts[-1]:
                    return self.send(handler, 200, wheel.data, "application/octet-stream")
        self.send(handler, 404, b"no")

    def send_page(self, handler, name):
        links = [
            f'<a href="/files/{wheel.filename}#sha256={wheel.sha256}">{wheel.filename}</a>'
            for wheel in self.wheels
            if wheel.name.lower().replace("_", "-").replace(".", "-") == name
        ]
        links += [f'<a href="/files/{file}">{file}</a>' for file in self.sdists.get(name, ())]
        if not links:
            return self.send(handler, 404, b"no such package")
        page = f"<!DOCTYPE html><html><body>{''.join(links)}</body></html>".encode()
        self.send(handler, 200, page, "text/html")

    def send(self, handler, status, data, kind="text/plain"):
        try:
            handler.send_response(status)
            if status == 401:
                handler.send_header("WWW-Authenticate", 'Basic realm="index"')
            handler.send_header("Content-Type", kind)
            handler.send_header("Content-Length", str(len(data)))
            handler.end_headers()
            if handler.command == "GET":
                handler.wfile.write(data)
        except OSError:
            pass  # whoever asked went away
