# SPDX-License-Identifier: Apache-2.0
"""How measured values read, wherever they are shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from mprun.spec.metric import TOTAL, Metrics, metrics_of


def format_value(value: float, unit: str) -> str:
    """A value as people say it: `36.9 Mbit/s`, `40.0 ms`, `50.1 %`."""
    if unit == "bit/s":
        for size, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
            if abs(value) >= size:
                return f"{value / size:.2f} {prefix}bit/s"
        return f"{value:.0f} bit/s"
    if unit == "s":
        return f"{value * 1e3:.3f} ms" if abs(value) < 1 else f"{value:.3f} s"
    if unit == "byte":
        return f"{value / 1e6:.2f} MB" if value >= 1e6 else f"{value:.0f} B"
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


def format_mean(metric: Mapping[str, Any] | None) -> str:
    """The mean over the runs of a cell, of a sweep's summary, with half its t interval of 95 % where it has one."""
    if metric is None:
        return "-"
    mean = format_value(metric["mean"], metric["unit"])
    if "t95" not in metric:
        return mean
    low, high = metric["t95"]
    return f"{mean} ± {_like(mean, (high - low) / 2, metric)}"


def _like(mean: str, half: float, metric: Mapping[str, Any]) -> str:
    """Half an interval in the prefix and unit of the mean, two digits of it."""
    number = mean.partition(" ")[0]
    if float(number) and metric["mean"]:
        half *= float(number) / float(metric["mean"])
    return format(Decimal(f"{half:.2g}"), "f")


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
