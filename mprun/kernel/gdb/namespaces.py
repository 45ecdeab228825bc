# SPDX-License-Identifier: Apache-2.0
"""The network namespaces of the kernel, with the names that the run's files give them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import gdb

from mprun.kernel.gdb.structure import address_of, entries, text, variable
from mprun.model.frozen import Frozen

IFF_UP = 1


class Device(Frozen):
    """A network interface of a namespace. addresses: with prefix lengths."""

    name: str
    index: int
    is_up: bool
    addresses: tuple[str, ...]


class Namespace(Frozen):
    """A network namespace: its address (struct net), the name of its node, and its interfaces."""

    address: int
    name: str
    devices: tuple[Device, ...]


def list_namespaces(nodes: Mapping[str, str]) -> list[Namespace]:
    """Return the namespaces of the kernel. nodes: the node of each interface, by the interface's name.

    A namespace without any interface of a node has the name `-`: those in which mprun itself runs, and the inner
    nodes of links.
    """
    found = []
    for net in entries(variable("net_namespace_list"), "net", "list"):
        devices = tuple(map(_read_device, entries(net["dev_base_head"], "net_device", "dev_list")))
        names = [nodes[device.name] for device in devices if device.name in nodes]
        found.append(Namespace(int(net), names[0] if names else "-", devices))
    return found


def _read_device(device: gdb.Value) -> Device:
    return Device(
        name=text(device["name"]),
        index=int(device["ifindex"]),
        is_up=bool(int(device["flags"]) & IFF_UP),
        addresses=(*_ipv4_addresses(device["ip_ptr"]), *_ipv6_addresses(device["ip6_ptr"])),
    )


def _ipv4_addresses(holder: gdb.Value) -> Iterator[str]:
    if int(holder) == 0:
        return
    one = holder["ifa_list"]
    while int(one):
        yield f"{address_of(one['ifa_local'])}/{int(one['ifa_prefixlen'])}"
        one = one["ifa_next"]


def _ipv6_addresses(holder: gdb.Value) -> Iterator[str]:
    if int(holder):
        for one in entries(holder["addr_list"], "inet6_ifaddr", "if_list"):
            yield f"{address_of(one['addr'])}/{int(one['prefix_len'])}"
