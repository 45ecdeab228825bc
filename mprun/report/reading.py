# SPDX-License-Identifier: Apache-2.0
"""How measured values read, wherever they are shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from mprun.model.metric import TOTAL, Metrics, metrics_of

# Base unit -> (factor, name) of what people say, largest first.
PREFIXES: Mapping[str, Sequence[tuple[float, str]]] = {
    "bit/s": ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1, "bit/s")),
    "s": ((1, "s"), (1e-3, "ms"), (1e-6, "µs")),
    "byte": ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "B")),
    "share": ((0.01, "%"),),
    "1": ((1, ""),),
}


def find_prefix(size: float, unit: str) -> tuple[float, str]:
    """The largest of `PREFIXES` that a value of this size has one of, else the least; a unit not there has none."""
    known = PREFIXES.get(unit, ((1, unit),))
    return next((one for one in known if size >= one[0]), known[-1])


def format_value(value: float, unit: str) -> str:
    """A value as people say it: `36.90 Mbit/s`, `40.000 ms`, `50.1 %`. Delays below a second are all in milliseconds,
    so that those of one column can be compared."""
    if unit in ("bit/s", "byte"):
        factor, name = find_prefix(abs(value), unit)
        return f"{value / factor:.{0 if factor == 1 else 2}f} {name}"
    if unit == "s":
        return f"{value * 1e3:.3f} ms" if abs(value) < 1 else f"{value:.3f} s"
    if unit == "share":
        return f"{value:.1%}".replace("%", " %")
    return f"{value:g}"


def format_bound(verdict: Mapping[str, Any], unit: str) -> str:
    """What was expected, of a verdict in a summary: `≥ 36.0 Mbit/s`, `= 2`."""
    if verdict["equals"] is not None:
        return f"= {format_value(verdict['equals'], unit)}"
    low, high = verdict["minimum"], verdict["maximum"]
    if low is not None and high is not None:
        return f"{format_value(low, unit)} to {format_value(high, unit)}"
    return f"≥ {format_value(low, unit)}" if low is not None else f"≤ {format_value(high, unit)}"


def interval_of(metric: Mapping[str, Any], confidence: float) -> Sequence[float] | None:
    """The t interval of a metric's mean, of a sweep's summary; None where one run alone has it. confidence: 0.95 or
    0.99."""
    found: Sequence[float] | None = metric.get(f"t{confidence * 100:.0f}")
    return found


def format_mean(metric: Mapping[str, Any] | None, confidence: float) -> str:
    """The mean over the runs of a cell, of a sweep's summary, with half its t interval where it has one."""
    if metric is None:
        return "-"
    mean = format_value(metric["mean"], metric["unit"])
    interval = interval_of(metric, confidence)
    if interval is None:
        return mean
    low, high = interval
    number, space, unit = mean.partition(" ")
    factor = _factor_of(unit)
    return f"{_align(metric['mean'] / factor, (high - low) / 2 / factor, Decimal(number))}{space}{unit}"


def _factor_of(unit: str) -> float:
    """What one of a unit that `format_value` writes is in base units."""
    return next(factor for known in PREFIXES.values() for factor, name in known if name == unit)


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
