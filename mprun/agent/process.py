# SPDX-License-Identifier: Apache-2.0
"""Processes of a run: start them in their namespace, wait until they are ready, end them."""

from __future__ import annotations

import os
import signal
import time
from subprocess import DEVNULL, Popen
from typing import Any

from mprun.agent.namespace import inside
from mprun.agent.network import NamespaceNode

# As /proc/net/tcp and /proc/net/udp have them.
LISTEN_STATE, UNCONNECTED_STATE = "0A", "07"
READY_POLL_S = 0.002
READY_TIMEOUT_S = 10.0
STOP_TIMEOUT_S = 5.0


class ProcessError(Exception):
    """A process of the run could not do its part."""


class RunningProcess:
    """One process of the plan; its output goes to `logs/<name>.out` (or where the plan says) and `.err`."""

    def __init__(self, plan: dict[str, Any], node: NamespaceNode, directory: str) -> None:
        self.plan = plan
        self.name: str = plan["name"]
        self.status: int | None = None
        self.timed_out = False
        self.log_path = f"{directory}/logs/{self.name}.err"
        self.output_path = f"{directory}/{plan['output'] or f'logs/{self.name}.out'}"
        self._node = node
        self._make_files(directory)
        environment = {**os.environ, **plan["env"]}
        with open(self.output_path, "wb") as out, open(self.log_path, "wb") as err:
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
                    )
            except FileNotFoundError:
                raise ProcessError(f"{self.name}: no program '{plan['argv'][0]}' on this machine") from None
        self.started_ns = time.monotonic_ns()

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
            self.status = self._process.poll()
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

    def tail(self, lines: int = 5) -> str:
        """The end of what it said, ready to be appended to a message."""
        text = ""
        for path in (self.log_path, *([] if self.plan["output"] else [self.output_path])):
            with open(path, "rb") as log:
                log.seek(max(0, os.fstat(log.fileno()).st_size - 2000))
                text = text or log.read().decode(errors="replace").strip()
        return ": " + "\n".join(text.splitlines()[-lines:]) if text else " without a word"
