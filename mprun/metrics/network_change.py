# SPDX-License-Identifier: Apache-2.0
"""Make the table of changes in the network from the steps of a run. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from mprun.metrics.rows import Rows
from mprun.model.run_files import StepRecord

if TYPE_CHECKING:
    import polars


def tabulate_changes(steps: Iterable[StepRecord]) -> polars.DataFrame:
    """Return a row for each property that changed. A row of a link has a direction, a row of an address a host.

    The column `value` is JSON, because properties have different types. The name of a property ends in its unit.
    """
    kinds = ("host", "link", "direction", "property", "value")
    rows = Rows({"time_ns": "whole", **dict.fromkeys(kinds, "text")})
    for step in steps:
        if step.step == "change":
            host, _, link = (step.name or "").rpartition(".")
            for direction, name, value in _properties(step.values or {}):
                rows.add((step.actual_ns, host or None, link, direction, name, json.dumps(value, sort_keys=True)))
    return rows.frame()


def _properties(values: Mapping[str, Any]) -> Iterator[tuple[str | None, str, Any]]:
    for key, value in values.items():
        if key in ("forward", "reverse") and isinstance(value, Mapping):
            for name, one in value.items():
                yield key, name, one
        else:
            yield None, key, value
