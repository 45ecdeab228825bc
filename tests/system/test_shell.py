# SPDX-License-Identifier: Apache-2.0
"""Mininet's prompt on the running network, in both engines, and lines in a run that stands still at a time."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import time
from pathlib import Path

import pytest

from tests.scenes import RATES_ONLY
from tests.system.conftest import COMMAND, call, environment

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


RUN = """\
version: 1
probe: {pings: 0}
traffic: [{name: bulk, tool: iperf3, from: client, to: server, duration: 3s}]
"""


def ask_at(moment: str, lines: list[str], pause_s: float, folder: Path) -> str:
    """Type lines at a simulated time of the newest run, each after a pause. Return what is printed."""
    argv = [*COMMAND, "shell", "latest", "--at", moment]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, cwd=folder, env=environment(), text=True, stdin=pipe, stdout=pipe) as process:
        assert process.stdin is not None
        for line in lines:
            process.stdin.write(f"{line}\n")
            process.stdin.flush()
            time.sleep(pause_s)
        said, _ = process.communicate(timeout=60)
    assert process.returncode == 0, said
    return str(said)


@pytest.mark.usefixtures("leaves_nothing")
def test_a_run_is_asked_at_a_simulated_time(tmp_path: Path) -> None:
    """No simulated time passes while a person types, so the answers do not depend on the pauses."""
    (tmp_path / "topo.yaml").write_text(RATES_ONLY)
    (tmp_path / "xp.yaml").write_text(RUN)
    assert call("-t", "topo", "-x", "xp", cwd=tmp_path).status == 0
    before = sorted((tmp_path / "runs").iterdir())
    lines = [
        "client cat /proc/uptime",
        "client ss -tinH",
        "router ping -c 1 server",
        "client nothing-such",
        "what",
        "exit",
    ]
    fast, slow = (ask_at("1500ms", lines, pause_s, tmp_path) for pause_s in (0.0, 0.7))
    assert fast == slow
    assert "ESTAB" in fast
    assert "1 received" in fast
    assert "nothing-such: command not found" in fast
    assert "nodes: client, router, server" in fast
    later = ask_at("2500ms", lines[:1], 0.0, tmp_path)
    times_s = [float(said.split()[0]) for said in (fast, later)]
    assert times_s[1] - times_s[0] == pytest.approx(1, abs=0.011)
    assert sorted((tmp_path / "runs").iterdir()) == before


def test_a_shell_needs_a_topology_or_a_run_with_a_time(tmp_path: Path) -> None:
    for words, message in (
        ((), "give -t TOPOLOGY, or RUN with --at TIME"),
        (("latest",), "RUN needs --at TIME"),
        (("latest", "--at", "3s"), "no run 'latest'"),
        (("latest", "-t", "topo", "--at", "3s"), "give -t TOPOLOGY, or RUN with --at TIME"),
    ):
        done = call("shell", *words, cwd=tmp_path)
        assert done.status == 2
        assert message in done.err
