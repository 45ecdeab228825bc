# SPDX-License-Identifier: Apache-2.0
"""Measured values as text, in the same form everywhere."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any

from mprun.errors import MprunError
from mprun.metrics.metric_table import check_metrics, choose_metrics, list_metrics
from mprun.model.frozen import Frozen
from mprun.model.grouping import gather
from mprun.model.metric import find_owned
from mprun.model.scalar import spell_values
from mprun.model.units import factor_of, format_measured
from mprun.storage.run_directory import RunDirectory
from mprun.workloads.tool import OwnedMetrics

if TYPE_CHECKING:
    from mprun.model.run_summary import ExpectationVerdict, MetricValue, Summary
    from mprun.model.spec import Flow
    from mprun.model.sweep_files import CellSummary, SweepSummary
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


class ExpectationRow(Frozen):
    """An expectation in words, or a statement across cells.

    - metric: for a statement, its text; for a part, its cell.
    - expected: the bound; empty for a statement and for a part.
    - held: whether it holds; None if not known yet.
    - is_part: about one cell of the expectation above.
    """

    metric: str
    expected: str
    measured: str
    held: bool | None
    is_part: bool = False


def list_verdicts(summary: SweepSummary, sweep: SweepDirectory) -> Iterator[ExpectationRow]:
    """Yield each expectation of a sweep, the cells in which it did not always hold, and each statement across cells."""
    found = gather((tuple(one.bounds.values()), (cell, one)) for cell in summary.cells for one in cell.expectations)
    for (metric, *_), judged in found.items():
        known = (cell.metrics[metric].unit for cell, _ in judged if metric in cell.metrics)
        bound = format_bound(judged[0][1].bounds, next(known, None) or _find_symbol(metric, sweep))
        held, of = sum(one.held for _, one in judged), sum(one.of for _, one in judged)
        yield ExpectationRow(metric, bound, f"held in {held} of {of} runs", held == of)
        for cell, one in judged:
            if one.held < one.of and len(judged) > 1:
                told = f"held in {one.held} of {one.of} runs"
                yield ExpectationRow(spell_values(cell.values), "", told, False, is_part=True)
    for statement in summary.statements:
        sides = (
            f" {one.operator} ".join(format_measured(amount, one.unit) for amount in (one.left, one.right))
            for one in statement.comparisons
        )
        held_across = statement.is_true(summary.status == "incomplete")
        yield ExpectationRow(statement.holds, "", "; ".join(sides) or statement.found, held_across)


def _find_symbol(metric: str, sweep: SweepDirectory) -> str:
    """Return the unit of a metric that no run measured, from the first run with a flow that has the metric."""
    for kept in sweep.runs():
        if found := find_owned(metric, OwnedMetrics(flows_of(kept.run))):
            return found[0].symbol
    return "1"


def flows_of(run: RunDirectory) -> Sequence[Flow]:
    """Return the flows of a run; none if its plan is of another version that this one cannot read."""
    with contextlib.suppress(MprunError):
        return run.plan().intent.traffic
    return ()


def list_own(flows: Iterable[Flow]) -> list[str]:
    """Return the names of the metrics that entries take from their own programs."""
    return [f"{flow.name}.{entry['name']}" for flow in flows for entry in flow.options.get("metrics", ())]


def find_own(source: ResultDirectory, cells: Sequence[CellSummary] = ()) -> list[str]:
    """Return the metrics that the entries of a run, or of a sweep's cells, take from their own programs.

    cells: those of the sweep's summary. The entries of a cell are read only if no cell before it has all its metrics.
    """
    runs = [source] if isinstance(source, RunDirectory) else _find_sources(source, cells)
    return list(dict.fromkeys(name for run in runs for name in list_own(flows_of(run))))


def _find_sources(sweep: SweepDirectory, cells: Sequence[CellSummary]) -> Iterator[RunDirectory]:
    """Yield the first run of each cell that has a metric that no cell before it has."""
    seen: set[str] = set()
    for n, cell in enumerate(cells):
        if not seen.issuperset(cell.metrics):
            seen.update(cell.metrics)
            yield from (kept.run for kept in islice(sweep.runs((n,)), 1))


def metrics_of_sweep(sweep: SweepDirectory, cells: Sequence[CellSummary], asked: Sequence[str] = ()) -> list[str]:
    """Return the metrics of a sweep's table. asked: those that a command line names; SpecError if one is not known."""
    return check_metrics(asked, list_metrics(cells)) or choose_metrics(cells, sweep.record.show, find_own(sweep, cells))


# The metrics that tell most of a run, the most telling first. A name may have further parts, as in `share.path0`.
MAIN = (
    *("goodput", "delay.mean", "completion.mean", "startup", "stall.time", "first_byte.mean", "time"),
    *("subflows", "share", "handover.gap", "loss", "fairness", "rtt", "efficiency.best", "retransmits"),
)
MOST_MAIN = 5
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


def find_hidden(summary: Summary) -> set[str]:
    """Return the metrics of flows whose group has the same metric. A list for hundreds of flows would be too long."""
    return {
        name
        for group, flows in summary.groups.items()
        for flow in flows
        for name in summary.metrics
        if name.startswith(f"{flow}.") and f"{group}{name.removeprefix(flow)}" in summary.metrics
    }


def list_known(summary: Summary, run: RunDirectory) -> list[str]:
    """Return a run's metrics in reading order, without those that others repeat or sum up if nothing was expected."""
    out = find_hidden(summary) | find_repeated(summary.metrics)
    out -= {one.metric for one in summary.expectations}
    metrics = summary.metrics
    if len(metrics) > 1 and [*metrics] == sorted(metrics):
        # earlier versions sorted the names; the order of the tools needs them, and they are slow to import
        from mprun.metrics.summary import order_metrics

        # the plan of another version may not be readable
        with contextlib.suppress(MprunError):
            metrics = order_metrics(metrics, run.plan().intent)
    return [name for name in metrics if name not in out]
