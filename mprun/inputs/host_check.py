# SPDX-License-Identifier: Apache-2.0
"""Check the settings of hosts: links elsewhere, limits of the kernel, and settings that have no effect."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import get_args

from mprun.inputs.cross_check import FEW, check_link, has_chosen, list_mappings
from mprun.inputs.document import Document
from mprun.inputs.keys.experiment import HostEntry
from mprun.inputs.keys.pairing import find_hosts, spread_hosts
from mprun.inputs.ways import FlowPaths
from mprun.model import spec
from mprun.model.capabilities import DEFAULT_SCHEDULER, KERNEL_WIDE
from mprun.model.discipline import DisciplineName
from mprun.model.path import NamedPath, are_side_by_side, count_subflows, pairs_of
from mprun.model.problem import Notes, ValuePath
from mprun.safety.text import name_some
from mprun.workloads.tool import receiver_of

# The sysctls that act on what a host sends: its congestion control, and when a subflow counts as stale.
_CONTROL = "net.ipv4.tcp_congestion_control"
_OF_SENDERS = (_CONTROL, "net.mptcp.stale_loss_cnt")
_MANAGER = attrgetter("path_manager")
_QDISC = "net.core.default_qdisc"
# The protocols whose flows a sysctl acts on, by the beginning of its name. QUIC, and the SCTP of the tool `sctp`, are
# programs that send over UDP.
_OF_PROTOCOLS = {
    "net.ipv4.tcp_": ("tcp", "mptcp"),
    "net.ipv4.udp_": ("udp",),
    "net.mptcp.": ("mptcp",),
    "net.sctp.": ("sctp",),
}


def check_hosts(topology: spec.TopologySpec, experiment: spec.ExperimentSpec, document: Document, notes: Notes) -> None:
    """Record problems of endpoints and congestion controls: links elsewhere, and controls that have no effect.

    A parameter may turn the flows round in other runs. In a file that a run wrote, a scheduler may be a sysctl, as in
    earlier versions.
    """
    has_choice = bool(experiment.hosts) and has_chosen(document, "reverse", "from", "to")
    asked: dict[str, tuple[str, str]] = {}
    for host, settings in experiment.hosts.items():
        for n, endpoint in enumerate(settings.mptcp.endpoints):
            check_link(topology, host, endpoint.link, ("hosts", host, "mptcp", "endpoints", n, "link"), notes)
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
        clients = [flow.source for flow in experiment.traffic if flow.protocol == "mptcp" and flow.destination == host]
        of_client = [one for one in map(experiment.mptcp_of, clients) if one.is_in_user_space]
        manager = settings.mptcp.path_manager
        if settings.mptcp.is_in_user_space and ends == {(False, True)} and manager not in map(_MANAGER, of_client):
            key, effect = ("path_manager", "has no effect")
            if manager == "fullmesh":
                key, effect = ("subflows_per_pair", "opens nothing and announces no address")
            message = f"{effect}, as '{clients[0]}' opens the connections: write it for '{clients[0]}'"
            notes.warn(("hosts", host, "mptcp", key), message)
        if not has_choice and (idle_scheduler := _explain_idle_scheduler(host, experiment)):
            notes.warn(("hosts", host, "mptcp", "scheduler"), idle_scheduler)
        for name, value in settings.sysctl:
            first, before = asked.setdefault(name, (host, value))
            if name in KERNEL_WIDE and before != value:
                message = f"is one value for the whole kernel, and '{first}' has {before}: give both the same"
                notes.refuse(("hosts", host, "sysctl", name), message)
            if name == _QDISC and not document.tree.is_resolved:
                is_known = value in get_args(DisciplineName)
                own = f"write 'queue: {{discipline: {value}}}' at a link, or " if is_known else ""
                message = f"has no effect on links, whose queues the topology sets: {own}remove it"
                notes.warn(("hosts", host, "sysctl", name), message)
            if name == "net.mptcp.scheduler" and not document.tree.is_resolved:
                message = f"is a setting of 'mptcp': write 'mptcp: {{scheduler: {value}}}' in place of this sysctl"
                notes.refuse(("hosts", host, "sysctl", name), message)
            sizes = value.replace(",", " ").split()
            if name not in spec.BUFFERS or not all(map(str.isdecimal, sizes)):
                continue
            # of one size it is the largest, of two the least and the first (tcp(7) has the largest)
            filled = {1: ["4096", "131072", *sizes], 2: [*sizes, "6291456"]}.get(len(sizes), sizes[:3])
            ordered = sorted(filled, key=int)
            if sizes != ordered or "," in value:
                wrong = "has commas" if sizes == ordered else "is not the least, the first and the largest size"
                message = f"'{value}' {wrong}: write '{' '.join(ordered)}'"
                tell = notes.warn if len(value.split()) == 3 and "," not in value else notes.refuse
                tell(("hosts", host, "sysctl", name), message)
        for link, _ in settings.congestion:
            check_link(topology, host, link, ("hosts", host, "congestion", link), notes)
        flows = [(n, flow) for n, flow in enumerate(experiment.traffic) if host in (flow.source, flow.destination)]
        if not has_choice:
            _check_control(host, settings, experiment, [flow for _, flow in flows], notes)
            _check_buffers(host, settings, experiment, [flow for _, flow in flows], notes)
        _check_control_of_flows(host, settings, flows, notes)
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


def _check_control_of_flows(
    host: str, settings: spec.HostSpec, flows: Sequence[tuple[int, spec.Flow]], notes: Notes
) -> None:
    """Warn of a congestion control of a host all of whose data has another one, by its flows.

    flows: those of this host, each with its number. A parameter may give either, so the files of a run may have both.
    """
    control = dict(settings.sysctl).get(_CONTROL)
    controlled = [(n, flow) for n, flow in flows if flow.protocol in ("tcp", "mptcp")]
    sent = [(n, flow) for n, flow in controlled if receiver_of(flow) != host] or controlled
    if control is None or not sent or any(flow.congestion in (None, control) for _, flow in sent):
        return
    n, flow = sent[0]
    message = f"conflicts with the sysctl {_CONTROL} of host '{host}': '{flow.congestion}' holds, and '{control}' has"
    notes.warn(("traffic", n, "congestion"), f"{message} no effect; remove one of the two")


def _control_of(settings: spec.HostSpec | None) -> ValuePath | None:
    """Return the key of a host that controls what it sends; None without such a key."""
    if settings is None:
        return None
    if settings.congestion:
        return ("congestion",)
    return next((("sysctl", name) for name, _ in settings.sysctl if name in _OF_SENDERS), None)


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


def _find_senders(host: str, flows: Sequence[spec.Flow]) -> list[str]:
    """Return the senders of flows of a host that only receives; none if it sends data, or if this is not known."""
    if any(receiver_of(flow) != host for flow in flows):
        return []
    return [flow.source if flow.destination == host else flow.destination for flow in flows]


def _find_receivers(host: str, flows: Sequence[spec.Flow]) -> list[str]:
    """Return the receivers of flows of a host that only sends; none if it receives data, or if this is not known."""
    known = [receiver for receiver in map(receiver_of, flows) if receiver not in (None, host)]
    return known if len(known) == len(flows) else []


def check_idle_settings(
    written: Mapping[str, HostEntry], experiment: spec.ExperimentSpec, document: Document, notes: Notes
) -> None:
    """Warn of settings and trace events of a protocol that no flow has. A parameter may give it to flows in other runs.

    `written`: the hosts of the file.
    """
    if has_chosen(document, "protocol", "tool"):
        return
    is_written = any("congestion" in flow for _, flow in list_mappings(document.part("traffic")))
    settings: list[tuple[str, str, ValuePath, tuple[str, ...], set[str]]] = [
        (f" of '{key}'", "acts on", ("hosts", key, *path), protocols, {*find_hosts(key, list(experiment.hosts))})
        for key, entry in written.items()
        for path, protocols in _list_settings(entry)
    ]
    ends = {end for flow in experiment.traffic for end in (flow.source, flow.destination)}
    settings += [("", "records", path, protocols, ends) for path, protocols in _list_trace_events(experiment)]
    for whose, does, path, protocols, hosts in settings:
        flows = [flow for flow in experiment.traffic if {flow.source, flow.destination} & hosts]
        carried = {"udp" if flow.protocol == "quic" or flow.tool == "sctp" else flow.protocol for flow in flows}
        # a program may open sockets by itself
        if not flows or any(flow.tool == "exec" for flow in flows) or not carried.isdisjoint(protocols):
            continue
        write = "write 'protocol: mptcp' for one, or " if "tcp" in carried and "mptcp" in protocols else ""
        over_quic = [flow.name for flow in flows if flow.protocol == "quic"]
        own = {_CONTROL: "congestion", "scheduler": "scheduler"}.get(str(path[-1]))
        if own and over_quic and not (own == "congestion" and is_written):
            write = f"write '{own}' of '{over_quic[0]}' in its place, or "
        # whose control connection is TCP
        has_control = "tcp" in protocols and any(flow.tool == "iperf3" for flow in flows)
        effect = f"{does} iperf3's control connection alone" if has_control else "has no effect"
        titles = " or ".join(map(str.upper, protocols))
        titles = f"the kernel's {titles}" if protocols == ("sctp",) else titles
        replaced = f"{document.tree.replaced}: write all flows there, or " if document.tree.replaced else ""
        notes.warn(path, f"{effect}: no flow{whose} is over {titles}; {replaced}{write}remove it")


def check_link_settings(known_paths: FlowPaths, document: Document, notes: Notes) -> None:
    """Warn of congestion controls and endpoints of links that no flow of their host crosses.

    A parameter may give other protocols in other runs, and a program may use any path.
    """
    hosts = {host: one for host, one in known_paths.experiment.hosts.items() if one.congestion or one.mptcp.endpoints}
    if not hosts or has_chosen(document, "protocol", "tool"):
        return
    for host, settings in hosts.items():
        own = [(flow, links) for flow, links in known_paths.used_links if host in (flow.source, flow.destination)]
        has_mptcp = any(flow.protocol == "mptcp" for flow, _ in own)
        crossed = frozenset[str]().union(*(links for _, links in own))
        if not own or any(flow.tool == "exec" for flow, _ in own):
            continue
        places: list[tuple[ValuePath, str]] = [(("congestion", link), link) for link, _ in settings.congestion]
        for n, endpoint in enumerate(settings.mptcp.endpoints if has_mptcp else ()):
            places.append((("mptcp", "endpoints", n, "link"), endpoint.link))
        for key, link in places:
            if link not in crossed:
                write = "" if has_mptcp else ", or write 'protocol: mptcp'"
                message = f"has no effect: no flow of '{host}' crosses '{link}': remove it{write}"
                notes.warn(("hosts", host, *key), message)


def _list_settings(entry: HostEntry) -> Iterator[tuple[tuple[str, str], tuple[str, ...]]]:
    """Yield the keys of the settings of a host that act on some protocols only, with these protocols."""
    mptcp = entry.mptcp
    if mptcp is not None:
        given = {"path_manager": mptcp.path_manager != "default", "scheduler": mptcp.scheduler != DEFAULT_SCHEDULER}
        given |= {"endpoints": bool(mptcp.endpoints), "limits": mptcp.limits is not None}
        yield from ((("mptcp", key), ("mptcp",)) for key, is_given in given.items() if is_given)
    for name in entry.sysctl:
        yield from ((("sysctl", name), of) for begin, of in _OF_PROTOCOLS.items() if name.startswith(begin))


def _list_trace_events(experiment: spec.ExperimentSpec) -> Iterator[tuple[ValuePath, tuple[str, ...]]]:
    """Yield the trace events of an experiment that flows over some protocols only have, with these protocols."""
    for n, name in enumerate(experiment.tracepoints):
        system = name.partition(":")[0]
        if system in ("tcp", "mptcp", "sctp"):
            yield ("tracepoints", n), ("tcp", "mptcp") if system == "tcp" else (system,)


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


def _addresses(topology: spec.TopologySpec, host: str, family: spec.Family) -> int:
    """Return the number of addresses of a family that a host has."""
    return sum(family in topology.families_of(link) for link in topology.links_at(host))


def check_path_managers(written: Mapping[str, HostEntry], known_paths: FlowPaths, notes: Notes) -> set[str]:
    """Warn of MPTCP flows that leave paths unused because no path manager is set for their hosts. Return their names.

    A group of such flows has one warning, and its name is returned. `written`: the hosts of the file. No warning is
    given for a host whose path manager or endpoints are set.
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
    return told


def check_schedulers(
    written: Mapping[str, HostEntry], told: Collection[str], known_paths: FlowPaths, document: Document, notes: Notes
) -> None:
    """Warn of a scheduler of a host all of whose connections have one subflow because of path managers and limits.

    A parameter or a program may give another number, and a topology with one path may be one of several.
    `written`: the hosts of the file. `told`: the flows and groups with a warning about their subflows.
    """
    given = [("hosts", key, "mptcp", what) for key in written for what in ("path_manager", "endpoints", "limits")]
    has_choice = has_chosen(document, "protocol", "reverse", "from", "to") or any(map(document.names_at, given))
    experiment = known_paths.experiment
    has_choice = has_choice or any(flow.tool == "exec" for flow in experiment.traffic)
    for host, settings in experiment.hosts.items():
        flows = [
            flow
            for flow in experiment.traffic
            if flow.protocol == "mptcp" and host in (flow.source, flow.destination) and receiver_of(flow) != host
        ]
        if has_choice or not flows or any((flow.group or flow.name) in told for flow in flows):
            continue
        has_scheduler = settings.mptcp.scheduler != DEFAULT_SCHEDULER
        if has_scheduler and all(_is_kept_alone(experiment, flow, known_paths.of(flow)) for flow in flows):
            ends = (flows[0].source, flows[0].destination)
            limits = [experiment.mptcp_of(end).subflows for end in ends]
            without = " without 'limits: {subflows: 0}'" if 0 in limits else ""
            remedy = f"write 'path_manager: fullmesh' for '{ends[0]}' and '{ends[1]}'{without}, or remove it"
            message = f"has no effect, as each connection of '{host}' has one subflow: {remedy}"
            notes.warn(("hosts", host, "mptcp", "scheduler"), message)


def _is_kept_alone(experiment: spec.ExperimentSpec, flow: spec.Flow, paths: Sequence[NamedPath]) -> bool:
    """Return True if path managers or limits keep a flow with several paths at one subflow."""
    client, server = (experiment.mptcp_of(host) for host in (flow.source, flow.destination))
    # a limit of 0 has a warning of its own then
    if client.path_manager != "default" or (client.subflows == 0 and client.endpoints):
        return False
    # an address that the server announces may be joined
    is_alone = client.subflows == 0 or (server.path_manager == "default" and not server.endpoints)
    if not is_alone or not paths:
        return False
    mesh = (replace(one, path_manager="fullmesh", endpoints=(), subflows=None) for one in (client, server))
    return count_subflows(client, server, paths) == 1 < count_subflows(next(mesh), next(mesh), paths)
