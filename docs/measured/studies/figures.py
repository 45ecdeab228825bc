# SPDX-License-Identifier: Apache-2.0
"""Draw a figure of the studies' pages from a sweep.

    python docs/measured/studies/figures.py completions completions.svg SWEEP

completions: the completion times of short flows in lab 12's sweep `seeds`.

The page names the sweep.
"""

from __future__ import annotations

import sys
from pathlib import Path

import polars

from mprun.api import Sweep, load
from mprun.reports.chart import WIDE, paint
from mprun.reports.figure import Chart, ChartAxis, Panel, Series


def draw_completions(sweep: Sweep) -> Chart:
    """Return a line for each background, with the flows of all its runs."""
    flows = sweep.table("flows").filter(polars.col("flow").str.starts_with("short")).collect()
    series = []
    for n, transport in enumerate(("tcp", "mptcp")):
        taken = flows.filter(transport=transport)["completion_ns"].drop_nulls().sort() / 1e6
        series.append(Series(f"beside {transport.upper()}", f"f{n}", y=taken.to_list(), dash=n))
    x, y = ChartAxis("completion time (ms)", scale="log"), ChartAxis("share of short flows", "share")
    return Chart("completions", "", "", "cdf", x, y, (Panel("", tuple(series)),))


def main() -> None:
    """Draw the figure that the command line names."""
    target, name = sys.argv[2:]
    sweep = load(name)
    if not isinstance(sweep, Sweep):
        raise SystemExit(f"{name} is not a sweep: name the sweep of the page")
    image = Path(target).suffix[1:]
    Path(target).write_bytes(paint(draw_completions(sweep), WIDE, ["png" if image == "png" else "svg"])[image])


if __name__ == "__main__":
    main()
