# SPDX-License-Identifier: Apache-2.0
"""Figures of the effects of a comparison: a row for each metric, with better and worse in shape and colour. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from mprun.metrics.comparison import ComparedMetric
from mprun.model.metric import Metric
from mprun.reports.effect import Rating, effect_of, interval_of_effect, is_dull, judge, label_of
from mprun.reports.figure import Chart, ChartAxis, Panel, Series
from mprun.reports.metrics import choose_main, is_secondary

# The most rows of a figure that a reader can read.
MOST_ROWS = 24
# The label, the colour and the number of the mark of each kind of change.
LOOKS: Mapping[Rating | None, tuple[str, str, int]] = {
    "better": ("better", "p0", 0),
    "worse": ("worse", "p1", 1),
    None: ("neither", "n", 2),
}


def draw_effects(
    pairs: Sequence[tuple[str, Sequence[ComparedMetric]]], first: str, metrics: Mapping[str, Metric]
) -> Iterator[Chart]:
    """Yield a figure of the relative changes, and a figure of the changes of shares, in points.

    pairs: the name of each other side, and its metrics compared with those of the first side.
    """
    for name, title, axis, factor in (
        ("effects", "Change of each metric", ChartAxis("change", "share"), 1.0),
        ("effects-points", "Change of each share", ChartAxis("change", "points"), 100.0),
    ):
        is_share = axis.unit == "points"
        chosen = [(other, _choose(compared, is_share)) for other, compared in pairs]
        counts: dict[str, float] = {}
        for _, found in chosen:
            for one in found:
                row = _row_of(one)
                counts[row] = max(counts.get(row, 0.0), abs(effect_of(one) or 0.0))
        if not counts:
            continue
        order = [_row_of(one) for _, found in chosen for one in found]
        most = sorted(counts, key=lambda row: -counts[row])[:MOST_ROWS]
        rows = [row for row in dict.fromkeys(order) if row in most]
        rows.sort(key=lambda row: -counts[row])
        panels = tuple(Panel(other, tuple(_series(found, rows, factor, metrics))) for other, found in chosen)
        unit = "in points" if is_share else "relative to its value"
        # a single plot has no title
        side = f"of {chosen[0][0]} " if len(chosen) == 1 else ""
        caption = f"The changes {side}against {first} of each metric that clearly differs, {unit}, the largest first."
        if len(counts) > len(rows):
            caption += f" The {len(rows)} largest of {len(counts)}."
        if any(effect_of(one) is not None and interval_of_effect(one) for _, found in chosen for one in found):
            caption += " A line is the interval of a change."
        yield Chart(name, title, caption, "effect", axis, ChartAxis("metric", categories=tuple(rows)), panels)


def _choose(compared: Sequence[ComparedMetric], is_share: bool) -> list[ComparedMetric]:
    """Return the metrics that clearly differ, without those that only explain others if there are too many."""
    found = [one for one in compared if not is_dull(one) and effect_of(one) and (one.symbol == "share") == is_share]
    if len(found) <= MOST_ROWS:
        return found
    main = [one for one in found if not is_secondary(one.metric)]
    names = list(dict.fromkeys(one.metric for one in main))
    if len(main) > MOST_ROWS:
        leading = set(choose_main(names, ()))
        main = [one for one in main if one.metric in leading]
    return main or found


def _row_of(one: ComparedMetric) -> str:
    return f"{one.metric}, {label_of(one.values)}" if one.values else one.metric


def _series(
    found: Sequence[ComparedMetric], rows: Sequence[str], factor: float, metrics: Mapping[str, Metric]
) -> Iterator[Series]:
    for verdict, (label, tone, mark) in LOOKS.items():
        own = [one for one in found if _row_of(one) in rows and judge(one, metrics) == verdict]
        if own:
            positions = [float(rows.index(_row_of(one))) for one in own]
            effects = [factor * (effect_of(one) or 0.0) for one in own]
            intervals = [interval_of_effect(one) or (math.nan, math.nan) for one in own]
            low, high = ([factor * interval[end] for interval in intervals] for end in (0, 1))
            has_any = not all(map(math.isnan, low))
            yield Series(label, tone, effects, positions, low if has_any else (), high if has_any else (), mark)
