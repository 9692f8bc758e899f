"""The official Python SDK of MCP, in both eras and over the older transport: whole sessions, as programs have them."""

import base64

import pytest

from mcp_client import call, session, texts

PNG = b"\x89PNG\r\n\x1a\n"
PLOT = "import matplotlib.pyplot as plt\nplt.plot([1, 3, 2])\nplt.savefig('my plot.png')\nprint('drawn')"


@session
async def test_a_whole_session(client, way):
    assert client.protocol_version == ("2026-07-28" if way == "auto" else "2025-11-25")
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert {"create_sandbox", "execute_python_code", "close_sandbox"} <= tools.keys()
    for tool in tools.values():
        assert tool.title and tool.description and tool.annotations and tool.output_schema

    created = await call(client, "create_sandbox", name=f"python-{way}")
    sandbox = created.structured_content["sandbox_id"]
    assert sandbox in texts(created)[0]
    assert sandbox in texts(await call(client, "list_sandboxes"))[0]

    await call(client, "execute_python_code", code="x = 20", sandbox_id=sandbox)
    result = await call(client, "execute_python_code", code="x + 1", sandbox_id=f"python-{way}")
    assert texts(result)[0] == "21"
    assert result.structured_content["results"][0]["data"] == "21"

    plot = await call(client, "execute_python_code", code=PLOT, sandbox_id=sandbox)
    assert texts(plot)[0] == "drawn\n"
    [image] = [item for item in plot.content if item.type == "image"]
    assert image.mime_type == "image/png" and base64.b64decode(image.data).startswith(PNG)
    [link] = [item for item in plot.content if item.type == "resource_link"]
    assert link.uri == f"husk://{sandbox}/my%20plot.png" and link.size > 1000 and link.mime_type == "image/png"
    [content] = (await client.read_resource(link.uri)).contents
    assert base64.b64decode(content.blob).startswith(PNG) and content.mime_type == "image/png"
    # The image is there once: a model that is shown the structured content is not shown base64.
    assert image.data[:100] not in str(plot.structured_content)

    extended = await call(client, "extend_sandbox", sandbox_id=sandbox, ttl_seconds=100)
    assert extended.structured_content["expires_at"] < created.structured_content["expires_at"]
    assert "fresh kernel" in texts(await call(client, "restart_kernel", sandbox_id=sandbox))[0]
    failed = await call(client, "execute_python_code", error=True, code="x", sandbox_id=sandbox)
    assert failed.structured_content["error"] == "NameError"
    assert "Traceback" in texts(failed)[0] and "run it again" in texts(failed)[0]

    await call(client, "close_sandbox", sandbox_id=sandbox)
    gone = await call(client, "execute_python_code", error=True, code="1", sandbox_id=sandbox)
    assert "was closed" in texts(gone)[0] and "create_sandbox" in texts(gone)[0]


@session
async def test_text_of_files(client, way):
    code = "import os; os.mkdir('d'); open('d/ä.csv', 'w').write('a,b\\n1,ü\\n'); open('x', 'wb').write(b'\\xff\\x00')"
    result = await call(client, "execute_python_code", code=code)
    sandbox = result.structured_content["sandbox_id"]
    links = {item.name: item for item in result.content if item.type == "resource_link"}
    [table] = (await client.read_resource(links["d/ä.csv"].uri)).contents
    assert table.text == "a,b\n1,ü\n" and table.mime_type == "text/csv"
    [raw] = (await client.read_resource(links["x"].uri)).contents
    assert base64.b64decode(raw.blob) == b"\xff\x00"
    for uri in (f"husk://{sandbox}/nothing", f"husk://{sandbox}/d", f"husk://{sandbox}/../run/x", "husk://nobody/x", "file:///etc/passwd"):
        with pytest.raises(Exception, match="(?i)there is no|Resources here are files"):
            await client.read_resource(uri)
    await call(client, "close_sandbox", sandbox_id=sandbox)


@session
async def test_a_sandbox_that_nobody_named(client, way):
    result = await call(client, "execute_python_code", code="y = 5")
    sandbox = result.structured_content["sandbox_id"]
    assert sandbox in texts(result)[-1]
    if way == "auto":
        # Nothing is remembered of a caller.
        other = await call(client, "execute_python_code", code="'y' in globals()")
        assert other.structured_content["sandbox_id"] != sandbox and texts(other)[0] == "False"
        assert "sandbox_id" in texts(await call(client, "interrupt_execution", error=True))[0]
        await call(client, "close_sandbox", sandbox_id=other.structured_content["sandbox_id"])
    else:
        again = await call(client, "execute_python_code", code="y")
        assert again.structured_content["sandbox_id"] == sandbox and texts(again) == ["5"]
        second = (await call(client, "create_sandbox")).structured_content["sandbox_id"]
        unclear = await call(client, "execute_python_code", error=True, code="y")
        assert sandbox in texts(unclear)[0] and second in texts(unclear)[0]
        await call(client, "close_sandbox", sandbox_id=second)
        assert texts(await call(client, "execute_python_code", code="y")) == ["5"]
    await call(client, "close_sandbox", sandbox_id=sandbox)


@session
async def test_progress(client, way):
    seen = []

    async def note(progress, total, message):
        seen.append((progress, message))

    code = "import time\nfor i in range(3):\n    print('step', i)\n    time.sleep(1)"
    result = await client.call_tool("execute_python_code", {"code": code}, progress_callback=note)
    assert not result.is_error
    assert len(seen) >= 2 and [step for step, _ in seen] == sorted({step for step, _ in seen})
    assert "step" in seen[0][1] and "running for" in seen[0][1]
    await call(client, "close_sandbox", sandbox_id=result.structured_content["sandbox_id"])


@session
async def test_what_a_model_gets_wrong(client, way):
    async def complaint(tool, **arguments):
        return texts(await call(client, tool, error=True, **arguments))[0]

    assert "code is missing" in await complaint("execute_python_code")
    assert "must be a string" in await complaint("execute_python_code", code=5)
    assert "timeout_seconds must be" in await complaint("execute_python_code", code="1", timeout_seconds=-1)
    assert "It takes: code" in await complaint("execute_python_code", code="1", language="python")
    assert "no sandbox" in (await complaint("execute_python_code", code="1", sandbox_id="nobody")).lower()
    assert "ttl_seconds" in await complaint("extend_sandbox", sandbox_id="nobody")
    assert "memory_mb must be" in await complaint("create_sandbox", memory_mb=1)
    assert "larger timeout_seconds" in await complaint("execute_python_code", code="while True: pass", timeout_seconds=0.5)
    with pytest.raises(Exception, match="There is no tool"):
        await client.call_tool("no_such_tool", {})
    for line in texts(await call(client, "list_sandboxes"))[0].splitlines():
        if ": ready" in line:
            await call(client, "close_sandbox", sandbox_id=line.split()[0].rstrip(":"))


@session
async def test_prompts_and_completion(client, way):
    [prompt] = (await client.list_prompts()).prompts
    text = (await client.get_prompt(prompt.name, {"task": "count to 3"})).messages[0].content.text
    assert "execute_python_code" in text and "install_packages" in text and "download_file" in text and text.endswith("count to 3")
    [template] = (await client.list_resource_templates()).resource_templates
    created = await call(client, "create_sandbox", name=f"complete-{way}")
    ref = {"type": "ref/resource", "uri": template.uri_template}
    from mcp import types

    answer = await client.complete(types.ResourceTemplateReference(**ref), {"name": "sandbox", "value": "complete-"})
    assert answer.completion.values == [f"complete-{way}"]
    await call(client, "close_sandbox", sandbox_id=created.structured_content["sandbox_id"])
