# SPDX-License-Identifier: Apache-2.0
"""Network -> Plan: the commands in their order, the processes in their time, the intent beside."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from typing import Any

from mprun.capabilities import REFERENCE, Capabilities
from mprun.compile.addressing import address_commands, namespace_commands, sysctl
from mprun.compile.endpoint import mptcp_commands, subflows_wanted
from mprun.compile.network import Network, Path
from mprun.compile.wire import WIRES, link_commands, shaping_commands, start_commands
from mprun.errors import HostError, SpecError
from mprun.plan import ROOT, Command, Node, Plan, Process
from mprun.spec.spec import Flow, Spec
from mprun.tools import TOOLS, ping, tcpdump
from mprun.tools.tool import Endpoints

FIRST_PORT = 5201
PROBE_INTERVAL_NS = 200_000_000
# With more, a packet of the default time to live (64) might not arrive.
MANY_ROUTERS = 60
# sysctls of the kernel as a whole, not of a namespace: one value holds for all hosts.
KERNEL_WIDE = tuple(
    f"net.core.{name}"
    for name in (
        *("rmem_max", "wmem_max", "rmem_default", "wmem_default"),
        *("netdev_max_backlog", "netdev_budget", "netdev_budget_usecs", "dev_weight", "default_qdisc"),
    )
)


def compile_plan(spec: Spec, network: Network, capabilities: Capabilities = REFERENCE) -> Plan:
    """Bind a network and an experiment to commands.

    Raises SpecError for what no machine can do, HostError for what these capabilities cannot.
    """
    flows = _place_flows(spec, network)
    return Plan(
        intent=_intent(spec, network, flows),
        seed=spec.experiment.seed,
        nodes=tuple(_nodes(network)),
        build=tuple(_build(spec, network, capabilities)),
        daemons=tuple(_daemons(spec, flows, capabilities)),
        probes=tuple(_probes(spec, network)),
        flows=tuple(TOOLS[flow.tool].client(flow, ends, capabilities) for flow, ends in flows),
    )


def _nodes(network: Network) -> Iterator[Node]:
    for node in network.nodes.values():
        yield Node(node.name, node.kind)
    if any(link.wire is not None for link in network.links):
        yield Node(WIRES, "wires", hidden=True)


def _build(spec: Spec, network: Network, capabilities: Capabilities) -> Iterator[Command]:
    yield from _kernel_wide(spec, capabilities)
    routers = sum(node.kind == "router" for node in network.nodes.values())
    for namespace in _nodes(network):
        yield from namespace_commands(namespace)
        if namespace.kind == "host" and routers > MANY_ROUTERS:
            yield sysctl(namespace.name, "net.ipv4.ip_default_ttl", "255")
    for link in network.links:
        yield from link_commands(link)
    for link in network.links:
        yield from start_commands(link)
    for link in network.links:
        yield from shaping_commands(link, capabilities.timer_slack_ns)
    for node in network.nodes.values():
        yield from address_commands(node)
        yield from mptcp_commands(network, spec.experiment, node)
        if node.name in spec.experiment.hosts:
            for name, value in spec.experiment.hosts[node.name].sysctl:
                if name not in KERNEL_WIDE:
                    yield sysctl(node.name, name, value)


def _kernel_wide(spec: Spec, capabilities: Capabilities) -> Iterator[Command]:
    """Kernel-wide sysctls: set where the kernel is ours; where it is not, it must have as much."""
    for name, (host, value) in _asked_kernel_wide(spec).items():
        if capabilities.kernel_wide is None:
            yield sysctl(ROOT, name, value)
            continue
        has = capabilities.kernel_wide.get(name, "nothing")
        is_enough = value.isdigit() and has.isdigit() and int(value) <= int(has)
        if value != has and not is_enough:
            raise HostError(
                f"hosts.{host}.sysctl.{name}: {value}, but this kernel has {has}, and it is one value for the whole "
                f"machine; run with --engine virtual, or `sysctl -w {name}={value}`"
            )


def kernel_wide_warnings(spec: Spec, capabilities: Capabilities) -> Iterator[str]:
    """Kernel-wide sysctls of which this machine has more than was asked, and keeps it."""
    for name, (host, value) in _asked_kernel_wide(spec).items():
        has = (capabilities.kernel_wide or {}).get(name, value)
        if has != value:
            yield f"hosts.{host}.sysctl.{name}: asked {value}, this machine's {has} holds in the real engine"


def _asked_kernel_wide(spec: Spec) -> dict[str, tuple[str, str]]:
    """Name -> (first host that asks, value). Raises SpecError where two hosts disagree."""
    asked: dict[str, tuple[str, str]] = {}
    for host, settings in spec.experiment.hosts.items():
        for name, value in settings.sysctl:
            if name not in KERNEL_WIDE:
                continue
            first, before = asked.setdefault(name, (host, value))
            if before != value:
                raise SpecError(
                    f"hosts.{host}.sysctl.{name}: {value}, but host '{first}' has {before}, and it is one value for "
                    "the whole kernel: give both the same"
                )
    return asked


def _place_flows(spec: Spec, network: Network) -> list[tuple[Flow, Endpoints]]:
    placed = []
    for number, flow in enumerate(spec.experiment.traffic):
        first = network.paths[flow.source, flow.destination][0]
        placed.append((flow, _endpoints(first, FIRST_PORT + number)))
    return placed


def _endpoints(path: Path, port: int) -> Endpoints:
    """The addresses that a path joins; both of its ends have one."""
    source, destination = path.source.address, path.destination.address
    assert source is not None
    assert destination is not None
    return Endpoints(str(source.ip), str(destination.ip), port)


def _daemons(spec: Spec, flows: list[tuple[Flow, Endpoints]], capabilities: Capabilities) -> Iterator[Process]:
    """Captures first, so that they see everything."""
    for wanted in spec.experiment.captures:
        yield tcpdump.capture(wanted)
    for flow, ends in flows:
        yield from TOOLS[flow.tool].servers(flow, ends, capabilities)


def _probes(spec: Spec, network: Network) -> Iterator[Process]:
    if not spec.experiment.probe_pings:
        return
    for path in probed_paths(network):
        ends = _endpoints(path, 0)
        yield Process(
            name=f"probe.{path.name}",
            node=path.source.node,
            argv=ping.argv(ends, spec.experiment.probe_pings, PROBE_INTERVAL_NS),
            role="probe",
        )


def probed_paths(network: Network) -> tuple[Path, ...]:
    """The paths that the experiment's flows may take, one for each name."""
    by_name: dict[str, Path] = {}
    for paths in network.paths.values():
        for path in paths:
            by_name.setdefault(path.name, path)
    return tuple(by_name.values())


def _intent(spec: Spec, network: Network, flows: list[tuple[Flow, Endpoints]]) -> dict[str, Any]:
    """The meaning of the inputs as JSON values: network, hosts, timeline, captures, seed."""
    experiment = spec.experiment
    value = {
        "nodes": [asdict(node) for node in network.nodes.values()],
        "links": [asdict(link) for link in network.links],
        "hosts": {name: asdict(settings) for name, settings in experiment.hosts.items()},
        "traffic": [
            {
                **asdict(flow),
                "endpoints": asdict(ends),
                "paths": [
                    {
                        "name": path.name,
                        "source": _endpoints(path, 0).source_address,
                        "destination": _endpoints(path, 0).destination_address,
                        "links": path.links,
                        "rtt_ns": path.rtt_ns,
                        "backup": path.backup,
                    }
                    for path in network.paths[flow.source, flow.destination]
                ],
                "subflows": subflows_wanted(network, experiment, flow.source, flow.destination)
                if flow.protocol == "mptcp"
                else 1,
            }
            for flow, ends in flows
        ],
        "captures": [asdict(capture) for capture in experiment.captures],
        "probe_pings": experiment.probe_pings,
        "seed": experiment.seed,
    }
    plain: dict[str, Any] = _plain(value)
    return plain


def _plain(value: Any) -> Any:
    """The value in JSON's types, addresses as text."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, (IPv4Address, IPv4Interface, IPv4Network)):
        return str(value)
    return value
