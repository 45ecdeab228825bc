# SPDX-License-Identifier: Apache-2.0
"""Ask the server of `tests.forked` for a process of `mprun`, and wait for its end.

    python -IS request.py SOCKET [WORDS OF mprun ...]

As a program, it stands for `mprun` in the scripts of tests. It imports next to nothing, because a script may call it
many times: a call takes some hundredths of a second instead of half a second.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Mapping, Sequence


def send(
    connection: socket.socket, words: Sequence[str], cwd: str, env: Mapping[str, str], files: Sequence[int]
) -> int:
    """Ask for a process with three files: input, output and errors. Return its number."""
    request = json.dumps({"words": list(words), "cwd": cwd, "env": dict(env)}).encode()
    socket.send_fds(connection, [len(request).to_bytes(4)], files)
    connection.sendall(request)
    return int(_read_line(connection))


def wait(connection: socket.socket) -> int:
    """Return the process's status, as subprocess does. Raise TimeoutError after the connection's time-out."""
    return os.waitstatus_to_exitcode(int(_read_line(connection)))


def _read_line(connection: socket.socket) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        part = connection.recv(1)
        assert part, "the server ended"
        line += part
    return line


def main(path: str, words: Sequence[str]) -> int:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        send(connection, words, os.getcwd(), os.environ, [0, 1, 2])
        status = wait(connection)
    # the status that a shell reports for a process that a signal has ended
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
