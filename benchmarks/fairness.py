# SPDX-License-Identifier: Apache-2.0
"""Measure coupled congestion control and TCP at shared bottlenecks, on separate paths and at access points.

    make fairness                                     all of it, and docs/measured/fairness.md
    fairness.py --seeds 1 --seconds 60                less of it, and no page
    fairness.py --only olia,users --only lia,users    rows whose names have all words of an --only

Each row is the mean over the seeds, with the lowest and highest value. The seed also shifts the starts of the flows
within a round trip, because the order of arrival matters with drop-tail queues.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean

ROOT = Path(__file__).parents[1]
MPRUN = str(Path(sys.executable).with_name("mprun"))
SEEDS, SECONDS = 5, 300
COUPLED = ("lia", "olia", "balia", "wvegas")
# Controls that measure congestion by losses, as Reno does, and the share that Reno must get if all share one queue.
FAIR, LEAST_SHARE = ("lia", "olia", "balia"), 0.4
LEAST_OF_UNCOUPLED = 0.9
AS_IT_SHOULD_BE = (
    "The means over the seeds show:\n\n"
    f"- A TCP connection that shares a queue with {', '.join(FAIR[:-1])} or {FAIR[-1]} gets {100 * LEAST_SHARE:g} % or "
    "more.\n"
    f"- On two paths of its own, coupled control gets {100 * LEAST_OF_UNCOUPLED:g} % or more of uncoupled control.\n"
    "- TCP users get more beside OLIA than beside LIA."
)

SHARED = """\
version: 1
params: {discipline: fifo}
topology: dumbbell
pairs: 2
bottleneck: {rate: 20mbit, delay: 10ms, queue: {limit: 1bdp, discipline: "{{ discipline }}"}}
"""
AGAINST = """\
version: 1
params: {control: reno, seconds: 300, shift: 0}
hosts:
  client0:
    mptcp: {path_manager: ndiffports, subflows_per_pair: 4}
    sysctl: {net.ipv4.tcp_congestion_control: "{{ control }}"}
  client1: {sysctl: {net.ipv4.tcp_congestion_control: reno}}
traffic:
  - {name: multi, tool: iperf3, from: client0, to: server0, protocol: mptcp, duration: "{{ seconds }}s"}
  - {name: single, tool: iperf3, from: client1, to: server1, start: "{{ shift }}us", duration: "{{ seconds }}s"}
"""
APART = """\
version: 1
topology: multi-path
paths:
  - {rate: 20mbit, delay: 10ms, queue: 1bdp}
  - {rate: 20mbit, delay: 10ms, queue: 1bdp}
"""
BULK = """\
version: 1
params: {control: reno, seconds: 300, shift: 0}
hosts:
  client:
    mptcp: {path_manager: fullmesh}
    sysctl: {net.ipv4.tcp_congestion_control: "{{ control }}"}
  server: {mptcp: {path_manager: fullmesh}}
traffic:
  - {name: multi, tool: iperf3, from: client, to: server, protocol: mptcp, start: "{{ shift }}us",
     duration: "{{ seconds }}s"}
"""
USERS = 5
POINTS = f"""\
version: 1
params: {{discipline: fifo}}
topology: access-points
multipath_users: {USERS}
single_path_users: {USERS}
points:
  - {{rate: {2 * USERS}mbit, delay: 20ms, queue: {{limit: 1bdp, discipline: "{{{{ discipline }}}}"}}}}
  - {{rate: {2 * USERS}mbit, delay: 20ms, queue: {{limit: 1bdp, discipline: "{{{{ discipline }}}}"}}}}
"""


def users(seed: int) -> str:
    """Return an experiment in which all users send at once, shifted within a round trip."""
    lines = ["version: 1", "params: {control: reno, seconds: 300, shift: 0}", "hosts:"]
    lines += ["  server: {mptcp: {path_manager: default}}"]
    for n in range(USERS):
        lines.append(f"  user{n}:")
        # mainline's scheduler gives the shared path data beyond its window, and the private path is idle meanwhile
        lines.append("    mptcp: {path_manager: fullmesh, scheduler: lowest-rtt}")
        lines.append('    sysctl: {net.ipv4.tcp_congestion_control: "{{ control }}"}')
        lines.append(f"  single{n}: {{sysctl: {{net.ipv4.tcp_congestion_control: reno}}}}")
    lines.append("traffic:")
    for n in range(USERS):
        for kind, host, protocol in (("multi", "user", "mptcp"), ("single", "single", "tcp")):
            shift_us = (n * 7919 + seed * 4231 + (kind == "multi") * 2503) % 40_000
            lines.append(
                f"  - {{name: {kind}-{n}, tool: iperf3, from: {host}{n}, to: server, protocol: {protocol}, "
                f'start: {shift_us}us, duration: "{{{{ seconds }}}}s"}}'
            )
    return "\n".join(lines) + "\n"


PAGE = """\
# Coupled congestion control, measured

`make fairness` writes this page. Each row has {seeds} seeds with {seconds} s of simulated time each. Each
figure is the mean, with the lowest and highest value in brackets. The seed also shifts the starts of flows
within a round trip, because the order of arrival matters with drop-tail queues and exact timers. The scenes
are:

- *4 subflows, against Reno*: a bottleneck of 20 Mbit/s and 20 ms has a queue of 1 BDP. One MPTCP connection
  with 4 subflows and one TCP connection with Reno share it. Uncoupled subflows take four fifths of the
  rate.
- *two paths of its own*: one MPTCP connection has two paths of 20 Mbit/s and 20 ms, with queues of 1 BDP.
- *{users} users and {users} of TCP*: there are two access points of {rate} Mbit/s and 40 ms. {users} MPTCP
  users use both access points, and {users} TCP users use the second one. The scheduler is `lowest-rtt`,
  because mainline's scheduler does not fill the access point that only MPTCP users have.

{verdict}

"""
FILES = {"shared": SHARED, "against": AGAINST, "apart": APART, "bulk": BULK, "points": POINTS}


@dataclass
class Scene:
    """The files and parameters of a row, and the results of its runs, Mbit/s by group of flows."""

    name: str
    topology: str
    experiment: str
    parameters: Mapping[str, str]
    got: list[dict[str, float]] = field(default_factory=list)

    @property
    def words(self) -> set[str]:
        return set(self.name.replace(",", "").split())

    def sums(self, kind: str) -> list[float]:
        return [sum(rate for name, rate in run.items() if name.startswith(kind)) for run in self.got]

    def shares(self) -> list[float]:
        """Return the share of TCP in each run."""
        return [one / (one + other) for one, other in zip(self.sums("single"), self.sums("multi"), strict=True)]


def scenes() -> Iterator[Scene]:
    for discipline in ("fifo", "red"):
        for control in ("reno", *COUPLED):
            yield Scene(
                f"{control}, 4 subflows, against Reno, {discipline}",
                "shared",
                "against",
                {"control": control, "discipline": discipline},
            )
    for control in ("reno", *COUPLED):
        yield Scene(f"{control}, two paths of its own", "apart", "bulk", {"control": control})
    for discipline in ("fifo", "red"):
        for control in ("reno", "lia", "olia", "balia"):
            yield Scene(
                f"{control}, {USERS} users and {USERS} of TCP, {discipline}",
                "points",
                "users",
                {"control": control, "discipline": discipline},
            )


def run(scene: Scene, seed: int, seconds: int, folder: Path) -> dict[str, float]:
    """Return the goodput of each flow, Mbit/s."""
    experiment = f"users{seed}" if scene.experiment == "users" else scene.experiment
    parameters = {**scene.parameters, "seconds": str(seconds)}
    if experiment != f"users{seed}":
        parameters["shift"] = str(seed * 4231 % 20_000)
    argv = [MPRUN, "-t", scene.topology, "-x", experiment, "--seed", str(seed), "--json"]
    argv += [word for name, value in parameters.items() for word in ("-p", f"{name}={value}")]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{scene.name}, seed {seed}: {done.stdout}{done.stderr}")
    metrics = json.loads(done.stdout)["metrics"]
    return {
        name.removesuffix(".goodput"): value["value"] / 1e6
        for name, value in metrics.items()
        if name.endswith(".goodput") and not name.startswith("total")
    }


def row(scene: Scene) -> list[str]:
    """Return the name, the rate of the multipath flows, the rate of TCP, and TCP's share."""
    multi, single = scene.sums("multi"), scene.sums("single")
    cells = [scene.name, spread(multi, "{:.2f}")]
    if not any(single):
        return [*cells, "", ""]
    return [*cells, spread(single, "{:.2f}"), spread([100 * share for share in scene.shares()], "{:.1f} %")]


def spread(values: Sequence[float], form: str) -> str:
    middle = form.format(mean(values))
    return f"{middle} ({form.format(min(values))} to {form.format(max(values))})" if len(values) > 1 else middle


def misses(found: Sequence[Scene]) -> list[str]:
    """Return the aims of coupled control that the means over the seeds miss, for the rows that were run."""
    known = {scene.name: scene for scene in found}
    wrong = []
    for discipline in ("fifo", "red"):
        for control in FAIR:
            scene = known.get(f"{control}, 4 subflows, against Reno, {discipline}")
            if scene and mean(scene.shares()) < LEAST_SHARE:
                wrong.append(f"{scene.name}: TCP gets less than {100 * LEAST_SHARE:g} %")
        users = [known.get(f"{control}, {USERS} users and {USERS} of TCP, {discipline}") for control in ("olia", "lia")]
        if users[0] and users[1] and mean(users[0].sums("single")) <= mean(users[1].sums("single")):
            wrong.append(f"TCP users get no more beside OLIA than beside LIA, {discipline}")
    alone = known.get("reno, two paths of its own")
    for control in COUPLED:
        scene = known.get(f"{control}, two paths of its own")
        if scene and alone and mean(scene.sums("multi")) < LEAST_OF_UNCOUPLED * mean(alone.sums("multi")):
            wrong.append(f"{scene.name}: less than {100 * LEAST_OF_UNCOUPLED:g} % of uncoupled")
    return wrong


def write(rows: list[list[str]], verdict: str, seeds: int, seconds: int) -> str:
    head = ["scene", "multipath, Mbit/s", "TCP, Mbit/s", "TCP's share"]
    lines = [f"| {' | '.join(head)} |", "| --- | --- | --- | --- |", *(f"| {' | '.join(one)} |" for one in rows)]
    return (
        PAGE.format(seeds=seeds, seconds=seconds, users=USERS, rate=2 * USERS, verdict=verdict)
        + "\n".join(lines)
        + "\n"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--seconds", type=int, default=SECONDS, help="of simulated time")
    parser.add_argument(
        "--only", action="append", default=[], metavar="WORD,...", help="run rows that have these words"
    )
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="runs at a time")
    arguments = parser.parse_args()
    seeds, seconds = arguments.seeds, arguments.seconds
    choices = [choice.split(",") for choice in arguments.only] or [[]]
    wanted = [scene for scene in scenes() if any(set(choice) <= scene.words for choice in choices)]
    with tempfile.TemporaryDirectory(prefix="mprun-fairness-") as place:
        folder = Path(place)
        for file, text in FILES.items():
            (folder / f"{file}.yaml").write_text(text)
        for seed in range(1, seeds + 1):
            (folder / f"users{seed}.yaml").write_text(users(seed))
        with ThreadPoolExecutor(arguments.jobs) as pool:
            jobs = [
                (scene, pool.submit(run, scene, seed, seconds, folder))
                for scene in wanted
                for seed in range(1, seeds + 1)
            ]
            for scene, job in jobs:
                scene.got.append(job.result())
                if len(scene.got) == seeds:
                    print(
                        "  ".join(f"{cell:<44}" if n == 0 else f"{cell:<26}" for n, cell in enumerate(row(scene))),
                        flush=True,
                    )
    wrong = misses(wanted)
    verdict = "These expectations do not hold: " + "; ".join(wrong) + "." if wrong else AS_IT_SHOULD_BE
    if wrong or not arguments.only:
        print(f"\n{verdict}")
    if not arguments.only and (seeds, seconds) == (SEEDS, SECONDS):
        page = write([row(scene) for scene in wanted], verdict, seeds, seconds)
        (ROOT / "docs" / "measured" / "fairness.md").write_text(page)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
