# SPDX-License-Identifier: Apache-2.0
"""Lose packets of the labs' transports one at a time, with `mprun faults`, and print one line for each experiment.

    python -m benchmarks.faults [--budget 24] [--case WORD ...] [--json FILE]
    python -m benchmarks.faults --case 05 06 --page     labs 05 and 06: docs/measured/faults.md

The cases are experiments of labs 01 to 06 and the transports of the four studies. Runs of the studies are shortened. A
budget is a sample of each direction, path and kind of packet. For the handshake of a QUIC path, all of the first
packets are lost in turn, on both stacks. The first columns are the runs, and those of them that did not pass. A run
does not pass if an expectation of its experiment fails, if a flow does not end, or if a program fails.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docs.generate.markdown import table

MPRUN = (sys.executable, "-m", "mprun")
ROOT = Path(__file__).parents[1]
LABS = ROOT / "labs"
PAGE = ROOT / "docs" / "measured" / "faults.md"
HEAD = """\
# Labs with one lost packet

`python -m benchmarks.faults --case {cases} --page` writes this page with
[`mprun faults`](../reference/questions/faults.md). Each row is an experiment of the lab whose number it begins with.
The experiment runs once without a loss, and once for each packet of a sample, with only this packet lost. The sample
has at most {budget} packets, from each direction, path and kind of packet. A row with *first N* has the first N packets
instead.

A run does not pass if an expectation of the experiment fails, if a flow does not end, or if a program fails. The values
are the first flow's goodput, or the end of the last flow. The whole record took {wall_s:.0f} s of real time, on a
loaded machine with two cores.

"""
COLUMNS = ("experiment", "runs", "not passed", "without a loss", "median", "worst", "packet of the worst run")


@dataclass(frozen=True)
class Case:
    """An experiment. params: NAME=VALUE; first: all of the first packets, instead of a sample of all packets."""

    folder: str
    topology: str
    experiment: str
    params: tuple[str, ...] = ()
    first: int = 0

    @property
    def name(self) -> str:
        """Its name in the table, with its parameters."""
        words = [self.folder.partition("_")[0], self.experiment, *self.params]
        return " ".join([*words, f"(first {self.first})"] if self.first else words)


CASES = (
    Case("01_multipath", "topo", "xp_mptcp"),
    Case("01_multipath", "topo", "xp_tcp"),
    Case("02_scheduler", "reqres/topo", "reqres/reqres_rtt"),
    Case("02_scheduler", "msg/topo", "msg/reqres_rr"),
    Case("03_path_manager", "topo_two_client_paths", "iperf_fullmesh"),
    Case("04_backup", "topo_bk", "reqres_rtt"),
    Case("05_congestion_control", "topo_cong", "iperf_scenario_reno_1sf"),
    Case("05_congestion_control", "topo_cong", "iperf_scenario_olia_4sf"),
    Case("06_multipath_quic", "topo", "xp_multipath_rtt", ("stack=tquic",)),
    Case("06_multipath_quic", "topo", "xp_multipath_rtt", ("stack=noq",)),
    Case("06_multipath_quic", "topo", "xp_multipath_rtt", ("stack=tquic",), 32),
    Case("06_multipath_quic", "topo", "xp_multipath_rtt", ("stack=noq",), 32),
    Case("10_openflow_topologies", "topo_paths", "bulk", ("paths=5", "duration=7s")),
    Case("11_classroom", "topo_one_client", "one_client", ("size=10mb",)),
    Case(
        "12_datacentre_short_flows",
        "topo",
        "queries_alone",
        ("duration=1s", "transport=mptcp", "even=default", "odd=default"),
    ),
    Case("13_sctp_vs_mptcp", "topo_table", "cmt", ("duration=5s",)),
    Case("13_sctp_vs_mptcp", "topo_table", "mptcp", ("duration=5s",)),
    Case("13_sctp_vs_mptcp", "topo_table", "tcp", ("duration=5s",)),
)


def measure(case: Case, budget: int, parent: Path) -> dict[str, Any]:
    """Return the report of `mprun faults --json`. Ends the program if it fails."""
    folder = LABS / case.folder
    words = ["faults", "-t", str(folder / case.topology), "-x", str(folder / case.experiment), "-o", str(parent)]
    words += ["--first", str(case.first)] if case.first else ["--budget", str(budget)]
    words += [word for param in case.params for word in ("-p", param)]
    done = subprocess.run([*MPRUN, *words, "--keep", "none", "--json"], capture_output=True, text=True)
    if not done.stdout.startswith("{"):
        sys.exit(f"{case.name}: {done.stderr}")
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def value_of(row: dict[str, Any]) -> float | None:
    """Return the measured value: the metric that the report names, or the end of the last flow in s."""
    known = ("packet", "time_ns", "node", "link", "arrival", "way", "path", "kind", "status", "completed_ns", "causes")
    named = [value for key, value in row.items() if key not in (*known, "run")]
    if named:
        return named[0]
    return None if row["completed_ns"] is None else row["completed_ns"] / 1e9


def cells_of(case: Case, report: dict[str, Any]) -> list[str]:
    """Return a row of the table."""
    rows, base = report["packets"], value_of(report["without"])
    values = [(value, row) for row in rows if (value := value_of(row)) is not None]
    failed = sum(row["status"] != "passed" for row in rows)
    factor, unit = (1e-6, "Mbit/s") if report["unit"] == "bit/s" else (1.0, "s")
    worst = (min if unit == "Mbit/s" else max)(values, key=lambda one: one[0], default=None)
    head = [f"`{case.name}`", str(len(rows)), str(failed)]
    if base is None or worst is None:
        return [*head, "no value", "-", "-", "-"]
    median = statistics.median(value for value, _ in values)
    kind = f"{worst[1]['packet']}: {worst[1]['kind']}, {worst[1]['path']} {worst[1]['way']}"
    return [*head, *(f"{value * factor:.3f} {unit}" for value in (base, median, worst[0])), kind]


def main(words: Sequence[str] | None = None) -> int:
    """Run the cases and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", type=int, default=24, help="use at most this many packets of each case")
    parser.add_argument("--case", nargs="+", default=[""], help="run only cases whose name has one of these words")
    parser.add_argument("--page", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    parser.add_argument("--json", type=Path, help="write the reports to this file")
    given = parser.parse_args(words)
    reports: dict[str, dict[str, Any]] = {}
    rows: list[list[str]] = []
    started = time.monotonic()
    print(" | ".join(COLUMNS), flush=True)
    with tempfile.TemporaryDirectory(prefix="mprun-faults-") as parent:
        for case in CASES:
            if any(word in case.name for word in given.case):
                reports[case.name] = measure(case, given.budget, Path(parent))
                rows.append(cells_of(case, reports[case.name]))
                print(" | ".join(rows[-1]), flush=True)
    if given.page:
        wall_s = time.monotonic() - started
        head = HEAD.format(cases=" ".join(given.case), budget=given.budget, wall_s=wall_s)
        PAGE.write_text(head + table(COLUMNS, rows))
    if given.json:
        given.json.write_text(json.dumps(reports, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
