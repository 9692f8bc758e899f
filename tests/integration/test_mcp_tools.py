"""The tools of MCP beside running code: commands, packages, files. With the official Python SDK, in both eras and over SSE."""

from concurrent.futures import ThreadPoolExecutor

import pytest

import host
from command_client import fetch, kill, listed
from local_index import Index, Wheel
from mcp_client import call, run_session, session, texts


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


# ---- packages ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shop(harness):
    """A service whose packages come from an index of the tests' own."""
    wheels = [Wheel("plainpkg", "1.0"), Wheel("plainpkg", "2.0", requires=["depends-on-me"]), Wheel("depends-on-me", "1.5")]
    with Index(*wheels) as index:
        service = harness.service(environment={"HUSK_PACKAGE_INDEX": index.url}).start()
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
