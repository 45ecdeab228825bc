# SPDX-License-Identifier: Apache-2.0
"""Statistics of repeated runs: locations, spreads, intervals, differences, ratios. Pure.

An interval is that of the mean, and names its method. `t` (Student) assumes a normally distributed mean. `bootstrap`
(percentile) assumes nothing, but covers less than its confidence with few runs. docs/measured/intervals.md has the
coverage of each method by simulation (`benchmarks/coverage.py`).
"""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from mprun.model.frozen import Frozen

if TYPE_CHECKING:
    import numpy
    import numpy.typing

CONFIDENCES = (0.95, 0.99)
# The default.
CONFIDENCE = 0.95
QUANTILES = (0.05, 0.25, 0.75, 0.95)
RESAMPLES = 2000

Method = Literal["t", "welch", "bootstrap"]


class Interval(Frozen):
    """A confidence interval of the mean, or of another named value. confidence: 0.95 for 95 %."""

    low: float
    high: float
    confidence: float
    method: Method

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


def _check_confidence(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise ValueError(f"confidence {confidence} is not between 0 and 1: write 0.95 for 95 %")


def need(least: int, *samples: Sequence[float]) -> None:
    """Raise ValueError if a sample has fewer values than that, or a value that is not finite."""
    for values in samples:
        if len(values) < least:
            count = f"{len(values)} value{'' if len(values) == 1 else 's'}"
            raise ValueError(f"a sample has {count}: at least {least} {'is' if least == 1 else 'are'} needed")
        if not all(map(math.isfinite, values)):
            raise ValueError("a value of a sample is not finite (NaN or infinity): leave it out")


def _need_pairs(first: Sequence[float], second: Sequence[float]) -> None:
    """Raise ValueError if two samples are not at least two pairs."""
    if len(first) != len(second):
        raise ValueError(f"pairs need samples of equal length: these have {len(first)} and {len(second)} values")
    need(2, first)


def t_interval(values: Sequence[float], confidence: float) -> Interval:
    """Return Student's interval of the mean, which is exact for normally distributed values. It needs two values."""
    need(2, values)
    mean, error = statistics.fmean(values), standard_error(values)
    half = t_quantile(confidence, len(values) - 1) * error
    return Interval(mean - half, mean + half, confidence, "t")


def standard_error(values: Sequence[float]) -> float:
    """Return the standard error of the mean. It needs two values."""
    need(2, values)
    return stdev(tuple(values)) / math.sqrt(len(values))


# several intervals of one sample are computed in a row, and its exact sum of squares is expensive
@functools.lru_cache(maxsize=4)
def stdev(values: tuple[float, ...]) -> float:
    """Return the standard deviation of a sample (n - 1)."""
    return statistics.stdev(values)


@functools.lru_cache(maxsize=256)
def t_quantile(confidence: float, degrees: float) -> float:
    """Return the half width of an interval in standard errors, by Student's distribution."""
    from scipy.special import stdtrit

    _check_confidence(confidence)
    return float(stdtrit(degrees, (1 + confidence) / 2))


def bootstrap_interval(values: Sequence[float], confidence: float) -> Interval:
    """Return the percentile bootstrap of the mean. The same values give the same interval."""
    import numpy

    need(1, values)
    _check_confidence(confidence)
    means = _resample(tuple(values))
    low, high = numpy.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(float(low), float(high), confidence, "bootstrap")


@functools.lru_cache(maxsize=4)
def _resample(values: tuple[float, ...]) -> numpy.typing.NDArray[numpy.float64]:
    """Return the means of resamples."""
    import numpy

    means: numpy.typing.NDArray[numpy.float64] = numpy.asarray(values, dtype=float)[_draw(len(values))].mean(axis=1)
    return means


@functools.lru_cache(maxsize=4)
def _draw(count: int) -> numpy.typing.NDArray[numpy.int64]:
    """Return the numbers of the values that each resample has."""
    import numpy

    return numpy.random.default_rng(count).integers(0, count, (RESAMPLES, count))


def is_narrow(values: Sequence[float], confidence: float, within: float) -> bool:
    """Check whether half of the t interval's width is at most this share of the mean: the rule that ends repetitions.

    An interval that is checked after each run until it is narrow covers less than its confidence.
    """
    if len(values) < 2:
        return False
    interval = t_interval(values, confidence)
    return interval.half_width <= within * abs(statistics.fmean(values))


def jain(values: Sequence[float]) -> float:
    """Return Jain's index, from 1/n to 1 if all are equal (RFC 5166 section 2.3.3). Raises ValueError below 0."""
    need(1, values)
    if min(values) < 0:
        raise ValueError(f"{min(values)} is below 0, and Jain's index is for shares: leave it out")
    squares = math.fsum(value * value for value in values)
    return math.fsum(values) ** 2 / (len(values) * squares) if squares else 1.0


class MeanDifference(Frozen):
    """The second mean minus the first.

    effect: in standard deviations, of the differences for paired runs (d_z), else of both sides together (Hedges' g).
    None if nothing varies.
    """

    mean: float
    interval: Interval
    effect: float | None
    is_paired: bool

    @property
    def is_clear(self) -> bool:
        """True if the interval does not contain zero."""
        return 0 not in self.interval


def paired_difference(
    first: Sequence[float], second: Sequence[float], confidence: float = CONFIDENCE
) -> MeanDifference:
    """Return the difference of runs that belong together in pairs. At least two pairs are needed."""
    _need_pairs(first, second)
    differences = [b - a for a, b in zip(first, second, strict=True)]
    spread = statistics.stdev(differences)
    mean = statistics.fmean(differences)
    return MeanDifference(mean, t_interval(differences, confidence), mean / spread if spread else None, is_paired=True)


def difference(first: Sequence[float], second: Sequence[float], confidence: float = CONFIDENCE) -> MeanDifference:
    """Return the difference of runs that are not paired, at least two a side, whose spreads may differ (Welch)."""
    need(2, first, second)
    mean = statistics.fmean(second) - statistics.fmean(first)
    parts = [(statistics.variance(values) / len(values), len(values) - 1) for values in (first, second)]
    half = _welch(parts, confidence)
    freedom = len(first) + len(second) - 2
    pooled = math.sqrt(
        ((len(first) - 1) * statistics.variance(first) + (len(second) - 1) * statistics.variance(second)) / freedom
    )
    effect = mean / pooled * (1 - 3 / (4 * freedom - 1)) if pooled else None
    return MeanDifference(mean, Interval(mean - half, mean + half, confidence, "welch"), effect, is_paired=False)


class MeanRatio(Frozen):
    """The mean of the second side, divided by the mean of the first."""

    value: float
    interval: Interval


def ratio(first: Sequence[float], second: Sequence[float], confidence: float = CONFIDENCE) -> MeanRatio | None:
    """Return the ratio of runs that are not paired: the interval of the logarithm, by the delta method.

    At least two runs of each side are needed. None if a mean is not above zero.
    """
    need(2, first, second)
    means = [statistics.fmean(values) for values in (first, second)]
    if min(means) <= 0:
        return None
    parts = [
        (statistics.variance(values) / len(values) / mean**2, len(values) - 1)
        for values, mean in zip((first, second), means, strict=True)
    ]
    value, half = means[1] / means[0], _welch(parts, confidence)
    return MeanRatio(value, Interval(value * math.exp(-half), value * math.exp(half), confidence, "welch"))


def paired_ratio(first: Sequence[float], second: Sequence[float], confidence: float = CONFIDENCE) -> MeanRatio | None:
    """Return the ratio of runs that belong together in pairs, from the pairs' differences in shares of the means.

    At least two pairs are needed. None if a mean is not above zero.
    """
    _need_pairs(first, second)
    means = [statistics.fmean(values) for values in (first, second)]
    if min(means) <= 0:
        return None
    gaps = [b / means[1] - a / means[0] for a, b in zip(first, second, strict=True)]
    value, half = means[1] / means[0], t_quantile(confidence, len(gaps) - 1) * standard_error(gaps)
    return MeanRatio(value, Interval(value * math.exp(-half), value * math.exp(half), confidence, "t"))


def _welch(parts: Sequence[tuple[float, int]], confidence: float) -> float:
    """Return half the interval of a sum of independent parts: their squared standard errors and degrees of freedom."""
    total = sum(square for square, _ in parts)
    if not total:
        return 0.0
    degrees = total**2 / sum(square**2 / freedom for square, freedom in parts)
    return t_quantile(confidence, degrees) * math.sqrt(total)
