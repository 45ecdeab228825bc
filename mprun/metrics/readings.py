# SPDX-License-Identifier: Apache-2.0
"""Readings: the metrics, tables and messages of one subject of a run. The summary joins those of all subjects. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

from mprun.model.frozen import Frozen
from mprun.model.metric import SYMBOLS, Metrics, Unit, find_metric
from mprun.model.run_summary import MetricValue
from mprun.workloads.tool import Result, Table, summarize_delays

SummaryMetrics = Mapping[str, MetricValue]


class Readings(Frozen):
    """The readings of one subject.

    - metrics: by their whole names.
    - errors: steps that failed.
    - failures: effects that the files ask for and that the run did not have.
    - warnings: facts that a reader must know.
    - notes: facts that a reader may want to know.
    - tables: parts of tables, each with the title of the table and the name of its flow.
    - accounts: reports of processes as text for people.
    """

    metrics: SummaryMetrics = field(default_factory=dict)
    errors: Sequence[str] = ()
    failures: Sequence[str] = ()
    warnings: Sequence[str] = ()
    notes: Sequence[str] = ()
    tables: Sequence[tuple[str, str, Table]] = ()
    accounts: Mapping[str, str] = field(default_factory=dict)


def join(parts: Iterable[Readings]) -> Readings:
    """Return all readings in their order. If a metric occurs twice, it keeps its place and has the later value."""
    parts = tuple(parts)
    return Readings(
        metrics={name: metric for part in parts for name, metric in part.metrics.items()},
        errors=tuple(text for part in parts for text in part.errors),
        failures=tuple(text for part in parts for text in part.failures),
        warnings=tuple(text for part in parts for text in part.warnings),
        notes=tuple(text for part in parts for text in part.notes),
        tables=tuple(table for part in parts for table in part.tables),
        accounts={name: text for part in parts for name, text in part.accounts.items()},
    )


def measured(value: float, unit: Unit) -> MetricValue:
    """Return a value as a metric. Counts and sizes without a fraction become whole numbers."""
    is_whole = unit in ("count", "size") and value == int(value)
    return MetricValue(int(value) if is_whole else value, SYMBOLS[unit])


def name_metrics(owner: str, values: Mapping[str, float | None], metrics: Metrics) -> dict[str, MetricValue]:
    """Return the known values of a flow or a group, by the whole names of its metrics.

    values: by the names in `metrics`, such as `goodput`, with the path of a metric by path, such as `share.path0`.
    """
    named = {}
    for name, value in values.items():
        if value is not None:
            found = find_metric(metrics, name)
            assert found is not None, name
            named[f"{owner}.{name}"] = measured(value, found[0].unit)
    return named


def with_delays(result: Result) -> dict[str, float | None]:
    """Return the values of a result with the statistics of its delays."""
    values: dict[str, float | None] = {**result.values}
    for what, delays_ns in result.delays_ns.items():
        values |= summarize_delays(what, delays_ns)
    return values


def join_tables(parts: Iterable[tuple[str, str, Table]]) -> dict[str, dict[str, list[Any]]]:
    """Return each table with the rows of all its flows. A column that a flow does not have is empty in its rows."""
    tables: dict[str, dict[str, list[Any]]] = {}
    for title, flow, table in parts:
        joined = tables.setdefault(title, {"flow": []})
        before = len(joined["flow"])
        rows = len(next(iter(table.values()), ()))
        joined["flow"] += [flow] * rows
        for column in [*joined, *table]:
            values = joined.setdefault(column, [None] * before)
            if column != "flow" and len(values) == before:
                values += table.get(column, [None] * rows)
    return tables
