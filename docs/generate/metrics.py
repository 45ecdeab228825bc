# SPDX-License-Identifier: Apache-2.0
"""Every metric, with its unit and meaning, from the modules of the tools."""

from __future__ import annotations

from typing import cast

from docs.generate.markdown import LICENSE, code, table
from mprun.model.metric import OF_FLOWS, OF_PATH, OF_TOTAL, SYMBOLS, TOTAL, Metric, Metrics
from mprun.tools import TOOLS
from mprun.tools.tool import Tool, load

_BOUNDS = {"rate": "36mbit", "time": "40ms", "ratio": "45%", "count": "2", "size": "10mb"}


def page() -> str:
    """A section for each tool."""
    parts = [LICENSE, "# Metrics\n\n"]
    parts.append(
        "What a run measures is in `summary.json` and on the screen, and `expect` puts bounds on it. A metric is named "
        "after the flow, as in `bulk.goodput`; where one is kept for each path, the path's name follows, as in "
        "`bulk.share.path0`.\n\n"
    )
    rows = [(kind, symbol, code(_BOUNDS[kind])) for kind, symbol in SYMBOLS.items()]
    parts.append(table(("unit", "in summary.json", "a bound in a file"), rows))
    parts.append(
        "\n## Of a path\n\nMeasured by pings before time zero, as in `path0.rtt`.\n\n" + _table(OF_PATH, "PATH")
    )
    parts.append("\n## Of all flows\n\n" + _table(OF_TOTAL, TOTAL))
    parts.append(
        "\n## Of every flow in the real engine\n\nWith `sample: {cpu: 100ms}`, of programs that serve one flow.\n\n"
    )
    parts.append(_table(OF_FLOWS, "FLOW"))
    for name in TOOLS:
        parts.append(f"\n## {name}\n\n" + _table(cast(Tool, load(name)).METRICS, "FLOW"))
    return "".join(parts)


def _table(metrics: Metrics, owner: str) -> str:
    rows = ((code(_name(name, metric, owner)), metric.unit, _meaning(metric)) for name, metric in metrics.items())
    return table(("metric", "unit", "is"), rows)


def _name(name: str, metric: Metric, owner: str) -> str:
    return f"{owner}.{name}.PATH" if metric.by_path else f"{owner}.{name}"


def _meaning(metric: Metric) -> str:
    return metric.meaning + (f" ({', '.join(metric.protocols)})" if metric.protocols else "")
