# SPDX-License-Identifier: Apache-2.0
"""Measure how long users wait, as medians of whole commands: `make bench`.

Each figure has a target. The exit status is 1 if a target is missed, so that a slower version is noticed.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LAB = ROOT / "labs" / "01_multipath"
MPRUN = str(Path(sys.executable).with_name("mprun"))
REPEATS = 5

PING = """\
version: 1
traffic:
  - {tool: ping, from: client, to: server, start: 0s, count: 2}
probe: {pings: 0}
"""


def timed(*arguments: object, cwd: Path, **environment: str) -> float:
    """Return the wall time in s of a call of mprun, which must succeed."""
    argv, env = [MPRUN, *map(str, arguments)], {**os.environ, **environment}
    started = time.monotonic()
    done = subprocess.run(argv, cwd=cwd, env=env, capture_output=True, text=True)
    took = time.monotonic() - started
    if done.returncode:
        sys.exit(f"{' '.join(map(str, arguments))}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return took


def row(name: str, values: list[float], target: float | None = None) -> bool:
    """Print a median with its range and target. Return True if the target is met."""
    median = statistics.median(values)
    met = target is None or median <= target
    text = f"{name:52} {median:7.3f} s   ({min(values):.3f} to {max(values):.3f})"
    print(text + (f"   target {target:g} s{'' if met else '   MISSED'}" if target else ""), flush=True)
    return met


def phases(folder: Path) -> list[dict[str, Any]]:
    """Return when each phase of the newest run began, in real seconds since the start of the engine."""
    value: list[dict[str, Any]] = json.loads((folder / "runs" / "latest" / "wall.json").read_text())
    return value


def began(found: list[dict[str, Any]], *texts: str) -> float:
    return float(next(phase["wall_s"] for phase in found if phase["text"] in texts))


def bench_command_line(folder: Path) -> bool:
    nodes = [f"  h{i}: {{kind: host}}" for i in range(150)] + [f"  r{i}: {{kind: router}}" for i in range(150)]
    links = [f"  - {{between: [h{i}, r{i}], rate: 10mbit, rtt: 10ms}}" for i in range(150)]
    links += [f"  - {{between: [r{i}, r{i + 1}]}}" for i in range(149)]
    text = "\n".join(["version: 1", "nodes:", *nodes, "links:", *links, ""])
    (folder / "large.yaml").write_text(text)
    met = row("mprun --help", [timed("--help", cwd=folder) for _ in range(REPEATS)], 0.15)
    asked = {"_MPRUN_COMPLETE": "bash_complete", "COMP_WORDS": "mprun lab run ", "COMP_CWORD": "3"}
    met = row("completion of a lab's name", [timed(cwd=folder, **asked) for _ in range(REPEATS)], 0.15) and met
    values = [timed("validate", "-t", "large", cwd=folder) for _ in range(REPEATS)]
    return row("mprun validate, 300 nodes", values, 0.3) and met


def bench_first_lab(folder: Path) -> bool:
    met = True
    for experiment, target in (("xp_tcp", None), ("xp_mptcp", 2.0)):
        walls, parts = [], []
        for _ in range(REPEATS):
            walls.append(timed("-t", LAB / "topo", "-x", LAB / experiment, "--engine", "virtual", cwd=folder))
            found = phases(folder)
            network, ready, flow = (
                began(found, text) for text in ("building the network", "starting captures and servers", "bulk")
            )
            last, ended = found[-2]["last_s"], found[-1]["wall_s"]
            parts.append((network, ready - network, flow - ready, last - flow, ended - last, walls[-1] - ended))
        met &= row(f"lab 01, {experiment}, 10 s of traffic", walls, target)
        names = ("boot, start agent", "network", "captures, servers, pings", "traffic", "collect", "mprun itself")
        for name, values in zip(names, zip(*parts, strict=True), strict=True):
            row(f"    {name}", list(values))
    return met


def bench_line(folder: Path) -> bool:
    (folder / "line.yaml").write_text("version: 1\ntopology: line\nrouters: 100\n")
    (folder / "ping.yaml").write_text(PING)
    met = True
    for engine in ("virtual", "real"):
        built, ready = [], []
        for _ in range(REPEATS):
            timed("-t", "line", "-x", "ping", "--engine", engine, cwd=folder)
            found = phases(folder)
            ready.append(began(found, "starting captures and servers", "ping"))
            built.append(ready[-1] - began(found, "building the network"))
        met &= row(f"line of 100 routers, {engine}: network", built, 0.5)
        row(f"line of 100 routers, {engine}: with start of the engine", ready)
    return met


def main() -> int:
    kernel = json.loads(subprocess.run([MPRUN, "kernel", "info", "--json"], capture_output=True, check=True).stdout)
    met = row("experiment kernel, built once", [kernel["build_seconds"]], 240)
    with tempfile.TemporaryDirectory() as folder:
        met &= bench_command_line(Path(folder))
        met &= bench_first_lab(Path(folder))
        met &= bench_line(Path(folder))
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
