# SPDX-License-Identifier: Apache-2.0
"""Commands that set up a node's namespace: sysctls, addresses, rules, routes, neighbours, bridge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mprun.compile.multipath import group_ways
from mprun.model import plan
from mprun.model.address import Address, InterfaceAddress
from mprun.model.network import Interface, Node, Route
from mprun.model.plan import Command, sysctl
from mprun.model.spec import HostSpec

# These are set before interfaces exist, so that new interfaces have them. IPv6 is off if no interface has an IPv6
# address. Otherwise, router solicitations would be in every capture.
IPV6_OFF = (("net.ipv6.conf.all.disable_ipv6", "1"),)
# Interfaces get only the given addresses, and no link-local address (addr_gen_mode 1). So the kernel sends no packets
# to obtain or defend an address. Only the MLDv2 reports of each address (RFC 3810) cannot be switched off. They are
# sent without delay, so they are over before a capture starts.
IPV6_ON = (
    ("net.ipv6.conf.all.disable_ipv6", "0"),
    ("net.ipv6.conf.default.accept_ra", "0"),
    ("net.ipv6.conf.default.router_solicitations", "0"),
    ("net.ipv6.conf.default.addr_gen_mode", "1"),
    ("net.ipv6.conf.default.mldv2_unsolicited_report_interval", "0"),
)
COMMON_SYSCTLS = (
    ("net.ipv4.conf.all.rp_filter", "0"),
    ("net.ipv4.conf.default.rp_filter", "0"),
    ("net.ipv4.tcp_no_metrics_save", "1"),
)
ROUTER_SYSCTLS = (("net.ipv4.ip_forward", "1"), ("net.ipv4.conf.all.send_redirects", "0"))
IPV6_ROUTER_SYSCTLS = (("net.ipv6.conf.all.forwarding", "1"),)
FAR_SYSCTLS = (("net.ipv4.ip_default_ttl", "255"),)
IPV6_FAR_SYSCTLS = (("net.ipv6.conf.default.hop_limit", "255"),)
BRIDGE = "br0"


def namespace_commands(node: plan.PlannedNode, has_ipv6: bool, is_far: bool) -> Iterator[Command]:
    """Return the commands that a namespace needs before its links exist.

    is_far: some paths have more routers than a packet with the default time to live passes.
    """
    sysctls = (IPV6_ON if has_ipv6 else IPV6_OFF) + COMMON_SYSCTLS
    if node.kind == "router":
        sysctls += ROUTER_SYSCTLS + (IPV6_ROUTER_SYSCTLS if has_ipv6 else ())
    for name, value in sysctls:
        yield sysctl(node.name, name, value)
    yield _ip(node.name, "link set lo up")
    if node.kind == "switch":
        yield _ip(node.name, f"link add {BRIDGE} type bridge")
        yield _ip(node.name, f"link set {BRIDGE} up")
    if node.kind == "host" and is_far:
        for name, value in FAR_SYSCTLS + (IPV6_FAR_SYSCTLS if has_ipv6 else ()):
            yield sysctl(node.name, name, value)


def congestion_of(settings: HostSpec | None, node: Node) -> Mapping[str, str]:
    """Return the congestion control of each interface of a host that has one of its own."""
    asked = dict(settings.congestion) if settings else {}
    return {interface.name: asked[interface.link] for interface in node.interfaces if interface.link in asked}


def address_commands(node: Node, congestion: Mapping[str, str], returned: Interface | None = None) -> Iterator[Command]:
    """Return the commands that a namespace needs once its links exist. congestion: by interface.

    returned: an interface that gets its addresses back, with their neighbours and routes. The others have theirs.
    """
    interfaces, verb = ((returned,), "replace") if returned else (node.interfaces, "add")
    names = {interface.name for interface in interfaces}
    for interface in interfaces:
        yield from _add_addresses(interface)
        if not interface.addresses:
            yield _ip(node.name, f"link set {interface.name} master {BRIDGE}")
    for neighbour in node.neighbours:
        if neighbour.interface in names:
            words = f"lladdr {neighbour.mac} dev {neighbour.interface} nud permanent"
            yield _ip(node.name, f"{_option(neighbour.address)}neighbour {verb} {neighbour.address} {words}")
    for rule in node.rules if returned is None else ():
        yield _ip(node.name, f"{_option(rule.source)}rule add from {rule.source} table {rule.table}")
    for ways in group_ways(route for route in node.routes if route.interface in names):
        yield _ip(node.name, _route_words(verb, *ways) + _congestion(ways[0], congestion))


def loss_commands(node: Node, interface: Interface) -> Iterator[Command]:
    """Return the commands that remove an interface's addresses.

    The kernel removes IPv4 routes together with the address. IPv6 routes would stay, so they are removed first.
    """
    for route in node.routes:
        if route.interface == interface.name and route.family == "ipv6":
            yield _ip(node.name, _route_words("delete", route))
    for address in interface.addresses:
        yield _ip(node.name, f"{_option(address)}address delete {address} dev {interface.name}")


def _add_addresses(interface: Interface) -> Iterator[Command]:
    """Yield the commands that add an interface's addresses.

    IPv6 addresses are added with `nodad`, because duplicate address detection would delay them by a second. No other
    node has the address.
    """
    for address in interface.addresses:
        words = f"{_option(address)}address add {address} dev {interface.name}"
        yield _ip(interface.node, words if address.version == 4 else f"{words} nodad")


def _option(address: Address | InterfaceAddress) -> str:
    """Return the option of ip(8) that selects the address family; empty for IPv4."""
    return "-6 " if address.version == 6 else ""


def _route_words(verb: str, route: Route, *others: Route) -> str:
    """Return the words of ip-route(8) for a route. others: further ways to the same destination."""
    words = "-6 " if route.family == "ipv6" else ""
    words += f"route {verb} {route.destination or 'default'}"
    for way in (route, *others):
        if others:
            words += " nexthop"
        if way.gateway:
            words += f" via {way.gateway}"
        words += f" dev {way.interface}"
    if route.table is not None:
        words += f" table {route.table}"
    return words


def _congestion(route: Route, congestion: Mapping[str, str]) -> str:
    """Return the words that give the connections of a host's route their congestion control; empty if it has none.

    `lock`: programs and the kernel's MPTCP would otherwise replace it by the congestion control of the connection.
    """
    name = congestion.get(route.interface)
    return f" congctl lock {name}" if name else ""


def _ip(node: str, words: str) -> Command:
    return Command(node, ("ip", *words.split()))
