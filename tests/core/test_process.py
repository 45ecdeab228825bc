# SPDX-License-Identifier: Apache-2.0
"""Processes of a run: their logs, and the limits of their resources."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mprun.agent import limit, process
from mprun.agent.process import LimitedLog
from mprun.errors import show_failure


def test_a_descendant_may_print_when_its_program_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "STOP_TIMEOUT_S", 0.01)
    log = LimitedLog(str(tmp_path / "flow.out"), 8)
    descendant = os.dup(log.target)
    log.start()
    log.finish()
    os.write(descendant, b"afterwards")
    os.close(descendant)
    deadline = time.monotonic() + 10
    while log.printed_bytes < 10:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    log.finish()
    assert (tmp_path / "flow.out").read_bytes() == b"afterwar"


def test_a_program_that_prints_too_much_loses_its_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "MOST_TIMES", 2)
    log = LimitedLog(str(tmp_path / "flow.out"), 8)
    program = os.dup(log.target)
    log.start()
    os.write(program, b"0123456789")
    assert not log.is_too_much
    os.write(program, b"0123456")
    log.finish()
    assert log.is_too_much
    with pytest.raises(BrokenPipeError):
        os.write(program, b"more")
    os.close(program)
    assert (tmp_path / "flow.out").read_bytes() == b"01234567"


def test_a_bound_is_told_with_its_size() -> None:
    assert "had most of the 1008 processes and threads" in limit.describe("tasks", 1008)
    assert "17.2 GB that a run may write" in limit.describe("bytes", 16 << 30)
    assert "the 1038 MB of memory" in limit.describe("memory", 1_038_500_000)
    assert "100008 files" in limit.describe("files", 100_008)
    # of a kernel without such limits
    assert limit.read() == {}


@pytest.mark.parametrize("has_ended", [True, False])
def test_agent_ends_at_once_if_mprun_has_ended(tmp_path: Path, has_ended: bool) -> None:
    (tmp_path / "plan.json").write_text("no plan")
    reading, writing = os.pipe()
    if has_ended:
        os.close(writing)
    argv = [sys.executable, "-m", "mprun.agent.main", *[str(tmp_path)] * 3, "--lifeline", str(reading)]
    ended = subprocess.run(argv, pass_fds=(reading,), capture_output=True, text=True)
    assert ended.returncode == 1
    # the plan is read only while mprun lives
    assert ("JSONDecodeError" in ended.stderr) is not has_ended
    os.close(reading)
    if not has_ended:
        os.close(writing)


@pytest.mark.parametrize(
    ("printed", "first"),
    [
        (["a.c: In function 'main':", "a.c:4:9: error: 'x' undeclared", *["more"] * 20], 1),
        (["  CC lib/error.o", "a.c:1:10: fatal error: no.h: No such file", "1 |"], 1),
        (["warning: unused", "error[E0425]: cannot find value `x`", "  --> src/main.rs:2:5"], 1),
        (["a.c:(.text+0x5): undefined reference to `f'", "collect2: error: ld returned 1"], 0),
        (["a.c:1: warning: unused", "/usr/bin/ld: cannot find -lq: No such file", "collect2: error: ld returned 1"], 1),
        (["ld: warning: cannot find entry symbol", "a.c:4:9: error: 'x' undeclared"], 1),
        (["ERROR: No matching distribution found", "hint"], 0),
        (["make[1]: *** [all] Error 1"], 0),
        # no errors, though they look like some
        (["*** Building ***", "checking error: none", "ValueError: wrong"], 2),
        # without an error, the last lines
        (["a", "b", "c"], 2),
    ],
)
def test_the_first_error_of_a_build_is_shown(printed: list[str], first: int) -> None:
    output = "\n".join(printed) + "\n"
    assert show_failure(output, 1) == printed[first]
    assert show_failure(output).splitlines() == printed[first if first < 2 else 0 :][:15]


def test_a_build_of_many_errors_shows_the_first(tmp_path: Path) -> None:
    (tmp_path / "bad.c").write_text("int main(void) { return missing; }\n" + "int f%d(void) { return 1 + ; }\n" * 40)
    done = subprocess.run(
        ["gcc", "bad.c"], cwd=tmp_path, capture_output=True, text=True, env={"LC_ALL": "C", "PATH": os.environ["PATH"]}
    )
    assert done.stderr.count("error:") > 15
    assert show_failure(done.stderr, 5).startswith("bad.c:1:25: error: 'missing' undeclared")
