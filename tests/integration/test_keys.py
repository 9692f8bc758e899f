"""Several keys: what belongs to one does not exist for another, by whatever way he asks; quotas; keys that come and go."""

import hashlib
import json
import os
import re
import signal
import subprocess
import tempfile
import uuid
from pathlib import Path

import pytest

import host
from key_client import Caller, KeyFile, events, reload
from service import ROOT, StartFailed, later, problem
from test_http import exchange

ADMIN_KEY = "the-operators-own"
QUIET = "[quotas]\nsandboxes = 0\nexecutions = 0\nrequests_per_second = 0\n"


def start(make, path, more="", **options):
    config = f"[server]\napi_key = {ADMIN_KEY}\nkeys_file = {path}\n{QUIET}{more}"
    return make(config=config, **options).start()


@pytest.fixture(scope="module")
def keys(harness):
    return KeyFile(Path(tempfile.mkdtemp(dir=harness.folder)))


@pytest.fixture(scope="module")
def keyed(harness, keys):
    service = start(harness.service, keys.path)
    yield service
    harness.end(service)


@pytest.fixture(scope="module")
def admin(keyed):
    return Caller(keyed, ADMIN_KEY)


def caller(service, keys, name, **fields):
    made = Caller(service, keys.add(name, **fields))
    reload(service)
    return made


@pytest.fixture(scope="module")
def alice(keyed, keys):
    return caller(keyed, keys, "alice")


@pytest.fixture(scope="module")
def bob(keyed, keys):
    return caller(keyed, keys, "bob")


@pytest.fixture(scope="module")
def hers(alice):
    """A sandbox of alice's with something in it of every kind."""
    sandbox = alice.create(name="data")
    sandbox.run("secret = 42; _ = open('file.txt', 'w').write('hers')")
    answer = sandbox.post("execute", json={"code": "input()", "stdin": "x\n", "detach": True})
    sandbox.execution = answer.json()["execution_id"]
    sandbox.commanded = sandbox.post("command", json={"command": "sleep 600", "detach": True}).json()["command_id"]
    yield sandbox
    assert sandbox.value("secret") == 42, "whatever the others tried"
    assert alice.get(f"{sandbox.path}/download/file.txt").text == "hers"
    assert alice.get(f"{sandbox.path}/commands/{sandbox.commanded}").json()["status"] == "running"
    assert sandbox.close().status_code == 200


# --- one cannot see, use or guess what is another's ---


def routes_with_a_sandbox():
    """Method and path of every route that is about a sandbox, from the service's own table."""
    table = (ROOT / "src/http/routes.c").read_text()
    found = re.findall(r'\{"([A-Z]+)", "(/sandbox/[^"]*\{id\}[^"]*)"', table)
    assert len(found) > 20
    return found


BODIES = {
    "execute": {"data": b"1 + 1"},
    "command": {"json": {"command": "id"}},
    "install": {"json": {"package_name": "six"}},
    "extend": {"json": {"ttl_seconds": 60}},
    "input": {"json": {"value": "x"}},
    "upload": {"files": {"file": ("x.txt", b"x")}},
}


def ask(client, method, pattern, reference, sandbox):
    """The answer to a request that would be a good one for alice; without what differs between any two answers."""
    path = pattern.replace("{id}", reference).replace("{execution}", sandbox.execution)
    path = path.replace("{command}", sandbox.commanded).replace("{name}", "numpy").replace("{path*}", "file.txt")
    options = BODIES.get(pattern.rpartition("/")[2], {})
    if method == "PUT":
        options = {"data": b"changed"}
    answer = client.request(method, path, **options)
    headers = sorted(set(answer.headers) - {"Date"})
    return answer.status_code, answer.text.replace(reference, "REFERENCE"), headers


@pytest.mark.parametrize("method, pattern", routes_with_a_sandbox())
def test_every_route(bob, hers, method, pattern):
    expected = ask(bob, method, pattern, str(uuid.uuid4()), hers)
    assert expected[0] == 404 and json.loads(expected[1])["code"] == "sandbox_not_found"
    for reference in (hers.id, hers.id.upper(), "data", "alice:data"):
        assert ask(bob, method, pattern, reference, hers) == expected


def test_by_query(bob, hers):
    for reference in (f"sandbox_id={hers.id}", "sandbox_name=data", "sandbox_name=alice%3Adata"):
        problem(bob.get(f"/sandbox/file?{reference}&file_path=file.txt"), 404, "sandbox_not_found")


def test_lists(alice, bob, admin, hers):
    his = bob.create()
    try:
        assert set(alice.get("/sandboxes").json()) == {hers.id}
        assert set(bob.get("/sandboxes").json()) == {his.id}
        assert set(admin.get("/sandboxes").json()) == {hers.id, his.id}
    finally:
        his.close()


def test_nobody_without_a_key(keyed, hers):
    for headers in ({}, {"X-API-Key": "husk_wrong"}, {"Authorization": "Bearer husk_wrong"}):
        problem(keyed.get(hers.path, headers=headers), 401, "unauthorized")
        problem(keyed.get(f"/sandbox/{uuid.uuid4()}", headers=headers), 401, "unauthorized")


def test_two_keys_in_one_request_are_refused(keyed, alice, bob):
    for name in ("Authorization", "X-API-Key"):
        head = "GET /sandboxes HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        prefix = "Bearer " if name == "Authorization" else ""
        for key in (alice.key, bob.key):
            head += f"{name}: {prefix}{key}\r\n"
        assert exchange(keyed, f"{head}\r\n".encode()).startswith(b"HTTP/1.1 400 ")


def test_names_are_the_owners(alice, bob, admin):
    """Nobody learns from a refusal which names others use."""
    hers, his, own = (client.create(name="common") for client in (alice, bob, admin))
    try:
        problem(alice.post("/sandbox/create", json={"name": "common"}), 409, "name_taken")
        problem(bob.post("/sandbox/create", json={"name": "common"}), 409, "name_taken")
        for client, sandbox in ((alice, hers), (bob, his), (admin, own)):
            assert client.get("/sandbox/common").json()["sandbox_id"] == sandbox.id
        assert admin.get("/sandbox/alice:common").json()["sandbox_id"] == hers.id
        assert admin.get("/sandbox/bob%3acommon").json()["sandbox_id"] == his.id
        own.close()
        problem(admin.get("/sandbox/common"), 409, "name_ambiguous")
        problem(admin.get("/sandbox/carol:common"), 404, "sandbox_not_found")
        his.close()
        assert admin.get("/sandbox/common").json()["sandbox_id"] == hers.id, "the only one of this name"
    finally:
        for sandbox in (hers, his, own):
            sandbox.close()


def test_owner_is_told_to_admins(alice, admin, hers):
    assert "owner" not in alice.get(hers.path).json()
    assert "owner" not in alice.get("/sandboxes").json()[hers.id]
    assert admin.get(hers.path).json()["owner"] == "alice"
    assert admin.get("/sandboxes").json()[hers.id]["owner"] == "alice"


def test_admin_may_use_and_close(alice, admin):
    sandbox = alice.create(name="shared")
    assert admin.post(f"{sandbox.path}/execute", data=b"print(1)").json()["stdout"] == "1\n"
    assert admin.delete("/sandbox/shared").status_code == 200
    problem(alice.get("/sandbox/shared"), 410, "sandbox_closed")


def test_closed_ones(alice, bob, admin):
    sandbox = alice.create(name="gone")
    assert sandbox.close().status_code == 200
    for reference in (sandbox.id, "gone", "alice:gone"):
        problem(alice.get(f"/sandbox/{reference}"), 410, "sandbox_closed")
        problem(admin.get(f"/sandbox/{reference}"), 410, "sandbox_closed")
        problem(bob.get(f"/sandbox/{reference}"), 404, "sandbox_not_found")


def test_links_need_no_key(keyed, bob, hers):
    [entry] = hers.execute("_ = open('linked.txt', 'w').write('by link')")["files"]
    assert keyed.get(entry["url"]).text == "by link"
    assert bob.get(entry["url"]).text == "by link", "a link is for whoever has it"
    by_name = entry["url"].replace(hers.id, "data")
    problem(keyed.get(by_name), 401)
    problem(bob.get(by_name), 404, "sandbox_not_found")
    other = entry["url"].replace("linked.txt", "file.txt")
    problem(keyed.get(other), 401)
    problem(bob.get(other), 404, "sandbox_not_found")


def test_health_tells_nothing_of_owners(keyed, hers):
    text = keyed.get("/health").text
    assert "alice" not in text and hers.id not in text and "data" not in text


# --- the same over MCP ---


def arguments_for(tool):
    """Something for each argument that the tool must have."""
    values = {"string": "eA==", "integer": 60, "number": 60, "array": ["six"], "boolean": True, "object": {}}
    known = tool["inputSchema"]["properties"]
    names = [name for name in tool["inputSchema"].get("required", []) if name != "sandbox_id"]
    types = {name: known[name].get("type", "string") for name in names}
    given = {name: values[kind if isinstance(kind, str) else kind[0]] for name, kind in types.items()}
    return given | {name: value for name, value in (("command", "id"), ("packages", ["six"])) if name in known}


def test_every_tool(bob, hers):
    tools = bob.rpc("tools/list").json()["result"]["tools"]
    about = [tool for tool in tools if "sandbox_id" in tool["inputSchema"]["properties"]]
    assert len(about) >= 10
    for tool in about:
        for reference in (hers.id, "data", "alice:data", str(uuid.uuid4())):
            result = bob.tool(tool["name"], sandbox_id=reference, **arguments_for(tool))
            assert result["isError"], (tool["name"], result)
            assert f"There is no sandbox '{reference}'" in result["content"][0]["text"], (tool["name"], result)


def test_lists_over_mcp(alice, bob, hers):
    assert hers.id in json.dumps(alice.tool("list_sandboxes"))
    assert hers.id not in json.dumps(bob.tool("list_sandboxes"))
    complete = {"ref": {"type": "ref/resource", "uri": "husk://{sandbox}/{+path}"}, "argument": {"name": "sandbox", "value": ""}}
    assert hers.id in alice.rpc("completion/complete", complete).text
    assert hers.id not in bob.rpc("completion/complete", complete).text


def test_resources(alice, bob, hers):
    uri = f"husk://{hers.id}/file.txt"
    assert "hers" in alice.rpc("resources/read", {"uri": uri}).text
    for reference in (uri, "husk://data/file.txt", "husk://alice:data/file.txt"):
        answer = bob.rpc("resources/read", {"uri": reference}).json()
        assert "There is no sandbox" in answer["error"]["message"], answer
    session = bob.session()
    answer = bob.rpc("resources/subscribe", {"uri": uri}, session).json()
    assert "There is no sandbox" in answer["error"]["message"], answer


def test_sessions_belong_to_a_key(alice, bob, admin):
    session = alice.session()
    assert alice.rpc("ping", session=session).status_code == 200
    for other in (bob, admin):
        assert other.rpc("ping", session=session).status_code == 404
        assert other.delete("/mcp", headers={"Mcp-Session-Id": session}).status_code == 404
        stream = {"Mcp-Session-Id": session, "Accept": "text/event-stream"}
        assert other.get("/mcp", headers=stream).status_code == 404
    assert alice.delete("/mcp", headers={"Mcp-Session-Id": session}).status_code == 200


def test_sandboxes_of_a_session(alice, bob):
    """What a tool makes belongs to the key of its caller."""
    made = alice.tool("execute_python_code", code="1")["structuredContent"]["sandbox_id"]
    problem(bob.get(f"/sandbox/{made}"), 404, "sandbox_not_found")
    assert not alice.tool("close_sandbox", sandbox_id=made)["isError"]


# --- whose it is outlives the service ---


@pytest.mark.parametrize("pool", [0, 2])
def test_owners_survive(private, folder, pool):
    keys = KeyFile(folder)
    service = start(private, keys.path, pool=pool)
    alice, bob = caller(service, keys, "alice"), caller(service, keys, "bob")
    admin = Caller(service, ADMIN_KEY)
    host.until(lambda: service.get("/health").json()["sandboxes"]["warm"] == pool, 30, "a warm pool")
    hers, his, own = alice.create(name="same"), bob.create(name="same"), admin.create()
    service.process.kill()
    service.process.wait()
    service.start()
    assert set(alice.get("/sandboxes").json()) == {hers.id}
    assert alice.get("/sandbox/same").json()["sandbox_id"] == hers.id
    assert bob.get("/sandbox/same").json()["sandbox_id"] == his.id
    problem(bob.get(hers.path), 404, "sandbox_not_found")
    owners = {key: value["owner"] for key, value in admin.get("/sandboxes").json().items()}
    assert owners == {hers.id: "alice", his.id: "bob", own.id: "admin"}


# --- quotas ---


def test_quota_of_sandboxes(keyed, keys, alice):
    small = caller(keyed, keys, "small", quotas="sandboxes=2")
    made = [small.create(), small.create(name="second")]
    answer = small.post("/sandbox/create")
    problem(answer, 429, "too_many_sandboxes")
    assert int(answer.headers["Retry-After"]) > 0
    assert "2 sandboxes" in small.tool("create_sandbox")["content"][0]["text"]
    assert small.tool("execute_python_code", code="1")["isError"]
    alice.create().close()
    made.pop().close()
    made.append(small.create())
    for sandbox in made:
        sandbox.close()


def test_quota_of_executions(keyed, keys, alice, hers):
    small = caller(keyed, keys, "busy", quotas="executions=3")
    sandboxes = [small.create(), small.create()]
    first = later(sandboxes[0].execute, "import time; time.sleep(600)")
    sandboxes[0].until_state("busy")
    assert sandboxes[1].post("execute", json={"code": "import time; time.sleep(600)", "detach": True}).status_code == 202
    assert sandboxes[1].post("command", json={"command": "sleep 600", "detach": True}).status_code == 202
    host.until(lambda: sandboxes[1].info()["commands"] == 1, 10, "the command to run")
    for sandbox in sandboxes:
        answer = sandbox.post("execute", data=b"1")
        problem(answer, 429, "too_many_executions")
        assert int(answer.headers["Retry-After"]) > 0
        problem(sandbox.post("command", json={"command": "id"}), 429, "too_many_executions")
        result = small.tool("execute_python_code", code="1", sandbox_id=sandbox.id)
        assert result["isError"] and "3 executions" in result["content"][0]["text"]
    assert hers.works(), "others have their own"
    assert sandboxes[0].post("interrupt").status_code == 200
    assert first.result(30)["status"] == "interrupted"
    for _ in range(20):
        assert sandboxes[0].works(), "one after the other is one at a time"
    for sandbox in sandboxes:
        sandbox.close()


def test_quota_of_requests(keyed, keys, alice):
    small = caller(keyed, keys, "quick", quotas="requests_per_second=1 burst=5")
    statuses = [small.get("/sandboxes") for _ in range(12)]
    refused = [answer for answer in statuses if answer.status_code == 429]
    assert statuses[0].status_code == 200 and refused
    problem(refused[0], 429, "rate_limited")
    assert int(refused[0].headers["Retry-After"]) >= 1
    problem(small.post("/mcp/tools/list_sandboxes", json={}), 429, "rate_limited")
    assert small.get("/health").status_code == 200
    assert alice.get("/sandboxes").status_code == 200
    host.until(lambda: small.get("/sandboxes").status_code == 200, 30, "another request to be allowed")


def test_default_quotas(private, folder):
    keys = KeyFile(folder)
    config = f"[server]\napi_key = {ADMIN_KEY}\nkeys_file = {keys.path}\n[quotas]\nsandboxes = 1\n"
    user, other_admin = keys.add("user"), keys.add("second", role="admin")
    service = private(config=config).start()
    user, other_admin = Caller(service, user), Caller(service, other_admin)
    user.create()
    problem(user.post("/sandbox/create"), 429, "too_many_sandboxes")
    for _ in range(2):
        other_admin.create()
    assert len(other_admin.get("/sandboxes").json()) == 3


# --- keys come and go ---


def test_rotation(keyed, keys):
    """A second key of the same owner, then without the first: sandboxes stay, sessions go on."""
    old = caller(keyed, keys, "rotating")
    sandbox = old.create(name="mine")
    session = old.session()
    new = caller(keyed, keys, "rotating")
    assert old.get("/sandbox/mine").status_code == new.get("/sandbox/mine").status_code == 200
    keys.remove(old.key)
    reload(keyed)
    problem(old.get("/sandbox/mine"), 401, "unauthorized")
    assert new.get("/sandbox/mine").json()["sandbox_id"] == sandbox.id
    assert new.rpc("ping", session=session).status_code == 200
    new.delete("/sandbox/mine")


def test_removed_owner(keyed, keys, admin):
    """His key works no more, his sessions end, his sandboxes are the admin's to look after; a new key has them back."""
    left = caller(keyed, keys, "left")
    sandbox = left.create()
    session = left.session()
    stream = later(left.get, "/mcp", headers={"Mcp-Session-Id": session, "Accept": "text/event-stream"})
    sse = later(left.get, "/sse", headers={"Accept": "text/event-stream"})
    keys.remove(left.key)
    reload(keyed)
    assert stream.result(30).status_code in (200, 401, 404) and sse.result(30).status_code in (200, 401), "they end"
    problem(left.get(sandbox.path), 401, "unauthorized")
    assert admin.get(sandbox.path).json()["owner"] == "left"
    again = caller(keyed, keys, "left")
    assert again.rpc("ping", session=session).status_code == 404
    assert again.get(sandbox.path).status_code == 200
    again.delete(sandbox.path)


@pytest.mark.parametrize("line, says", [("nonsense", "line 2"), ("x user sha256:zz", "hash"), ("x king sha256:00", "role")])
def test_bad_file_changes_nothing(keyed, keys, alice, line, says):
    good = keys.path.read_text()
    keys.path.write_text(f"# comment\n{line}\n")
    told = reload(keyed)
    assert says in told["reason"] and told["level"] == "error"
    assert alice.get("/sandboxes").status_code == 200
    keys.path.write_text(good)
    assert "count" in reload(keyed)


def test_file_that_others_can_read(keyed, keys, alice):
    keys.path.chmod(0o640)
    assert "chmod 600" in reload(keyed)["reason"]
    assert alice.get("/sandboxes").status_code == 200
    keys.path.chmod(0o600)
    assert "count" in reload(keyed)


def test_file_that_is_gone(keyed, keys, alice):
    keys.path.unlink()
    assert "No such file" in reload(keyed)["reason"]
    assert alice.get("/sandboxes").status_code == 200
    os.mkfifo(keys.path, 0o600)
    assert "regular file" in reload(keyed)["reason"]
    keys.write()
    assert "count" in reload(keyed)


def test_start_without_a_good_file(private, folder):
    keys = KeyFile(folder)
    service = private("--keys-file", str(keys.path))
    keys.path.chmod(0o644)
    failed = service.fails_to_start()
    assert "chmod 600" in failed.text and str(keys.path) in failed.text
    keys.path.unlink()
    assert "No such file" in service.fails_to_start().text
    keys.write()
    keys.path.write_text("alice\n")
    assert "line 1: expected: name role hash" in service.fails_to_start().text


def test_sighup_without_keys_changes_nothing(private):
    service = private().start()
    sandbox = service.create()
    service.process.send_signal(signal.SIGHUP)
    host.until(lambda: "nothing to read anew" in service.log(), 10, "the log line")
    assert sandbox.works()


def test_empty_file_lets_nobody_in(private, folder):
    keys = KeyFile(folder)
    service = private("--keys-file", str(keys.path)).start()
    problem(service.get("/sandboxes"), 401, "unauthorized")
    assert "admin" not in service.get("/health").text


def test_new_key(private, folder):
    """What --new-key prints is what the file takes, and the key itself is in neither."""
    keys = KeyFile(folder)
    service = private("--keys-file", str(keys.path))
    made = subprocess.run(service.command("--new-key", "carol"), capture_output=True, text=True, check=True)
    [key] = re.findall(r"husk_[\w-]{43}", made.stderr)
    assert key not in made.stdout and made.stdout.startswith("carol user sha256:")
    keys.path.write_text(made.stdout)
    service.start()
    assert Caller(service, key).get("/sandboxes").json() == {}
    assert key not in service.log()
    refused = subprocess.run(service.command("--new-key", "no good"), capture_output=True, text=True)
    assert refused.returncode != 0 and "the name of a key" in refused.stderr


def test_hash_in_the_configuration(private):
    hashed = hashlib.sha256(ADMIN_KEY.encode()).hexdigest()
    service = private(config=f"[server]\napi_key_hash = sha256:{hashed}\n").start()
    assert Caller(service, ADMIN_KEY).get("/sandboxes").status_code == 200
    problem(service.get("/sandboxes"), 401)
    problem(Caller(service, f"sha256:{hashed}").get("/sandboxes"), 401)


def test_the_opener(keyed, keys):
    """It has root's id and no capability, nothing open but its socket, and it ends with huskd; huskd itself holds nothing."""
    [opener] = [p for p in host.descendants(keyed.process.pid) if p.name == "husk-opener"]
    for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(opener.status(kind), 16) == 0, kind
    assert opener.status("NoNewPrivs") == "1"
    assert opener.descriptors() == 4, "stdin, stdout, stderr and the socket"
    assert host.Process(keyed.process.pid).status("Uid").split()[0] != "0"


# --- the audit ---


def test_audit(keyed, alice, admin):
    sandbox = alice.create(name="audited")
    admin.delete(sandbox.path)
    [created] = [line for line in events(keyed, "created") if line["sandbox"] == sandbox.id]
    assert created["owner"] == "alice" and created["name"] == "audited"
    [ended] = [line for line in events(keyed, "ended") if line["sandbox"] == sandbox.id]
    assert ended["owner"] == "alice" and ended["by"] == "admin" and ended["why"] == "closed"


def test_denied_requests_are_told_but_fill_no_disk(private, folder):
    keys = KeyFile(folder)
    service = start(private, keys.path)
    wrong = Caller(service, "husk_wrong")
    for _ in range(400):
        problem(wrong.get("/sandboxes"), 401)
    denied = events(service, "denied")
    assert denied[0]["client"] == "127.0.0.1" and denied[0]["path"] == "/sandboxes"
    assert len(denied) < 200 and service.log().count('"status"') < 250
    assert "husk_wrong" not in service.log()
    host.until(
        lambda: wrong.get("/sandboxes").status_code == 401 and any("unsaid" in line for line in events(service, "denied")),
        10,
        "the line that says how many are not told of",
    )


def test_start_fails_for_two_admin_keys(private):
    service = private(config=f"[server]\napi_key = x\napi_key_hash = sha256:{'0' * 64}\n")
    with pytest.raises(StartFailed, match="one is enough"):
        service.start()
