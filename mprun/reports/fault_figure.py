# SPDX-License-Identifier: Apache-2.0
"""The figure of a study of single packets: for each packet, what its fault made of the run. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mprun.reports.figure import Chart, ChartAxis, Panel, Series

# The label, the colour and the number of the mark of each status, the usual one first.
LOOKS = {"passed": ("passed", "p0", 0), "failed": ("failed", "p1", 1), "error": ("error", "f1", 2)}
BASE = ("no fault", "n", 0)


@dataclass(frozen=True)
class FaultyPacket:
    """A packet and the run in which it had a fault. value: in the base unit of the figure's quantity."""

    number: int
    panel: str
    status: str
    value: float | None


def draw_faults(
    name: str, done: str, quantity: str, unit: str, packets: Sequence[FaultyPacket], base: float | None
) -> Chart | None:
    """Return a plot for each panel, such as a path and direction; None without a value.

    done: the fault, as in "lost". base: the value without faults.
    """
    known = [one for one in packets if one.value is not None]
    if not known:
        return None
    ends = [float(min(one.number for one in packets)), float(max(one.number for one in packets))]
    panels = []
    for title in dict.fromkeys(one.panel for one in known):
        series = [] if base is None else [Series(BASE[0], BASE[1], _along(ends), [base] * len(_along(ends)))]
        for status, (label, tone, mark) in LOOKS.items():
            mine = [one for one in known if (one.panel, one.status) == (title, status)]
            if mine:
                y = [one.value for one in mine if one.value is not None]
                series.append(Series(label, tone, [float(one.number) for one in mine], y, dash=mark))
        panels.append(Panel(title, tuple(series)))
    caption = (
        f"Each mark is a run in which one packet was {done}: the packet's number, and the run's {quantity}. "
        f"The grey marks are the value without faults."
    )
    return Chart(
        name,
        f"Each packet {done} once",
        caption,
        "points",
        ChartAxis("packet", "1"),
        ChartAxis(quantity, unit),
        tuple(panels),
    )


def _along(ends: Sequence[float]) -> list[float]:
    """Return some places along the axis, which show a level."""
    return [ends[0] + (ends[1] - ends[0]) * n / 40 for n in range(41)]
