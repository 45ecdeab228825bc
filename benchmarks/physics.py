# SPDX-License-Identifier: Apache-2.0
"""Compare drawn configurations with closed forms: `make physics`, `make physics SEED=n`.

    python -m benchmarks.physics                  the 40 cells of seed 1, and docs/measured/physics.md
    python -m benchmarks.physics --seed 7         the cells of another seed, printed only
    python -m benchmarks.physics --cell 12 --keep DIR    one cell, whose files and run stay in DIR
    python -m benchmarks.physics --json           rows as JSON

Each cell is a network and its traffic. `benchmarks/configuration.py` draws it, and it is written as the two files that
a user would write. The `mprun` command runs it, and `benchmarks/closed_form.py` predicts its figures. A figure that
differs by more than 2 % fails. The exception is a run that itself shows one of REASONS, if the predicted effect leaves
less than 2 %.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import yaml

from benchmarks.configuration import MOST_PACKETS, PIECE_FRAMES, Configuration, draw
from benchmarks.holding import REASONS, Row, hold
from benchmarks.inputs import experiment, topology

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "measured" / "physics.md"
DEFAULT_SEED = 1
ENGINE = ("--engine", "virtual", "--json")
# The number of cells that may have a figure with a reason.
MOST_REASONS = 2


@dataclass(frozen=True)
class Outcome:
    """The rows and the error of a cell that was run."""

    cell: Configuration
    rows: tuple[Row, ...]
    error: str
    seconds: float

    @property
    def has_failed(self) -> bool:
        return bool(self.error) or not all(row.is_held for row in self.rows)

    @property
    def has_reason(self) -> bool:
        return any(row.reason for row in self.rows)


def run_cell(cell: Configuration, folder: Path) -> Outcome:
    """Write the files, run them, and compare the results with the closed forms."""
    started = time.monotonic()
    (folder / "topo.yaml").write_text(yaml.safe_dump(topology(cell), sort_keys=False))
    (folder / "xp.yaml").write_text(yaml.safe_dump(experiment(cell), sort_keys=False))
    for name, text in cell.files.items():
        (folder / name).write_text(text)
    argv = [sys.executable, "-m", "mprun", "-t", "topo", "-x", "xp", "-o", str(folder / "runs"), *ENGINE]
    done = subprocess.run(argv, cwd=folder, env=_environment(), capture_output=True, text=True)
    rows: tuple[Row, ...] = ()
    error = ""
    try:
        summary = json.loads(done.stdout)
        told = [*summary["errors"], *summary["failures"]]
        error = "; ".join(one if isinstance(one, str) else json.dumps(one) for one in told)
        rows = tuple(hold(cell, summary))
    except (OSError, ValueError, KeyError) as problem:
        error = error or f"status {done.returncode}: {problem!r}: {done.stderr[-500:]}"
    return Outcome(cell, rows, error, time.monotonic() - started)


def _environment() -> dict[str, str]:
    """Return the user's environment, with this checkout first in the search path."""
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def run_all(cells: Sequence[Configuration], keep: Path | None) -> Iterator[Outcome]:
    """Run one cell on each CPU at a time, and yield the outcomes in the order of the cells."""
    cpus: SimpleQueue[int] = SimpleQueue()
    usable = sorted(os.sched_getaffinity(0))
    for cpu in usable:
        cpus.put(cpu)

    def one(cell: Configuration) -> Outcome:
        cpu = cpus.get()
        try:
            os.sched_setaffinity(0, {cpu})
            with tempfile.TemporaryDirectory(prefix="mprun-physics-") as name:
                folder = (keep / f"cell{cell.number}").absolute() if keep else Path(name)
                folder.mkdir(parents=True, exist_ok=True)
                return run_cell(cell, folder)
        finally:
            cpus.put(cpu)

    with ThreadPoolExecutor(len(usable)) as pool:
        yield from pool.map(one, cells)


# -- what is printed -------------------------------------------------------------------------------------------------


def describe(cell: Configuration) -> str:
    """Return the configuration as a line."""
    links = []
    for link in cell.links:
        there, back = link.forward, link.reverse
        rate = _both(f"{there.rate_bit_per_s / 1e6:.6f}", f"{back.rate_bit_per_s / 1e6:.6f}")
        delay = _both(f"{there.delay_us / 1e3:g}", f"{back.delay_us / 1e3:g}")
        links.append(f"{rate} Mbit/s, {delay} ms, {there.queue_packets} packets")
    joint = " beside " if cell.is_multipath else ", then "
    changes = f"; {_summarize(cell.events)}" if cell.events else ""
    return f"{joint.join(links)}; {cell.family}, MTU {cell.mtu}{changes}"


def _summarize(events: Sequence[dict[str, Any]]) -> str:
    """Return the kinds of events, as words."""
    (first, *more) = events
    if not more and "set" not in first:
        return first.get("format", "schedule" if "schedule" in first else "mahimahi") + " file"
    kinds = [
        "ramp" if "over" in one else "every" if "every" in one else "for" if "for" in one else "set" for one in events
    ]
    return "events: " + ", ".join(f"{kinds.count(kind)} {kind}" for kind in sorted(set(kinds)))


def _both(there: str, back: str) -> str:
    return there if there == back else f"{there}/{back}"


def table(outcomes: Sequence[Outcome]) -> str:
    """Return all rows as Markdown."""
    lines = [
        "| cell | quantity | closed form | got | deviation | allowed | |",
        "| ---: | --- | ---: | ---: | ---: | ---: | --- |",
    ]
    for outcome in outcomes:
        for row in outcome.rows:
            verdict = "" if row.is_held and not row.reason else row.reason or "FAILED"
            values = (str(outcome.cell.number), row.quantity, row.asked_text, row.got_text, row.deviation_text)
            lines.append("| " + " | ".join((*values, row.allowed_text, verdict)) + " |")
        if outcome.error:
            lines.append(f"| {outcome.cell.number} | the run | | | | | FAILED: {outcome.error} |")
    return "\n".join(lines) + "\n"


def configurations(outcomes: Sequence[Outcome]) -> str:
    lines = ["| cell | kind | links; rates and delays forward/reverse |", "| ---: | --- | --- |"]
    lines += [f"| {one.cell.number} | {one.cell.kind} | {describe(one.cell)} |" for one in outcomes]
    return "\n".join(lines) + "\n"


def verdict(outcomes: Sequence[Outcome]) -> str:
    failed = sum(outcome.has_failed for outcome in outcomes)
    reasons = sum(outcome.has_reason for outcome in outcomes)
    rows = sum(len(outcome.rows) for outcome in outcomes)
    return f"{failed} of {len(outcomes)} cells failed, with {rows} figures in all. {reasons} cells have a reason."


def is_clean(outcomes: Sequence[Outcome]) -> bool:
    return not any(one.has_failed for one in outcomes) and sum(one.has_reason for one in outcomes) <= MOST_REASONS


TEXT = """\
# Physics: drawn configurations against closed forms

A seed draws forty networks. Each run is compared with closed forms, which are formulas from arithmetic and from the
protocols' documents. The closed forms use none of mprun's code. `make physics` writes this page from seed {seed}.
`make physics SEED=n` draws forty other networks and prints the same tables. [Fidelity](fidelity.md) measures each
link property alone, on a fixed grid.

{verdict}

## Ranges

| quantity | range |
| --- | --- |
| rate | 0.1 to 1000 Mbit/s, any whole number of bit/s, in equal strata of its logarithm |
| reverse rate | equal in half of the cells, otherwise a fifth to five times the forward rate |
| round-trip propagation | 0 to 700 ms, in strata; split evenly between the directions, or up to 1 to 4 |
| MTU, family | 1280, 1500, 4000 or 9000 bytes; IPv4 or IPv6 |
| queue | 25 packets to four bandwidth-delay products, at most 3000 packets |
| links | one, two in series, or two paths side by side |
| loss | 0.1 to 10 % at random, or in bursts (Gilbert and Elliott) |
| jitter | 5 to 24 % of the delay; uniform, normal, pareto, paretonormal |
| last flow | UDP with nothing after it: round trips of 2 to 8 s, or queues of 25 to 3000 packets |
| changes of a rate | 6 to 9 events that overlap: `set`, `for`, `every`, `over`; traces and schedules |
| transports | TCP with a small receive buffer or queue, the kernel's SCTP and SCTP in user space with small buffers |

Some kinds of cell use a part of a range:

- A bulk transfer has at most {packets} packets. Its round trips are therefore shorter at high rates.
- Cells with jitter have rates of 1 Mbit/s or more.
- Cells of slow start have links on which a full frame takes no longer than a handshake. Otherwise Linux sends tail
  loss probes.
- In cells of changes, a piece of a constant rate is at least {frames} frames long.
- The window of TCP is the announced one, in whole segments. The window of the kernel's SCTP is half of the socket's
  buffer, less a message that is not read yet. A window has 100 to 250 packets, and the bandwidth-delay product is 2.5
  to 5 times as large. TCP with a small receive buffer has a round trip of 100 ms or more. Linux sends the packets of a
  millisecond at once, and waits if the window has no place for all of them.
- The round trips of two paths, with full queues, differ by a factor of 2 at most. Linux's send buffer of a connection
  holds about two windows of each subflow, which is enough up to this factor.

## Closed forms

| figure | closed form |
| --- | --- |
| idle round trip, one-way delay | propagation and frame length / rate, summed over all links and directions |
| UDP share | rate x payload / frame length, while the sender offers more than the rate |
| delay behind a full queue of Q frames | (Q + 1) T - T / (2 f); T is the time of a frame, f the offered load / rate |
| round trip of a ping behind it | Q T - T / (3 f), its idle round trip, and the rest of a full frame on a second link |
| jitter | the standard deviation of netem's distribution: 0.577, 1, 0.821 and 0.835 of the amount |
| loss | the binomial interval of 99.99 %; for bursts, four standard deviations |
| completion in slow start | the time of each segment, computed from the handshake on (RFC 6928, RFC 5681) |
| TCP goodput | rate x payload / frame length; timestamps take 12 bytes of each segment |
| MPTCP goodput | the sum over both paths; the DSS option takes 24 bytes more |
| fairness | Jain's index is 1 |
| loss of the last flow | the packets that find no place in the queue, one arrival after another |
| frames while a rate changes | rate x time / frame length in each piece of a constant rate, within one frame |
| goodput of a window | window / (round trip + T), because every second packet is acknowledged |
| other goodputs below the rate | none: the run must name the cause |
| conservation | on each link and direction: sent = received + dropped by the queue + lost by the link's loss |
| counts | packets, bytes and retransmissions in the captures, by sequence numbers |

A frame is an IP packet and 14 bytes. A figure fails if it differs from its closed form by more than 2 %. A delay may
also be late by 512 ns on each link and by 512 ns for the programs. Each of these allowances is two steps of the
experiment kernel's clock. ping(8) prints microseconds. If a figure depends on chance, the cell measures so long that
four standard errors are within 2 %.

If a transport behind a small buffer or queue gets less than its link carries, the warnings of the run must name the
cause. Another goodput may differ by more than 2 % if the run itself shows one of these reasons. The reason predicts the
size of its effect, and the remaining difference must be below 2 %. At most two cells may have a reason.

{reasons}

## Cells

{configurations}
## Figures

{table}"""


def page(seed: int, outcomes: Sequence[Outcome]) -> str:
    reasons = "\n".join(f"- {name}: {meaning}." for name, meaning in REASONS.items())
    return TEXT.format(
        seed=seed,
        packets=f"{MOST_PACKETS:,}",
        frames=PIECE_FRAMES,
        verdict=verdict(outcomes),
        reasons=reasons,
        configurations=configurations(outcomes),
        table=table(outcomes),
    )


def _row_as_json(row: Row) -> dict[str, object]:
    """Return the row. A figure that the run does not have is null."""
    return {**asdict(row), "got": None if math.isnan(row.got) else row.got, "held": row.is_held}


def as_json(seed: int, outcomes: Sequence[Outcome]) -> str:
    cells = [
        {
            "cell": one.cell.number,
            "kind": one.cell.kind,
            "topology": topology(one.cell),
            "experiment": experiment(one.cell),
            "error": one.error,
            "rows": [_row_as_json(row) for row in one.rows],
        }
        for one in outcomes
    ]
    return json.dumps({"seed": seed, "clean": is_clean(outcomes), "cells": cells}, indent=1)


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare drawn configurations with closed forms.")
    parser.add_argument("--seed", type=int, default=DEFAULT_SEED, help="draw the cells of this seed (default: 1)")
    parser.add_argument("--cell", type=int, action="append", help="run only this cell; may be repeated")
    parser.add_argument("--keep", type=Path, help="keep files and run directories below this folder")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    arguments = parser.parse_args()
    cells = [cell for cell in draw(arguments.seed) if arguments.cell is None or cell.number in arguments.cell]
    started = time.monotonic()
    outcomes = []
    for outcome in run_all(cells, arguments.keep):
        outcomes.append(outcome)
        text = "FAILED" if outcome.has_failed else "as predicted"
        where = f"physics {len(outcomes):2} of {len(cells)}: {outcome.seconds:5.1f} s  {outcome.cell.kind:10}"
        print(f"{where}  {describe(outcome.cell)}: {text}", file=sys.stderr, flush=True)
    if arguments.json:
        print(as_json(arguments.seed, outcomes))
    else:
        print(f"\n{table(outcomes)}\nseed {arguments.seed}: {verdict(outcomes)} {time.monotonic() - started:.0f} s")
    if arguments.seed == DEFAULT_SEED and arguments.cell is None and not arguments.json:
        PAGE.write_text(page(arguments.seed, outcomes))
    return 0 if is_clean(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
