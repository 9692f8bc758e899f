"""The tools of MCP beside running code: commands, packages, files. With the official Python SDK, in both eras and over SSE."""

import base64
import io
import json
import socket
import zipfile
from concurrent.futures import ThreadPoolExecutor

import pytest

import host
from command_client import fetch, kill, listed
from local_index import Index, Wheel
from mcp_client import call, run_session, session, texts
from package_client import state


async def new_sandbox(client):
    return (await call(client, "create_sandbox")).structured_content["sandbox_id"]


async def complaint(client, tool, **arguments):
    return texts(await call(client, tool, error=True, **arguments))[0]


# ---- commands ------------------------------------------------------------------------------------


@session
async def test_a_command(client, way):
    made = await call(client, "execute_terminal_command", command="echo hello; echo oops >&2; echo x > 'a b.txt'")
    result = made.structured_content
    sandbox = result["sandbox_id"]
    assert texts(made)[:2] == ["hello\n", "stderr:\noops\n"] and sandbox in texts(made)[-1]
    assert (result["stdout"], result["stderr"], result["exit_code"], result["status"]) == ("hello\n", "oops\n", 0, "ok")
    [link] = [item for item in made.content if item.type == "resource_link"]
    assert link.uri == f"husk://{sandbox}/a%20b.txt"
    assert (await client.read_resource(link.uri)).contents[0].text == "x\n"

    code = await call(client, "execute_python_code", code="open('a b.txt').read()", sandbox_id=sandbox)
    assert texts(code)[0] == "'x\\n'"
    plain = await call(client, "execute_terminal_command", sandbox_id=sandbox, command=["echo", "$HOME", "a;b"])
    assert texts(plain) == ["$HOME a;b\n"]
    silent = await call(client, "execute_terminal_command", sandbox_id=sandbox, command="true")
    assert texts(silent) == ["(no output; exit code 0)"]
    around = await call(
        client, "execute_terminal_command", sandbox_id=sandbox, command="pwd; echo $A; cat", cwd="/tmp", env={"A": "ü"}, stdin="in"
    )
    assert texts(around) == ["/tmp\nü\nin"]
    await call(client, "close_sandbox", sandbox_id=sandbox)


@session
async def test_commands_that_fail(client, way):
    sandbox = await new_sandbox(client)

    async def failed(**arguments):
        return await call(client, "execute_terminal_command", error=True, sandbox_id=sandbox, **arguments)

    wrong = await failed(command="ls /nowhere")
    assert "No such file" in texts(wrong)[0] and texts(wrong)[1] == "Exit code 2."
    assert wrong.structured_content["status"] == "error" and wrong.structured_content["exit_code"] == 2
    several = await failed(commands=["echo one", "exit 3", "echo never"])
    assert several.structured_content["stdout"] == "one\n" and "Command 2 of 3" in texts(several)[-1]
    assert [one["status"] for one in several.structured_content["commands"]] == ["ok", "error", "not_run"]
    late = await failed(command="sleep 60", timeout_seconds=0.5)
    assert late.structured_content["status"] == "timeout" and "larger timeout_seconds" in texts(late)[-1]
    absent = await failed(command=["no-such-program"])
    assert "command not found" in texts(absent)[-1] and absent.structured_content["exit_code"] == 127
    assert "cwd" in texts(await failed(command="ls", cwd="/nowhere"))[-1]
    await call(client, "close_sandbox", sandbox_id=sandbox)


@session
async def test_commands_that_are_none(client, way):
    tool = "execute_terminal_command"
    assert "command is missing" in await complaint(client, tool)
    assert "both" in await complaint(client, tool, command="a", commands=["b"])
    assert "must be a text" in await complaint(client, tool, command=5)
    assert "1 to 64" in await complaint(client, tool, commands=["true"] * 65)
    assert "timeout_seconds must be" in await complaint(client, tool, command="ls", timeout_seconds=0)
    assert "It takes: command" in await complaint(client, tool, command="ls", detach=True)
    assert "list_sandboxes" in await complaint(client, tool, command="ls", sandbox_id="nobody")


@session
async def test_long_output_and_progress_of_a_command(client, way):
    sandbox = await new_sandbox(client)
    seen = []

    async def note(progress, total, message):
        seen.append((progress, message))

    arguments = {"command": "for i in 1 2 3; do echo step $i; sleep 1; done", "sandbox_id": sandbox}
    result = await client.call_tool("execute_terminal_command", arguments, progress_callback=note)
    assert not result.is_error and len(seen) >= 2
    assert "running for" in seen[0][1] and "step" in seen[0][1]

    long = await call(client, "execute_terminal_command", command="seq 100000", sandbox_id=sandbox)
    assert len(texts(long)[0]) <= 64 * 1024 and "bytes left out; the whole text is in " in texts(long)[0]
    assert long.structured_content["truncated"] and texts(long)[0].endswith("99999\n100000\n")
    await call(client, "close_sandbox", sandbox_id=sandbox)


def test_a_command_of_a_tool_is_one_like_any_other(service, sandbox):
    """Fetched while it runs it has the answer of the API; killed, it is no error: somebody wanted that."""
    arguments = {"command": "echo begun; sleep 600", "sandbox_id": sandbox.id, "timeout_seconds": 30}
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(service.post, "/mcp/tools/execute_terminal_command", json=arguments)
        [running] = host.until(lambda: listed(sandbox), 20, "the command")
        host.until(lambda: fetch(sandbox, running["command_id"])["stdout"] == "begun\n", 20, "its output")
        assert fetch(sandbox, running["command_id"])["status"] == "running"
        assert kill(sandbox, running["command_id"]).status_code == 200
        result = waiting.result().json()
    assert not result["isError"] and result["structuredContent"]["status"] == "interrupted"
    assert "Interrupted" in result["content"][-1]["text"]


def leave(service, tool, until, **arguments):
    """Call a tool and hang up when `until` says so."""
    body = json.dumps(arguments).encode()
    head = f"POST /mcp/tools/{tool} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", service.port), 20) as line:
        line.sendall(head.encode() + body)
        host.until(until, 20, "the call to be under way")


def test_leaving_a_command_ends_it(service, sandbox):
    leave(service, "execute_terminal_command", lambda: listed(sandbox), command="sleep 600", sandbox_id=sandbox.id)
    host.until(lambda: not listed(sandbox), 20, "the end of the command")
    assert sandbox.command("echo fine")["stdout"] == "fine\n"


# ---- packages ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shop(harness):
    """A service whose packages come from an index of the tests' own."""
    wheels = [Wheel("plainpkg", "1.0"), Wheel("plainpkg", "2.0", requires=["depends-on-me"]), Wheel("depends-on-me", "1.5")]
    with Index(*wheels) as index:
        service = harness.service(environment={"HUSK_PACKAGE_INDEX": index.url}).start()
        service.index = index
        yield service
        harness.end(service)


def in_shop(test):
    @pytest.mark.parametrize("way", ["legacy", "auto", "sse"])
    def run(shop, way):
        run_session(shop, way, test)

    return run


@in_shop
async def test_installing(client, way):
    sandbox = await new_sandbox(client)
    absent = await call(client, "execute_python_code", error=True, code="import plainpkg", sandbox_id=sandbox)
    assert "install_packages" in texts(absent)[0]
    before = await call(client, "check_package_status", package_name="plainpkg", sandbox_id=sandbox)
    assert before.structured_content["packages"][0]["status"] == "not_installed" and "install_packages" in texts(before)[0]

    seen = []

    async def note(progress, total, message):
        seen.append((progress, message))

    arguments = {"packages": ["plainpkg==1.0"], "sandbox_id": sandbox}
    result = await client.call_tool("install_packages", arguments, progress_callback=note)
    assert not result.is_error and texts(result) == ["Installed: plainpkg 1.0."]
    assert result.structured_content["installed"] == [{"name": "plainpkg", "version": "1.0"}]
    assert result.structured_content["sandbox_id"] == sandbox and not result.structured_content["restart_needed"]
    assert any("Collecting plainpkg" in message for _, message in seen)
    assert [step for step, _ in seen] == sorted({step for step, _ in seen})

    await call(client, "execute_python_code", code="import plainpkg", sandbox_id=sandbox)
    newer = await call(client, "install_packages", requirements="# newer\nplainpkg\n", upgrade=True, sandbox_id=sandbox)
    assert "depends-on-me 1.5" in texts(newer)[0] and "plainpkg 2.0" in texts(newer)[0]
    assert newer.structured_content["restart_needed"] and "restart_kernel" in texts(newer)[0]
    one = await call(client, "check_package_status", package_name="Plainpkg", sandbox_id=sandbox)
    assert texts(one) == ["plainpkg 2.0 is installed."]
    all_of_them = (await call(client, "check_package_status", sandbox_id=sandbox)).structured_content
    assert {"name": "depends-on-me", "version": "1.5", "status": "installed"} in all_of_them["packages"]
    assert all_of_them["count"] == len(all_of_them["packages"]) > 10
    await call(client, "close_sandbox", sandbox_id=sandbox)


@in_shop
async def test_what_cannot_be_installed(client, way):
    sandbox = await new_sandbox(client)
    tool = "install_packages"
    failed = await call(client, tool, error=True, packages=["no-such-package"], sandbox_id=sandbox)
    assert "no-such-package" in texts(failed)[0] and "Nothing was installed" in texts(failed)[0]
    assert failed.structured_content["status"] == "failed" and failed.structured_content["installed"] == []
    state = await call(client, "check_package_status", package_name="no-such-package", sandbox_id=sandbox)
    assert state.structured_content["packages"][0]["status"] == "failed" and "failed" in texts(state)[0]
    assert "packages is missing" in await complaint(client, tool, sandbox_id=sandbox)
    assert "list of strings" in await complaint(client, tool, packages="plainpkg", sandbox_id=sandbox)
    await complaint(client, tool, packages=["https://example.org/x.whl"], sandbox_id=sandbox)
    await complaint(client, tool, packages=["--index-url=x"], sandbox_id=sandbox)
    assert "It takes: packages" in await complaint(client, tool, package_name="plainpkg")
    assert "not the name" in await complaint(client, "check_package_status", package_name="../x", sandbox_id=sandbox)
    assert "list_sandboxes" in await complaint(client, tool, packages=["plainpkg"], sandbox_id="nobody")
    await call(client, "close_sandbox", sandbox_id=sandbox)


@in_shop
async def test_a_sandbox_with_packages(client, way):
    made = await call(client, "create_sandbox", packages=["plainpkg==1.0"])
    assert made.structured_content["installed"] == [{"name": "plainpkg", "version": "1.0"}]
    sandbox = made.structured_content["sandbox_id"]
    await call(client, "execute_python_code", code="import plainpkg", sandbox_id=sandbox)
    await call(client, "close_sandbox", sandbox_id=sandbox)
    assert "not made" in await complaint(client, "create_sandbox", packages=["no-such-package"])
    assert "list of strings" in await complaint(client, "create_sandbox", packages=[5])
    left = await call(client, "list_sandboxes")
    assert left.structured_content["count"] == 0

    unnamed = await call(client, "install_packages", packages=["plainpkg"])
    sandbox = unnamed.structured_content["sandbox_id"]
    assert f'sandbox_id "{sandbox}"' in texts(unnamed)[0]
    await call(client, "close_sandbox", sandbox_id=sandbox)


def test_leaving_and_closing_while_packages_install(shop):
    """Whoever hangs up ends the install, and the sandbox that was made for him; who stays is told why it ended."""
    shop.index.add(Wheel("held-back", "1.0"))
    box = shop.create()
    shop.index.hold.clear()

    def under_way():
        return any("held_back" in path and "files" in path for path in shop.index.requests)

    leave(shop, "install_packages", under_way, packages=["held-back"], sandbox_id=box.id)
    host.until(lambda: state(box, "held-back")["status"] != "installing", 20, "the end of the install")
    shop.index.requests.clear()
    leave(shop, "create_sandbox", under_way, packages=["held-back"], name="unwanted")
    host.until(lambda: shop.get("/sandbox/unwanted").status_code != 200, 20, "the end of the sandbox")
    shop.index.requests.clear()
    with ThreadPoolExecutor() as threads:
        arguments = {"packages": ["held-back"], "sandbox_id": box.id}
        waiting = threads.submit(shop.post, "/mcp/tools/install_packages", json=arguments)
        host.until(under_way, 20, "the install")
        asked = shop.post("/mcp/tools/check_package_status", json={"package_name": "held-back", "sandbox_id": box.id}).json()
        assert asked["structuredContent"]["packages"][0]["status"] == "installing"
        box.close()
        result = waiting.result().json()
    assert result["isError"] and "create_sandbox" in result["content"][0]["text"]
    shop.index.hold.set()


# ---- files ---------------------------------------------------------------------------------------


@session
async def test_listing_and_deleting(client, way):
    sandbox = await new_sandbox(client)
    empty = await call(client, "list_files", sandbox_id=sandbox)
    assert empty.structured_content["files"] == [] and "no files" in texts(empty)[0]
    code = "import os; os.makedirs('d/e'); [open(p, 'w').write(p) for p in ('a \"ü\"\\n.csv', 'd/e/f.txt', 'd/g.png')]"
    await call(client, "execute_python_code", code=code, sandbox_id=sandbox)

    every = await call(client, "list_files", sandbox_id=sandbox)
    files = {file["path"]: file for file in every.structured_content["files"]}
    assert set(files) == {'a "ü"\n.csv', "d/e/f.txt", "d/g.png"} and not every.structured_content["incomplete"]
    assert files["d/g.png"]["size"] == 7 and files["d/g.png"]["type"] == "image/png"
    assert "d/e/f.txt" in texts(every)[0] and len(texts(every)[0].splitlines()) == 3
    below = await call(client, "list_files", path="/home/user/d/", recursive=False, sandbox_id=sandbox)
    assert {file["path"]: file["type"] for file in below.structured_content["files"]} == {
        "d/e": "inode/directory",
        "d/g.png": "image/png",
    }

    removed = await call(client, "delete_file", path="d/e/f.txt", sandbox_id=sandbox)
    assert removed.structured_content["path"] == "d/e/f.txt"
    await call(client, "delete_file", path="d", sandbox_id=sandbox)
    left = await call(client, "list_files", sandbox_id=sandbox)
    assert [file["path"] for file in left.structured_content["files"]] == ['a "ü"\n.csv']

    assert "list_files" in await complaint(client, "delete_file", path="d", sandbox_id=sandbox)
    assert "path is missing" in await complaint(client, "delete_file", path="/home/user", sandbox_id=sandbox)
    assert "There is no" in await complaint(client, "list_files", path="nowhere", sandbox_id=sandbox)
    for tool in ("list_files", "delete_file"):
        for path in ("../x", "/etc", "a\0b"):
            assert "relative to /home/user" in await complaint(client, tool, path=path, sandbox_id=sandbox)
        assert "must be a string" in await complaint(client, tool, path=5, sandbox_id=sandbox)
        assert "list_sandboxes" in await complaint(client, tool, path="a", sandbox_id="nobody")
    await call(client, "close_sandbox", sandbox_id=sandbox)


@session
async def test_a_listing_that_is_too_long(client, way):
    sandbox = await new_sandbox(client)
    code = "for i in range(3000): open(f'file number {i}', 'w').close()"
    await call(client, "execute_python_code", code=code, sandbox_id=sandbox)
    result = await call(client, "list_files", sandbox_id=sandbox)
    assert result.structured_content["incomplete"] and "and more" in texts(result)[0]
    names = [file["path"] for file in result.structured_content["files"]]
    assert 500 < len(names) < 3000 and len(texts(result)[0]) < 140 * 1024
    assert names == sorted(f"file number {i}" for i in range(3000))[: len(names)]
    await call(client, "close_sandbox", sandbox_id=sandbox)


@session
async def test_writing_and_reading(client, way):
    text = "a,b\n1,ü\n" * 3
    made = await call(client, "write_file", path="/home/user/d/e/table.csv", content=text)
    written = made.structured_content
    sandbox = written["sandbox_id"]
    assert written["path"] == "d/e/table.csv" and written["size"] == len(text.encode()) and not written["replaced"]
    assert f'sandbox_id "{sandbox}"' in texts(made)[0]
    seen = await call(client, "execute_python_code", code="print(open('d/e/table.csv').read(), end='')", sandbox_id=sandbox)
    assert texts(seen)[0] == text
    whole = await call(client, "read_file", path="d/e/table.csv", sandbox_id=sandbox)
    assert texts(whole) == [text] and whole.structured_content["text"] == text and whole.structured_content["end"]

    again = await call(client, "write_file", path="d/e/table.csv", content="", sandbox_id=sandbox)
    assert again.structured_content["replaced"] and again.structured_content["size"] == 0
    empty = await call(client, "read_file", path="d/e/table.csv", sandbox_id=sandbox)
    assert empty.structured_content["text"] == "" and "0 of 0" in texts(empty)[-1]

    # Parts join to the whole, whatever character a border falls into.
    text = "añ€𝄞\n" * 20000
    await call(client, "write_file", path="long.txt", content=text, sandbox_id=sandbox)
    parts, offset, end = [], 0, False
    while not end:
        part = (await call(client, "read_file", path="long.txt", offset=offset, sandbox_id=sandbox)).structured_content
        assert part["encoding"] == "utf-8" and part["offset"] == offset and part["length"] <= 65536
        parts.append(part["text"])
        offset, end = offset + part["length"], part["end"]
    assert "".join(parts) == text and len(parts) > 2
    inside = await call(client, "read_file", path="long.txt", offset=2, length=9, sandbox_id=sandbox)
    assert inside.structured_content["text"] == "€𝄞\n" and "offset 11" in texts(inside)[-1]

    tail = await call(client, "read_file", path="long.txt", offset=len(text.encode()), sandbox_id=sandbox)
    assert tail.structured_content["text"] == "" and tail.structured_content["end"]
    assert "behind" in await complaint(client, "read_file", path="long.txt", offset=10**9, sandbox_id=sandbox)
    await call(client, "close_sandbox", sandbox_id=sandbox)


def blob_of(result):
    [item] = [item for item in result.content if item.type == "resource"]
    return item.resource.uri, item.resource.mime_type, base64.b64decode(item.resource.blob)


@session
async def test_bytes_of_any_kind(client, way):
    data = bytes(range(256)) * 2500  # the SDK takes events of at most 1 MiB
    made = await call(client, "upload_file", path="d/ä x.png", data=base64.encodebytes(data).decode())
    sandbox = made.structured_content["sandbox_id"]
    assert made.structured_content["size"] == len(data)
    result = await call(client, "download_file", path="d/ä x.png", sandbox_id=sandbox)
    uri = f"husk://{sandbox}/d/%C3%A4%20x.png"
    assert blob_of(result) == (uri, "image/png", data)
    assert result.structured_content == {
        "sandbox_id": sandbox, "path": "d/ä x.png", "size": len(data), "mime_type": "image/png", "uri": uri
    }  # fmt: skip
    assert base64.b64decode((await client.read_resource(uri)).contents[0].blob) == data
    part = await call(client, "read_file", path="d/ä x.png", offset=1000, length=300, sandbox_id=sandbox)
    assert blob_of(part)[2] == data[1000:1300] and part.structured_content["encoding"] == "base64"
    assert "not text" in texts(part)[0] and "text" not in part.structured_content

    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as pack:
        pack.writestr("src/main.py", "print('packed')")
        pack.writestr("README", "x")
    packed = base64.b64encode(archive.getvalue()).decode()
    copied = await call(client, "copy_project", archive=packed, path="project", sandbox_id=sandbox)
    assert copied.structured_content["path"] == "project" and copied.structured_content["bytes"] == 16
    ran = await call(client, "execute_terminal_command", command="python project/src/main.py", sandbox_id=sandbox)
    assert texts(ran)[0] == "packed\n"
    await call(client, "close_sandbox", sandbox_id=sandbox)
    unnamed = await call(client, "copy_project", archive=packed)
    assert "Unpacked" in texts(unnamed)[0] and "new sandbox" in texts(unnamed)[0]
    await call(client, "close_sandbox", sandbox_id=unnamed.structured_content["sandbox_id"])


@session
async def test_files_that_go_wrong(client, way):
    sandbox = await new_sandbox(client)

    async def wrong(tool, **arguments):
        return await complaint(client, tool, sandbox_id=sandbox, **arguments)

    await call(client, "execute_python_code", code="import os; os.mkdir('d'); os.symlink('/etc/passwd', 'l')", sandbox_id=sandbox)
    good = base64.b64encode(b"x").decode()
    for tool, more in (("write_file", {"content": "x"}), ("upload_file", {"data": good})):
        assert "is a folder" in await wrong(tool, path="d", **more)
        assert "must name a file" in await wrong(tool, path="", **more)
        assert "must name a file" in await wrong(tool, path="d/", **more)
        assert "relative to /home/user" in await wrong(tool, path="../x", **more)
        assert "is missing" in await wrong(tool, path="x")
        assert "list_sandboxes" in await complaint(client, tool, path="x", sandbox_id="nobody", **more)
    assert "not base64" in await wrong("upload_file", path="x", data="%%%")
    assert "not base64" in await wrong("upload_file", path="x", data="eA=")
    assert "must be a string" in await wrong("write_file", path="x", content=5)
    too_much = base64.b64encode(bytes(8 * 1024 * 1024 + 1)).decode()
    assert "at most 8388608" in await wrong("upload_file", path="x", data=too_much)
    assert "archive" in await wrong("copy_project", archive=good)
    for tool in ("read_file", "download_file"):
        assert "list_files" in await wrong(tool, path="nothing")
        assert "list_files" in await wrong(tool, path="l")
        assert "is a folder" in await wrong(tool, path="d")
        assert "path is missing" in await wrong(tool)
        assert "relative to /home/user" in await wrong(tool, path="/etc/passwd")
    assert "length must be" in await wrong("read_file", path="x", length=0)
    assert "offset must be" in await wrong("read_file", path="x", offset=-1)
    await call(client, "execute_python_code", code="open('big', 'w').truncate(8 * 1024 * 1024 + 1)", sandbox_id=sandbox)
    assert "over HTTP" in await wrong("download_file", path="big")
    left = await call(client, "list_files", sandbox_id=sandbox)
    assert {file["path"] for file in left.structured_content["files"]} == {"big", "l"}
    await call(client, "close_sandbox", sandbox_id=sandbox)


@session
async def test_a_full_disk(client, way):
    sandbox = (await call(client, "create_sandbox", disk_mb=16)).structured_content["sandbox_id"]
    data = base64.b64encode(bytes(7 * 1024 * 1024)).decode()
    for name in ("one", "two"):
        await call(client, "upload_file", path=name, data=data, sandbox_id=sandbox)
    assert "disk of the sandbox is full" in await complaint(client, "upload_file", path="three", data=data, sandbox_id=sandbox)
    await call(client, "delete_file", path="one", sandbox_id=sandbox)
    await call(client, "upload_file", path="three", data=data, sandbox_id=sandbox)
    await call(client, "close_sandbox", sandbox_id=sandbox)


async def all_resources(client):
    pages, cursor = [], None
    while True:
        page = await client.list_resources(cursor=cursor)
        pages.append(page.resources)
        cursor = page.next_cursor
        if cursor is None:
            return pages


@pytest.mark.parametrize("way", ["legacy", "auto", "sse"])
def test_resources_are_listed(private, way):
    """Of the sandboxes that a session has made; where nothing is remembered of a caller, of all that it may see."""
    service = private().start()
    foreign = service.create()
    foreign.run("open('foreign', 'w').close()")
    others = set() if way != "auto" else {f"husk://{foreign.id}/foreign"}

    async def look(client, way):
        assert {resource.uri for resource in (await client.list_resources()).resources} == others
        boxes = [await new_sandbox(client) for _ in range(3)]
        for box in boxes[:2]:
            await call(client, "write_file", path=f"d/ü {box[:4]}.csv", content="a\n", sandbox_id=box)
        await call(client, "execute_terminal_command", command="ln -s d link; mkfifo pipe", sandbox_id=boxes[0])
        found = {resource.uri: resource for resource in (await client.list_resources()).resources}
        assert set(found) == others | {f"husk://{box}/d/%C3%BC%20{box[:4]}.csv" for box in boxes[:2]}
        for uri in set(found) - others:
            assert (found[uri].mime_type, found[uri].size) == ("text/csv", 2) and found[uri].name.startswith("d/ü ")
            assert (await client.read_resource(uri)).contents[0].text == "a\n"

        # Pages, of which none is long and none has what another one has.
        await call(client, "execute_python_code", code="for i in range(3000): open(f'n{i}', 'w').close()", sandbox_id=boxes[2])
        pages = await all_resources(client)
        uris = [resource.uri for page in pages for resource in page]
        assert len(pages) > 2 and len(uris) == len(set(uris))
        assert set(uris) == set(found) | {f"husk://{boxes[2]}/n{i}" for i in range(3000)}

        # A sandbox that ends between two pages takes its own files with it, and nothing else.
        first = await client.list_resources()
        assert first.next_cursor
        await call(client, "close_sandbox", sandbox_id=boxes[2])
        rest = await client.list_resources(cursor=first.next_cursor)
        listed = {resource.uri for page in (first.resources, rest.resources) for resource in page}
        assert {uri for uri in listed if boxes[2] not in uri} == set(found) and rest.next_cursor is None
        for cursor in ("", "x", "0" * 36 + ".0", boxes[0], boxes[0] + ".", boxes[0] + ".-1", boxes[0] + ".1e3", boxes[0] + ".9999999"):
            with pytest.raises(Exception, match="cursor"):
                await client.list_resources(cursor=cursor)
        assert (await client.list_resources(cursor="f" * 8 + "-ffff" * 3 + "-" + "f" * 12 + ".0")).resources == []

    run_session(service, way, look)


def test_resources_of_more_sandboxes_than_a_page_has(private):
    service = private().start()
    boxes = [service.create(memory_mb=64) for _ in range(18)]
    for box in boxes:
        box.run("open('x.txt', 'w').close()")

    async def look(client, way):
        pages = await all_resources(client)
        assert [len(page) for page in pages] == [16, 2]
        assert {resource.uri for page in pages for resource in page} == {f"husk://{box.id}/x.txt" for box in boxes}

    run_session(service, "auto", look)


@session
async def test_large_files(client, way):
    """The SDK takes events of at most 1 MiB. Where answers are plain JSON they may be larger, and where they are events it is told
    what to do instead."""
    data = bytes(range(256)) * 12000
    made = await call(client, "upload_file", path="large", data=base64.b64encode(data).decode())
    sandbox, uri = made.structured_content["sandbox_id"], f"husk://{made.structured_content['sandbox_id']}/large"
    if way == "sse":
        for attempt in (client.call_tool("download_file", {"path": "large", "sandbox_id": sandbox}), client.read_resource(uri)):
            with pytest.raises(Exception, match="read_file reads parts"):
                await attempt
    else:
        assert blob_of(await call(client, "download_file", path="large", sandbox_id=sandbox))[2] == data
        assert base64.b64decode((await client.read_resource(uri)).contents[0].blob) == data
    parts = []
    while sum(map(len, parts)) < len(data):
        offset = sum(map(len, parts))
        parts.append(blob_of(await call(client, "read_file", path="large", offset=offset, length=262144, sandbox_id=sandbox))[2])
    assert b"".join(parts) == data
    await call(client, "close_sandbox", sandbox_id=sandbox)


@session
async def test_large_images(client, way):
    """With progress the answer is an event, too: a model is told what it does not see, and sees the rest."""
    code = "import time\nfrom IPython.display import display\nprint('drawn', flush=True); time.sleep(1.5)\n"
    code += "for size in (1000, 200_000): display({'image/png': 'iVBORw0K' * size, 'text/plain': 'shape'}, raw=True)"

    async def note(progress, total, message):
        pass

    result = await client.call_tool("execute_python_code", {"code": code}, progress_callback=note)
    sandbox = result.structured_content["sandbox_id"]
    assert len([item for item in result.content if item.type == "image"]) == 1
    assert texts(result)[0] == "drawn\n" and "image/png of 1600000 bytes" in texts(result)[1] and "save it to a file" in texts(result)[1]
    assert result.structured_content["truncated"]
    if way != "sse":
        plain = await call(client, "execute_python_code", code=code, sandbox_id=sandbox)
        assert len([item for item in plain.content if item.type == "image"]) == 2 and not plain.structured_content["truncated"]
    await call(client, "close_sandbox", sandbox_id=sandbox)


def test_lists_while_folders_are_busy(private):
    """Nothing is left out of a list because others list at the same time: it is whole, goes on with another page, or is refused."""
    service = private().start()
    boxes = [service.create(memory_mb=64) for _ in range(3)]
    for box in boxes:
        box.run("for i in range(300): open(f'n{i}', 'w').close()")
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "resources/list"}
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}

    def list_all(_):
        uris, params = [], {"_meta": meta}
        while True:
            body = {"jsonrpc": "2.0", "id": 1, "method": "resources/list", "params": params}
            answer = service.post("/mcp", json=body, headers=headers).json()
            if "error" in answer:
                assert "Try again" in answer["error"]["message"]
                return None
            uris += [resource["uri"] for resource in answer["result"]["resources"]]
            if "nextCursor" not in answer["result"]:
                return uris
            params = {"_meta": meta, "cursor": answer["result"]["nextCursor"]}

    with ThreadPoolExecutor(24) as threads:
        lists = list(threads.map(list_all, range(48)))
    assert {len(uris) for uris in lists if uris is not None} == {900}
    assert len(list_all(0)) == 900
