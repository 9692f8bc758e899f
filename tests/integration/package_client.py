"""Installing packages into a sandbox of the tests, and looking at what came of it."""


def install(sandbox, *packages, **fields):
    answer = sandbox.service.post(f"/sandbox/{sandbox.id}/install", json={"packages": list(packages), **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()


def installed(sandbox):
    answer = sandbox.service.get(f"/sandbox/{sandbox.id}/packages")
    assert answer.status_code == 200, answer.text
    return {one["name"]: one["version"] for one in answer.json()}


def state(sandbox, name):
    return sandbox.service.get(f"/sandbox/{sandbox.id}/packages/{name}").json()


LISTING = """
import hashlib, os
found = {}
for folder, _, files in os.walk('/opt/venv'):
    if '__pycache__' in folder:
        continue
    found[folder] = 'folder'
    for file in files:
        path = os.path.join(folder, file)
        found[path] = os.readlink(path) if os.path.islink(path) else (os.stat(path).st_size, os.stat(path).st_mtime_ns)
print(hashlib.sha256(repr(sorted(found.items())).encode()).hexdigest(), len(found))
"""


def listing(sandbox):
    """A hash of the names, sizes and times of everything in the environment."""
    return sandbox.run(LISTING)


def failed(sandbox, *packages, **fields):
    before = listing(sandbox)
    result = install(sandbox, *packages, **fields)
    assert result["status"] == "failed" and result["error"], result
    assert result["installed"] == []
    assert listing(sandbox) == before, "a failed install must leave everything as it was"
    return result["error"]
