# SPDX-License-Identifier: Apache-2.0
"""Check the links of a topology: their ends and names. Warn of links that a person may not have meant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mprun.inputs.cross_check import has_chosen, list_mappings
from mprun.inputs.document import Document
from mprun.inputs.keys.shape import write_flow
from mprun.inputs.offered_rate import find_crossings
from mprun.inputs.subnet import check_addresses
from mprun.model import spec
from mprun.model.path import FlowPaths
from mprun.model.problem import ValuePath, tell_unknown
from mprun.model.units import render_ratio
from mprun.workloads.tool import receiver_of

# The key of a generator, which stands for links that are no entry of the file.
_GENERATOR: ValuePath = ("topology",)


def check_links(values: Mapping[str, object], nodes: Mapping[str, spec.NodeKind], document: Document) -> None:
    """Record problems of links in a file: ends, names, addresses."""
    names: dict[str, ValuePath] = {}
    sound: list[tuple[int, str, str, Mapping[str, object]]] = []
    for n, link in list_mappings(values.get("links")):
        name = link.get("name")
        if isinstance(name, str) and (line := document.line_of_first(names, name, ("links", n, "name"))):
            message = f"a second link '{name}', first on line {line}: give each link its own name"
            document.refuse(("links", n, "name"), message)
        ends = link.get("between")
        # a problem of the nodes is reported alone
        if not nodes or not isinstance(ends, list) or len(ends) != 2 or not all(isinstance(end, str) for end in ends):
            continue
        unknown = [m for m, end in enumerate(ends) if end not in nodes]
        for m in unknown:
            document.refuse(("links", n, "between", m), tell_unknown("node", ends[m], nodes))
        if not unknown and ends[0] == ends[1]:
            document.refuse(("links", n, "between"), f"joins '{ends[0]}' to itself: name two nodes")
        elif not unknown:
            sound.append((n, ends[0], ends[1], link))
    check_addresses(sound, values.get("addressing"), nodes, document)


def check_network(topology: spec.TopologySpec, places: Mapping[str, ValuePath], document: Document) -> None:
    """Warn of nodes without any link, of hosts whose links are all backups, and of long bad states.

    places: the path of each link in the file, by its name.
    """
    linked = {end for link in topology.links for end in link.ends}
    for name, kind in topology.nodes.items():
        if name not in linked:
            document.warn(("nodes", name), "has no link: join it or remove it")
        if kind == "host" and (own := topology.links_at(name)) and all(link.backup for link in own):
            message = (
                f"the only link of '{name}' is a backup, so it is used like a normal link: remove 'backup' from it"
            )
            if len(own) > 1:
                message = f"all links of '{name}' are backups, so they are used like normal links: remove one 'backup'"
            document.warn((*places.get(own[0].name, _GENERATOR), "backup"), message)
    for link in topology.links:
        losses = [one.mean for one in (link.forward.loss, link.reverse.loss) if isinstance(one, spec.GilbertElliott)]
        if (lost := max(losses, default=0.0)) > 1 / 2:
            message = f"link '{link.name}' loses {render_ratio(lost, 'people')} of its packets in the long run"
            text = f"{message}: 'r' of 'gemodel' ends the bad state: write a larger 'r'"
            document.warn((*places.get(link.name, _GENERATOR), "loss"), text)


def check_losses(
    known_paths: FlowPaths, places: Mapping[str, ValuePath], experiment: Document, topology: Document
) -> None:
    """Warn of links that lose packets in one direction only, in which no flow sends its data.

    A loss that is written for both directions is meant, also 0%. places: the path of each link in the topology's file.
    """
    links = [
        link
        for link in known_paths.topology.links
        if link.name in places and (link.forward.loss is None) != (link.reverse.loss is None)
    ]
    if not links or topology.tree.is_resolved or has_chosen(experiment, "reverse", "from", "to"):
        return
    used = find_crossings(known_paths)
    entries: dict[Any, Any] = {key: topology.part(str(key)) for key in {places[link.name][0] for link in links}}
    for link in links:
        key, n = places[link.name]
        loss = entries[key][n].get("loss")
        if not isinstance(loss, dict) or {*loss} not in ({"forward"}, {"reverse"}):
            continue
        ((way, value),) = loss.items()
        ends, other = (link.ends, "reverse") if way == "forward" else (link.ends[::-1], "forward")
        over = [(flow, crossings) for flow, crossings in used if any(link.name == one for one, _, _ in crossings)]
        # the data that goes to the source crosses the link against the direction of a crossing
        losing = {flow.name: ends if receiver_of(flow) == flow.destination else ends[::-1] for flow, _ in over}
        safe = [
            flow for flow, crossings in over if receiver_of(flow) and (link.name, *losing[flow.name]) not in crossings
        ]
        if safe and len(safe) == len(over):
            both = f"'{write_flow({other: value})}', or '{write_flow({way: value, other: '0%'})}' if that is meant"
            message = f"loses no data, as '{safe[0].name}' sends its data {other}: write {both}"
            topology.warn((key, n, "loss"), message)
