"""Signed links: what an execution made can be had without the API key, by whoever has the link, for a while, and nothing else."""

import signal
import urllib.parse

import pytest

import host
from service import problem

KEY = {"X-API-Key": "correct-horse-battery"}


class Keyed:
    """A sandbox of a service with an API key, which the client sends where it should."""

    def __init__(self, service):
        self.service = service
        answer = service.post("/sandbox/create", headers=KEY)
        assert answer.status_code == 200, answer.text
        self.path = "/sandbox/" + answer.json()["sandbox_id"]

    def execute(self, code):
        answer = self.service.post(f"{self.path}/execute", json={"code": code}, headers=KEY)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def link(self, name="made.txt", content="made"):
        [entry] = [f for f in self.execute(f"_ = open({name!r}, 'w').write({content!r})")["files"] if f["path"] == name]
        return entry["url"]


@pytest.fixture(scope="module")
def keyed(harness):
    service = harness.service(environment={"HUSK_API_KEY": "correct-horse-battery"}).start()
    yield service
    harness.end(service)


def with_query(url, **changes):
    """The link with some of its query changed; None removes."""
    path, _, query = url.partition("?")
    fields = dict(urllib.parse.parse_qsl(query)) | changes
    return path + "?" + urllib.parse.urlencode({k: v for k, v in fields.items() if v is not None})


def test_entries(shared):
    files = shared.execute("import os; os.makedirs('out', exist_ok=True); _ = open('out/a b.png', 'w').write('12345')")["files"]
    [entry] = [f for f in files if f["path"] == "out/a b.png"]
    assert entry["size"] == 5 and entry["type"] == "image/png" and entry["change"] == "created"
    assert entry["url"].startswith(f"{shared.path}/download/out/a%20b.png?expires=")
    [entry] = [f for f in shared.execute("_ = open('out/a b.png', 'a').write('6')")["files"] if f["path"] == "out/a b.png"]
    assert entry["size"] == 6 and entry["change"] == "changed"
    assert not [f for f in shared.execute("open('out/a b.png').read()")["files"] if f["path"] == "out/a b.png"]


def test_works_without_the_key(keyed):
    sandbox = Keyed(keyed)
    url = sandbox.link(content="without a key")
    assert keyed.get(url).content == b"without a key"
    assert keyed.request("HEAD", url).status_code == 200
    problem(keyed.get(url.partition("?")[0]), 401, "unauthorized")


@pytest.mark.parametrize("name", ["玉米\U0001f33d.txt", "a&b=c?d#e%41+f.txt", "quo\"te'.txt", "x" * 255, "line\nbreak"])
def test_names(keyed, name):
    url = Keyed(keyed).link(name, "named")
    assert url.isascii() and not set(url) & set("\"'\r\n #")
    assert keyed.get(url).content == b"named"


def test_by_query(keyed):
    """The same link in the other spelling of a download; and it opens nothing that writes."""
    sandbox = Keyed(keyed)
    url = sandbox.link("a b+c.txt", "by query")
    query = dict(urllib.parse.parse_qsl(url.partition("?")[2]))
    sandbox_id = sandbox.path.rpartition("/")[2]
    asked = {"sandbox_id": sandbox_id, "file_path": "a b+c.txt", **query}
    assert keyed.get("/sandbox/file", params=asked).content == b"by query"
    assert keyed.get("/sandbox/file", params={**asked, "file_path": "/home/user/a b+c.txt"}).content == b"by query"
    problem(keyed.get("/sandbox/file", params={**asked, "file_path": "other"}), 401, "unauthorized")
    problem(keyed.get("/sandbox/file", params={**asked, "expires": "9999999999"}), 401, "unauthorized")
    signed = url.partition("?")[2]
    for method, path in (("PUT", "files/a%20b%2Bc.txt"), ("DELETE", "files/a%20b%2Bc.txt"), ("GET", "files"), ("POST", "upload"), ("GET", "download")):
        problem(keyed.request(method, f"{sandbox.path}/{path}?{signed}"), 401, "unauthorized")


def test_follows_the_file(keyed):
    """A link is to a name: what is there when it is used."""
    sandbox = Keyed(keyed)
    url = sandbox.link(content="first")
    sandbox.link(content="second")
    assert keyed.get(url).content == b"second"
    sandbox.execute("import os; os.unlink('made.txt')")
    problem(keyed.get(url), 404, "file_not_found")


def test_tampered(keyed):
    sandbox = Keyed(keyed)
    url = sandbox.link()
    sandbox.link("other.txt", "other")
    query = dict(urllib.parse.parse_qsl(url.partition("?")[2]))
    expires, signature = int(query["expires"]), query["signature"]
    flipped = ("1" if signature[0] == "0" else "0") + signature[1:]
    for changed in (
        url.replace("made.txt", "other.txt"),
        url.replace("made.txt", "/made.txt"),
        url.replace("made.txt", "made.txt/"),
        with_query(url, expires=expires + 1),
        with_query(url, expires=expires + 10**6),
        with_query(url, expires=None),
        with_query(url, expires=""),
        with_query(url, signature=None),
        with_query(url, signature=""),
        with_query(url, signature=flipped),
        with_query(url, signature=signature.upper()),
        with_query(url, signature=signature + "00"),
        with_query(url, signature=signature[:-1]),
    ):
        problem(keyed.get(changed), 401, "unauthorized")
    assert keyed.get(url).content == b"made"


def test_path_with_the_working_directory(keyed):
    """The same file in its other spelling."""
    url = Keyed(keyed).link()
    assert keyed.get(url.replace("/download/", "/download//home/user/")).content == b"made"


def test_of_another_sandbox(keyed):
    one, two = Keyed(keyed), Keyed(keyed)
    url = one.link(content="one")
    two.link(content="two")
    problem(keyed.get(url.replace(one.path, two.path)), 401, "unauthorized")


def test_opens_nothing_else(keyed):
    sandbox = Keyed(keyed)
    query = sandbox.link().partition("?")[2]
    for method, path in (
        ("GET", sandbox.path),
        ("DELETE", sandbox.path),
        ("POST", f"{sandbox.path}/execute"),
        ("GET", "/sandboxes"),
        ("GET", f"{sandbox.path}/download/other"),
    ):
        problem(keyed.request(method, f"{path}?{query}"), 401, "unauthorized")


def test_expires(private):
    service = private("--link-seconds", "1", environment={"HUSK_API_KEY": "correct-horse-battery"}).start()
    sandbox = Keyed(service)
    url = sandbox.link()
    host.until(lambda: service.get(url).status_code == 403, 10, "the link to expire")
    problem(service.get(url), 403, "link_expired")
    assert service.get(url, headers=KEY).content == b"made", "with the key no link is needed"
    problem(service.get(with_query(url, expires="9999999999")), 401, "unauthorized")


def test_expires_without_a_key(private):
    service = private("--link-seconds", "1").start()
    sandbox = service.create()
    [entry] = [f for f in sandbox.execute("_ = open('x', 'w').write('x')")["files"] if f["path"] == "x"]
    host.until(lambda: service.get(entry["url"]).status_code == 403, 10, "the link to expire")
    problem(service.get(entry["url"]), 403, "link_expired")
    assert service.get(entry["url"].partition("?")[0]).content == b"x"


def test_after_close(keyed):
    sandbox = Keyed(keyed)
    url = sandbox.link()
    assert keyed.delete(sandbox.path, headers=KEY).status_code == 200
    problem(keyed.get(url), 410, "sandbox_closed")
    problem(keyed.get(with_query(url, signature="0" * 64)), 401, "unauthorized")


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_after_a_restart_of_the_service(private, how):
    service = private(environment={"HUSK_API_KEY": "correct-horse-battery"}).start()
    sandbox = Keyed(service)
    url = sandbox.link()
    service.stop(how)
    service.start()
    assert service.get(url).content == b"made"
    assert service.get(sandbox.link("later.txt", "later")).content == b"later"
    problem(service.get(with_query(url, signature="0" * 64)), 401, "unauthorized")


def test_while_the_service_starts(private):
    """Whether a link is good cannot be told until the sandboxes are known again: 503, never 401, never the file of another."""
    service = private(environment={"HUSK_API_KEY": "correct-horse-battery"}).start()
    sandbox = Keyed(service)
    url = sandbox.link()
    service.stop()
    service.launch()
    seen = set()

    def answered():
        try:
            answer = service.get(url)
        except OSError:
            return False
        seen.add(answer.status_code)
        return answer.status_code == 200

    host.until(answered, 30, "the link to work again")
    assert seen <= {200, 503}
    host.until(lambda: service.get("/health").status_code == 200, 30, "the service to be well")
