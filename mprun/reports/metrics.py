# SPDX-License-Identifier: Apache-2.0
"""Measured values as text, in the same form everywhere."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any

from mprun.errors import MprunError
from mprun.model.grouping import gather
from mprun.model.metric import OF_FLOWS, OF_PATH, find_metric
from mprun.model.units import factor_of, format_measured
from mprun.storage.run_directory import RunDirectory
from mprun.workloads import TOOLS
from mprun.workloads.tool import load

if TYPE_CHECKING:
    from mprun.model.run_summary import ExpectationVerdict, MetricValue
    from mprun.model.spec import Flow
    from mprun.model.sweep_files import CellSummary, CellVerdict, Statistic
    from mprun.storage.sweep_directory import ResultDirectory, SweepDirectory


def format_bound(bounds: Mapping[str, Any], unit: str) -> str:
    """Return the bound of an expectation as text: `≥ 36.0 Mbit/s`, `= 2`."""
    if bounds["equals"] is not None:
        return f"= {format_measured(bounds['equals'], unit)}"
    low, high = bounds["minimum"], bounds["maximum"]
    if low is not None and high is not None:
        return f"{format_measured(low, unit)} to {format_measured(high, unit)}"
    return f"≥ {format_measured(low, unit)}" if low is not None else f"≤ {format_measured(high, unit)}"


def format_judged(metric: MetricValue, verdicts: Iterable[ExpectationVerdict]) -> str:
    """Return a measured value as text, with more digits if it would look like a bound that it does not meet."""
    text = format_measured(metric.value, metric.unit)
    missed = [bound for one in verdicts if not one.held for bound in (one.minimum, one.maximum, one.equals)]
    if text not in [format_measured(bound, metric.unit) for bound in missed if bound is not None]:
        return text
    unit = text.partition(" ")[2]
    return f"{metric.value / (factor_of(unit) if unit else 1):.12g} {unit}".rstrip()


def list_expectations(cells: Sequence[CellSummary]) -> Iterator[tuple[str, str, list[tuple[CellSummary, CellVerdict]]]]:
    """Yield each expectation of a sweep: its metric, its bound as text, and its outcome in each cell."""
    found = gather((tuple(one.bounds.values()), (cell, one)) for cell in cells for one in cell.expectations)
    for (metric, *_), held in found.items():
        known = (cell.metrics[metric].unit for cell, _ in held if metric in cell.metrics)
        unit = next(known, None) or _find_symbol(metric)
        yield metric, format_bound(held[0][1].bounds, unit), held


def _find_symbol(metric: str) -> str:
    """Return the unit of a metric that no run measured, from the tools that have a metric of this name."""
    for tool in filter(None, map(load, TOOLS)):
        if found := find_metric({**OF_PATH, **OF_FLOWS, **tool.METRICS}, metric.partition(".")[2]):
            return found[0].symbol
    return "1"


def interval_of(metric: Statistic, confidence: float) -> tuple[float, float] | None:
    """Return the t interval of a metric's mean; None if only one run has it. confidence: 0.95 or 0.99."""
    return {95: metric.t95, 99: metric.t99}.get(round(confidence * 100))


def format_mean(cell: CellSummary, name: str, confidence: float) -> str:
    """Return the mean of a metric of a cell, ± half its t interval, and the number of runs if some lack the metric."""
    metric, ended = cell.metrics.get(name), cell.runs.total - cell.runs.error
    if metric is None:
        return "-"
    mean = format_measured(metric.mean, metric.unit)
    if (interval := interval_of(metric, confidence)) is not None:
        low, high = interval
        number, space, unit = mean.partition(" ")
        factor = factor_of(unit)
        mean = " ± ".join(align(metric.mean / factor, (high - low) / 2 / factor, Decimal(number))) + space + unit
    return mean if metric.count == ended else f"{mean} ({metric.count} of {ended} runs)"


def align(mean: float, half: float, alone: Decimal) -> tuple[str, str]:
    """Return a mean and half its interval, such as 36.90 and 0.12: two digits of the half, the mean to the same place.

    alone: the mean without an interval. Below a hundredth of its last digit, the half is that bound with `<`, or 0 if
    it is no more than the rounding of equal values.
    """
    rounded = Decimal(f"{half:.1e}")
    digits = 1 - rounded.adjusted()
    exponent = int(alone.as_tuple().exponent)
    if not half or digits > 3 - exponent:
        return str(alone), "0" if half <= ROUNDING * abs(mean) else f"<{Decimal(1).scaleb(exponent - 2):f}"
    return f"{mean:.{max(0, digits)}f}", f"{rounded:f}"


def list_metrics(cells: Sequence[CellSummary]) -> list[str]:
    """Return the names of all metrics of a sweep's cells."""
    return list(dict.fromkeys(name for cell in cells for name in cell.metrics))


def list_own(flows: Iterable[Flow]) -> list[str]:
    """Return the names of the metrics that entries take from their own programs."""
    return [f"{flow.name}.{entry['name']}" for flow in flows for entry in flow.options.get("metrics", ())]


def find_own(source: ResultDirectory, cells: Sequence[CellSummary] = ()) -> list[str]:
    """Return the metrics that the entries of a run, or of a sweep's cells, take from their own programs.

    cells: those of the sweep's summary. The entries of a cell are read only if no cell before it has all its metrics.
    """
    runs = [source] if isinstance(source, RunDirectory) else _find_sources(source, cells)
    found: list[str] = []
    for run in runs:
        # the plan of another version may not be readable
        with contextlib.suppress(MprunError):
            found += list_own(run.plan().intent.traffic)
    return list(dict.fromkeys(found))


def _find_sources(sweep: SweepDirectory, cells: Sequence[CellSummary]) -> Iterator[RunDirectory]:
    """Yield the first run of each cell that has a metric that no cell before it has."""
    seen: set[str] = set()
    for n, cell in enumerate(cells):
        if not seen.issuperset(cell.metrics):
            seen.update(cell.metrics)
            yield from (kept.run for kept in islice(sweep.runs((n,)), 1))


def choose_columns(
    cells: Sequence[CellSummary], wanted: Sequence[str], own: Sequence[str], is_wide: bool = False
) -> list[str]:
    """Return the metrics of a sweep for a table: the wanted ones, else as many as fit next to each other.

    is_wide: all leading ones have room.
    """
    chosen = choose_metrics(cells, wanted, own)
    has_room = is_wide and len(chosen) < len(list_metrics(cells))
    return chosen if has_room or set(chosen) & set(wanted) else chosen[:MOST_COLUMNS]


def choose_metrics(cells: Sequence[CellSummary], wanted: Sequence[str] = (), own: Sequence[str] = ()) -> list[str]:
    """Return the wanted metrics of a sweep, else those with expectations, own ones and goodputs, or else all.

    own: metrics that the experiment takes from its own programs.
    """
    known = list_metrics(cells)
    if asked := [name for name in wanted if name in known]:
        return asked
    expected = dict.fromkeys(one.metric for cell in cells for one in cell.expectations if one.metric in known)
    leading = [name for name in (*own, *known) if name in known and (name in own or name.endswith("goodput"))]
    return list(dict.fromkeys([*expected, *leading]) or known)


# The metrics that tell most of a run, the most telling first. A name may have further parts, as in `share.path0`.
MAIN = (
    *("goodput", "delay.mean", "completion.mean", "startup", "stall.time", "first_byte.mean", "time"),
    *("subflows", "share", "handover.gap", "loss", "fairness", "rtt", "efficiency.best", "retransmits"),
)
MOST_MAIN = 5
# The number of metrics that fit next to each other.
MOST_COLUMNS = 3
# The rounding of a mean and an interval of equal values, as a part of the mean.
ROUNDING = 1e-12
# Metrics that explain others, and that a first look leaves out.
SECONDARY = ("bytes", "carried", "joined", "srtt", "resent", "flapping", "reinjected", "packets", "cpu")


def is_secondary(name: str) -> bool:
    """Return True if a metric explains others, and is left out of a first look."""
    what = name.partition(".")[2]
    return what.partition(".")[0] in SECONDARY or what.startswith("share.stdev")


def choose_main(metrics: Sequence[str], expected: Collection[str], own: Collection[str] = ()) -> list[str]:
    """Return the metrics of a run for a first look, in the given order: all expected ones, and up to five others.

    own: metrics that an experiment defines itself, which come first.
    """

    def rank(name: str) -> int:
        what = name.partition(".")[2]
        is_main = not is_secondary(name) and what.rpartition(".")[2] not in STATISTICS
        known = (n for n, main in enumerate(MAIN) if f"{what}.".startswith(f"{main}.") and is_main)
        return -1 if name in own else next(known, len(MAIN))

    chosen: list[str] = []
    others = [name for name in metrics if name not in expected]
    for number, alike in groupby(sorted(others, key=rank), rank):
        # the number of subflows comes with their shares
        most = MOST_MAIN + (MAIN[number : number + 1] == ("share",))
        some = [name for name in alike if rank(name) < len(MAIN)]
        # all shares or none: one of two would mislead
        if len(chosen) + len(some) <= most or not chosen:
            chosen += some[:MOST_MAIN]
    shown = {*expected, *chosen}
    return [name for name in metrics if name in shown] or list(metrics[:MOST_MAIN])


# The statistics of several values. All are equal if there is one value.
STATISTICS = ("median", "p90", "p95", "p99", "min", "max", "mdev", "stdev")


def find_repeated(metrics: Mapping[str, MetricValue]) -> set[str]:
    """Return the metrics that repeat a mean, because a flow had one request only."""
    found = set()
    for name in metrics:
        stem, _, statistic = name.rpartition(".")
        owner = stem.partition(".")[0]
        requests = metrics.get(f"{owner}.requests")
        if requests is not None and requests.value == 1 and statistic in STATISTICS and f"{stem}.mean" in metrics:
            found.add(name)
    return found
