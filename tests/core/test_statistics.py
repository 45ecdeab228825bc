# SPDX-License-Identifier: Apache-2.0
"""Statistics checked against figures by hand, and intervals checked for their coverage."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import numpy
import pytest

from mprun.metrics import statistics
from mprun.metrics.cells import summarize
from tests.pages import ROOT

# Ten draws and their t interval: mean 5.5, stdev 3.0277, t(9, 97.5 %) = 2.2622, t(9, 99.5 %) = 3.2498.
TEN = [1.0, 2, 3, 4, 5, 6, 7, 8, 9, 10]


def test_summary_by_hand() -> None:
    summary = summarize(TEN, "s")
    assert (summary.count, summary.mean, summary.median, summary.min, summary.max) == (10, 5.5, 5.5, 1, 10)
    assert summary.stdev == pytest.approx(3.02765, abs=1e-5)
    assert summary.p25 == pytest.approx(3.25)
    for interval, quantile in ((summary.t95, 2.26216), (summary.t99, 3.24984)):
        assert interval is not None
        assert (interval[1] - interval[0]) / 2 == pytest.approx(quantile * 3.02765 / 10**0.5, rel=1e-5)


def test_the_page_shows_functions_that_exist() -> None:
    shown = re.findall(r"^    (.*)$", (ROOT / "docs" / "statistics.md").read_text(), re.MULTILINE)
    assert "from mprun.metrics import statistics" in shown
    exec("\n".join(shown), {"values": TEN, "rates": TEN, "first": TEN, "second": [one + 1 for one in TEN]})
    for name in re.findall(r"\(`(\w+)`\)", (ROOT / "docs" / "statistics.md").read_text()):
        assert callable(getattr(statistics, name))


def test_one_run_has_no_spread() -> None:
    summary = summarize([7.0], "s")
    assert (summary.mean, summary.stdev, summary.t95, summary.bootstrap99) == (7.0, None, None, None)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: statistics.paired_difference([1, 2], [1, 2, 3]), "these have 2 and 3 values"),
        (lambda: statistics.paired_ratio([1, 2, 3], [1, 2]), "these have 3 and 2 values"),
        (lambda: statistics.paired_difference([1], [2]), "a sample has 1 value: at least 2 are needed"),
        (lambda: statistics.paired_ratio([], []), "a sample has 0 values: at least 2 are needed"),
        (lambda: statistics.difference([1, 2], [1]), "a sample has 1 value: at least 2 are needed"),
        (lambda: statistics.ratio([1], [1, 2]), "a sample has 1 value: at least 2 are needed"),
        (lambda: statistics.t_interval([1], 0.95), "a sample has 1 value: at least 2 are needed"),
        (lambda: statistics.standard_error([1]), "a sample has 1 value: at least 2 are needed"),
        (lambda: statistics.bootstrap_interval([], 0.95), "a sample has 0 values: at least 1 is needed"),
        (lambda: statistics.jain([]), "a sample has 0 values: at least 1 is needed"),
        (lambda: statistics.jain([-1, 1]), "-1 is below 0, and Jain's index is for shares: leave it out"),
        (lambda: summarize([], "s"), "a sample has 0 values: at least 1 is needed"),
        (lambda: summarize([float("nan"), 1.0], "s"), "a value of a sample is not finite .* leave it out"),
        (lambda: statistics.jain([1.0, float("inf")]), "a value of a sample is not finite"),
        (lambda: statistics.t_interval([1, 2], 95), "confidence 95 is not between 0 and 1: write 0.95 for 95 %"),
        (lambda: statistics.difference([1, 2], [3, 4], 1), "confidence 1 is not between 0 and 1"),
        (lambda: statistics.bootstrap_interval([1, 2], 95), "confidence 95 is not between 0 and 1"),
    ],
)
def test_wrong_samples_are_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_jain() -> None:
    assert statistics.jain([3, 3, 3]) == 1
    assert statistics.jain([1, 0, 0, 0]) == 0.25
    assert statistics.jain([0, 0]) == 1


def test_paired_difference_sees_what_an_unpaired_one_cannot() -> None:
    first = [10.0, 20, 30, 40, 50]
    second = [11.0, 21.1, 30.9, 41, 51]
    paired = statistics.paired_difference(first, second)
    assert paired.mean == pytest.approx(1.0)
    assert paired.is_clear
    assert not statistics.difference(first, second).is_clear


def test_difference_is_that_of_welch() -> None:
    """The reference is the worked example in scipy's documentation of ttest_ind, with scipy's confidence_interval."""
    from scipy.stats import ttest_ind

    first, second = [12.1, 13.4, 11.8, 12.9], [14.0, 15.2, 13.1, 14.9, 16.0]
    ours = statistics.difference(first, second)
    theirs = ttest_ind(second, first, equal_var=False).confidence_interval(0.95)
    assert (ours.interval.low, ours.interval.high) == pytest.approx((theirs.low, theirs.high))


def test_ratio() -> None:
    same = statistics.ratio([10.0, 10, 10], [20.0, 20, 20])
    assert same is not None
    assert (same.value, same.interval.low, same.interval.high) == (2, 2, 2)
    assert statistics.ratio([0.0, 0], [1.0, 1]) is None


def test_ratio_of_pairs_is_of_what_each_differs_by() -> None:
    """The runs meet very different worlds. Neither interval includes the difference between the worlds."""
    first = [10.0, 20, 40]
    more = statistics.paired_ratio(first, [1.01 * value for value in first])
    assert more is not None
    assert (more.value, more.interval.low, more.interval.high) == pytest.approx((1.01, 1.01, 1.01))
    # gaps of 0.02, 0 and -0.02 of the means: half the interval is 4.303 x 0.02 / sqrt(3)
    apart = statistics.paired_ratio([99.0, 100, 101], [101.0, 100, 99])
    assert apart is not None
    assert apart.interval.high == pytest.approx(math.exp(4.303 * 0.02 / math.sqrt(3)), rel=1e-4)
    assert statistics.paired_ratio([0.0, 0], [1.0, 1]) is None


def test_is_narrow() -> None:
    assert not statistics.is_narrow([1.0], 0.95, 0.5)
    assert statistics.is_narrow([100.0, 100, 100], 0.95, 0.01)
    # half the interval is 2.262 x 3.0277 / sqrt(10) = 2.166: 39.4 % of 5.5
    assert not statistics.is_narrow(TEN, 0.95, 0.39)
    assert statistics.is_narrow(TEN, 0.95, 0.40)


@pytest.mark.parametrize("count", [3, 5, 20])
def test_t_covers_what_it_says_on_normal_data(count: int) -> None:
    """The coverage lies between 94 and 96 %.

    Over 4000 draws its standard error is 0.34 %, so 94 and 96 % are three standard errors away.
    """
    draws = numpy.random.default_rng(count).normal(10, 2, (4000, count))
    covered = sum(10 in statistics.t_interval(values.tolist(), 0.95) for values in draws) / len(draws)
    assert 0.94 <= covered <= 0.96


def test_bootstrap_of_five_covers_less() -> None:
    """The coverage is about 83 %.

    With five values, the percentile bootstrap has no room in the tails. The error of 1000 draws is 1.2 %.
    """
    draws = numpy.random.default_rng(1).normal(10, 2, (1000, 5))
    covered = sum(10 in statistics.bootstrap_interval(values.tolist(), 0.95) for values in draws) / len(draws)
    assert 0.78 <= covered <= 0.88


def test_bootstrap_repeats() -> None:
    assert statistics.bootstrap_interval(TEN, 0.95) == statistics.bootstrap_interval(TEN, 0.95)
