# SPDX-License-Identifier: Apache-2.0
"""Compare the CPU time of mprun with that of ns-3 on the same networks, in one run: `make simulator`.

    python benchmarks/simulator.py [--wheel] [--repeats 3] [--network N ...] [--mprun COMMAND] [--json FILE]

A bulk transfer with TCP Cubic crosses a chain of links with the same rates, delays and drop-tail queues. ns-3 models
TCP; mprun runs Linux. Both programs run in turn, and each figure is a median. The CPU time is that of all processes,
user and system, from the start of the command to its end. For mprun it includes compiling, boot, analysis and report
tables, but no captures. The goodput of the two must agree within 1 %.

A packet hop is one packet on one link. Packet hops per CPU second compare networks of different sizes.

The program installs ns-3 (libns3-dev, libgsl-dev) with apt-get if it is missing and the user is root. Distributions
build ns-3 with optimisation and with its run-time checks. With --wheel, ns-3 is the wheel of the Python package ns3.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

import polars
from bench import MPRUN
from build import line_edges

HERE = Path(__file__).parent
PACKAGES = ("libns3-dev", "libgsl-dev")
LIBRARIES = ("core", "network", "internet", "point-to-point", "applications", "traffic-control")
# Both let the window grow to any size that these networks need.
BUFFER = 64_000_000
AGREEMENT = 0.01
EXPERIMENT = """\
version: 1
probe: {{pings: 0}}
hosts:
  client: {{sysctl: {{net.ipv4.tcp_wmem: 4096 65536 {buffer}}}}}
  server: {{sysctl: {{net.ipv4.tcp_rmem: 4096 131072 {buffer}}}}}
traffic: [{{name: bulk, tool: iperf3, from: client, to: server, protocol: tcp, duration: {seconds}s}}]
"""


@dataclass(frozen=True)
class Network:
    """A chain. rate: Mbit/s; delay: ms of one link; target: the aim for mprun's CPU time divided by that of ns-3."""

    rate: int
    links: int
    delay: int
    seconds: int
    target: float

    @property
    def queue(self) -> int:
        """Packets: one bandwidth-delay product of the whole path, at least 100."""
        return max(100, round(self.rate * 1e6 * 2 * self.links * self.delay / 1e3 / 8 / 1500))

    def __str__(self) -> str:
        return f"{self.rate} Mbit/s, {self.links} links of {self.delay} ms, {self.seconds} s"


NETWORKS = (
    Network(20, 2, 10, 10, 1.25),
    Network(100, 2, 10, 10, 0.45),
    Network(100, 8, 5, 10, 0.27),
    Network(1000, 2, 5, 5, 0.1),
)


@dataclass(frozen=True)
class Outcome:
    """goodput: Mbit/s; cpu: s of CPU time; hops: packets on links."""

    goodput: float
    cpu: float
    hops: int


def call(argv: Sequence[object], folder: Path) -> tuple[str, float]:
    """Return what a command prints, and its CPU time in s. Ends the program if the command fails."""
    before = getrusage(RUSAGE_CHILDREN)
    done = subprocess.run([str(word) for word in argv], cwd=folder, capture_output=True, text=True)
    after = getrusage(RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{argv[0]}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def build_simulator(folder: Path) -> Path:
    """Compile the chain for ns-3. Returns the program's path."""
    if not Path("/usr/include/ns3").exists():
        if os.geteuid():
            sys.exit(f"ns-3 is missing: apt-get install {' '.join(PACKAGES)}")
        call(["apt-get", "install", "-y", "--no-install-recommends", *PACKAGES], folder)
    return compile_chain(folder, "c++17", [f"-lns3-{name}" for name in LIBRARIES])


def build_from_wheel(folder: Path) -> Path:
    """Compile the chain for the newest ns-3 of the Python package. Returns the program's path."""
    call([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "ns3"], folder)
    (wheel,) = folder.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(folder / "wheel")
    place = folder / "wheel" / "ns3"
    libraries = itertools.chain.from_iterable((place / "lib64").glob(f"libns3*-{name}.so") for name in LIBRARIES)
    found = [f"-Wl,-rpath,{place}/lib64", f"-Wl,-rpath-link,{place}/lib64", f"-I{place}/include"]
    print(f"(ns-3 of {wheel.name})")
    return compile_chain(folder, "c++20", [*found, *map(str, libraries)])


def compile_chain(folder: Path, standard: str, flags: Sequence[str]) -> Path:
    program = folder / "chain"
    call(["g++", f"-std={standard}", "-O2", "-o", program, HERE / "ns3" / "chain.cc", *flags], folder)
    return program


def simulate(program: Path, network: Network, folder: Path, hops: int) -> Outcome:
    """Run ns-3. If `hops` is 0, it is counted in a second run that is not timed."""
    argv = [program, network.rate * 10**6, network.links, network.delay, network.seconds, network.queue, BUFFER]
    text, cpu = call(argv, folder)
    hops = hops or int(call([*argv, "count"], folder)[0].split()[1])
    return Outcome(float(text.split()[0]) / 1e6, cpu, hops)


def emulate(command: str, network: Network, folder: Path) -> Outcome:
    text, cpu = call([command, "-t", "topo", "-x", "flow", "--engine", "virtual", "--json"], folder)
    answer = json.loads(text)
    run = folder / answer["directory"]
    counters = polars.read_parquet(run / "tables" / "counters.parquet")
    segments = counters.filter(polars.col("name") == "TcpOutSegs")["value"].sum()
    return Outcome(answer["metrics"]["bulk.goodput"]["value"] / 1e6, cpu, int(segments) * network.links)


def write_files(network: Network, folder: Path) -> None:
    edges = line_edges(network.links)
    names = dict.fromkeys(name for edge in edges for name in edge)
    nodes = [f"  {name}: {{kind: {'router' if name.startswith('r') else 'host'}}}" for name in names]
    wire = f"rate: {network.rate}mbit, delay: {network.delay}ms, queue: {network.queue}packets"
    links = [f"  - {{between: [{a}, {b}], {wire}}}" for a, b in edges]
    (folder / "topo.yaml").write_text("\n".join(["version: 1", "nodes:", *nodes, "links:", *links, ""]))
    (folder / "flow.yaml").write_text(EXPERIMENT.format(seconds=network.seconds, buffer=BUFFER))


def median(outcomes: Sequence[Outcome]) -> Outcome:
    return sorted(outcomes, key=lambda outcome: outcome.cpu)[len(outcomes) // 2]


def compare(program: Path, command: str, network: Network, repeats: int, folder: Path) -> dict[str, object]:
    """Run both programs in turn and print a row. Returns the figures."""
    write_files(network, folder)
    theirs: list[Outcome] = []
    ours: list[Outcome] = []
    for _ in range(repeats):
        theirs.append(simulate(program, network, folder, theirs[0].hops if theirs else 0))
        ours.append(emulate(command, network, folder))
    model, real = median(theirs), median(ours)
    ratio = statistics.median(b.cpu / a.cpu for a, b in zip(theirs, ours, strict=True))
    deviation = real.goodput / model.goodput - 1
    print(
        f"{network!s:36} {model.goodput:7.1f} {real.goodput:7.1f} {deviation:+6.1%}  {model.cpu:6.2f} {real.cpu:6.2f} "
        f"{ratio:6.2f} {network.target:6.2f}  {model.hops / model.cpu / 1e3:7.0f} {real.hops / real.cpu / 1e3:7.0f}",
        flush=True,
    )
    return {"network": str(network), "ratio": ratio, "target": network.target, "deviation": deviation} | {
        f"{name}_{key}": value for name, one in (("ns3", model), ("mprun", real)) for key, value in vars(one).items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=3, help="run both programs N times for each network")
    parser.add_argument("--network", type=int, nargs="+", default=range(1, len(NETWORKS) + 1), help="only these rows")
    parser.add_argument("--wheel", action="store_true", help="take ns-3 from the Python package ns3")
    parser.add_argument("--mprun", default=MPRUN, help="measure this command, such as that of another commit")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    print(f"{'':36} {'goodput, Mbit/s':^22}  {'CPU time, s':^13} {'ratio':^13}  {'1000 hops a CPU s':^15}")
    print(
        f"{'network':36} {'ns-3':>7} {'mprun':>7} {'':6}  {'ns-3':>6} {'mprun':>6} {'':6} {'target':>6}  "
        f"{'ns-3':>7} {'mprun':>7}"
    )
    with tempfile.TemporaryDirectory(prefix="mprun-simulator-") as name:
        folder = Path(name)
        program = build_from_wheel(folder) if options.wheel else build_simulator(folder)
        rows = [
            compare(program, options.mprun, NETWORKS[number - 1], options.repeats, folder) for number in options.network
        ]
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    if apart := [row["network"] for row in rows if abs(float(str(row["deviation"]))) > AGREEMENT]:
        sys.exit(f"goodput differs by more than {AGREEMENT:.0%}: {'; '.join(map(str, apart))}")


if __name__ == "__main__":
    main()
