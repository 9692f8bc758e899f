"""MCP clients that are written for Node.js: the TypeScript SDK in both generations, and the Inspector."""

import json
import os
import re
import shutil
import subprocess

import pytest

from local_index import Index, Wheel
from service import NODE, NODE_PACKAGES, ROOT

INSPECTOR = NODE_PACKAGES / "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"


def node(folder, *arguments):
    environment = {"PATH": f"{NODE.parent}:{os.environ['PATH']}", "HOME": str(folder), "NO_PROXY": "127.0.0.1"}
    return subprocess.run(
        [NODE, *arguments], env=environment, cwd=folder, capture_output=True, text=True, timeout=120
    )


# v1 speaks at most 2025-11-25; v2 does, too, unless it is told to speak 2026-07-28.
@pytest.mark.parametrize("way", ["v1", "v1-sse", "v2", "v2-modern"])
def test_typescript_sdk(private, folder, way):
    # Where the packages are is where a module looks for them.
    script = shutil.copy(ROOT / "tests" / "node" / "session.mjs", NODE_PACKAGES / "session.mjs")
    with Index(Wheel("plainpkg")) as index:
        service = private(environment={"HUSK_PACKAGE_INDEX": index.url}).start()
        result = node(folder, script, way, service.url)
    assert result.returncode == 0 and result.stdout.endswith("good\n"), result.stdout + result.stderr


def inspect(folder, url, *arguments):
    result = node(folder, INSPECTOR, "--cli", url, "--format", "json", *arguments)
    assert result.returncode == 0, result.stdout + result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize("era", ["legacy", "auto", "modern", "sse"])
def test_inspector(service, folder, era):
    url, options = f"{service.url}/mcp", ("--transport", "http", "--protocol-era", era)
    if era == "sse":
        url, options = f"{service.url}/sse", ("--transport", "sse")
    tools = inspect(folder, url, *options, "--method", "tools/list", "--strict")
    assert "execute_python_code" in json.dumps(tools)
    arguments = json.dumps({"code": "print(6 * 7)"})
    called = inspect(
        folder, url, *options, "--method", "tools/call", "--tool-name", "execute_python_code", "--tool-args-json", arguments
    )
    assert "42" in json.dumps(called)
    [sandbox] = set(re.findall(r'"sandbox_id": "([^"]+)"', json.dumps(called)))
    assert service.adopt(sandbox).close().status_code == 200
    templates = inspect(folder, url, *options, "--method", "resources/templates/list")
    assert "husk://{sandbox}/{+path}" in json.dumps(templates)
