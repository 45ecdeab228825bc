# SPDX-License-Identifier: Apache-2.0
"""Calls that are forked are like calls that start Python."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests import request
from tests.forked import call, write_program

TOPOLOGY = "version: 1\ntopology: multi-path\npaths: [{rate: 10mbit}]\n"
EXPERIMENT = "version: 1\ntraffic: [{name: a, tool: ping, from: client, to: server, count: 1}]\n"


def start(words: list[str], cwd: Path, env: dict[str, str]) -> tuple[int, str, str]:
    argv = [sys.executable, "-m", "mprun", *words]
    done = subprocess.run(argv, cwd=cwd, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["--version"],
        ["validate", "-t", "topo", "-x", "xp"],
        ["validate", "-t", "none", "-x", "xp"],
        ["no-such-command"],
        ["graph", "-t", "topo", "--addresses"],
        ["lab", "list"],
    ],
)
def test_status_output_and_errors_are_equal(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "topo.yaml").write_text(TOPOLOGY)
    (tmp_path / "xp.yaml").write_text(EXPERIMENT)
    assert call(words, tmp_path, os.environ, 60) == start(words, tmp_path, {**os.environ})


def test_each_call_has_its_environment(tmp_path: Path) -> None:
    without = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    told = [call(["kernel", "list"], tmp_path, env, 60) for env in (without, os.environ)]
    assert told == [start(["kernel", "list"], tmp_path, env) for env in (without, {**os.environ})]
    assert told[0] != told[1]


def test_a_call_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    call(["--version"], tmp_path, os.environ, 60)
    with pytest.raises(TimeoutError):
        call(["lab", "list"], tmp_path, os.environ, 0.001)


def test_a_script_calls_the_program(tmp_path: Path) -> None:
    """The program has the script's input, directory, environment and redirections, and its statuses."""
    write_program(tmp_path / "bin")
    (tmp_path / "topo.yaml").write_text(TOPOLOGY)
    script = """\
mprun graph -t topo > here; echo $?
mprun validate -t none -x xp 2> faults; echo $?
echo no | mprun kernel rm default; echo $?
HOME=/nonexistent XDG_CACHE_HOME=$PWD mprun kernel list | grep -c .
"""
    told = []
    for program in ("mprun", f"{sys.executable} -m mprun"):
        done = subprocess.run(
            ["sh", "-c", script.replace("mprun ", f"{program} ")],
            cwd=tmp_path,
            env={**os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "XDG_CACHE_HOME": f"{tmp_path}/cache"},
            capture_output=True,
            text=True,
        )
        files = [(tmp_path / name).read_text() for name in ("here", "faults")]
        told.append((done.returncode, done.stdout, done.stderr, files))
    assert told[0] == told[1]
    assert told[0][1].splitlines()[:2] == ["0", "2"]
    assert all(told[0][3])


def test_a_signal_that_ends_the_process_is_a_status_of_the_program() -> None:
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{folder}/socket")
        listener.listen()
        program = subprocess.Popen([sys.executable, "-IS", request.__file__, f"{folder}/socket", "runs", "list"])
        connection, _ = listener.accept()
        with connection:
            # the process's number, and the status that waitpid(2) gives for SIGKILL
            connection.sendall(f"{os.getpid()}\n{signal.SIGKILL}\n".encode())
            assert program.wait() == 128 + signal.SIGKILL
