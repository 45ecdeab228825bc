# SPDX-License-Identifier: Apache-2.0
"""The progress of a cell of a sweep: which runs it still needs, given the runs that have ended. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from mprun.metrics.statistics import is_narrow
from mprun.model.run_summary import Summary
from mprun.model.spec import ExperimentSpec
from mprun.model.sweep_files import CellRepeat


@dataclass
class CellProgress:
    """The state of a cell.

    - ended: the status of its runs, by their numbers.
    - values: the value of the metric that decides, by the runs' numbers.
    """

    repeat: CellRepeat
    ended: dict[int, str] = field(default_factory=dict)
    values: dict[int, float] = field(default_factory=dict)

    def note(self, number: int, summary: Summary) -> None:
        until = self.repeat.until
        self.ended[number] = summary.status
        if until is not None and summary.status != "error" and until.metric in summary.metrics:
            self.values[number] = float(summary.metrics[until.metric].value)

    def is_settled(self, number: int) -> bool:
        """Return True if the run of this number is made, or is not needed."""
        if number in self.ended or number > self.repeat.most:
            return True
        if self.repeat.until is None or number <= self.repeat.least:
            return False
        # as if runs were made one by one: the decision does not depend on the number of concurrent runs
        return any(self._sufficed(n) for n in range(self.repeat.least, number))

    def may_begin(self, number: int) -> bool:
        """Return True if this run is known to be needed: beyond the least number, when all earlier runs are over."""
        if self.is_settled(number):
            return False
        return number <= self.repeat.least or all(n in self.ended for n in range(1, number))

    @property
    def is_whole(self) -> bool:
        """True if all runs of the cell are made, with any status."""
        return all(number in self.ended for number in range(1, self.needed + 1))

    @property
    def has_sufficed(self) -> bool:
        """True if the interval that `until` names was narrow enough after some number of runs."""
        return any(self._sufficed(n) for n in range(self.repeat.least, self.repeat.most + 1))

    @property
    def needed(self) -> int:
        """The number of runs that the cell needs, as far as is known."""
        if self.repeat.until is None:
            return self.repeat.most
        enough = next((n for n in range(self.repeat.least, self.repeat.most) if self._sufficed(n)), None)
        return enough or min(self.repeat.most, max(self.repeat.least, len(self.ended) + 1))

    def _sufficed(self, count: int) -> bool:
        """Return True if the first `count` runs were enough."""
        until = self.repeat.until
        if until is None or any(n not in self.ended for n in range(1, count + 1)):
            return False
        values = [self.values[n] for n in range(1, count + 1) if n in self.values]
        return is_narrow(values, until.confidence, until.within)


def describe_repeat(experiment: ExperimentSpec) -> CellRepeat:
    """Return the repetitions as `sweep.json` has them."""
    repeat = experiment.repeat
    vary = repeat.vary if repeat.most > 1 else experiment.vary
    return CellRepeat(experiment.seed, repeat.least, repeat.most, vary, repeat.until)


def say_progress(standings: Iterable[CellProgress]) -> str:
    return spell_progress([(len(one.ended), one.needed) for one in standings])


def spell_progress(counts: Sequence[tuple[int, int]]) -> str:
    """Return a text such as `24 of 60 runs, 3 of 12 cells whole`. counts: (ended runs, needed runs) of each cell."""
    made, needed = (sum(column) for column in zip(*counts, strict=True))
    whole = sum(one >= other for one, other in counts)
    told = f"{made} of {needed} runs"
    return f"{told}, {whole} of {len(counts)} cells whole" if len(counts) > 1 else told
