# SPDX-License-Identifier: Apache-2.0
"""The content of a run's `summary.json`. All rooms after the measurement read these values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from mprun.model.codec import Codec

Status = Literal["passed", "failed", "error"]
# The base units of metrics.
Symbol = Literal["bit/s", "s", "share", "byte", "1"]
# The kinds of messages in a summary.
Kind = Literal["errors", "failures", "warnings"]
KINDS: tuple[Kind, ...] = ("errors", "failures", "warnings")


class MetricValue(NamedTuple):
    """The value of a metric in the base unit of its symbol. A count or a size without a fraction is an int."""

    value: float
    unit: Symbol


class ExpectationVerdict(NamedTuple):
    """An expectation: its bounds, the value, and whether it held. `value`: None if it was not measured."""

    metric: str
    minimum: float | None
    maximum: float | None
    equals: float | None
    value: float | None
    held: bool

    @property
    def bounds(self) -> dict[str, Any]:
        """The expectation without its outcome."""
        return {"metric": self.metric, "minimum": self.minimum, "maximum": self.maximum, "equals": self.equals}


class CaptureFacts(NamedTuple):
    """A capture.

    `ready_s`, `first_s`: when it was live, and its first packet, from time zero.
    `packets`: in its file. `passed`: read by tcpdump; a file with a size may not hold all of them.
    `lost`: not read by tcpdump.
    """

    node: str
    link: str | None = None
    ready_s: float | None = None
    first_s: float | None = None
    packets: int = 0
    passed: int | None = None
    lost: int | None = None


class Summary(NamedTuple):
    """The summary of a run.

    `complete`: every step was done.
    `groups`: the names of the flows in each group.
    `captures`: by name. `middleboxes`: what middleboxes did to packets.
    """

    status: Status
    complete: bool
    seed: int
    metrics: Mapping[str, MetricValue]
    expectations: tuple[ExpectationVerdict, ...]
    errors: tuple[str, ...]
    failures: tuple[str, ...]
    warnings: tuple[str, ...]
    engine: str = ""
    groups: Mapping[str, tuple[str, ...]] = {}
    captures: Mapping[str, CaptureFacts] = {}
    notes: tuple[str, ...] = ()
    middleboxes: tuple[str, ...] = ()

    def value(self, metric: str) -> float | None:
        """Return the value of a metric in its base unit; None without such a metric."""
        found = self.metrics.get(metric)
        return None if found is None else float(found.value)

    def messages(self, kind: Kind) -> tuple[str, ...]:
        """Return the messages of one kind."""
        return {"errors": self.errors, "failures": self.failures, "warnings": self.warnings}[kind]

    def to_json(self) -> dict[str, Any]:
        """Return the summary as JSON values. Keys that not every run has are written only with a value."""
        return _CODEC.write(self)


_OPTIONAL = ("groups", "captures", "notes", "middleboxes")
_CODEC = Codec({Summary: lambda _, plain: {name: one for name, one in plain.items() if one or name not in _OPTIONAL}})
