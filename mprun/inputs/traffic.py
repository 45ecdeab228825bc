# SPDX-License-Identifier: Apache-2.0
"""The entries of `traffic`: check each against its tool's model, name it, make flows, and check the flows together.

A repeated flow is one flow until `expand` makes a flow of each repetition.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from mprun.inputs.document import Document, Spread
from mprun.inputs.keys.field import MOST_NAME, name_all
from mprun.inputs.keys.file_model import check, fields_of
from mprun.inputs.keys.pairing import gather_hosts, pair_hosts
from mprun.inputs.keys.shape import write_entry
from mprun.inputs.keys.traffic_entry import PORT, FlowEntry
from mprun.machine.plugin import PluginProblem
from mprun.model.metric import TOTAL
from mprun.model.problem import Notes, ValuePath, tell_unknown
from mprun.model.span import find_circle
from mprun.model.spec import After, Flow
from mprun.workloads.tool import COLLECTION, load, metrics_of, tool_of

# The largest number of flows of an entry and of all entries, as each has its own server, with up to three ports.
MOST_PAIRS = 10_000
MOST_FLOWS = 20_000


def read_traffic(
    values: object, document: Document, hosts: Sequence[str] | None, seed: int
) -> tuple[tuple[Flow, ...], Sequence[int]] | None:
    """Return the flows from plain values, in the order of the entries, and the number of the entry of each flow.

    None if an entry is no mapping or its hosts are not known. Problems go to the document. The model of the file checks
    that `traffic` is a list of mappings.
    `hosts`: the hosts of the topology; None if they are not known.
    `seed`: random choices follow from it.
    """
    if values is None:
        return (), ()
    if values == [] and not document.tree.is_resolved:
        document.refuse(("traffic",), "has no flow: write '- {tool: ping, from: client, to: server}', or remove it")
    listed = values if isinstance(values, list) else [None]
    entries = [_read_entry(value, n, document) if isinstance(value, dict) else None for n, value in enumerate(listed)]
    known = [entry for entry in entries if entry is not None]
    if len(known) < len(entries):
        return None
    names = _name(known, document)
    expanded: list[list[Flow]] = []
    made = 0
    for n, (entry, name) in enumerate(zip(known, names, strict=True)):
        expanded.append(_pair(entry, name, n, document, hosts, seed))
        made += len(expanded[-1]) * (entry.repeat.times if entry.repeat else 1)
        if made > MOST_FLOWS:
            message = f"makes {made} flows with the entries before it, and a run has {MOST_FLOWS} at most: write fewer"
            document.refuse(("traffic", n), message)
            return None
    if not all(expanded):
        return None
    flows = tuple(flow for some in expanded for flow in some)
    origins = [n for n, some in enumerate(expanded) for _ in some]
    notes = Spread(document, {"traffic": origins})
    _check_names(flows, notes)
    _check_groups(flows, notes)
    _check_order(flows, notes)
    _check_ports(flows, notes)
    return flows, origins


def _read_entry(value: Mapping[str, object], n: int, document: Document) -> FlowEntry | None:
    position: ValuePath = ("traffic", n)
    if "tool" not in value:
        first, below = next(iter(value.items()), ("", None))
        if isinstance(below, dict) and (whole := write_entry("traffic", first, below, fields_of(FlowEntry))):
            document.refuse((*position, first), f"'{first}' is a name and no key: write '- {whole}'")
            return None
        document.refuse((*position, "tool"), "names no tool: write 'tool: iperf3' or 'tool: ping'")
        return None
    name = value["tool"]
    try:
        tool = load(name) if isinstance(name, str) else None
    except PluginProblem as problem:
        document.refuse((*position, "tool"), str(problem))
        return None
    if tool is None:
        document.refuse((*position, "tool"), tell_unknown("tool", name, COLLECTION.list_names()))
        return None
    entry = check(tool.Entry, value, document, position)
    if entry is None:
        return None
    if entry.timeout is not None and entry.timeout <= (getattr(entry, "duration", None) or 0):
        document.refuse((*position, "timeout"), "is not longer than 'duration': write a longer one")
    for key, doubt in entry.find_doubts():
        document.warn((*position, *((key,) if isinstance(key, str) else key)), doubt)
    return _read_files(entry, position, document)


def _read_files(entry: FlowEntry, position: ValuePath, document: Document) -> FlowEntry | None:
    """Return the entry with the files that it names. None after a problem."""
    found = [
        document.attach((*position, *path), name, archived) for path, (name, archived) in entry.attachments().items()
    ]
    attached = [one for one in found if one is not None]
    if len(attached) < len(found):
        return None
    words = entry.named_words()
    for path, word in words.items():
        # few files have commands of their own
        from mprun.workloads.own_program import doubt_word

        is_built = (*path[:-2], "build", 0) in words
        products = {one for place, one in words.items() if place[-2] == "build" and place[-1] != 0}
        if path[-1] == 0 and path[-2] != "build" and word in {*products, *(one.name for one in attached)}:
            document.warn((*position, *path), f"'{word}' is looked for in PATH only: write './{word}'")
        names = [one.name for one in attached]
        command = [one for place, one in words.items() if place[:-1] == path[:-1]]
        if warning := doubt_word(command, int(path[-1]), bool(attached), {*names, *products}):
            document.warn((*position, *path), warning)
        else:
            document.warn_of_hidden((*position, *path), word, names, is_built)
    entry = entry.with_attachments(attached) if attached else entry
    for field, (name, read) in entry.companions().items():
        companion = document.companion((*position, field), name, read)
        if companion is None:
            return None
        entry = entry.model_copy(update=dict(companion[1]))
    return entry


def _name(entries: Sequence[FlowEntry], document: Document) -> list[str]:
    """Return a name for each entry: its own, or its tool's, numbered from the second on."""
    first: dict[str, ValuePath] = {}
    for n, entry in enumerate(entries):
        if entry.name and (line := document.line_of_first(first, entry.name, ("traffic", n, "name"))):
            message = f"a second flow '{entry.name}', first on line {line}: give each flow its own name"
            document.refuse(("traffic", n, "name"), message)
        if entry.name == TOTAL:
            document.refuse(("traffic", n, "name"), f"'{TOTAL}' names the sum over flows: rename the flow")
    return name_all((entry.name, entry.tool) for entry in entries)


def _pair(
    entry: FlowEntry, name: str, n: int, document: Document, hosts: Sequence[str] | None, seed: int
) -> list[Flow]:
    """The flows of an entry, one for each pair of hosts. Empty after a problem."""
    if isinstance(entry.source, str) and isinstance(entry.destination, str):
        if entry.pairs is not None:
            document.refuse(("traffic", n, "pairs"), "is for several hosts at both ends: name them, or remove it")
        return [entry.flow(name, entry.source, entry.destination, entry.group)]
    if hosts is None:
        return []
    sources, destinations = (gather_hosts(named, hosts) for named in (entry.source, entry.destination))
    if not sources or not destinations:
        return []
    are_both = not isinstance(entry.source, str) and not isinstance(entry.destination, str)
    if are_both and entry.pairs is None:
        message = "is missing, as both ends have several hosts: write 'pairs: all-to-all', 'in-order' or 'permutation'"
        document.refuse(("traffic", n, "pairs"), message)
        return []
    pairing = entry.pairs or "all-to-all"
    try:
        count, pairs = pair_hosts(sources, destinations, pairing, f"{seed} {name}")
    except ValueError as error:
        document.refuse(("traffic", n, "pairs"), str(error))
        return []
    if not 1 <= count <= MOST_PAIRS:
        message = f"makes {count} flows, and 1 to {MOST_PAIRS} are one entry's: name other hosts"
        document.refuse(("traffic", n, "to"), message)
        return []
    flows = []
    for source, destination in pairs:
        ends = [source] if not isinstance(entry.source, str) else []
        ends += [destination] if not isinstance(entry.destination, str) and pairing == "all-to-all" else []
        flows.append(entry.flow("-".join((name, *ends)), source, destination, entry.group or name))
    return flows


def _check_names(flows: Sequence[Flow], notes: Notes) -> None:
    """Record problems of flows whose names, made from names of hosts or numbers, are taken or not allowed."""
    holders: dict[str, int] = {}
    for n, flow in enumerate(flows):
        if flow.repetition is None:
            holders.setdefault(flow.name, n)
    for n, flow in enumerate(flows):
        for name in flow.names:
            key = "repeat" if flow.repetition else "name"
            if holders.setdefault(name, n) != n:
                message = f"gives a flow the name '{name}', which another flow has: rename that flow"
                notes.refuse(("traffic", n, key), message)
            elif len(name) > MOST_NAME:
                message = f"makes names as long as '{name}', and {MOST_NAME} characters fit: shorten the flow's"
                notes.refuse(("traffic", n, key), message)


def _check_groups(flows: Sequence[Flow], notes: Notes) -> None:
    """Record problems of groups with the name of a flow, or with flows that have different metrics."""
    names = {name for flow in flows for name in (flow.name, *flow.names)}
    first: dict[str, Flow] = {}
    for n, flow in enumerate(flows):
        if flow.group is None:
            continue
        other = first.setdefault(flow.group, flow)
        if flow.group in names or flow.group == TOTAL:
            message = f"'{flow.group}' names a flow too, or the sum over all: rename the group"
        elif (other.tool, other.protocol) != (flow.tool, flow.protocol):
            both = f"{other.tool} over {other.protocol} and {flow.tool} over {flow.protocol}"
            message = f"'{flow.group}' holds {both}, which cannot be measured together: make two groups"
        elif metrics_of(other) != metrics_of(flow):
            message = f"'{flow.group}' holds flows with different 'metrics': write the same, or make two groups"
        else:
            continue
        notes.refuse(("traffic", n, "group"), message)


def _check_order(flows: Sequence[Flow], notes: Notes) -> None:
    """Record problems of flows that wait for a flow that does not exist, or for each other."""
    known = {name for flow in flows for name in (flow.name, flow.group, *flow.names) if name}
    for n, flow in enumerate(flows):
        if flow.after is not None and flow.after.flow not in known:
            owners = [name for one in flows for name in (one.name, one.group) if name]
            notes.refuse(("traffic", n, "start", "after"), tell_unknown("flow", flow.after.flow, owners))
    if circle := find_circle(flows):
        names = " after ".join(flows[n].name for n in circle)
        message = f"flows wait for each other, {names}: let one start at a time of its own"
        notes.refuse(("traffic", circle[0], "start", "after"), message)


def _check_ports(flows: Sequence[Flow], notes: Notes) -> None:
    """Record problems of ports that do not exist, or that two flows use on one host."""
    taken: dict[tuple[str, int], str] = {}
    for n, flow in enumerate(flows):
        if flow.port is None:
            continue
        needed = tool_of(flow).PORTS
        if flow.repetition is not None:
            message = "cannot be that of all repetitions: each has a server of its own, remove it"
            notes.refuse(("traffic", n, "port"), message)
        elif flow.port + needed - 1 > PORT.maximum:
            message = f"{flow.port} leaves no room: {flow.tool} has {needed} ports, and the last is {PORT.maximum}"
            notes.refuse(("traffic", n, "port"), message)
        for port in range(flow.port, flow.port + needed):
            holder = taken.setdefault((flow.destination, port), flow.name)
            if holder != flow.name:
                message = f"{port} on '{flow.destination}' is taken by flow '{holder}': write another, or none"
                notes.refuse(("traffic", n, "port"), message)


def expand(flows: Sequence[Flow]) -> tuple[Flow, ...]:
    """Return a flow for each repetition. A flow that waits for a repeated one waits for its first start or its last
    end.
    """
    names = {flow.name: flow.names for flow in flows}
    return tuple(_refer(one, names) for flow in flows for one in _repeat(flow))


def _repeat(flow: Flow) -> Iterator[Flow]:
    """Yield a flow for each repetition, with a number after its name."""
    repetition, names = flow.repetition, flow.names
    if repetition is None:
        yield flow
        return
    for k, name in enumerate(names):
        one = replace(flow, name=name, repetition=None)
        if k and repetition.pause_ns is not None:
            yield replace(one, after=After(names[k - 1], "end"), start_ns=repetition.pause_ns)
        else:
            yield replace(one, start_ns=flow.start_ns + k * (repetition.interval_ns or 0))


def _refer(flow: Flow, names: dict[str, tuple[str, ...]]) -> Flow:
    """Return a flow that waits for the repetition that it means. names: of all repetitions by flow."""
    if flow.after is None or flow.after.flow not in names:
        return flow
    found = names[flow.after.flow]
    return replace(flow, after=replace(flow.after, flow=found[0] if flow.after.of == "start" else found[-1]))
