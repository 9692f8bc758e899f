"""`husk mcp` and files of this machine: what a model may name, and what it may not."""

import json
import os
import tarfile

import pytest

import host
from stdio_bridge import ERAS, Bridge

SECRET = "secret of the host"


@pytest.fixture
def place(folder):
    """A folder with a project in it, and beside it what nobody may reach."""
    root = folder / "project"
    (root / "sub").mkdir(parents=True)
    (root / "a.txt").write_text("plain\n")
    (root / "sub" / "grün und blau.txt").write_text("deep\n")
    (folder / "secret").write_text(SECRET)
    (folder / "outside").mkdir()
    (root / "link").symlink_to("../secret")
    (root / "absolute").symlink_to(folder / "secret")
    (root / "door").symlink_to("../outside")
    (root / "inner").symlink_to("a.txt")
    os.mkfifo(root / "pipe")
    return root


@pytest.fixture(params=ERAS)
def bridge(request, service, place):
    with Bridge(service.url, place, era=request.param) as bridge:
        yield bridge.begin()


@pytest.fixture
def box(create):
    return create()


def test_what_models_see(bridge, place, service):
    tools = {tool["name"]: tool for tool in bridge.ask("tools/list")["tools"]}
    for name, instead in (("upload_file", "data"), ("download_file", None), ("copy_project", "archive")):
        schema = tools[name]["inputSchema"]
        assert "local_path" in schema["properties"] and instead not in schema.get("required", [])
        assert "local_path" in tools[name]["description"] and "local_path" in tools[name]["outputSchema"]["properties"]
    assert tools["upload_file"]["inputSchema"]["required"] == ["path"]
    assert not tools["download_file"]["annotations"]["readOnlyHint"]
    assert "local_path" not in json.dumps(tools["write_file"])


def test_there_and_back(bridge, place, box):
    up = bridge.tool("upload_file", local_path="sub/grün und blau.txt", path="x/grün.txt", sandbox_id=box.id)
    assert up["structuredContent"] == {
        "sandbox_id": box.id,
        "path": "x/grün.txt",
        "size": 5,
        "replaced": False,
        "local_path": "sub/grün und blau.txt",
    }
    again = bridge.tool("upload_file", local_path=str(place / "a.txt"), path="/home/user/x/grün.txt", sandbox_id=box.id)
    assert again["structuredContent"]["replaced"] and again["structuredContent"]["path"] == "x/grün.txt"
    assert box.run("print(open('x/grün.txt').read())") == "plain\n\n"
    down = bridge.tool("download_file", path="x/grün.txt", local_path="new/folders/", sandbox_id=box.id)
    assert (place / "new/folders/grün.txt").read_text() == "plain\n"
    assert down["structuredContent"]["size"] == 6 and down["structuredContent"]["mime_type"] == "text/plain"
    bridge.tool("upload_file", local_path="inner", path="followed", sandbox_id=box.id)
    box.run("open('empty', 'w')")
    bridge.tool("download_file", path="empty", local_path="empty", sandbox_id=box.id)
    assert (place / "empty").read_bytes() == b""
    bridge.tool("upload_file", local_path="empty", path="empty", sandbox_id=box.id)


def test_what_is_there_stays(bridge, place, box):
    box.run("open('n', 'w').write('new')")
    text = bridge.text("download_file", error=True, path="n", local_path="a.txt", sandbox_id=box.id)
    assert "exists" in text and "overwrite" in text
    assert (place / "a.txt").read_text() == "plain\n"
    bridge.tool("download_file", path="n", local_path="a.txt", overwrite=True, sandbox_id=box.id)
    assert (place / "a.txt").read_text() == "new"
    # A link is replaced, not followed.
    bridge.tool("download_file", path="n", local_path="link", overwrite=True, sandbox_id=box.id, error=True)
    assert (place.parent / "secret").read_text() == SECRET


@pytest.mark.parametrize(
    "path",
    [
        "../secret",
        "sub/../../secret",
        "link",
        "absolute",
        "door/../secret",
        "/etc/passwd",
        "/proc/self/environ",
        "{outside}/secret",
        "{outside}/project/../secret",
        "sub/../../project/../secret",
        "{outside}/project-not",
        "/proc/self/cwd/../secret",
    ],
)
def test_what_is_outside(bridge, place, box, path):
    path = path.format(outside=place.parent)
    for tool, arguments in (
        ("upload_file", {"path": "x"}),
        ("copy_project", {}),
        ("download_file", {"path": "there", "overwrite": True}),
    ):
        box.run("open('there', 'w').write('x')")
        text = bridge.text(tool, error=True, local_path=path, sandbox_id=box.id, **arguments)
        assert "--root" in text, text
    assert (place.parent / "secret").read_text() == SECRET
    assert SECRET not in box.run("import glob; print([open(f).read() for f in glob.glob('**', recursive=True)])")


def test_new_files_outside(bridge, place, box):
    box.run("open('there', 'w').write('x')")
    for path in ("../new", "door/new", "door/deep/new", "../outside/", "/run/new-file-of-a-model"):
        text = bridge.text("download_file", error=True, path="there", local_path=path, sandbox_id=box.id)
        assert "--root" in text, text
    assert not list((place.parent / "outside").iterdir()) and not os.path.exists("/run/new-file-of-a-model")


def test_a_whole_project(bridge, place, box):
    for name in (".git", "node_modules", "__pycache__", ".venv"):
        (place / name).mkdir()
        (place / name / "unwanted").write_text(name)
    copied = bridge.tool("copy_project", local_path=".", path="p", sandbox_id=box.id)
    files = box.run("import os\nfor f, _, names in os.walk('p'):\n    for n in sorted(names): print(os.path.join(f, n))")
    assert sorted(files.split("\n")) == sorted(["", "p/a.txt", "p/inner", "p/sub/grün und blau.txt"])
    assert copied["structuredContent"]["path"] == "p" and "Left out" in copied["content"][0]["text"]
    assert box.run("print(open('p/inner').read())") == "plain\n\n"
    bridge.tool("copy_project", local_path=".", path="/home/user/all", include_ignored=True, sandbox_id=box.id)
    assert "unwanted" in box.run("import os; print(os.listdir('all/.git'))")
    # An archive that lies there is unpacked.
    with tarfile.open(place / "sub.tar.gz", "w:gz") as archive:
        archive.add(place / "sub", "from-archive")
    bridge.tool("copy_project", local_path="sub.tar.gz", sandbox_id=box.id)
    assert "grün" in box.run("import os; print(os.listdir('from-archive'))")
    assert "archive" in bridge.text("copy_project", error=True, local_path="a.txt", sandbox_id=box.id)


def test_a_sandbox_that_nobody_named(bridge, service, place):
    first = bridge.tool("upload_file", local_path="a.txt", path="a.txt")
    made = first["structuredContent"]["sandbox_id"]
    assert made in first["content"][0]["text"]
    second = bridge.tool("copy_project", local_path="sub")["structuredContent"]["sandbox_id"]
    # A session has the one that it made; without a session nothing is remembered.
    assert (second == made) == (bridge.era == "legacy")
    if bridge.era == "legacy":
        bridge.tool("download_file", path="a.txt", local_path="down.txt")
        assert (place / "down.txt").read_text() == "plain\n"
    else:
        assert "sandbox_id" in bridge.text("download_file", error=True, path="a.txt", local_path="down.txt")
    for sandbox in {made, second}:
        service.adopt(sandbox).close()


def test_what_a_model_gets_wrong(bridge, place, box):
    def complaint(tool, **arguments):
        return bridge.text(tool, error=True, **{"sandbox_id": box.id, **arguments})

    assert "No such file" in complaint("upload_file", local_path="nothing", path="x")
    assert "copy_project" in complaint("upload_file", local_path="sub", path="x")
    assert "neither" in complaint("upload_file", local_path="pipe", path="x")
    assert "must be a string" in complaint("upload_file", local_path=7, path="x")
    assert "empty" in complaint("upload_file", local_path="", path="x")
    assert "too long" in complaint("upload_file", local_path="x" * 5000, path="x")
    assert "must be a string" in complaint("upload_file", local_path="a\0b", path="x")
    assert "not both" in complaint("upload_file", local_path="a.txt", path="x", data="eA==")
    assert "no argument" in complaint("upload_file", local_path="a.txt", path="x", overwrite=True)
    assert "true or false" in complaint("download_file", local_path="y", path="x", overwrite="yes")
    assert "path must name" in complaint("download_file", local_path="y")
    box.run("import os; os.mkdir('d')")
    assert "is a folder" in complaint("download_file", local_path="y", path="d")
    assert "x" in complaint("download_file", local_path="y/z", path="x") and not (place / "y").exists()
    assert "no sandbox" in complaint("upload_file", local_path="a.txt", path="x", sandbox_id="nobody").lower()
    assert complaint("upload_file", local_path="a.txt", path="../x")
    assert complaint("upload_file", local_path="a.txt", path="../../nobody/files/x")
    assert "data is missing" in complaint("upload_file", path="x")


def test_a_disk_that_is_full(bridge, place, create):
    box = create(disk_mb=16)
    with open(place / "large", "wb") as large:
        large.truncate(64 << 20)
    assert "is full" in bridge.text("upload_file", error=True, local_path="large", path="x", sandbox_id=box.id)
    assert box.run("import os; print(os.listdir())") == "[]\n"


def test_cancelling_a_transfer(bridge, place, box):
    """Neither side keeps a part of it."""
    with open(place / "large", "wb") as large:
        large.truncate(900 << 20)
    number = bridge.start("upload_file", local_path="large", path="large", sandbox_id=box.id)
    bridge.cancel(number)
    assert bridge.text("execute_python_code", code="import os; os.listdir()", sandbox_id=box.id) == "[]"
    box.run("open('zeros', 'w').truncate(900 << 20)")
    number = bridge.start("download_file", path="zeros", local_path="zeros", sandbox_id=box.id)
    host.until(lambda: list(place.glob(".husk-*")), 30, "the download to begin")
    bridge.cancel(number)
    host.until(lambda: not list(place.glob(".husk-*")), 30, "the download to be removed")
    assert not (place / "zeros").exists() and json.dumps(number) not in bridge.answers


# --- which folders are open ------------------------------------------------------------------------------------------


def test_more_roots(service, place, box):
    outside = place.parent / "outside"
    (outside / "b.txt").write_text("b")
    with Bridge(service.url, "/", "--root", place, "--root", outside) as bridge:
        bridge.begin()
        for path in (place / "a.txt", outside / "b.txt"):
            bridge.tool("upload_file", local_path=str(path), path="x", sandbox_id=box.id)
        # Also through a link: between two open folders it leads out of the first.
        assert "--root" in bridge.text("upload_file", error=True, local_path=str(place / "door/b.txt"), path="x", sandbox_id=box.id)
        assert "--root" in bridge.text("upload_file", error=True, local_path="etc/passwd", path="x", sandbox_id=box.id)


def test_everything_is_open(service, place, box):
    with Bridge(service.url, place, "--root", "/") as bridge:
        bridge.begin()
        for path in ("absolute", "../secret", str(place / "door/../secret")):
            bridge.tool("upload_file", local_path=path, path="x", sandbox_id=box.id)
            assert box.run("print(open('x').read())") == SECRET + "\n"


@pytest.mark.parametrize("where", ["/", "home", "above"])
def test_a_home_directory_is_not_opened_by_chance(service, place, box, where):
    home = place / "home"
    home.mkdir()
    start = {"/": "/", "home": home, "above": place}[where]
    with Bridge(service.url, start, variables={"HOME": str(home)}) as bridge:
        bridge.begin()
        assert "local_path" not in json.dumps(bridge.ask("tools/list"))
        for path in ("x", str(place / "a.txt")):
            text = bridge.text("upload_file", error=True, local_path=path, path="x", sandbox_id=box.id)
            assert "--root" in text and "started in" in text
    with Bridge(service.url, home, "--root", ".", variables={"HOME": str(home)}) as bridge:
        bridge.begin()
        (home / "mine").write_text("said so")
        bridge.tool("upload_file", local_path="mine", path="x", sandbox_id=box.id)
