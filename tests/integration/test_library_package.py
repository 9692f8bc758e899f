"""libhusk as a package: what is installed and exported, the header in other languages, the examples and the one in the README."""

import os
import re
import shutil
import subprocess

import pytest

from service import PROGRAMS, ROOT, sanitized

HEADER = (ROOT / "include" / "husk.h").read_text()
FIRST = ROOT / "client" / "examples" / "first.c"


def run(*command, **options):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=300, **options).stdout


def declared():
    return set(re.findall(r"^HUSK_API [^(]*?\b(husk_\w+)\(", HEADER, re.M))


def defined(*arguments):
    lines = run("nm", "--defined-only", *arguments).splitlines()
    return {line.split()[2] for line in lines if len(line.split()) == 3}


def test_only_what_the_header_declares_is_visible():
    assert len(declared()) > 50
    assert defined("-D", PROGRAMS / "libhusk.so.0") == declared()
    static = defined("-g", PROGRAMS / "libhusk.a")
    # Sanitizers add names of their own.
    assert {name for name in static if not name.startswith("__")} == declared()


@pytest.mark.parametrize("compiler, options", [("gcc", ["-std=c11", "-xc"]), ("gcc", ["-std=c17", "-xc"]), ("g++", ["-std=c++11", "-xc++"])])
def test_header(compiler, options):
    """By itself, without extensions. A machine without g++ cannot say anything about C++; the declarations then at least have their linkage."""
    if shutil.which(compiler):
        run(compiler, *options, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "-", input=f'#include "{ROOT}/include/husk.h"\n')
    assert HEADER.index('extern "C" {') < HEADER.index("HUSK_API const char")


@pytest.fixture(scope="module")
def installed(harness):
    """What `make install-library` installs, and how to compile against it."""
    prefix = harness.folder / "prefix"
    build = os.path.relpath(PROGRAMS, ROOT).removesuffix("/san")
    san = ["SAN=address,undefined"] if sanitized() else []
    run("make", "-C", ROOT, f"BUILD={build}", *san, f"PREFIX={prefix}", "DESTDIR=", "install-library")
    yield prefix
    shutil.rmtree(prefix)


def flags(prefix, *arguments):
    return run("pkg-config", "--cflags", "--libs", *arguments, "husk", env={**os.environ, "PKG_CONFIG_PATH": str(prefix / "lib" / "pkgconfig")}).split()


def test_install(installed):
    version = re.search(r'"(.*)"', (ROOT / "include" / "husk" / "version.h").read_text()).group(1)
    library = installed / "lib"
    assert sorted(path.name for path in library.iterdir()) == ["libhusk.a", "libhusk.so", "libhusk.so.0", f"libhusk.so.{version}", "pkgconfig"]
    assert (library / "libhusk.so").resolve() == (library / "libhusk.so.0").resolve() == library / f"libhusk.so.{version}"
    assert "[libhusk.so.0]" in run("readelf", "-d", library / "libhusk.so")
    assert run("pkg-config", "--modversion", "husk", env={**os.environ, "PKG_CONFIG_PATH": str(library / "pkgconfig")}).strip() == version
    assert (installed / "include" / "husk.h").read_text() == HEADER


def test_first_example(installed, service, folder):
    """Compiled as the README says, against what was installed; it prints, saves its figure, and leaves no sandbox."""
    run("gcc", "-Wall", "-Wextra", "-Werror", FIRST, *flags(installed), "-o", folder / "first")
    before = service.sandboxes().keys()
    said = run(folder / "first", cwd=folder, env={"HUSK_URL": service.url, "LD_LIBRARY_PATH": str(installed / "lib")})
    assert re.fullmatch(r"step 0\nstep 1\nstep 2\nok after \d+ ms\n", said)
    assert (folder / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert service.sandboxes().keys() == before


def test_parallel_example(service, folder):
    said = run(PROGRAMS / "clients" / "parallel", env={"HUSK_URL": service.url})
    assert sorted(line.split(": ")[1] for line in said.splitlines()) == ["333332833333500000"] * 4


@pytest.mark.parametrize("name", ["README.md", "README.zh-CN.md"])
def test_readme_has_the_example(name):
    [text] = re.findall(r"^```c\n(.*?)^```$", (ROOT / name).read_text(), re.M | re.S)
    assert text == FIRST.read_text()


def test_every_function_is_documented():
    """Something is said above each, or above the group it stands in."""
    for block in re.split(r"\n\n", HEADER):
        if "HUSK_API" in block and "#define" not in block and "_free(" not in block:
            assert "/*" in block, block
