# SPDX-License-Identifier: Apache-2.0
"""The map of a search: where the statement holds and where it does not, over pairs of axes. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from mprun.model.axis import read_number
from mprun.model.scalar import Scalar, spell_scalar
from mprun.model.search_space import Choice, Search, SearchAxis
from mprun.reports.figure import Chart, ChartAxis, Panel, Series

# The label, the colour and the number of the mark of each verdict.
LOOKS = {
    "holds": ("holds", "p0", 0),
    "violated": ("violated", "p1", 1),
    "control": ("a control fails too", "n", 2),
    "floor": ("below a floor", "n", 3),
}
WORST = ("worst point", "f1", 3)
# The pairs of more axes than this would be too many figures.
MOST_AXES = 3
_TITLE = "Where the statement holds"


@dataclass(frozen=True)
class TestedPoint:
    """A point and its outcome. verdict: a key of `LOOKS`. margin: by how much the statement holds."""

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
    for verdict, look in LOOKS.items():
        mine = [position(one) for one in tested if one.verdict == verdict]
        series.append(_of(look, mine))
    if worst is not None:
        series.append(_of(WORST, [position(worst)]))
    return tuple(one for one in series if one.x)


def _of(look: tuple[str, str, int], positions: list[tuple[float, float]]) -> Series:
    return Series(look[0], look[1], [x for x, _ in positions], [y for _, y in positions], dash=look[2])
