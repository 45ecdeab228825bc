# SPDX-License-Identifier: Apache-2.0
"""Readings: what one subject has to say of a run. Those of all subjects are joined into the summary. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mprun.model.metric import SYMBOLS, Unit
from mprun.model.run_summary import MetricValue
from mprun.workloads.tool import Table

SummaryMetrics = Mapping[str, MetricValue]


@dataclass(frozen=True)
class Readings:
    """The readings of one subject.

    `metrics`: by their whole names.
    `errors`: a step failed. `failures`: the run did not do what it was asked for.
    `warnings`: what a reader must know. `notes`: what a reader may want to know.
    `tables`: rows of a table, each part with its title and the name of its flow.
    `accounts`: what processes saw, as text for people.
    """

    metrics: SummaryMetrics = field(default_factory=dict)
    errors: Sequence[str] = ()
    failures: Sequence[str] = ()
    warnings: Sequence[str] = ()
    notes: Sequence[str] = ()
    tables: Sequence[tuple[str, str, Table]] = ()
    accounts: Mapping[str, str] = field(default_factory=dict)


def join(parts: Iterable[Readings]) -> Readings:
    """Return all readings in their order. A metric that is found again takes the later value and keeps its place."""
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
    """Return a value as a metric; counts and sizes without a fraction are whole numbers."""
    is_whole = unit in ("count", "size") and value == int(value)
    return MetricValue(int(value) if is_whole else value, SYMBOLS[unit])


def join_tables(parts: Iterable[tuple[str, str, Table]]) -> dict[str, dict[str, list[Any]]]:
    """Return each table with the rows of all its flows; a column that a flow does not have is empty there."""
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
