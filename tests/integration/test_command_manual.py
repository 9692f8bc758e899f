"""What is written about the command, the service and the library: nothing is missing, and the pages and completions are well-formed."""

import os
import re
import subprocess

import pexpect
import pytest

from husk_command import HUSK, environment
from service import PROGRAMS, ROOT, free_port

MANUAL = ROOT / "client/man"
BASH = ROOT / "client/completion/husk.bash"
ZSH = ROOT / "client/completion/_husk"


def run(*words, **options):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=60, **options)


def page(name):
    """A manual page as text, without markup."""
    text = run("mandoc", "-Tutf8", "-Owidth=300", MANUAL / name).stdout
    return re.sub(".\b", "", text)


def said(*words):
    return run(HUSK, *words, env=environment("http://127.0.0.1:1")).stdout


def verbs():
    listed = said("--help").split("Options of all verbs")[0]
    return [line.split()[0] for line in listed.splitlines() if line.startswith("  ")]


def options(verb):
    """Those that `husk VERB --help` lists: (letter or None, name)."""
    lines = [line for line in said(verb, "--help").splitlines() if re.match(r"  -", line)]
    found = [re.match(r"  (?:(-\w), )?(--[a-z-]+)", line) for line in lines]
    return [(match[1], match[2]) for match in found if match]


# ---- manual pages --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["husk.1", "libhusk.3", "husk.conf.5", "huskd.8"])
def test_pages_are_well_formed(name):
    done = run("mandoc", "-Tlint", "-Wwarning", MANUAL / name)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_every_verb_and_option_is_in_husk_1():
    text = page("husk.1")
    for verb in verbs():
        assert re.search(rf"^ +{verb}\b", text, re.M), verb
        for letter, name in options(verb):
            assert name in text and (not letter or re.search(rf"{letter}\b", text)), (verb, name)


def test_every_setting_is_in_the_pages():
    """The flags of huskd in its own page, all settings in husk.conf(5), each in its section."""
    service, configuration = page("huskd.8"), page("husk.conf.5")
    listed = run(PROGRAMS / "huskd", "--help").stdout
    flags = re.findall(r"^  (--[a-z-]+)", listed, re.M)
    settings = re.findall(r"^      \[(\w+)\] (\w+), (HUSK_\w+)$", listed, re.M)
    assert len(flags) > 30 and len(settings) > 30
    for flag in flags:
        assert re.search(rf"{flag}\b(?!-)", service), flag
    for section, key, variable in settings:
        part = configuration.split(f"[{section}]\n")[1].split("   [")[0]
        assert re.search(rf"^ +{key}\b", part, re.M) and re.search(rf"\b{variable}\b", part), key
    printed = run(PROGRAMS / "huskd", "--print-config").stdout
    for key in re.findall(r"^;? ?(\w+) (?:=|is not set)", printed, re.M):
        assert re.search(rf"^ +{key}\b", configuration, re.M), key


def test_every_function_is_in_libhusk_3():
    """Those that the shared library exports, and no other: its declaration, and words about it."""
    text = page("libhusk.3")
    lines = run("nm", "-D", "--defined-only", PROGRAMS / "libhusk.so.0").stdout.splitlines()
    exported = {line.split()[-1] for line in lines}
    assert len(exported) > 40 and all(name.startswith("husk_") for name in exported)
    synopsis, description = text.split("\nDESCRIPTION", 1)
    assert set(re.findall(r"^ +(husk_\w+)\(", synopsis, re.M)) == exported
    for name in exported:
        assert name.endswith("_free") or f"{name}()" in description, name


def test_the_example_of_the_page_compiles(folder):
    source = (MANUAL / "libhusk.3").read_text().split(".Bd -literal\n")[1].split(".Ed")[0]
    (folder / "example.c").write_text(source)
    words = ["gcc", "-Wall", "-Werror", f"-I{ROOT}/include", "-fsyntax-only", folder / "example.c"]
    assert run(*words).stderr == ""


# ---- completions ---------------------------------------------------------------------------------


class Bash:
    """A bash that has loaded the completion; `husk` is the one of the tests."""

    def __init__(self, service, folder):
        self.folder = folder
        (folder / "bin").mkdir()
        (folder / "bin/husk").symlink_to(HUSK)
        self.environment = environment(service)
        self.environment["PATH"] = f"{folder}/bin:{self.environment['PATH']}"

    def __call__(self, *words):
        """What it offers for the last word."""
        script = f'. {BASH}; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _husk; printf "%s\\n" "${{COMPREPLY[@]}}"'
        done = run("bash", "--norc", "-c", script, "bash", "husk", *words, cwd=self.folder, env=self.environment)
        assert done.stderr == "", done.stderr
        return sorted(done.stdout.split("\n")[:-1]) if done.stdout != "\n" else []


@pytest.fixture
def bash(service, folder):
    return Bash(service, folder)


def test_bash_verbs_and_options(bash):
    offered = bash("")
    assert set(verbs()) | {"help"} <= set(offered)
    assert bash("cl") == ["close"] and bash("--json", "cl") == ["close"] and bash("--url", "http://x", "cl") == ["close"]
    for verb in verbs():
        assert {name for _, name in options(verb)} <= set(bash(verb, "--")), verb
    assert bash("help", "cl") == ["close"] and "--version" in bash("--")


def test_bash_sandboxes(bash, create):
    named, nameless = create(name="completed"), create()
    assert {"completed", nameless.id} <= set(bash("info", "")) and named.id not in bash("info", "")
    assert bash("info", "compl") == ["completed"] and bash("exec", "-c", "x", "compl") == ["completed"]
    assert bash("close", nameless.id, "compl") == ["completed"] and bash("sh", "-n", "compl") == ["completed"]
    assert bash("create", "compl") == [] and bash("extend", "completed", "") == []


def test_bash_files(bash, folder):
    (folder / "a file.py").write_text("")
    (folder / "folder").mkdir()
    assert bash("run", "a") == ["a file.py"] and bash("put", "box", "f") == ["folder"] and bash("put", "box", "--to", "f") == []
    assert bash("run", "-o", "f") == ["folder"] and bash("exec", "box", "a") == ["a file.py"] and bash("get", "box", "f") == []
    assert "HUSK_URL" in bash("run", "--env", "HUSK_")


def test_bash_without_a_service(folder):
    bash = Bash(f"http://127.0.0.1:{free_port()}", folder)
    assert bash("info", "") == []


def test_bash_is_loaded_by_name():
    """As a login shell does it: the function is there, and bound to the command."""
    done = run("bash", "--norc", "-c", f". {BASH}; complete -p husk")
    assert done.stdout == "complete -F _husk husk\n"


def test_zsh():
    """Well-formed, and knows every verb and option."""
    assert run("zsh", "-n", ZSH).stderr == ""
    text = ZSH.read_text()
    for verb in verbs():
        assert f"'{verb}:" in text, verb
        for _, name in options(verb):
            assert name in text, (verb, name)


def test_zsh_on_a_terminal(service, folder, create):
    create(name="completed-by-zsh")
    (folder / "bin").mkdir()
    (folder / "bin/husk").symlink_to(HUSK)
    variables = environment(service, TERM="xterm", ZDOTDIR=str(folder))
    variables["PATH"] = f"{folder}/bin:{variables['PATH']}"
    (folder / ".zshrc").write_text(f"fpath=({ZSH.parent} $fpath)\nautoload -Uz compinit\ncompinit -u -D\nPS1='ready> '\n")
    shell = pexpect.spawn("zsh", ["-i"], cwd=str(folder), env=variables, encoding="utf-8", timeout=60)
    shell.expect_exact("ready> ")
    shell.send("husk info comple\t")
    shell.expect_exact("ted-by-zsh")
    shell.sendintr()
    shell.send("husk hea\t")
    shell.expect("hea.*lth")
    shell.sendintr()
    shell.sendline("exit 0")
    shell.expect(pexpect.EOF)
    shell.close()


# ---- installed -----------------------------------------------------------------------------------


def test_help_fits_a_terminal():
    for words in [["--help"], *[[verb, "--help"] for verb in verbs()]]:
        for line in said(*words).splitlines():
            assert len(line) <= 110, line


def test_pages_and_completions_are_installed(folder):
    done = run("make", "-n", "install", f"DESTDIR={folder}", "PREFIX=/usr", cwd=ROOT)
    for name in ("man1", "man3", "man5", "man8", "bash-completion/completions/husk", "zsh/site-functions/_husk", "bin/husk"):
        assert name in done.stdout, done.stdout + done.stderr
    assert os.listdir(folder) == []
