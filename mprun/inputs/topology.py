# SPDX-License-Identifier: Apache-2.0
"""Turn the plain values of a topology file into a TopologySpec, and check them.

The nodes and links are written out, or a generator makes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from pathlib import PurePath
from typing import get_args

from mprun.inputs.cross_check import list_mappings
from mprun.inputs.document import Document
from mprun.inputs.event_changes import Timeline
from mprun.inputs.event_entry import ReadEvent, read_events
from mprun.inputs.generator import COLLECTION, load
from mprun.inputs.generators import GENERATORS
from mprun.inputs.keys.field import name_all
from mprun.inputs.keys.file_model import check, fields_of, salvage
from mprun.inputs.keys.impairment import spread_directions
from mprun.inputs.keys.link import LinkProperties
from mprun.inputs.keys.middlebox import MiddleboxEntry
from mprun.inputs.keys.openflow import OpenFlowEntry
from mprun.inputs.keys.topology import Expansion, LinkEntry, TopologyFile, WrittenTopology
from mprun.inputs.link_check import check_links
from mprun.inputs.subnet import check_addresses, check_mtu, walk_mappings
from mprun.inputs.switch import read_switches
from mprun.inputs.ways import Ways
from mprun.machine.plugin import PluginProblem
from mprun.model.address import mirror_text
from mprun.model.frozen import Frozen
from mprun.model.grouping import gather
from mprun.model.problem import ValuePath, list_names, name_nearest, tell_unknown
from mprun.model.spec import Addressing, Direction, Family, LinkSpec, Middlebox, NodeKind, TopologySpec, families_of
from mprun.model.units import hold_rate, tell_rounding, tell_short_queue

DEFAULT_ADDRESSING: Addressing = "ipv4"

LayOver = Callable[[tuple[LinkSpec, ...]], tuple[LinkSpec, ...]]


class Topology(Frozen):
    """The result of reading a topology file. spec is None if the file has problems.

    `nodes`: the nodes that are known, so that an experiment can be checked against a faulty topology too; None if
    they are unknown.
    `events`: the entries as they are written.
    `places`: the path of each link in the file, by its name; without links that a generator makes by other keys.
    """

    spec: TopologySpec | None
    nodes: Mapping[str, NodeKind] | None
    events: tuple[ReadEvent, ...] = ()
    places: Mapping[str, ValuePath] = field(default_factory=dict)

    @cached_property
    def ways(self) -> Ways:
        """The ways of packets through a topology without problems."""
        assert self.spec is not None
        return Ways(self.spec)


def read_topology(values: Mapping[str, object], document: Document, lay_over: LayOver) -> Topology:
    """Return the topology from plain values. Problems go to the document. lay_over: changes its links afterwards."""
    _warn_of_properties(values, document)
    entries = [entry for key in ("paths", "links") for _, entry in list_mappings(values.get(key))]
    document.names = {("link",): [name for entry in entries if isinstance(name := entry.get("name"), str)]}
    if "topology" in values:
        for key in ("nodes", "links"):
            # a generator of a package may have such a key
            if key in values and str(values["topology"]) in GENERATORS:
                message = f"conflicts with '{key}', as a generator makes all {key}: remove one of the two"
                message += ", or change the file that `mprun topology expand` makes of the generator"
                document.refuse(("topology",), message)
                return Topology(None, None)
        return _generate(values, document, lay_over)
    if "nodes" not in values and "links" not in values:
        names = list_names(GENERATORS, "generators")
        message = f"describes no network: write 'topology: multi-path', or 'nodes' and 'links'{names}"
        if not TopologyFile.ELSEWHERE.keys().isdisjoint(values):
            message = "describes no network, but an experiment: name it after -x, and a topology after -t"
        elif {"steps", "claims"} <= values.keys():
            message = "describes no network, but a lab: `mprun lab run` runs it; name one of its topologies after -t"
        document.refuse((), message)
        _check_common(values, document)
        return Topology(None, None)
    written = check(WrittenTopology, values, document)
    nodes = _written_nodes(values)
    check_links(values, nodes, document)
    if written is None or document.problems:
        return Topology(None, nodes)
    expansion = nodes, lay_over(_name_links(written.links))
    switches = {name: node.openflow for name, node in written.nodes.items()}
    return _complete(values, document, written, expansion, switches, lambda name: ("nodes", name, "openflow"))


def _warn_of_properties(values: Mapping[str, object], document: Document) -> None:
    """Warn of rounded rates, queues of one packet, idle profiles, and a delay or a rate in one direction only.

    A link can have few rates. The other keys of a link may replace all values of its profile. An event leaves the value
    of the other direction as it is.
    """
    for path, entry in walk_mappings(values):
        for key, tell in (("rate", tell_rounding), ("queue", tell_short_queue)):
            for position, value in spread_directions((*path, key), entry.get(key)):
                if message := tell(value):
                    document.warn(position, message)
        if path[:1] == ("events",) or document.tree.is_resolved:
            continue
        if "profile" in entry and document.is_filled((*path, "profile")):
            continue
        if "profile" in entry:
            link = salvage(LinkProperties, {key: entry[key] for key in fields_of(LinkProperties) if key in entry})
            if link is not None and link.has_idle_profile():
                message = "changes nothing, as the other keys of the link replace all its values: remove it, or them"
                document.warn((*path, "profile"), message)
            continue
        for key, without in (("delay", "has none"), ("rate", "is as fast as the machine")):
            both = entry.get(key)
            if isinstance(both, dict) and {*both} in ({"forward"}, {"reverse"}):
                (has, given), lacks = *both.items(), "reverse" if "forward" in both else "forward"
                message = f"is given {has} only, and {lacks} {without}: write '{{{has}: {given}, {lacks}: ...}}'"
                document.warn((*path, key), f"{message}, or one {key} for both")


def _generate(values: Mapping[str, object], document: Document, lay_over: LayOver) -> Topology:
    name = values["topology"]
    try:
        generator = load(name) if isinstance(name, str) else None
        if generator is None:
            document.refuse(("topology",), tell_unknown("generator", name, COLLECTION.list_names()))
            _check_common(values, document)
            return Topology(None, None)
        parameters = check(generator.Parameters, values, document)
        if parameters is None:
            # the generator of a package may fail on values that the user did not write
            partial = salvage(generator.Parameters, values) if name in GENERATORS else None
            return Topology(None, None if partial is None else generator.expand(partial)[0])
        nodes, links = generator.expand(parameters)
        expansion = nodes, lay_over(tuple(_number_link(link, parameters) for link in links))
    except PluginProblem as problem:
        document.refuse(("topology",), str(problem))
        return Topology(None, None)
    if name not in GENERATORS:
        # mprun has not checked the addresses of a package's generator
        plain = []
        for n, link in enumerate(expansion[1]):
            texts = [list(own) or None for own in link.addresses] if any(link.addresses) else None
            plain.append((n, *link.ends, {"addressing": link.addressing, "addresses": texts}))
        check_addresses(plain, parameters.addressing, nodes, document)
    return _complete(values, document, parameters, expansion, parameters.openflow, lambda name: ("openflow", name))


def _check_common(values: Mapping[str, object], document: Document) -> None:
    """Check the common keys if the other keys of the topology are unknown."""
    check(TopologyFile, {k: v for k, v in values.items() if k in fields_of(TopologyFile)}, document)


def _number_link(link: LinkSpec, file: TopologyFile) -> LinkSpec:
    """Return a generator's link with addresses in the chosen families. IPv6 has the digits of IPv4 addresses."""
    wanted = families_of(link.addressing or file.addressing or DEFAULT_ADDRESSING)
    first, second = (tuple(_number_end(texts, wanted)) for texts in link.addresses)
    own = None if link.addressing == file.addressing else link.addressing
    forward, reverse = map(_hold_rate, (link.forward, link.reverse))
    return replace(link, addresses=(first, second), addressing=own, forward=forward, reverse=reverse)


def _hold_rate(way: Direction) -> Direction:
    """Round the rate to one that a link can have. A generator of a package may compute any rate."""
    return way if way.rate_bit_per_s is None else replace(way, rate_bit_per_s=hold_rate(way.rate_bit_per_s))


def _number_end(texts: tuple[str, ...], wanted: tuple[Family, ...]) -> Iterator[str]:
    """Yield the addresses of an end in the wanted families. An address without a counterpart is left to be derived."""
    for text in texts:
        if ":" in text or "ipv4" in wanted:
            yield text
        if "ipv6" in wanted and (counterpart := mirror_text(text)):
            yield counterpart


def _complete(
    values: Mapping[str, object],
    document: Document,
    file: TopologyFile,
    expansion: Expansion,
    entries: Mapping[str, OpenFlowEntry | None],
    place_of: Callable[[str], ValuePath],
) -> Topology:
    """Return the topology of nodes and links, with what all files have. entries, place_of: as for `read_switches`."""
    nodes, links = expansion
    addressing = file.addressing or DEFAULT_ADDRESSING
    check_mtu(values, links, addressing, document)
    switches = read_switches(entries, nodes, links, document, place_of)
    is_sound = not document.problems
    events = read_events(file.events, document)
    if not is_sound:
        return Topology(None, nodes, events)
    boxes = _read_middleboxes(file.middleboxes, nodes, links, document)
    timeline = Timeline(nodes, links, document)
    changes = timeline.lay(events)
    events = tuple(replace(event, period_ns=timeline.periods_ns.get(n)) for n, event in enumerate(events))
    name = PurePath(document.name).stem
    spec = TopologySpec(name, file.description, nodes, links, changes, switches, boxes, addressing, file.ecmp)
    return Topology(spec, nodes, events, file.place_links([link.name for link in links]))


def _read_middleboxes(
    entries: Mapping[str, MiddleboxEntry],
    nodes: Mapping[str, NodeKind],
    links: Sequence[LinkSpec],
    document: Document,
) -> dict[str, Middlebox]:
    """Return the middleboxes of a topology in the order of its nodes. Problems go to the document."""
    at = gather((end, link.name) for link in links for end in link.ends)
    for name, entry in entries.items():
        position = ("middleboxes", name)
        if name not in nodes:
            routers = [node for node, kind in nodes.items() if kind == "router"]
            document.refuse(position, f"no node '{name}'{name_nearest(name, routers, 'routers')}")
        elif nodes[name] != "router":
            message = f"'{name}' is a {nodes[name]}, not a router: name a router, which forwards packets"
            document.refuse(position, message)
        else:
            for behaviour, guard in (("nat", entry.nat), ("firewall", entry.firewall)):
                if guard is not None:
                    for path, message in _problems_of_inside(name, guard.inside, at.get(name, ())):
                        document.refuse((*position, behaviour, "inside", *path), message)
    return {name: entries[name].value() for name in nodes if name in entries}


def _problems_of_inside(router: str, inside: Sequence[str], links: Sequence[str]) -> Iterator[tuple[ValuePath, str]]:
    """Return problems of `inside`. inside: names of links in the file. links: the links at the router."""
    for n, link in enumerate(inside):
        if link not in links:
            yield (n,), f"no link '{link}' at '{router}'{name_nearest(link, links, 'links there')}"
        elif link in inside[:n]:
            yield (n,), f"names '{link}' twice: keep one"
    if not set(links) - set(inside):
        yield (), f"leaves nothing outside{list_names(links, 'links there')}: remove one of these"


def _written_nodes(values: Mapping[str, object]) -> dict[str, NodeKind]:
    """Return names and kinds as far as they are well written. A node without a valid kind counts as a host."""
    nodes = values.get("nodes")
    kinds: dict[str, NodeKind] = {kind: kind for kind in get_args(NodeKind)}
    entries = nodes.items() if isinstance(nodes, dict) else ()
    written = {name: str(entry.get("kind")) if isinstance(entry, dict) else "" for name, entry in entries}
    return {name: kinds.get(kind, "host") for name, kind in written.items()}


def _name_links(entries: list[LinkEntry]) -> tuple[LinkSpec, ...]:
    """The links with a name each: the user's, or the two ends with a number from the second link on."""
    links = []
    names = name_all((entry.name, "-".join(entry.between)) for entry in entries)
    for name, entry in zip(names, entries, strict=True):
        a, b = entry.between
        first, second = entry.addresses or ((), ())
        links.append(replace(entry.join(name, (a, b)), addresses=(first, second)))
    return tuple(links)
