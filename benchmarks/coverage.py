# SPDX-License-Identifier: Apache-2.0
"""Measure the coverage of intervals by simulation, for the tables of docs/measured/intervals.md.

It takes minutes on one CPU.

Runs are drawn from a distribution whose mean is known. An interval covers if it contains the mean. With 10,000 draws, a
share of 95 % has a standard error of 0.22 %.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from functools import partial

import numpy

from mprun.metrics import statistics
from mprun.metrics.statistics import Interval

DRAWS = 10_000
# The bootstrap is expensive because of its 2000 resamples.
BOOTSTRAP_DRAWS = 2_000
COUNTS = (3, 5, 10, 20, 50)
# Name -> draws of that shape, and their mean. The two-valued shape is a run that a time-out hits with probability 1/5.
SHAPES: dict[str, tuple[Callable[[numpy.random.Generator, tuple[int, ...]], numpy.ndarray], float]] = {
    "normal": (lambda g, shape: g.normal(10, 1, shape), 10.0),
    "uniform": (lambda g, shape: g.uniform(9, 11, shape), 10.0),
    "exponential": (lambda g, shape: g.exponential(1, shape), 1.0),
    "lognormal, sigma 1": (lambda g, shape: g.lognormal(0, 1, shape), math.exp(0.5)),
    "one in five is half": (lambda g, shape: numpy.where(g.random(shape) < 0.2, 5.0, 10.0), 9.0),
}
# The rule that stops when the interval is narrow: half the width relative to the mean, and the least and most runs.
WITHIN, LEAST, MOST = 0.02, 5, 50


def share(hits: Iterator[bool]) -> str:
    found = list(hits)
    return f"{100 * sum(found) / len(found):.1f} %"


def covered(name: str, count: int, method: Callable[[list[float]], Interval], draws: int) -> str:
    """Return the share of draws whose interval contains the mean."""
    draw, mean = SHAPES[name]
    values = draw(numpy.random.default_rng(count), (draws, count))
    return share(mean in method(row.tolist()) for row in values)


def fixed(confidence: float) -> None:
    for method, draws, interval in (
        ("t", DRAWS, statistics.t_interval),
        ("bootstrap", BOOTSTRAP_DRAWS, statistics.bootstrap_interval),
    ):
        print(f"\n{method}, {confidence:.0%}\n\n| runs | {' | '.join(SHAPES)} |")
        print("| ---: |" + " ---: |" * len(SHAPES))
        for count in COUNTS:
            cells = [covered(name, count, partial(interval, confidence=confidence), draws) for name in SHAPES]
            print(f"| {count} | {' | '.join(cells)} |", flush=True)


def stopped(deviation: float, least: int) -> tuple[str, float]:
    """Return coverage and mean number of runs if repetition ends when the t interval of 95 % is narrow."""
    generator = numpy.random.default_rng(int(deviation * 1000))
    hits, counts = [], []
    for _ in range(DRAWS):
        values = generator.normal(1, deviation, MOST).tolist()
        n = next((n for n in range(least, MOST) if statistics.is_narrow(values[:n], 0.95, WITHIN)), MOST)
        hits.append(1.0 in statistics.t_interval(values[:n], 0.95))
        counts.append(n)
    return share(iter(hits)), sum(counts) / len(counts)


def until() -> None:
    print(f"\nuntil half the interval is {WITHIN:.0%} of the mean, normal, {MOST} runs at most\n")
    print(
        "| standard deviation | from 3 runs on | mean runs | from 5 runs on | mean runs | from 10 runs on | mean runs |"
    )
    print("| ---: |" + " ---: |" * 6)
    for deviation in (0.01, 0.02, 0.03, 0.05, 0.1):
        cells = [f"{got} | {mean:.1f}" for got, mean in (stopped(deviation, least) for least in (3, LEAST, 10))]
        print(f"| {deviation:.0%} | {' | '.join(cells)} |", flush=True)


def pairs() -> None:
    """Print differences and ratios between two cells with equal numbers of runs and unequal normal spreads."""
    print("\nbetween two cells, 95 %, normal, standard deviations 1 % and 3 %\n")
    print("| runs | paired | Welch | ratio |\n| ---: | ---: | ---: | ---: |")
    for count in COUNTS:
        generator = numpy.random.default_rng(count)
        first = generator.normal(1.0, 0.01, (DRAWS, count)).tolist()
        second = generator.normal(1.1, 0.03, (DRAWS, count)).tolist()
        rows = list(zip(first, second, strict=True))
        paired = share(0.1 in statistics.paired_difference(a, b).interval for a, b in rows)
        welch = share(0.1 in statistics.difference(a, b).interval for a, b in rows)
        ratios = [statistics.ratio(a, b) for a, b in rows]
        print(
            f"| {count} | {paired} | {welch} | {share(r is not None and 1.1 in r.interval for r in ratios)} |",
            flush=True,
        )


def main() -> int:
    for confidence in statistics.CONFIDENCES:
        fixed(confidence)
    until()
    pairs()
    return 0


if __name__ == "__main__":
    sys.exit(main())
