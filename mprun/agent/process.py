# SPDX-License-Identifier: Apache-2.0
"""Start the processes of a run in their namespaces, wait until they are ready, end them."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import partial
from subprocess import DEVNULL, Popen, SubprocessError
from typing import Any

from mprun.agent import limit, run_file
from mprun.agent.mininet_network import NamespaceNode
from mprun.agent.namespace import inside
from mprun.model.agent_report import spell_status

# Socket states as /proc/net/tcp and /proc/net/udp print them.
LISTEN_STATE, UNCONNECTED_STATE = "0A", "07"
READY_POLL_S = 0.002
READY_TIMEOUT_S = 10.0
STOP_TIMEOUT_S = 5.0
BLOCK = 1 << 16
# The number of lines of a program's output in a message.
TAIL_LINES = 5
# As much of the output of a failed build is searched for its first error.
MOST_BUILD_BYTES = 1 << 20
# A program may print this many times the size of its log: 4 GiB if the log keeps 16 MiB. Printing takes no simulated
# time, so nothing else would end a program that prints without end.
MOST_TIMES = 256


class ProcessError(Exception):
    """A process of the run failed to do its part."""


class NoProcess(ProcessError):
    """The process could not be started. Its log has the reason."""


class LimitedLog:
    """A log that keeps the first bytes of a program's output.

    Further output is read and dropped, up to MOST_TIMES the log's size. Then the pipe is closed, and the program ends
    by SIGPIPE or gets a write error.
    """

    def __init__(self, path: str, most_bytes: int) -> None:
        self._left = most_bytes
        self.most_bytes = most_bytes * MOST_TIMES
        self.printed_bytes = 0
        self._file = run_file.create(path, "wb")
        self._source, self.target = os.pipe()
        self._thread = threading.Thread(target=self._copy, daemon=True)

    def start(self) -> None:
        """Start to read, after the program has inherited the other end of the pipe."""
        os.close(self.target)
        self._thread.start()

    @property
    def is_too_much(self) -> bool:
        """True if the program has printed more than it may."""
        return self.printed_bytes > self.most_bytes

    def finish(self) -> None:
        """Wait for the last output. A descendant of the program may still hold the pipe open."""
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
    """A process that the agent has started.

    Its output goes to `logs/<name>.out` (or the path in the plan), its errors to `logs/<name>.err`.

    - plan: the process in the plan.
    - status: the exit status, negative for a signal; None while the process runs.
    - timed_out: the process was ended because its time-out had passed.
    - is_told: the process was told to end.
    - started_ns, deadline_ns: the time of the start, and the time at which its time limit passes (CLOCK_MONOTONIC).
    """

    def __init__(
        self,
        plan: dict[str, Any],
        node: NamespaceNode,
        directory: str,
        confine: Callable[[], None] | None = None,
        around: AbstractContextManager[None] | None = None,
    ) -> None:
        """Start the process. Raises ProcessError.

        confine: called in the new process before it becomes the program. around: holds while the process is started.
        """
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
            limit.allow_cpu(plan["compute_s"])
            try:
                with around or nullcontext(), inside(node.namespace, node.home):
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
            except FileNotFoundError:
                raise NoProcess(f"{self.name}: no program '{plan['argv'][0]}' on this machine") from None
            except OSError as error:
                raise NoProcess(f"{self.name}: '{plan['argv'][0]}' cannot be started: {error.strerror}") from None
            except SubprocessError:
                raise NoProcess(f"{self.name}: this kernel cannot confine it; see logs/{self.name}.err") from None
            finally:
                for log in self._limited.values():
                    log.start()
        self.started_ns = time.monotonic_ns()
        self.deadline_ns: int = self.started_ns + plan["timeout_ns"]

    def _open(self, path: str, opened: ExitStack) -> int:
        """Return the descriptor of a log, whose size is limited if the plan says so."""
        most_bytes = self.plan["most_log_bytes"]
        if most_bytes is None:
            return opened.enter_context(run_file.create(path, "wb")).fileno()
        self._limited[os.path.basename(path)] = LimitedLog(path, most_bytes)
        return self._limited[os.path.basename(path)].target

    def cut(self) -> dict[str, int]:
        """Return the total output in bytes of each log that was cut. Call it after the process has ended."""
        for log in self._limited.values():
            log.finish()
        most_bytes = self.plan["most_log_bytes"] or 0
        return {name: log.printed_bytes for name, log in self._limited.items() if log.printed_bytes > most_bytes}

    def _make_files(self, directory: str) -> None:
        """Make the files that the process needs, and folders for the files that it writes."""
        for name in self.plan["keeps"]:
            os.makedirs(os.path.dirname(f"{directory}/{name}"), exist_ok=True)
        for wanted in self.plan["files"]:
            os.makedirs(os.path.dirname(wanted["path"]), exist_ok=True)
            with run_file.create(wanted["path"]) as made:
                if wanted["size_bytes"] is None:
                    made.write(wanted["text"])
                else:
                    made.truncate(wanted["size_bytes"])

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def poll(self) -> bool:
        """Return True if the process has ended. Then `status` is its exit status, negative for a signal."""
        if self.status is None:
            status = self._process.poll()
            self.status = 0 if self.is_told and status is not None and not self.timed_out else status
        return self.status is not None

    def wait_ready(self) -> None:
        """Wait until the process is ready as its plan says. Raises ProcessError if it ends or takes too long."""
        deadline = time.monotonic() + READY_TIMEOUT_S
        while not self._is_ready():
            if self.poll():
                raise ProcessError(
                    f"{self.name}: ended with status {spell_status(self.status)} before it was ready{self.tail()}"
                )
            if time.monotonic() > deadline:
                lacking = _LACKING[self.plan["ready"]["kind"]].format(self.plan["ready"]["value"])
                own = _REMEDY if self.plan["is_foreign"] and self.plan["ready"]["kind"] in ("port", "udp") else ""
                raise ProcessError(f"{self.name}: not ready: {lacking}{own} after {READY_TIMEOUT_S:g} s{self.tail()}")
            time.sleep(READY_POLL_S)

    def _is_ready(self) -> bool:
        ready = self.plan["ready"]
        if ready is None:
            return True
        if ready["kind"] == "socket":
            return os.path.exists(ready["value"])
        if ready["kind"] == "output":
            return bool(ready["value"].encode() in run_file.read(self.log_path))
        return self._listens(ready["kind"], int(ready["value"]))

    def _is_taken(self) -> bool:
        """Return True if another program listens on the port that the process will listen on."""
        ready = self.plan["ready"]
        return (
            ready is not None and ready["kind"] in ("port", "udp") and self._listens(ready["kind"], int(ready["value"]))
        )

    def _listens(self, kind: str, port: int) -> bool:
        suffix = f":{port:04X}"
        tables, state = (("udp", "udp6"), UNCONNECTED_STATE) if kind == "udp" else (("tcp", "tcp6"), LISTEN_STATE)
        with inside(self._node.namespace, self._node.home):
            for table in tables:
                with open(f"/proc/thread-self/net/{table}") as sockets:
                    for line in sockets:
                        fields = line.split()
                        if len(fields) > 3 and fields[1].endswith(suffix) and fields[3] == state:
                            return True
        return False

    def notify(self, number: int) -> None:
        """Send the process a signal that does not end it."""
        os.kill(self.pid, number)

    def tell_to_end(self) -> None:
        """Send the plan's stop signal. The process then counts as ended with status 0."""
        if not self.poll():
            self.is_told = True
            os.killpg(self.pid, self.plan["stop_signal"])

    def stop(self) -> None:
        """End the process as its plan says, then by force. Return when it has ended."""
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
        """The reason for the end of the process, if its status alone does not show it; else None."""
        if self.status and (log := next((log for log in self._limited.values() if log.is_too_much), None)):
            return f"printed more than {log.most_bytes / 1e9:.1f} GB, and was ended"
        if self.status == -signal.SIGKILL and (reason := limit.read().get(self.pid)):
            return reason
        return limit.explain_cpu(self.status, self.plan["compute_s"])

    def tail(self) -> str:
        """Return the reason for its end, or else the last lines of its output, to append to a message.

        Of a program that prepares a flow, such as a compiler, these are the lines from its first error on.
        """
        if self.why:
            return f": {self.why}"
        is_preparation = self.plan["role"] == "preparation"
        for path in (self.log_path, *([] if self.plan["output"] else [self.output_path])):
            text = run_file.read(path, MOST_BUILD_BYTES if is_preparation else 2000).decode(errors="replace").strip()
            if text and is_preparation:
                # few runs fail so
                from mprun.errors import show_failure

                said = printable(show_failure(text, TAIL_LINES))
                return f" (all that it printed: logs/{os.path.basename(path)}):\n{said}"
            if text:
                return ": " + "\n".join(printable(text).splitlines()[-TAIL_LINES:])
        return ", and it printed nothing"


# The reasons why a process is not ready, by the kind of the condition (`mprun.model.plan.Ready`).
_LACKING = {
    "port": "nothing listens on its TCP port {}",
    "udp": "nothing listens on its UDP port {}",
    "socket": "it did not make {}",
    "output": "it did not print '{}' on its standard error",
}
# What a server that the user brings may lack.
_REMEDY = " ('{port}' in its command, 'protocol' in its entry, or 'listens: false')"


def _confine(confine: Callable[[], None]) -> None:
    """Run `confine` in the new process. Its standard error is the log already."""
    try:
        confine()
    except OSError as error:
        os.write(2, f"{error.strerror}\n".encode())
        raise


def printable(text: str) -> str:
    """Replace characters that a terminal does not print, or would obey, by U+FFFD."""
    return "".join(one if one.isprintable() or one in "\n\t" else "\ufffd" for one in text)
