# SPDX-License-Identifier: Apache-2.0
"""Check that the names in an experiment agree with the topology and with each other.

Names are checked on plain values, so that a wrong unit elsewhere hides no other problem. `subnet` checks addresses,
`link_check` links, `host_check` the settings of hosts, and `event_check` events.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import get_args

from mprun.inputs.document import Document
from mprun.inputs.keys.pairing import RANGE, find_hosts, is_pattern
from mprun.inputs.ways import FlowPaths
from mprun.model import metric, spec
from mprun.model.grouping import gather
from mprun.model.path import find_areas
from mprun.model.problem import Notes, ValuePath, list_names, name_nearest
from mprun.model.scalar import Scalar, spell_scalar
from mprun.model.span import find_end
from mprun.model.units import TIME
from mprun.safety.text import name_some
from mprun.workloads.tool import OwnedMetrics, place_ports, tool_of

# A packet captured on any interface: the header of libpcap, and the headers of IP and TCP with all TCP options.
WHOLE_HEADERS_BYTES: Mapping[spec.Family, int] = {"ipv4": 20 + 20 + 60, "ipv6": 20 + 40 + 60}
# By so much is Ethernet's header shorter than libpcap's.
_SHORTER_BYTES = 6
# The largest number of names that are listed completely. Of a longer list only the nearest name is shown.
FEW = 6


def check_references(
    values: Mapping[str, object], nodes: Mapping[str, spec.NodeKind], topology: str, document: Document
) -> None:
    """Record problems of an experiment that names nodes which the topology does not have, or of another kind."""
    for path, name, kinds in _find_names(values) if nodes else ():
        if not isinstance(name, str) or nodes.get(name) in kinds:
            continue
        known = [node for node, kind in nodes.items() if kind in kinds]
        may_be_several = is_pattern(name) and not {"hosts", "from", "to"}.isdisjoint(path)
        if may_be_several and find_hosts(name, known):
            continue
        noun = "node" if len(kinds) > 2 else " or ".join(kinds)
        message = f"no {noun} '{name}' in topology '{topology}'"
        several = f"{noun.replace(' or', 's and')}s"
        is_short = noun == "host" and len(known) <= FEW
        hint = list_names(known, several) if is_short else name_nearest(name, known, several)
        if may_be_several:
            ends = [end for end in name.split(RANGE) if end not in known] if RANGE in name else []
            message = f"no host '{ends[0]}'" if ends else f"no host fits '{name}'"
            hint = f" in topology '{topology}'{list_names(known, several)}"
        elif name in nodes:
            message = f"'{name}' is a {nodes[name]}, not a {noun}"
            hint = f": write 'node: {name}'" if path[0] == "capture" else f": name a {noun}"
        document.refuse(path, message + hint)
    for n, flow in list_mappings(values.get("traffic")):
        if isinstance(source := flow.get("from"), str) and source == flow.get("to") and not is_pattern(source):
            document.refuse(("traffic", n, "to"), f"is also the source of the flow, '{source}': name another host")
    captured: dict[object, ValuePath] = {}
    for n, capture in list_mappings(values.get("capture")):
        key = "host" if "host" in capture else "node"
        name, link = capture.get(key), capture.get("link")
        is_text = isinstance(name, str) and isinstance(link, str | None)
        if is_text and (line := document.line_of_first(captured, (name, link), ("capture", n))):
            document.refuse(("capture", n, key), f"a second capture of '{name}', first on line {line}: keep one")


def _find_names(values: Mapping[str, object]) -> Iterator[tuple[ValuePath, object, tuple[spec.NodeKind, ...]]]:
    """Yield each name of a node in an experiment: its path, the name as it is written, and the possible kinds."""
    hosts = values.get("hosts")
    yield from ((("hosts", name), name, ("host",)) for name in (hosts if isinstance(hosts, dict) else ()))
    for n, flow in list_mappings(values.get("traffic")):
        for key in ("from", "to"):
            place, named = ("traffic", n, key), flow.get(key)
            listed = enumerate(named) if isinstance(named, list) else ()
            yield from (((*place, m), name, ("host",)) for m, name in listed)
            yield place, named, ("host",)
        yield ("traffic", n, "on"), flow.get("on"), ("host", "router")
    for n, capture in list_mappings(values.get("capture")):
        key = "host" if "host" in capture else "node"
        yield ("capture", n, key), capture.get(key), ("host",) if key == "host" else get_args(spec.NodeKind)
    for n, fault in list_mappings(values.get("faults")):
        yield ("faults", n, "node"), fault.get("node"), ("host", "router")


def check_routes(topology: spec.TopologySpec, flows: Sequence[spec.Flow], notes: Notes) -> None:
    """Record problems of flows between hosts without a chain of routers and switches between them. Hosts do not
    forward.
    """
    areas_of = {family: find_areas(topology, family).items() for family in spec.FAMILIES}
    touched = {family: gather((host, area) for (host, _), area in areas) for family, areas in areas_of.items()}
    for n, flow in enumerate(flows):
        if any(topology.nodes.get(end) != "host" for end in (flow.source, flow.destination)):
            continue
        if flow.source == flow.destination:
            continue
        joined = [
            family
            for family, areas in touched.items()
            if not {*areas.get(flow.source, ())}.isdisjoint(areas.get(flow.destination, ()))
        ]
        if not joined:
            message = f"no route from '{flow.source}' to '{flow.destination}': join them by links through routers"
            if len({topology.families_of(link) for link in topology.links}) > 1:
                message += " of one address family"
            notes.refuse(("traffic", n, "to"), message)
        elif flow.family is not None and flow.family not in joined:
            wanted, has = spec.TITLES[flow.family], spec.TITLES[joined[0]]
            message = f"'{flow.source}' and '{flow.destination}' are not joined over {wanted}: write '{joined[0]}'"
            notes.refuse(("traffic", n, "family"), f"{message}, as they are over {has}, or 'addressing: both'")


def check_metrics(known_paths: FlowPaths, notes: Notes) -> None:
    """Record problems of expectations on what the run will not have. Warn of such metrics in a sweep's table."""
    experiment = known_paths.experiment
    # of two flows with one name, the first keeps it
    flows = {name: flow for flow in reversed(experiment.traffic) for name in flow.names}
    hosts = {name for name, kind in known_paths.topology.nodes.items() if kind == "host"}
    # a flow with wrong hosts has a problem already, and its paths are not known
    is_sound = all({one.source, one.destination} <= hosts and one.source != one.destination for one in flows.values())
    owned = OwnedMetrics(experiment.traffic)
    by_flow = {name: [path.name for path in known_paths.of(flow)] for name, flow in flows.items()}
    paths = list(dict.fromkeys(path.name for found in known_paths.named.values() for path in found))

    def explain(whole: str) -> str | None:
        """Return why the run will not have a metric."""
        name, _, what = whole.partition(".")
        found = metric.find_owned(whole, owned)
        if found is None:
            return None
        asked, path = found
        if name in flows:
            flow = flows[name]
            if what in metric.OF_FLOWS and "cpu" not in experiment.samples:
                return "is not measured: write 'sample: {cpu: 100ms}', and run with --engine real"
            if asked.protocols and flow.protocol not in asked.protocols:
                noun = what.removesuffix(f".{path}")
                hint = f": write 'protocol: {asked.protocols[0]}'" if len(asked.protocols) == 1 else ""
                if flow.protocol == "sctp" and noun in tool_of(replace(flow, tool="sctp")).METRICS:
                    hint += ", or 'tool: sctp'" if hint else ": write 'tool: sctp'"
                if noun == "loss" and "retransmits" in owned.offered(name):
                    hint = f": write '{name}.retransmits', the segments that were sent again, or 'protocol: udp'"
                return f"flow '{name}' is {flow.protocol} and has no {noun}{hint}"
            if what.endswith(".back") and not flow.options.get("bidirectional"):
                return f"flow '{name}' sends in one direction: write 'bidirectional: true' in it"
            if path is not None and path not in by_flow[name] and is_sound:
                return f"flow '{name}' has no path '{path}'{name_nearest(path, by_flow[name], 'paths')}"
        elif name == metric.TOTAL:
            if sum("goodput" in owned[name] for name, flow in flows.items() if not flow.background) < 2:
                return "fewer than two flows have a goodput and are not in the background: name the flow"
        elif name in owned:
            flow = next(flow for flow in experiment.traffic if flow.group == name)
            if asked.protocols and flow.protocol not in asked.protocols:
                return f"the flows of '{name}' are {flow.protocol} and have no {what}"
        elif name not in paths and is_sound:
            hint = name_nearest(name, [*owned, *paths], "flows and paths")
            return f"no flow or path '{name}'{hint}" if experiment.traffic else "is not measured without 'traffic'"
        elif name in paths and experiment.probe_pings == 0:
            return "is not measured, as 'probe: {pings: 0}' says: probe with 'pings: 3'"
        return None

    for n, expected in enumerate(experiment.expectations):
        if message := explain(expected.metric):
            notes.refuse(("expect", n, "metric"), message)
    for n, shown in enumerate(experiment.show):
        if message := explain(shown):
            notes.warn(("show", n), message)
    for n, flow in enumerate(experiment.traffic):
        for own in (flow.name, flow.group):
            if own not in paths:
                continue
            message = f"'{own}' names a path too, so that its metrics could be either's: rename the flow"
            notes.refuse(("traffic", n, "name"), message)


def check_link(topology: spec.TopologySpec, node: str, link: str, position: ValuePath, notes: Notes) -> bool:
    """Return True if a link ends at a node, else record a problem."""
    own = [one.name for one in topology.links_at(node)]
    if link not in own:
        notes.refuse(position, f"'{node}' has no link '{link}'{name_nearest(link, own, 'links')}")
    return link in own


def check_captures(topology: spec.TopologySpec, experiment: spec.ExperimentSpec, document: Document) -> None:
    """Record problems of captures on links that do not end at their node, or that share a name. Warn of captures that
    will lack packets.
    """
    names: dict[str, ValuePath] = {}
    # `check_references` names a second capture of the same
    taken: set[tuple[str, str | None]] = set()
    for n, capture in enumerate(experiment.captures):
        if capture.node not in topology.nodes:
            continue
        links, position = topology.links_at(capture.node), ("capture", n, "link")
        line = document.line_of_first(names, capture.name, ("capture", n))
        is_there = capture.link is None or check_link(topology, capture.node, capture.link, position, document)
        if capture.link is None and capture.node in topology.switches:
            message = f"'{capture.node}' is an OpenFlow switch, and those share a namespace: name one of its links"
            document.refuse(("capture", n), f"{message} too, as in 'link: {links[0].name}'" if links else message)
        elif is_there and line and (capture.node, capture.link) not in taken:
            message = f"would have the name '{capture.name}' of the capture on line {line}: name another node or link"
            document.refuse(("capture", n), message)
        taken.add((capture.node, capture.link))
        has_ipv6 = any("ipv6" in topology.families_of(link) for link in links if capture.link in (None, link.name))
        family: spec.Family = "ipv6" if has_ipv6 else "ipv4"
        # on one interface, packets have the header of Ethernet
        whole_bytes = WHOLE_HEADERS_BYTES[family] - (0 if capture.link is None else _SHORTER_BYTES)
        if 0 < capture.snaplen < whole_bytes:
            message = f"cuts the options of TCP over {spec.TITLES[family]} off: they end within {whole_bytes} bytes"
            document.warn(("capture", n, "snaplen"), message)


def check_faults(known_paths: FlowPaths, document: Document) -> None:
    """Record faults of packets on links elsewhere.

    Warn of faults on links that no flow crosses, of a packet that is dropped, and of options that no flow there sends.
    """
    topology, experiment = known_paths.topology, known_paths.experiment
    has_choice = has_chosen(document, "protocol", "tool", "from", "to")
    uses = [] if has_choice or not experiment.faults else known_paths.used_links
    is_known = bool(uses) and not any(flow.tool == "exec" for flow, _ in uses)
    for n, fault in enumerate(experiment.faults):
        flows = [flow for flow, links in uses if fault.link in links]
        # 0 stands for no packet
        is_idle = is_known and fault.packet > 0 and not flows
        # of another node, `check_references` has recorded a problem
        is_able = topology.nodes.get(fault.node) in ("host", "router")
        if is_able and check_link(topology, fault.node, fault.link, ("faults", n, "link"), document) and is_idle:
            message = f"has no effect: no flow crosses '{fault.link}': name another link, or remove the fault"
            document.warn(("faults", n, "link"), message)
        protocols = ("mptcp",) if fault.option == spec.MPTCP_OPTION else ("tcp", "mptcp")
        # a program may open any sockets, and iperf3 has a connection of TCP for control
        tools = ("exec",) if fault.option == spec.MPTCP_OPTION else ("exec", "iperf3")
        has_option = any(flow.protocol in protocols or flow.tool in tools for flow in flows)
        if fault.option and fault.packet and flows and not has_option:
            write = ", or write 'protocol: mptcp'" if any(flow.protocol == "tcp" for flow in flows) else ""
            message = (
                f"has no effect: no flow over '{fault.link}' is over {' or '.join(map(str.upper, protocols))}, whose "
                f"packets have the option {fault.option}: remove the fault{write}"
            )
            document.warn(("faults", n), message)
        packet = (fault.node, fault.link, fault.packet)
        for m, one in enumerate(experiment.faults[:n]):
            if (one.node, one.link, one.packet) == packet and "drop" in (one.action, fault.action):
                message = f"is for the packet of faults[{m}] too, and a dropped packet has no other fault: remove one"
                document.warn(("faults", n), message)


def check_proxies(checked: FlowPaths, topology: Document, experiment: Document) -> None:
    """Warn of a proxy for ports that no flow over its router has.

    A parameter or another experiment may have other flows, and a program may listen on any port.
    """
    proxies = {name: box.proxy.ports for name, box in checked.topology.middleboxes.items() if box.proxy}
    flows = checked.experiment.traffic
    has_choice = has_chosen(experiment, "protocol", "tool", "from", "to", "port")
    if not any(proxies.values()) or has_choice or any(flow.tool == "exec" for flow in flows):
        return
    # the control connections of two tools are TCP too
    uses = [
        (crossings, ports if flow.protocol in ("tcp", "mptcp") or flow.tool in ("iperf3", "netperfmeter") else ())
        for (flow, crossings), (_, ports) in zip(checked.crossings, place_ports(flows), strict=True)
    ]
    for router, wanted in proxies.items():
        crossing = [ports for crossings, ports in uses if any(router in ends for _, *ends in crossings)]
        used = dict.fromkeys(chain.from_iterable(crossing))
        if wanted and crossing and used.keys().isdisjoint(wanted):
            message = f"no flow over '{router}' is over TCP: remove the proxy"
            if used:
                have = name_some([*map(str, used)], FEW)
                message = f"the flows over '{router}' have {have}: write their ports, or 'port: {wanted[0]}' in a flow"
            topology.warn(("middleboxes", router, "proxy", "ports"), f"has no effect: {message}")


def check_end(experiment: spec.ExperimentSpec, document: Document) -> None:
    """Record a change of random numbers after the end of the run, and warn of samples after it, if the end is known."""
    # a resolved file may have a time that `mprun why` chose
    end_ns = None if document.tree.is_resolved else find_end(experiment.traffic)
    if end_ns is None:
        return
    when = f"the end of the experiment, {TIME.render(end_ns)}"
    if experiment.reseed is not None and experiment.reseed.at_ns >= end_ns:
        document.refuse(("repeat", "reseed", "at"), f"is not before {when}: it would have no effect")
    for kind, interval_ns in experiment.samples.items():
        if interval_ns >= end_ns:
            document.warn(("sample", kind), f"leaves no second sample before {when}: write a shorter one")


def check_shown_names(known_paths: FlowPaths, axes: Mapping[str, Sequence[Scalar]], document: Document) -> None:
    """Warn of names in figures that no path, flow, node, link, axis or value has. Tables have names of their own."""
    topology, experiment = known_paths.topology, known_paths.experiment
    if not any(plot.names for plot in experiment.plots):
        return
    known = {path.name for found in known_paths.named.values() for path in found} | {
        *topology.nodes,
        *axes,
        metric.TOTAL,
    }
    known |= {link.name for link in topology.links} | {*OwnedMetrics(experiment.traffic)}
    known |= {spell_scalar(value) for values in axes.values() for value in values}
    for n, plot in enumerate(experiment.plots):
        for name, _ in plot.names if plot.table is None else ():
            # the name of a metric follows its owner
            if name not in known and name.partition(".")[0] not in known:
                message = f"no path, flow, metric, axis or value has this name{name_nearest(name, known, 'names')}"
                document.warn(("plots", n, "names", name), message)


def check_link_rates(paths: FlowPaths, document: Document) -> None:
    """Warn of figures of rates of links if no rate changes."""
    rates = {link.name: (link.forward.rate_bit_per_s, link.reverse.rate_bit_per_s) for link in paths.topology.links}
    changes = [one for one in paths.topology.changes if isinstance(one, spec.LinkChange)]
    if all((one.forward.rate_bit_per_s, one.reverse.rate_bit_per_s) == rates[one.link] for one in changes):
        for n, plot in enumerate(paths.experiment.plots):
            if plot.series == "link_rate":
                message = "has nothing to show: no event changes the rate of a link; remove it"
                document.warn(("plots", n, "series"), message)


def has_chosen(document: Document, *keys: str) -> bool:
    """Return whether a parameter gives one of these keys of a flow, so that other runs of the file may differ."""
    entries = [entry for _, entry in list_mappings(document.part("traffic"))]
    return any("{{" in str(entry.get(key)) for entry in entries for key in keys)


def check_tools(paths: FlowPaths, notes: Notes) -> None:
    """Record problems that the tools of flows find in the paths that they would use."""
    for n, flow in enumerate(paths.experiment.traffic):
        check_paths = getattr(tool_of(flow), "check_paths", None)
        for key, message in check_paths(flow, paths.of(flow)) if check_paths else ():
            notes.refuse(("traffic", n, key), message)


def list_mappings(entries: object) -> Iterator[tuple[int, Mapping[str, object]]]:
    """The entries of a list that are mappings, with their places."""
    if isinstance(entries, list):
        for n, entry in enumerate(entries):
            if isinstance(entry, dict):
                yield n, entry
