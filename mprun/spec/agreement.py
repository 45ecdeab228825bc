# SPDX-License-Identifier: Apache-2.0
"""Whether names, addresses and references agree, within a topology and between it and an experiment.

What concerns names is checked on plain values, so that a faulty unit elsewhere hides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from ipaddress import IPv4Interface, IPv4Network

from mprun.spec import metric
from mprun.spec.document import Document
from mprun.spec.fault import Path, list_names, name_nearest, render_path
from mprun.spec.spec import ExperimentSpec, Flow, NodeKind, TopologySpec

# So many names are shown whole; of more, the nearest one.
FEW = 6


def check_links(values: Mapping[str, object], nodes: Mapping[str, NodeKind], document: Document) -> None:
    """Faults of links written out: ends, names, addresses."""
    names: dict[str, int] = {}
    sound: list[tuple[int, str, str, object]] = []
    for n, link in _mappings(values.get("links")):
        name = link.get("name")
        if isinstance(name, str):
            if name in names:
                line = document.place(("links", names[name], "name"))[1]
                message = f"a second link '{name}', first on line {line}: give each link its own name"
                document.fault(("links", n, "name"), message)
            names.setdefault(name, n)
        ends = link.get("between")
        if not isinstance(ends, list) or len(ends) != 2 or not all(isinstance(end, str) for end in ends):
            continue
        unknown = [m for m, end in enumerate(ends) if end not in nodes]
        for m in unknown:
            path = ("links", n, "between", m)
            document.fault(path, f"no node '{ends[m]}'{name_nearest(ends[m], nodes, 'nodes')}")
        if not unknown and ends[0] == ends[1]:
            document.fault(("links", n, "between"), f"joins '{ends[0]}' to itself: name two nodes")
        elif not unknown:
            sound.append((n, ends[0], ends[1], link.get("addresses")))
    _check_addresses(sound, nodes, document)


def _check_addresses(
    links: Sequence[tuple[int, str, str, object]], nodes: Mapping[str, NodeKind], document: Document
) -> None:
    """Faults of the addresses that the user gave: form, double use, subnets of links.

    Links that meet in a switch are one segment and have one subnet; other segments have others.
    """
    if not any(isinstance(addresses, list) for *_, addresses in links):
        return
    segments = _Components()
    for n, a, b, _ in links:
        for end in (a, b):
            if nodes[end] == "switch":
                segments.join(n, end)
    taken: dict[object, Path] = {}
    subnets: dict[object, tuple[IPv4Network, Path]] = {}
    for n, a, b, addresses in links:
        if not isinstance(addresses, list) or len(addresses) != 2:
            continue
        for m, (end, text) in enumerate(zip((a, b), addresses, strict=True)):
            path = ("links", n, "addresses", m)
            interface = _read_address(end, nodes[end], text, path, document)
            if interface is None:
                continue
            if interface.ip in taken:
                place = _line(document, taken[interface.ip])
                document.fault(path, f"address {interface.ip} is taken by {place}: give each end its own")
            taken.setdefault(interface.ip, path)
            segment = segments.find(n)
            network, first = subnets.setdefault(segment, (interface.network, path))
            if network != interface.network:
                place = _line(document, first)
                document.fault(path, f"{text} is not in subnet {network} of {place}: one link has one subnet")
    _check_overlaps(list(subnets.values()), document)


def _check_overlaps(subnets: list[tuple[IPv4Network, Path]], document: Document) -> None:
    widest: tuple[IPv4Network, Path] | None = None
    for network, path in sorted(subnets, key=lambda s: (s[0].network_address, s[0].prefixlen)):
        if widest is not None and network.network_address <= widest[0].broadcast_address:
            later, earlier = max((path, widest[1]), key=_order), min((path, widest[1]), key=_order)
            message = f"its subnet overlaps with that of {_line(document, earlier)}: give each link its own"
            document.fault(later, message)
        if widest is None or network.broadcast_address > widest[0].broadcast_address:
            widest = (network, path)


def _order(path: Path) -> int:
    return int(path[1])


def _read_address(end: str, kind: NodeKind, text: object, path: Path, document: Document) -> IPv4Interface | None:
    if kind == "switch":
        if text is not None:
            document.fault(path, f"'{end}' is a switch and has no address: write null")
        return None
    if text is None:
        document.fault(path, f"'{end}' is a {kind} and needs one: write an address, or leave 'addresses' out")
        return None
    if not isinstance(text, str):
        return None
    if ":" in text:
        document.fault(path, f"'{text}' is an IPv6 address, which is not supported yet: write '10.0.0.1/24'")
        return None
    try:
        interface = IPv4Interface(text)
    except ValueError:
        document.fault(path, f"'{text}' is no IPv4 address: write one as in '10.0.0.1/24'")
        return None
    network, ip = interface.network, interface.ip
    if "/" not in text:
        document.fault(path, f"'{text}' has no prefix length: write '{text}/24'")
    elif "." in text.split("/")[1] or not 1 <= network.prefixlen <= 31:
        document.fault(path, f"'{text}' has no room for two ends: write a prefix length from 1 to 31")
    elif network.prefixlen < 31 and ip in (network.network_address, network.broadcast_address):
        which = "the subnet itself" if ip == network.network_address else "the broadcast address"
        document.fault(path, f"{text} is {which}: take one between {network[1]} and {network[-2]}")
    elif ip.is_loopback or ip.is_multicast or ip.is_unspecified or ip.is_reserved:
        document.fault(path, f"{text} is not an address of one host: take one as in '10.0.0.1/24'")
    else:
        return interface
    return None


def find_lonely(topology: TopologySpec) -> list[str]:
    """Nodes without any link."""
    linked = {end for link in topology.links for end in link.ends}
    return [name for name in topology.nodes if name not in linked]


def check_references(
    values: Mapping[str, object], nodes: Mapping[str, NodeKind], topology: str, document: Document
) -> None:
    """Faults of an experiment that names hosts which its topology has not."""

    def host(name: object, path: Path) -> None:
        if not isinstance(name, str):
            return
        if name not in nodes:
            known = [n for n, kind in nodes.items() if kind == "host"]
            hint = list_names(known, "hosts") if len(known) <= FEW else name_nearest(name, known, "hosts")
            document.fault(path, f"no host '{name}' in topology '{topology}'{hint}")
        elif nodes[name] != "host":
            document.fault(path, f"'{name}' is a {nodes[name]}, not a host: name a host")

    settings = values.get("hosts")
    for name in settings if isinstance(settings, dict) else ():
        host(name, ("hosts", name))
    for n, flow in _mappings(values.get("traffic")):
        source, destination = flow.get("from"), flow.get("to")
        host(source, ("traffic", n, "from"))
        host(destination, ("traffic", n, "to"))
        if isinstance(source, str) and source == destination:
            document.fault(("traffic", n, "to"), f"is where it comes from, '{source}': name another host")
    captured: dict[str, int] = {}
    for n, capture in _mappings(values.get("capture")):
        name = capture.get("host")
        host(name, ("capture", n, "host"))
        if isinstance(name, str):
            if name in captured:
                line = document.place(("capture", captured[name]))[1]
                document.fault(("capture", n, "host"), f"a second capture of '{name}', first on line {line}: keep one")
            captured.setdefault(name, n)


def check_routes(topology: TopologySpec, flows: Sequence[Flow], document: Document) -> None:
    """Faults of flows between hosts that no chain of routers and switches joins. Hosts do not forward."""
    forwarding = _Components()
    touched: dict[str, set[object]] = {name: set() for name in topology.nodes}
    for link in topology.links:
        a, b = link.ends
        inner = [end for end in (a, b) if topology.nodes[end] != "host"]
        if len(inner) == 2:
            forwarding.join(a, b)
        elif len(inner) == 0:
            touched[a].add(link.name)
            touched[b].add(link.name)
    for link in topology.links:
        a, b = link.ends
        for end, other in ((a, b), (b, a)):
            if topology.nodes[end] == "host" and topology.nodes[other] != "host":
                touched[end].add(forwarding.find(other))
    for n, flow in enumerate(flows):
        if not {flow.source, flow.destination} <= touched.keys() or flow.source == flow.destination:
            continue
        if not touched[flow.source] & touched[flow.destination]:
            message = f"no route from '{flow.source}' to '{flow.destination}': join them by links through routers"
            document.fault(("traffic", n, "to"), message)


def find_paths(links: Mapping[str, Sequence[str]], source: str, destination: str) -> list[str]:
    """Names that the paths between two hosts may have, from the links of each node.

    A path is named after the source's link, and after the destination's too where it has several.
    """
    ends = links.get(destination, ())
    return [
        start if len(ends) == 1 or end == start else f"{start}-{end}" for start in links.get(source, ()) for end in ends
    ]


def check_metrics(topology: TopologySpec, experiment: ExperimentSpec, document: Document) -> None:
    """Faults of expectations on flows, paths and metrics that will not be there."""
    links: dict[str, list[str]] = {}
    for link in topology.links:
        for end in link.ends:
            links.setdefault(end, []).append(link.name)
    flows = {flow.name: flow for flow in experiment.traffic}
    by_flow = {flow.name: find_paths(links, flow.source, flow.destination) for flow in experiment.traffic}
    paths = list(dict.fromkeys(path for found in by_flow.values() for path in found))
    for n, expected in enumerate(experiment.expectations):
        if metric.unit_of(expected.metric) is None:
            continue
        where = ("expect", n, "metric")
        name, what, *rest = expected.metric.split(".")
        if name in flows:
            flow = flows[name]
            if what not in metric.OF_TOOL[flow.tool]:
                known = ", ".join(metric.OF_TOOL[flow.tool])
                document.fault(where, f"flow '{name}' of {flow.tool} has no metric '{what}'; it has: {known}")
            elif what in metric.OF_MPTCP and flow.protocol != "mptcp":
                message = f"flow '{name}' is {flow.protocol} and has no {what}: write 'protocol: mptcp'"
                document.fault(where, message)
            elif rest and rest[0] not in by_flow[name]:
                hint = name_nearest(rest[0], by_flow[name], "paths")
                document.fault(where, f"flow '{name}' has no path '{rest[0]}'{hint}")
        elif name not in paths:
            hint = name_nearest(name, [*flows, *paths], "flows and paths")
            document.fault(where, f"no flow or path '{name}'{hint}")
        elif what not in metric.OF_PATH:
            known = ", ".join(metric.OF_PATH)
            document.fault(where, f"path '{name}' has no metric '{what}'; it has: {known}")
        elif experiment.probe_pings == 0:
            document.fault(where, "is not measured, as 'probe: {pings: 0}' says: probe with 'pings: 3'")
    for n, flow in enumerate(experiment.traffic):
        if flow.name in paths:
            message = f"'{flow.name}' names a path too, so that its metrics could be either's: name the flow anew"
            document.fault(("traffic", n, "name"), message)


def check_mptcp(experiment: ExperimentSpec, document: Document) -> None:
    """Faults of MPTCP flows whose hosts have it switched off."""
    for n, flow in enumerate(experiment.traffic):
        for host in (flow.source, flow.destination):
            settings = dict(experiment.hosts[host].sysctl) if host in experiment.hosts else {}
            if flow.protocol == "mptcp" and settings.get("net.mptcp.enabled") == "0":
                message = f"is mptcp, but host '{host}' has the sysctl net.mptcp.enabled=0: take one of the two out"
                document.fault(("traffic", n, "protocol"), message)


def _line(document: Document, path: Path) -> str:
    """`links[0].addresses[1] on line 7`."""
    return f"{render_path(path)} on line {document.place(path)[1]}"


class _Components:
    """Sets that are joined (union-find)."""

    def __init__(self) -> None:
        self._parent: dict[object, object] = {}

    def find(self, item: object) -> object:
        while (parent := self._parent.setdefault(item, item)) != item:
            self._parent[item] = self._parent[parent]
            item = parent
        return item

    def join(self, a: object, b: object) -> None:
        self._parent[self.find(a)] = self.find(b)


def _mappings(entries: object) -> Iterator[tuple[int, Mapping[str, object]]]:
    """The entries of a list that are mappings, with their places."""
    if isinstance(entries, list):
        for n, entry in enumerate(entries):
            if isinstance(entry, dict):
                yield n, entry
