"""Keys, the file they are in, and clients that use them."""

import hashlib
import json
import os
import secrets
import signal

import host
from service import Sandbox


class KeyFile:
    """A keys file as an operator keeps it. `client()` makes a key of this name, and a client that sends it."""

    def __init__(self, folder):
        self.path = folder / "keys"
        self.lines = {}
        self.write()

    def write(self):
        """As editors do it: another file takes the place of the old one."""
        fresh = self.path.with_name("keys.new")
        fresh.touch(mode=0o600)
        fresh.write_text("# name role hash quotas\n" + "".join(f"{line}\n" for line in self.lines.values()))
        os.rename(fresh, self.path)

    def add(self, name, role="user", quotas=""):
        key = f"husk_{secrets.token_urlsafe(32)}"
        self.lines[key] = f"{name} {role} sha256:{hashlib.sha256(key.encode()).hexdigest()} {quotas}"
        self.write()
        return key

    def remove(self, key):
        del self.lines[key]
        self.write()


class Caller:
    """The service as the holder of a key sees it: what service.Service offers for requests."""

    def __init__(self, service, key):
        self.service, self.key = service, key
        self.url, self.verify = service.url, service.verify

    def request(self, method, path, headers=None, **options):
        return self.service.request(method, path, headers={"Authorization": f"Bearer {self.key}"} | (headers or {}), **options)

    def get(self, path, **options):
        return self.request("GET", path, **options)

    def post(self, path, **options):
        return self.request("POST", path, **options)

    def delete(self, path, **options):
        return self.request("DELETE", path, **options)

    def create(self, **fields):
        answer = self.post("/sandbox/create", json=fields)
        assert answer.status_code == 200, answer.text
        return Sandbox(self, answer.json())

    def rpc(self, method, params=None, session=None, identity=1):
        """One JSON-RPC request of the legacy era, and the whole HTTP answer."""
        headers = {"Accept": "application/json, text/event-stream"}
        if session:
            headers["Mcp-Session-Id"] = session
        message = {"jsonrpc": "2.0", "id": identity, "method": method, "params": params or {}}
        return self.post("/mcp", json=message, headers=headers)

    def session(self):
        answer = self.rpc(
            "initialize",
            {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
        )
        assert answer.status_code == 200, answer.text
        return answer.headers["Mcp-Session-Id"]

    def tool(self, name, **arguments):
        answer = self.post(f"/mcp/tools/{name}", json=arguments)
        assert answer.status_code == 200, answer.text
        return answer.json()


def events(service, kind):
    """The lines of the log that are an audit's, of one kind."""
    lines = [json.loads(line) for line in service.log().splitlines() if line.startswith("{")]
    return [line for line in lines if line.get("audit") == kind]


def reload(service):
    """SIGHUP, and wait until the keys were read or refused; the line of the log that says so."""
    before = len(events(service, "keys"))
    service.process.send_signal(signal.SIGHUP)
    return host.until(lambda: events(service, "keys")[before:], 10, "the keys to be read")[0]
