# SPDX-License-Identifier: Apache-2.0
"""Make the Plan of a Network: commands in their order, processes with their times, and the intent."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace

from mprun.compile.addressing import address_commands, congestion_of, namespace_commands
from mprun.compile.change import plan_changes
from mprun.compile.endpoint import mptcp_commands, path_managers, subflows_wanted
from mprun.compile.middlebox import crossings, is_closed, middlebox_commands, relays, source_seen
from mprun.compile.multipath import hashing_commands
from mprun.compile.openflow import home_of, preparing_commands, switch_commands, switch_programs
from mprun.compile.sharing import share_processes
from mprun.compile.variation import is_wire_varied, vary_starts
from mprun.compile.wire import WIRES, link_commands, shaping_commands, start_commands
from mprun.errors import MachineError
from mprun.model.capabilities import KERNEL_WIDE, NO_COMPUTING, REFERENCE, Capabilities
from mprun.model.intent import AddressedFlow, FlowEnds, FlowPath, Intent
from mprun.model.intent.failure import WATCH_EVERY_NS, find_watches
from mprun.model.intent.intent_file import CODEC
from mprun.model.network import Network, Path
from mprun.model.plan import ROOT, Command, Plan, PlannedFault, PlannedNode, Process, sysctl
from mprun.model.span import find_spans
from mprun.model.spec import Flow, LinkChange, SampleKind, Spec
from mprun.model.units import render_queue
from mprun.workloads import tcpdump
from mprun.workloads.probe import probe
from mprun.workloads.tool import Endpoints, Work, place_ports, time_limit_of, tool_of

# The series of the data that receivers of MPTCP connections have. It is sampled while a path does not work.
PROGRESS = "progress"
# The series that are always sampled, and their intervals in ns. The payload of each subflow follows from `sockets`.
SAMPLES: Mapping[SampleKind, int] = {"sockets": 500_000_000}
# The series without meaning in simulated time, as computing takes no simulated time.
OF_REAL_TIME: SampleKind = "cpu"
# With more routers, a packet with the default time to live (64) might not arrive.
MANY_ROUTERS = 60


def compile_plan(spec: Spec, network: Network, capabilities: Capabilities = REFERENCE) -> Plan:
    """Return the commands and processes of an experiment on a network.

    Raises SpecError for an experiment that no machine can run, MachineError for one that these capabilities exclude.
    """
    spec = vary_starts(spec, network)
    flows = _find_ends(spec, network)
    works = share_processes([(flow, _work(flow, ends, capabilities)) for flow, ends in flows])
    spans = find_spans(spec.experiment.traffic)
    intent = _intent(spec, network, flows)
    watches = find_watches(intent)
    return Plan(
        intent=intent,
        seed=spec.experiment.seed,
        nodes=tuple(_nodes(network)),
        build=tuple(_build(spec, network, capabilities)),
        daemons=(*_daemons(spec, network, capabilities, works), *path_managers(network, spec.experiment)),
        probes=tuple(_probes(spec, network)),
        flows=tuple(client for work in works for client in work.clients),
        changes=tuple(plan_changes(spec, network, capabilities)),
        switch_programs=tuple(switch_programs(network)),
        switching=tuple(switch_commands(network)),
        preparations=tuple(preparation for work in works for preparation in work.preparations),
        samples=_samples(spec, capabilities) | ({PROGRESS: WATCH_EVERY_NS} if watches else {}),
        watches=watches,
        faults=tuple(_faults(spec, network)),
        reseed=spec.experiment.reseed,
        tracepoints=spec.experiment.tracepoints,
        end_ns=max((span.end_ns or span.start_ns or 0 for span in spans.values()), default=0),
    )


def _faults(spec: Spec, network: Network) -> Iterator[PlannedFault]:
    # number 0 stands for no packet
    for fault in (one for one in spec.experiment.faults if one.packet):
        interface = next(one for one in network.nodes[fault.node].interfaces if one.link == fault.link)
        value = fault.option if fault.action == "strip" else fault.by_ns
        yield PlannedFault(fault.node, interface.name, fault.packet, fault.action, value)


def _nodes(network: Network) -> Iterator[PlannedNode]:
    for node in network.nodes.values():
        is_openflow = node.name in network.switches
        yield PlannedNode(node.name, "openflow" if is_openflow else node.kind, home_of(network, node.name))
    if any(link.wire is not None for link in network.links):
        yield PlannedNode(WIRES, "wires")


def _build(spec: Spec, network: Network, capabilities: Capabilities) -> Iterator[Command]:
    yield from _kernel_wide(spec, capabilities)
    routers = sum(node.kind == "router" for node in network.nodes.values())
    ends = [end for node in network.nodes.values() for end in node.interfaces]
    with_ipv6 = {end.node for end in ends if end.address("ipv6") is not None}
    for namespace in _nodes(network):
        if not namespace.inside:
            yield from namespace_commands(namespace, namespace.name in with_ipv6, is_far=routers > MANY_ROUTERS)
            yield from _sysctls(spec, namespace.name, of_new_interfaces=True)
    for link in network.links:
        yield from link_commands(link)
    for link in network.links:
        yield from start_commands(link)
    changing = {change.link for change in network.changes if isinstance(change, LinkChange)}
    is_varied = is_wire_varied(spec, capabilities)
    for link in network.links:
        yield from shaping_commands(link, capabilities.timer_slack_ns, link.name in changing, is_varied)
    yield from preparing_commands(network)
    for node in network.nodes.values():
        yield from hashing_commands(node, spec.experiment.seed)
        if node.name not in network.switches:
            yield from address_commands(node, congestion_of(spec.experiment.hosts.get(node.name), node))
        yield from mptcp_commands(network, spec.experiment, node, capabilities)
        if node.name in spec.topology.middleboxes:
            yield from middlebox_commands(node, spec.topology.middleboxes[node.name])
        yield from _sysctls(spec, node.name, of_new_interfaces=False)


def _sysctls(spec: Spec, node: str, of_new_interfaces: bool) -> Iterator[Command]:
    """Yield the commands that set a host's sysctls: the defaults of interfaces, which new interfaces get, or others."""
    for name, value in spec.experiment.hosts[node].sysctl if node in spec.experiment.hosts else ():
        if name not in KERNEL_WIDE and (".conf.default." in name) == of_new_interfaces:
            yield sysctl(node, name, value)


def _kernel_wide(spec: Spec, capabilities: Capabilities) -> Iterator[Command]:
    """Yield the commands that set kernel-wide sysctls, if mprun may set them.

    Raises MachineError if mprun may not, and the kernel has less than the experiment asks for.
    """
    for name, (host, value) in _asked_kernel_wide(spec).items():
        if capabilities.kernel_wide is None:
            yield sysctl(ROOT, name, value)
            continue
        has = capabilities.kernel_wide.get(name, "nothing")
        is_enough = value.isdigit() and has.isdigit() and int(value) <= int(has)
        if value != has and not is_enough:
            raise MachineError(
                f"hosts.{host}.sysctl.{name}: {value}, but this kernel has {has}, and it is one value for the whole "
                f"machine; run with --engine virtual, or `sysctl -w {name}={value}`"
            )


def kernel_wide_warnings(spec: Spec, capabilities: Capabilities) -> Iterator[str]:
    """Yield a warning for each kernel-wide sysctl of which this machine has and keeps more than the file asks for."""
    for name, (host, value) in _asked_kernel_wide(spec).items():
        has = (capabilities.kernel_wide or {}).get(name, value)
        if has != value:
            yield f"hosts.{host}.sysctl.{name}: asked {value}, this machine's {has} holds in the real engine"


def _samples(spec: Spec, capabilities: Capabilities) -> dict[str, int]:
    """Return the interval of each series in ns."""
    asked = {**SAMPLES, **spec.experiment.samples}
    return {series: ns for series, ns in asked.items() if series != OF_REAL_TIME or not capabilities.is_simulated}


def sampling_warnings(spec: Spec, capabilities: Capabilities) -> Iterator[str]:
    """Yield a warning for each series that the file asks for and that cannot be sampled."""
    if OF_REAL_TIME in spec.experiment.samples and capabilities.is_simulated:
        yield f"sample.cpu: has nothing to sample: {NO_COMPUTING}"


def queue_warnings(spec: Spec, network: Network) -> Iterator[str]:
    """Yield a warning for each queue in BDPs that is at most one packet."""
    sized = {link.name: link.ways for link in network.links}
    for link in spec.topology.links:
        for asked, one in zip((link.forward, link.reverse), sized[link.name], strict=True):
            queue, given = one.way.queue, asked.queue
            if given is None or queue is None or given.unit != "bdp" or not asked.rate_bit_per_s:
                continue
            if queue.size_bytes(one.link.frame_bytes) <= one.link.frame_bytes:
                what = f"{link.name}.queue: {render_queue(given)} of the paths over this link is at most one packet"
                yield f"{what}: write packets, or a longer delay"
                break


def _asked_kernel_wide(spec: Spec) -> dict[str, tuple[str, str]]:
    """Return a host and the value of each kernel-wide sysctl."""
    asked = ((host, one) for host, settings in spec.experiment.hosts.items() for one in settings.sysctl)
    return {name: (host, value) for host, (name, value) in asked if name in KERNEL_WIDE}


def _find_ends(spec: Spec, network: Network) -> list[tuple[Flow, Endpoints]]:
    """Return the flows with their addresses, and with the ports of the file or else the next free ports."""
    placed = []
    for flow, ports in place_ports(spec.experiment.traffic):
        pairs = tuple((str(path.source_address), str(path.destination_address)) for path in network.paths_of(flow))
        placed.append((flow, Endpoints(*pairs[0], ports, pairs)))
    return placed


def _work(flow: Flow, ends: Endpoints, capabilities: Capabilities) -> Work:
    """Return the processes of a flow, with the names and times that the flow decides and not its tool."""
    work = tool_of(flow).work(flow, ends, capabilities)
    names = (flow.name,) if flow.group is None else (flow.name, flow.group)

    def begin(client: Process) -> Process:
        timeout_ns = time_limit_of(flow, client.timeout_ns)
        after = (flow.after.flow, flow.after.of) if flow.after else None
        timing = {"at_ns": flow.start_ns, "after": after, "lasts_ns": flow.duration_ns, "timeout_ns": timeout_ns}
        return replace(client, flows=names, **timing)  # type: ignore[arg-type]

    return Work(
        clients=tuple(map(begin, work.clients)),
        servers=tuple(replace(server, flows=names) for server in work.servers),
        preparations=tuple(replace(preparation, flows=names) for preparation in work.preparations),
    )


def _daemons(spec: Spec, network: Network, capabilities: Capabilities, works: Sequence[Work]) -> Iterator[Process]:
    """Yield captures, relays and servers. Captures start first, so that they miss no packet."""
    for wanted in spec.experiment.captures:
        interfaces = network.nodes[wanted.node].interfaces
        on_link = next((one.name for one in interfaces if one.link == wanted.link), None)
        yield tcpdump.capture(wanted, capabilities, on_link or tcpdump.ANY)
    yield from relays(spec.topology.middleboxes)
    for work in works:
        yield from work.servers


def _probes(spec: Spec, network: Network) -> Iterator[Process]:
    if not spec.experiment.probe_pings:
        return
    for path in probed_paths(network):
        if is_closed(network, spec.topology.middleboxes, path):
            continue
        address = (path.source.node, str(path.source_address), str(path.destination_address))
        ways = (way for link in network.links if link.name in path.links for way in (link.forward, link.reverse))
        slowest = min((way.rate_bit_per_s for way in ways if way.rate_bit_per_s), default=math.inf)
        yield probe(f"probe.{path.name}", *address, spec.experiment.probe_pings, slowest)


def probed_paths(network: Network) -> tuple[Path, ...]:
    """Return the paths that the experiment's flows may take, one for each name."""
    by_name: dict[str, Path] = {}
    for paths in network.paths.values():
        for path in paths:
            by_name.setdefault(path.name, path)
    return tuple(by_name.values())


def _intent(spec: Spec, network: Network, flows: list[tuple[Flow, Endpoints]]) -> Intent:
    """Return the meaning of the inputs: network, hosts, timeline, captures, seed."""
    experiment = spec.experiment
    return Intent(
        nodes=tuple(network.nodes.values()),
        links=network.links,
        hosts=experiment.hosts,
        traffic=tuple(_address(spec, network, flow, ends) for flow, ends in flows),
        captures=experiment.captures,
        changes=network.changes,
        seed=experiment.seed,
        probe_pings=experiment.probe_pings,
        vary=experiment.vary,
        samples=experiment.samples,
        switches=network.switches,
        middleboxes=spec.topology.middleboxes,
        faults=experiment.faults,
        reseed=experiment.reseed,
        tracepoints=experiment.tracepoints,
    )


def _address(spec: Spec, network: Network, flow: Flow, ends: Endpoints) -> AddressedFlow:
    """Return a flow of the intent. Its family is left out, as the endpoints tell it."""
    asked = {one.name: getattr(flow, one.name) for one in fields(Flow)}
    # options as a run's plan has them, whatever the tool made them of
    asked |= {"family": None, "options": CODEC.encode(flow.options)}
    return AddressedFlow(
        **asked,
        endpoints=FlowEnds(
            ends.source_address,
            ends.destination_address,
            ends.port if ends.ports else None,
            ends.ports if len(ends.ports) > 1 else (),
        ),
        paths=tuple(_flow_path(spec, network, path) for path in network.paths_of(flow)),
        subflows=subflows_wanted(network, spec.experiment, flow) if flow.protocol == "mptcp" else 1,
    )


def _flow_path(spec: Spec, network: Network, path: Path) -> FlowPath:
    """Return a path of the intent, with its middleboxes and the source address that the destination sees."""
    boxes = spec.topology.middleboxes
    seen = source_seen(network, boxes, path)
    return FlowPath(
        name=path.name,
        source=str(path.source_address),
        destination=str(path.destination_address),
        links=path.links,
        rtt_ns=path.rtt_ns,
        backup=path.backup,
        ways=path.ways,
        least_rtt_ns=path.least_rtt_ns if path.ways > 1 else None,
        middleboxes=tuple(crossing.name for crossing in crossings(network, boxes, path)),
        source_seen=None if seen is None else str(seen),
    )
