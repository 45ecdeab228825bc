# SPDX-License-Identifier: Apache-2.0
"""Groups: the metrics of several flows together.

The field `over` of a metric determines how its value for a group follows from the values of the flows. A tool may
compute further metrics by its function `pool`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mprun.metrics.fairness import find_fairness, find_rate
from mprun.metrics.readings import Readings, SummaryMetrics, name_metrics, with_delays
from mprun.model.grouping import gather
from mprun.model.metric import FAIRNESS, group_metrics
from mprun.model.spec import Flow
from mprun.workloads.tool import Result, metrics_of, tool_of


def measure_groups(
    flows: Sequence[Flow], results: Mapping[str, Result], measured: SummaryMetrics
) -> Iterator[Readings]:
    """Yield the metrics and the tables of each group whose flows all have a result.

    results: by flow. measured: the metrics of flows by their whole names.
    """
    for group, some in gather((flow.group, flow) for flow in flows if flow.group is not None).items():
        if all(flow.name in results for flow in some):
            values = _over(some, results, measured)
            tool = tool_of(some[0])
            told = [results[flow.name] for flow in some]
            pool = getattr(tool, "pool", _pool_delays)
            pooled = pool(some, told)
            metrics = {**metrics_of(some[0]), **FAIRNESS}
            yield Readings(
                name_metrics(group, {**values, **with_delays(pooled)}, metrics),
                tables=[(title, group, table) for title, table in pooled.tables.items()],
            )


def _pool_delays(flows: Sequence[Flow], results: Sequence[Result]) -> Result:
    """Return the delays of all flows together."""
    names = dict.fromkeys(name for result in results for name in result.delays_ns)
    return Result(delays_ns={n: [ns for r in results for ns in r.delays_ns.get(n, ())] for n in names})


def _over(flows: Sequence[Flow], results: Mapping[str, Result], measured: SummaryMetrics) -> dict[str, float | None]:
    """Return the sum or the smallest value of each metric that all flows have, and the rate and fairness of all."""
    values: dict[str, float | None] = {}
    for name, metric in group_metrics(metrics_of(flows[0])).items():
        found = [measured[key].value for flow in flows if (key := f"{flow.name}.{name}") in measured]
        if len(found) < len(flows):
            continue
        if metric.over == "least":
            values[name] = min(found)
        elif metric.over == "sum" and metric.unit != "rate":
            values[name] = sum(found)
        elif metric.over == "sum":
            portions = [results[flow.name].portions[name] for flow in flows]
            is_alone = len(flows) == 1
            values[name] = found[0] if is_alone else find_rate(portions)
            if name == "goodput":
                values["fairness"] = find_fairness(portions) if not is_alone else 1.0 if found[0] else None
    return values
