# SPDX-License-Identifier: Apache-2.0
"""The entries of `traffic`: each held against its tool's model, named, and all against each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mprun.plugin import PluginFault
from mprun.spec.document import Document
from mprun.spec.fault import Fault, Path, name_nearest
from mprun.spec.field import MOST_NAME
from mprun.spec.flow import FlowEntry
from mprun.spec.metric import TOTAL
from mprun.spec.model import check
from mprun.spec.repetition import names_of
from mprun.spec.spec import Flow
from mprun.spec.trace import TraceError
from mprun.tools.tool import COLLECTION, load, tool_of

MOST_PORT = 65_535


def read_traffic(values: object, document: Document) -> tuple[Flow, ...] | None:
    """The flows that plain values stand for, in the order of the entries; None where an entry is none. Faults go
    to the document; what is no list of mappings is for the model of the file."""
    if values is None:
        return ()
    listed = values if isinstance(values, list) else [None]
    entries = [_read_entry(value, n, document) if isinstance(value, dict) else None for n, value in enumerate(listed)]
    known = [entry for entry in entries if entry is not None]
    if len(known) < len(entries):
        return None
    flows = tuple(entry.flow(name) for entry, name in zip(known, _name(known, document), strict=True))
    _check_repetitions(flows, document)
    _check_order(flows, document)
    _check_ports(flows, document)
    return flows


def _read_entry(value: Mapping[str, object], n: int, document: Document) -> FlowEntry | None:
    place: Path = ("traffic", n)
    if "tool" not in value:
        document.fault((*place, "tool"), "names no tool: write 'tool: iperf3' or 'tool: ping'")
        return None
    name = value["tool"]
    try:
        tool = load(name) if isinstance(name, str) else None
    except PluginFault as fault:
        document.fault((*place, "tool"), str(fault))
        return None
    if tool is None:
        document.fault((*place, "tool"), f"no tool '{name}'{name_nearest(str(name), COLLECTION.list_names(), 'tools')}")
        return None
    entry = check(tool.Entry, value, document, place)
    return None if entry is None else _read_companions(entry, place, document)


def _read_companions(entry: FlowEntry, place: Path, document: Document) -> FlowEntry | None:
    for field, name in entry.companions().items():
        found = document.companion((*place, field), name)
        if found is None:
            return None
        try:
            entry = entry.with_companion(field, found[1])
        except TraceError as error:
            document.faults.append(Fault(found[0], error.line, (), str(error)))
            return None
    return entry


def _name(entries: Sequence[FlowEntry], document: Document) -> list[str]:
    """A name for each: its own, or that of its tool, numbered from the second on."""
    first: dict[str, int] = {}
    for n, entry in enumerate(entries):
        if entry.name in first:
            line = document.place(("traffic", first[entry.name], "name"))[1]
            message = f"a second flow '{entry.name}', first on line {line}: give each flow its own name"
            document.fault(("traffic", n, "name"), message)
        elif entry.name:
            first[entry.name] = n
        if entry.name == TOTAL:
            document.fault(("traffic", n, "name"), f"'{TOTAL}' names the sum over flows: name the flow anew")
    names = []
    taken = set(first)
    for entry in entries:
        name = entry.name or entry.tool
        number = 1
        while entry.name is None and name in taken:
            number += 1
            name = f"{entry.tool}-{number}"
        taken.add(name)
        names.append(name)
    return names


def _check_repetitions(flows: Sequence[Flow], document: Document) -> None:
    """Faults of repetitions whose names another flow has, or nobody may have."""
    holders = {flow.name: flow.name for flow in flows}
    for n, flow in enumerate(flows):
        for name in names_of(flow):
            if holders.setdefault(name, flow.name) != flow.name:
                message = f"calls one of the flows '{name}', as another is called: name that one anew"
                document.fault(("traffic", n, "repeat"), message)
            elif len(name) > MOST_NAME:
                message = f"makes names as long as '{name}', and {MOST_NAME} characters fit: shorten the flow's"
                document.fault(("traffic", n, "repeat"), message)


def _check_order(flows: Sequence[Flow], document: Document) -> None:
    """Faults of flows that wait for one that is not there, or for each other."""
    by_name = {flow.name: flow for flow in flows}
    by_repetition = {name: flow for flow in flows for name in names_of(flow)}
    for n, flow in enumerate(flows):
        if flow.after is not None and flow.after.flow not in by_name | by_repetition:
            hint = name_nearest(flow.after.flow, by_name, "flows")
            document.fault(("traffic", n, "start", "after"), f"no flow '{flow.after.flow}'{hint}")
    for n, flow in enumerate(flows):
        if circle := _find_circle(flow, by_repetition | by_name):
            message = f"flows wait for each other, {' after '.join(circle)}: let one start at a time of its own"
            document.fault(("traffic", n, "start", "after"), message)
            return


def _find_circle(flow: Flow, by_name: Mapping[str, Flow]) -> list[str]:
    """The names from a flow back to itself, if its start waits for it."""
    seen = [flow.name]
    while flow.after is not None and flow.after.flow in by_name:
        flow = by_name[flow.after.flow]
        seen.append(flow.name)
        if flow.name in seen[:-1]:
            return seen if flow.name == seen[0] else []
    return []


def _check_ports(flows: Sequence[Flow], document: Document) -> None:
    """Faults of ports that are not there, or that two flows want on one host."""
    taken: dict[tuple[str, int], str] = {}
    for n, flow in enumerate(flows):
        if flow.port is None:
            continue
        needed = tool_of(flow).PORTS
        if flow.repetition is not None:
            message = "cannot be that of all repetitions: each has a server of its own, take it out"
            document.fault(("traffic", n, "port"), message)
        elif flow.port + needed - 1 > MOST_PORT:
            message = f"{flow.port} leaves no room: {flow.tool} has {needed} ports, and the last is {MOST_PORT}"
            document.fault(("traffic", n, "port"), message)
        for port in range(flow.port, flow.port + needed):
            holder = taken.setdefault((flow.destination, port), flow.name)
            if holder != flow.name:
                message = f"{port} on '{flow.destination}' is taken by flow '{holder}': write another, or none"
                document.fault(("traffic", n, "port"), message)
