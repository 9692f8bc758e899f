"""What people run must run: the libraries of the image and all of Python's ways to do things at once, under the filter
and the limits. The functions below are not called here: their source is sent into a sandbox and runs there."""
# ruff: noqa: F401

import inspect
import time

import pytest


def numpy_algebra():
    import numpy as np

    assert (np.random.rand(300, 300) @ np.eye(300)).shape == (300, 300)
    assert np.linalg.svd(np.random.rand(50, 50))[1].size == 50


def pandas_csv():
    import pandas as pd

    pd.DataFrame({"a": [1, 2]}).to_csv("t.csv")
    assert pd.read_csv("t.csv").a.sum() == 3


def pandas_excel():
    import pandas as pd

    pd.DataFrame({"a": [1]}).to_excel("t.xlsx")
    assert pd.read_excel("t.xlsx").a[0] == 1


def scipy_optimize():
    from scipy import optimize

    assert abs(optimize.brentq(lambda x: x**2 - 2, 0, 2) - 2**0.5) < 1e-9


def sklearn_forest():
    from sklearn.datasets import load_iris
    from sklearn.ensemble import RandomForestClassifier

    x, y = load_iris(return_X_y=True)
    assert RandomForestClassifier(20, n_jobs=2).fit(x, y).score(x, y) > 0.9


def joblib_processes():
    from joblib import Parallel, delayed

    assert Parallel(2)(delayed(abs)(-i) for i in range(4)) == [0, 1, 2, 3]


def other_libraries():
    import bs4
    import lxml.etree
    import openpyxl
    import PIL.Image
    import requests
    import seaborn
    import sympy
    import tabulate

    x = sympy.Symbol("x")
    assert sympy.integrate(x) == x**2 / 2


def threads():
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(abs, [-1, 2])) == [1, 2]


def forked_processes():
    import multiprocessing

    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(abs, [-1, 2]) == [1, 2]


def spawned_processes():
    import multiprocessing

    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert pool.map(abs, [-1, 2]) == [1, 2]


def process_pool():
    from concurrent.futures import ProcessPoolExecutor

    with ProcessPoolExecutor(2) as pool:
        assert list(pool.map(abs, [-1, 2])) == [1, 2]


def shared_memory():
    from multiprocessing import shared_memory

    memory = shared_memory.SharedMemory(create=True, size=1 << 20)
    memory.buf[0] = 1
    memory.close()
    memory.unlink()


async def asyncio_subprocess():
    import asyncio

    process = await asyncio.create_subprocess_exec("echo", "x", stdout=asyncio.subprocess.PIPE)
    assert (await process.communicate())[0] == b"x\n"


async def asyncio_sockets():
    import asyncio

    async def answer(reader, writer):
        writer.write(await reader.readline())
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 8765)
    reader, writer = await asyncio.open_connection("127.0.0.1", 8765)
    writer.write(b"hello\n")
    assert await reader.readline() == b"hello\n"
    writer.close()
    server.close()


def shell_tools():
    import subprocess

    for command in ("ls /usr | wc -l", "git --version", "curl --version", "git init -q repo && git -C repo status"):
        assert subprocess.check_output(command, shell=True)


def sqlite():
    import sqlite3

    connection = sqlite3.connect("t.db")
    connection.execute("create table t (x)")
    connection.commit()
    connection.close()


def mapped_files_and_locks():
    import fcntl
    import mmap

    with open("m", "w+b") as file:
        file.truncate(8192)
        mmap.mmap(file.fileno(), 8192)[0] = 1
        fcntl.flock(file, fcntl.LOCK_EX)


def unix_sockets():
    import os
    import socket

    with socket.socket(socket.AF_UNIX) as server:
        server.bind("/tmp/s")
    os.remove("/tmp/s")


def own_module_in_the_venv():
    import importlib
    import sysconfig

    with open(sysconfig.get_paths()["purelib"] + "/own_module.py", "w") as file:
        file.write("x = 5")
    importlib.invalidate_caches()
    assert importlib.import_module("own_module").x == 5


def timers():
    import signal
    import time

    fired = []
    signal.signal(signal.SIGALRM, lambda *_: fired.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    time.sleep(0.2)
    assert fired


def terminal():
    import os
    import pty

    leader, follower = pty.openpty()
    os.write(leader, b"x\n")
    assert os.read(follower, 2) == b"x\n"


def temporary_files():
    import tempfile

    with tempfile.NamedTemporaryFile() as file:
        file.write(b"x")


def time_zones():
    import datetime
    import zoneinfo

    assert datetime.datetime.now(zoneinfo.ZoneInfo("Asia/Shanghai")).utcoffset() == datetime.timedelta(hours=8)


def locale_is_utf8():
    import locale
    import subprocess
    import sys

    assert sys.getfilesystemencoding() == "utf-8" and locale.getpreferredencoding() == "UTF-8"
    open("文件", "w").close()
    assert "文件" in subprocess.check_output("ls", text=True)


WORKLOADS = [
    numpy_algebra, pandas_csv, pandas_excel, scipy_optimize, sklearn_forest, joblib_processes, other_libraries, threads,
    forked_processes, spawned_processes, process_pool, shared_memory, asyncio_subprocess, asyncio_sockets, shell_tools,
    sqlite, mapped_files_and_locks, unix_sockets, own_module_in_the_venv, timers, terminal, temporary_files, time_zones,
    locale_is_utf8,
]  # fmt: skip


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.__name__)
def test_workload(shared, workload):
    call = f"{workload.__name__}()"
    if inspect.iscoroutinefunction(workload):
        call = "await " + call
    answer = shared.execute(inspect.getsource(workload) + "\n" + call, timeout=60)
    assert answer["status"] == "ok", answer["traceback"]


def test_clock_is_right(shared):
    assert abs(float(shared.value("__import__('time').time()")) - time.time()) < 10
