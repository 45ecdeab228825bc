# SPDX-License-Identifier: Apache-2.0
"""Commands for a host's MPTCP settings: endpoints and limits that follow from the topology (ip-mptcp(8)).

- `fullmesh`: a client opens a subflow from each of its addresses to each address of the server. A server announces its
    further addresses.
- `default`: the host is passive. It has only the endpoints that the experiment lists, and its peer opens subflows.
- `ndiffports`, `in-order`, or several subflows for each pair of addresses: the kernel's path manager cannot open such
    subflows. Instead, a program of mprun is the path manager of the client (net.mptcp.pm_type=1).

With parallel links or switches, each address of the client may reach only one address of the server. There, full mesh
would join the other addresses through the wrong interface. So the client has no endpoint, and answers each announcement
from the address on the announced subnet.

Endpoints are not bound to a device. The peer's policy routing would answer a bound join through another device, and the
join would fail without any message.
"""

from __future__ import annotations

from collections.abc import Iterator

from mprun.model import engine_paths
from mprun.model.address import InterfaceAddress, family_of
from mprun.model.capabilities import DEFAULT_SCHEDULER, Capabilities
from mprun.model.network import Interface, Network, Node
from mprun.model.path import are_side_by_side, count_subflows, pairs_of
from mprun.model.plan import Command, Process, Ready, sysctl
from mprun.model.spec import FAMILIES, MAX_ADDITIONAL_SUBFLOWS, ExperimentSpec, Flow

PATH_MANAGER = "mprun.agent.programs.path_manager"


def subflows_wanted(network: Network, experiment: ExperimentSpec, flow: Flow) -> int:
    """Return the number of subflows that an MPTCP flow's connection has once its path managers are done."""
    client, server = (experiment.mptcp_of(name) for name in (flow.source, flow.destination))
    return count_subflows(client, server, network.paths_of(flow))


def mptcp_commands(
    network: Network, experiment: ExperimentSpec, node: Node, capabilities: Capabilities
) -> Iterator[Command]:
    """Yield the commands for scheduler, limits and endpoints of a host with MPTCP flows; none for other nodes.

    If the kernel offers no choice of schedulers, the scheduler is set only if it is not the default one.
    """
    flows = _flows_of(experiment, node.name)
    if node.kind != "host" or not flows:
        return
    settings = experiment.mptcp_of(node.name)
    yield sysctl(node.name, "net.mptcp.enabled", "1")
    has_choice = capabilities.schedulers is None or capabilities.schedulers.has_sysctl
    if has_choice or settings.scheduler != DEFAULT_SCHEDULER:
        yield sysctl(node.name, "net.mptcp.scheduler", settings.scheduler)
    if settings.is_in_user_space:
        yield sysctl(node.name, "net.mptcp.pm_type", "1")
        return
    subflows, accepted = settings.subflows, settings.add_addr_accepted
    # without a given limit, allow as many subflows as the flows can have; `mprun.inputs.host_check` refuses clients
    # that would open more than the kernel allows
    if subflows is None:
        needed = max(_most_subflows(network, experiment, flow) for flow in flows) - 1
        subflows = min(needed, MAX_ADDITIONAL_SUBFLOWS)
    if accepted is None and settings.path_manager == "default":
        accepted = 0
    elif accepted is None:
        announced = max(len({path.destination_address for path in network.paths_of(flow)}) for flow in flows) - 1
        accepted = min(announced, MAX_ADDITIONAL_SUBFLOWS)
    yield Command(
        node.name,
        ("ip", "mptcp", "limits", "set", "subflows", str(subflows), "add_addr_accepted", str(accepted)),
    )
    for _, command in endpoint_commands(network, experiment, node):
        yield command


def _flows_of(experiment: ExperimentSpec, node: str) -> list[Flow]:
    """Return the MPTCP flows that start or end on a node."""
    return [f for f in experiment.traffic if f.protocol == "mptcp" and node in (f.source, f.destination)]


def _most_subflows(network: Network, experiment: ExperimentSpec, flow: Flow) -> int:
    """Return the number of subflows that a host must allow: pairs of addresses, times the client's number for each."""
    settings = experiment.mptcp_of(flow.source)
    paths = network.paths_of(flow)
    if not settings.is_in_user_space:
        return len(paths)
    wanted = len(pairs_of(settings, paths)) * settings.subflows_per_pair
    return min(wanted, 1 + MAX_ADDITIONAL_SUBFLOWS)


def path_managers(network: Network, experiment: ExperimentSpec) -> Iterator[Process]:
    """Yield the path manager programs of clients that do not use the kernel's path manager."""
    for name, settings in experiment.hosts.items():
        mptcp = settings.mptcp
        opened = [flow for flow in _flows_of(experiment, name) if flow.source == name]
        if not mptcp.is_in_user_space or not opened:
            continue
        limit = MAX_ADDITIONAL_SUBFLOWS if mptcp.subflows is None else mptcp.subflows
        argv = ["python3", "-m", PATH_MANAGER, str(mptcp.subflows_per_pair), str(limit)]
        numbers = {address.ip: number for number, (_, address) in enumerate(_ends(network.nodes[name]), start=1)}
        for flow in opened:
            for path in pairs_of(mptcp, network.paths_of(flow)):
                pair = f"{path.source_address},{path.destination_address},{numbers[path.source_address]}"
                pair += ",backup" if path.backup else ""
                if pair not in argv:
                    argv.append(pair)
        yield Process(
            name=f"path_manager.{name}",
            node=name,
            argv=tuple(argv),
            env={"PYTHONPATH": engine_paths.LIBRARY},
            role="server",
            ready=Ready("output", "ready"),
        )


def _ends(node: Node) -> list[tuple[Interface, InterfaceAddress]]:
    """Return every address of a host with its interface, in the order of endpoint numbers."""
    return [(interface, address) for interface in node.interfaces for address in interface.addresses]


def endpoint_commands(
    network: Network, experiment: ExperimentSpec, node: Node
) -> Iterator[tuple[InterfaceAddress, Command]]:
    """Yield the MPTCP endpoints of a host with MPTCP flows: each address with its command.

    A passive host has only the endpoints that the experiment lists.
    """
    settings = experiment.mptcp_of(node.name)
    flows = _flows_of(experiment, node.name)
    if not flows or settings.is_in_user_space:
        return
    opened = [network.paths_of(flow) for flow in flows if flow.source == node.name]
    apart = [family for family in FAMILIES if all(are_side_by_side(paths, family) for paths in opened)]
    # the address that a connection was opened to needs no announcement
    known = {network.paths_of(flow)[0].destination_address for flow in flows if flow.destination == node.name}
    written = {endpoint.link: endpoint.flags for endpoint in settings.endpoints}

    def flags_of(interface: Interface, address: InterfaceAddress) -> tuple[str, ...]:
        """Return the flags of the endpoint of an address; none if it has no endpoint."""
        backup = ("backup",) if interface.backup else ()
        if settings.path_manager == "default":
            flags = written.get(interface.link, ())
            return tuple(dict.fromkeys((*flags, *backup))) if flags else ()
        if opened:
            return () if family_of(address) in apart else ("subflow", "fullmesh", *backup)
        return () if known == {address.ip} else ("signal", *backup)

    for number, (interface, address) in enumerate(_ends(node), start=1):
        if flags := flags_of(interface, address):
            words = f"ip mptcp endpoint add {address.ip} id {number}"
            yield address, Command(node.name, (*words.split(), *flags))
