# SPDX-License-Identifier: Apache-2.0
"""What samples every 100 ms cost a virtual run of 16 hosts, and whether they move what is measured.

    python benchmarks/sampling.py

A fat tree of 16 hosts and 20 routers, whose links all have rates; every host sends to one of another pod. Runs with
and without samples of interfaces, queues and sockets take turns, as do their seeds. CPU time of all processes is
compared, which on an idle machine is the wall time of such a run. A goodput has moved if it lies outside of what
other seeds give. Exit status 1 if the target is missed.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from bench import MPRUN

TOPOLOGY = """\
version: 1
topology: fat-tree
k: 4
access: {rate: 20mbit, delay: 1ms, queue: 50packets}
aggregation: {rate: 20mbit, delay: 1ms, queue: 50packets}
core: {rate: 20mbit, delay: 1ms, queue: 50packets}
"""
SAMPLE = "sample: {interfaces: 100ms, queues: 100ms, sockets: 100ms}\n"
HOSTS = 16
SECONDS = 10
SEEDS = range(1, 4)
TARGET = 0.05


@dataclass(frozen=True)
class Cost:
    """Of one run: seconds of the clock and of CPUs, and goodput by flow."""

    wall_s: float
    cpu_s: float
    goodput: dict[str, float]


def written(rate: str, sample: str) -> str:
    """Every host sends to the one half the tree away. rate: of each flow, or empty for as fast as it goes."""
    flows = [
        f"  - {{name: f{n}, tool: iperf3, from: h{n}, to: h{(n + HOSTS // 2) % HOSTS}, duration: {SECONDS}s{rate}}}"
        for n in range(HOSTS)
    ]
    return "\n".join(["version: 1", "probe: {pings: 0}", "traffic:", *flows, sample])


def run(folder: Path, experiment: str, seed: int) -> Cost:
    argv = [MPRUN, "-t", "topo", "-x", experiment, "--engine", "virtual", "--json", "--seed", str(seed)]
    began = time.monotonic()
    process = subprocess.Popen(argv, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    said = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    wall_s = time.monotonic() - began
    if status:
        sys.exit(f"{experiment}, seed {seed}: status {status}\n{said}")
    metrics = json.loads(said)["metrics"]
    return Cost(
        wall_s, used.ru_utime + used.ru_stime, {f"f{n}": metrics[f"f{n}.goodput"]["value"] for n in range(HOSTS)}
    )


def distance(one: Cost, other: Cost) -> float:
    """By how much the goodput of a flow differs, in the mean."""
    return statistics.mean(abs(one.goodput[flow] - other.goodput[flow]) for flow in one.goodput)


def compare(folder: Path, title: str, rate: str) -> bool:
    """Print what samples add; whether that meets the target and moves nothing."""
    costs: dict[str, list[Cost]] = {"plain": [], "sampled": []}
    (folder / "plain.yaml").write_text(written(rate, ""))
    (folder / "sampled.yaml").write_text(written(rate, SAMPLE))
    for seed in SEEDS:
        for name, found in costs.items():
            found.append(run(folder, name, seed))
            print(f"    {name}, seed {seed}: {found[-1].cpu_s:.2f} s", file=sys.stderr, flush=True)
    plain, sampled = costs["plain"], costs["sampled"]
    added = statistics.median(s.cpu_s / p.cpu_s - 1 for p, s in zip(plain, sampled, strict=True))
    walls = [statistics.median(cost.wall_s for cost in found) for found in (plain, sampled)]
    print(
        f"{title}: {statistics.median(c.cpu_s for c in plain):.2f} s of CPU time, with samples {added:+.1%} (wall "
        f"{walls[0]:.2f} and {walls[1]:.2f} s)   target {TARGET:+.0%}{'' if added <= TARGET else '   MISSED'}"
    )
    means = [[statistics.mean(cost.goodput.values()) / 1e6 for cost in found] for found in (plain, sampled)]
    spread = statistics.stdev(means[0])
    moved = statistics.mean(means[1]) - statistics.mean(means[0])
    flows = [distance(one, other) for one, other in zip(plain, sampled, strict=True)]
    others = [distance(one, other) for n, one in enumerate(plain) for other in plain[:n]]
    still = statistics.mean(flows) <= max(others)
    print(
        f"    mean goodput {statistics.mean(means[0]):.3f} Mbit/s, with samples {moved:+.4f}, seeds have a standard "
        f"deviation of {spread:.4f}"
    )
    print(
        f"    a flow's goodput differs by {statistics.mean(flows) / 1e6:.4f} Mbit/s with samples, by "
        f"{statistics.mean(others) / 1e6:.4f} (at most {max(others) / 1e6:.4f}) with another seed"
        f"{'' if still else '   MOVED'}",
        flush=True,
    )
    return added <= TARGET and still


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "topo.yaml").write_text(TOPOLOGY)
        met = compare(folder, f"{HOSTS} flows of up to 20 Mbit/s for {SECONDS} s", "")
        compare(folder, f"{HOSTS} flows of 1 Mbit/s for {SECONDS} s", ", rate: 1mbit")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
