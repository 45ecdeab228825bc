# SPDX-License-Identifier: Apache-2.0
"""Measure the reading of captures: a transfer over two paths, captured at both ends and read by `mprun packets`.

    python benchmarks/packets.py

It fails if a million packets take more than a minute, or more memory than half of the packets.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

from bench import LAB, MPRUN

MOST_S = 60
# Seconds for at least a million packets, and for half of them, to compare the memory.
SECONDS = (50, 101)
# The memory may grow by this factor, whatever the length.
MOST_GROWTH = 1.2
EXPERIMENT = """\
version: 1
hosts:
  client: {{mptcp: {{path_manager: fullmesh}}}}
  server: {{mptcp: {{path_manager: fullmesh}}}}
traffic:
  - {{tool: iperf3, from: client, to: server, protocol: mptcp, duration: {seconds}s}}
capture: [{{host: client, snaplen: 100}}, {{host: server, snaplen: 100}}]
"""
# The memory of the process and the largest of tshark's processes. A process of its own measures each reading.
READ = """\
import json, resource, subprocess, sys
out = subprocess.run([sys.executable, "-m", "mprun", "packets", sys.argv[1], "--json"], capture_output=True, check=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps({"packets": json.loads(out.stdout)["packets"], "memory_kb": used.ru_maxrss}))
"""


def read(folder: Path, seconds: int) -> tuple[int, float, float, int]:
    """Return packets, wall time and CPU time in s, and the memory in kB of the largest process."""
    (folder / "xp.yaml").write_text(EXPERIMENT.format(seconds=seconds))
    argv = [MPRUN, "-t", LAB / "topo", "-x", "xp", "--engine", "virtual", "--json"]
    run = json.loads(subprocess.run(argv, cwd=folder, capture_output=True, check=True).stdout)["directory"]
    before, began = getrusage(RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run([sys.executable, "-c", READ, run], cwd=folder, capture_output=True, check=True)
    took, after = time.monotonic() - began, getrusage(RUSAGE_CHILDREN)
    found = json.loads(done.stdout)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return found["packets"], took, cpu_s, found["memory_kb"]


def main() -> None:
    memory = []
    for seconds in SECONDS:
        with tempfile.TemporaryDirectory() as folder:
            packets, took_s, cpu_s, memory_kb = read(Path(folder), seconds)
        memory.append(memory_kb)
        a_million = 1e6 / packets
        print(
            f"packets: {packets} read in {took_s:.1f} s with {memory_kb / 1024:.0f} MB; "
            f"{took_s * a_million:.1f} s a million, {cpu_s * a_million:.1f} s of CPU time",
            flush=True,
        )
    if took_s * a_million > MOST_S:
        sys.exit(f"a million packets took {took_s * a_million:.0f} s, the aim is {MOST_S}")
    if memory[-1] > MOST_GROWTH * memory[0]:
        sys.exit(f"memory grew from {memory[0]} to {memory[-1]} kB with twice the packets")


if __name__ == "__main__":
    main()
