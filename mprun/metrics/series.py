# SPDX-License-Identifier: Apache-2.0
"""Make tidy tables of observations, and of the changes that the steps of a run made in the network. Pure.

A row is one object at one time, with the names of flow, path and link.

Times are in ns from time zero. Counters count from time zero on. None means that a value is not known.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mprun.metrics.connection import Connection, at_server
from mprun.metrics.observation import ENDS, Host, Observation
from mprun.metrics.rows import ColumnKind, Rows
from mprun.model.agent_report import AgentReport
from mprun.model.frozen import Frozen
from mprun.model.intent import AddressedFlow
from mprun.model.run_files import StepRecord
from mprun.workloads.tool import steady_span

if TYPE_CHECKING:
    import polars


# A host and the addresses and ports of a socket there, of which an event may lack some.
_Socket = tuple[str, tuple[Any, ...]]

OF_MEMBERS: Mapping[str, ColumnKind] = {"flow": "text", "connection": "whole", "path": "text"}
OF_EVENTS: Mapping[str, ColumnKind] = {
    **ENDS,
    **{"local_id": "whole", "remote_id": "whole", "backup": "whole", "error": "whole", "token": "whole"},
}


class FlowConnections(Frozen):
    """A flow of the intent, its data connections in the order of their begin, and its span from time zero."""

    flow: AddressedFlow
    connections: Sequence[Connection]
    began_ns: int
    ended_ns: int

    @property
    def counted_ns(self) -> tuple[int, int]:
        """Begin and end of the time that the flow's goodput counts, from time zero."""
        first_ns, last_ns = steady_span(self.flow)
        return self.began_ns + first_ns, int(min(self.ended_ns, self.began_ns + last_ns))


class _Membership(Frozen):
    """The flow and the path of a socket. connection: its number among the connections of the flow, from 0."""

    flow: str | None = None
    connection: int | None = None
    path: str | None = None


NOBODY = _Membership()


def tabulate(
    agent: AgentReport, observation: Observation, found: Iterable[FlowConnections]
) -> dict[str, polars.DataFrame]:
    """Return the tables of a run apart from those of its workloads. Empty tables are left out."""
    members = _find_members(found)
    tables = {
        "interfaces": observation.counters.interfaces.frame(),
        "queues": observation.counters.queues.frame(),
        "cpu": observation.processors.programs.frame(),
        "processors": observation.processors.processors.frame(),
        "sockets": _sockets(observation, members),
        "events": _events(observation.hosts, members),
        "counters": _counters(agent),
    }
    return {name: table for name, table in tables.items() if len(table)}


def _find_members(found: Iterable[FlowConnections]) -> dict[_Socket, _Membership]:
    """Return the membership of each socket by its host and addresses, at both ends of each subflow."""
    members = {}
    for one in found:
        flow = one.flow
        for number, connection in enumerate(one.connections):
            for subflow in connection.subflows:
                member = _Membership(flow.name, number, subflow.path)
                members[flow.source, subflow.addresses] = member
                members[flow.destination, at_server(subflow.addresses, flow.paths)] = member
    return members


def _sockets(observation: Observation, members: Mapping[_Socket, _Membership]) -> polars.DataFrame:
    keys: Mapping[str, ColumnKind] = {"host": "text", **ENDS}
    known = Rows({**keys, **OF_MEMBERS})
    for (host, addresses), member in members.items():
        known.add((host, *addresses, member.flow, member.connection, member.path))
    table = observation.sockets.frame().join(known.frame(), on=list(keys), how="left", maintain_order="left")
    first = ["time_ns", "host", *OF_MEMBERS]
    return table.select(*first, *(name for name in table.columns if name not in first))


def _events(hosts: Mapping[str, Host], members: Mapping[_Socket, _Membership]) -> polars.DataFrame:
    """Return the MPTCP events. An event without a subflow belongs to the connection with its token."""
    rows = Rows({"time_ns": "whole", "host": "text", "event": "text", **OF_MEMBERS, **OF_EVENTS})
    for host, observed in hosts.items():
        by_token: dict[int | None, _Membership] = {}
        named = []
        for event in observed.events:
            member = members.get((host, event.addresses), NOBODY)
            if member is not NOBODY:
                by_token.setdefault(event.token, _Membership(member.flow, member.connection))
            named.append((event, member))
        for event, member in named:
            if member is NOBODY:
                member = by_token.get(event.token, NOBODY)
            parts = (event.event, member.flow, member.connection, member.path)
            rows.add((event.at_ns, host, *parts, *(getattr(event, name) for name in OF_EVENTS)))
    return rows.frame().sort("time_ns", maintain_order=True)


def _counters(agent: AgentReport) -> polars.DataFrame:
    """Return the growth of each counter of the kernel (nstat(8)) during the run, and its values before and after."""
    rows = Rows({"host": "text", "name": "text", **dict.fromkeys(("value", "before", "after"), "whole")})
    for node, growth in agent.counters.items():
        before = agent.counters_before.get(node, {})
        for name in sorted({*growth, *before}):
            began, grown = before.get(name, 0), growth.get(name, 0)
            rows.add((node, name, grown, began, began + grown))
    return rows.frame()


def tabulate_changes(steps: Iterable[StepRecord]) -> polars.DataFrame:
    """Return a row for each property that changed. A row of a link has a direction, a row of an address a host.

    The column `value` is JSON, because properties have different types. The name of a property ends in its unit.
    """
    kinds = ("host", "link", "direction", "property", "value")
    rows = Rows({"time_ns": "whole", **dict.fromkeys(kinds, "text")})
    for step in steps:
        if step.step == "change":
            host, _, link = (step.name or "").rpartition(".")
            for direction, name, value in _properties(step.values or {}):
                rows.add((step.actual_ns, host or None, link, direction, name, json.dumps(value, sort_keys=True)))
    return rows.frame()


def _properties(values: Mapping[str, Any]) -> Iterator[tuple[str | None, str, Any]]:
    for key, value in values.items():
        if key in ("forward", "reverse") and isinstance(value, Mapping):
            for name, one in value.items():
                yield key, name, one
        else:
            yield None, key, value
