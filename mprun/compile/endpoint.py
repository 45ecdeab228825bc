# SPDX-License-Identifier: Apache-2.0
"""A host's MPTCP settings as commands: endpoints and limits from the topology (ip-mptcp(8)).

`fullmesh`: a client opens a subflow from each of its addresses to each of the server's, a server
announces its further addresses. `default`: passive, no endpoint, only what the peer opens.
Endpoints are not bound to a device: a bound join is answered by the peer's policy routing through
another device and then stays unanswered, and nothing says so.
"""

from __future__ import annotations

from collections.abc import Iterator

from mprun.compile.addressing import sysctl
from mprun.compile.network import Network, Node
from mprun.errors import SpecError
from mprun.plan import Command
from mprun.spec.spec import ExperimentSpec, HostSpec

# MPTCP_PM_ADDR_MAX in the kernel's net/mptcp/protocol.h.
MAX_ADDITIONAL_SUBFLOWS = 8


def is_used(experiment: ExperimentSpec, node: str) -> bool:
    """Whether an MPTCP flow starts or ends on this node."""
    return any(f.protocol == "mptcp" and node in (f.source, f.destination) for f in experiment.traffic)


def subflows_wanted(network: Network, experiment: ExperimentSpec, source: str, destination: str) -> int:
    """Subflows that a connection between two hosts has once its path managers are done."""
    settings = [experiment.hosts.get(name, HostSpec()).mptcp for name in (source, destination)]
    if settings[0].path_manager == "default":
        return 1
    paths = network.paths.get((source, destination), ())
    if settings[1].path_manager == "default":
        # nothing is announced: only the address that the connection was opened to is known
        paths = tuple(path for path in paths if path.destination == paths[0].destination)
    asked = settings[0].subflows
    return len(paths) if asked is None else min(len(paths), 1 + asked)


def mptcp_commands(network: Network, experiment: ExperimentSpec, node: Node) -> Iterator[Command]:
    """Scheduler, limits and endpoints of a host that an MPTCP flow uses; nothing for others."""
    if node.kind != "host" or not is_used(experiment, node.name):
        return
    settings = experiment.hosts.get(node.name, HostSpec()).mptcp
    yield sysctl(node.name, "net.mptcp.enabled", "1")
    yield sysctl(node.name, "net.mptcp.scheduler", settings.scheduler)
    pairs = [
        (flow.source, flow.destination)
        for flow in experiment.traffic
        if flow.protocol == "mptcp" and node.name in (flow.source, flow.destination)
    ]
    wanted = max(len(network.paths[pair]) for pair in pairs) - 1
    peers = max(len({path.destination for path in network.paths[pair]}) for pair in pairs)
    passive = settings.path_manager == "default"
    subflows = settings.subflows if settings.subflows is not None else wanted
    accepted = settings.add_addr_accepted
    if accepted is None:
        accepted = 0 if passive else peers - 1
    for name, value in (("subflows", subflows), ("add_addr_accepted", accepted)):
        if value > MAX_ADDITIONAL_SUBFLOWS:
            raise SpecError(
                f"hosts.{node.name}.mptcp.limits.{name}: {value} is more than the kernel's "
                f"{MAX_ADDITIONAL_SUBFLOWS}: use fewer paths, or set the limit to {MAX_ADDITIONAL_SUBFLOWS} or less"
            )
    yield Command(
        node.name,
        ("ip", "mptcp", "limits", "set", "subflows", str(subflows), "add_addr_accepted", str(accepted)),
    )
    if passive:
        return
    opens = any(source == node.name for source, _ in pairs)
    for number, interface in enumerate(node.interfaces):
        if interface.address is None:
            continue
        if opens:
            flags = ["subflow", "fullmesh"]
        elif number > 0:
            flags = ["signal"]
        else:
            continue
        if interface.backup:
            flags.append("backup")
        yield Command(node.name, ("ip", "mptcp", "endpoint", "add", str(interface.address.ip), *flags))
