# SPDX-License-Identifier: Apache-2.0
"""Check that names agree in and between the two files, and warn of keys, rates and queues that may be a mistake.

Names are checked on plain values, so that a wrong unit elsewhere hides no other problem. `subnet` checks addresses.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any

from mprun.inputs.document import Document
from mprun.inputs.event_changes import ReadEvent
from mprun.inputs.keys.experiment import HostEntry
from mprun.inputs.keys.pairing import RANGE, find_hosts, is_pattern, spread_hosts
from mprun.inputs.keys.shape import write_flow
from mprun.inputs.offered_rate import find_crossings
from mprun.inputs.subnet import check_addresses
from mprun.model import metric, spec
from mprun.model.capabilities import DEFAULT_SCHEDULER
from mprun.model.grouping import gather
from mprun.model.path import FlowPaths, are_side_by_side, count_subflows, find_areas, find_flow_paths, pairs_of
from mprun.model.problem import Notes, ValuePath, list_names, name_nearest, tell_unknown
from mprun.model.scalar import Scalar, spell_scalar
from mprun.model.span import find_end, find_spans
from mprun.model.units import RATE, TIME, render_ratio
from mprun.safety.text import name_some
from mprun.workloads.tool import OwnedMetrics, receiver_of, tool_of

# A packet captured on any interface: the header of libpcap, and the headers of IP and TCP with all TCP options.
WHOLE_HEADERS_BYTES: Mapping[spec.Family, int] = {"ipv4": 20 + 20 + 60, "ipv6": 20 + 40 + 60}
# By so much is Ethernet's header shorter than libpcap's.
_SHORTER_BYTES = 6
# The sysctls that act on what a host sends: its congestion control, and when a subflow counts as stale.
_CONTROL = "net.ipv4.tcp_congestion_control"
_OF_SENDERS = (_CONTROL, "net.mptcp.stale_loss_cnt")
# The key of a generator, which stands for links that are no entry of the file.
_GENERATOR: ValuePath = ("topology",)
# The largest number of names that are listed completely. Of a longer list only the nearest name is shown.
FEW = 6


def check_links(values: Mapping[str, object], nodes: Mapping[str, spec.NodeKind], document: Document) -> None:
    """Record problems of links in a file: ends, names, addresses."""
    names: dict[str, ValuePath] = {}
    sound: list[tuple[int, str, str, Mapping[str, object]]] = []
    for n, link in _mappings(values.get("links")):
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


def check_events(topology: spec.TopologySpec, events: Sequence[ReadEvent], document: Document) -> None:
    """Warn of keys of events that have no effect, and of queues that do not follow a rate."""
    links = {link.name: link for link in topology.links}
    for n, entry in enumerate(event.entry for event in events):
        if "step" in entry.model_fields_set and entry.over is None:
            document.warn(("events", n, "step"), "has no effect without 'over': write 'over' too, or remove it")
        if entry.every is not None and entry.until is not None and entry.at + entry.every >= entry.until:
            document.warn(
                ("events", n, "every"), "repeats nothing before 'until': write a later 'until', or remove both"
            )
        if entry.set is None or entry.link not in links:
            continue
        link = links[entry.link]
        ways = (link.forward, link.reverse)
        for before, after in zip(ways, entry.set.over(ways), strict=True):
            if before.rate_bit_per_s and after.rate_bit_per_s and before.rate_bit_per_s != after.rate_bit_per_s:
                if before.queue is None or before.queue.unit != "time" or after.queue != before.queue:
                    continue
                document.warn(("events", n, "set", "rate"), _explain_queue(link, before.queue, before, after))


def check_traces(checked: spec.Spec, events: Sequence[ReadEvent], document: Document) -> None:
    """Warn of traces that end before a flow over their link does, if nothing says what follows.

    Nothing is known of flows that end by themselves.
    """
    lengths = [(n, one.entry, one.period_ns) for n, one in enumerate(events) if one.entry.until is None]
    if not any(period_ns for _, _, period_ns in lengths):
        return
    flows = checked.experiment.traffic
    spans = find_spans(flows)
    used = find_crossings(find_flow_paths(checked.topology, checked.experiment))
    for n, entry, period_ns in lengths:
        following = [one.entry for one in events if one.entry.link == entry.link and one.entry.at > entry.at]
        if not period_ns or any(one.trace or one.schedule or (one.set and one.set.rate) for one in following):
            continue
        end_ns = entry.at + period_ns
        own = [flow for flow, crossings in used if any(entry.link == link for link, _, _ in crossings)]
        ends = [(spans[flow.name].end_ns or 0, flow.name) for flow in own]
        last_ns, name = max(ends, key=itemgetter(0), default=(0, ""))
        if last_ns > end_ns:
            end, last = TIME.render(end_ns), TIME.render(last_ns)
            stays = "its last values stay" if entry.is_scheduled_trace else "its last rate stays"
            message = f"ends at {end}, and flow '{name}' at {last}: {stays}; write 'until: {last}' to repeat the trace"
            document.warn(("events", n, "trace"), f"{message}, or 'until: {end}' if that is meant")


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
    if not links or topology.tree.is_resolved or _has_chosen(experiment, "reverse", "from", "to"):
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


def _explain_queue(link: spec.LinkSpec, queue: spec.Queue, before: spec.Direction, after: spec.Direction) -> str:
    """Return the warning that the rate of a link changes, and its queue of some time does not follow."""
    frame_bytes = link.mtu + spec.HEADER_BYTES
    old, new = before.rate_bit_per_s or 1, after.rate_bit_per_s or 1
    held, wanted = (max(frame_bytes, math.ceil(queue.amount * rate / 8e9)) for rate in (old, new))
    size = f"{wanted}bytes" if queue.counts_bytes else f"{math.ceil(wanted / frame_bytes)}packets"
    return (
        f"leaves the queue of '{link.name}' at {held} bytes, {TIME.render(round(queue.amount))} at {RATE.render(old)} "
        f"and {held * 8e3 / new:.4g}ms at {RATE.render(new)}: write its size at the new rate too, as in "
        f"'queue: {size}'"
    )


def check_references(
    values: Mapping[str, object], nodes: Mapping[str, spec.NodeKind], topology: str, document: Document
) -> None:
    """Record problems of an experiment that names hosts which the topology does not have."""
    if not nodes:
        return
    known = [name for name, kind in nodes.items() if kind == "host"]

    def host(name: object, path: ValuePath) -> None:
        if not isinstance(name, str):
            return
        if name not in nodes:
            hint = list_names(known, "hosts") if len(known) <= FEW else name_nearest(name, known, "hosts")
            document.refuse(path, f"no host '{name}' in topology '{topology}'{hint}")
        elif nodes[name] != "host":
            document.refuse(path, f"'{name}' is a {nodes[name]}, not a host: name a host")

    def several(name: object, path: ValuePath) -> None:
        if not isinstance(name, str) or not is_pattern(name):
            host(name, path)
        elif not find_hosts(name, known):
            ends = [end for end in name.split(RANGE) if end not in known] if RANGE in name else []
            message = f"no host '{ends[0]}'" if ends else f"no host fits '{name}'"
            document.refuse(path, f"{message} in topology '{topology}'{list_names(known, 'hosts')}")

    settings = values.get("hosts")
    for name in settings if isinstance(settings, dict) else ():
        several(name, ("hosts", name))
    for n, flow in _mappings(values.get("traffic")):
        source, destination = flow.get("from"), flow.get("to")
        for key, named in (("from", source), ("to", destination)):
            if isinstance(named, list):
                for m, name in enumerate(named):
                    several(name, ("traffic", n, key, m))
            else:
                several(named, ("traffic", n, key))
        if isinstance(node := flow.get("on"), str) and nodes.get(node) not in ("host", "router"):
            able = [name for name, kind in nodes.items() if kind in ("host", "router")]
            message = f"no host or router '{node}' in topology '{topology}'"
            document.refuse(("traffic", n, "on"), message + name_nearest(node, able, "hosts and routers"))
        if isinstance(source, str) and source == destination and not is_pattern(source):
            document.refuse(("traffic", n, "to"), f"is also the source of the flow, '{source}': name another host")
    captured: dict[tuple[object, object], ValuePath] = {}
    for n, capture in _mappings(values.get("capture")):
        key = "host" if "host" in capture else "node"
        name = capture.get(key)
        if key == "host" and isinstance(name, str) and nodes.get(name, "host") != "host":
            document.refuse(("capture", n, "host"), f"'{name}' is a {nodes[name]}, not a host: write 'node: {name}'")
        elif key == "host":
            host(name, ("capture", n, "host"))
        elif isinstance(name, str) and name not in nodes:
            hint = name_nearest(name, nodes, "nodes")
            document.refuse(("capture", n, "node"), f"no node '{name}' in topology '{topology}'{hint}")
        where = (name, capture.get("link"))
        if isinstance(name, str) and (line := document.line_of_first(captured, where, ("capture", n))):
            document.refuse(("capture", n, key), f"a second capture of '{name}', first on line {line}: keep one")


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
    """Record problems of expectations on flows, paths and metrics that the run will not have."""
    experiment = known_paths.experiment
    # of two flows with one name, the first keeps it
    flows = {name: flow for flow in reversed(experiment.traffic) for name in flow.names}
    hosts = {name for name, kind in known_paths.topology.nodes.items() if kind == "host"}
    # a flow with wrong hosts has a problem already, and its paths are not known
    is_sound = all({one.source, one.destination} <= hosts and one.source != one.destination for one in flows.values())
    owned = OwnedMetrics(experiment.traffic)
    by_flow = {name: [path.name for path in known_paths.of(flow)] for name, flow in flows.items()}
    paths = list(dict.fromkeys(path.name for found in known_paths.named.values() for path in found))
    for n, expected in enumerate(experiment.expectations):
        where = ("expect", n, "metric")
        name, _, what = expected.metric.partition(".")
        found = metric.find_owned(expected.metric, owned)
        if found is None:
            continue
        asked, path = found
        if name in flows:
            flow = flows[name]
            if what in metric.OF_FLOWS and "cpu" not in experiment.samples:
                notes.refuse(where, "is not measured: write 'sample: {cpu: 100ms}'")
            elif asked.protocols and flow.protocol not in asked.protocols:
                noun = what.removesuffix(f".{path}")
                hint = f": write 'protocol: {asked.protocols[0]}'" if len(asked.protocols) == 1 else ""
                notes.refuse(where, f"flow '{name}' is {flow.protocol} and has no {noun}{hint}")
            elif what.endswith(".back") and not flow.options.get("bidirectional"):
                notes.refuse(where, f"flow '{name}' sends in one direction: write 'bidirectional: true' in it")
            elif path is not None and path not in by_flow[name] and is_sound:
                hint = name_nearest(path, by_flow[name], "paths")
                notes.refuse(where, f"flow '{name}' has no path '{path}'{hint}")
        elif name == metric.TOTAL:
            if sum("goodput" in owned[name] for name, flow in flows.items() if not flow.background) < 2:
                notes.refuse(where, "fewer than two flows have a goodput and are not in the background: name the flow")
        elif name in owned:
            flow = next(flow for flow in experiment.traffic if flow.group == name)
            if asked.protocols and flow.protocol not in asked.protocols:
                notes.refuse(where, f"the flows of '{name}' are {flow.protocol} and have no {what}")
        elif name not in paths and is_sound:
            hint = name_nearest(name, [*owned, *paths], "flows and paths")
            problem = f"no flow or path '{name}'{hint}" if experiment.traffic else "is not measured without 'traffic'"
            notes.refuse(where, problem)
        elif name in paths and experiment.probe_pings == 0:
            notes.refuse(where, "is not measured, as 'probe: {pings: 0}' says: probe with 'pings: 3'")
    for n, flow in enumerate(experiment.traffic):
        for own in (flow.name, flow.group):
            if own not in paths:
                continue
            message = f"'{own}' names a path too, so that its metrics could be either's: rename the flow"
            notes.refuse(("traffic", n, "name"), message)


def _check_link(topology: spec.TopologySpec, node: str, link: str, position: ValuePath, notes: Notes) -> bool:
    """Return True if a link ends at a node, else record a problem."""
    own = [one.name for one in topology.links_at(node)]
    if link not in own:
        notes.refuse(position, f"'{node}' has no link '{link}'{name_nearest(link, own, 'links')}")
    return link in own


def _find_senders(host: str, flows: Sequence[spec.Flow]) -> list[str]:
    """Return the senders of flows of a host that only receives; none if it sends data, or if this is not known."""
    if any(receiver_of(flow) != host for flow in flows):
        return []
    return [flow.source if flow.destination == host else flow.destination for flow in flows]


def _find_receivers(host: str, flows: Sequence[spec.Flow]) -> list[str]:
    """Return the receivers of flows of a host that only sends; none if it receives data, or if this is not known."""
    known = [receiver for receiver in map(receiver_of, flows) if receiver not in (None, host)]
    return known if len(known) == len(flows) else []


def _explain_idle_scheduler(host: str, experiment: spec.ExperimentSpec) -> str | None:
    """Return a warning if a host only receives and no sender has the host's scheduler; else None."""
    scheduler = experiment.mptcp_of(host).scheduler
    flows = [one for one in experiment.traffic if one.protocol == "mptcp" and host in (one.source, one.destination)]
    senders = _find_senders(host, flows)
    if scheduler == DEFAULT_SCHEDULER or not senders:
        return None
    if any(experiment.mptcp_of(sender).scheduler == scheduler for sender in senders):
        return None
    return f"has no effect, as '{host}' only receives: give it to '{senders[0]}', which sends, or remove it"


def check_hosts(topology: spec.TopologySpec, experiment: spec.ExperimentSpec, is_resolved: bool, notes: Notes) -> None:
    """Record problems of endpoints and congestion controls: links elsewhere, and controls that have no effect.

    is_resolved: a run wrote the experiment; earlier versions took a scheduler as sysctl.
    """
    for host, settings in experiment.hosts.items():
        for n, endpoint in enumerate(settings.mptcp.endpoints):
            _check_link(topology, host, endpoint.link, ("hosts", host, "mptcp", "endpoints", n, "link"), notes)
        idle = [one for one in settings.mptcp.endpoints if {"subflow", "fullmesh"}.isdisjoint(one.flags)]
        ends = {
            (host == flow.source, host == flow.destination) for flow in experiment.traffic if flow.protocol == "mptcp"
        }
        if idle and ends == {(True, False)}:
            message = f"'{host}' opens the connections, and its endpoint '{idle[0].link}' opens no subflow"
            flags = ", ".join(["subflow", *(one for one in idle[0].flags if one == "backup")])
            notes.warn(("hosts", host, "mptcp", "endpoints"), f"{message}: write 'flags: [{flags}]'")
        opens = settings.mptcp.path_manager != "default" or len(idle) < len(settings.mptcp.endpoints)
        if settings.mptcp.subflows == 0 and opens and any(is_source for is_source, _ in ends):
            message = f"is 0, so that '{host}' opens no further subflow: write a larger number, or remove it"
            notes.warn(("hosts", host, "mptcp", "limits", "subflows"), message)
        if idle_scheduler := _explain_idle_scheduler(host, experiment):
            notes.warn(("hosts", host, "mptcp", "scheduler"), idle_scheduler)
        for name, value in settings.sysctl:
            if name == "net.mptcp.scheduler" and not is_resolved:
                message = f"is a setting of 'mptcp': write 'mptcp: {{scheduler: {value}}}' in place of this sysctl"
                notes.refuse(("hosts", host, "sysctl", name), message)
            sizes = value.replace(",", " ").split()
            if name not in spec.BUFFERS or not all(map(str.isdecimal, sizes)):
                continue
            # of one size it is the largest, of two the least and the first (tcp(7) has the largest)
            filled = {1: ["4096", "131072", *sizes], 2: [*sizes, "6291456"]}.get(len(sizes), sizes[:3])
            ordered = sorted(filled, key=int)
            if sizes != ordered or "," in value:
                fault = "has commas" if sizes == ordered else "is not the least, the first and the largest size"
                message = f"'{value}' {fault}: write '{' '.join(ordered)}'"
                tell = notes.warn if len(value.split()) == 3 and "," not in value else notes.refuse
                tell(("hosts", host, "sysctl", name), message)
        for link, _ in settings.congestion:
            _check_link(topology, host, link, ("hosts", host, "congestion", link), notes)
        flows = [(n, flow) for n, flow in enumerate(experiment.traffic) if host in (flow.source, flow.destination)]
        _check_control(host, settings, experiment, [flow for _, flow in flows], notes)
        _check_buffers(host, settings, experiment, [flow for _, flow in flows], notes)
        if not settings.congestion:
            continue
        if len(topology.links_at(host)) == 1:
            setting = f"sysctl: {{{_CONTROL}: {settings.congestion[0][1]}}}"
            notes.refuse(("hosts", host, "congestion"), f"'{host}' has one link only: write '{setting}'")
        if flows and not any(flow.protocol in ("tcp", "mptcp") for _, flow in flows):
            said = ", ".join(dict.fromkeys(flow.protocol for _, flow in flows))
            message = (
                f"is for TCP and MPTCP, and the flows of '{host}' are {said}, which Linux gives none by path: remove it"
            )
            notes.refuse(("hosts", host, "congestion"), message)
        for n, flow in flows:
            if flow.congestion is not None and flow.protocol in ("tcp", "mptcp"):
                message = (
                    f"conflicts with 'congestion' of host '{host}', which holds for its links: remove one of the two"
                )
                notes.refuse(("traffic", n, "congestion"), message)


def _check_control(
    host: str, settings: spec.HostSpec, experiment: spec.ExperimentSpec, flows: Sequence[spec.Flow], notes: Notes
) -> None:
    """Warn of a control of sending of a host that sends no data, if the senders have none of their own.

    flows: those of this host.
    """
    key = _control_of(settings)
    controlled = [flow for flow in flows if flow.protocol in ("tcp", "mptcp")]
    senders = _find_senders(host, controlled)
    if key is None or not senders or any(flow.congestion for flow in controlled):
        return
    if any(map(_control_of, map(experiment.hosts.get, senders))):
        return
    names, sender = name_some([f"'{flow.name}'" for flow in controlled], FEW), min(senders)
    message = f"acts on what '{host}' sends, and '{sender}' sends the data of {names}: write it for '{sender}'"
    notes.warn(("hosts", host, *key), message)


def _check_buffers(
    host: str, settings: spec.HostSpec, experiment: spec.ExperimentSpec, flows: Sequence[spec.Flow], notes: Notes
) -> None:
    """Warn of a send buffer of a host that only receives, and of a receive buffer of one that only sends.

    flows: those of this host.
    """
    filled = [flow for flow in flows if flow.protocol in ("tcp", "mptcp")]
    ends = (("sends", _find_senders(host, filled)), ("receives", _find_receivers(host, filled)))
    for name, (does, peers) in zip(spec.BUFFERS, ends, strict=True):
        given = [settings, *(experiment.hosts.get(peer) for peer in dict.fromkeys(peers))]
        if not peers or [one for one in given if one and name in dict(one.sysctl)] != [settings]:
            continue
        peer, flow_name = next(iter(dict(zip(peers, (flow.name for flow in filled), strict=True)).items()))
        message = f"is for what '{host}' {does}, and '{peer}' {does} the data of '{flow_name}': write it for '{peer}'"
        notes.warn(("hosts", host, "sysctl", name), message)


def _control_of(settings: spec.HostSpec | None) -> ValuePath | None:
    """Return the key of a host that controls what it sends; None without such a key."""
    if settings is None:
        return None
    if settings.congestion:
        return ("congestion",)
    return next((("sysctl", name) for name, _ in settings.sysctl if name in _OF_SENDERS), None)


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
        is_there = capture.link is None or _check_link(topology, capture.node, capture.link, position, document)
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
    """Record faults of packets at nodes that do not exist or do not count packets, and on links elsewhere.

    Warn of faults of a packet that is dropped, and of options that no flow over the link sends.
    """
    topology, experiment = known_paths.topology, known_paths.experiment
    has_choice = _has_chosen(document, "protocol", "tool")
    uses = [] if has_choice or not any(fault.option for fault in experiment.faults) else find_crossings(known_paths)
    for n, fault in enumerate(experiment.faults):
        known = [name for name, kind in topology.nodes.items() if kind in ("host", "router")]
        if fault.node not in known:
            message = f"no host or router '{fault.node}' in this topology{name_nearest(fault.node, known, 'it has')}"
            document.refuse(("faults", n, "node"), message)
        else:
            _check_link(topology, fault.node, fault.link, ("faults", n, "link"), document)
        protocols = ("mptcp",) if fault.option == spec.MPTCP_OPTION else ("tcp", "mptcp")
        flows = [flow for flow, crossings in uses if any(fault.link == link for link, _, _ in crossings)]
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


def check_end(experiment: spec.ExperimentSpec, document: Document) -> None:
    """Record a change of random numbers after the end of the run, and warn of samples after it, if the end is known."""
    # a resolved file may have a time that `mprun why` chose
    end_ns = None if document.tree.is_resolved else find_end(experiment.traffic)
    if end_ns is not None and experiment.reseed is not None and experiment.reseed.at_ns >= end_ns:
        message = f"is not before the end of the experiment, {TIME.render(end_ns)}: it would have no effect"
        document.refuse(("repeat", "reseed", "at"), message)
    for kind, interval_ns in experiment.samples.items() if end_ns is not None else ():
        if interval_ns >= (end_ns or 0):
            message = f"leaves no second sample before the end of the experiment, {TIME.render(end_ns or 0)}"
            document.warn(("sample", kind), f"{message}: write a shorter one")


def check_shown_names(checked: spec.Spec, axes: Mapping[str, Sequence[Scalar]], document: Document) -> None:
    """Warn of names in figures that no path, flow, node, link, axis or value has. Tables have names of their own."""
    topology, experiment = checked.topology, checked.experiment
    if not any(plot.names for plot in experiment.plots):
        return
    paths = find_flow_paths(topology, experiment)
    known = {path.name for found in paths.named.values() for path in found} | {*topology.nodes, *axes, metric.TOTAL}
    known |= {link.name for link in topology.links} | {*OwnedMetrics(experiment.traffic)}
    known |= {spell_scalar(value) for values in axes.values() for value in values}
    for n, plot in enumerate(experiment.plots):
        for name, _ in plot.names if plot.table is None else ():
            # the name of a metric follows its owner
            if name not in known and name.partition(".")[0] not in known:
                message = f"no path, flow, metric, axis or value has this name{name_nearest(name, known, 'names')}"
                document.warn(("plots", n, "names", name), message)


def check_mptcp(known_paths: FlowPaths, notes: Notes) -> None:
    """Record problems of MPTCP flows whose hosts have MPTCP switched off, or that need too many subflows or
    endpoints.
    """
    topology, experiment = known_paths.topology, known_paths.experiment
    for n, flow in enumerate(experiment.traffic):
        if flow.protocol != "mptcp":
            continue
        mptcp = experiment.mptcp_of(flow.source)
        paths = known_paths.of(flow)
        pairs = len(pairs_of(mptcp, paths))
        wanted = pairs * mptcp.subflows_per_pair
        if mptcp.path_manager != "default" and mptcp.subflows is None and wanted > 1 + spec.MAX_ADDITIONAL_SUBFLOWS:
            most = spec.MAX_ADDITIONAL_SUBFLOWS
            each = f" with {mptcp.subflows_per_pair} subflows each" if mptcp.is_in_user_space else ""
            message = (
                f"is joined by {pairs} pairs of addresses{each}, and the kernel opens {most} subflows in addition to "
                f"the first: use fewer paths, or give '{flow.source}' limits: {{subflows: {most}}}"
            )
            notes.refuse(("traffic", n, "to"), message)
        # a client has no endpoints for other paths (`compile.endpoint`)
        joining = [family for family in spec.FAMILIES if not are_side_by_side(paths, family)]
        for host, needed in (
            (flow.source, sum(_addresses(topology, flow.source, family) for family in joining)),
            # the address that the connection was opened to is not announced
            (flow.destination, sum(_addresses(topology, flow.destination, family) for family in spec.FAMILIES) - 1),
        ):
            settings_of = experiment.mptcp_of(host)
            is_mesh = settings_of.path_manager == "fullmesh" and not settings_of.is_in_user_space
            if is_mesh and needed > spec.MAX_ENDPOINTS:
                message = (
                    f"asks for an endpoint for each of {needed} addresses, and Linux holds {spec.MAX_ENDPOINTS}: give"
                    f" '{host}' fewer links, or 'path_manager: default' with the endpoints that it needs"
                )
                notes.refuse(("hosts", host, "mptcp", "path_manager"), message)
            chosen = {endpoint.link for endpoint in settings_of.endpoints}
            written = sum(len(topology.families_of(link)) for link in topology.links if link.name in chosen)
            if written > spec.MAX_ENDPOINTS:
                message = f"amount to {written} addresses, and Linux holds {spec.MAX_ENDPOINTS}: remove some"
                notes.refuse(("hosts", host, "mptcp", "endpoints"), message)
        for host in (flow.source, flow.destination):
            settings = dict(experiment.hosts[host].sysctl) if host in experiment.hosts else {}
            if settings.get("net.mptcp.enabled") == "0":
                message = f"is mptcp, but host '{host}' has the sysctl net.mptcp.enabled=0: remove one of the two"
                notes.refuse(("traffic", n, "protocol"), message)


def check_path_managers(written: Mapping[str, HostEntry], known_paths: FlowPaths, notes: Notes) -> None:
    """Warn of MPTCP flows that leave paths unused because no path manager is set for their hosts.

    `written`: the hosts of the file. No warning is given for a host whose path manager or endpoints are set.
    """
    experiment = known_paths.experiment
    chosen = {
        host
        for host, entry in spread_hosts(written, list(experiment.hosts)).items()
        if entry.mptcp and {"path_manager", "endpoints"} & entry.mptcp.model_fields_set
    }
    told: set[str] = set()
    for n, flow in enumerate(experiment.traffic):
        paths = known_paths.of(flow)
        if flow.protocol != "mptcp" or not paths or (flow.group or flow.name) in told:
            continue
        ends = (flow.source, flow.destination)
        has = [experiment.mptcp_of(host) for host in ends]
        mesh = [
            one if host in chosen else replace(one, path_manager="fullmesh")
            for host, one in zip(ends, has, strict=True)
        ]
        got, possible = (count_subflows(client, server, paths) for client, server in (has, mesh))
        if got >= possible:
            continue
        told.add(flow.group or flow.name)
        unsaid = [host for host in ends if host not in chosen]
        names = " and ".join(f"'{host}'" for host in unsaid)
        lines = " and ".join(f"'{host}: {{mptcp: {{path_manager: fullmesh}}}}'" for host in unsaid)
        message = (
            f"gets {got} of {possible} possible subflows: no path manager is written for {names}, and Linux opens "
            f"and announces none by itself; write {lines} under 'hosts', or 'path_manager: default' if you want that"
        )
        notes.warn(("traffic", n, "protocol"), message)


def check_idle_settings(
    written: Mapping[str, HostEntry], experiment: spec.ExperimentSpec, document: Document, notes: Notes
) -> None:
    """Warn of hosts with a path manager or a sysctl that no flow uses. A parameter may make flows use it in other runs.

    `written`: the hosts of the file.
    """
    if _has_chosen(document, "protocol", "tool"):
        return
    is_written = any("congestion" in flow for _, flow in _mappings(document.part("traffic")))
    for key, entry in written.items():
        hosts = find_hosts(key, list(experiment.hosts))
        flows = [flow for flow in experiment.traffic if {flow.source, flow.destination} & {*hosts}]
        protocols = {flow.protocol for flow in flows}
        # a program may open sockets by itself
        if not flows or any(flow.tool == "exec" for flow in flows):
            continue
        for path in _list_settings(entry):
            is_of_tcp = path[-1].startswith("net.ipv4.tcp_")
            if "mptcp" in protocols or (is_of_tcp and "tcp" in protocols):
                continue
            write = "write 'protocol: mptcp' for one, or " if "tcp" in protocols else ""
            over_quic = [flow.name for flow in flows if flow.protocol == "quic"]
            if path[-1] == _CONTROL and over_quic and not is_written:
                write = f"write 'congestion' of '{over_quic[0]}' in its place, or "
            # whose control connection is TCP
            has_control = is_of_tcp and any(flow.tool == "iperf3" for flow in flows)
            effect = "acts on iperf3's control connection alone" if has_control else "has no effect"
            message = f"{effect}: no flow of '{key}' is over {'TCP or ' if is_of_tcp else ''}MPTCP; {write}remove it"
            notes.warn(("hosts", key, *path), message)


def _list_settings(entry: HostEntry) -> Iterator[tuple[str, str]]:
    """Yield the keys of the settings of a host that act on MPTCP only, or on TCP and MPTCP."""
    if entry.mptcp is not None and entry.mptcp.path_manager != "default":
        yield "mptcp", "path_manager"
    yield from (("sysctl", name) for name in entry.sysctl if name.startswith(("net.ipv4.tcp_", "net.mptcp.")))


def _has_chosen(document: Document, *keys: str) -> bool:
    """Return whether a parameter gives one of these keys of a flow, so that other runs of the file may differ."""
    entries = [entry for _, entry in _mappings(document.part("traffic"))]
    return any("{{" in str(entry.get(key)) for entry in entries for key in keys)


def _addresses(topology: spec.TopologySpec, host: str, family: spec.Family) -> int:
    """Return the number of addresses of a family that a host has."""
    return sum(family in topology.families_of(link) for link in topology.links_at(host))


def check_tools(paths: FlowPaths, notes: Notes) -> None:
    """Record problems that the tools of flows find in the paths that they would use."""
    for n, flow in enumerate(paths.experiment.traffic):
        check_paths = getattr(tool_of(flow), "check_paths", None)
        for key, message in check_paths(flow, paths.of(flow)) if check_paths else ():
            notes.refuse(("traffic", n, key), message)


def _mappings(entries: object) -> Iterator[tuple[int, Mapping[str, object]]]:
    """The entries of a list that are mappings, with their places."""
    if isinstance(entries, list):
        for n, entry in enumerate(entries):
            if isinstance(entry, dict):
                yield n, entry
