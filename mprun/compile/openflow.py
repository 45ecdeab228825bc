# SPDX-License-Identifier: Apache-2.0
"""Commands for Open vSwitch: its programs, its bridges, their flows and groups.

All switches of a run share one Open vSwitch, and so one namespace, because its kernel datapath belongs to one
namespace. Starting its programs for each switch would take longer than the rest of the set-up. Flows name ports by
their interfaces.

For a switch in mode multipath, the flows follow from the topology. Each address has a flow, with a select group if
several ways are equally short. Nothing is flooded, so links may be parallel or form loops.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from mprun.model import engine_paths
from mprun.model.grouping import gather
from mprun.model.network import Interface, Network, Switch
from mprun.model.ofctl import group_id, rename_ports
from mprun.model.path import count_steps, search
from mprun.model.plan import Command, Process, Ready
from mprun.model.spec import HashedBy, LinkSpec, OpenFlow, TopologySpec

# The folder of Open vSwitch's sockets. It accepts sockets of controllers only below this folder.
FOLDER = "/var/run/openvswitch"
DATABASE = f"{FOLDER}/conf.db"
SOCKET = f"{FOLDER}/db.sock"
# The path of mprun's controller in a run.
CONTROLLER = f"{engine_paths.PROGRAMS}/controller.py"
# The longest name of an interface in Linux.
INTERFACE_NAME_BYTES = 15
# Names that have another use in the namespace of the switches.
_TAKEN = re.compile(r"lo|ovs-system|ovs-netdev|.*-eth\d+")
# Select groups with a selection method exist from OpenFlow 1.5 on.
_OFCTL = ("ovs-ofctl", "-O", "OpenFlow15")
_ADDRESSES = "ip_src,ip_dst,ipv6_src,ipv6_dst"
_METHODS: Mapping[HashedBy, str] = {
    "connection": f"selection_method=hash,fields({_ADDRESSES},nw_proto,tcp_src,tcp_dst,udp_src,udp_dst)",
    "addresses": f"selection_method=hash,fields({_ADDRESSES})",
    "datapath": "selection_method=dp_hash",
}

_Ends = tuple[LinkSpec, Interface, Interface]


def label(topology: TopologySpec, node: str) -> str:
    """Return the name of a switch in the namespace that all share.

    It is the switch's name, or its number if the name cannot be an interface's.
    """
    ports = sum(node in link.ends for link in topology.links)
    if len(f"{node}-eth{ports}") <= INTERFACE_NAME_BYTES and not _TAKEN.fullmatch(node):
        return node
    return f"_{list(topology.nodes).index(node)}"


def make_switches(topology: TopologySpec, built: Sequence[_Ends]) -> dict[str, Switch]:
    """Return the Open vSwitches of a topology with all their flows. Flows name ports by their interfaces."""
    switches = {}
    fabric = _Fabric(topology, built)
    for number, (name, wanted) in enumerate(topology.switches.items(), start=1):
        ports = {link.name: end for link, *ends in built for end in ends if end.node == name}
        names = {link: end.name for link, end in ports.items()}
        groups = [rename_ports(text, names) for text in wanted.groups]
        flows = [rename_ports(text, names) for text in wanted.flows]
        if wanted.mode == "multipath":
            ways = fabric.find_ways(name)
            more_flows, more_groups = _spread(ways, wanted, number)
            flows, groups = flows + more_flows, groups + more_groups
        elif wanted.mode != "flows":
            flows.append(f"priority=0,actions={'NORMAL' if wanted.mode == 'learning' else 'CONTROLLER:65535'}")
        switches[name] = Switch(
            bridge=label(topology, name),
            ports=tuple(names.values()),
            mode=wanted.mode,
            flows=tuple(flows),
            groups=tuple(groups),
            controller=wanted.controller,
        )
    return switches


def _spread(ways: Mapping[str, tuple[str, ...]], wanted: OpenFlow, basis: int) -> tuple[list[str], list[str]]:
    """Return flows and groups that send each address on its ways. Addresses with the same ways share a group.

    basis: the basis of the hash, which differs for each switch. With the same basis, all traffic that one switch sends
    to the next would have hashes for which the next switch takes the same way.
    """
    used = {group_id(text) or 0 for text in wanted.groups}
    numbers: dict[tuple[str, ...], int] = {}
    flows, groups = [], []
    for mac, ports in ways.items():
        if len(ports) == 1:
            flows.append(f"priority=1,dl_dst={mac},actions=output:{ports[0]}")
            continue
        if ports not in numbers:
            numbers[ports] = max(used, default=0) + 1
            used.add(numbers[ports])
            buckets = "".join(f",bucket=watch_port:{port},actions=output:{port}" for port in ports)
            method = f"{_METHODS[wanted.hashed_by]},selection_method_param={basis}"
            groups.append(f"group_id={numbers[ports]},type=select,{method}{buckets}")
        flows.append(f"priority=1,dl_dst={mac},actions=group:{numbers[ports]}")
    return flows, groups


class _Fabric:
    """The links of switches, and the distances between switches."""

    def __init__(self, topology: TopologySpec, built: Sequence[_Ends]) -> None:
        self._kinds = topology.nodes
        self._built = built
        self._away = cache(self._distances)
        self._crossings = gather((own.node, (own, peer)) for _, a, b in built for own, peer in ((a, b), (b, a)))

    def find_ways(self, switch: str) -> dict[str, tuple[str, ...]]:
        """Return, for each MAC address on the segments of a switch, the ports on its shortest ways."""
        segments = {own.segment for own, _ in self._crossings.get(switch, ())}
        ways: dict[str, tuple[str, ...]] = {}
        for _, *ends in self._built:
            for end, other in (ends, ends[::-1]):
                if not end.addresses or end.segment not in segments or self._kinds[other.node] != "switch":
                    continue
                if other.node == switch:
                    ways[end.mac] = (other.name,)
                    continue
                # the ports that lead one switch nearer to the last switch
                away, here = self._away(other.node), self._crossings[switch]
                ways[end.mac] = tuple(own.name for own, peer in here if away.get(peer.node) == away[switch] - 1)
        return ways

    def _distances(self, switch: str) -> dict[str, int]:
        """Return the number of links between switches to each switch."""

        def onward(here: str) -> Iterator[tuple[str, Interface]]:
            return ((peer.node, own) for own, peer in self._crossings[here] if self._kinds[peer.node] == "switch")

        return count_steps(search([switch], onward))


def preparing_commands(network: Network) -> Iterator[Command]:
    """Return the commands that come before the programs of Open vSwitch."""
    if home := _home(network):
        yield Command(home, ("mkdir", "-p", FOLDER))
        yield Command(home, ("ovsdb-tool", "create", DATABASE))


def switch_programs(network: Network) -> Iterator[Process]:
    """Yield Open vSwitch's database, mprun's controller if a switch uses one, and Open vSwitch's daemon."""
    home = _home(network)
    if home is None:
        return
    yield Process(
        name="switches.db",
        node=home,
        argv=("ovsdb-server", "--pidfile", f"--remote=punix:{SOCKET}", DATABASE),
        role="switch",
        ready=Ready("socket", SOCKET),
    )
    words = tuple(_controller_words(network))
    if words:
        yield Process(
            name="controller",
            node=home,
            argv=("python3", "-I", "-S", "-B", CONTROLLER, *words),
            role="switch",
            ready=Ready("output", "all switches are connected"),
        )
    yield Process(name="switches", node=home, argv=("ovs-vswitchd", "--pidfile"), role="switch")


def switch_commands(network: Network) -> Iterator[Command]:
    """Yield the commands for bridges with their ports and controllers, then for groups and flows."""
    for number, (node, switch) in enumerate(network.switches.items(), start=1):
        yield Command(node, ("ovs-vsctl", *_bridge_words(number, switch)))
    for node, switch in network.switches.items():
        for text in switch.groups:
            yield Command(node, (*_OFCTL, "add-group", switch.bridge, text))
        for text in switch.flows:
            # Open vSwitch itself adds this flow to a bridge with fail_mode=standalone
            if (switch.mode, text) != ("learning", "priority=0,actions=NORMAL"):
                yield Command(node, (*_OFCTL, "add-flow", switch.bridge, text))


def _home(network: Network) -> str | None:
    """Return the switch whose namespace all switches share; None without switches."""
    return next(iter(network.switches), None)


def home_of(network: Network, node: str) -> str:
    """Return the node whose namespace a node shares; empty if the node has its own."""
    home = _home(network)
    return home if home and node in network.switches and node != home else ""


def _bridge_words(number: int, switch: Switch) -> Iterator[str]:
    bridge = switch.bridge
    fail_mode = "standalone" if switch.mode == "learning" else "secure"
    yield from ("add-br", bridge, "--", "set", "bridge", bridge, f"fail_mode={fail_mode}")
    yield f"other_config:datapath-id={number:016x}"
    for index, port in enumerate(switch.ports, start=1):
        yield from ("--", "add-port", bridge, port, "--", "set", "interface", port, f"ofport_request={index}")
    if switch.controller is not None:
        yield from ("--", "set-controller", bridge, f"unix:{_controller_socket(switch)}")


def _controller_socket(switch: Switch) -> str:
    return f"{FOLDER}/{switch.bridge}.controller"


def _controller_words(network: Network) -> Iterator[str]:
    """Yield the argument of mprun's controller for each switch."""
    for switch in network.switches.values():
        if switch.controller is not None:
            asked = switch.controller
            facts = f"delay_ns={asked.delay_ns},idle_timeout={asked.idle_timeout_s},match={asked.match}"
            yield f"{_controller_socket(switch)},{facts}"
