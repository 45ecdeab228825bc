# SPDX-License-Identifier: Apache-2.0
"""Start `mprun` as a process of its own without the half second in which Python imports modules.

    python -m tests.forked SOCKET

A server has imported all modules of mprun, and forks a process for each call. That process has the directory, the
environment, the input and the output of the call, as `python -m mprun` has. It ends as every Python program does.
A script of a test calls the server by a program `mprun` (`write_program`).

The server makes nothing but imports: it starts no thread and reads no file of a test, so that a fork is safe and two
calls share nothing.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import runpy
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import pydantic

from tests import request

# Modules that run inside an engine or that read a command line when they are imported.
NOT_IMPORTED = ("mprun.agent", "mprun.kernel.gdb", "mprun.__main__")
LIBRARIES = (
    "polars",
    "matplotlib.figure",
    "matplotlib.backends.backend_svg",
    "matplotlib.backends.backend_pdf",
    "jinja2",
)


def call(words: Sequence[str], cwd: Path, env: Mapping[str, str], timeout_s: float) -> tuple[int, str, str]:
    """Run `mprun` with the given words. Return its status, as subprocess does, its output and its errors."""
    with (
        open(os.devnull) as nothing,
        tempfile.TemporaryFile("w+") as out,
        tempfile.TemporaryFile("w+") as err,
        socket.socket(socket.AF_UNIX) as connection,
    ):
        connection.connect(_start_server(os.getpid()))
        pid = request.send(connection, words, str(cwd), env, [file.fileno() for file in (nothing, out, err)])
        connection.settimeout(timeout_s)
        try:
            status = request.wait(connection)
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            raise
        out.seek(0)
        err.seek(0)
        return status, out.read(), err.read()


def write_program(folder: Path) -> None:
    """Make a folder with a program `mprun` for scripts, whose processes the server of this process forks."""
    folder.mkdir(parents=True, exist_ok=True)
    words = [sys.executable, "-IS", request.__file__, _start_server(os.getpid())]
    (folder / "mprun").write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    (folder / "mprun").chmod(0o755)


@cache
def _start_server(client: int) -> str:
    """Start the server of this process, and return the path of its socket."""
    folder = tempfile.TemporaryDirectory(prefix="forked-")
    path = f"{folder.name}/socket"
    server = subprocess.Popen([sys.executable, "-m", __name__, path], stdin=subprocess.PIPE)
    while not os.path.exists(path):
        assert server.poll() is None, "the server ended"
        time.sleep(0.01)

    def stop() -> None:
        # not in a child that has inherited this function
        if os.getpid() == client:
            server.kill()
            server.wait()
            folder.cleanup()

    atexit.register(stop)
    return path


def _import_all() -> None:
    import mprun

    for name in LIBRARIES:
        importlib.import_module(name)
    for module in pkgutil.walk_packages(mprun.__path__, "mprun."):
        if not module.name.startswith(NOT_IMPORTED):
            # a module for a library that is not installed
            with contextlib.suppress(ImportError):
                importlib.import_module(module.name)
    _complete(pydantic.BaseModel)


def _complete(model: type[pydantic.BaseModel]) -> None:
    """Build the validators of all models, which a process builds when it first needs them: 0.1 s of CPU time."""
    for below in model.__subclasses__():
        if below.__module__.startswith("mprun."):
            below.model_rebuild()
        _complete(below)


def serve(path: str) -> None:
    """Fork a process for each connection. Return in the process that is to become a call."""
    _import_all()
    # no collection of a child walks through the modules, which would copy their pages
    gc.freeze()
    # who waits for the socket finds a server that listens
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"{path}.new")
    listener.listen()
    os.rename(f"{path}.new", path)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        connection, _ = listener.accept()
        if os.fork() == 0:
            break
        connection.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    listener.close()
    head, files, _, _ = socket.recv_fds(connection, 4, 3)
    asked = json.loads(connection.makefile("rb").read(int.from_bytes(head)))
    child = os.fork()
    if child:
        # who has waited for too long has gone
        with contextlib.suppress(BrokenPipeError):
            connection.sendall(f"{child}\n".encode())
            connection.sendall(f"{os.waitpid(child, 0)[1]}\n".encode())
        os._exit(0)
    connection.close()
    for number, file in enumerate(files):
        os.dup2(file, number)
    for file in files:
        os.close(file)
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    tempfile.tempdir = None
    sys.path[0] = asked["cwd"]
    sys.argv = ["mprun", *asked["words"]]


if __name__ == "__main__":
    serve(sys.argv[1])
    runpy.run_module("mprun", run_name="__main__", alter_sys=True)
