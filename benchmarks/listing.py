# SPDX-License-Identifier: Apache-2.0
"""Measure `mprun runs list` of 10,000 runs. The target of the second listing is 2 s.

The runs are one run, copied 10,000 times with other figures. The first listing reads all runs and makes the index. The
second listing finds nothing new. The third listing finds one new run, and has a condition, columns and an order.
"""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
LAB = ROOT / "labs" / "01_multipath"
COUNT = 10_000
MOST_S = 2.0
SCHEDULERS = ("default", "roundrobin", "redundant", "blest")
QUESTION = ("--where", "scheduler=roundrobin", "--where", "bulk.goodput > 40mbit")
SHOWN = ("--columns", "scheduler,rate,bulk.goodput", "--sort", "bulk.goodput")


def mprun(*words: str | Path, cache: Path) -> tuple[str, float]:
    """Return the output of mprun and its time, s."""
    started = time.perf_counter()
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    argv = [sys.executable, "-m", "mprun", *map(str, words)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True, env=environment)
    return done.stdout, time.perf_counter() - started


def lay_out(original: Path, parent: Path) -> None:
    """Write the copies: the files of a run that a list reads, and an empty file for each other file."""
    summary, environment = (json.loads((original / name).read_text()) for name in ("summary.json", "environment.json"))
    parent.mkdir()
    for number in range(COUNT):
        write(original, parent, number, copy.deepcopy(summary), copy.deepcopy(environment))


def write(original: Path, parent: Path, number: int, summary: dict, environment: dict) -> None:  # type: ignore[type-arg]
    """Write a copy with its own name, parameters and figures."""
    minute, second = divmod(number, 60)
    hour, minute = divmod(minute, 60)
    target = parent / f"20260101-{hour:02}{minute:02}{second:02}-topo-xp_mptcp-{number:08x}"
    shutil.copytree(original / "inputs", target / "inputs")
    for metric in summary["metrics"].values():
        metric["value"] *= 1 + number / COUNT
    summary["seed"] = number
    environment["parameters"] = {"scheduler": SCHEDULERS[number % len(SCHEDULERS)], "rate": f"{1 + number % 50}mbit"}
    (target / "summary.json").write_text(json.dumps(summary))
    (target / "environment.json").write_text(json.dumps(environment))
    for name in ("plan.json", "agent.json", "steps.jsonl", "wall.json", "record.gz"):
        (target / name).touch()


def main() -> None:
    # the kernel of the one run is in the user's cache
    own = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    with tempfile.TemporaryDirectory(prefix="mprun-bench-") as scratch:
        folder = Path(scratch)
        made, _ = mprun("-t", LAB / "topo", "-x", LAB / "xp_mptcp", "-o", folder / "one", "--json", cache=own)
        original = ROOT / json.loads(made)["directory"]
        lay_out(original, folder / "many")
        words = ("runs", "list", "-o", folder / "many")
        first, first_s = mprun(*words, cache=folder)
        second, second_s = mprun(*words, cache=folder)
        shutil.copytree(original, folder / "many" / "20260102-000000-topo-xp_mptcp-00000000")
        third, third_s = mprun(*words, *QUESTION, *SHOWN, cache=folder)
        page_s = mprun(*words, "--html", folder / "runs.html", cache=folder)[1]
        index = sum(path.stat().st_size for path in folder.glob("mprun/index/*/runs.sqlite"))
        size = (folder / "runs.html").stat().st_size
    assert first == second
    assert len(first.splitlines()) == COUNT
    chosen = len(third.splitlines()) - 1
    times = f"first {first_s:.2f} s, second {second_s:.2f} s (target {MOST_S:.0f} s), index {index / 1e6:.1f} MB"
    print(f"list of {COUNT} runs: {times}")
    print(f"after one more run, with conditions, columns and an order: {third_s:.2f} s, {chosen} runs")
    print(f"the list as a page: {page_s:.2f} s, {size / 1e6:.1f} MB")
    sys.exit(0 if second_s <= MOST_S else 1)


if __name__ == "__main__":
    main()
