# SPDX-License-Identifier: Apache-2.0
"""Measure the cost of samples every 100 ms in a virtual run of 16 hosts, and their effect on the results.

    python benchmarks/sampling.py

The network is a fat tree of 16 hosts and 20 routers. All links have rates and lose one packet in ten thousand. Every
host sends to a host of another pod. Runs with samples of interfaces, queues and sockets alternate with runs without
samples. The least CPU time of all processes of a run counts, which is the wall time on an idle machine.

Samples have an effect if they change goodputs by more than another seed does. The exit status is 1 if the target is
missed.
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
core: {rate: 20mbit, delay: 1ms, queue: 50packets, loss: 0.01%}
"""
SAMPLE = "sample: {interfaces: 100ms, queues: 100ms, sockets: 100ms}\n"
HOSTS = 16
SECONDS = 10
REPEATS = 3
# The first seed is that of the runs that are compared.
SEEDS = (1, 2, 3, 4)
TARGET = 0.05


@dataclass(frozen=True)
class Cost:
    """The cost of a run: wall time and CPU time in s, and goodput by flow."""

    wall_s: float
    cpu_s: float
    goodput: dict[str, float]


def written(rate: str, sample: str) -> str:
    """Return the experiment in which every host sends to the host half the tree away.

    rate: the rate of each flow; empty for no limit.
    """
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
    """Return the mean difference of a flow's goodput."""
    return statistics.mean(abs(one.goodput[flow] - other.goodput[flow]) for flow in one.goodput)


def compare(folder: Path, title: str, rate: str) -> list[Cost]:
    """Print what samples add to the time of a run. Return a run without and a run with samples."""
    costs: dict[str, list[Cost]] = {"plain": [], "sampled": []}
    (folder / "plain.yaml").write_text(written(rate, ""))
    (folder / "sampled.yaml").write_text(written(rate, SAMPLE))
    for _ in range(REPEATS):
        for name, found in costs.items():
            found.append(run(folder, name, SEEDS[0]))
    best = [min(found, key=lambda cost: cost.cpu_s) for found in costs.values()]
    added = best[1].cpu_s / best[0].cpu_s - 1
    print(
        f"{title}: {best[0].cpu_s:.2f} s of CPU time, with samples {best[1].cpu_s:.2f} s (wall {best[0].wall_s:.2f} "
        f"and {best[1].wall_s:.2f} s): {added:+.1%}   target {TARGET:+.0%}{'' if added <= TARGET else '   MISSED'}",
        flush=True,
    )
    return best


def is_still(folder: Path, plain: Cost, sampled: Cost) -> bool:
    """Print how samples and other seeds change goodputs. Return True if samples change them by no more than seeds."""
    others = [run(folder, "plain", seed) for seed in SEEDS[1:]]
    moved, usual = distance(plain, sampled), [distance(plain, other) for other in others]
    sums = [sum(cost.goodput.values()) / 1e6 for cost in (plain, sampled, *others)]
    met = moved <= max(usual) and min(sums[:1] + sums[2:]) <= sums[1] <= max(sums[:1] + sums[2:])
    print(
        f"    goodput of a flow moves by {moved / 1e6:.4f} Mbit/s with samples, by {min(usual) / 1e6:.4f} to "
        f"{max(usual) / 1e6:.4f} with another seed; all together {sums[0]:.3f}, {sums[1]:.3f} with samples, "
        f"{min(sums[2:]):.3f} to {max(sums[2:]):.3f} with another seed{'' if met else '   MISSED'}",
        flush=True,
    )
    return met


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "topo.yaml").write_text(TOPOLOGY)
        plain, sampled = compare(folder, f"{HOSTS} flows of up to 20 Mbit/s for {SECONDS} s", "")
        met = is_still(folder, plain, sampled)
        light = compare(folder, f"{HOSTS} flows of 1 Mbit/s for {SECONDS} s", ", rate: 1mbit")
    costs = ((plain, sampled), light)
    return 0 if met and all(more.cpu_s <= (1 + TARGET) * less.cpu_s for less, more in costs) else 1


if __name__ == "__main__":
    sys.exit(main())
