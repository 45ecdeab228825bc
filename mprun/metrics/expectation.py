# SPDX-License-Identifier: Apache-2.0
"""Judge expectations by metrics, and explain expected numbers of subflows that the settings do not allow. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mprun.metrics.diagnosis import explain_settings
from mprun.metrics.lateness import Allowance
from mprun.metrics.readings import SummaryMetrics
from mprun.model.intent import Intent
from mprun.model.metric import OF_HANDOVER
from mprun.model.run_summary import ExpectationVerdict
from mprun.model.spec import Expectation
from mprun.model.units import format_measured


def judge(
    expectation: Expectation, metrics: SummaryMetrics, allowance: Allowance | None
) -> tuple[ExpectationVerdict, str | None]:
    """Return the verdict on an expectation, and a warning: of late timers that explain a value above its bound, or of a
    hand-over that did not happen.

    allowance: the time by which late timers may lengthen this metric.
    """
    value = metrics[expectation.metric].value if expectation.metric in metrics else None
    held, warning = value is not None, None
    if value is None and expectation.metric.partition(".")[2] in OF_HANDOVER:
        warning = f"{expectation.metric}: is not measured: no path failed while the flow's data was on its way"
    if value is not None:
        if expectation.minimum is not None:
            held &= value >= expectation.minimum
            warning = None if held else _explain_idle(expectation.metric, expectation.minimum, metrics)
        if expectation.maximum is not None and value > expectation.maximum:
            held &= allowance is not None and value <= expectation.maximum + allowance.most_s
            if held and allowance is not None:
                warning = allowance.explain(expectation.metric, value, expectation.maximum)
        if expectation.equals is not None:
            held &= value == expectation.equals
    return ExpectationVerdict(**vars(expectation), value=value, held=held), warning


def _explain_idle(metric: str, minimum: float, metrics: SummaryMetrics) -> str | None:
    """Return why the round-trip time of a path is below a bound that flows would reach; None for other metrics."""
    path, _, what = metric.partition(".")
    known = (name for name, one in metrics.items() if name.endswith(f".srtt.{path}") and one.value >= minimum)
    loaded = next(known, None)
    if what != "rtt" or loaded is None:
        return None
    said = format_measured(metrics[loaded].value, "s")
    return f"{metric}: is measured before the flows, in the idle network. While the flows send, {loaded} is {said}"


def judge_all(
    expectations: Sequence[Expectation], metrics: SummaryMetrics, allowances: Mapping[str, Allowance]
) -> tuple[tuple[ExpectationVerdict, ...], list[str]]:
    judged = [judge(one, metrics, allowances.get(one.metric)) for one in expectations]
    return tuple(verdict for verdict, _ in judged), [warning for _, warning in judged if warning is not None]


def explain_expected(verdicts: Sequence[ExpectationVerdict], intent: Intent, metrics: SummaryMetrics) -> Iterator[str]:
    """Yield why a flow has fewer subflows than expected, if it has all subflows that its hosts' settings allow.

    Yield too if a path has no share because no subflow was opened on it.
    """
    for flow in intent.traffic:
        for verdict in verdicts:
            name, _, path = verdict.metric.partition(".share.")
            is_idle = verdict.value == 0 and f"{name}.joined.{path}" not in metrics
            if name == flow.name and flow.protocol == "mptcp" and is_idle and not verdict.held:
                client, server = (intent.mptcp_of(host) for host in (flow.source, flow.destination))
                cause = explain_settings(client, server, 2)
                if client.path_manager == "ndiffports":
                    cause = "ndiffports opens all subflows between the first pair of addresses: write fullmesh"
                yield f"{name}: no subflow was on path {path}, so that its share is 0{f': {cause}' if cause else ''}"
            bounds = [bound for bound in (verdict.equals, verdict.minimum) if bound is not None]
            value = verdict.value
            if verdict.metric != f"{flow.name}.subflows" or value is None or not bounds:
                continue
            if flow.subflows == value < max(bounds):
                client, server = (intent.mptcp_of(host) for host in (flow.source, flow.destination))
                allowed = f"the addresses and settings of both hosts allow {flow.subflows}, not more"
                cause = explain_settings(client, server, max(bounds)) or allowed
                yield f"{flow.name}: {value} of {max(bounds):g} subflows: {cause}"
