# SPDX-License-Identifier: Apache-2.0
"""The steps of a run -> a table of what changed in the network, and when. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from mprun.metrics.rows import Rows
from mprun.model.run_files import StepRecord

if TYPE_CHECKING:
    import polars


def tabulate_changes(steps: Iterable[StepRecord]) -> polars.DataFrame:
    """A row for each property that became another; a link has a direction, an address a host.

    value: as JSON, since properties differ in kind; the name of one ends in its unit.
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
