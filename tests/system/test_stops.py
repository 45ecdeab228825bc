# SPDX-License-Identifier: Apache-2.0
"""The experiment kernel saves work at the stops of programs. The programs see no difference, and the stops are counted.

`programs/clocks.c`, `programs/registers.c` and `programs/pages.c` check the clocks, the floating-point state and the
memory from inside.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from mprun.agent import kernel_counts
from mprun.model.run_files import Stops
from mprun.storage.run_directory import RunDirectory
from tests.scenes import ONE_PATH
from tests.system.conftest import Result

pytestmark = pytest.mark.fresh

PROGRAMS = Path(__file__).parents[1] / "programs"
READINGS = 100_000
# A reading is a system call at the latest after so many readings (kernel/src/mprun_clock.h).
AT_MOST = 64
FRESH_PAGES = 16_000


def run(mprun: Callable[..., Result], folder: Path, **entry: Any) -> Result:
    whole = {"name": "it", "tool": "exec", "from": "client", "to": "server", **entry}
    experiment = {"version": 1, "probe": {"pings": 0}, "traffic": [whole]}
    (folder / "topo.yaml").write_text(ONE_PATH)
    (folder / "xp.yaml").write_text(yaml.safe_dump(experiment))
    return mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--allow-exec", "--json")


def compiled(name: str, folder: Path) -> Mapping[str, Any]:
    """Return the keys of an entry that runs a program of PROGRAMS."""
    source = str(PROGRAMS / f"{name}.c")
    subprocess.run(["gcc", "-O2", "-Wall", "-Werror", "-pthread", "-o", str(folder / name), source], check=True)
    return {"command": [f"{{inputs}}/{name}"], "files": [name]}


@pytest.mark.parametrize(
    ("name", "checks"),
    [
        ("registers", ["system calls", "threads", "faults", "signals", "wide registers", "fork", "exec"]),
        (
            "clocks",
            [*(f"CLOCK_{name}" for name in ("REALTIME", "MONOTONIC", "MONOTONIC_RAW", "BOOTTIME")), "order", "sleep"]
            + ["other clocks"],
        ),
        (
            "pages",
            ["fresh memory", "own memory", "fork", "shared memory", "protected memory", "returned memory"]
            + ["private file", "shared file", "end of a file"],
        ),
    ],
)
def test_a_program_sees_no_difference(
    mprun: Callable[..., Result], tmp_path: Path, name: str, checks: list[str]
) -> None:
    result = run(mprun, tmp_path, **compiled(name, tmp_path))
    assert result.status == 0, result.err
    assert (result.run / "logs" / "it.out").read_text().splitlines() == [f"{check}: right" for check in checks]


def test_reading_the_clock_is_seldom_a_stop_and_takes_time(mprun: Callable[..., Result], tmp_path: Path) -> None:
    """Each reading takes 256 ns or more, so a loop that only reads ends, and the kernel sees few of the readings."""
    program = f"import time\nbegan = time.time_ns()\nfor _ in range({READINGS}): time.time_ns()\n"
    program += "print(time.time_ns() - began)"
    result = run(mprun, tmp_path, command=["python3", "-c", program])
    assert result.status == 0, result.err
    assert int((result.run / "logs" / "it.out").read_text()) >= READINGS * 256
    stops = json.loads((result.run / "stops.json").read_text())
    calls = sum(one["count"] for one in stops if (one["program"], one["call"]) == ("python3", "clock_gettime"))
    assert 0 < calls <= 2 * READINGS / AT_MOST


def test_writing_to_fresh_memory_is_seldom_a_stop(mprun: Callable[..., Result], tmp_path: Path) -> None:
    result = run(mprun, tmp_path, command=["python3", "-c", f"bytearray(b'1') * {FRESH_PAGES * 4096}"])
    assert result.status == 0, result.err
    stops = json.loads((result.run / "stops.json").read_text())
    faults = sum(one["count"] for one in stops if (one["program"], one["call"]) == ("python3", "fault"))
    # Python's own start has a few hundred
    assert 0 < faults < FRESH_PAGES / 8


def test_the_cost_of_a_run_is_shown(mprun: Callable[..., Result], tmp_path: Path) -> None:
    made = run(mprun, tmp_path, command=["python3", "-c", "import os\nfor _ in range(321): os.getppid()"])
    assert made.status == 0, made.err
    stops = RunDirectory(made.run).stops()
    assert Stops("python3", "getppid", 321) in stops
    told = mprun("show", made.run, "--cost")
    assert told.status == 0
    assert "321" in told.out
    assert "getppid" in told.out
    assert mprun("verify", made.run, "--allow-exec").status == 0
    (made.run / "stops.json").unlink()
    assert "only the virtual engine counts them" in mprun("show", made.run, "--cost").err


def test_a_program_cannot_break_the_counts_by_its_name() -> None:
    """A program can choose any name with prctl(2), also one with a line break."""
    lines = ["3 read a b\n", "7 fault evil\n", "99x call x\n", "\n", "5 other \n", "8\n"]
    assert list(kernel_counts.read_stops(lines)) == [
        {"program": "a b", "call": "read", "count": 3},
        {"program": "evil", "call": "fault", "count": 7},
        {"program": "", "call": "other", "count": 5},
        {"program": "", "call": "", "count": 8},
    ]
