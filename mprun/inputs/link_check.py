# SPDX-License-Identifier: Apache-2.0
"""Check the links of a topology: their ends and names. Warn of links that a person may not have meant."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from mprun.inputs.cross_check import has_chosen, list_mappings
from mprun.inputs.document import Document
from mprun.inputs.event_entry import ReadEvent
from mprun.inputs.keys.shape import write_flow
from mprun.inputs.subnet import check_addresses
from mprun.inputs.ways import Crossing, FlowPaths, Ways
from mprun.model import spec
from mprun.model.grouping import gather
from mprun.model.path import PathEnd, find_areas, used_paths
from mprun.model.problem import Notes, ValuePath, tell_unknown
from mprun.model.units import render_ratio
from mprun.workloads.tool import receiver_of

# The key of a generator, which stands for links that are no entry of the file.
_GENERATOR: ValuePath = ("topology",)
WAYS = ("forward", "reverse")


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


def check_network(ways: Ways, places: Mapping[str, ValuePath], document: Document) -> None:
    """Warn of nodes without any link, of `ecmp` without choice, and of links that lack a rate, are backups without an
    effect, or are long in a bad state.

    places: the path of each link in the file, by its name.
    """
    topology = ways.topology
    linked = {end for link in topology.links for end in link.ends}
    rated = {link.name for link in topology.links if link.forward.rate_bit_per_s or link.reverse.rate_bit_per_s}
    changes = (change for change in topology.changes if isinstance(change, spec.LinkChange))
    rated |= {change.link for change in changes if change.forward.rate_bit_per_s or change.reverse.rate_bit_per_s}
    told = set[ValuePath]()
    for name, kind in topology.nodes.items():
        ends = topology.links_at(name) if kind == "host" and not document.tree.is_resolved else ()
        # the rate of another way may be at a later link
        beside = {frozenset(link.ends): link.name for link in ends if link.name in rated}
        for link in ends:
            place, other = places.get(link.name, _GENERATOR), beside.get(frozenset(link.ends))
            if other and link.is_shaped and link.name not in rated and place not in told:
                told.add(place)
                message = f"has no 'rate', so that it is as fast as the machine, unlike '{other}': write one"
                document.warn(place, message)
        if name not in linked:
            document.warn(("nodes", name), "has no link: join it or remove it")
        if kind == "host" and (own := topology.links_at(name)) and all(link.backup for link in own):
            message = (
                f"the only link of '{name}' is a backup, so it is used like a normal link: remove 'backup' from it"
            )
            if len(own) > 1:
                message = f"all links of '{name}' are backups, so they are used like normal links: remove one 'backup'"
            document.warn((*places.get(own[0].name, _GENERATOR), "backup"), message)
    inner = {places.get(link.name, _GENERATOR): link for link in reversed(topology.links) if link.backup}
    for place, link in inner.items():
        if "host" not in map(topology.nodes.get, link.ends):
            message = f"has no effect, as '{link.name}' ends at no host: write it at the link of a host, or remove it"
            document.warn((*place, "backup"), message)
    if topology.ecmp and not document.is_filled(("ecmp",)) and not ways.have_equals():
        document.warn(("ecmp",), "has no effect: no router has several ways of equal length to a host: remove it")
    for link in topology.links:
        losses = [one.mean for one in (link.forward.loss, link.reverse.loss) if isinstance(one, spec.GilbertElliott)]
        if (lost := max(losses, default=0.0)) > 1 / 2:
            message = f"link '{link.name}' loses {render_ratio(lost, 'people')} of its packets in the long run"
            text = f"{message}: 'r' of 'gemodel' ends the bad state: write a larger 'r'"
            document.warn((*places.get(link.name, _GENERATOR), "loss"), text)


def check_dead_ends(known_paths: FlowPaths, places: Mapping[str, ValuePath], document: Document) -> None:
    """Warn of links of a host with a flow that lead to no other host, if another link leads to the flow's other end."""
    topology, leading = known_paths.topology, set[PathEnd]()
    if len({topology.families_of(link) for link in topology.links}) > 1:
        # a link may lead on in another family
        return
    for areas in (find_areas(topology, family) for family in spec.FAMILIES):
        hosts = gather((area, host) for (host, _), area in areas.items())
        shared = {area for area, found in hosts.items() if len({*found}) > 1}
        leading |= {end for end, area in areas.items() if area in shared}
    joined = [pair for pair, paths in known_paths.named.items() if paths]
    for host, peer in {**dict(pair[::-1] for pair in joined), **dict(joined)}.items():
        for link in topology.links_at(host):
            if (host, link.name) not in leading:
                other = link.ends[link.ends[0] == host]
                message = f"link '{link.name}' of '{host}' leads to no other host: join '{other}' to '{peer}'"
                document.warn(places.get(link.name, _GENERATOR), f"{message}, or remove it")


def check_mtus(known_paths: FlowPaths, places: Mapping[str, ValuePath], document: Document) -> None:
    """Warn of links whose larger MTU no flow can use, because each way over them continues over a smaller one."""
    large = {link.name: link for link in known_paths.topology.links if link.mtu > spec.DEFAULT_MTU}
    flows = known_paths.experiment.traffic if large and not document.tree.is_resolved else ()
    used = [(flow, path) for flow in flows for path in used_paths(flow.protocol, known_paths.of(flow))]
    ways = [(flow.name, *known_paths.ways.find_narrowest(flow, path)) for flow, path in used]
    for name, link in large.items():
        own = [(narrowest, flow_name) for flow_name, narrowest, names in ways if name in names]
        narrowest, flow_name = max(own, key=lambda one: one[0].mtu, default=(link, ""))
        if link.mtu > narrowest.mtu:
            message = (
                f"no packet is so long, as '{flow_name}' continues over '{narrowest.name}' with MTU {narrowest.mtu}"
            )
            key = places.get(narrowest.name, _GENERATOR)[0]
            is_left_out = key == "server_paths" and not document.has(key)
            remedy = f"write '{key}: [{{mtu: {link.mtu}}}]'" if is_left_out else "write the same there"
            document.warn((*places.get(name, _GENERATOR), "mtu"), f"{message}: {remedy}")


def check_directions(
    known_paths: FlowPaths,
    places: Mapping[str, ValuePath],
    events: Sequence[ReadEvent],
    experiment: Document,
    topology: Document,
) -> None:
    """Warn of losses and rates for one direction of a link, in which no flow sends its data.

    What is written for both directions is meant, also a loss of 0%. places: the path of each link in the topology's
    file.
    """
    links = [link for link in known_paths.topology.links if (link.forward.loss is None) != (link.reverse.loss is None)]
    changes = [(n, one.entry.link, one.entry.set) for n, one in enumerate(events) if one.entry.set is not None]
    if not (links or changes) or topology.tree.is_resolved or has_chosen(experiment, "reverse", "from", "to"):
        return
    placed = [(link, places[link.name]) for link in links if link.name in places]
    parts: dict[Any, Any] = {key: topology.part(str(key)) for key in {place[0] for _, place in placed}}
    for link, place in placed:
        loss = parts[place[0]][place[1]].get("loss")
        if isinstance(loss, dict) and {*loss} in ({"forward"}, {"reverse"}):
            ((way, value),) = loss.items()
            other, name = _find_data(link, known_paths.crossings)
            if other not in (None, way):
                both = f"'{write_flow({other: value})}', or '{write_flow({way: value, other: '0%'})}' if that is meant"
                message = f"loses no data, as '{name}' sends its data {other}: write {both}"
                topology.warn((*place, "loss"), message)
    by_name = {link.name: link for link in known_paths.topology.links}
    given = [
        (n, key, by_name[link_name], [way for way, value in zip(WAYS, values, strict=True) if value is not None])
        for n, link_name, change in changes
        for key in ("loss", "rate")
        if link_name in by_name and (values := getattr(change, key)) is not None
    ]
    for n, key, link, ways in given:
        field = "loss" if key == "loss" else "rate_bit_per_s"
        all_ways = {way for _, one, other_link, own in given if (one, other_link) == (key, link) for way in own}
        # who gives each direction its own values means it
        if len(all_ways) == 1 and getattr(link.forward, field) == getattr(link.reverse, field):
            other, name = _find_data(link, known_paths.crossings)
            if other not in (None, *ways):
                message = f"is for '{ways[0]}' only, and '{name}' sends its data {other}: write '{other}'"
                topology.warn(("events", n, "set", key), f"{message}, or both directions if that is meant")


def check_marks(
    known_paths: FlowPaths, places: Mapping[str, ValuePath], experiment: Document, topology: Document, notes: Notes
) -> None:
    """Warn of a queue that marks packets of flows with ECN if no host asks for ECN, and of dctcp if no queue marks.

    Programs may ask for ECN.
    """
    flows = known_paths.experiment.traffic
    ways = [(link, way.queue) for link in known_paths.topology.links for way in (link.forward, link.reverse)]
    queues = [(link.name, queue) for link, queue in ways if queue is not None]
    marks = any(
        queue.discipline in ("dualpi2", "cake") or queue.options.get("ecn") or "ce_threshold" in queue.options
        for _, queue in queues
    )
    for n, flow in enumerate(flows if not marks else ()):
        if flow.congestion == "dctcp" and flow.protocol in ("tcp", "mptcp"):
            example = "'queue: {discipline: fq_codel, ce_threshold: 1ms, ecn: true}'"
            message = f"'dctcp' needs marks of ECN, and no queue marks packets: write {example} at the slowest link"
            notes.warn(("traffic", n, "congestion"), message)
    marking = [name for name, queue in queues if queue.options.get("ecn")]
    if not marking or topology.tree.is_resolved or not flows:
        return
    written = f"{experiment.part('hosts')}{experiment.part('traffic')}"
    # a parameter may give a control that asks
    if any(word in written for word in ("tcp_ecn", "dctcp")) or ("congestion" in written and "{{" in written):
        return
    if all(flow.protocol in ("tcp", "mptcp") and flow.tool != "exec" for flow in flows):
        example = f"'hosts: {{{flows[0].source}: {{sysctl: {{net.ipv4.tcp_ecn: 1}}}}}}' in the experiment"
        position = (*places.get(marking[0], _GENERATOR), "queue")
        topology.warn(position, f"marks no packet, as no host asks for ECN: write {example}, or remove 'ecn'")


def _find_data(link: spec.LinkSpec, used: Sequence[tuple[spec.Flow, Collection[Crossing]]]) -> tuple[str | None, str]:
    """Return the only direction of a link in which flows send data, and one of them; None if there is no such one."""
    found: dict[str, str] = {}
    for flow, crossings in used:
        receiver = receiver_of(flow)
        if receiver is None and any(link.name == name for name, _, _ in crossings):
            return None, ""
        for way, ends in zip(WAYS, (link.ends, link.ends[::-1]), strict=True):
            # the data that goes to the source crosses the link against the direction of a crossing
            if (link.name, *(ends if receiver == flow.destination else ends[::-1])) in crossings:
                found[way] = flow.name
    return next(iter(found.items())) if len(found) == 1 else (None, "")
