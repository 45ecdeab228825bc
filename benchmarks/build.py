# SPDX-License-Identifier: Apache-2.0
"""Measure CPU time and wall time of building networks, in both engines and by Mininet's own classes.

    make bench          three builds of each, of which the least counts
    build.py --quick    one of each

mprun's networks have addresses, routes, and a rate on every link, which are all read back. Mininet's networks have
neither routes nor tc. Times are from the first namespace to the last interface that works. The engine's start, and
mprun's work before and after, have columns of their own.

CPU time is that of all processes, as a cgroup of their own counts it (cgroups(7)), so this program needs root. CPU time
hardly depends on other work on the machine; wall time does.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[1]
MPRUN = str(Path(sys.executable).with_name("mprun"))
PING = """\
version: 1
traffic:
  - {tool: ping, from: client, to: server, start: 0s, count: 2}
probe: {pings: 0}
"""
MOST_S_PER_LINK, LEAST_RATIO, MOST_S_OF_A_THOUSAND = 0.003, 8, 5.0
ENGINES = ("real", "virtual")
Edges = list[tuple[str, str]]


@dataclass(frozen=True)
class Spent:
    """Seconds: CPU time of all processes, and wall time."""

    cpu_s: float
    wall_s: float

    def __sub__(self, other: Spent) -> Spent:
        return Spent(self.cpu_s - other.cpu_s, self.wall_s - other.wall_s)


class Account:
    """A cgroup that counts the CPU time of the processes that join it, and of their children."""

    def __init__(self) -> None:
        old = Path("/sys/fs/cgroup/cpuacct")
        self.folder = (old if old.is_dir() else Path("/sys/fs/cgroup")) / f"mprun-bench-{os.getpid()}"
        self.folder.mkdir()

    def join(self) -> None:
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))

    def read(self) -> Spent:
        """Read the counts. Version 1 of cgroups counts in ns, version 2 in us."""
        usage = self.folder / "cpuacct.usage"
        if usage.exists():
            return Spent(int(usage.read_text()) / 1e9, time.monotonic())
        words = (self.folder / "cpu.stat").read_text().split()
        return Spent(int(words[words.index("usage_usec") + 1]) / 1e6, time.monotonic())

    def close(self) -> None:
        """Remove the cgroup when the last of its processes has ended."""
        for _ in range(100):
            try:
                return self.folder.rmdir()
            except OSError:
                time.sleep(0.1)


@contextmanager
def account() -> Iterator[Account]:
    opened = Account()
    try:
        yield opened
    finally:
        opened.close()


def line_edges(count: int) -> Edges:
    """Return a chain of links.

    The server is in the middle of a long chain, because packets live for 255 hops at most.
    """
    names = ["client", *(f"r{n}" for n in range(count - 1))]
    return [*pairwise(names), (names[min(count, 100) - 1], "server")]


def star_edges(count: int) -> Edges:
    return [("r0", "client"), ("r0", "server"), *(("r0", f"h{n}") for n in range(count - 2))]


def torus_edges(count: int) -> Edges:
    """Return a torus of about `count` links, as square as possible, with hosts at two of its corners."""
    width = max(2, round((count / 2) ** 0.5))
    height = max(2, round(count / 2 / width))
    edges = {
        tuple(sorted(((x, y), other)))
        for x in range(width)
        for y in range(height)
        for other in (((x + 1) % width, y), (x, (y + 1) % height))
    }
    links = [(f"r{a[0]}x{a[1]}", f"r{b[0]}x{b[1]}") for a, b in sorted(edges) if a != b]
    return [("client", "r0x0"), *links, (f"r{width // 2}x{height // 2}", "server")]


SHAPES: dict[str, Callable[[int], Edges]] = {"line": line_edges, "star": star_edges, "torus": torus_edges}


def written(edges: Edges) -> str:
    """Return the topology file with a rate on every link, so that tc has work too."""
    names = list(dict.fromkeys(name for edge in edges for name in edge))
    nodes = [f"  {name}: {{kind: {'router' if name.startswith('r') else 'host'}}}" for name in names]
    links = [f"  - {{between: [{a}, {b}], rate: 100mbit}}" for a, b in edges]
    return "\n".join(["version: 1", "nodes:", *nodes, "links:", *links, ""])


def build_ours(folder: Path, engine: str, counted: Account) -> dict[str, Spent]:
    """Run `topo` in `folder`. Return the times of its parts.

    - before: until the engine starts.
    - start: the engine's start.
    - build: the network.
    - after: the rest, including pings.
    """
    runs = Path(tempfile.mkdtemp(prefix=f"{engine}-", dir=folder))
    argv = [MPRUN, "-t", "topo", "-x", "ping", "--engine", engine, "-o", str(runs)]
    marks = {"before": counted.read()}
    run = subprocess.Popen(
        argv,
        cwd=folder,
        preexec_fn=counted.join,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(folder)},
    )
    while run.poll() is None:
        if "start" not in marks and next(runs.glob("*/logs/*.log"), None):
            marks["start"] = counted.read()
        text = phase(folder)
        if text == "building the network":
            marks.setdefault("build", counted.read())
        elif text and "build" in marks:
            marks.setdefault("after", counted.read())
        time.sleep(0.002)
    if run.returncode or "after" not in marks:
        assert run.stderr is not None
        sys.exit(f"{' '.join(argv)}: status {run.returncode}\n{run.stderr.read()}")
    moments = [*marks.items(), ("end", counted.read())]
    return {name: after - before for (name, before), (_, after) in pairwise(moments)}


def phase(temporary: Path) -> str:
    """Return the last words of the one run's agent. temporary: the folder of temporary files."""
    try:
        return str(json.loads(next(temporary.glob("mprun-channel-*/reports/progress")).read_text())["text"])
    except (OSError, ValueError, StopIteration):
        return ""


def build_mininet(edges: Edges, counted: Account) -> dict[str, Spent]:
    """Build the same edges with Mininet's own classes. Return the times of `build` and `stop`."""
    argv = ["unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"]
    argv += ["/usr/bin/python3", str(ROOT / "benchmarks" / "mininet_build.py")]
    run = subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        preexec_fn=counted.join,
    )
    assert run.stdin is not None
    assert run.stdout is not None
    run.stdin.write(json.dumps(edges))
    run.stdin.close()
    marks = {}
    for line in run.stdout:
        marks[line.strip()] = counted.read()
    if run.wait() or marks.keys() != {"begin", "built", "stopped"}:
        sys.exit(f"mininet_build.py: status {run.returncode}")
    return {"build": marks["built"] - marks["begin"], "stop": marks["stopped"] - marks["built"]}


def least(found: list[dict[str, Spent]]) -> dict[str, Spent]:
    return {
        name: Spent(min(one[name].cpu_s for one in found), min(one[name].wall_s for one in found)) for name in found[0]
    }


def compare(shape: str, edges: Edges, repeats: int, counted: Account) -> bool:
    """Print a row of the table. Return True if the wall times meet the targets."""
    found: dict[str, list[dict[str, Spent]]] = {"real": [], "virtual": [], "Mininet": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "topo.yaml").write_text(written(edges))
        (folder / "ping.yaml").write_text(PING)
        for _ in range(repeats):
            for engine in ENGINES:
                found[engine].append(build_ours(folder, engine, counted))
            found["Mininet"].append(build_mininet(edges, counted))
    best = {who: least(of) for who, of in found.items()}
    theirs = best["Mininet"]["build"]
    cells = [shape, str(len(edges))]
    met = True
    for who in found:
        cells.append(f"{best[who]['build'].cpu_s:.2f} s ({best[who]['build'].wall_s:.2f})")
    for engine in ENGINES:
        ours = best[engine]["build"]
        cells.append(f"{theirs.cpu_s / ours.cpu_s:.1f} ({theirs.wall_s / ours.wall_s:.1f})")
        met &= ours.wall_s / len(edges) <= MOST_S_PER_LINK
        met &= len(edges) < 250 or theirs.wall_s / ours.wall_s >= LEAST_RATIO
    print(f"| {' | '.join(cells)} |{'' if met else ' MISSED'}", flush=True)
    return met


def build_a_thousand(name: str, edges: Edges, repeats: int, counted: Account) -> bool:
    met = True
    for engine in ENGINES:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            (folder / "topo.yaml").write_text(written(edges))
            (folder / "ping.yaml").write_text(PING)
            parts = least([build_ours(folder, engine, counted) for _ in range(repeats)])
        cells = [f"{part.cpu_s:.2f} s ({part.wall_s:.2f})" for part in parts.values()]
        good = parts["build"].wall_s <= MOST_S_OF_A_THOUSAND
        print(f"| {name}, {engine} | {len(edges)} | {' | '.join(cells)} |{'' if good else ' MISSED'}", flush=True)
        met &= good
    return met


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="one build of each instead of three")
    repeats = 1 if parser.parse_args().quick else 3
    met = True
    with account() as counted:
        print("CPU time, and in brackets wall time, of building a network")
        print("| network | links | real | virtual | Mininet | ratio, real | ratio, virtual |")
        for shape, make in SHAPES.items():
            for count in (10, 50, 100, 300):
                met &= compare(shape, make(count), repeats, counted)
        print("A thousand nodes\n| network | links | before | start | build | after |")
        met &= build_a_thousand("line", line_edges(999), repeats, counted)
        met &= build_a_thousand("torus", torus_edges(2000), repeats, counted)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
