# SPDX-License-Identifier: Apache-2.0
"""Notes on a run in progress, and limits of its programs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mprun.engines.agent_process import channel, watch
from mprun.engines.standstill import STIME, TICKS_PER_S, UTIME, Computing
from mprun.errors import RunError
from mprun.storage.run_directory import RunDirectory

# Reports as the agent makes them: each overwrites the last one, and is longer or shorter. The first lines are none.
AGENT = """
import json, os, sys, time
file = os.open(sys.argv[1] + "/progress", os.O_WRONLY | os.O_CREAT)
for line in ('{"text": "a", "done_ns": 1, "eend_ns": 2}', "[]", '{"text": 1, "done_ns": 1, "end_ns": 2}', "[" * 190,
             '{"text": "a", "done_ns": 1%s, "end_ns": 1}' % ("0" * 150)):
    os.pwrite(file, (line + "\\n").ljust(200).encode(), 0)
    time.sleep(0.05)
for text, done_ns in (("building", 0), ("a, " * 200, 0), ("b", 1), ("b", 2)):
    line = json.dumps({"text": text, "done_ns": done_ns, "end_ns": 2}) + "\\n"
    os.pwrite(file, line.ljust(200).encode(), 0)
    time.sleep(0.1)
"""


def test_each_phase_is_shown_and_noted_with_its_last_sign(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path, "title", "0123456789")
    shown: list[tuple[str, float]] = []
    with channel() as talk:
        process = subprocess.Popen([sys.executable, "-c", AGENT, talk.reports.path], start_new_session=True)
        watch(process, run, lambda text, done, _note: shown.append((text, done)), interactive=False, talk=talk)
    assert shown == [("building", 0), ("a, " * 200, 0), ("b", 0.5), ("b", 1)]
    building, several, last, ended = run.folder.read_json("wall.json")
    assert [phase["text"] for phase in (building, several, last, ended)] == ["building", "a, " * 200, "b", "ended"]
    assert building["wall_s"] < several["wall_s"] < last["wall_s"] < last["last_s"] < ended["wall_s"]
    assert building["wall_s"] == building["last_s"]
    assert sorted(path.name for path in run.path.iterdir()) == ["incomplete", "inputs", "logs", "pcap", "wall.json"]
    assert not talk.reports.path.exists()


# Two programs that wake each other for ever, and sleep in between.
WAKERS = """
import os, signal
signal.signal(signal.SIGXCPU, signal.SIG_IGN)
(a, b), (c, d) = os.pipe(), os.pipe()
mine, yours = (a, d) if os.fork() else (c, b)
os.write(yours, b"x")
while True:
    os.write(yours, os.read(mine, 1))
"""


@pytest.mark.slow
def test_programs_that_only_wake_each_other_are_ended(tmp_path: Path) -> None:
    """Their total CPU time is bounded to 1 s here, plus the time until the next check."""
    run = RunDirectory.create(tmp_path, "title", "0123456789")
    process = subprocess.Popen([sys.executable, "-c", WAKERS], start_new_session=True)
    told = r"programs used 1 s of CPU time together .last sign: none.*raise the limit"
    with channel() as talk, pytest.raises(RunError, match=told):
        watch(process, run, lambda *_: None, interactive=False, talk=talk, computing=Computing(process.pid, 1))
    assert process.returncode == -signal.SIGKILL


@pytest.mark.slow
def test_while_a_debugger_holds_the_kernel_no_limit_counts(tmp_path: Path) -> None:
    """A program uses three times the CPU time that two programs may use together, and is not ended for it."""
    run = RunDirectory.create(tmp_path, "title", "0123456789")
    process = subprocess.Popen([sys.executable, "-c", WAKERS], start_new_session=True)

    def is_held() -> bool:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        if int(fields[UTIME]) + int(fields[STIME]) >= 3 * TICKS_PER_S:
            os.killpg(process.pid, signal.SIGKILL)
        return True

    with channel() as talk:
        watch(process, run, lambda *_: None, False, talk, Computing(process.pid, 1), is_held)
    assert process.returncode == -signal.SIGKILL
