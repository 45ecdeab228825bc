# SPDX-License-Identifier: Apache-2.0
"""Metrics by name: what a flow and a path have, and the unit in which a bound on each is written."""

from __future__ import annotations

from typing import Literal

from mprun.spec import units
from mprun.spec.units import NS_PER_S, QuantityError

Unit = Literal["rate", "time", "ratio", "count"]

UNITS: dict[str, Unit] = {
    "goodput": "rate",
    "subflows": "count",
    "share": "ratio",
    "retransmits": "count",
    "rtt": "time",
    "loss": "ratio",
}
# `share` is followed by the name of a path.
OF_TOOL = {"iperf3": ("goodput", "subflows", "share", "retransmits", "loss"), "ping": ("rtt", "loss")}
# Of these flows only.
OF_UDP = ("loss",)
OF_TCP = ("retransmits",)
OF_PATH = ("rtt",)
OF_MPTCP = ("subflows", "share")

_RATE = units.Quantity("rate", units.RATE.units, "36mbit", ("mbit", "kbit"), mistaken=units.RATE.mistaken)


def unit_of(metric: str) -> Unit | None:
    """The unit of `bulk.goodput`, `bulk.share.path0`; None if there is no such metric."""
    words = metric.split(".")
    if len(words) != (3 if words[1:2] == ["share"] else 2):
        return None
    return UNITS.get(words[1])


def parse_bound(unit: Unit, value: object) -> float:
    """A bound in the base unit: bit/s, s or 1. Raises QuantityError."""
    if unit == "rate":
        return float(_RATE.parse(value))
    if unit == "time":
        return units.TIME.parse(value) / NS_PER_S
    if unit == "ratio":
        return units.parse_ratio(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise QuantityError("is a count: write a bare number, as in '2'")
    return float(value)


def render_bound(unit: Unit, value: float) -> str | float:
    """The text of a bound given in the base unit, as `parse_bound` reads it."""
    if unit == "rate":
        return _RATE.render(round(value))
    if unit == "time":
        return units.TIME.render(round(value * NS_PER_S))
    if unit == "ratio":
        return units.render_ratio(value)
    return int(value) if value == int(value) else value
