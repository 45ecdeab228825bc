# SPDX-License-Identifier: Apache-2.0
"""Run programs of other people, and ways to wait without sleeping, in simulated time.

    make soak                 after the hours of soak.py: all of them, and docs/measured/programs.md
    programs.py NAME ...      some of them, and no page

Each program must end, be right, and repeat. It is an experiment of `benchmarks/foreign`, which checks the data that it
moved. `x-prints` of the file lists regular expressions that its logs must match. `x-needs` names its programs and the
Debian packages that contain them. Each program runs twice with one seed. Both runs must have the same captures, logs
and figures, byte by byte. If this machine does not have a program, its row says so.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
FOREIGN = ROOT / "benchmarks" / "foreign"
TOPOLOGY = FOREIGN / "topo.yaml"
SPINNER = FOREIGN / "spinner.py"
# The ways to wait that spinner.py knows, and the duration of each.
SPINNERS = (
    *("times", "time", "monotonic", "getrusage", "getppid", "TCP_INFO", "FIONREAD", "WNOHANG", "kill", "uptime"),
    *("select", "yield", "stat", "peek", "refused", "log"),
)
WAIT_S = 2
# A turn of a spinner's loop takes some calls of up to 131 us each. times(2) and /proc/uptime count hundredths of a
# second from the boot, and may be early by two of them.
LATE_S = (-0.02, 0.005)
# A run needs some seconds of simulated time. After this time it has failed.
MOST_WALL_S = 900
# mprun writes these logs with the machine's time or the kernel's process. Programs print all other logs.
OWN_LOGS = {"agent.log", "console.log"}
PAGE = """\
# Programs of other people

`make soak` writes this page. Each row is a program in simulated time, over one path of 20 Mbit/s and 10 ms.
The experiments are in `benchmarks/foreign`, and the packages of the programs are in `packages-soak.txt`.
The columns mean:

- *ends*: the run ends by itself without an error.
- *right*: the experiment checks the moved data by a count, a comparison or a digest, and the check holds.
- *repeats*: a second run with the same seed has the same captures, logs and figures, byte by byte.

The rows that begin with `wait by` are sixteen ways to wait without sleeping: a loop that polls until {wait}
seconds have passed. Such a row is right if the loop ends at that time.

Go before 1.22, such as Debian 12's, does not repeat, because its scheduler uses the processor's time stamp
counter as a random number ([limits.md](../limits.md)). With Go 1.26, two runs of the same program had the same
capture.

"""


@dataclass(frozen=True)
class Row:
    """A program's results. faults: a text for each of ends, right and repeats that failed. not_run: the reason."""

    name: str
    not_run: str = ""
    faults: Mapping[str, str] | None = None
    wall_s: float = 0.0
    simulated_s: float = 0.0

    @property
    def is_good(self) -> bool:
        """Return True if the program was run, ended, was right and repeated."""
        return not self.not_run and not self.faults

    def cells(self) -> list[str]:
        """Return the row of the table."""
        if self.not_run:
            return [self.name, f"not run: {self.not_run}", "", "", "", ""]
        faults = self.faults or {}
        marks = [faults.get(what, "yes") for what in ("ends", "right", "repeats")]
        if "ends" in faults:
            marks[1:] = [faults.get(what, "") for what in ("right", "repeats")]
        return [self.name, *marks, f"{self.wall_s:.1f}", f"{self.simulated_s:.1f}"]


@dataclass(frozen=True)
class Run:
    """A run. fault: the reason if it failed, otherwise empty. directory: None if the run left none."""

    fault: str
    directory: Path | None
    wall_s: float


def missing_packages(needs: Mapping[str, str]) -> list[str]:
    """Return the packages of the programs that this machine does not have."""
    path = "/usr/bin:/usr/sbin:/bin:/sbin"
    return sorted({package for program, package in needs.items() if not shutil.which(program, path=path)})


def check(experiment: Mapping[str, Any], logs: Path) -> str:
    """Return the first line that the experiment requires and the logs lack; empty if the logs have all lines."""
    for name, patterns in experiment["x-prints"].items():
        text = (logs / name).read_text(errors="replace") if (logs / name).is_file() else ""
        for pattern in [patterns] if isinstance(patterns, str) else patterns:
            if not re.search(pattern, text, re.MULTILINE):
                return f"{name} has no line {pattern!r}"
    return ""


def check_late(late: str) -> str:
    """Return the fault of a spinner that printed its lateness in seconds; empty if it was in time."""
    low, high = LATE_S
    return "" if low < float(late) < high else f"late by {float(late):.3f} s"


def compare(one: Path, other: Path) -> str:
    """Return the first difference of two runs in captures, logs and figures; empty if there is none."""
    ours, others = _kept(one), _kept(other)
    for name in sorted(ours.keys() | others.keys()):
        if ours.get(name) != others.get(name):
            return f"another {name}"
    return ""


def try_program(path: Path, folder: Path) -> Row:
    """Run a program of `benchmarks/foreign` twice."""
    experiment = yaml.safe_load(path.read_text())
    if missing := missing_packages(experiment["x-needs"]):
        return Row(path.stem, not_run=f"apt-get install --no-install-recommends {' '.join(missing)}")
    return _try(path.stem, path, folder, lambda logs: check(experiment, logs))


def try_spinner(look: str, folder: Path) -> Row:
    """Run a way to wait twice."""
    program = SPINNER.read_text()
    command = ["python3", "-c", program, look, str(WAIT_S)]
    entry = {"name": "it", "tool": "exec", "from": "client", "to": "server", "command": command}
    capture = [{"host": "client", "snaplen": 100}]
    path = folder / f"{look}.yaml"
    path.write_text(yaml.safe_dump({"version": 1, "traffic": [entry], "capture": capture}))
    return _try(f"wait by `{look}`", path, folder, lambda logs: check_late((logs / "it.out").read_text()))


def _try(name: str, path: Path, folder: Path, look: Callable[[Path], str]) -> Row:
    first = _run(path, folder / "1")
    simulated_s = _simulated_s(first.directory) if first.directory else 0.0
    if first.fault or first.directory is None:
        return Row(name, faults={"ends": first.fault}, wall_s=first.wall_s, simulated_s=simulated_s)
    faults = {}
    if fault := look(first.directory / "logs"):
        faults["right"] = fault
    second = _run(path, folder / "2")
    if second.directory is None or (fault := second.fault or compare(first.directory, second.directory)):
        faults["repeats"] = fault or second.fault
    return Row(name, faults=faults, wall_s=first.wall_s, simulated_s=simulated_s)


def _run(path: Path, output: Path) -> Run:
    argv = [sys.executable, "-m", "mprun", "-t", str(TOPOLOGY), "-x", str(path), "--engine", "virtual", "--allow-exec"]
    argv += ["--json", "--seed", "1", "-o", str(output)]
    started = time.monotonic()
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=MOST_WALL_S)
    except subprocess.TimeoutExpired:
        return Run(f"no end in {MOST_WALL_S} s of real time", None, time.monotonic() - started)
    wall_s = time.monotonic() - started
    try:
        summary = json.loads(done.stdout)
    except ValueError:
        return Run(done.stderr.strip()[-300:], None, wall_s)
    return Run("; ".join(summary["errors"]), Path(summary["directory"]), wall_s)


def _simulated_s(run: Path) -> float:
    """Return how long the run was in simulated time, from time zero to its last step."""
    steps = [json.loads(line) for line in (run / "steps.jsonl").read_text().splitlines()]
    moments_ns: list[int] = [step["actual_ns"] for step in steps if step["phase"] == "run"]
    return max(moments_ns, default=0) / 1e9


def _kept(run: Path) -> dict[str, bytes]:
    """Return the bytes of a run that must repeat, by name."""
    files = [*run.glob("pcap/*"), *(path for path in run.glob("logs/*") if path.name not in OWN_LOGS)]
    return {
        str(path.relative_to(run)): path.read_bytes() for path in [*files, run / "summary.json", run / "steps.jsonl"]
    }


def write(rows: Iterable[Row]) -> str:
    """Return the page."""
    head = ["program", "ends", "right", "repeats", "wall seconds", "simulated seconds"]
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    lines += [f"| {' | '.join(cell.replace('|', ' ') for cell in row.cells())} |" for row in rows]
    return PAGE.format(wait=WAIT_S) + "\n".join(lines) + "\n"


def list_programs() -> dict[str, Path]:
    """Return the experiments of `benchmarks/foreign`, by name."""
    return {path.stem: path for path in sorted(FOREIGN.glob("*.yaml")) if path != TOPOLOGY}


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", help="programs or ways to wait (default: all)")
    names = parser.parse_args(words).names
    programs = list_programs()
    rows = []
    for name in names or [*programs, *SPINNERS]:
        with tempfile.TemporaryDirectory(prefix="mprun-soak-") as place:
            row = try_program(programs[name], Path(place)) if name in programs else try_spinner(name, Path(place))
        rows.append(row)
        print("  ".join(row.cells()), flush=True)
    if not names:
        (ROOT / "docs" / "measured" / "programs.md").write_text(write(rows))
    return 0 if all(row.is_good for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
