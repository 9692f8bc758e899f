"""What hostile code does to get more than its share. Each attack goes on until it is stopped; test_attacks.py asks whether it stays in
its bounds, and `make bench` (attacks) what it costs the neighbours. Adding one is an entry here."""

import dataclasses

FORKS = """
import os
while True:
    try: os.fork()
    except OSError: pass
"""
# A process of its own that is killed, again and again: the sandbox itself lives on.
AGAIN = """
import subprocess
while True: subprocess.run(["python3", "-c", {code!r}])
"""
MEMORY = AGAIN.format(code="x = []\nwhile True: x.append(bytearray(b'x') * (16 << 20))")
FILL = """
import os
while True:
    try:
        with open({path!r}, 'wb', buffering=0) as file:
            while True: file.write(bytes(1 << 20))
    except OSError: pass
    os.remove({path!r})
"""
INODES = """
import os, shutil
while True:
    try:
        count = 0
        while True:
            if count % 1000 == 0: os.makedirs(f'many/{count}')
            open(f'many/{count // 1000 * 1000}/{count}', 'w').close(); count += 1
    except OSError: pass
    shutil.rmtree('many', ignore_errors=True)
"""
DESCRIPTORS = """
import os
for _ in range(200):
    if os.fork() == 0: break
kept = []
while True:
    try:
        while True: kept.append(os.open('/dev/null', os.O_RDONLY))
    except OSError: pass
    for each in kept: os.close(each)
    kept.clear()
"""
THREADS = """
import threading
while True:
    event, kept = threading.Event(), []
    try:
        while True: kept.append(threading.Thread(target=event.wait)); kept[-1].start()
    except RuntimeError: pass
    event.set()
    for each in kept[:-1]: each.join()
"""
OUTPUT = """
import sys
line = 'x' * 8192 + '\\n'
while True: sys.stdout.write(line)
"""
# To the file descriptor, past everything that Python does to be polite.
RAW_OUTPUT = """
import subprocess
subprocess.run(['yes', 'x' * 4000])
"""
IOPUB = """
from IPython import get_ipython
publish = get_ipython().display_pub.publish
while True: publish({'text/plain': 'x'})
"""
# Other clients of the kernel's own sockets, and bytes that are no protocol.
IPC = """
import os, socket, stat, threading
def flood(path):
    while True:
        client = socket.socket(socket.AF_UNIX); client.settimeout(1)
        try:
            client.connect(path)
            while True: client.send(os.urandom(4096))
        except OSError: pass
        client.close()
paths = ['/run/husk/' + name for name in os.listdir('/run/husk')]
threads = [threading.Thread(target=flood, args=[path]) for path in paths if stat.S_ISSOCK(os.stat(path).st_mode)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
CPU = """
import os
for _ in range(15):
    if os.fork() == 0: break
while True: pass
"""
PIPES = """
import fcntl, os
kept = []
while True:
    try:
        while True:
            kept += os.pipe(); os.set_blocking(kept[-1], False)
            try: fcntl.fcntl(kept[-1], 1031, 1 << 20)
            except OSError: pass
            try:
                while True: os.write(kept[-1], bytes(1 << 16))
            except BlockingIOError: pass
    except OSError: pass
    for each in kept: os.close(each)
    kept.clear()
"""
# So many at a time that it is not out of memory at once: its own kernel would be the one that is killed.
SOCKETS = """
import socket
kept = []
while True:
    try:
        for _ in range(10):
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                pair = socket.socketpair(socket.AF_UNIX, kind); kept += pair
                pair[0].setsockopt(1, 7, 4 << 20); pair[0].setblocking(False)
                try:
                    while True: pair[0].send(bytes(1 << 15))
                except BlockingIOError: pass
            server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); server.bind(('127.0.0.1', 0)); server.setsockopt(1, 8, 4 << 20)
            kept.append(server)
            for _ in range(400): server.sendto(bytes(1 << 15), server.getsockname())
    except OSError: pass
    for each in kept: each.close()
    kept.clear()
"""
SIGNALS = """
import os, signal, time
children = []
for _ in range(8):
    pid = os.fork()
    if pid == 0:
        for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGRTMIN): signal.signal(number, lambda *_: None)
        while True: time.sleep(1)
    children.append(pid)
while True:
    for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGRTMIN, signal.SIGCONT):
        for pid in [1, *children]: os.kill(pid, number)
"""
NAMES = """
import os
number = 0
while True:
    number += 1
    try: os.stat(f'/home/user/{number}-{"x" * 200}')
    except OSError: pass
"""
SYSTEM_CALLS = """
import os
for _ in range(3):
    if os.fork() == 0: break
while True:
    os.getppid(); os.sched_yield(); os.sync()
"""


@dataclasses.dataclass(frozen=True)
class Attack:
    code: str
    neighbours: int = 4
    limits: dict = dataclasses.field(default_factory=dict)
    at_its_bound: str = ""  # of `usage` and `limits`, in Python: it has all that it can get


SMALL = {"memory_mb": 256, "disk_mb": 64}
FULL_DISK = "usage['disk_bytes'] > 0.9 * limits['disk_mb'] * 2**20"
ALL_PROCESSES = "usage['pids'] > 0.9 * limits['pids']"

ATTACKS = {
    "fork bomb": Attack(FORKS, limits=SMALL | {"pids": 128}, at_its_bound=ALL_PROCESSES),
    "memory": Attack(MEMORY, limits=SMALL),
    "disk": Attack(FILL.format(path="fill"), limits=SMALL, at_its_bound=FULL_DISK),
    "shared memory": Attack(FILL.format(path="/dev/shm/fill"), limits=SMALL, at_its_bound=FULL_DISK),
    "inodes": Attack(INODES, limits=SMALL),
    "descriptors": Attack(DESCRIPTORS, limits=SMALL),
    "threads": Attack(THREADS, limits=SMALL, at_its_bound=ALL_PROCESSES),
    "output": Attack(OUTPUT, limits=SMALL),
    "output of a program": Attack(RAW_OUTPUT, limits=SMALL),
    "iopub": Attack(IOPUB, limits=SMALL),
    "ipc": Attack(IPC, limits=SMALL),
    "pipes": Attack(PIPES, limits=SMALL),
    "sockets": Attack(SOCKETS, limits=SMALL),
    "signals": Attack(SIGNALS, limits=SMALL),
    "names": Attack(NAMES, limits=SMALL),
    "system calls": Attack(SYSTEM_CALLS, limits=SMALL),
    "CPU": Attack(CPU, neighbours=64),
}
