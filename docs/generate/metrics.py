# SPDX-License-Identifier: Apache-2.0
"""The page of every metric, with its unit and meaning, from the modules of the tools."""

from __future__ import annotations

from typing import cast

from docs.generate.markdown import LICENSE, code, table
from mprun.model.metric import OF_FLOWS, OF_PATH, OF_TOTAL, SYMBOLS, TOTAL, Metric, Metrics
from mprun.workloads import TOOLS
from mprun.workloads.tool import Tool, load

_BOUNDS = {"rate": "36mbit", "time": "40ms", "ratio": "45%", "count": "2", "size": "10mb"}


def page() -> str:
    """Return a section for each tool."""
    parts = [LICENSE, "# Metrics\n\n"]
    parts.append(
        "The metrics of a run are in `summary.json` and on the screen. `expect` sets bounds on metrics. "
        "The name of a metric begins with the name of the flow, as in `bulk.goodput`. "
        "If each path has its own value, the path's name follows, as in `bulk.share.path0`. "
        "The column 'better' has the direction of an improvement. `mprun compare` marks changes as better or "
        "worse by this direction.\n\n"
    )
    rows = [(kind, symbol, code(_BOUNDS[kind])) for kind, symbol in SYMBOLS.items()]
    parts.append(table(("unit", "in summary.json", "a bound in a file"), rows))
    parts.append(
        "\n## Of a path\n\nPings before time zero measure these metrics, as in `path0.rtt`.\n\n"
        + _table(OF_PATH, "PATH")
    )
    parts.append("\n## Of all flows\n\n" + _table(OF_TOTAL, TOTAL))
    parts.append(
        "\n## Of every flow in the real engine\n\n"
        "These metrics need `sample: {cpu: 100ms}`. They exist for programs that serve a single flow.\n\n"
    )
    parts.append(_table(OF_FLOWS, "FLOW"))
    for name in TOOLS:
        parts.append(f"\n## {name}\n\n" + _table(cast(Tool, load(name)).METRICS, "FLOW"))
    return "".join(parts)


def _table(metrics: Metrics, owner: str) -> str:
    rows = (
        (code(_name(name, metric, owner)), metric.unit, metric.better or "-", _meaning(metric))
        for name, metric in metrics.items()
    )
    return table(("metric", "unit", "better", "meaning"), rows)


def _name(name: str, metric: Metric, owner: str) -> str:
    return f"{owner}.{name}.PATH" if metric.by_path else f"{owner}.{name}"


def _meaning(metric: Metric) -> str:
    return metric.meaning + (f" ({', '.join(metric.protocols)})" if metric.protocols else "")
