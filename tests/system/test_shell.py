# SPDX-License-Identifier: Apache-2.0
"""Mininet's prompt on the running network, through a terminal, in both engines."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import time
from pathlib import Path

import pytest

from tests.scenes import RATES_ONLY
from tests.system.conftest import COMMAND, environment

# Time is that of the wall clock while a person types, in both engines.
pytestmark = pytest.mark.alone
PROMPT = "mininet> "


class Terminal:
    """A user at a terminal: types a line and reads until the prompt returns."""

    def __init__(self, *arguments: str, cwd: Path) -> None:
        self._master, slave = pty.openpty()
        self.process = subprocess.Popen(
            [*COMMAND, *arguments],
            cwd=cwd,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environment(),
            start_new_session=True,
        )
        os.close(slave)

    def until(self, text: str, seconds: float = 30) -> str:
        said = ""
        deadline = time.monotonic() + seconds
        while text not in said:
            ready, _, _ = select.select([self._master], [], [], max(0, deadline - time.monotonic()))
            assert ready, f"no {text!r} within {seconds} s after {said!r}"
            try:
                said += os.read(self._master, 4096).decode(errors="replace")
            except OSError:
                raise AssertionError(f"ended before {text!r}: {said!r}") from None
        return said

    def ask(self, line: str) -> str:
        os.write(self._master, line.encode() + b"\n")
        return self.until(PROMPT)

    def close(self) -> int:
        os.write(self._master, b"exit\n")
        try:
            while os.read(self._master, 4096):
                pass
        except OSError:
            pass
        os.close(self._master)
        return self.process.wait(30)


@pytest.mark.usefixtures("leaves_nothing")
@pytest.mark.parametrize("engine", ["virtual", "real"])
def test_prompt_on_the_network(tmp_path: Path, engine: str) -> None:
    (tmp_path / "topo.yaml").write_text(RATES_ONLY)
    terminal = Terminal("shell", "-t", "topo", "--engine", engine, cwd=tmp_path)
    terminal.until(PROMPT)
    assert "client router server" in terminal.ask("nodes")
    assert "client-eth0<->router-eth0" in terminal.ask("links")
    # Debian 13 colours what ip(8) prints on a terminal
    assert "10.0.1.1/24" in terminal.ask("client ip -color=never -br address")
    assert "2 received" in terminal.ask("client ping -c 2 -i 0.2 server")
    assert "0% dropped" in terminal.ask("pingall")
    # Mininet's own command would wait for ever
    assert "client iperf3 -c server" in terminal.ask("iperf client server")
    assert terminal.close() == 0
    assert not (tmp_path / "runs").exists()


@pytest.mark.usefixtures("leaves_nothing")
def test_lines_from_a_pipe_are_obeyed(tmp_path: Path) -> None:
    (tmp_path / "topo.yaml").write_text(RATES_ONLY)
    done = subprocess.run(
        [*COMMAND, "shell", "-t", "topo"],
        input="client ip -br address\n",
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment(),
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "10.0.1.1/24" in done.stdout
