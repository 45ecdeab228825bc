# SPDX-License-Identifier: Apache-2.0
"""The figure of published and measured values beside each other. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import fill

from mprun.reports.figure import Chart, ChartAxis, Panel, Series

# The letters in a line below a bar, for a whole figure.
LETTERS = 72


@dataclass(frozen=True)
class PublishedPair:
    """A value of a publication and of a run, in base units. None: unknown."""

    label: str
    published: float | None
    here: float | None


def draw_pairs(name: str, title: str, quantity: str, unit: str, pairs: Sequence[PublishedPair]) -> Chart | None:
    """Return bars of both values of each pair; None if no value is known. unit: the base unit."""
    width = max(8, LETTERS // max(len(pairs), 1))
    names = tuple(fill(pair.label, width, break_long_words=False) for pair in pairs)
    sides = (
        ("published", "f4", [pair.published for pair in pairs]),
        ("here", "f0", [pair.here for pair in pairs]),
    )
    series = [
        Series(label, tone, range(len(pairs)), [math.nan if value is None else value for value in values])
        for label, tone, values in sides
        if any(value is not None for value in values)
    ]
    if not series:
        return None
    return Chart(
        name, title, "", "bar", ChartAxis("", categories=names), ChartAxis(quantity, unit), (Panel("", tuple(series)),)
    )
