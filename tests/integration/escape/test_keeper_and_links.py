"""Links against whoever opens files of a sandbox for the API: the keeper, porters. Every target, by every door; the races between a look
and an opening are in test_download.py, test_upload.py and test_archives.py."""

import io
import tarfile

import pytest

TARGETS = {
    "the host's users": "/etc/passwd",
    "the image's kernel": "/opt/husk/kernel.py",
    "a process's environment": "/proc/self/environ",
    "a process's root": "/proc/self/root/etc/passwd",
    "a process's descriptor": "/proc/self/fd/3",
    "init's root": "/proc/1/root/etc/passwd",
    "up and out": "../../../../../../etc/passwd",
    "the storage": "../../upper",
    "a folder beside home": "../../run/kernel-1.json",
    "the ipc folder": "/run/husk/kernel-1.json",
    "the keeper": "{state}/keeper.sock",
    "the cache": "{cache}",
    "a neighbour": "../../{other}/home/user/toolkit.py",
    "itself": "link",
    "a device": "/dev/zero",
}


@pytest.fixture(scope="module")
def links(inside, victim, service):
    """Each target as a link, and as a link in a folder and a folder that is a link."""
    values = {"state": service.state, "cache": service.cache, "other": victim.sandbox.id}
    targets = {name: target.format(**values) for name, target in TARGETS.items()}
    inside.sandbox.run(f"""
import os
for name, target in {targets!r}.items():
    folder = name.replace(' ', '_').replace("'", '')
    os.makedirs(folder)
    os.symlink(target, folder + '/link')
    os.symlink(os.path.dirname(target) or '.', folder + '/through')
""")
    return {name: (name.replace(" ", "_").replace("'", ""), target) for name, target in targets.items()}


def fetch(sandbox, path, **options):
    return sandbox.service.get(f"{sandbox.path}/{path}", timeout=30, **options)


@pytest.mark.parametrize("name", TARGETS)
def test_download(inside, links, name):
    folder, target = links[name]
    last = target.rsplit("/", 1)[-1]
    for path in (f"{folder}/link", f"{folder}/through/{last}"):
        answer = fetch(inside.sandbox, f"download/{path}")
        assert answer.status_code == 404 and answer.json()["code"] == "file_not_found", (path, answer.text[:200])


@pytest.mark.parametrize("name", TARGETS)
def test_folder_as_tar(inside, links, name):
    """The links are packed as links: whoever unpacks them decides what they mean."""
    folder, target = links[name]
    answer = fetch(inside.sandbox, f"download/{folder}")
    assert answer.status_code == 200
    with tarfile.open(fileobj=io.BytesIO(answer.content)) as archive:
        assert all(member.issym() or member.isdir() for member in archive.getmembers())
        assert {member.linkname for member in archive.getmembers() if member.name.endswith("/link")} == {target}
    assert fetch(inside.sandbox, f"download/{folder}/through").status_code == 404 or not target.startswith(("/", ".."))


@pytest.mark.parametrize("name", TARGETS)
def test_upload(inside, links, name):
    """A file replaces the link, not what it points to; through a folder that is a link nothing gets out."""
    folder, target = links[name]
    before = inside.sandbox.value("open('/etc/passwd').read(), open('/opt/husk/kernel.py').read(), sorted(__import__('os').listdir('/run/husk'))")
    assert inside.put(f"{folder}/link", b"replaced").status_code in (200, 201)
    assert inside.sandbox.value(f"open('{folder}/link').read(), __import__('os').path.islink('{folder}/link')") == ("replaced", False)
    answer = inside.put(f"{folder}/through/planted", b"planted")
    assert answer.status_code in (404, 409, 422) or not target.startswith(("/", "..")), answer.text
    after = inside.sandbox.value("open('/etc/passwd').read(), open('/opt/husk/kernel.py').read(), sorted(__import__('os').listdir('/run/husk'))")
    assert before == after
    inside.sandbox.run(f"import os; os.remove('{folder}/link'); os.symlink({target!r}, '{folder}/link')")


def test_listing_does_not_follow(inside, links):
    answer = fetch(inside.sandbox, "files")
    assert answer.status_code == 200
    assert not [entry["path"] for entry in answer.json() if "/through/" in entry["path"] or entry["path"].startswith(("/", ".."))]


def test_hard_links_stay_inside(inside):
    """Of files of one's own only: there is nothing else that could be linked (table_files.py)."""
    inside.sandbox.run("import os; open('one', 'w').write('own'); os.link('one', 'two')")
    assert fetch(inside.sandbox, "download/two").text == "own"
    assert inside.put("two", b"new").status_code == 200
    assert fetch(inside.sandbox, "download/one").text == "own", "an upload is a new file, not a write into an old one"


def test_removing_a_link_leaves_its_target(inside):
    inside.sandbox.run("import os; os.makedirs('kept/below'); open('kept/file', 'w').close(); os.symlink('/home/user/kept', 'gone')")
    assert inside.sandbox.service.delete(f"{inside.sandbox.path}/files/gone").status_code == 200
    assert inside.sandbox.value("sorted(__import__('os').listdir('kept')), __import__('os').path.lexists('gone')") == (["below", "file"], False)
