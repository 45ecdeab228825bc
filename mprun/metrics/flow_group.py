# SPDX-License-Identifier: Apache-2.0
"""Several flows together: the metrics of groups and of all flows, with their rate and fairness. Pure.

The field `over` of a metric determines how its value for a group follows from the values of the flows. A tool may
compute further metrics by its function `pool`.

The rate and the fairness follow from the payload that each flow got and when. Flows may start and end at different
times. A sum of their mean rates would add means over different intervals, and could exceed what the network carries.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from mprun.metrics.readings import Readings, SummaryMetrics, name_metrics, with_delays
from mprun.metrics.statistics import jain
from mprun.model.grouping import gather
from mprun.model.metric import FAIRNESS, OF_TOTAL, TOTAL, group_metrics
from mprun.model.spec import Flow
from mprun.workloads.tool import Portion, Result, metrics_of, tool_of

NsT = TypeVar("NsT", int, float)


def measure_groups(
    flows: Sequence[Flow], results: Mapping[str, Result], measured: SummaryMetrics
) -> Iterator[Readings]:
    """Yield the metrics and tables of each group whose flows all have a result. measured: by their whole names."""
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


def sum_up(flows: Sequence[Flow], results: Mapping[str, Result]) -> Readings:
    """Return goodput and fairness of the flows outside the background, if two of them ran at the same time."""
    names = [flow.name for flow in flows if not flow.background and flow.name in results]
    # a program of the user may have a goodput of its own, without portions
    portions = [results[name].portions["goodput"] for name in names if "goodput" in results[name].portions]
    together = {"goodput": find_rate(portions), "fairness": find_fairness(portions)}
    return Readings(name_metrics(TOTAL, together, OF_TOTAL))


def find_rate(flows: Sequence[Sequence[Portion]]) -> float | None:
    """Return the payload of all flows by the time in which one of them ran, in bit/s; None if no two ran together."""
    ran = [join_intervals(_intervals(portions)) for portions in flows]
    together = join_intervals([interval for intervals in ran for interval in intervals])
    if _length(together) == sum(map(_length, ran)):
        return None
    return sum(portion.size_bytes for portions in flows for portion in portions) * 8e9 / _length(together)


def find_fairness(flows: Sequence[Sequence[Portion]]) -> float | None:
    """Return the mean of Jain's index over the times with two flows or more, weighted by their lengths.

    Each time lasts while the same flows run. None if there is no such time, or if no flow got payload in one.
    """
    moments = sorted({at for portions in flows for ends in join_intervals(_intervals(portions)) for at in ends})
    # for each time between two moments, the payload of each flow that ran
    got: list[dict[int, float]] = [{} for _ in moments]
    for flow, portions in enumerate(flows):
        for portion in portions:
            for number, size_bytes in _divide(portion, moments):
                got[number][flow] = got[number].get(flow, 0.0) + size_bytes
    index, shared_ns = 0.0, 0
    for number, sizes in enumerate(got):
        if len(sizes) > 1 and any(sizes.values()):
            length_ns = moments[number + 1] - moments[number]
            index += length_ns * jain(list(sizes.values()))
            shared_ns += length_ns
    return index / shared_ns if shared_ns else None


def _divide(portion: Portion, moments: Sequence[int]) -> Iterator[tuple[int, float]]:
    """Yield the numbers of the times between moments in which a portion lies, each with the portion's bytes in it."""
    number = bisect_right(moments, portion.begin_ns) - 1
    begin_ns = portion.begin_ns
    while begin_ns < portion.end_ns:
        end_ns = min(portion.end_ns, moments[number + 1])
        yield number, portion.size_bytes * (end_ns - begin_ns) / (portion.end_ns - portion.begin_ns)
        begin_ns, number = end_ns, number + 1


def _intervals(portions: Sequence[Portion]) -> list[tuple[int, int]]:
    return [(portion.begin_ns, portion.end_ns) for portion in portions if portion.begin_ns < portion.end_ns]


def join_intervals(intervals: Iterable[tuple[NsT, NsT]]) -> list[tuple[NsT, NsT]]:
    """Return the same time as few intervals in order. intervals: begin and end of each, in ns."""
    joined: list[tuple[NsT, NsT]] = []
    for begin_ns, end_ns in sorted(intervals):
        if joined and begin_ns <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end_ns)
        else:
            joined.append((begin_ns, end_ns))
    return joined


def _length(intervals: Sequence[tuple[int, int]]) -> int:
    return sum(end_ns - begin_ns for begin_ns, end_ns in intervals)
