# SPDX-License-Identifier: Apache-2.0
"""Figures of the answers to questions about an experiment. Pure.

- `draw_search`: the map of a search: where the statement holds and where it does not, over pairs of axes.
- `draw_faults`: for each packet, what its fault made of the run.
- `draw_why`: the probability of a failure, over the time from which a run has other random numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations

from mprun.model.axis import read_number
from mprun.model.grouping import gather
from mprun.model.scalar import spell_scalar
from mprun.model.search_space import Choice, Search, SearchAxis
from mprun.model.units import NS_PER_S
from mprun.questions.faulted_run import FaultedRun
from mprun.questions.search import PointKind, SearchedPoint, SearchResult
from mprun.questions.why import Explained
from mprun.reports.figure import TIME, Chart, ChartAxis, Mark, Panel, Series

# The label, the colour and the number of the mark of each verdict of a point, and of each status of a run.
VERDICT_LOOKS: Mapping[PointKind, tuple[str, str, int]] = {
    "holds": ("holds", "p0", 0),
    "violated": ("violated", "p1", 1),
    "control": ("a control fails too", "n", 2),
    "floor": ("below a floor", "n", 3),
}
WORST = ("worst point", "f1", 3)
STATUS_LOOKS = {"passed": ("passed", "p0", 0), "failed": ("failed", "p1", 1), "error": ("error", "f1", 2)}
BASE = ("no fault", "n", 0)
# The pairs of more axes than this would be too many figures.
MOST_AXES = 3
_TITLE = "Where the statement holds"


def draw_search(search: Search, found: SearchResult) -> list[Chart]:
    """Return a figure for each pair of the first axes. With one axis, the margin is on the y axis."""
    axes = search.axes[:MOST_AXES]
    caption = f"Each mark is a point of the search, and what became there of: {search.violate}"

    def draw(name: str, x: SearchAxis, y: SearchAxis | None) -> Chart:
        series = _series(found, lambda one: (_position(x, one), _position(y, one) if y else one.margin))
        up = _axis(y) if y else ChartAxis("margin", "share")
        return Chart(name, _TITLE, caption, "points", _axis(x), up, (Panel("", series),))

    pairs = list(combinations(axes, 2))
    if len(pairs) > 1:
        return [draw(f"search-{number}", x, y) for number, (x, y) in enumerate(pairs, 1)]
    return [draw("search", axes[0], axes[1] if pairs else None)]


def _axis(varied: SearchAxis) -> ChartAxis:
    if isinstance(varied, Choice):
        return ChartAxis(varied.name, categories=tuple(map(spell_scalar, varied.values)))
    first = read_number(varied.value_at(0))
    return ChartAxis(varied.name, first[1] if first else "1", "log" if varied.is_log else "linear")


def _position(varied: SearchAxis, one: SearchedPoint) -> float:
    """Return the place of a point on an axis, in base units; of a choice its number."""
    value = one.values[varied.name]
    if isinstance(varied, Choice):
        return float(varied.values.index(value))
    number = read_number(value)
    return number[0] if number else 0.0


def _series(found: SearchResult, position: Callable[[SearchedPoint], tuple[float, float]]) -> tuple[Series, ...]:
    """Return a series for each verdict, and one for the worst point."""
    looks = [(look, [one for one in found.tested if one.kind == kind]) for kind, look in VERDICT_LOOKS.items()]
    looks.append((WORST, [found.worst] if found.worst else []))
    return tuple(_of(look, [position(one) for one in points]) for look, points in looks if points)


def _of(look: tuple[str, str, int], positions: Sequence[tuple[float, float]]) -> Series:
    return Series(look[0], look[1], [x for x, _ in positions], [y for _, y in positions], dash=look[2])


def draw_faults(done: str, quantity: str, unit: str, faulted: Sequence[FaultedRun], base: float | None) -> Chart | None:
    """Return a plot for each path and direction; None without a value. done: as in "lost". base: without faults."""
    known = [one for one in faulted if one.value is not None]
    if not known:
        return None
    numbers = [one.packet.number for one in faulted]
    first, last = min(numbers), max(numbers)
    # some places along the axis show a level
    level = [] if base is None else [_of(BASE, [(first + (last - first) * n / 40, base) for n in range(41)])]
    panels = gather((f"{one.packet.path} {one.packet.way}", one) for one in known)
    caption = (
        f"Each mark is a run in which one packet was {done}: the packet's number, and the run's {quantity}. "
        f"The grey marks are the value without faults."
    )
    plots = tuple(Panel(title, (*level, *_by_status(own))) for title, own in panels.items())
    along, up = ChartAxis("packet", "1"), ChartAxis(quantity, unit)
    return Chart("faults", f"Each packet {done} once", caption, "points", along, up, plots)


def _by_status(faulted: Sequence[FaultedRun]) -> Iterator[Series]:
    for status, look in STATUS_LOOKS.items():
        if mine := [(float(one.packet.number), one.value or 0.0) for one in faulted if one.status == status]:
            yield _of(look, mine)


def draw_why(failure: str, explained: Explained, end_ns: int) -> Chart:
    """Return the probability over time. At the end of the run, it is 1."""
    points = [(one.at_ns / NS_PER_S, one.share, *one.interval) for one in explained.moments]
    at_s, shares, low, high = zip(*points, (end_ns / NS_PER_S, 1.0, 1.0, 1.0), strict=True)
    series = Series("runs that failed", "p1", at_s, shares, low, high)
    caption = (
        f"The share of the runs with '{failure}', if all random numbers from this time on are others, with its "
        "interval of 95 %. At the end of the run nothing is left to draw."
    )
    marks = () if explained.after is None else (Mark(explained.after.at_ns / NS_PER_S, "inevitable from here on"),)
    title, axis = "When the failure became inevitable", ChartAxis("probability", "share")
    return Chart("why", title, caption, "line", TIME, axis, (Panel("", (series,)),), marks)
