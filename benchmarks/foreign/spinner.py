# SPDX-License-Identifier: Apache-2.0
"""Wait by going round without sleeping: spinner.py LOOK SECONDS. Print by how many seconds the end was late."""

import fcntl
import os
import resource
import select
import socket
import subprocess
import sys
import termios
import time

name, seconds = sys.argv[1], int(sys.argv[2])
end = time.monotonic() + seconds
child = subprocess.Popen(["sleep", str(seconds)])
near, far = socket.socketpair()
far.send(b"x")


def child_has_ended():
    return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def after(call):
    return lambda: (call(), child_has_ended())[1]


def is_dead(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return child_has_ended()


def uptime():
    with open("/proc/uptime") as file:
        return float(file.read().split()[0])


def refused():
    try:
        socket.create_connection(("127.0.0.1", 9), 1)
    except OSError:
        return time.monotonic() >= end
    raise SystemExit("somebody listens there")


def log():
    print("still waiting", file=sys.stderr, flush=True)
    return child_has_ended()


begin, ticks = uptime(), os.times().elapsed
looks = {
    "times": lambda: os.times().elapsed >= ticks + seconds,
    "time": lambda: time.time() >= began + seconds,
    "monotonic": lambda: time.monotonic() >= end,
    "getrusage": after(lambda: resource.getrusage(resource.RUSAGE_SELF)),
    "getppid": after(os.getppid),
    "TCP_INFO": after(lambda: listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)),
    "FIONREAD": after(lambda: fcntl.ioctl(near, termios.FIONREAD, b"0000")),
    "WNOHANG": child_has_ended,
    "kill": lambda: is_dead(child.pid),
    "uptime": lambda: uptime() >= begin + seconds,
    "select": after(lambda: select.select([near], [], [], 0)),
    "yield": after(os.sched_yield),
    "stat": after(lambda: os.path.exists("/tmp/nothing")),
    "peek": after(lambda: near.recv(1, socket.MSG_PEEK)),
    "refused": refused,
    "log": log,
}
listener, began = socket.socket(), time.time()
look = looks[name]
while not look():
    pass
print(time.monotonic() - end)
