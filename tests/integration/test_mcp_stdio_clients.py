"""`husk mcp` with the clients that there are: the official SDKs and the Inspector, in both eras."""

import asyncio
import base64
import hashlib
import json
import os
import re
import shutil

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from local_index import Index, Wheel
from mcp_client import call, texts
from service import NODE_PACKAGES, ROOT
from stdio_bridge import HUSK, environment
from test_mcp_node import INSPECTOR, node

PNG = b"\x89PNG\r\n\x1a\n"
PLOT = "import matplotlib.pyplot as plt\nplt.plot([1, 3, 2])\nplt.savefig('plot.png')\nprint('drawn')"


def run_session(service, folder, mode, test):
    server = StdioServerParameters(command=str(HUSK), args=["mcp"], env=environment(service.url), cwd=folder)

    async def body():
        async with asyncio.timeout(90), Client(server, mode=mode) as client:
            await test(client)

    asyncio.run(body())


# --- Python ----------------------------------------------------------------------------------------------------------


async def run_and_plot(client, sandbox):
    await call(client, "execute_python_code", code="x = 20", sandbox_id=sandbox)
    assert texts(await call(client, "execute_python_code", code="x + 1", sandbox_id=sandbox))[0] == "21"
    plot = await call(client, "execute_python_code", code=PLOT, sandbox_id=sandbox)
    [image] = [item for item in plot.content if item.type == "image"]
    assert base64.b64decode(image.data).startswith(PNG)
    [link] = [item for item in plot.content if item.type == "resource_link"]
    [content] = (await client.read_resource(link.uri)).contents
    assert base64.b64decode(content.blob).startswith(PNG)


async def move_files(client, sandbox, folder):
    (folder / "table.csv").write_text("a,b\n1,2\n")
    up = await call(client, "upload_file", local_path="table.csv", path="data/", sandbox_id=sandbox)
    assert up.structured_content["path"] == "data/table.csv" and not up.structured_content["replaced"]
    down = await call(client, "download_file", path="plot.png", local_path=str(folder / "figures/one.png"), sandbox_id=sandbox)
    assert (folder / "figures/one.png").read_bytes().startswith(PNG)
    assert down.structured_content["mime_type"] == "image/png"
    assert down.structured_content["uri"] == f"husk://{sandbox}/plot.png"
    (folder / "project").mkdir()
    (folder / "project/main.py").write_text("answer = 42\n")
    await call(client, "copy_project", local_path="project", sandbox_id=sandbox)
    ran = await call(client, "execute_python_code", code="import main; main.answer", sandbox_id=sandbox)
    assert texts(ran)[0] == "42"


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_python_sdk(private, folder, mode):
    async def test(client):
        assert client.protocol_version == ("2026-07-28" if mode == "auto" else "2025-11-25")
        assert {"upload_file", "copy_project"} <= {tool.name for tool in (await client.list_tools()).tools}
        sandbox = (await call(client, "create_sandbox", name="python")).structured_content["sandbox_id"]
        await run_and_plot(client, sandbox)
        installed = await call(client, "install_packages", packages=["plainpkg"], sandbox_id=sandbox)
        assert installed.structured_content["status"] == "success"
        await move_files(client, sandbox, folder)
        await call(client, "close_sandbox", sandbox_id=sandbox)
        gone = await call(client, "upload_file", error=True, local_path="table.csv", path="x", sandbox_id=sandbox)
        assert "was closed" in texts(gone)[0] and "create_sandbox" in texts(gone)[0]

    with Index(Wheel("plainpkg")) as index:
        run_session(private(environment={"HUSK_PACKAGE_INDEX": index.url}).start(), folder, mode, test)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_a_large_file_goes_both_ways(service, folder, mode):
    """Larger than what fits into a message, with calls beside it."""
    steps = []

    async def note(progress, total, message):
        steps.append(progress)

    async def test(client):
        up = await call(client, "upload_file", local_path="large", path="large")
        sandbox = up.structured_content["sandbox_id"]
        assert up.structured_content["size"] == 100 << 20 and sandbox in texts(up)[0]
        down = client.call_tool("download_file", {"path": "large", "local_path": "back/", "sandbox_id": sandbox}, progress_callback=note)
        beside = call(client, "execute_python_code", code="6 * 7", sandbox_id=sandbox)
        result, other = await asyncio.gather(down, beside)
        assert not result.is_error and texts(other)[0] == "42"
        await call(client, "close_sandbox", sandbox_id=sandbox)

    with open(folder / "large", "wb") as large:
        for _ in range(100):
            large.write(os.urandom(1 << 20))
    run_session(service, folder, mode, test)
    digests = [hashlib.file_digest(open(folder / name, "rb"), "sha256").digest() for name in ("large", "back/large")]
    assert digests[0] == digests[1]
    assert steps == sorted(set(steps)) and [path.name for path in (folder / "back").iterdir()] == ["large"]


# --- TypeScript ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["v1-stdio", "v2-stdio", "v2-modern-stdio"])
def test_typescript_sdk(private, folder, way):
    # Another name than in test_mcp_node.py: both may run at the same time.
    script = shutil.copy(ROOT / "tests" / "node" / "session.mjs", NODE_PACKAGES / f"session-{way}.mjs")
    with Index(Wheel("plainpkg")) as index:
        service = private(environment={"HUSK_PACKAGE_INDEX": index.url}).start()
        result = node(folder, script, way, service.url, HUSK)
    assert result.returncode == 0 and result.stdout.endswith("good\n"), result.stdout + result.stderr


# --- the Inspector ---------------------------------------------------------------------------------------------------


def inspect(folder, url, era, *arguments):
    """Its options come first, then the command, which it starts anew each time; in its home directory, hence the root."""
    options = ["--cli", "--protocol-era", era, "--format", "json", *arguments]
    result = node(folder, INSPECTOR, *options, "--", HUSK, "mcp", "--url", url, "--root", ".")
    assert result.returncode == 0, result.stdout + result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize("era", ["legacy", "auto", "modern"])
def test_inspector(service, folder, era):
    tools = inspect(folder, service.url, era, "--method", "tools/list", "--strict")
    assert "local_path" in json.dumps(tools)
    arguments = json.dumps({"code": "print(6 * 7)"})
    run = ("--method", "tools/call", "--tool-name", "execute_python_code", "--tool-args-json", arguments)
    called = inspect(folder, service.url, era, *run)
    assert "42" in json.dumps(called)
    [sandbox] = set(re.findall(r'"sandbox_id": "([^"]+)"', json.dumps(called)))
    (folder / "notes.txt").write_text("of this machine")
    arguments = json.dumps({"local_path": "notes.txt", "path": "notes.txt", "sandbox_id": sandbox})
    up = ("--method", "tools/call", "--tool-name", "upload_file", "--tool-args-json", arguments)
    assert "notes.txt" in json.dumps(inspect(folder, service.url, era, *up))
    box = service.adopt(sandbox)
    assert box.run("print(open('notes.txt').read())") == "of this machine\n"
    assert box.close().status_code == 200
