# SPDX-License-Identifier: Apache-2.0
"""How measured values read, wherever they are shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def format_value(value: float, unit: str) -> str:
    """A value as people say it: `36.9 Mbit/s`, `40.0 ms`, `50.1 %`."""
    if unit == "bit/s":
        for size, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
            if abs(value) >= size:
                return f"{value / size:.2f} {prefix}bit/s"
        return f"{value:.0f} bit/s"
    if unit == "s":
        return f"{value * 1e3:.3f} ms" if abs(value) < 1 else f"{value:.3f} s"
    if unit == "byte":
        return f"{value / 1e6:.2f} MB" if value >= 1e6 else f"{value:.0f} B"
    if unit == "share":
        return f"{value:.1%}".replace("%", " %")
    return f"{value:g}"


def format_bound(verdict: Mapping[str, Any], unit: str) -> str:
    """What was expected, of a verdict in a summary: `≥ 36.0 Mbit/s`, `= 2`."""
    if verdict["equals"] is not None:
        return f"= {format_value(verdict['equals'], unit)}"
    low, high = verdict["minimum"], verdict["maximum"]
    if low is not None and high is not None:
        return f"{format_value(low, unit)} to {format_value(high, unit)}"
    return f"≥ {format_value(low, unit)}" if low is not None else f"≤ {format_value(high, unit)}"
