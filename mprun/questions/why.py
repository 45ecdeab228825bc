# SPDX-License-Identifier: Apache-2.0
"""Find the time from which a failure of a run was inevitable.

The run is repeated with other random numbers from a time on. If this time is before the cause, some of these runs do
not fail. If it is after the cause, all of them fail. The share of failed runs is the probability of the failure, given
all that had happened until this time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from mprun.errors import SpecError
from mprun.inputs.loading import Loaded
from mprun.model.frozen import Frozen
from mprun.model.grouping import gather
from mprun.model.run_summary import MetricValue
from mprun.model.spec import Reseed
from mprun.questions.bisect import judge_run
from mprun.questions.minimise import RunFailure, has_failed
from mprun.statements.expression import Expression
from mprun.storage.sweep_directory import Kept
from mprun.sweeps.growth import RunCases
from mprun.sweeps.study import as_case
from mprun.workloads import tool

TABLE = "why"
# The axes of the sweep: the time from which the random numbers are others, and their seed.
FROM, SEED = "from", "seed"
# In place of a seed, for the random numbers of the run itself.
OWN = 0
# The parts of the run at whose ends its random numbers change first.
PARTS = 4
# The seeds that show first if other random numbers change anything. Without a change, no more runs are made.
FIRST = 2
# An interval that is shorter than this is not halved.
SHORTEST_NS = 1_000_000
# The number of standard deviations of an interval of 95 %.
Z = 1.96


class ReseedMoment(Frozen):
    """A time, the number of runs whose random numbers are others from then on, and how many of these failed."""

    at_ns: int
    failed: int
    count: int

    @property
    def share(self) -> float:
        return self.failed / self.count

    @property
    def interval(self) -> tuple[float, float]:
        """The interval of 95 % of the probability (Wilson, 1927)."""
        n, p = self.count, self.share
        middle = (p + Z * Z / (2 * n)) / (1 + Z * Z / n)
        half = Z / (1 + Z * Z / n) * math.sqrt(p * (1 - p) / n + Z * Z / (4 * n * n))
        return max(0.0, middle - half), min(1.0, middle + half)


class Explained(Frozen):
    """The moments in order of time. The failure became inevitable between `before` and `after`, if they are not None.

    is_drawn: False if other random numbers change no metric at all.
    """

    moments: tuple[ReseedMoment, ...]
    before: ReseedMoment | None
    after: ReseedMoment | None
    is_drawn: bool


class WhyQuestion(Frozen):
    """The failure to explain: of a run, or a statement that is true in it."""

    failure: RunFailure | None
    fail_if: Expression | None

    def has_failed(self, kept: Kept) -> bool:
        """Return whether a run has the failure."""
        if self.fail_if is not None:
            return judge_run(kept.run, kept.summary, self.fail_if).term == "bad"
        assert self.failure is not None
        return has_failed(self.failure, kept.summary)


def explain(
    loaded: Loaded,
    question: WhyQuestion,
    end_ns: int,
    count: int,
    steps: int,
    run_cases: RunCases,
    own: Mapping[str, MetricValue],
) -> Explained:
    """Find when a failure became inevitable.

    end_ns: of the run, from time zero. count: the runs for each time. steps: the number of times that the interval with
    the largest rise is halved. own: the metrics of the run itself. Raises SpecError if the run does not fail again.
    """
    asked = _Asked(loaded, question, run_cases)
    asked.ask([0], min(FIRST, count))
    if asked.is_same_as(own):
        return Explained(tuple(asked.moments()), None, None, False)
    asked.ask([end_ns * part // PARTS for part in range(PARTS)], count)
    # the share at the end is 1 only if the run fails again on this kernel, with the programs of now
    if asked.moments()[-1].share < 1 and not asked.fails_again(end_ns):
        told = "with its own random numbers, the run does not have this failure again"
        raise SpecError(f"{told}: `mprun verify` shows what made it then, and is different now")
    for _ in range(steps):
        span = find_rise(asked.moments(), end_ns)
        if span is None or span[1] - span[0] < 2 * SHORTEST_NS:
            break
        middle = (span[0] + span[1]) // 2
        asked.ask([middle - middle % SHORTEST_NS], count)
    moments = tuple(asked.moments())
    span = find_rise(moments, end_ns)
    if span is None:
        return Explained(moments, None, None, True)
    before = next(one for one in moments if one.at_ns == span[0])
    # at the end of the run nothing is left to draw
    after = next((one for one in moments if one.at_ns == span[1]), ReseedMoment(end_ns, count, count))
    return Explained(moments, before, after, True)


def find_rise(moments: Sequence[ReseedMoment], end_ns: int) -> tuple[int, int] | None:
    """Return the neighbouring times with the largest rise of the share, which ends at 1; None if it never rises."""
    ends = [*((one.at_ns, one.share) for one in moments), (end_ns, 1.0)]
    rises = [(later[1] - earlier[1], -earlier[0], later[0]) for earlier, later in pairwise(ends)]
    largest = max(rises)
    return None if largest[0] <= 0 else (-largest[1], largest[2])


class _Asked:
    def __init__(self, loaded: Loaded, question: WhyQuestion, run_cases: RunCases) -> None:
        self._loaded = loaded
        self._question = question
        self._run_cases = run_cases
        # the time and the seed of each cell, in the order of the cells
        self._cells: list[tuple[int, int]] = []
        self._runs: list[Kept] = []

    def ask(self, times: Sequence[int], count: int) -> None:
        """Run this number of seeds at each time, except for those that have run."""
        wanted = [(at_ns, seed) for at_ns in times for seed in range(1, count + 1)]
        new = [cell for cell in wanted if cell not in self._cells]
        if new:
            self._cells += new
            # the files with other random numbers from a time on
            cells = [
                as_case(self._loaded, ((FROM, f"{at_ns}ns"), (SEED, seed)), reseed=Reseed(at_ns, seed))
                for at_ns, seed in new
            ]
            self._runs = sorted(self._run_cases(cells), key=lambda kept: kept.cell)

    def fails_again(self, end_ns: int) -> bool:
        """Repeat the run with its own random numbers until its end. Return whether it has the failure."""
        self._cells.append((end_ns, OWN))
        own = as_case(self._loaded, ((FROM, f"{end_ns}ns"), (SEED, OWN)))
        self._runs = sorted(self._run_cases([own]), key=lambda kept: kept.cell)
        return self._question.has_failed(self._runs[-1])

    def is_same_as(self, own: Mapping[str, MetricValue]) -> bool:
        return all(kept.summary.metrics == own for kept in self._runs)

    def moments(self) -> list[ReseedMoment]:
        """Return the moments in order of time."""
        pairs = zip(self._cells, self._runs, strict=True)
        by_time = gather((at_ns, kept) for (at_ns, seed), kept in pairs if seed != OWN)
        return [
            ReseedMoment(at_ns, sum(map(self._question.has_failed, mine)), len(mine))
            for at_ns, mine in sorted(by_time.items())
        ]


def tabulate(explained: Explained) -> dict[str, list[Any]]:
    rows = ((one.at_ns, one.count, one.failed, one.share, *one.interval) for one in explained.moments)
    return tool.tabulate(("from_ns", "runs", "failed", "share", "low", "high"), rows)
