# SPDX-License-Identifier: Apache-2.0
"""How measured values read, wherever they are shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from mprun.model.metric import TOTAL, Metrics, metrics_of
from mprun.model.units import factor_of, format_measured


def format_bound(verdict: Mapping[str, Any], unit: str) -> str:
    """What was expected, of a verdict in a summary: `≥ 36.0 Mbit/s`, `= 2`."""
    if verdict["equals"] is not None:
        return f"= {format_measured(verdict['equals'], unit)}"
    low, high = verdict["minimum"], verdict["maximum"]
    if low is not None and high is not None:
        return f"{format_measured(low, unit)} to {format_measured(high, unit)}"
    return f"≥ {format_measured(low, unit)}" if low is not None else f"≤ {format_measured(high, unit)}"


def interval_of(metric: Mapping[str, Any], confidence: float) -> Sequence[float] | None:
    """The t interval of a metric's mean, of a sweep's summary; None where one run alone has it. confidence: 0.95 or
    0.99."""
    found: Sequence[float] | None = metric.get(f"t{confidence * 100:.0f}")
    return found


def format_mean(metric: Mapping[str, Any] | None, confidence: float) -> str:
    """The mean over the runs of a cell, of a sweep's summary, with half its t interval where it has one."""
    if metric is None:
        return "-"
    mean = format_measured(metric["mean"], metric["unit"])
    interval = interval_of(metric, confidence)
    if interval is None:
        return mean
    low, high = interval
    number, space, unit = mean.partition(" ")
    factor = factor_of(unit)
    return f"{_align(metric['mean'] / factor, (high - low) / 2 / factor, Decimal(number))}{space}{unit}"


def _align(mean: float, half: float, alone: Decimal) -> str:
    """`36.90 ± 0.12`: two digits of half an interval, and the mean to the same place.

    alone: the mean as it stands without one, which is all that is told where half the interval is more than a hundred
    times finer than its last digit.
    """
    rounded = Decimal(f"{half:.1e}")
    places = 1 - rounded.adjusted()
    if not half or places > 3 - int(alone.as_tuple().exponent):
        return f"{alone} ± 0"
    return f"{mean:.{max(0, places)}f} ± {rounded:f}"


def choose_metrics(cells: Sequence[Mapping[str, Any]]) -> list[str]:
    """The metrics of a sweep's summary that lead: those that are expected something of, else goodputs, else all."""
    known = list(dict.fromkeys(name for cell in cells for name in cell["metrics"]))
    expected = dict.fromkeys(one["metric"] for cell in cells for one in cell["expectations"] if one["metric"] in known)
    goodputs = [name for name in known if name.endswith("goodput")]
    return list(dict.fromkeys([*expected, *goodputs]) or known)


def order_metrics(metrics: Mapping[str, Any], owned: Mapping[str, Metrics]) -> dict[str, Any]:
    """A run's metrics as people read them: paths, then flows and groups as the experiment has them, each with its
    metrics in the order of its tool, then sums. owned: the metrics of flows and groups."""
    owners = {name: n for n, name in enumerate(owned, 1)}

    def place(name: str) -> tuple[int, int]:
        owner, _, what = name.partition(".")
        known = list(metrics_of(owner, owned))
        stem = what if what in known else what.rpartition(".")[0]
        rank = known.index(stem) if stem in known else len(known)
        return owners.get(owner, len(owners) + 1 if owner == TOTAL else 0), rank

    return {name: metrics[name] for name in sorted(metrics, key=place)}
