# SPDX-License-Identifier: Apache-2.0
"""Run the cases of the QUIC interoperability runner with each pair of libraries: docs/measured/interop.md.

    make interop                                  the sweep of lab 08, and the page
    python -m benchmarks.interop --from SWEEP     the page from a sweep that exists

Each cell is a run of labs/08_multipath_scenarios/interop.yaml. The expectations of this file are the verdicts.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from docs.generate.markdown import table, wrap
from mprun.model.grouping import gather
from mprun.model.sweep_files import CellSummary, CellVerdict
from mprun.storage.sweep_directory import SweepDirectory
from mprun.sweeps.sweep_summary import read_summary

ROOT = Path(__file__).parents[1]
LAB = ROOT / "labs" / "08_multipath_scenarios"
RUNS = ROOT / "build" / "interop"
PAGE = ROOT / "docs" / "measured" / "interop.md"
SWEEP = ("sweep", "-t", "topo_interop", "-x", "interop")
HEAD = """\
# QUIC libraries against each other

`make interop` writes this page. It makes the sweep of [lab
08](../../labs/08_multipath_scenarios/README.md#cases-of-the-interoperability-runner) in `build/interop`, which has
{cells} cells: {cases} cases of the [interoperability runner](https://github.com/quic-interop/quic-interop-runner) with
each pair of {libraries} libraries that can do them. The whole sweep took {wall} of real time, {places} runs at a time,
on a loaded machine with two cores. In simulated time, each cell repeats exactly.

A table has a row for each library of the client, and a column for each library of the server. A cell is *passed* or
*failed* by the expectations of `interop.yaml`, most of which read a capture of the server
([metrics](../quic.md#cases-of-interoperability-runners)). A cell is *-* if a library, or its program in mprun, cannot
do the case.

"""
TAIL = """
## Not in the matrix

The runner's case `ecn` needs two ends that mark their packets and report the marks that arrived (RFC 9000 13.4). No
two libraries can do this together:

- tquic 1.6 reports no marks: its `connection.rs` has `ecn_counts: None, // ECN not supported`.
- aioquic 1.7 skips the counts that it receives, and reports none.
- noq 1.4 can do both. The program of mprun passes no marks between its sockets and noq, so its packets have none.
"""
UNKNOWN = "The cause is not known."
# The causes of failed cells, by the library of the server and the metric that failed.
CAUSES = {
    ("noq", "get.seen.amplification"): (
        "noq sends a whole datagram if at least one byte of the limit is left. After a first datagram of 1472 bytes, "
        "it sends 4 of 1200 bytes, where 4416 bytes are allowed (RFC 9000 8.1)."
    ),
}
NO_MIGRATION = (
    "tquic 1.6 validates the client's new address, and sends its data to the earlier one: its `connection.rs` has "
    "`TODO: try to do connection migration`."
)
# The causes of errors, by case, client and server.
ERRORS = {
    **{
        (case, client, "tquic"): NO_MIGRATION
        for case in ("rebindport", "rebindaddress")
        for client in ("tquic", "noq", "aioquic")
    },
    ("handshakecorruption", "tquic", "aioquic"): (
        "Three of the client's five first packets are damaged, and so is the beginning of both answers. The client "
        "doubles the time between them (RFC 9002 6.2.1), and gives up after 30 s. aioquic may not repeat an answer on "
        "its own: it has sent three times what it received (RFC 9000 8.1)."
    ),
}


def mark(cell: CellSummary | None) -> str:
    """Return the result of a cell in a word."""
    if cell is None:
        return "-"
    return "error" if cell.runs.error else "failed" if cell.runs.failed else "passed"


def missed(cell: CellSummary) -> list[CellVerdict]:
    """Return the expectations that a run of a cell did not hold."""
    return [verdict for verdict in cell.expectations if verdict.held < verdict.of]


def tables(cells: Sequence[CellSummary]) -> Iterator[str]:
    """Yield the table of each case."""
    by_values = {tuple(str(cell.values[key]) for key in ("case", "client", "server")): cell for cell in cells}
    cases, clients, servers = (list(dict.fromkeys(values[n] for values in by_values)) for n in range(3))
    for case in cases:
        rows = [[client, *(mark(by_values.get((case, client, server))) for server in servers)] for client in clients]
        yield f"\n## {case}\n\n{table(['client', *(f'server {name}' for name in servers)], rows)}"


def failures(cells: Sequence[CellSummary]) -> Iterator[str]:
    """Yield a line for the cells of a case and a server that did not pass for one reason: values and cause."""
    found = gather(
        ((case, server, reason_of(cell, case, client, server)), client)
        for cell in cells
        if mark(cell) != "passed"
        for case, client, server in [[str(cell.values[key]) for key in ("case", "client", "server")]]
    )
    for (case, server, reason), clients in found.items():
        yield f"- `{case}`, {', '.join(clients)} and server {server}: {reason}\n"


def reason_of(cell: CellSummary, case: str, client: str, server: str) -> str:
    """Return what failed in a cell, and the cause as far as it is known. Of a run in error, no verdict counts."""
    if cell.told.errors:
        why = ERRORS.get((case, client, server), UNKNOWN)
        return " ".join(f"`{error}`. {why}" for error in cell.told.errors)
    said = []
    for verdict in missed(cell):
        value = cell.metrics.get(verdict.metric)
        cause = CAUSES.get((server, verdict.metric), UNKNOWN)
        said.append(f"`{verdict.metric}` {'was not measured' if value is None else f'is {value.mean:g}'}. {cause}")
    return " ".join(said)


def write(cells: Sequence[CellSummary], wall_s: float, places: int) -> str:
    """Return the page. wall_s: the real time of the sweep. places: the number of runs at a time."""
    cases = {cell.values["case"] for cell in cells}
    libraries = {cell.values[end] for cell in cells for end in ("client", "server")}
    passed = sum(mark(cell) == "passed" for cell in cells)
    head = HEAD.format(
        cells=len(cells),
        cases=len(cases),
        libraries=len(libraries),
        wall=f"{wall_s:.0f} s",
        places=places,
    )
    result = f"Passed: {passed} of {len(cells)} cells.\n"
    if lines := "".join(failures(cells)):
        result += f"The other cells:\n\n{wrap(lines)}"
    return head + result + "".join(tables(cells)) + TAIL


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--from", dest="sweep", type=Path, help="a sweep that exists (default: make one)")
    chosen = parser.parse_args(words).sweep
    if chosen is None:
        RUNS.parent.mkdir(exist_ok=True)
        done = subprocess.run([sys.executable, "-m", "mprun", *SWEEP, "--output", str(RUNS)], cwd=LAB, check=False)
        # a cell that fails is a result of its libraries, and is on the page
        if done.returncode not in (0, 1):
            return done.returncode
        chosen = RUNS / "latest-sweep"
    sweep = SweepDirectory(chosen.resolve())
    sessions = sweep.sessions()
    PAGE.write_text(write(read_summary(sweep).cells, sweep.wall_s(), max(session.places for session in sessions)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
