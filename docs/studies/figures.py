# SPDX-License-Identifier: Apache-2.0
"""Draw those figures of the studies' pages that combine several sweeps or runs.

    python docs/studies/figures.py transports transports_table.svg SWEEP...
    python docs/studies/figures.py completions completions.svg SWEEP

transports: the goodput in the sweeps of lab 13, by technology.
completions: the completion times of short flows in lab 12's sweep `seeds`.

The pages name the sweeps.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars

from mprun.report.chart import WIDE, paint
from mprun.report.figure import Axis, Chart, Panel, Series
from mprun.results import Sweep, load

TECHNOLOGIES = {"ethernet": "Ethernet", "wifi-802.11g": "802.11g", "4g-lte": "4G", "3g-hspa+": "3G"}
# The sweep has 1 to 4 connections. More bars would be hard to distinguish.
SHOWN_CONNECTIONS = (1,)


def draw_transports(sweeps: Sequence[Sweep]) -> Chart:
    """Return a bar for each transport at each technology. TCP uses only the first link, which never changes."""
    goodputs: dict[str, dict[str, float]] = {}
    for cells in (sweep.cells for sweep in sweeps):
        for row in cells.iter_rows(named=True):
            if row.get("connections", 1) in SHOWN_CONNECTIONS:
                goodputs.setdefault(_name(row), {})[row["technology"]] = row["bulk.goodput_bit_per_s"]
    series = [
        Series(
            name,
            f"f{n}",
            range(len(TECHNOLOGIES)),
            [found.get(technology, math.nan) if len(found) > 1 else max(found.values()) for technology in TECHNOLOGIES],
        )
        for n, (name, found) in enumerate(goodputs.items())
    ]
    x = Axis("technology", categories=tuple(TECHNOLOGIES.values()))
    return Chart("transports", "", "", "bar", x, Axis("goodput", "bit/s"), (Panel("", tuple(series)),))


def _name(row: Mapping[str, Any]) -> str:
    if "connections" in row:
        return "TCP"
    if "scheduler" in row:
        return f"MPTCP, {row['scheduler']}, {row['control']}"
    return f"CMT-SCTP, RTO.Min {row['rto_min']}"


def draw_completions(sweep: Sweep) -> Chart:
    """Return a line for each background, with the flows of all its runs."""
    flows = sweep.table("flows").filter(polars.col("flow").str.starts_with("short")).collect()
    series = []
    for n, transport in enumerate(("tcp", "mptcp")):
        taken = flows.filter(transport=transport)["completion_ns"].drop_nulls().sort() / 1e6
        series.append(Series(f"beside {transport.upper()}", f"f{n}", y=taken.to_list(), dash=n))
    x, y = Axis("completion time (ms)", scale="log"), Axis("share of short flows", "share")
    return Chart("completions", "", "", "cdf", x, y, (Panel("", tuple(series)),))


def main() -> None:
    """Draw the figure that the command line names."""
    kind, target, *names = sys.argv[1:]
    sweeps = [sweep for sweep in map(load, names) if isinstance(sweep, Sweep)]
    chart = draw_transports(sweeps) if kind == "transports" else draw_completions(*sweeps)
    image = Path(target).suffix[1:]
    Path(target).write_bytes(paint(chart, WIDE, ["png" if image == "png" else "svg"])[image])


if __name__ == "__main__":
    main()
