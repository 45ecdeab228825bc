# SPDX-License-Identifier: Apache-2.0
"""The outcomes of runs with lost packets: which stand out, and the groups of those with the same cause. Pure."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterator, Sequence

from mprun.model.agent_report import AgentReport
from mprun.model.frozen import Frozen
from mprun.model.grouping import gather
from mprun.model.run_summary import Summary
from mprun.questions.packet_choice import Packet

# A value stands out if it is further from the quartiles than this many interquartile ranges (Tukey, Exploratory Data
# Analysis, 1977: "far out").
FENCE = 3.0
# Differences below this share of the value without losses never stand out: with a deterministic run, quartiles may be
# equal.
LEAST_SHARE = 0.01
_NUMBER = re.compile(r"\d[\d.,]*")


def without_numbers(text: str) -> str:
    """Return the text of a failure without its numbers, which differ between runs."""
    return _NUMBER.sub("#", text)


class FaultedRun(Frozen):
    """The run in which a packet was lost.

    - status: passed, failed or error.
    - completed_ns: the end of the last flow, from time zero; None if the run did not come so far.
    - value: of the metric that the study measures, in its base unit, or of the end of the last flow, in s.
    - causes: what the run reports as errors and failures, and the expectations that do not hold.
    - run: the path of the run below the sweep.
    """

    packet: Packet
    status: str
    completed_ns: int | None
    value: float | None
    causes: tuple[str, ...]
    run: str


class Group(Frozen):
    """Outcomes that stand out for the same cause, in order of the packets."""

    cause: str
    outcomes: tuple[FaultedRun, ...]


def read_causes(summary: Summary) -> tuple[str, ...]:
    """Return the errors and failures of a run, and the metrics whose expectations do not hold."""
    unmet = [f"{one.metric} is not as expected" for one in summary.expectations if not one.held]
    return (*summary.errors, *summary.failures, *unmet)


def find_end(agent: AgentReport) -> int | None:
    """Return when the last flow of a run ended, from time zero; None if it did not come so far."""
    ends = [one.ended_ns for one in agent.processes.values() if one.role == "flow"]
    return None if agent.zero_ns is None or not ends else max(ends) - agent.zero_ns


def find_outliers(faulted: Sequence[FaultedRun], base: FaultedRun) -> list[FaultedRun]:
    """Return the outcomes that are unlike that of the run without losses, or whose value is far out."""
    low, high = _fences([one.value for one in faulted], base)
    return [one for one in faulted if _is_unlike(one, base) or _is_outside(one.value, low, high)]


def find_separating(
    faulted: Sequence[FaultedRun], controls: Sequence[FaultedRun], base: FaultedRun
) -> list[FaultedRun]:
    """Return the outcomes that are unlike those of the control, packet by packet, or whose distance is far out."""
    distances = [
        None if one.value is None or other.value is None else one.value - other.value
        for one, other in zip(faulted, controls, strict=True)
    ]
    low, high = _fences(distances, base)
    return [
        one
        for one, other, distance in zip(faulted, controls, distances, strict=True)
        if _is_unlike(one, other) or _is_outside(distance, low, high)
    ]


def _is_unlike(one: FaultedRun, other: FaultedRun) -> bool:
    """Check for another status, a cause that the other outcome does not have, or a value that only one of them has."""
    is_new = bool({*map(without_numbers, one.causes)} - {*map(without_numbers, other.causes)})
    return is_new or one.status != other.status or (one.value is None) != (other.value is None)


def _fences(values: Sequence[float | None], base: FaultedRun) -> tuple[float, float]:
    """Return the bounds beyond which a value is far out."""
    known = [value for value in values if value is not None]
    if len(known) < 4:
        return float("-inf"), float("inf")
    low, _, high = statistics.quantiles(known, n=4, method="inclusive")
    reach = max(FENCE * (high - low), LEAST_SHARE * abs(base.value or 0.0))
    return low - reach, high + reach


def _is_outside(value: float | None, low: float, high: float) -> bool:
    return value is not None and not low <= value <= high


def group(outliers: Sequence[FaultedRun], base_of: Callable[[FaultedRun], FaultedRun]) -> list[Group]:
    """Return outliers by new cause, or else by kind, the largest group first. base_of: gives the outcome to compare."""
    groups = gather((_key(one, base_of(one)), one) for one in outliers)
    made = [Group(_tell(found[0], base_of(found[0])), tuple(found)) for found in groups.values()]
    return sorted(made, key=lambda one: (-len(one.outcomes), one.outcomes[0].packet.number))


def _new_causes(one: FaultedRun, base: FaultedRun) -> list[str]:
    return [cause for cause in one.causes if cause not in base.causes]


def _key(one: FaultedRun, base: FaultedRun) -> tuple[str, ...]:
    """Return the new causes without their numbers. Without new ones: kind and outcomes."""
    new = _new_causes(one, base)
    return tuple(map(without_numbers, new)) or ("kind", one.packet.kind, one.status, base.status)


def _tell(one: FaultedRun, base: FaultedRun) -> str:
    if new := _new_causes(one, base):
        return "; ".join(new)
    if one.status != base.status:
        return f"{one.status} instead of {base.status}: {one.packet.kind}"
    if one.value is None:
        return f"no new failure, but nothing was measured: {one.packet.kind}"
    return f"no failure, but far from the other runs: {one.packet.kind}"


class KindRow(Frozen):
    """The outcomes of one kind of packet: their number, those that failed, and the median and extremes of a value."""

    kind: str
    packets: int
    failed: int
    median: float | None
    least: float | None
    most: float | None


def by_kind(faulted: Sequence[FaultedRun]) -> Iterator[KindRow]:
    """Yield a row for each kind of packet, in the order of their first packets."""
    for kind in dict.fromkeys(one.packet.kind for one in faulted):
        mine = [one for one in faulted if one.packet.kind == kind]
        known = [one.value for one in mine if one.value is not None]
        failed = sum(one.status != "passed" for one in mine)
        middle = statistics.median(known) if known else None
        yield KindRow(kind, len(mine), failed, middle, min(known, default=None), max(known, default=None))
