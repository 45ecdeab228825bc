# SPDX-License-Identifier: Apache-2.0
"""Measure the cost of lab 12: 16 hosts of a fat tree, short flows and long ones, in simulated time on one CPU.

    python benchmarks/short_flows.py [--seconds 60] [tcp] [mptcp]

It prints wall and CPU time and the segments that hosts sent. If perf(1) is installed, it also prints the parts of this
time:

- the experiment kernel, which carries packets
- this machine's kernel, which carries out the system calls of the programs inside by ptrace
- the programs inside
- mprun itself before and after

It fails if 60 s take longer than BAR_S. Wall time counts if nothing else uses the CPU. CPU time hardly depends on that.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

import polars
from bench import MPRUN

LAB = Path(__file__).parents[1] / "labs" / "12_datacentre_short_flows"
# The transport of the long flows, and its parameters.
TRANSPORTS: dict[str, dict[str, str]] = {
    "tcp": {},
    "mptcp": {"transport": "mptcp", "control": "lia", "buffer": "819200"},
}
# The simulated time, the most wall time for it, and the aim.
SECONDS, BAR_S, AIM_S = 60, 600, 180
# (command, shared object) of perf, and their meaning. The first match counts.
PARTS = (
    ("linux", "[kernel", "this machine's kernel: system calls of the programs inside"),
    ("linux", "linux", "the experiment kernel: packets, timers, processes"),
    ("linux", "", "the programs inside"),
    ("", "", "mprun: compiling, analysis"),
)


def measure(transport: str, seconds: int, folder: Path) -> float:
    """Run the lab's experiment with one transport and print its cost. Return the wall time in s."""
    given = {"duration": f"{seconds}s", **TRANSPORTS[transport]}
    parameters = [word for name, value in given.items() for word in ("-p", f"{name}={value}")]
    argv = [MPRUN, "-t", LAB / "topo", "-x", LAB / "background", "--engine", "virtual", *parameters]
    record = folder / "perf.data"
    profiler = ["perf", "record", "-q", "-F", "199", "-o", record, "--"] if shutil.which("perf") else []
    before, begin_s = getrusage(RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run([*profiler, *argv, "--json", "-o", folder], capture_output=True, text=True)
    wall_s, after = time.monotonic() - begin_s, getrusage(RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{transport}: status {done.returncode}\n{done.stdout}{done.stderr}")
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    packets = count_packets(Path(json.loads(done.stdout)["directory"]))
    print(
        f"{transport}: {seconds} s in {wall_s:.0f} s, {cpu_s:.0f} s of CPU time; hosts sent {packets / 1e6:.2f} "
        f"million packets, {cpu_s / packets * 1e6:.1f} us each"
    )
    for share, what in sorted(profile(record) if profiler else (), reverse=True):
        print(f"  {share:5.1f} %  {what}")
    return wall_s


def count_packets(run: Path) -> int:
    """Return the segments that hosts sent over TCP, by their own counters."""
    counters = polars.read_parquet(run / "tables" / "counters.parquet")
    return int(counters.filter(polars.col("name") == "TcpOutSegs")["value"].sum())


def profile(record: Path) -> Iterator[tuple[float, str]]:
    """Return the share of each of PARTS in a record of perf, in percent."""
    argv = ["perf", "report", "-i", record, "--stdio", "-q", "--sort", "comm,dso", "-F", "overhead,comm,dso", "-t", ";"]
    lines = subprocess.run(argv, capture_output=True, text=True).stdout.splitlines()
    shares = dict.fromkeys((what for _, _, what in PARTS), 0.0)
    for line in lines:
        if line.count(";") == 2:
            share, command, place = (cell.strip() for cell in line.split(";"))
            shares[find_part(command, place)] += float(share.rstrip("%"))
    return ((share, what) for what, share in shares.items())


def find_part(command: str, place: str) -> str:
    """Return the part that a shared object of a command belongs to."""
    return next(what for name, start, what in PARTS if command == (name or command) and place.startswith(start))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=SECONDS)
    parser.add_argument("transports", nargs="*", default=list(TRANSPORTS), metavar="tcp|mptcp")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="short-flows-") as folder:
        took = [measure(transport, given.seconds, Path(folder)) for transport in given.transports]
    if given.seconds != SECONDS:
        return 0
    verdict = "within the aim" if max(took) <= AIM_S else "within the bar" if max(took) <= BAR_S else "over the bar"
    print(f"{verdict} (bar {BAR_S} s, aim {AIM_S} s)")
    return 0 if max(took) <= BAR_S else 1


if __name__ == "__main__":
    sys.exit(main())
