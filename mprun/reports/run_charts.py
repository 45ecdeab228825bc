# SPDX-License-Identifier: Apache-2.0
"""Choose the figures of a run from its plan and its tables. `run_figures` makes each of them.

The intent in the plan says what was run, so the inputs are loaded again only if the experiment asks for figures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

from mprun.model.agent_report import AgentReport
from mprun.model.intent import AddressedFlow, Intent
from mprun.model.spec import Direction, LinkChange, Plot, Rebinding, TopologySpec
from mprun.model.wording import say_change
from mprun.reports.figure import MOST_NUMBERS, Chart, Mark
from mprun.reports.run_data import NS, AssociationFlow, RunData
from mprun.reports.run_figures import draw_run
from mprun.storage.run_directory import RESOLVED_EXPERIMENT, RunDirectory


def charts_of(run: RunDirectory) -> list[Chart]:
    """Return the figures of the report. Raises MprunError if the run is incomplete or its inputs cannot be read."""
    return list(draw_run(read_data(run), _asked_plots(run)))


def _asked_plots(run: RunDirectory) -> Sequence[Plot]:
    """Return the figures that the experiment asks for; empty for the usual figures."""
    # each key of a resolved file begins a line
    if not run.has_resolved_inputs or "\nplots:" not in run.folder.read_text(f"inputs/{RESOLVED_EXPERIMENT}"):
        return ()
    from mprun.inputs.loading import load

    return load(*run.resolved_inputs).spec.experiment.plots


def read_data(run: RunDirectory) -> RunData:
    """Return the data of a run for its figures. Raises MprunError."""
    intent, summary = run.plan().intent, run.summary()
    flows = sorted(intent.traffic, key=lambda flow: flow.background)
    return RunData(
        tables=dict(run.tables()),
        flows=[flow.name for flow in flows],
        paths=intent.path_links,
        marks=tuple(marks_of(intent)),
        groups={flow.name: flow.group for flow in flows if flow.group is not None},
        background=frozenset(flow.name for flow in flows if flow.background),
        captures={name: told.node for name, told in summary.captures.items()},
        associations={flow.name: _association(flow) for flow in intent.traffic if flow.protocol == "sctp"},
        ends=_ends(run.agent_report(), intent) if run.has("agent.json") else {},
        clients={flow.name: flow.source for flow in intent.traffic},
        link_rates=link_rates_of(intent),
    )


def _association(flow: AddressedFlow) -> AssociationFlow:
    servers = frozenset(product(flow.server_addresses, flow.endpoints.all_ports))
    return AssociationFlow(flow.source, flow.destination, servers)


def _ends(agent: AgentReport, intent: Intent) -> dict[str, float]:
    found = {}
    for flow in intent.traffic:
        if processes := agent.ended("flow", flow.name):
            found[flow.name] = (max(one.ended_ns for one in processes.values()) - (agent.zero_ns or 0)) / NS
    return found


def link_rates_of(network: Intent | TopologySpec) -> dict[tuple[str, str], list[tuple[float, float]]]:
    """Return the rates of links over time (`RunData`)."""
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for link in network.links:
        states = {0: (link.forward, link.reverse)}
        # a change at time zero takes the place of the link's own values
        for change in network.changes:
            if isinstance(change, LinkChange) and change.link == link.name:
                states[change.at_ns] = (change.forward, change.reverse)
        forward, reverse = (
            [(at / NS, float(both[side].rate_bit_per_s or 0)) for at, both in states.items()] for side in (0, 1)
        )
        sides = {"": forward} if forward == reverse else {"forward": forward, "reverse": reverse}
        found |= {(link.name, side): course for side, course in sides.items() if len({rate for _, rate in course}) > 1}
    return found


def marks_of(network: Intent | TopologySpec) -> Iterator[Mark]:
    """Yield the changes of links and addresses, but not the rates and delays of a trace: they are a curve."""
    state = {link.name: ((link.forward, link.reverse), True) for link in network.links}
    counts = Counter(change.link for change in network.changes if isinstance(change, LinkChange))
    curves = {link for link, _ in link_rates_of(network) if counts[link] > MOST_NUMBERS}
    for change in network.changes:
        at = change.at_ns / NS
        if isinstance(change, LinkChange):
            before, was_up = state[change.link]
            after = (change.forward, change.reverse)
            state[change.link] = after, change.is_up
            if change.link in curves:
                before = (_follow(before[0], after[0]), _follow(before[1], after[1]))
            if (before, was_up) != (after, change.is_up):
                yield Mark(at, f"{change.link} {say_change(before, after, change.is_up, was_up)}")
        elif isinstance(change, Rebinding):
            yield Mark(at, f"{change.host}: another {change.rebound} on {change.link}")
        else:
            yield Mark(at, f"{change.host}: address on {change.link} {'added' if change.is_there else 'removed'}")


def _follow(before: Direction, after: Direction) -> Direction:
    return replace(before, rate_bit_per_s=after.rate_bit_per_s, delay_ns=after.delay_ns)
