# SPDX-License-Identifier: Apache-2.0
"""Metrics: their kinds of unit, the form of a bound on each, and the metrics of paths.

The tools define the metrics of flows (`METRICS` of a module in `mprun.workloads`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Literal

from mprun.model import units
from mprun.model.frozen import Frozen
from mprun.model.spec import Protocol
from mprun.model.units import NS_PER_S, QuantityError

if TYPE_CHECKING:
    from mprun.model.run_summary import Symbol

Unit = Literal["rate", "time", "ratio", "count", "size"]
# The direction of an improvement.
Better = Literal["higher", "lower"]

# The base unit of each kind, as a summary shows it.
SYMBOLS: Mapping[Unit, Symbol] = {"rate": "bit/s", "time": "s", "ratio": "share", "count": "1", "size": "byte"}
# The kind of each symbol.
UNITS: Mapping[str, Unit] = {symbol: unit for unit, symbol in SYMBOLS.items()}
# The kinds with units in files: the quantity, and the number of its base units in the base unit of the kind.
QUANTITIES: Mapping[Unit, tuple[units.Quantity, int]] = {
    "time": (units.TIME, NS_PER_S), "rate": (units.RATE, 1), "size": (units.VOLUME, 1),
}  # fmt: skip
# The end of the name of a column in base units, by the symbol of the unit.
SUFFIXES: Mapping[str, str] = {"bit/s": "_bit_per_s", "s": "_s", "byte": "_bytes", "share": "", "1": ""}


class Metric(Frozen):
    """The meaning of a metric, and the kind of its unit.

    `protocols`: only flows of these protocols have it; empty for all.
    `by_path`: each path has one, and the path's name follows.
    `over`: the way in which a group's value follows from its flows' values. None: a group has no such metric.
    - `sum`: the sum; for rates, the payload of all flows over the time in which at least one ran.
    - `least`: the smallest value.
    - `delays`: the value over the delays of all flows.
    - `pool`: the value that the tool's `pool` computes.

    `better`: the direction of an improvement. None: neither more nor less is better, as for the share of a path.
    `is_free`: a program of the user's writes it, so that a value may be negative, and a count a fraction.
    `may_exceed`: a share of something else than the whole, so that a value may be above 100 %.
    """

    unit: Unit
    meaning: str
    protocols: tuple[Protocol, ...] = ()
    by_path: bool = False
    over: Literal["sum", "least", "delays", "pool"] | None = None
    better: Better | None = None
    is_free: bool = False
    may_exceed: bool = False

    @property
    def symbol(self) -> Symbol:
        return SYMBOLS[self.unit]


Metrics = Mapping[str, Metric]
# In a plot of a sweep: the share of the runs of a cell that passed.
PASSED = "passed"

# Metrics of which more is better, and of which less is better.
more = partial(Metric, better="higher")
less = partial(Metric, better="lower")
_less_by_path = partial(less, by_path=True)

OF_PATH: Metrics = {"rtt": less("time", "mean round-trip time of the idle path")}
# Metrics of every flow of the real engine whose programs serve no other flow, if CPU time is sampled.
OF_FLOWS: Metrics = {
    "cpu.client": Metric(
        "time", "CPU time (user and system) of the flow's programs on the host that opens connections"
    ),
    "cpu.server": Metric("time", "CPU time (user and system) of the flow's server"),
}
# Metrics of flows over several paths, with the same names for every transport.
OF_PATHS: Metrics = {
    "share": Metric(
        "ratio",
        "share of the payload that a path carried, in the direction with more payload (from the client if both have "
        "the same)",
        by_path=True,
    ),
    "carried": Metric("size", "payload that a path carried, in the direction of `share`", by_path=True),
    "joined": _less_by_path("time", "time from the flow's start until a path was ready for use"),
    "srtt": _less_by_path("time", "smoothed round-trip time of a path at the end, measured by the sender"),
    "resent": _less_by_path("count", "packets that were sent again on a path until the flow ended"),
    "resent.bytes": _less_by_path("size", "bytes that were sent again on a path until the flow ended"),
    "efficiency.sum": more("ratio", "goodput divided by the sum of the paths' rates", may_exceed=True),
    "efficiency.best": more("ratio", "goodput divided by the rate of the best path", may_exceed=True),
}
# Metrics of flows whose data is observed after the failure of a path, with the same names for every transport.
OF_HANDOVER: Metrics = {
    "handover.gap": less("time", "longest time without progress of the data while a path has failed"),
    "handover.time": less("time", "time from the failure of a path until the data no longer waits for timers"),
}
# Metrics of flows whose connections are sampled from the kernel.
OF_CONNECTIONS: Metrics = {
    "subflows": Metric("count", "subflows of the connection with the fewest", ("mptcp",), over="least"),
    "flapping": less(
        "ratio",
        "share of the seconds in which the subflow with the most data was not the same as in the second before",
        ("mptcp",),
    ),
    "share.stdev": Metric(
        "ratio", "sample standard deviation of a path's share over the seconds of the flow", ("mptcp",), by_path=True
    ),
    "reinjected": less(
        "count",
        "pieces of data that MPTCP's own timer sent again, usually on another subflow; data of a stale subflow, "
        "which mprun packets counts too, is not among them",
        ("mptcp",),
    ),
    **{name: replace(metric, protocols=("mptcp",)) for name, metric in {**OF_HANDOVER, **OF_PATHS}.items()},
}
_JAIN = "Jain's index of the goodputs of {} while they run together (1: all are equal)"
# Metrics of groups whose flows all have a goodput.
FAIRNESS: Metrics = {"fairness": more("ratio", _JAIN.format("the group's flows"))}
# Metrics of all flows outside the background with a goodput, if at least two of them run at the same time.
OF_TOTAL: Metrics = {
    "goodput": more(
        "rate", "payload of all flows outside the background, divided by the time in which at least one of them ran"
    ),
    "fairness": more("ratio", _JAIN.format("these flows")),
}
TOTAL = "total"


def delays(name: str, what: str) -> Metrics:
    """The metrics of a series of delays, as `mprun.workloads.tool.summarize_delays` fills them.

    what: the meaning of one delay.
    """
    meanings = {
        "mean": f"mean {what}",
        "stdev": f"sample standard deviation of the {what}",
        "median": f"median of the {what}",
        "p95": f"95th percentile of the {what}",
        "p99": f"99th percentile of the {what}",
        "min": f"shortest {what}",
        "max": f"longest {what}",
    }
    return {f"{name}.{which}": less("time", meaning, over="delays") for which, meaning in meanings.items()}


_RATE = replace(units.RATE, example="36mbit", minimum=0, canonical=())
# The quantity of a bound, as in QUANTITIES.
_BOUNDS = {**QUANTITIES, "rate": (_RATE, 1), "size": (units.SIZE, 1)}


def group_metrics(metrics: Metrics) -> Metrics:
    """The metrics of a group of flows with these metrics."""
    own = {name: metric for name, metric in metrics.items() if metric.over is not None}
    return {**own, **(FAIRNESS if "goodput" in own else {})}


def metrics_of(owner: str, owned: Mapping[str, Metrics]) -> Metrics:
    """The metrics of a flow, a group, all flows together, or else of a path. owned: the metrics of flows and groups."""
    if owner in owned:
        return owned[owner]
    return OF_TOTAL if owner == TOTAL else OF_PATH


def find_metric(metrics: Metrics, name: str) -> tuple[Metric, str | None] | None:
    """Find a metric by the part after the flow's name, as in `bulk.share.path0`. Return it and the path, or None."""
    if name in metrics:
        return None if metrics[name].by_path else (metrics[name], None)
    head, _, path = name.rpartition(".")
    return (metrics[head], path) if head in metrics and metrics[head].by_path else None


def find_owned(name: str, owned: Mapping[str, Metrics]) -> tuple[Metric, str | None] | None:
    """Find a metric by its whole name, as `bulk.share.path0`. Return it and the path, or None.

    owned: the metrics of flows and groups.
    """
    owner, _, what = name.partition(".")
    return find_metric(metrics_of(owner, owned), what)


def relative_change(before: float, after: float) -> float | None:
    """Return the change as a share of the size of the first value: 0.02 for 2 % more. None if this value is 0."""
    if not before:
        return None
    change = after / before - 1
    return change if before > 0 else -change


def parse_bound(metric: Metric, value: object) -> float:
    """Parse a bound into the base unit: bit/s, s, 1 or bytes. Raises QuantityError."""
    unit = metric.unit
    if unit == "ratio":
        return units.parse_share(value) if metric.may_exceed or metric.is_free else units.parse_ratio(value)
    if unit in _BOUNDS:
        quantity, factor = _BOUNDS[unit]
        return quantity.parse(value) / factor
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise QuantityError("is a count: write a bare number, as in '2'")
    if value < 0 and not metric.is_free:
        raise QuantityError("is a count, and no count is below 0")
    return float(value)


def render_bound(unit: Unit, value: float) -> str | float:
    """Return the text of a bound in the base unit, as `parse_bound` reads it."""
    if unit == "ratio":
        return units.render_ratio(value)
    if unit in _BOUNDS:
        quantity, factor = _BOUNDS[unit]
        return quantity.render(round(value * factor))
    return int(value) if value == int(value) else value
