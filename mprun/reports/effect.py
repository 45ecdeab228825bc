# SPDX-License-Identifier: Apache-2.0
"""The effect of a change on a metric: its size, its direction, whether it is an improvement, its text and figure. Pure.

`mprun.metrics.comparison` measures the values. The terminal and the page of a comparison show what is here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from mprun.metrics.comparison import RUNS, ComparedMetric, Expected, Tendency
from mprun.model.frozen import Frozen
from mprun.model.grouping import gather
from mprun.model.metric import Metric
from mprun.model.scalar import Scalar, spell_values
from mprun.model.units import format_measured
from mprun.reports.figure import Chart, ChartAxis, Panel, Series
from mprun.reports.metrics import MOST_MAIN, STATISTICS, choose_main, format_bound, is_secondary
from mprun.safety.cell import MISSING
from mprun.safety.text import plain

# A smaller change between single runs is called equal: a part of the value, or of the whole for a share. Another seed
# changes more. For a share it must also be less than this part of the larger share: 0.1 and 0.4 % of loss differ.
LEAST_CHANGE = 0.005
LEAST_PART_OF_SHARE = 0.5
# A ratio over less than this share of the other side is not shown.
NEARLY_NOTHING = 0.01

Rating = Literal["better", "worse"]
MARKS: Mapping[Tendency, str] = {"higher": "▲", "lower": "▼", "same": "=", "unclear": "~", "unknown": ""}


class SideValue(Frozen):
    """A metric of a side of a comparison, and its change against the first side.

    - sign: of `MARKS`.
    - effect: a relative change, or points of a share.
    - interval: of the effect, or else of the difference.
    - judgement: better, worse or empty.
    - note: the runs that are not compared.
    """

    measured: str
    sign: str = ""
    effect: str = ""
    interval: str = ""
    judgement: str = ""
    note: str = ""


def value_of(one: ComparedMetric, metrics: Mapping[str, Metric], sides: Sequence[str] = "AB") -> SideValue:
    """Return a metric of the second side in words. metrics: the definitions by name. sides: their names."""
    measured = say_value(one.second, one.symbol)
    if one.first is None or one.second is None:
        return SideValue(measured)
    if one.tendency == "same":
        effect = interval = ""
    else:
        effect, interval = "equal" if _is_equal(one) else say_effect(one), say_interval(one)
    note = ""
    if any(one.left_out):
        left = " and ".join(f"{count} of {side}" for side, count in zip(sides, one.left_out, strict=True) if count)
        note = f"({one.counts[0]} pairs; {left} without partner left out)"
    return SideValue(measured, MARKS[one.tendency], effect, interval, judge(one, metrics) or "", note)


def say_value(value: float | None, symbol: str) -> str:
    """Return a measured value as text; a dash if it is missing."""
    return MISSING if value is None else format_measured(value, symbol)


def say_change(one: ComparedMetric, metrics: Mapping[str, Metric], sides: Sequence[str] = "AB") -> str:
    """Return `18.89 Mbit/s -> 36.93 Mbit/s  +95.48%  better`, with the interval if there is one. sides: their names."""
    value = value_of(one, metrics, sides)
    change = f"{say_value(one.first, one.symbol)} -> {value.measured}"
    return "  ".join(filter(None, (change, value.effect, value.interval, value.judgement, value.note)))


def say_certainty(compared: Sequence[ComparedMetric]) -> str:
    """Return how certain the differences are: the meaning of the marks, or that the effect of seeds is not known."""
    shared = [one for one in compared if None not in (one.first, one.second)]
    intervals = [one.difference.interval for one in shared if one.difference is not None and one.tendency != "same"]
    if not intervals:
        is_alone = any(one.tendency == "unknown" for one in shared)
        single = "one run on each side: the effect of another seed is not known; `repeat: {runs: 5}` measures it"
        return single if is_alone else ""
    confidence = intervals[0].confidence
    by_chance = len(intervals) * (1 - confidence)
    rest = len(shared) - len(intervals)
    others = f" (others, equal or without an interval: {rest})" if rest else ""
    return (
        f"▲ ▼ the interval of {confidence * 100:.0f} % leaves zero out, ~ it does not; of {len(intervals)} such "
        f"comparisons{others} {by_chance:.{1 if by_chance >= 0.1 else 2}f} come out ▲ or ▼ by chance alone"
    )


def effect_of(one: ComparedMetric) -> float | None:
    """Return the difference of two shares, or else the relative change; None for a change from nearly nothing."""
    if one.first is None or one.second is None:
        return None
    if one.symbol == "share":
        return one.second - one.first
    return None if abs(one.first) < NEARLY_NOTHING * abs(one.second) else one.change


# A change by this factor or more is shown in whole percent.
MANY_TIMES = 10


def say_effect(one: ComparedMetric) -> str:
    """Return a change as text; empty if a side does not have the metric."""
    effect = effect_of(one)
    if effect is None:
        return "" if None in (one.first, one.second) else "from nearly nothing"
    if one.symbol == "share":
        points = effect * 100
        return f"{points:+.1f} points" if abs(points) >= 0.05 or not points else f"{points:+.1g} points"
    return f"{effect:+.2%}" if abs(effect) < MANY_TIMES else f"{effect:+.0%}"


def judge(one: ComparedMetric, metrics: Mapping[str, Metric]) -> Rating | None:
    """Return whether a change is an improvement. None: it is not clear, or the metric has no direction.

    The values alone decide if a side has only one run. metrics: the definitions by name.
    """
    better = metrics[one.metric].better if one.metric in metrics else None
    if better is None or one.first is None or one.second is None or is_dull(one):
        return None
    return "better" if (one.second > one.first) == (better == "higher") else "worse"


def leave_out_repeated(compared: Sequence[ComparedMetric]) -> list[ComparedMetric]:
    """Return metrics without the statistics, such as a median, that equal another one before them on both sides."""
    seen, kept = set(), []
    for one in compared:
        stem, _, statistic = one.metric.rpartition(".")
        found = (label_of(one.values), stem, one.first, one.second)
        if found not in seen or statistic not in STATISTICS:
            kept.append(one)
        seen.add(found)
    return kept


def is_dull(one: ComparedMetric) -> bool:
    """Return True if the sides do not clearly differ."""
    return one.tendency in ("same", "unclear") or _is_equal(one)


def _is_equal(one: ComparedMetric) -> bool:
    """Return True for single runs whose difference is too small to matter."""
    effect = effect_of(one)
    if one.tendency != "unknown" or effect is None or abs(effect) >= LEAST_CHANGE:
        return False
    largest = max(abs(one.first or 0.0), abs(one.second or 0.0))
    return one.symbol != "share" or effect == 0 or abs(effect) < LEAST_PART_OF_SHARE * largest


def order_by_effect(compared: Sequence[ComparedMetric]) -> list[ComparedMetric]:
    """Return the metrics of each cell: the largest change first, then changes from nearly nothing, then no changes."""
    cells = gather((label_of(one.values), one) for one in compared)
    return [one for own in cells.values() for one in sorted(own, key=_rank)]


def _rank(one: ComparedMetric) -> tuple[int, float]:
    effect = effect_of(one)
    if effect:
        return 0, -abs(effect)
    return (1 if effect is None and None not in (one.first, one.second) and one.first != one.second else 2), 0.0


def choose_changed(
    compared: Sequence[ComparedMetric], expected: Sequence[Expected], shown: Sequence[str] = ()
) -> list[tuple[str, list[ComparedMetric], int]]:
    """Return the main metrics that clearly differ: the name, the cells that differ, and the number of all cells.

    Those that the files show (shown) and those with an expectation come first.
    """
    by_metric = gather((one.metric, one) for one in compared if None not in (one.first, one.second))
    named = dict.fromkeys((*shown, *(str(one.expectation.get("metric")) for one in expected)))
    own_values = {one.metric for one in leave_out_repeated(compared)}
    # the cells in which a metric clearly differs, and not from nearly nothing
    differing = {
        metric: [one for one in own if not is_dull(one) and effect_of(one) is not None]
        for metric, own in by_metric.items()
        if metric in own_values or metric in named
    }
    changed = {metric: changes for metric, changes in differing.items() if changes}
    asked = [name for name in named if name in changed]
    main = [*asked, *(name for name in choose_main(list(changed), asked) if name not in asked)]
    main = [name for name in main if name in asked or not is_secondary(name)]
    others = [name for name in changed if name not in main and not is_secondary(name)]
    others.sort(key=lambda name: -max(abs(effect_of(one) or 0.0) for one in changed[name]))
    return [(metric, changed[metric], len(by_metric[metric])) for metric in [*main, *others][:MOST_MAIN]]


def say_briefly(
    compared: Sequence[ComparedMetric], expected: Sequence[Expected], shown: Sequence[str] = ()
) -> Iterator[str]:
    """Yield a line for each of the main metrics that clearly differ: by how much, and in how many cells."""
    for metric, changes, total in choose_changed(compared, expected, shown):
        yield plain(f"{metric}: {' '.join(filter(None, say_range(changes, total)))}")


def say_range(changes: Sequence[ComparedMetric], total: int) -> tuple[str, str]:
    """Return the smallest and the largest change as text, and in how many cells they are; empty for a single cell."""
    ordered = sorted(changes, key=lambda one: effect_of(one) or 0.0)
    ends = dict.fromkeys((say_effect(ordered[0]), say_effect(ordered[-1])))
    count = "all" if len(changes) == total else f"{len(changes)} of"
    return " to ".join(ends), f"in {count} {total} cells" if total > 1 else ""


def say_fact(value: object) -> str:
    """Return a fact of a side, such as a parameter; a dash for a fact that the side does not have."""
    return "-" if value is None else str(value)


def interval_of_effect(one: ComparedMetric) -> tuple[float, float] | None:
    """Return the interval of `effect_of`: of a difference of shares, or of a relative change."""
    if effect_of(one) is None:
        return None
    if one.symbol == "share":
        found = one.difference and one.difference.interval
        return (found.low, found.high) if found else None
    if one.ratio is None or one.difference is None or not one.first:
        return None
    low, high = one.ratio.interval.low - 1, one.ratio.interval.high - 1
    # the difference decides if a change is clear, and the interval of a ratio may say the opposite
    return None if (low <= 0 <= high) == one.difference.is_clear else (low, high)


def say_interval(one: ComparedMetric) -> str:
    """Return the interval of a relative change, or else of a difference; empty without one."""
    relative = interval_of_effect(one)
    if relative is not None and one.symbol != "share" and effect_of(one):
        low, high = relative
        return f"[{low:+.2%}, {high:+.2%}]" if high > low else ""
    if one.difference is None:
        return ""
    if one.symbol == "share":
        low, high = (end * 100 for end in (one.difference.interval.low, one.difference.interval.high))
        return f"difference [{low:+.1f}, {high:+.1f}] points"
    ends = (format_measured(end, one.symbol) for end in (one.difference.interval.low, one.difference.interval.high))
    return f"difference [{', '.join(ends)}]"


def say_expected(one: Expected, units: Mapping[str, str]) -> str:
    """Return an expectation with its bounds, or a statement. units: the symbols of metrics by name."""
    where = f"{label_of(one.values)}: " if one.values else ""
    if "holds" in one.expectation:
        return plain(str(one.expectation["holds"]))
    metric = str(one.expectation["metric"])
    if metric == RUNS:
        return f"{where}runs did what was asked"
    return f"{where}{plain(metric)} {format_bound(one.expectation, units.get(metric, '1'))}"


def say_held(one: Expected, sides: Sequence[str] = "AB") -> str:
    """Return if a statement holds on each side, or in how many runs an expectation holds. sides: their names."""
    told = []
    for side, counts in zip(sides, (one.first, one.second), strict=True):
        if counts is not None:
            what = f"{counts[0]} of {counts[1]}"
            if "holds" in one.expectation:
                what = "holds" if counts[0] else "does not hold" if counts[1] else "is not known yet"
            told.append(f"{what} in {side}")
    if len(told) < 2:
        told.append(f"not expected in {sides[0] if one.first is None else sides[1]}")
    return ", ".join(told)


def is_news(one: Expected) -> bool:
    """Return True if an expectation does not hold in all runs of a side, or a statement cannot be judged yet."""
    counts = [side for side in (one.first, one.second) if side is not None]
    return any(held < of for held, of in counts) or ("holds" in one.expectation and (0, 0) in counts)


def label_of(values: Mapping[str, Scalar]) -> str:
    """Return the values of a cell as text; `run` without any."""
    return plain(spell_values(values) or "run")


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
        chosen = [(other, _choose_rows(compared, is_share)) for other, compared in pairs]
        counts: dict[str, float] = {}
        for _, found in chosen:
            for one in found:
                row = _row_of(one)
                counts[row] = max(counts.get(row, 0.0), abs(effect_of(one) or 0.0))
        if not counts:
            continue
        rows = sorted(counts, key=lambda row: -counts[row])[:MOST_ROWS]
        panels = tuple(Panel(other, tuple(_series(found, rows, factor, metrics))) for other, found in chosen)
        unit = "in points" if is_share else "relative to its value"
        is_certain = any(one.difference is not None for _, found in chosen for one in found)
        differs = "clearly differs" if is_certain else "differs"
        # a single plot has no title
        side = f"of {chosen[0][0]} " if len(chosen) == 1 else ""
        caption = f"The changes {side}against {first} of each metric that {differs}, {unit}, the largest first."
        if len(counts) > len(rows):
            caption += f" The {len(rows)} largest of {len(counts)}."
        if any(effect_of(one) is not None and interval_of_effect(one) for _, found in chosen for one in found):
            caption += " A line is the interval of a change."
        yield Chart(name, title, caption, "effect", axis, ChartAxis("metric", categories=tuple(rows)), panels)


def _choose_rows(compared: Sequence[ComparedMetric], is_share: bool) -> list[ComparedMetric]:
    """Return the metrics that clearly differ, without those that only explain others if there are too many."""
    own = leave_out_repeated(compared)
    found = [one for one in own if not is_dull(one) and effect_of(one) and (one.symbol == "share") == is_share]
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
