"""The zygote: an interpreter that has imported everything and waits. For each kernel it forks; the child joins the
container and becomes the kernel. Started by the keeper with the descriptors of husk/zygote_protocol.h; ends with it.

It holds no secret: its environment is the image's, and the key of a kernel is read by the child from the connection
file. Children share its hash seed and memory layout, nothing else: see become_kernel().
"""

import ctypes
import gc
import importlib.util
import os
import sys
import types

# What most code imports, in the order in which it should be tried. What the image does not have is left out.
PRELOADED = ("numpy", "pandas", "matplotlib.pyplot", "matplotlib_inline.backend_inline", "threadpoolctl")

LIBRARY = "/proc/self/fd/4"
ENVIRONMENT = "/opt/husk/environment"
KERNEL = "/opt/husk/kernel.py"
PYTHON = "/opt/venv/bin/python"
SITE_PACKAGES = next(path for path in sys.path if path.endswith("site-packages"))
STRINGS_BYTES = 96 * 1024


def load_kernel():
    spec = importlib.util.spec_from_file_location("husk_kernel", KERNEL)
    module = importlib.util.module_from_spec(spec)
    sys.modules["husk_kernel"] = module
    spec.loader.exec_module(module)
    return module


def image_environment():
    with open(ENVIRONMENT, encoding="utf-8") as file:
        return [line.rstrip("\n") for line in file if "=" in line and not line.startswith("#")]


def packages_stamp():
    """Changes when anything is installed or removed."""
    return os.stat(SITE_PACKAGES).st_mtime_ns


def thread_pools():
    """Of linear algebra. Found before the fork: in a container the same file has another identity, and is not recognised
    as the library that is loaded."""
    try:
        return sys.modules["threadpoolctl"].ThreadpoolController()
    except KeyError:
        return None


def use_threads(pools, environment):
    """The zygote must have one thread when it forks; the sandbox may have more cores than one."""
    count = environment.get("OPENBLAS_NUM_THREADS", "")
    if pools is not None and count.isdecimal() and int(count) > 1:
        pools.limit(limits=int(count))


def replace_environment(environment):
    os.environ.clear()
    ctypes.CDLL(None).clearenv()  # also of what libraries have set behind Python's back
    os.environ.update(environment)


def become_kernel(kernel, base, stamp, pools, strings):
    """In the child: confined, in its container, with one thread and no descriptors but the standard ones."""
    connection_file, *entries = [text.decode(errors="surrogateescape") for text in strings.split(b"\0")[:-1]]
    environment = dict(entry.split("=", 1) for entry in [*base, *entries])
    replace_environment(environment)
    sys.argv = [KERNEL, "-f", connection_file]
    if packages_stamp() != stamp:
        # What was imported may not be what is installed here.
        os.execve(PYTHON, [PYTHON, "-P", KERNEL, "-f", connection_file], environment)
    gc.enable()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()  # random reseeds itself
    use_threads(pools, environment)
    kernel.serve(connection_file)


def load_library():
    library = ctypes.PyDLL(LIBRARY)
    library.zygote_serve.argtypes = (ctypes.c_char_p, ctypes.c_size_t)
    library.zygote_immortalise.argtypes = (ctypes.py_object,)
    library.zygote_immortalise.restype = ctypes.py_object
    library.zygote_close_gaps.restype = None
    return library


def hidden_referents(thing):
    """What a thing refers to and the garbage collector need not know."""
    if type(thing) is dict:
        return thing
    if type(thing) is types.CodeType:  # not the names of its variables: to ask for them makes tuples that it keeps
        parts = (thing.co_consts, thing.co_names, thing.co_linetable, thing.co_exceptiontable)
        return (*parts, *thing.co_consts, *thing.co_names, thing.co_filename, thing.co_name, thing.co_qualname)
    return ()


def immortalise(library):
    """Everything that is there. Or children would copy the pages of all they use, to count references."""
    things = gc.get_objects()
    while things := library.zygote_immortalise(things):
        found = gc.get_referents(*things)
        for thing in things:
            found.extend(hidden_referents(thing))
        things = found


def main():
    kernel = load_kernel()
    kernel.prepare()
    for name in PRELOADED:
        if importlib.util.find_spec(name.partition(".")[0]):
            importlib.import_module(name)
    base = image_environment()
    stamp = packages_stamp()
    pools = thread_pools()
    library = load_library()
    strings = ctypes.create_string_buffer(STRINGS_BYTES)
    threads = len(os.listdir("/proc/self/task"))
    if threads != 1:
        sys.exit(f"the zygote has {threads} threads, and cannot fork")
    # What is there now lives for ever: without this the collector would touch it all, and copy every page.
    gc.collect()
    immortalise(library)
    gc.freeze()
    gc.disable()
    library.zygote_close_gaps()
    length = library.zygote_serve(strings, STRINGS_BYTES)
    if length < 0:
        os._exit(0 if -length == 32 else 1)  # EPIPE: the keeper is gone
    become_kernel(kernel, base, stamp, pools, strings.raw[:length])


if __name__ == "__main__":
    main()
