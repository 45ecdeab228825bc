# SPDX-License-Identifier: Apache-2.0
"""Figures of the answers to questions about an experiment. Pure.

- `draw_search`: the map of a search: where the statement holds and where it does not, over pairs of axes.
- `draw_faults`: for each packet, what its fault made of the run.
- `draw_why`: the probability of a failure, over the time from which a run has other random numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations

from mprun.model.axis import read_number
from mprun.model.frozen import dataclass
from mprun.model.scalar import Scalar, spell_scalar
from mprun.model.search_space import Choice, Search, SearchAxis
from mprun.reports.figure import TIME, Chart, ChartAxis, Mark, Panel, Series

# The label, the colour and the number of the mark of each verdict of a point, and of each status of a run.
VERDICT_LOOKS = {
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


@dataclass(frozen=True)
class TestedPoint:
    """A point and its outcome. verdict: a key of `VERDICT_LOOKS`. margin: by how much the statement holds."""

    values: Mapping[str, Scalar]
    verdict: str
    margin: float


def draw_search(search: Search, tested: Sequence[TestedPoint], worst: TestedPoint | None) -> list[Chart]:
    """Return a figure for each pair of the first axes. With one axis, the margin is on the y axis."""
    axes = search.axes[:MOST_AXES]
    caption = f"Each mark is a point of the search, and what became there of: {search.violate}"
    if len(axes) == 1:
        x = axes[0]
        panel = Panel("", _series(tested, worst, lambda one: (_position(x, one), one.margin)))
        return [Chart("search", _TITLE, caption, "points", _axis(x), ChartAxis("margin", "share"), (panel,))]
    pairs = list(combinations(axes, 2))
    return [
        Chart(
            "search" if len(pairs) == 1 else f"search-{number}",
            _TITLE,
            caption,
            "points",
            _axis(x),
            _axis(y),
            (Panel("", _series(tested, worst, lambda one, x=x, y=y: (_position(x, one), _position(y, one)))),),  # type: ignore[misc]
        )
        for number, (x, y) in enumerate(pairs, 1)
    ]


def _axis(varied: SearchAxis) -> ChartAxis:
    if isinstance(varied, Choice):
        return ChartAxis(varied.name, categories=tuple(map(spell_scalar, varied.values)))
    first = read_number(varied.value_at(0))
    return ChartAxis(varied.name, first[1] if first else "1", "log" if varied.is_log else "linear")


def _position(varied: SearchAxis, one: TestedPoint) -> float:
    """Return the place of a point on an axis, in base units; of a choice its number."""
    value = one.values[varied.name]
    if isinstance(varied, Choice):
        return float(varied.values.index(value))
    number = read_number(value)
    return number[0] if number else 0.0


def _series(
    tested: Sequence[TestedPoint], worst: TestedPoint | None, position: Callable[[TestedPoint], tuple[float, float]]
) -> tuple[Series, ...]:
    """Return a series for each verdict, and one for the worst point."""
    series = []
    for verdict, look in VERDICT_LOOKS.items():
        mine = [position(one) for one in tested if one.verdict == verdict]
        series.append(_of(look, mine))
    if worst is not None:
        series.append(_of(WORST, [position(worst)]))
    return tuple(one for one in series if one.x)


def _of(look: tuple[str, str, int], positions: Sequence[tuple[float, float]]) -> Series:
    return Series(look[0], look[1], [x for x, _ in positions], [y for _, y in positions], dash=look[2])


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
    known = [(one.number, one.value, one.panel, one.status) for one in packets if one.value is not None]
    if not known:
        return None
    ends = [float(min(one.number for one in packets)), float(max(one.number for one in packets))]
    panels = []
    for title in dict.fromkeys(panel for *_, panel, _ in known):
        series = [] if base is None else [_of(BASE, [(at, base) for at in _along(ends)])]
        for status, look in STATUS_LOOKS.items():
            mine = [(float(number), value) for number, value, *key in known if key == [title, status]]
            series.append(_of(look, mine))
        panels.append(Panel(title, tuple(one for one in series if one.x)))
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
