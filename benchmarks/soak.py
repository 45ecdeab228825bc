# SPDX-License-Identifier: Apache-2.0
"""Hours of simulated time under random failures of links and addresses, with every scheduler and congestion control.

    make soak               6 h of simulated time for each
    soak.py --hours 0.5     less

One MPTCP connection sends requests all the time while its three paths, one a backup, come and go: links are cut,
addresses are taken away and given back, so that subflows die and join. At no moment is there no path at all. A run
has failed if the kernel warned, if its slabs grew, or if a request took longer than a path is ever away.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars

MPRUN = str(Path(sys.executable).with_name("mprun"))
SCHEDULERS = ("default", "lowest-rtt", "roundrobin", "redundant", "balanced", "blest")
CONTROLS = ("cubic", "reno", "lia", "olia", "balia", "wvegas")
PATHS = 3
# How long a path is away at most; a request waits for that, and for the time-outs that find out.
LONGEST_AWAY_S = 20
MOST_DELAY_S = 60
# Slabs grow with caches that are filled once; a leak of one object for each subflow or request would be more.
MOST_GROWTH_KB = 4_000
THINK_S = 0.25

TOPOLOGY = """\
version: 1
topology: multi-path
paths:
  - {rate: 20mbit, delay: 10ms, loss: 0.1%}
  - {rate: 10mbit, delay: 30ms}
  - {rate: 5mbit, delay: 50ms, loss: 0.5%, backup: true}
events:
"""
EXPERIMENT = """\
version: 1
hosts:
  client: &end
    mptcp: {path_manager: fullmesh, scheduler: %s}
    sysctl: {net.ipv4.tcp_congestion_control: %s}
  server: *end
traffic:
  - {name: req, tool: reqres, from: client, to: server, protocol: mptcp, requests: %d, request: 3000bytes,
     response: 20000bytes, think: 250ms, timeout: %ds}
"""


def events(seconds: int, seed: int) -> str:
    """Every minute or so a path other than the first or, half the time, two are away for a while; then the first."""
    dice = random.Random(seed)
    lines = []
    at = 5.0
    while at + LONGEST_AWAY_S + 5 < seconds:
        away = dice.sample(range(PATHS), dice.choice((1, 1, 2)))
        length = dice.uniform(1, LONGEST_AWAY_S)
        for path in away:
            if path and dice.random() < 0.5:
                what = (
                    f"host: client, address: path{path}, state: removed",
                    f"host: client, address: path{path}, state: added",
                )
            else:
                what = (f"link: path{path}, state: down", f"link: path{path}, state: up")
            lines.append((at, what[0]))
            lines.append((at + length, what[1]))
        at += length + dice.uniform(2, 40)
    return "".join(f"  - {{at: {moment:.3f}s, {what}}}\n" for moment, what in sorted(lines))


def run(scheduler: str, control: str, seconds: int, folder: Path) -> tuple[str, list[str]]:
    """What is wrong with a run; nothing if all is well."""
    name = f"{scheduler}-{control}"
    seed = 1 + SCHEDULERS.index(scheduler) * len(CONTROLS) + CONTROLS.index(control)
    (folder / f"{name}-topo.yaml").write_text(TOPOLOGY + events(seconds, seed))
    requests = int((seconds - 60) / (THINK_S + 0.1))
    (folder / f"{name}-xp.yaml").write_text(EXPERIMENT % (scheduler, control, requests, 3 * seconds))
    argv = [MPRUN, "-t", f"{name}-topo", "-x", f"{name}-xp", "--engine", "virtual", "--json", "--seed", str(seed)]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
    try:
        summary = json.loads(done.stdout)
    except ValueError:
        return name, [done.stderr[-500:]]
    faults = summary["errors"] + [text for text in summary["warnings"] if "kernel" in text]
    if summary["errors"]:
        return name, faults
    longest = summary["metrics"]["req.delay.max"]["value"]
    if longest > MOST_DELAY_S:
        faults.append(f"a request took {longest:.1f} s")
    run = folder / summary["directory"]
    slab = json.loads((run / "agent.json").read_text())["slab_kb"]
    happened = polars.read_parquet(run / "tables" / "events.parquet")
    joined = len(happened.filter(event="subflow established", host="client"))
    if slab["after"] - slab["before"] > MOST_GROWTH_KB:
        faults.append(f"slabs grew from {slab['before']} to {slab['after']} kB")
    verdict = "failed" if faults else "passed"
    told = f"{requests} requests, {joined} joins, longest delay {longest:.2f} s"
    print(f"{name:<24} {verdict:<7} {told}, slabs {slab['before']} -> {slab['after']} kB", *faults, flush=True)
    return name, faults


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=float, default=6)
    seconds = round(parser.parse_args().hours * 3600)
    pairs = [(scheduler, "cubic") for scheduler in SCHEDULERS] + [("lowest-rtt", control) for control in CONTROLS[1:]]
    with (
        tempfile.TemporaryDirectory(prefix="mprun-soak-") as place,
        ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool,
    ):
        results = list(pool.map(lambda pair: run(*pair, seconds, Path(place)), pairs))
    failed = [(name, faults) for name, faults in results if faults]
    for name, faults in failed:
        print(f"{name}: {'; '.join(faults)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
