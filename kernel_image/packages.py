"""Modules and packages: which modules the kernel has imported, and installing those that a cell is about to miss."""

import ast
import importlib
import importlib.util
import os
import socket
import sys

MODULES = "/run/husk/modules"
SERVICE = "/run/husk/packages.sock"

# Distributions that are not called what their module is called.
DISTRIBUTIONS = {
    "attr": "attrs",
    "bs4": "beautifulsoup4",
    "Crypto": "pycryptodome",
    "cv2": "opencv-python-headless",
    "dateutil": "python-dateutil",
    "discord": "discord.py",
    "docx": "python-docx",
    "dotenv": "python-dotenv",
    "fitz": "pymupdf",
    "git": "gitpython",
    "github": "pygithub",
    "jose": "python-jose",
    "jwt": "pyjwt",
    "Levenshtein": "levenshtein",
    "magic": "python-magic",
    "MySQLdb": "mysqlclient",
    "mpl_toolkits": "matplotlib",
    "multipart": "python-multipart",
    "OpenGL": "pyopengl",
    "OpenSSL": "pyopenssl",
    "PIL": "pillow",
    "pkg_resources": "setuptools",
    "pptx": "python-pptx",
    "psycopg2": "psycopg2-binary",
    "pylab": "matplotlib",
    "serial": "pyserial",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "slugify": "python-slugify",
    "snowflake": "snowflake-connector-python",
    "socks": "pysocks",
    "telegram": "python-telegram-bot",
    "tensorflow_hub": "tensorflow-hub",
    "umap": "umap-learn",
    "usb": "pyusb",
    "websocket": "websocket-client",
    "win32api": "pywin32",
    "wx": "wxpython",
    "yaml": "pyyaml",
    "zmq": "pyzmq",
}
# Modules that only other systems have: nothing that could be installed would help.
FOREIGN = {"_winapi", "msvcrt", "nt", "winreg", "winsound", "google"}


# ---- what is imported ---------------------------------------------------------------------------


class Recorder:
    """Notes the modules that are looked for: one that is imported already is not looked for again. Whoever replaces
    a package can tell by it that the kernel goes on with the old one."""

    def find_spec(self, name, path=None, target=None):
        if path is None:
            self.note([name])
        return None

    def note(self, names, flags=0):
        # Opened anew each time, so that no descriptor is in the way of code that counts its own.
        try:
            file = os.open(MODULES, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | flags, 0o644)
        except OSError:
            return  # a full disk; it is a hint and no more
        try:
            os.write(file, "".join(f"{name}\n" for name in names).encode(errors="replace"))
        except OSError:
            pass
        finally:
            os.close(file)


def record_imports():
    recorder = Recorder()
    recorder.note([name for name in sys.modules if "." not in name], os.O_TRUNC)
    sys.meta_path.insert(0, recorder)


# ---- what is missing ----------------------------------------------------------------------------


def expects_failure(node):
    """A try statement that says itself what to do without the module."""
    for handler in node.handlers:
        kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
        for kind in kinds:
            if kind is None or getattr(kind, "id", "") in ("ImportError", "ModuleNotFoundError", "Exception"):
                return True
    return False


class Imports(ast.NodeVisitor):
    """The names of the modules that code imports."""

    def __init__(self):
        self.names = {}

    def visit_Import(self, node):
        self.names.update((alias.name.partition(".")[0], None) for alias in node.names)

    def visit_ImportFrom(self, node):
        if node.level == 0 and node.module:
            self.names[node.module.partition(".")[0]] = None

    def visit_Try(self, node):
        if not expects_failure(node):
            return self.generic_visit(node)
        for part in (*node.handlers, *node.orelse, *node.finalbody):
            self.visit(part)


def can_be_found(name):
    try:
        return name in sys.modules or importlib.util.find_spec(name) is not None
    except (ImportError, ValueError, AttributeError):
        return True  # it is there, in some way


def missing_modules(shell, code):
    try:
        tree = ast.parse(shell.transform_cell(code))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    imports = Imports()
    imports.visit(tree)
    importlib.invalidate_caches()
    return [name for name in imports.names if name not in FOREIGN and not can_be_found(name)]


# ---- installing it ------------------------------------------------------------------------------


def install(requirements):
    """Ask the service, as pip does in here (husk/package_protocol.h). What went wrong, or None."""
    complaints = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as service:
        service.connect(SERVICE)
        service.sendall("".join(f"requirement {one}\n" for one in requirements).encode() + b"\n")
        with service.makefile(encoding="utf-8", errors="replace") as answer:
            for line in answer:
                kind, _, text = line.rstrip("\n").partition(" ")
                if kind == "e":
                    complaints.append(text)
                elif kind == "x":
                    return None if text == "0" else "\n".join(complaints) or "no reason was given"
    return "the service ended the connection"


def install_missing(shell, code):
    """Before a cell runs. One by one: that one cannot be had is no reason to do without the others."""
    for module in missing_modules(shell, code):
        distribution = DISTRIBUTIONS.get(module, module)
        try:
            problem = install([distribution])
        except OSError as error:
            problem = f"the package service cannot be reached: {error}"
        if problem:
            print(f"auto_install: tried to install {distribution} for 'import {module}': {problem}", file=sys.stderr)
    importlib.invalidate_caches()
