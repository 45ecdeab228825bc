# SPDX-License-Identifier: Apache-2.0
"""Read the OpenFlow switches of a topology, and check them against the links around them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from mprun.inputs.document import Document
from mprun.inputs.keys.openflow import OpenFlowEntry
from mprun.model import ofctl
from mprun.model.grouping import gather
from mprun.model.path import count_steps, search
from mprun.model.problem import ValuePath, list_names, name_nearest
from mprun.model.spec import LinkSpec, NodeKind, OpenFlow


def read_switches(
    entries: Mapping[str, OpenFlowEntry | None],
    nodes: Mapping[str, NodeKind],
    links: Sequence[LinkSpec],
    document: Document,
    place_of: Callable[[str], ValuePath],
) -> dict[str, OpenFlow]:
    """Return the OpenFlow switches of a topology. Problems go to the document. place_of: the path of a node's entry."""
    switches = {}
    ports = gather((end, link.name) for link in links for end in link.ends)
    for name, entry in entries.items():
        position = place_of(name)
        if entry is None:
            continue
        if name not in nodes:
            known = [node for node, kind in nodes.items() if kind == "switch"]
            document.refuse(position, f"no switch '{name}'{name_nearest(name, known, 'switches')}")
            continue
        if nodes[name] != "switch":
            document.refuse(position, f"'{name}' is a {nodes[name]}, and only switches speak OpenFlow: remove this")
            continue
        switches[name] = entry.resolve()
        _check_keys(entry, switches[name], position, document)
        _check_lines(switches[name], ports.get(name, []), position, document)
    _check_circles(switches, nodes, links, document, place_of)
    return switches


def _check_keys(entry: OpenFlowEntry, switch: OpenFlow, position: ValuePath, document: Document) -> None:
    """Record problems of keys that the mode does not use, and of modes without a key that they need."""
    if entry.controller is not None and switch.mode != "reactive":
        document.refuse((*position, "controller"), f"is never asked in mode {switch.mode}: write 'mode: reactive'")
    if entry.hash is not None and switch.mode != "multipath":
        document.refuse((*position, "hash"), f"decides nothing in mode {switch.mode}: write 'mode: multipath'")
    if switch.mode == "flows" and not switch.flows:
        document.refuse((*position, "mode"), "without flows drops every packet: write 'flows: [...]'")


def _check_lines(switch: OpenFlow, ports: list[str], position: ValuePath, document: Document) -> None:
    groups: dict[int, int] = {}
    for n, text in enumerate(switch.groups):
        number = ofctl.group_id(text)
        here = (*position, "groups", n)
        if number is None:
            document.refuse(here, "has no number: write 'group_id=1,type=select,bucket=...'")
        elif number in groups:
            document.refuse(here, f"a second group {number}: give each its own number")
        else:
            groups[number] = n
        _check_ports(text, ports, here, document)
    for n, text in enumerate(switch.flows):
        here = (*position, "flows", n)
        if not ofctl.has_actions(text):
            document.refuse(here, "has no actions: write 'actions=output:LINK', or 'actions=drop'")
        _check_ports(text, ports, here, document)
        for number in sorted(ofctl.groups_used(text) - groups.keys()):
            known = list_names([str(group) for group in groups], "groups")
            document.refuse(here, f"no group {number}{known if groups else ': write one under groups'}")


def _check_ports(text: str, ports: list[str], here: ValuePath, document: Document) -> None:
    for name in ofctl.ports_named(text):
        if name not in ports:
            document.refuse(here, f"no link '{name}' at this switch{name_nearest(name, ports, 'links here')}")
    for number in ofctl.port_numbers(text):
        if not 1 <= number <= len(ports):
            document.refuse(here, f"no port {number}: there are {len(ports)}; write a link's name")


def _check_circles(
    switches: Mapping[str, OpenFlow],
    nodes: Mapping[str, NodeKind],
    links: Sequence[LinkSpec],
    document: Document,
    place_of: Callable[[str], ValuePath],
) -> None:
    """Refuse flooding switches on a loop of switches: a flooded packet would circulate for ever."""
    between = [link for link in links if all(nodes[end] == "switch" for end in link.ends)]
    for link in _on_circles(between):
        for end in link.ends:
            if end not in switches or switches[end].is_flooding:
                what = f"in mode {switches[end].mode}" if end in switches else "a Linux bridge"
                document.refuse(
                    place_of(end),
                    f"'{end}' is {what}, which floods, and is on a circle of switches (link '{link.name}'), where what"
                    " is flooded goes round for ever: give all switches there mode multipath, or flows",
                )


def _on_circles(links: Sequence[LinkSpec]) -> list[LinkSpec]:
    """The links whose two ends are also joined without them.

    Each link outside a spanning tree of all nodes closes a loop: the link itself and the path between its ends in the
    tree.
    """
    around = gather((end, (other, link)) for link in links for end, other in (link.ends, link.ends[::-1]))
    above: dict[str, tuple[str, LinkSpec] | None] = {}
    for root in around:
        if root not in above:
            above |= search([root], lambda here: around[here])
    depth = count_steps(above)
    tree = {before[1].name for before in above.values() if before is not None}
    found = {}
    for link in links:
        if link.name in tree:
            continue
        found[link.name] = link
        a, b = link.ends
        while a != b:
            if depth[a] < depth[b]:
                a, b = b, a
            before = above[a]
            assert before is not None, "only a root has depth 0"
            a, climbed = before
            found[climbed.name] = climbed
    return [link for link in links if link.name in found]
