# %% stdout stderr
import sys
print("out")
print("err", file=sys.stderr)
print("no newline", end="")
# %% stderr
import warnings
warnings.warn("careful — é")
# %% stderr
import logging
logging.warning("logged")
# %% stdout
import threading
threads = [threading.Thread(target=lambda: print("from a thread\n", end="")) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
# %% stdout stderr
import subprocess
subprocess.run("echo out; echo err >&2", shell=True, check=True)
print("after")
# %% stdout
import os
print("python first")
os.system("echo then the shell")
os.write(1, b"then the descriptor\n")
print("python last")
# %% stdout
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(1) as pool:
    list(pool.map(print, ["pool 1", "pool 2"]))
# %% stdout
import multiprocessing
worker = multiprocessing.get_context("fork").Process(target=print, args=("from a child",))
worker.start()
worker.join()
# %% stdout
print("日本語 🦊 \x1b[31mred\x1b[0m \x00 \t tab")
# %% stdout
for n in range(5000):
    print(n, "line")
# %% stderr
thread = threading.Thread(target=lambda: 1 / 0)
thread.start()
thread.join()
# %% stdout
print("x" * 600_000)
