"""The contract of the tools: what tools/list promises of each, and that real answers keep it, those included that say what went wrong."""

import base64
import io
import re
import tarfile
import uuid

import pytest
from jsonschema import Draft202012Validator

import host
from local_index import Index, Wheel

NAMES = (
    "create_sandbox list_sandboxes close_sandbox extend_sandbox execute_python_code interrupt_execution restart_kernel "
    "execute_terminal_command install_packages check_package_status list_files read_file write_file upload_file download_file "
    "copy_project delete_file"
).split()
# Those that put something into a sandbox, and make one if none is named.
MAKERS = set("execute_python_code execute_terminal_command install_packages write_file upload_file copy_project".split())
READERS = set("list_sandboxes check_package_status list_files read_file download_file".split())


@pytest.fixture(scope="module")
def tools(service):
    answer = service.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).json()
    return {tool["name"]: tool for tool in answer["result"]["tools"]}


def test_which_there_are(tools):
    assert sorted(tools) == sorted(NAMES)
    for name, tool in tools.items():
        assert re.fullmatch("[a-z_]+", name)
        assert 5 < len(tool["title"]) < 40 and len(tool["description"]) > 50
        assert tool["description"][0].isupper() and tool["description"].endswith(".")
        hints = tool["annotations"]
        assert hints.keys() == {"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}
        assert hints["readOnlyHint"] == (name in READERS) and not (hints["readOnlyHint"] and hints["destructiveHint"])


def every_property(schema, path=""):
    for key, value in schema.get("properties", {}).items():
        yield f"{path}/{key}", value
        yield from every_property(value, f"{path}/{key}")


def test_schemas(tools):
    for name, tool in tools.items():
        for kind in ("inputSchema", "outputSchema"):
            schema = tool[kind]
            Draft202012Validator.check_schema(schema)
            assert schema["type"] == "object" and "properties" in schema
            assert set(schema.get("required", [])) <= schema["properties"].keys(), name
        assert tool["inputSchema"]["additionalProperties"] is False
        for path, value in every_property(tool["inputSchema"]):
            assert value.get("description"), f"{name}{path}: a model has to guess what it is"
        assert "local_path" not in tool["inputSchema"]["properties"]
        named = tool["inputSchema"]["properties"].get("sandbox_id")
        assert (named is None) == (name in ("create_sandbox", "list_sandboxes"))
        if named:
            assert ("or none yet" in named["description"]) == (name in MAKERS)


class Model:
    """Calls tools and holds every answer against the contract."""

    def __init__(self, service, tools):
        self.service, self.tools, self.answered = service, tools, set()

    def call(self, name, /, error=False, **arguments):
        result = self.service.post(f"/mcp/tools/{name}", json=arguments).json()
        assert result["isError"] is error, result
        assert result["content"] and all(item.get("text") != "" for item in result["content"])
        assert any(item["type"] == "text" for item in result["content"])
        if not error:
            assert "structuredContent" in result
            self.answered.add(name)
        if "structuredContent" in result:
            schema = self.tools[name]["outputSchema"]
            Draft202012Validator(schema).validate(result["structuredContent"])
            unknown = result["structuredContent"].keys() - schema["properties"].keys()
            assert not unknown, f"{name} answers more than it says: {unknown}"
        return result

    def complaint(self, name, /, **arguments):
        return "".join(item["text"] for item in self.call(name, error=True, **arguments)["content"] if item["type"] == "text")


def archive():
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as pack:
        info = tarfile.TarInfo("src/main.py")
        info.size = 3
        pack.addfile(info, io.BytesIO(b"1+1"))
    return base64.b64encode(data.getvalue()).decode()


def test_answers(private):
    with Index(Wheel("plainpkg")) as index:
        service = private(environment={"HUSK_PACKAGE_INDEX": index.url}).start()
        listed = service.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).json()["result"]["tools"]
        model = Model(service, {tool["name"]: tool for tool in listed})
        call = model.call
        assert call("list_sandboxes")["structuredContent"]["count"] == 0
        box = call("create_sandbox", name="one", ttl_seconds=600, packages=["plainpkg"])["structuredContent"]["sandbox_id"]
        call("create_sandbox", env={"A": "b"}, memory_mb=512, idle_seconds=60)
        assert call("list_sandboxes")["structuredContent"]["count"] == 2
        call("extend_sandbox", sandbox_id="one", ttl_seconds=900)
        code = "import pandas, matplotlib.pyplot as plt\nplt.plot([1, 2]); plt.savefig('f.png')\nprint('x')\n"
        call("execute_python_code", sandbox_id=box, code=code + "pandas.DataFrame({'a': [1]})")
        call("execute_python_code", sandbox_id=box, code="input('?')", stdin="answer")
        call("execute_python_code", error=True, sandbox_id=box, code="1/0")
        call("execute_python_code", error=True, sandbox_id=box, code="while True: pass", timeout_seconds=0.5)
        call("execute_python_code", error=True, sandbox_id=box, code="import os; os._exit(1)")
        call("execute_terminal_command", sandbox_id=box, command="echo x > y; echo z >&2")
        call("execute_terminal_command", sandbox_id=box, commands=["true", ["echo", "x"]])
        call("execute_terminal_command", error=True, sandbox_id=box, commands=["true", "false", "true"])
        call("execute_terminal_command", error=True, sandbox_id=box, command="sleep 9", timeout_seconds=0.3)
        call("execute_terminal_command", error=True, sandbox_id=box, command="kill -9 $$")
        call("execute_terminal_command", error=True, sandbox_id=box, command="ls", cwd="/nowhere")
        call("interrupt_execution", sandbox_id=box)
        call("restart_kernel", sandbox_id=box)
        call("install_packages", sandbox_id=box, packages=["plainpkg"])
        call("install_packages", error=True, sandbox_id=box, packages=["no-such-package"])
        for name in ("plainpkg", "no-such-package", "absent"):
            call("check_package_status", sandbox_id=box, package_name=name)
        call("check_package_status", sandbox_id=box)
        call("write_file", sandbox_id=box, path="d/t.txt", content="grün")
        call("upload_file", sandbox_id=box, path="d/b", data=base64.b64encode(b"\xff\0").decode())
        call("copy_project", sandbox_id=box, archive=archive(), path="p")
        for path in ("d/t.txt", "d/b"):
            call("read_file", sandbox_id=box, path=path)
            call("read_file", sandbox_id=box, path=path, offset=1, length=1)
            call("download_file", sandbox_id=box, path=path)
        call("list_files", sandbox_id=box)
        call("list_files", sandbox_id=box, path="d", recursive=False)
        call("delete_file", sandbox_id=box, path="d")
        call("close_sandbox", sandbox_id=box)
        assert model.answered == set(NAMES)


ARGUMENTS = {
    "extend_sandbox": {"ttl_seconds": 60},
    "execute_python_code": {"code": "1"},
    "execute_terminal_command": {"command": "ls"},
    "install_packages": {"packages": ["x"]},
    "read_file": {"path": "x"},
    "write_file": {"path": "x", "content": ""},
    "upload_file": {"path": "x", "data": ""},
    "download_file": {"path": "x"},
    "copy_project": {"archive": ""},
    "delete_file": {"path": "x"},
}


def test_sandboxes_that_are_not_there(service, tools, create):
    """Never there, closed, and expired: each tool says so, and which tool goes on from there."""
    model = Model(service, tools)
    closed, expired = create(), create(ttl_seconds=1)
    closed.close()
    host.until(lambda: service.get(expired.path).status_code == 410, 20, "its end")
    for name in NAMES:
        if name in ("create_sandbox", "list_sandboxes"):
            continue
        arguments = ARGUMENTS.get(name, {})
        for reference in ("nobody", str(uuid.uuid4())):
            text = model.complaint(name, sandbox_id=reference, **arguments)
            assert "There is no sandbox" in text and "list_sandboxes" in text and "create_sandbox" in text
            assert "GET /" not in text, "that is no tool"
        text = model.complaint(name, sandbox_id=closed.id, **arguments)
        assert "was closed" in text and "create_sandbox" in text
        text = model.complaint(name, sandbox_id=expired.id, **arguments)
        assert "expired" in text and "create_sandbox" in text


def test_files_of_the_user(service, tools, sandbox):
    """Over HTTP nobody can see them, and the schema does not offer it; a model that has heard of it learns where it works."""
    model = Model(service, tools)
    instead = {"upload_file": "data", "download_file": "Leave it out", "copy_project": "archive"}
    for name, what in instead.items():
        text = model.complaint(name, local_path="/home/me/x", path="x", sandbox_id=sandbox.id)
        assert "husk mcp" in text and "stdio" in text and what in text
    assert "has no argument local_path" in model.complaint("write_file", local_path="x", path="x", content="x")
