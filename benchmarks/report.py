# SPDX-License-Identifier: Apache-2.0
"""Measure the time and size of a report of a sweep of 200 cells. The target is 20 s and 10 MB.

The sweep is the summary of one run, written 200 times with other values. A report reads only the summary and table of a
sweep.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from mprun.model.sweep_files import FORMAT, CellRepeat, SweepCell, SweepRecord
from mprun.reports.sweep_page import make_sweep_report
from mprun.storage.run_directory import RunDirectory
from mprun.storage.sweep_directory import SweepDirectory
from mprun.sweeps.study import name_folder
from mprun.sweeps.sweep_summary import write_summary

ROOT = Path(__file__).parents[1]
LAB = ROOT / "labs" / "01_multipath"
MOST_S, MOST_BYTES = 20.0, 10_000_000
RATES = [f"{rate}mbit" for rate in (1, 2, 5, 10, 20, 30, 50, 70, 100, 200)]
CONTROLS = ("cubic", "reno", "olia", "lia", "balia")
DELAYS = ("1ms", "10ms", "20ms", "50ms")
RUNS = 5


def lay_out(parent: Path) -> SweepDirectory:
    """Make a sweep of 10 rates, 5 congestion controls and 4 delays, with five runs each."""
    argv = [sys.executable, "-m", "mprun", "-t", LAB / "topo", "-x", LAB / "xp_mptcp", "-o", parent / "one", "--json"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True)
    original = RunDirectory(Path(json.loads(done.stdout)["directory"]))
    summary = original.summary()
    values = [{"path0.rate": r, "cc": c, "path0.delay": d} for r in RATES for c in CONTROLS for d in DELAYS]
    repeat = CellRepeat(1, RUNS, RUNS, ("start", "wire"), None)
    cells = tuple(SweepCell(one, name_folder(tuple(one.items())), "virtual", "default", repeat) for one in values)
    sweep = SweepDirectory.create(parent, SweepRecord(FORMAT, "bench", "0" * 64, cells, (), {}), {})
    for number, cell in enumerate(cells):
        for run in range(1, RUNS + 1):
            target = sweep.path / "runs" / cell.folder / str(run)
            target.mkdir(parents=True)
            factor = 1 + number / 100 + run / 1000
            metrics = {name: one._replace(value=one.value * factor) for name, one in summary.metrics.items()}
            RunDirectory(target).write_summary(summary._replace(seed=run, metrics=metrics))
            if number == 0 and run == 1:
                shutil.copytree(original.path / "inputs", target / "inputs")
    write_summary(sweep)
    return sweep


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="mprun-bench-") as scratch:
        sweep = lay_out(Path(scratch))
        started, busy = time.perf_counter(), time.process_time()
        page = make_sweep_report(sweep, lambda text, done, note="": None)
        took_s = time.perf_counter() - started
        cpu_s = time.process_time() - busy
        size = page.stat().st_size
        figures = sum(path.stat().st_size for path in (sweep.path / "figures").iterdir())
        times = f"{took_s:.1f} s (target {MOST_S:.0f} s), {cpu_s:.1f} s of CPU"
        sizes = f"{size / 1e6:.2f} MB (target {MOST_BYTES / 1e6:.0f} MB), figures beside it {figures / 1e6:.2f} MB"
        print(f"report of 200 cells, {RUNS} runs each: {times}; {sizes}")
    sys.exit(0 if took_s <= MOST_S and size <= MOST_BYTES else 1)


if __name__ == "__main__":
    main()
