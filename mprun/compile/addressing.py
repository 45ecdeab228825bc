# SPDX-License-Identifier: Apache-2.0
"""A node's namespace as commands: sysctls, addresses, rules, routes, neighbours, bridge."""

from __future__ import annotations

from collections.abc import Iterator

from mprun import plan
from mprun.compile.network import Node, Route
from mprun.plan import Command

# Before interfaces exist, so that they are born with them. IPv6 is off until a topology asks for
# it: its router solicitations would stand in every capture.
COMMON_SYSCTLS = (
    ("net.ipv6.conf.all.disable_ipv6", "1"),
    ("net.ipv4.conf.all.rp_filter", "0"),
    ("net.ipv4.conf.default.rp_filter", "0"),
    ("net.ipv4.tcp_no_metrics_save", "1"),
)
ROUTER_SYSCTLS = (("net.ipv4.ip_forward", "1"), ("net.ipv4.conf.all.send_redirects", "0"))
BRIDGE = "br0"


def namespace_commands(node: plan.Node) -> Iterator[Command]:
    """What a namespace needs before its links exist."""
    sysctls = COMMON_SYSCTLS + (ROUTER_SYSCTLS if node.kind == "router" else ())
    for name, value in sysctls:
        yield sysctl(node.name, name, value)
    yield _ip(node.name, "link set lo up")
    if node.kind == "switch":
        yield _ip(node.name, f"link add {BRIDGE} type bridge")
        yield _ip(node.name, f"link set {BRIDGE} up")


def address_commands(node: Node) -> Iterator[Command]:
    """What a namespace needs once its links exist."""
    for interface in node.interfaces:
        if interface.address:
            yield _ip(node.name, f"address add {interface.address} dev {interface.name}")
        else:
            yield _ip(node.name, f"link set {interface.name} master {BRIDGE}")
    for neighbour in node.neighbours:
        yield _ip(
            node.name,
            f"neighbour add {neighbour.address} lladdr {neighbour.mac} dev {neighbour.interface} nud permanent",
        )
    for rule in node.rules:
        yield _ip(node.name, f"rule add from {rule.source} table {rule.table}")
    for route in node.routes:
        yield _ip(node.name, _route_words(route))


def _route_words(route: Route) -> str:
    words = f"route add {route.destination or 'default'}"
    if route.gateway:
        words += f" via {route.gateway}"
    words += f" dev {route.interface}"
    if route.table is not None:
        words += f" table {route.table}"
    return words


def sysctl(node: str, name: str, value: str) -> Command:
    """A sysctl of the node's namespace."""
    return Command(node, ("sysctl", "-w", f"{name}={value}"))


def _ip(node: str, words: str) -> Command:
    return Command(node, ("ip", *words.split()))
