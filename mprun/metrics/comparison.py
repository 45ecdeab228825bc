# SPDX-License-Identifier: Apache-2.0
"""Compare two runs, two sweeps, or two halves of a sweep: the differences, their sizes and their intervals. Pure.

Two runs with the same number and seed had the same conditions and are a pair. With two pairs or more, only pairs are
compared, and the result has the number of runs without a partner. Otherwise all runs of both sides are compared. With
one run on a side there is no interval, and the result has only the values.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from mprun.metrics import statistics
from mprun.model.frozen import Frozen
from mprun.model.metric import relative_change
from mprun.model.scalar import Scalar

if TYPE_CHECKING:
    from mprun.model.run_summary import Summary

# In place of a metric's name, which always has a dot.
RUNS = "runs"
# A description that is folded over several lines.
_FOLDED = re.compile(r"^description: \S.*(\n[ \t]+\S.*)+", re.MULTILINE)

# A metric and its bounds, or a statement across cells.
MetricBounds = Mapping[str, object]
Tendency = Literal["same", "higher", "lower", "unclear", "unknown"]


class Side(Frozen):
    """A cell of one side. runs: the summaries of its runs by their number. errors: the number of runs with an error."""

    values: Mapping[str, Scalar]
    runs: Mapping[int, Summary]
    errors: int = 0

    def metrics(self) -> dict[str, str]:
        """Return the symbol of each metric that any of its runs has."""
        return {name: m.unit for run in self.runs.values() for name, m in run.metrics.items()}

    def numbers(self, metric: str) -> dict[int, float]:
        """Return the values of a metric by the number of the run."""
        return {n: value for n, run in self.runs.items() if (value := run.value(metric)) is not None}


class ComparedMetric(Frozen):
    """A metric of a cell on both sides.

    - first, second: the mean of each side; None if the side does not have the metric.
    - counts: the number of compared runs of each side.
    - difference, ratio: of the second side against the first; None without an interval.
    - left_out: the number of runs of each side with the metric and without a partner, if only pairs are compared.
    """

    values: Mapping[str, Scalar]
    metric: str
    symbol: str
    first: float | None
    second: float | None
    counts: tuple[int, int]
    difference: statistics.MeanDifference | None
    ratio: statistics.MeanRatio | None
    left_out: tuple[int, int] = (0, 0)

    @property
    def tendency(self) -> Tendency:
        """The direction of the difference.

        - higher, lower: the interval of the difference does not contain zero.
        - unclear: the interval contains zero.
        - unknown: there is no interval.
        """
        if self.first is None or self.second is None:
            return "unknown"
        if self.difference is None:
            return "same" if self.first == self.second else "unknown"
        if self.difference.interval.low == self.difference.interval.high == 0:
            return "same"
        if not self.difference.is_clear:
            return "unclear"
        return "higher" if self.difference.mean > 0 else "lower"

    @property
    def change(self) -> float | None:
        """The relative change: 0.02 if the second value is more than the first by 2 % of its size."""
        return None if self.first is None or self.second is None else relative_change(self.first, self.second)

    def to_json(self) -> dict[str, object]:
        gap, share = self.difference, self.ratio
        difference = gap and {
            "mean": gap.mean,
            "interval": [gap.interval.low, gap.interval.high],
            "method": "paired t" if gap.is_paired else "Welch",
            "confidence": gap.interval.confidence,
            "effect": gap.effect,
        }
        return {
            "values": dict(self.values),
            "metric": self.metric,
            "unit": self.symbol,
            "first": self.first,
            "second": self.second,
            "runs": list(self.counts),
            "left_out": list(self.left_out),
            "verdict": self.tendency,
            "difference": difference,
            "ratio": share and {"value": share.value, "interval": [share.interval.low, share.interval.high]},
        }


def compare(
    first: Sequence[Side], second: Sequence[Side], confidence: float = statistics.CONFIDENCE
) -> Iterator[ComparedMetric]:
    """Yield each metric of each cell that both sides have, in the order of the first side."""
    for side, other in _match(first, second):
        for metric, symbol in {**side.metrics(), **other.metrics()}.items():
            yield _compare(side, other, metric, symbol, confidence)


def unmatched(first: Sequence[Side], second: Sequence[Side]) -> Iterator[tuple[Mapping[str, Scalar], Literal[1, 2]]]:
    """Yield the values of each cell that only one side has, and the number of the side."""
    keys = [{_key(side.values) for side in sides} for sides in (first, second)]
    yield from ((side.values, 1) for side in first if _key(side.values) not in keys[1])
    yield from ((side.values, 2) for side in second if _key(side.values) not in keys[0])


def _match(first: Sequence[Side], second: Sequence[Side]) -> Iterator[tuple[Side, Side]]:
    """Yield the cells that both sides have, in the order of the first side."""
    others = {_key(side.values): side for side in second}
    yield from ((side, others[key]) for side in first if (key := _key(side.values)) in others)


def _key(values: Mapping[str, Scalar]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, str(value)) for name, value in values.items()))


def _compare(one: Side, other: Side, metric: str, symbol: str, confidence: float) -> ComparedMetric:
    a, b = one.numbers(metric), other.numbers(metric)
    pairs = [n for n in a if n in b and one.runs[n].seed == other.runs[n].seed]
    is_paired = len(pairs) > 1
    ours, theirs = ([side[n] for n in (pairs if is_paired else side)] for side in (a, b))
    gap, share = None, None
    if min(len(ours), len(theirs)) > 1:
        gap = (statistics.paired_difference if is_paired else statistics.difference)(ours, theirs, confidence)
        share = (statistics.paired_ratio if is_paired else statistics.ratio)(ours, theirs, confidence)
    counts = (len(ours), len(theirs))
    left_out = (len(a) - counts[0], len(b) - counts[1])
    return ComparedMetric(one.values, metric, symbol, _mean(ours), _mean(theirs), counts, gap, share, left_out)


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


class Expected(Frozen):
    """An expectation of a cell on both sides.

    - expectation: a metric and its bounds, or a statement across cells (`holds`). `RUNS` without bounds expects that a
      run ended and did what its files ask for.
    - first, second: the number of runs in which the expectation held, and of all runs; 0 and 0 if not known yet. None
      if the side does not have the expectation.
    """

    values: Mapping[str, Scalar]
    expectation: MetricBounds
    first: tuple[int, int] | None
    second: tuple[int, int] | None

    @property
    def is_held(self) -> bool | None:
        """True if it holds in all runs of the second side, or of the only side. None if that is not known yet."""
        held, of = self.second or self.first or (0, 0)
        return held == of if of else None

    @property
    def is_worse(self) -> bool:
        """The expectation holds in a smaller share of the second side's runs."""
        if self.first is None or self.second is None:
            return False
        return self.second[0] * self.first[1] < self.first[0] * self.second[1]


def compare_expectations(first: Sequence[Side], second: Sequence[Side]) -> Iterator[Expected]:
    """Compare the expectations of the cells that both sides have, by metric and bounds."""
    for side, other in _match(first, second):
        ours, theirs = _verdicts(side), _verdicts(other)
        # the expectations of a side without runs are not known
        alone = bool(side.runs and other.runs)
        for key, (expectation, _) in {**theirs, **ours}.items():
            if alone or (key in ours and key in theirs):
                counts = (found[key][1] if key in found else None for found in (ours, theirs))
                yield Expected(side.values, expectation, *counts)


def compare_statements(
    first: Mapping[str, bool | None], second: Mapping[str, bool | None], may_come: tuple[bool, bool] = (False, False)
) -> Iterator[Expected]:
    """Yield the statements across cells. first, second: by statement, whether it held; None if it cannot be judged.

    A statement that cannot be judged does not hold. It is not known yet if more runs of its side may come (`may_come`).
    """

    def count(side: Mapping[str, bool | None], text: str, is_open: bool) -> tuple[int, int] | None:
        if text not in side:
            return None
        return (0, 0) if is_open and side[text] is None else (int(side[text] is True), 1)

    for text in {**first, **second}:
        one, other = (count(side, text, is_open) for side, is_open in zip((first, second), may_come, strict=True))
        yield Expected({}, {"holds": text}, one, other)


def _verdicts(side: Side) -> dict[str, tuple[MetricBounds, tuple[int, int]]]:
    good = sum(not run.failures for run in side.runs.values())
    bounds: MetricBounds = {"metric": RUNS, "minimum": None, "maximum": None, "equals": None}
    found: dict[str, tuple[MetricBounds, tuple[int, int]]] = {RUNS: (bounds, (good, len(side.runs) + side.errors))}
    for run in side.runs.values():
        for verdict in run.expectations:
            bounds = verdict.bounds
            before = found.get(str(bounds), (bounds, (0, 0)))[1]
            found[str(bounds)] = (bounds, (before[0] + verdict.held, before[1] + 1))
    return found


def differing_lines(first: Mapping[str, str], second: Mapping[str, str]) -> list[str]:
    """Return the lines of files by name that only one side has, in the form of diff(1).

    Files with two names, each on one side, count as one file if most of their lines are the same.
    """
    lines: list[str] = []
    for name, partner in _pair_names(first, second):
        one, other = (_unfold(text).splitlines() for text in (first.get(name, ""), second.get(partner, "")))
        changed = [line for line in difflib.unified_diff(one, other, lineterm="", n=0) if line[:1] in "+-"][2:]
        title = name if name == partner else f"{name} and {partner}"
        lines += [f"{title}: {line}" for line in changed]
    return lines


def _unfold(text: str) -> str:
    """Return a file with its description on one line. A long one is folded, and its other lines have no key."""
    return _FOLDED.sub(lambda found: " ".join(line.strip() for line in found[0].split("\n")), text)


def _pair_names(first: Mapping[str, str], second: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    alone = sorted(second.keys() - first.keys())
    for name in sorted(first):
        partner = name
        if name not in second:
            lines = first[name].splitlines()
            shares = {
                other: difflib.SequenceMatcher(None, lines, second[other].splitlines()).ratio() for other in alone
            }
            likest = max(shares, key=lambda other: shares[other], default=name)
            if shares.get(likest, 0) > 0.5:
                partner = likest
                alone.remove(likest)
        yield name, partner
    yield from ((name, name) for name in alone)


def differing_values(first: Mapping[str, object], second: Mapping[str, object]) -> dict[str, tuple[object, object]]:
    """Return both values of each fact (kernel, versions, engine ...) that differs."""
    names = list(dict.fromkeys((*first, *second)))
    return {name: (first.get(name), second.get(name)) for name in names if first.get(name) != second.get(name)}
