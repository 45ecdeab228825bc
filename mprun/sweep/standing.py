# SPDX-License-Identifier: Apache-2.0
"""How far a cell of a sweep is: which of its runs are needed, going by those that have ended. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mprun.analysis.statistics import is_narrow
from mprun.model.spec import Repeat


@dataclass
class Standing:
    """One cell. ended: how its runs ended, by their numbers; values: of the metric that decides, likewise."""

    repeat: Repeat
    ended: dict[int, str] = field(default_factory=dict)
    values: dict[int, float] = field(default_factory=dict)

    def note(self, number: int, summary: Mapping[str, Any]) -> None:
        """A run that has ended."""
        until = self.repeat.until
        self.ended[number] = summary["status"]
        if until is not None and summary["status"] != "error" and until.metric in summary["metrics"]:
            self.values[number] = float(summary["metrics"][until.metric]["value"])

    def is_settled(self, number: int) -> bool:
        """Whether the run of this number is made, or not needed."""
        if number in self.ended or number > self.repeat.most:
            return True
        if self.repeat.until is None or number <= self.repeat.least:
            return False
        # as if runs were made one by one: what decides does not depend on how many are at one time
        return any(self._sufficed(n) for n in range(self.repeat.least, number))

    def may_begin(self, number: int) -> bool:
        """Whether this run is known to be needed: beyond the least number that shows when those before it are over."""
        if self.is_settled(number):
            return False
        return number <= self.repeat.least or all(n in self.ended for n in range(1, number))

    @property
    def is_whole(self) -> bool:
        """Whether all its runs are made, however they ended."""
        return all(number in self.ended for number in range(1, self.needed + 1))

    @property
    def needed(self) -> int:
        """How many runs it needs, as far as is known."""
        if self.repeat.until is None:
            return self.repeat.most
        enough = next((n for n in range(self.repeat.least, self.repeat.most) if self._sufficed(n)), None)
        return enough or min(self.repeat.most, max(self.repeat.least, len(self.ended) + 1))

    def _sufficed(self, count: int) -> bool:
        """Whether the first `count` runs were enough."""
        until = self.repeat.until
        if until is None or any(n not in self.ended for n in range(1, count + 1)):
            return False
        values = [self.values[n] for n in range(1, count + 1) if n in self.values]
        return is_narrow(values, until.confidence, until.within)


def say_progress(standings: Sequence[Standing]) -> str:
    """How far a sweep is, by its cells."""
    return spell_progress([(len(one.ended), one.needed) for one in standings])


def spell_progress(counts: Sequence[tuple[int, int]]) -> str:
    """`24 of 60 runs, 3 of 12 cells whole`. counts: of each cell the runs that have ended, and those it needs."""
    made, needed = (sum(column) for column in zip(*counts, strict=True))
    whole = sum(one >= other for one, other in counts)
    told = f"{made} of {needed} runs"
    return f"{told}, {whole} of {len(counts)} cells whole" if len(counts) > 1 else told
