# SPDX-License-Identifier: Apache-2.0
"""The points that a search tests, as shares of the axes, 0 to 1. Pure, and repeatable for the same answers.

Half of the budget is a Sobol sequence, which covers the conditions evenly. A quarter goes to CMA-ES (Hansen and
Ostermeier, 2001), which begins at the worst point. The rest bisects: it starts at the worst point, changes the value of
one axis only, and finds the value from which on the statement holds. This is done for each axis in both directions. If
nothing is violated, what is left of the budget continues the Sobol sequence. Batches have fixed sizes, so the points do
not depend on the number of CPUs.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal

from mprun.errors import MachineError
from mprun.model.frozen import Frozen
from mprun.model.search_space import Choice, SearchAxis

Point = tuple[float, ...]
Stage = Literal["sample", "worst", "boundary"]
# Returns by how much the statement holds at each point; a violation is negative.
MeasurePoints = Callable[[Stage, Sequence[Point]], Sequence[float]]

BATCH = 8
# The part of each axis within which the optimiser begins.
FIRST_STEP = 0.2
# The halvings between a point that holds and one that does not. Then they differ by a 32nd of their distance.
HALVINGS = 5


class Boundary(Frozen):
    """The place where the statement begins to hold, if only one axis changes from the worst point towards an end.

    - holds: the nearest share of the axis at which it holds; None if it is violated up to the end of the axis.
    - violated: the farthest share at which it is violated.
    """

    axis: int
    is_upper: bool
    holds: float | None
    violated: float


def load_optimiser() -> Any:
    """Return the module pycma. Raises MachineError if it is not installed."""
    with warnings.catch_warnings():
        # it looks for matplotlib's interactive parts
        warnings.simplefilter("ignore")
        try:
            import cma
        except ImportError:
            raise MachineError("mprun search needs pycma: pip install 'mprun[search]', or pip install cma") from None
    return cma


def explore(axes: Sequence[SearchAxis], budget: int, seed: int, test: MeasurePoints) -> list[Boundary]:
    """Test at most `budget` points. Return the boundaries around the worst point; none if nothing is violated."""
    search = _Search(axes, budget, seed, test)
    search.sample()
    search.improve()
    search.sample_on()
    return search.find_edges()


class _Search:
    def __init__(self, axes: Sequence[SearchAxis], budget: int, seed: int, test: MeasurePoints) -> None:
        self._axes = axes
        self._left = budget
        self._budget = budget
        self._seed = seed
        self._test = test
        self.worst: tuple[float, Point] = (math.inf, ())

    def _ask(self, stage: Stage, points: Sequence[Point]) -> list[float]:
        self._left -= len(points)
        values = list(self._test(stage, points))
        for value, point in zip(values, points, strict=True):
            self.worst = min(self.worst, (value, point), key=lambda one: one[0])
        return values

    def sample(self) -> None:
        """Test the Sobol points: a power of two, with which they are balanced."""
        from scipy.stats import qmc

        # the name of the argument differs between versions
        self._sequence = qmc.Sobol(len(self._axes), scramble=True, seed=self._seed)
        self._ask_on(2 ** max(0, int(math.log2(max(1, self._budget // 2)))))

    def _ask_on(self, count: int) -> None:
        self._ask("sample", [tuple(map(float, point)) for point in self._sequence.random(count)])

    def sample_on(self) -> None:
        """Test further Sobol points with what is left of the budget if nothing is violated."""
        if self._left > 0 and self.worst[0] >= 0:
            self._ask_on(self._left)

    def improve(self) -> None:
        """Look for worse points near the worst one."""
        cma = load_optimiser()
        least_left = self._budget // 4 if self.worst[0] < 0 else 0
        round_ = 0
        while self._left - BATCH >= least_left:
            round_ += 1
            options = {"bounds": [0, 1], "popsize": BATCH, "seed": self._seed + round_, "verbose": -9}
            strategy = cma.CMAEvolutionStrategy(list(self.worst[1]), FIRST_STEP, options)
            while self._left - BATCH >= least_left and not strategy.stop():
                asked = strategy.ask()
                points = [tuple(min(1.0, max(0.0, float(share))) for share in one) for one in asked]
                strategy.tell(asked, self._ask("worst", points))
                least_left = self._budget // 4 if self.worst[0] < 0 else 0

    def find_edges(self) -> list[Boundary]:
        """Bisect along each axis, in both directions, from the worst point. Begin again if an end is worse.

        An axis is left out if the other axes have other values at the worst point.
        """
        value, at = self.worst
        if value >= 0:
            return []
        spans = [n for n, axis in enumerate(self._axes) if not isinstance(axis, Choice)]
        ways = [(n, is_upper) for n in spans for is_upper in (False, True)]
        # an end that is the worst point itself is known
        ends = {way: float(way[1]) for way in ways if at[way[0]] != float(way[1])}
        if len(ends) > self._left:
            return []
        values = dict(
            zip(ends, self._ask("boundary", [_moved(at, n, end) for (n, _), end in ends.items()]), strict=True)
        )
        if self.worst[1] != at and len(ends) <= self._left:
            return self.find_edges()
        holds = {way: ends[way] for way in ends if values[way] >= 0}
        violated = {way: at[way[0]] if way in holds else float(way[1]) for way in ways}
        for _ in range(HALVINGS):
            if not holds or len(holds) > self._left:
                break
            middles = {way: (holds[way] + violated[way]) / 2 for way in holds}
            found = self._ask("boundary", [_moved(at, n, middle) for (n, _), middle in middles.items()])
            for way, one in zip(middles, found, strict=True):
                (holds if one >= 0 else violated)[way] = middles[way]
        # a worse point that was met on the way is on one of the axes only
        worst = self.worst[1]
        return [
            Boundary(n, is_upper, holds.get((n, is_upper)), violated[n, is_upper])
            for n, is_upper in ways
            if _moved(at, n, worst[n]) == worst
        ]


def _moved(point: Point, axis: int, share: float) -> Point:
    return (*point[:axis], share, *point[axis + 1 :])
