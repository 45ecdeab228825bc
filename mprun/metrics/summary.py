# SPDX-License-Identifier: Apache-2.0
"""Make the summary, the tables and the accounts of a run: join the readings of all subjects in one order. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mprun.kernel.log import complete, read_console
from mprun.metrics import calibration
from mprun.metrics.capture import read_captures
from mprun.metrics.evidence import Evidence
from mprun.metrics.expectation import explain_expected, judge_all
from mprun.metrics.flow import read_flow
from mprun.metrics.flow_group import measure_groups, sum_up
from mprun.metrics.host_doubts import find_doubts
from mprun.metrics.interference import Interference
from mprun.metrics.kernel_messages import judge_log, tabulate_log
from mprun.metrics.lateness import find_allowances
from mprun.metrics.path_use import read_probes
from mprun.metrics.preference import measure_preference
from mprun.metrics.processor import measure_cpu
from mprun.metrics.readings import Readings, SummaryMetrics, join, join_tables
from mprun.metrics.series import FlowConnections, tabulate
from mprun.metrics.shortfall import explain_shortfall
from mprun.metrics.trace_event_tables import tabulate_trace
from mprun.model.frozen import Frozen
from mprun.model.intent import AddressedFlow, Intent
from mprun.model.metric import TOTAL, metrics_of
from mprun.model.run_summary import Summary
from mprun.safety.text import make_printable
from mprun.workloads.tool import OwnedMetrics

if TYPE_CHECKING:
    import polars

Frames = Mapping[str, "polars.DataFrame"]


class Measured(Frozen):
    """The result of a run. tables: as columns by name. accounts: reports of its processes as text for people."""

    summary: Summary
    tables: Mapping[str, Mapping[str, list[Any]] | polars.DataFrame]
    accounts: Mapping[str, str]


def measure(evidence: Evidence) -> Measured:
    """Return the summary and the tables of a run.

    The summary's status is `error` if a step failed. It is `failed` if the run lacks an effect that its files ask for,
    or if an expectation does not hold. Otherwise it is `passed`.
    """
    intent, agent = evidence.intent, evidence.agent
    readings = {flow.name: read_flow(flow, evidence) for flow in intent.traffic}
    results = {name: one.result for name, one in readings.items() if one.result is not None}
    connections = [one.connections for one in readings.values() if one.connections is not None]
    sampled = tabulate(agent, evidence.observation, connections)
    before = Readings(errors=(agent.error,) if agent.error else (), warnings=evidence.warnings)
    found = join(
        (before, read_probes(agent.processes, evidence.logs, intent), *(one.readings for one in readings.values()))
    )
    captures, of_captures = read_captures(evidence)
    # empty for a kernel of the machine
    kernel_log = complete(evidence.observation.kernel_log, read_console(evidence.logs("console", "log")))
    found = join(
        (
            found,
            *measure_groups(intent.traffic, results, found.metrics),
            sum_up(intent.traffic, results),
            *_use_samples(connections, sampled, evidence),
            *(
                explain_shortfall(flow, readings[flow.name].connections, results, sampled, found.metrics, evidence)
                for flow in intent.traffic
            ),
            of_captures,
            find_doubts(evidence, results),
            judge_log(kernel_log, agent.zero_ns),
            calibration.tell(evidence.calibration.rows if evidence.calibration else ()),
        )
    )
    verdicts, warnings = judge_all(evidence.expectations, found.metrics, find_allowances(intent, agent.host_idle))
    found = join(
        (found, Readings(warnings=warnings, failures=tuple(explain_expected(verdicts, intent, found.metrics))))
    )
    held = all(verdict.held for verdict in verdicts)
    summary = Summary(
        status="error" if found.errors else "passed" if held and not found.failures else "failed",
        engine=evidence.engine,
        complete=agent.complete,
        seed=intent.seed,
        metrics=order_metrics(found.metrics, intent),
        expectations=verdicts,
        errors=tuple(found.errors),
        failures=tuple(found.failures),
        warnings=tuple(found.warnings),
        groups=_group(intent.traffic),
        captures=captures,
        notes=tuple(found.notes),
        middleboxes=tuple(Interference(agent.filtered).tell()),
    )
    tables: Mapping[str, Mapping[str, list[Any]] | polars.DataFrame] = {
        **join_tables(found.tables),
        **sampled,
        **tabulate_log(kernel_log, agent.zero_ns),
        **tabulate_trace(evidence.observation.trace, intent.nodes),
    }
    return Measured(make_printable(summary), tables, found.accounts)


def order_metrics(metrics: SummaryMetrics, intent: Intent) -> SummaryMetrics:
    """Return metrics in reading order: paths, then flows and groups in the experiment's order, then sums.

    The metrics of a flow have the order of its tool.
    """
    owned = OwnedMetrics(intent.traffic)
    owners = {name: n for n, name in enumerate(owned, 1)}
    places = {path: n for n, path in enumerate(intent.path_links)}

    def order(name: str) -> tuple[int, int, int]:
        owner, _, what = name.partition(".")
        known = list(metrics_of(owner, owned))
        stem = what if what in known else what.rpartition(".")[0]
        rank = known.index(stem) if stem in known else len(known)
        place = max(places.get(owner, -1), places.get(what.rpartition(".")[2], -1))
        return owners.get(owner, len(owners) + 1 if owner == TOTAL else 0), rank, place

    return {name: metrics[name] for name in sorted(metrics, key=order)}


def _group(flows: Sequence[AddressedFlow]) -> dict[str, tuple[str, ...]]:
    groups = dict.fromkeys(flow.group for flow in flows if flow.group is not None)
    return {group: tuple(flow.name for flow in flows if flow.group == group) for group in groups}


def _use_samples(connections: Sequence[FlowConnections], sampled: Frames, evidence: Evidence) -> list[Readings]:
    """Return the readings from samples of sockets and programs."""
    found = []
    if "sockets" in sampled:
        found += [measure_preference(one, sampled["sockets"]) for one in connections if one.flow.protocol == "mptcp"]
    if "cpu" in sampled:
        found.append(measure_cpu(evidence.agent.processes, sampled["cpu"]))
    return found
