# SPDX-License-Identifier: Apache-2.0
"""Addresses of interfaces: the addresses that the user gave, and the next free addresses for all other interfaces.

Each segment has an IPv4 subnet, even if its links do not use IPv4. The IPv6 subnet has the same digits
(`mprun.model.address`). So the addresses do not depend on the address families of a topology.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_interface
from itertools import chain

from mprun.errors import SpecError
from mprun.model.address import (
    POOL,
    SUBNET_BITS,
    Address,
    InterfaceAddress,
    Subnet,
    family_of,
    mirror_subnet,
    number_host,
)
from mprun.model.spec import FAMILIES, Family, LinkSpec, TopologySpec


class Numbering:
    """The assignment of a topology's addresses, interface by interface."""

    def __init__(self, topology: TopologySpec, segments: Sequence[int]) -> None:
        self._topology = topology
        self._given: dict[tuple[str, int], tuple[InterfaceAddress, ...]] = {
            (link.name, side): tuple(map(ip_interface, link.addresses[side]))
            for link in topology.links
            for side in (0, 1)
        }
        self._used: set[Address] = {address.ip for addresses in self._given.values() for address in addresses}
        self._subnets = _find_subnets(topology, segments, self._given)
        self._hosts = {key: _hosts_of(subnet) for key, subnet in self._subnets.items()}

    def addresses(self, link: LinkSpec, side: int, segment: int) -> tuple[InterfaceAddress, ...]:
        """Return the addresses of one end of a link; none on a switch. Raises SpecError if a subnet is full."""
        if self._topology.nodes[link.ends[side]] == "switch":
            return ()
        given = {family_of(address): address for address in self._given[link.name, side]}
        found: list[InterfaceAddress] = []
        for family in self._topology.families_of(link):
            found.append(given.get(family) or self._next(link, family, segment, found))
        return tuple(found)

    def _next(
        self, link: LinkSpec, family: Family, segment: int, beside: Sequence[InterfaceAddress]
    ) -> InterfaceAddress:
        """Return the IPv6 counterpart of the interface's IPv4 address if it is free, else the next free address.

        beside: the addresses that the interface already has.
        """
        subnet = self._subnets[segment, family]
        likely = [
            number_host(subnet, int(address.ip) & 0xFF)
            for address in beside
            if isinstance(subnet, IPv6Network) and subnet == mirror_subnet(address.network)
        ]
        free = next((ip for ip in chain(likely, self._hosts[segment, family]) if ip not in self._used), None)
        if free is None:
            raise SpecError(f"link '{link.name}': more addresses than {subnet} holds")
        self._used.add(free)
        return ip_interface(f"{free}/{subnet.prefixlen}")


def _find_subnets(
    topology: TopologySpec, segments: Sequence[int], given: Mapping[tuple[str, int], tuple[InterfaceAddress, ...]]
) -> dict[tuple[int, Family], Subnet]:
    """Return the subnet of each segment and address family.

    It is the subnet of a given address on the segment. Otherwise, an IPv6 subnet is the counterpart of the IPv4 subnet.
    In all other cases, it is the next free subnet 10.x.y.0/24, or its IPv6 counterpart.
    """
    subnets: dict[tuple[int, Family], Subnet] = {}
    for link, segment in zip(topology.links, segments, strict=True):
        for address in (*given[link.name, 0], *given[link.name, 1]):
            subnets.setdefault((segment, family_of(address)), address.network)
    for family in FAMILIES:
        fixed = [subnet for (_, of), subnet in subnets.items() if of == family]
        taken: set[Subnet] = set()
        free = (subnet for subnet in _pool(family) if subnet not in taken and not _overlaps(subnet, fixed))
        for segment in dict.fromkeys(segments):
            if (segment, family) in subnets:
                continue
            chosen: Subnet | None = mirror_subnet(subnets[segment, "ipv4"]) if family == "ipv6" else None
            if chosen is None or chosen in taken or _overlaps(chosen, fixed):
                chosen = next(free)
            taken.add(chosen)
            subnets[segment, family] = chosen
    return subnets


def _pool(family: Family) -> Iterator[Subnet]:
    subnets = POOL.subnets(new_prefix=SUBNET_BITS)
    return subnets if family == "ipv4" else filter(None, map(mirror_subnet, subnets))


def _overlaps(subnet: Subnet, others: Sequence[Subnet]) -> bool:
    return any(subnet.overlaps(other) for other in others)


def _hosts_of(subnet: Subnet) -> Iterator[Address]:
    """Yield the addresses of a subnet for hosts, in the order in which they are assigned."""
    if isinstance(subnet, IPv4Network):
        yield from subnet.hosts()
        return
    room = int(subnet[-1]) - int(subnet[0])
    number = 1
    while (host := number_host(subnet, number)) in subnet and number <= room:
        yield host
        number += 1
