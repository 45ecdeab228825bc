# SPDX-License-Identifier: Apache-2.0
"""The figure of a failure's probability over the time from which a run has other random numbers. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mprun.reports.figure import TIME, Chart, ChartAxis, Mark, Panel, Series


@dataclass(frozen=True)
class Share:
    """The share of the runs that failed, with its interval. at_s: the time from which their random numbers differ."""

    at_s: float
    share: float
    low: float
    high: float


def draw_why(failure: str, shares: Sequence[Share], end_s: float, jump_s: tuple[float, float] | None) -> Chart:
    """Return the probability over time. jump_s: the interval of the largest rise."""
    points = [*shares, Share(end_s, 1.0, 1.0, 1.0)]
    series = Series(
        "runs that failed",
        "p1",
        [one.at_s for one in points],
        [one.share for one in points],
        [one.low for one in points],
        [one.high for one in points],
    )
    caption = (
        f"The share of the runs with '{failure}', if all random numbers from this time on are others, with its "
        "interval of 95 %. At the end of the run nothing is left to draw."
    )
    marks = () if jump_s is None else (Mark(jump_s[1], "inevitable from here on"),)
    return Chart(
        "why", "When the failure became inevitable", caption, "line", TIME, ChartAxis("probability", "share"),
        (Panel("", (series,)),), marks,
    )  # fmt: skip
