# SPDX-License-Identifier: Apache-2.0
"""The figures of a run, made from its plan and its tables, not yet painted.

The intent in the plan says what was run, so the inputs are loaded again only if the experiment asks for figures.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from mprun.model.intent import AddressedFlow, Intent
from mprun.model.spec import LinkChange, Plot
from mprun.model.units import NS_PER_S
from mprun.model.wording import say_change
from mprun.reports.figure import Chart, Mark
from mprun.reports.run_data import AssociationFlow, RunData
from mprun.reports.run_figures import draw_run
from mprun.runs.run_directory import RESOLVED_EXPERIMENT, RunDirectory


def charts_of(run: RunDirectory) -> list[Chart]:
    """Return the figures of the report. Raises MprunError if the run is incomplete or its inputs cannot be read."""
    return list(draw_run(read_data(run), _asked_plots(run)))


def _asked_plots(run: RunDirectory) -> Sequence[Plot]:
    """Return the figures that the experiment asks for; empty for the usual figures."""
    # each key of a resolved file begins a line
    if "\nplots:" not in run.folder.read_text(f"inputs/{RESOLVED_EXPERIMENT}"):
        return ()
    from mprun.inputs.loading import load

    return load(*run.resolved_inputs).spec.experiment.plots


def read_data(run: RunDirectory) -> RunData:
    """Return the data of a run for its figures. Raises MprunError."""
    intent, summary = run.plan().intent, run.summary()
    flows = sorted(intent.traffic, key=lambda flow: flow.background)
    paths = {path.name: path.links for flow in intent.traffic for path in flow.paths}
    # sorted in the order of the network
    order = {link.name: n for n, link in enumerate(intent.links)}
    paths = dict(sorted(paths.items(), key=lambda item: min((order.get(link, 0) for link in item[1]), default=0)))
    return RunData(
        tables=dict(run.tables()),
        flows=[flow.name for flow in flows],
        paths=paths,
        marks=tuple(_marks(intent)),
        groups={flow.name: flow.group for flow in flows if flow.group is not None},
        background=frozenset(flow.name for flow in flows if flow.background),
        captures={name: told.node for name, told in summary.captures.items()},
        associations={flow.name: _association(flow) for flow in intent.traffic if flow.protocol == "sctp"},
    )


def _association(flow: AddressedFlow) -> AssociationFlow:
    addresses = {flow.endpoints.destination_address, *(path.destination for path in flow.paths)}
    return AssociationFlow(flow.source, flow.destination, frozenset(product(addresses, flow.endpoints.all_ports)))


def _marks(intent: Intent) -> Iterator[Mark]:
    state = {link.name: ((link.forward, link.reverse), True) for link in intent.links}
    for change in intent.changes:
        at = change.at_ns / NS_PER_S
        if isinstance(change, LinkChange):
            before, was_up = state[change.link]
            after = (change.forward, change.reverse)
            yield Mark(at, f"{change.link} {say_change(before, after, change.is_up, was_up)}")
            state[change.link] = after, change.is_up
        else:
            yield Mark(at, f"{change.host}: address on {change.link} {'added' if change.is_there else 'removed'}")
