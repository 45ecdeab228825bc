# SPDX-License-Identifier: Apache-2.0
"""Processes of a run: start them in their namespace, wait until they are ready, end them."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from subprocess import DEVNULL, Popen, SubprocessError
from typing import Any

from mprun.agent import computing, limit
from mprun.agent.namespace import inside
from mprun.agent.network import NamespaceNode

# As /proc/net/tcp and /proc/net/udp have them.
LISTEN_STATE, UNCONNECTED_STATE = "0A", "07"
READY_POLL_S = 0.002
READY_TIMEOUT_S = 10.0
STOP_TIMEOUT_S = 5.0
BLOCK = 1 << 16
# A program may print so many times as much as its log keeps: 4 GiB where that is 16 MiB. Printing takes no simulated
# time, so that nothing else would end a program that prints without end.
MOST_TIMES = 256


class ProcessError(Exception):
    """A process of the run could not do its part."""


class NoProcess(ProcessError):
    """It could not be started; what says why is in its log."""


class LimitedLog:
    """A log that holds the first bytes of what a program prints. The rest is read and dropped, up to MOST_TIMES as
    much: then the other end is closed, and the program ends by SIGPIPE, or has an error of writing."""

    def __init__(self, path: str, most_bytes: int) -> None:
        self._left = most_bytes
        self.most_bytes = most_bytes * MOST_TIMES
        self.printed_bytes = 0
        self._file = open(path, "wb")  # noqa: SIM115  until nobody holds its other end
        self._source, self.target = os.pipe()
        self._thread = threading.Thread(target=self._copy, daemon=True)

    def start(self) -> None:
        """The program has the other end: read until it closes it."""
        os.close(self.target)
        self._thread.start()

    @property
    def is_too_much(self) -> bool:
        """Tell if the program has printed more than it may."""
        return self.printed_bytes > self.most_bytes

    def finish(self) -> None:
        """Wait for the last of it; a descendant of the program's may hold its end still."""
        self._thread.join(STOP_TIMEOUT_S)

    def _copy(self) -> None:
        with self._file:
            while not self.is_too_much and (data := os.read(self._source, BLOCK)):
                self.printed_bytes += len(data)
                if self._left > 0:
                    os.write(self._file.fileno(), data[: self._left])
                    self._left -= len(data)
        os.close(self._source)


class RunningProcess:
    """One process of the plan; its output goes to `logs/<name>.out` (or where the plan says) and `.err`."""

    def __init__(
        self,
        plan: dict[str, Any],
        node: NamespaceNode,
        directory: str,
        confine: Callable[[], None] | None = None,
    ) -> None:
        """Start it. confine: called in the new process before it becomes the program."""
        self.plan = plan
        self.name: str = plan["name"]
        self.status: int | None = None
        self.timed_out = False
        self.is_told = False
        self.log_path = f"{directory}/logs/{self.name}.err"
        self.output_path = f"{directory}/{plan['output'] or f'logs/{self.name}.out'}"
        self._node = node
        self._make_files(directory)
        environment = {**os.environ, **plan["env"]}
        self._limited: dict[str, LimitedLog] = {}
        if self._is_taken():
            raise ProcessError(f"{self.name}: port {plan['ready']['value']} of {plan['node']} is taken already")
        with ExitStack() as opened:
            out, err = (self._open(path, opened) for path in (self.output_path, self.log_path))
            computing.allow(plan["compute_s"])
            try:
                with inside(node.namespace, node.home):
                    self._process = Popen(
                        plan["argv"],
                        stdin=DEVNULL,
                        stdout=out,
                        stderr=err,
                        env=environment,
                        start_new_session=True,
                        close_fds=False,
                        preexec_fn=None if confine is None else partial(_confine, confine),
                    )
            except OSError as error:
                raise NoProcess(f"{self.name}: {self._say_why(error)}") from None
            except SubprocessError:
                raise NoProcess(f"{self.name}: this kernel cannot confine it; see logs/{self.name}.err") from None
            finally:
                for log in self._limited.values():
                    log.start()
        self.started_ns = time.monotonic_ns()

    def _open(self, path: str, opened: ExitStack) -> int:
        """The descriptor of a log, one that is limited where the plan says so."""
        most_bytes = self.plan["most_log_bytes"]
        if most_bytes is None:
            return opened.enter_context(open(path, "wb")).fileno()
        self._limited[os.path.basename(path)] = LimitedLog(path, most_bytes)
        return self._limited[os.path.basename(path)].target

    def _say_why(self, error: OSError) -> str:
        """Why the program could not be started."""
        program = self.plan["argv"][0]
        if isinstance(error, FileNotFoundError):
            return f"no program '{program}' on this machine"
        return f"'{program}' cannot be started: {error.strerror}"

    def cut(self) -> dict[str, int]:
        """Of the logs that do not hold all that was printed, how much that was, bytes; once it has ended."""
        for log in self._limited.values():
            log.finish()
        most_bytes = self.plan["most_log_bytes"] or 0
        return {name: log.printed_bytes for name, log in self._limited.items() if log.printed_bytes > most_bytes}

    def _make_files(self, directory: str) -> None:
        """The files that it needs, and folders for those that it leaves."""
        for name in self.plan["keeps"]:
            os.makedirs(os.path.dirname(f"{directory}/{name}"), exist_ok=True)
        for wanted in self.plan["files"]:
            os.makedirs(os.path.dirname(wanted["path"]), exist_ok=True)
            with open(wanted["path"], "w") as file:
                if wanted["size_bytes"] is None:
                    file.write(wanted["text"])
                else:
                    file.truncate(wanted["size_bytes"])

    @property
    def pid(self) -> int:
        return self._process.pid

    def poll(self) -> bool:
        """Whether it has ended; then `status` is its exit status, negative for a signal."""
        if self.status is None:
            status = self._process.poll()
            self.status = 0 if self.is_told and status is not None and not self.timed_out else status
        return self.status is not None

    def wait_ready(self) -> None:
        """Return once it is ready as its plan says. Raises ProcessError if it ends or takes too long."""
        deadline = time.monotonic() + READY_TIMEOUT_S
        while not self._is_ready():
            if self.poll():
                raise ProcessError(f"{self.name}: ended with status {self.status} before it was ready{self.tail()}")
            if time.monotonic() > deadline:
                raise ProcessError(f"{self.name}: not ready after {READY_TIMEOUT_S:g} s{self.tail()}")
            time.sleep(READY_POLL_S)

    def _is_ready(self) -> bool:
        ready = self.plan["ready"]
        if ready is None:
            return True
        if ready["kind"] == "socket":
            return os.path.exists(ready["value"])
        if ready["kind"] == "output":
            with open(self.log_path, "rb") as log:
                return bool(ready["value"].encode() in log.read())
        return self._listens(ready["kind"], int(ready["value"]))

    def _is_taken(self) -> bool:
        """Whether somebody else listens on the port that it is to listen on."""
        ready = self.plan["ready"]
        return (
            ready is not None and ready["kind"] in ("port", "udp") and self._listens(ready["kind"], int(ready["value"]))
        )

    def _listens(self, kind: str, port: int) -> bool:
        suffix = f":{port:04X}"
        tables, state = (("udp", "udp6"), UNCONNECTED_STATE) if kind == "udp" else (("tcp", "tcp6"), LISTEN_STATE)
        with inside(self._node.namespace, self._node.home):
            for table in tables:
                with open(f"/proc/thread-self/net/{table}") as file:
                    for line in file:
                        fields = line.split()
                        if len(fields) > 3 and fields[1].endswith(suffix) and fields[3] == state:
                            return True
        return False

    def notify(self, number: int) -> None:
        """Send it a signal that it does not end on."""
        os.kill(self.pid, number)

    def tell_to_end(self) -> None:
        """As its plan says, which makes its end the one that it should have."""
        if not self.poll():
            self.is_told = True
            os.killpg(self.pid, self.plan["stop_signal"])

    def stop(self) -> None:
        """End it as its plan says, then by force; return when it is gone."""
        for number in (self.plan["stop_signal"], signal.SIGKILL):
            if self.poll():
                break
            os.killpg(self.pid, number)
            deadline = time.monotonic() + STOP_TIMEOUT_S
            while not self.poll() and time.monotonic() < deadline:
                time.sleep(READY_POLL_S)
        self.status = self._process.wait()

    @property
    def why(self) -> str | None:
        """The reason for its end, where its status alone does not give one."""
        if self.status and (log := next((log for log in self._limited.values() if log.is_too_much), None)):
            return f"printed more than {log.most_bytes / 1e9:.1f} GB, and was ended"
        if self.status == -signal.SIGKILL and (reason := limit.read().get(self.pid)):
            return reason
        return computing.explain(self.status, self.plan["compute_s"])

    def tail(self, lines: int = 5) -> str:
        """The reason for its end or else the last lines of its output, ready to be appended to a message."""
        if self.why:
            return f": {self.why}"
        text = ""
        for path in (self.log_path, *([] if self.plan["output"] else [self.output_path])):
            with open(path, "rb") as log:
                log.seek(max(0, os.fstat(log.fileno()).st_size - 2000))
                text = text or printable(log.read().decode(errors="replace")).strip()
        return ": " + "\n".join(text.splitlines()[-lines:]) if text else " without a word"


def _confine(confine: Callable[[], None]) -> None:
    """In the new process, whose standard error is its log already."""
    try:
        confine()
    except OSError as error:
        os.write(2, f"{error.strerror}\n".encode())
        raise


def printable(text: str) -> str:
    """The text with U+FFFD in place of what a terminal would not print, or would obey."""
    return "".join(one if one.isprintable() or one in "\n\t" else "\ufffd" for one in text)
