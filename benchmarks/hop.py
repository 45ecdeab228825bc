# SPDX-License-Identifier: Apache-2.0
"""Measure the CPU time that a hop costs per packet, in both engines.

    python benchmarks/hop.py

A chain of n links carries many packets, and the CPU time per packet is compared over n. The slope is the cost of a hop.
The cost of the programs at the ends is left out. A direct hop is a veth pair and a router that forwards. A shaped hop
also has a wire: two veth pairs, a redirection, a rate stage and its queue.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

from bench import MPRUN
from build import line_edges

LENGTHS = (2, 8, 16, 32)
REPEATS = 3
SECONDS = 2
# In real time: more than any machine can send, so that the sender is never idle. The kernel carries packets through all
# hops in the sender's time. In simulated time: as much as the first link allows.
FLOWS = {"real": "protocol: udp, rate: 20gbit", "virtual": "protocol: tcp"}
BOTTLENECK = {"real": "", "virtual": ", rate: 1gbit, queue: 1000packets"}
RATES = {"direct": "", "shaped": ", rate: 10gbit, queue: 1000packets"}
EXPERIMENT = """\
version: 1
probe: {{pings: 0}}
traffic: [{{name: bulk, tool: iperf3, from: client, to: server, {flow}, duration: {seconds}s}}]
"""


def written(count: int, first: str, others: str) -> str:
    """Return a chain of `count` links, with the values of the first link and of the others."""
    edges = line_edges(count)
    names = dict.fromkeys(name for edge in edges for name in edge)
    nodes = [f"  {name}: {{kind: {'router' if name.startswith('r') else 'host'}}}" for name in names]
    links = [f"  - {{between: [{a}, {b}]{others if n else first}}}" for n, (a, b) in enumerate(edges)]
    return "\n".join(["version: 1", "nodes:", *nodes, "links:", *links, ""])


def packet_cost(folder: Path, engine: str) -> float:
    """Return the CPU time in us per packet through the chain, in either direction.

    In real time it is the time of the sender. In simulated time it is the time of the kernel's process, with everything
    in it.
    """
    argv = [MPRUN, "-t", "topo", "-x", "flow", "--engine", engine, "--json"]
    before = getrusage(RUSAGE_CHILDREN)
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True)
    after = getrusage(RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{engine}: status {done.returncode}\n{done.stdout}{done.stderr}")
    run = folder / json.loads(done.stdout)["directory"]
    counts = json.loads((run / "agent.json").read_text())["counters"]["client"]
    if engine == "virtual":
        cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return float(cpu_s / (counts["TcpOutSegs"] + counts["TcpInSegs"]) * 1e6)
    report = json.loads((run / "logs" / "bulk.out").read_text())["end"]
    cpu_s = report["cpu_utilization_percent"]["host_total"] / 100 * SECONDS
    return float(cpu_s / counts["UdpOutDatagrams"] * 1e6)


def measure(engine: str, kind: str) -> dict[int, float]:
    """Return the CPU time in us per packet for each length of the chain. The least of some runs counts.

    Other work on the machine can only add to the time.
    """
    found = {}
    for count in LENGTHS:
        with tempfile.TemporaryDirectory(prefix="mprun-hop-") as name:
            folder = Path(name)
            (folder / "topo.yaml").write_text(written(count, BOTTLENECK[engine] or RATES[kind], RATES[kind]))
            (folder / "flow.yaml").write_text(EXPERIMENT.format(flow=FLOWS[engine], seconds=SECONDS))
            found[count] = min(packet_cost(folder, engine) for _ in range(REPEATS))
    return found


def main() -> None:
    lengths = "".join(f"{count:>8}" for count in LENGTHS)
    print(f"{'us of CPU a packet, of so many links:':44}{lengths}   a hop")
    for engine in FLOWS:
        for kind in RATES:
            found = measure(engine, kind)
            slope, _ = statistics.linear_regression(list(found), list(found.values()))
            values = "".join(f"{value:8.2f}" for value in found.values())
            print(f"{engine + ', ' + kind:44}{values}   {slope:.2f} us", flush=True)


if __name__ == "__main__":
    main()
