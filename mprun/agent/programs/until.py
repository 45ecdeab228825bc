# SPDX-License-Identifier: Apache-2.0
"""Run a command until it prints a text. It runs as a program of its own.

    python3 until.py TEXT COMMAND ...

The command's output is passed on unchanged. Once the command has printed the text, on either output, it gets SIGTERM
and the exit status is 0. If it ends without having printed the text, the exit status is its own, or 1 instead of 0.

The program must lead a process group. A signal to the group then ends the command too. It needs only Python's library,
because mprun's package is not available where it runs.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from selectors import EVENT_READ, DefaultSelector

BLOCK = 1 << 16
STOP_TIMEOUT_S = 5.0


class Watch:
    """Passes an output on, and searches it for a text that may come in several pieces."""

    def __init__(self, wanted: bytes, target: int) -> None:
        self._wanted = wanted
        self._target = target
        self._rest = b""

    def take(self, data: bytes) -> bool:
        """Pass data on. Return True if the text is now complete."""
        left = memoryview(data)
        while left:
            left = left[os.write(self._target, left) :]
        seen = self._rest + data
        self._rest = seen[-(len(self._wanted) - 1) :] if len(self._wanted) > 1 else b""
        return self._wanted in seen


def run(wanted: str, argv: list[str]) -> int:
    """Run the command until the text appears. Return the exit status."""
    try:
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except OSError as error:
        known = isinstance(error, FileNotFoundError)
        why = f"no program '{argv[0]}' on this machine" if known else f"'{argv[0]}' cannot be started: {error.strerror}"
        print(why, file=sys.stderr)
        return 127
    assert process.stdout is not None
    assert process.stderr is not None
    watches = {process.stdout.fileno(): Watch(wanted.encode(), 1), process.stderr.fileno(): Watch(wanted.encode(), 2)}
    deadline: float | None = None
    with DefaultSelector() as selector:
        for descriptor in watches:
            selector.register(descriptor, EVENT_READ)
        # a descendant may hold the outputs open after the command has ended
        while selector.get_map() and (deadline is None or time.monotonic() < deadline):
            for key, _ in selector.select(None if deadline is None else max(0.0, deadline - time.monotonic())):
                data = os.read(key.fd, BLOCK)
                if not data:
                    selector.unregister(key.fd)
                elif watches[key.fd].take(data) and deadline is None:
                    deadline = time.monotonic() + STOP_TIMEOUT_S
                    # end the command with all that it has started: the whole group, to which this program belongs too
                    signal.signal(signal.SIGTERM, signal.SIG_IGN)
                    os.killpg(0, signal.SIGTERM)
    if deadline is not None:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
        return 0
    status = process.wait()
    print(f"the command ended with status {status} and has not printed '{wanted}'", file=sys.stderr)
    return status if 0 < status < 256 else 128 - status if status < 0 else 1


if __name__ == "__main__":
    sys.exit(run(sys.argv[1], sys.argv[2:]))
