# SPDX-License-Identifier: Apache-2.0
"""Run hours of simulated time under random failures, with every scheduler and congestion control.

    make soak               6 h of simulated time for each, and docs/measured/soak.md
    soak.py --hours 0.5     less, and no page
    soak.py --kernel mine   on another experiment kernel, and no page

Two MPTCP connections last for the whole run, one with small requests and one with large answers. Their three paths, of
which one is a backup, fail and return: links are cut, and addresses are removed and added again. Subflows close and
join. At least one path always works. A run has failed if the kernel warned, if its slabs grew, or if a request took
longer than the longest failure and the time-outs that detect the failure.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import polars

ROOT = Path(__file__).parents[1]
MPRUN = str(Path(sys.executable).with_name("mprun"))
SCHEDULERS = ("default", "lowest-rtt", "roundrobin", "redundant", "balanced", "blest")
CONTROLS = ("cubic", "reno", "lia", "olia", "balia", "wvegas")
FLOWS = ("small", "large")
HOURS = 6
PATHS = 3
# The longest failure of a path. A request waits for it, and for the time-outs that detect the failure.
LONGEST_AWAY_S = 20
MOST_DELAY_S = 60
# Slabs grow while caches fill once. In 6 h, a leak of 120 bytes for each request would exceed this bound. A leak of a
# socket for each joined subflow would exceed it, too.
MOST_GROWTH_KB = 500
# The think times of small requests and of large answers, and the time that each of them takes.
SMALL_EVERY_S = 5 + 0.2
LARGE_EVERY_S = 60 + 1.0

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
  - {name: small, tool: reqres, from: client, to: server, protocol: mptcp, requests: %d, request: 3000bytes,
     response: 20000bytes, think: 5s, timeout: %ds}
  - {name: large, tool: reqres, from: client, to: server, protocol: mptcp, requests: %d, response: 500kb, think: 60s,
     timeout: %ds}
  - {name: before, tool: exec, from: client, to: server, command: &memory [grep, SUnreclaim, /proc/meminfo]}
  - {name: after, tool: exec, from: client, to: server, command: *memory, start: %ds}
"""
PAGE = """\
# Hours under failing paths

`make soak` writes this page. Each row is a run of {hours} h of simulated time with a scheduler and a
congestion control.

Two MPTCP connections last for the whole run. One of them sends a request of 3 kB and gets an answer of 20
kB every 5 s. The other one gets an answer of 500 kB every minute. There are three paths of 20, 10 and 5
Mbit/s, and the last path is a backup. About every half minute, one or two paths fail for up to {longest} s:
the link is cut, or the client's address is removed. Subflows then close and join again. At least one of the
three paths always works.

These results are faults:

- The kernel prints a warning.
- The kernel's slabs, which hold its objects, grow by more than {growth} kB from before the run to after it.
- A request takes longer than a minute.

Some 600 subflows come and go in each run. If their sockets were not freed, each would leave 2 kB or more,
1200 kB in all. The slabs of each row grow by about 150 kB, because caches fill.
[When a path fails](../mptcp.md#when-a-path-fails) explains the longest requests.

"""


def events(seconds: int, seed: int) -> str:
    """Return the failures: one or two random paths at a time, drawn from the seed."""
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


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run. faults: empty if the run passed."""

    scheduler: str
    control: str
    faults: tuple[str, ...]
    requests: int = 0
    joins: int = 0
    removals: int = 0
    longest_s: Mapping[str, float] = field(default_factory=dict)
    slab_kb: tuple[int, int] = (0, 0)
    wall_s: float = 0.0

    def cells(self) -> list[str]:
        """Return the row of the page."""
        delays = (f"{self.longest_s.get(name, 0):.2f} s" for name in FLOWS)
        growth = f"{self.slab_kb[0]} to {self.slab_kb[1]} kB"
        verdict = "; ".join(self.faults) or "none"
        counts = (f"{count}" for count in (self.requests, self.joins, self.removals))
        return [f"`{self.scheduler}`", f"`{self.control}`", *counts, *delays, growth, verdict]


def run(scheduler: str, control: str, seconds: int, kernel: str, folder: Path) -> Outcome:
    """Run a scheduler and a congestion control for some seconds of simulated time."""
    name = f"{scheduler}-{control}"
    seed = 1 + SCHEDULERS.index(scheduler) * len(CONTROLS) + CONTROLS.index(control)
    (folder / f"{name}-topo.yaml").write_text(TOPOLOGY + events(seconds, seed))
    counts = [int((seconds - 60) / every_s) for every_s in (SMALL_EVERY_S, LARGE_EVERY_S)]
    given = (scheduler, control, counts[0], 3 * seconds, counts[1], 3 * seconds, seconds)
    (folder / f"{name}-xp.yaml").write_text(EXPERIMENT % given)
    argv = [
        MPRUN,
        "-t",
        f"{name}-topo",
        "-x",
        f"{name}-xp",
        "--engine",
        "virtual",
        "--kernel",
        kernel,
        "--json",
        "--seed",
        str(seed),
        "--allow-exec",
    ]
    started = time.monotonic()
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
    try:
        summary = json.loads(done.stdout)
    except ValueError:
        return Outcome(scheduler, control, (done.stderr[-500:],))
    faults = summary["errors"] + [text for text in summary["warnings"] if "kernel" in text]
    if summary["errors"]:
        return Outcome(scheduler, control, tuple(faults))
    longest_s = {flow: summary["metrics"][f"{flow}.delay.max"]["value"] for flow in FLOWS}
    faults += [f"a {flow} request took {took:.1f} s" for flow, took in longest_s.items() if took > MOST_DELAY_S]
    directory = folder / summary["directory"]
    before, after = (int((directory / "logs" / f"{name}.out").read_text().split()[1]) for name in ("before", "after"))
    happened = polars.read_parquet(directory / "tables" / "events.parquet").filter(host="client")
    joins, removals = (len(happened.filter(event=f"subflow {what}")) for what in ("established", "closed"))
    if after - before > MOST_GROWTH_KB:
        faults.append(f"slabs grew from {before} to {after} kB")
    wall_s = time.monotonic() - started
    return Outcome(scheduler, control, tuple(faults), sum(counts), joins, removals, longest_s, (before, after), wall_s)


def write(outcomes: Sequence[Outcome], hours: float) -> str:
    """Return the page."""
    head = ["scheduler", "control", "requests", "subflows joined", "closed", "longest small request", "large"]
    head += ["slabs before and after", "faults"]
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    lines += [f"| {' | '.join(outcome.cells())} |" for outcome in outcomes]
    return PAGE.format(hours=hours, longest=LONGEST_AWAY_S, growth=MOST_GROWTH_KB) + "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=float, default=HOURS)
    parser.add_argument("--kernel", default="default", help="the name of an experiment kernel")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="runs at a time")
    arguments = parser.parse_args()
    seconds = round(arguments.hours * 3600)
    pairs = [(scheduler, "cubic") for scheduler in SCHEDULERS] + [("lowest-rtt", control) for control in CONTROLS[1:]]
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="mprun-soak-") as place, ThreadPoolExecutor(arguments.jobs) as pool:
        for outcome in pool.map(lambda pair: run(*pair, seconds, arguments.kernel, Path(place)), pairs):
            outcomes.append(outcome)
            verdict = "failed" if outcome.faults else "passed"
            print(verdict, *outcome.cells(), f"{outcome.wall_s:.0f} s of wall time", sep="  ", flush=True)
    if (arguments.hours, arguments.kernel) == (HOURS, "default"):
        (ROOT / "docs" / "measured" / "soak.md").write_text(write(outcomes, arguments.hours))
    return 1 if any(outcome.faults for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
