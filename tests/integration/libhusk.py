"""libhusk through ctypes: the structures and functions of include/husk.h, and a small client that raises what they return."""

import ctypes
from contextlib import contextmanager
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    byref,
    c_bool,
    c_char,
    c_char_p,
    c_double,
    c_int,
    c_size_t,
    c_ssize_t,
    c_uint64,
    c_void_p,
)

import pytest

from service import PROGRAMS

KINDS = "argument memory connect broken timeout cancelled refused answer file".split()
EVENTS = "start queued stdout stderr result update clear error input file command progress dropped other".split()
ID_SIZE = 37


class Text(Structure):
    _fields_ = [("data", c_void_p), ("length", c_size_t)]

    @property
    def bytes(self):
        assert self.data
        assert ctypes.string_at(self.data + self.length, 1) == b"\0"
        return ctypes.string_at(self.data, self.length)


def structure(name, /, **fields):
    """A Structure with these fields; unlike a class body it takes several of one type at once."""
    return type(name, (Structure,), {"_fields_": list(fields.items())})


def many(kind, names):
    return dict.fromkeys(names.split(), kind)


Error = structure(
    "Error", kind=c_int, http_status=c_int, retry_after=c_int, code=c_char * 64, message=c_char * 512
)
Options = structure(
    "Options",
    **many(c_char_p, "url api_key ca_file"),
    **many(c_double, "connect_timeout_seconds timeout_seconds"),
    user_agent=c_char_p,
)
Variable = structure("Variable", name=c_char_p, value=c_char_p)
Create = structure(
    "Create",
    name=c_char_p,
    **many(c_uint64, "ttl_seconds idle_seconds memory_mb pids disk_mb"),
    cpus=c_double,
    variables=POINTER(Variable),
    variable_count=c_size_t,
    packages=POINTER(c_char_p),
    package_count=c_size_t,
    auto_install=c_bool,
)
Sandbox = structure(
    "Sandbox",
    **many(c_char_p, "id name state created_at expires_at"),
    **many(c_uint64, "idle_seconds memory_mb pids disk_mb"),
    cpus=c_double,
    has_usage=c_bool,
    **many(c_uint64, "memory_bytes used_pids disk_bytes"),
    cpu_seconds=c_double,
    **many(c_uint64, "execution_count queued commands"),
    json=c_char_p,
)
SandboxList = structure("SandboxList", sandboxes=POINTER(POINTER(Sandbox)), count=c_size_t, json=c_char_p)
Health = structure(
    "Health",
    healthy=c_bool,
    version=c_char_p,
    **many(c_uint64, "uptime_seconds live warm creating maximum"),
    reasons=c_char_p,
    json=c_char_p,
)
Code = structure(
    "Code",
    code=c_char_p,
    length=c_size_t,
    timeout=c_double,
    stdin_text=c_char_p,
    ask=c_bool,
    variables=POINTER(Variable),
    variable_count=c_size_t,
    colors=c_bool,
    auto_install=c_bool,
)
Output = structure(
    "Output", type=c_char_p, data=Text, output=c_uint64, main=c_bool, display_id=c_char_p, update=c_bool
)
File = structure("File", path=c_char_p, size=c_uint64, **many(c_char_p, "type modified_at change url"))
Result = structure(
    "Result",
    **many(Text, "stdout_text stderr_text"),
    **many(c_char_p, "error error_value traceback"),
    outputs=POINTER(Output),
    output_count=c_size_t,
    files=POINTER(File),
    file_count=c_size_t,
    status=c_char_p,
    **many(c_bool, "state_lost truncated"),
    execution_count=c_uint64,
    duration_ms=c_double,
    exit_code=c_int,
    **many(c_char_p, "signal command_id json"),
)
Event = structure(
    "Event",
    kind=c_int,
    text=Text,
    password=c_bool,
    outputs=POINTER(Output),
    output_count=c_size_t,
    file=POINTER(File),
    **many(c_char_p, "error error_value traceback command_id"),
    index=c_uint64,
    json=c_char_p,
)
Completion = structure(
    "Completion", matches=POINTER(c_char_p), match_count=c_size_t, start=c_size_t, end=c_size_t, json=c_char_p
)
Inspection = structure("Inspection", found=c_bool, text=Text, json=c_char_p)
Completeness = structure("Completeness", **many(c_char_p, "status indent json"))
Command = structure(
    "Command",
    command=c_char_p,
    arguments=POINTER(c_char_p),
    argument_count=c_size_t,
    timeout=c_double,
    **many(c_char_p, "cwd stdin_text"),
    variables=POINTER(Variable),
    variable_count=c_size_t,
)
Process = structure("Process", **many(c_char_p, "command_id command status started_at"), pid=c_int)
ProcessList = structure("ProcessList", processes=POINTER(Process), count=c_size_t, json=c_char_p)
Package = structure("Package", **many(c_char_p, "name version status error"))
PackageList = structure("PackageList", packages=POINTER(Package), count=c_size_t, json=c_char_p)
Install = structure(
    "Install",
    packages=POINTER(c_char_p),
    package_count=c_size_t,
    requirements=c_char_p,
    upgrade=c_bool,
    pre=c_bool,
)
Installed = structure(
    "Installed",
    success=c_bool,
    packages=POINTER(Package),
    count=c_size_t,
    **many(c_char_p, "output error"),
    restart_needed=c_bool,
    json=c_char_p,
)
Content = structure("Content", data=Text, type=c_char_p)
FileList = structure("FileList", files=POINTER(File), count=c_size_t, incomplete=c_bool, json=c_char_p)

ON_EVENT = CFUNCTYPE(c_int, POINTER(Event), c_void_p)
ON_PROGRESS = CFUNCTYPE(c_int, c_uint64, c_uint64, c_void_p)
SOURCE = CFUNCTYPE(c_ssize_t, c_void_p, c_size_t, c_void_p)
SINK = CFUNCTYPE(c_int, c_void_p, c_size_t, c_void_p)

library = ctypes.CDLL(str(PROGRAMS / "libhusk.so.0"))

# What each function takes between the client and the error, and which structure it gives.
FUNCTIONS = {
    "create": ([POINTER(Create)], Sandbox),
    "info": ([c_char_p], Sandbox),
    "list": ([], SandboxList),
    "extend": ([c_char_p, c_uint64], None),
    "close": ([c_char_p], None),
    "health": ([], Health),
    "execute": ([c_char_p, POINTER(Code)], Result),
    "execute_streaming": ([c_char_p, POINTER(Code), ON_EVENT, c_void_p], Result),
    "execute_detached": ([c_char_p, POINTER(Code), c_char_p], None),
    "execution": ([c_char_p, c_char_p], Result),
    "input": ([c_char_p, c_char_p], None),
    "interrupt": ([c_char_p], None),
    "restart": ([c_char_p], None),
    "complete": ([c_char_p, c_char_p, c_size_t], Completion),
    "inspect": ([c_char_p, c_char_p, c_size_t, c_int], Inspection),
    "is_complete": ([c_char_p, c_char_p], Completeness),
    "command": ([c_char_p, POINTER(Command)], Result),
    "command_streaming": ([c_char_p, POINTER(Command), ON_EVENT, c_void_p], Result),
    "command_detached": ([c_char_p, POINTER(Command), c_char_p], None),
    "command_result": ([c_char_p, c_char_p], Result),
    "command_kill": ([c_char_p, c_char_p], None),
    "commands": ([c_char_p], ProcessList),
    "install": ([c_char_p, POINTER(Install), ON_EVENT, c_void_p], Installed),
    "packages": ([c_char_p], PackageList),
    "package": ([c_char_p, c_char_p], PackageList),
    "upload_file": ([c_char_p, c_char_p, c_char_p], None),
    "upload": ([c_char_p, c_char_p, c_size_t, c_char_p], None),
    "upload_from": ([c_char_p, SOURCE, c_void_p, c_uint64, c_char_p, c_bool], None),
    "download_file": ([c_char_p, c_char_p, c_char_p], None),
    "download": ([c_char_p, c_char_p, c_size_t], Content),
    "download_to": ([c_char_p, c_char_p, SINK, c_void_p], None),
    "files": ([c_char_p, c_char_p, c_bool], FileList),
    "remove": ([c_char_p, c_char_p], None),
}
FREE = {
    Sandbox: "sandbox", SandboxList: "sandbox_list", Health: "health", Result: "result", Completion: "completion",
    Inspection: "inspection", Completeness: "completeness", ProcessList: "process_list", Installed: "installed",
    PackageList: "package_list", Content: "content", FileList: "file_list",
}  # fmt: skip

for name, (arguments, given) in FUNCTIONS.items():
    function = getattr(library, "husk_" + name)
    function.argtypes = [c_void_p, *arguments, *([POINTER(POINTER(given))] if given else []), POINTER(Error)]
    function.restype = c_int
for kind, name in FREE.items():
    getattr(library, f"husk_{name}_free").argtypes = [c_void_p]
    getattr(library, f"husk_{name}_free").restype = c_void_p
library.husk_new.argtypes = [POINTER(Options), POINTER(c_void_p), POINTER(Error)]
library.husk_clone.argtypes = [c_void_p, POINTER(c_void_p), POINTER(Error)]
library.husk_free.argtypes = library.husk_cancel.argtypes = [c_void_p]
library.husk_free.restype = c_void_p
library.husk_cancel.restype = None
library.husk_url.argtypes = [c_void_p]
library.husk_url.restype = library.husk_version.restype = library.husk_error_name.restype = c_char_p
library.husk_on_progress.argtypes = [c_void_p, ON_PROGRESS, c_void_p]
library.husk_on_progress.restype = None


class Failed(Exception):
    """A call returned something else than 0."""

    def __init__(self, result, error):
        self.kind = KINDS[error.kind - 1]
        self.status, self.retry_after = error.http_status, error.retry_after
        self.code, self.message = error.code.decode(), error.message.decode()
        super().__init__(f"{self.kind} {self.status} {self.code} {self.message}")
        assert result == -error.kind
        assert self.message and not any(ord(c) < 32 for c in self.message)


def fails(kind, function, *arguments, status=0, code="", **fields):
    """Call something that must fail, and give what it said."""
    with pytest.raises(Failed) as failed:
        function(*arguments, **fields)
    assert (failed.value.kind, failed.value.status, failed.value.code) == (kind, status, code), failed.value
    return failed.value


def plain(value):
    """A structure as a dict of Python values, which outlives it; lists are for whoever knows their length."""
    if isinstance(value, Text):
        return value.bytes
    if not isinstance(value, Structure):
        return value.decode() if isinstance(value, bytes) else value
    names = [name for name, _ in value._fields_]
    made = {name: plain(getattr(value, name)) for name in names}
    for name, count in (("outputs", "output_count"), ("files", "file_count"), ("files", "count"), ("packages", "count"),
                        ("processes", "count"), ("matches", "match_count"), ("sandboxes", "count")):  # fmt: skip
        if name in names and count in names:
            entries = [getattr(value, name)[i] for i in range(getattr(value, count))]
            made[name] = [plain(entry.contents if name == "sandboxes" else entry) for entry in entries]
    if made.get("file"):
        made["file"] = plain(value.file.contents)
    return made


def texts(values):
    return (c_char_p * len(values))(*[value.encode() for value in values])


def variables(values):
    return (Variable * len(values))(*[Variable(name.encode(), value.encode()) for name, value in values.items()])


def filled(kind, **fields):
    """A structure from Python values: lists and dicts come with their count."""
    made = kind()
    for name, value in fields.items():
        if isinstance(value, str):
            value = value.encode()
        elif isinstance(value, dict):
            made.variable_count = len(value)
            value = ctypes.cast(variables(value), POINTER(Variable))
        elif isinstance(value, list):
            setattr(made, {"packages": "package_count", "arguments": "argument_count"}[name], len(value))
            value = ctypes.cast(texts(value), POINTER(c_char_p))
        setattr(made, name, value)
    return made


class Husk:
    """A client. Every function of husk.h is a method: text for text, a dict for a structure that is given back, Failed for a failure."""

    def __init__(self, url=None, pointer=None, **options):
        self.pointer = pointer or c_void_p()
        self.progress = None
        if not pointer:
            error = Error()
            result = library.husk_new(byref(filled(Options, url=url, **options)), byref(self.pointer), byref(error))
            if result:
                raise Failed(result, error)

    def clone(self):
        made, error = c_void_p(), Error()
        result = library.husk_clone(self.pointer, byref(made), byref(error))
        if result:
            raise Failed(result, error)
        return Husk(pointer=made)

    def free(self):
        assert library.husk_free(self.pointer) is None
        self.pointer = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.free()

    @property
    def url(self):
        return library.husk_url(self.pointer).decode()

    def cancel(self):
        library.husk_cancel(self.pointer)

    def on_progress(self, function):
        self.progress = ON_PROGRESS(lambda done, total, _: function(done, total) or 0) if function else ON_PROGRESS()
        library.husk_on_progress(self.pointer, self.progress, None)

    def call(self, name, *arguments):
        """Call a function of the library; gives the structure as a dict, after it was freed."""
        _, kind = FUNCTIONS[name]
        error = Error()
        arguments = [value.encode() if isinstance(value, str) else value for value in arguments]
        if kind is None:
            result = getattr(library, "husk_" + name)(self.pointer, *arguments, byref(error))
            if result:
                raise Failed(result, error)
            return None
        given = POINTER(kind)()
        result = getattr(library, "husk_" + name)(self.pointer, *arguments, byref(given), byref(error))
        if result:
            assert not given
            raise Failed(result, error)
        value = plain(given.contents)
        assert getattr(library, f"husk_{FREE[kind]}_free")(given) is None
        return value

    def __getattr__(self, name):
        if name not in FUNCTIONS:
            raise AttributeError(name)
        return lambda *arguments: self.call(name, *arguments)

    # --- those that take structures and functions ---

    def create(self, **fields):
        return self.call("create", byref(filled(Create, **fields)) if fields else None)

    def execute(self, sandbox, code, **fields):
        return self.call("execute", sandbox, byref(filled(Code, code=code, **fields)))

    def streaming(self, sandbox, code, on_event=None, **fields):
        """Run code; gives its events and its result. `on_event` sees each event; what it returns ends the call, if not false."""
        with listener(on_event) as (function, events):
            fields = filled(Code, code=code, **fields)
            result = self.call("execute_streaming", sandbox, byref(fields), function, None)
            return events, result

    def detached(self, sandbox, code, **fields):
        made = ctypes.create_string_buffer(ID_SIZE)
        self.call("execute_detached", sandbox, byref(filled(Code, code=code, **fields)), made)
        return made.value.decode()

    def command(self, sandbox, **fields):
        return self.call("command", sandbox, byref(filled(Command, **fields)))

    def command_streaming(self, sandbox, on_event=None, **fields):
        with listener(on_event) as (function, events):
            return events, self.call("command_streaming", sandbox, byref(filled(Command, **fields)), function, None)

    def command_detached(self, sandbox, **fields):
        made = ctypes.create_string_buffer(ID_SIZE)
        self.call("command_detached", sandbox, byref(filled(Command, **fields)), made)
        return made.value.decode()

    def install(self, sandbox, on_event=None, **fields):
        with listener(on_event) as (function, events):
            return events, self.call("install", sandbox, byref(filled(Install, **fields)), function, None)

    def upload(self, sandbox, data, path):
        return self.call("upload", sandbox, data, len(data), path)

    def upload_from(self, sandbox, chunks, path, total=0, extract=False):
        """From an iterator of bytes, or a function that is called with the room there is and gives bytes or a number."""
        left = b""
        iterator = None if callable(chunks) else iter(chunks)

        def give(data, room, _):
            nonlocal left
            left = left or (chunks(room) if iterator is None else next(iterator, b""))
            if isinstance(left, int):
                return left
            piece, left = left[:room], left[room:]
            ctypes.memmove(data, piece, len(piece))
            return len(piece)

        return self.call("upload_from", sandbox, SOURCE(give), None, total, path, extract)

    def download(self, sandbox, path, limit=0):
        return self.call("download", sandbox, path, limit)

    def download_to(self, sandbox, path, function):
        sink = SINK(lambda data, length, _: function(ctypes.string_at(data, length)) or 0)
        return self.call("download_to", sandbox, path, sink, None)

    def files(self, sandbox, folder=None, recursive=True):
        return self.call("files", sandbox, folder, recursive)


@contextmanager
def listener(function):
    """A function of C that notes all events, and what it noted. What Python raises in it is raised afterwards."""
    events, raised = [], []

    def note(event, _):
        try:
            made = plain(event.contents)
            made["kind"] = EVENTS[made["kind"]]
            events.append(made)
            return int((function(made) if function else 0) or 0)
        except Exception as error:
            raised.append(error)
            return 1

    try:
        yield ON_EVENT(note), events
    finally:
        if raised:
            raise raised[0]
