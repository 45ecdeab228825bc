# SPDX-License-Identifier: Apache-2.0
"""Address families, and the IPv6 addresses that follow the numbers of IPv4 addresses.

10.0.1.10/24 and fd00:10:0:1::10/64 belong to the same interface. Each decimal number is written with the same digits.
As a hexadecimal number it has another value, but it is as unique. fd00::/8 is for private networks (RFC 4193). The 40
bits of its global ID are not random, as these addresses never meet addresses of another network.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network

from mprun.model.spec import Family

Address = IPv4Address | IPv6Address
InterfaceAddress = IPv4Interface | IPv6Interface
Subnet = IPv4Network | IPv6Network

# The networks of derived subnets, and the lengths of the subnets' prefixes.
POOL = IPv4Network("10.0.0.0/8")
SUBNET_BITS = 24


def family_of(address: Address | InterfaceAddress | Subnet) -> Family:
    return "ipv4" if address.version == 4 else "ipv6"


def mirror_subnet(network: Subnet) -> IPv6Network | None:
    """The IPv6 subnet with the digits of an IPv4 one of 24 bits. None for any other subnet."""
    if network.version == 6 or network.prefixlen != SUBNET_BITS:
        return None
    a, b, c, _ = str(network.network_address).split(".")
    return IPv6Network(f"fd00:{a}:{b}:{c}::/64")


def mirror_text(text: str) -> str | None:
    """The IPv6 counterpart of an address in text form. None if it has none."""
    with suppress(ValueError):
        interface = IPv4Interface(text)
        if network := mirror_subnet(interface.network):
            return f"{number_host(network, int(interface.ip) & 0xFF)}/{network.prefixlen}"
    return None


def number_host(network: IPv6Network, number: int) -> IPv6Address:
    """The address in a subnet whose last digits are the digits of a decimal number."""
    return IPv6Address(int(network.network_address) + int(str(number), 16))


def free_addresses(subnet: Subnet, taken: Collection[Address]) -> Iterator[Address]:
    """Yield the addresses of a subnet that are not taken, the highest first, without the subnet's first and last."""
    return (subnet[-n] for n in range(2, subnet.num_addresses) if subnet[-n] not in taken)
