# SPDX-License-Identifier: Apache-2.0
"""Measure the cost of a sweep in addition to its simulations, and of killing it, for docs/measured/speed.md.

    sweep.py [cells]     lab 01 for 10 s in 200 cells (or `cells`), on one CPU, on all, and on a Dask cluster with a
                         worker process for each CPU on loopback: time, and equal bytes
    sweep.py kill        60 short cells, killed with SIGKILL at 20 random times: equal to a sweep without kills

The exit status is 1 if a target is missed.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from distributed import LocalCluster

ROOT = Path(__file__).parents[1]
LAB = ROOT / "labs" / "01_multipath"
# The most time per cell in addition to the simulation, and the least share of the CPUs' time that is used.
MOST_OVERHEAD_S, LEAST_BUSY = 0.3, 0.9
KILLS, SHORT_CELLS = 20, 60

SHORT = """\
version: 1
traffic:
  - {name: bulk, tool: iperf3, from: client, to: server, duration: 1s}
capture: [{host: client, snaplen: 60}]
probe: {pings: 0}
matrix: {path0.rate: {from: 5mbit, to: 10mbit, step: 1mbit}}
repeat: {runs: 10}
"""


def command(*words: object) -> list[str]:
    return [sys.executable, "-m", "mprun", "sweep", *map(str, words)]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def children_cpu_s() -> float:
    """Return the CPU time of all processes that were started here and have ended, and of their children."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def digest(sweep: Path) -> str:
    """Return the digest of the table and of all captures and summaries of a sweep."""
    total = hashlib.sha256()
    for pattern in ("tables/cells.parquet", "runs/*/*/pcap/*", "runs/*/*/summary.json", "runs/*/*/steps.jsonl"):
        for path in sorted(sweep.glob(pattern)):
            total.update(f"{path.relative_to(sweep)}\n".encode() + path.read_bytes())
    return total.hexdigest()


def bench(cells: int, folder: Path) -> bool:
    experiment = (LAB / "xp_mptcp.yaml").read_text() + f"repeat: {{runs: {cells}}}\n"
    (folder / "xp.yaml").write_text(experiment)
    found = {}
    met = True
    most = len(os.sched_getaffinity(0))
    for places in (most, 1):
        parent = folder / str(places)
        before_s = children_cpu_s()
        done, sweep = _sweep(folder, parent, "-j", places)
        session: dict[str, Any] = json.loads((sweep / "wall.json").read_text())[-1]
        assert session["runs"] == cells, done.stderr
        spent = session["wall_s"] * places
        overhead_s, busy = (spent - session["simulation_s"]) / cells, (children_cpu_s() - before_s) / spent
        met &= overhead_s <= MOST_OVERHEAD_S and (busy >= LEAST_BUSY or places == 1)
        wall_s, each_s = session["wall_s"], session["simulation_s"] / cells
        print(f"{cells} cells, {places} at a time: {wall_s:.1f} s, a simulation {each_s:.2f} s, beside it", end=" ")
        print(f"{overhead_s:.3f} s a cell (target {MOST_OVERHEAD_S:g} s);", end=" ")
        print(f"CPUs {busy:.1%} busy, {session['simulation_s'] / spent:.1%} with simulations", flush=True)
        found[f"{places} at a time"] = digest(sweep)
        shutil.rmtree(parent)
    # its processes read this variable when they start
    os.environ["PYTHONPATH"] = str(ROOT)
    # only some versions of it have types
    cluster: Any = LocalCluster
    with cluster(n_workers=most, threads_per_worker=1, dashboard_address=None) as workers:
        done, sweep = _sweep(folder, folder / "cluster", "--cluster", workers.scheduler_address)
        session = json.loads((sweep / "wall.json").read_text())[-1]
        assert session["runs"] == cells, done.stderr
        print(f"{cells} cells, {most} workers of a cluster: {session['wall_s']:.1f} s", flush=True)
        found[f"{most} workers of a cluster"] = digest(sweep)
    is_equal = len(set(found.values())) == 1
    print(f"bytes with {', '.join(found)}: {'equal' if is_equal else 'DIFFERENT'}")
    return met and is_equal


def _sweep(folder: Path, parent: Path, *words: object) -> tuple[subprocess.CompletedProcess[str], Path]:
    """Run the sweep of the files in `folder` with these arguments. Return the process and the directory."""
    argv = command("-t", LAB / "topo", "-x", folder / "xp", "-o", parent, "--json", *words)
    done = subprocess.run(argv, env=environment(), capture_output=True, text=True)
    if not done.stdout:
        sys.exit(done.stderr)
    return done, Path(json.loads(done.stdout)["directory"])


def kill(folder: Path) -> bool:
    """Kill a sweep at times drawn so that it probably has not ended before the last kill."""
    (folder / "xp.yaml").write_text(SHORT)
    words = ("-t", LAB / "topo", "-x", folder / "xp")
    began = time.monotonic()
    subprocess.run(command(*words, "-o", folder / "whole"), env=environment(), check=True, capture_output=True)
    whole_s = time.monotonic() - began
    draw = random.Random(1)
    kills = 0
    runs = folder / "killed" / "latest-sweep" / "runs"
    while kills < KILLS:
        process = subprocess.Popen(
            command(*words, "-o", folder / "killed"), env=environment(), stderr=subprocess.DEVNULL
        )
        if draw.random() < 0.7:
            # otherwise it is killed during its start, or during the first runs
            _wait_for_a_run(process, folder / "killed" / "latest-sweep" / "partial")
        try:
            process.wait(draw.uniform(0, 2 * whole_s / KILLS))
            print(f"ended before it could be killed more than {kills} times")
            break
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += 1
            print(f"killed {kills} times, {len(list(runs.glob('*/*')))} of {SHORT_CELLS} runs done", flush=True)
    if kills == KILLS:
        subprocess.run(command(*words, "-o", folder / "killed"), env=environment(), check=True, capture_output=True)
    one, other = (digest((folder / name / "latest-sweep").resolve()) for name in ("whole", "killed"))
    sweeps = len(list((folder / "killed").glob("*-sweep"))) - 1
    is_good = one == other and kills == KILLS and sweeps == 1
    print(f"{kills} kills, {sweeps} sweep directory: {'equal' if one == other else 'DIFFERENT'}")
    return is_good


def _wait_for_a_run(process: subprocess.Popen[bytes], partial: Path) -> None:
    before = set(partial.glob("*/plan.json"))
    while not set(partial.glob("*/plan.json")) - before and process.poll() is None:
        time.sleep(0.01)


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="mprun-bench-") as folder:
        if sys.argv[1:] == ["kill"]:
            return 0 if kill(Path(folder)) else 1
        return 0 if bench(int(sys.argv[1]) if sys.argv[1:] else 200, Path(folder)) else 1


if __name__ == "__main__":
    sys.exit(main())
