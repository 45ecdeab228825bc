# SPDX-License-Identifier: Apache-2.0
"""Addresses in the user's files: form and family, double use, subnets of links, and room for IPv6.

The checks work on plain values, as in `cross_check`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from ipaddress import ip_interface

from mprun.inputs.document import Document
from mprun.model.address import InterfaceAddress, Subnet, family_of, mirror_text
from mprun.model.path import number_segments
from mprun.model.problem import ValuePath, render_path
from mprun.model.spec import FAMILIES, IPV6_LEAST_MTU, TITLES, Addressing, Family, LinkSpec, NodeKind, families_of

_EXAMPLES = {"ipv4": "10.0.0.1/24", "ipv6": "fd00:10::1/64"}
# Prefixes with room for two ends: 31 bits by RFC 3021, 127 by RFC 6164.
_LONGEST_PREFIX = {"ipv4": 31, "ipv6": 127}
# RFC 4291 2.5.6: link-local addresses are valid on one link only, and no route leads to them.
_LINK_LOCAL = "is link-local: no route leads there"


def check_mtu(
    values: Mapping[str, object], links: Sequence[LinkSpec], addressing: Addressing, document: Document
) -> None:
    """Record problems of links that carry IPv6 with too small an MTU, at each `mtu`."""
    carrying = [link.mtu for link in links if "ipv6" in families_of(link.addressing or addressing)]
    narrow = {mtu for mtu in carrying if mtu < IPV6_LEAST_MTU}
    for path, entry in walk_mappings(values):
        mtu = entry.get("mtu")
        if isinstance(mtu, int) and mtu in narrow and entry.get("addressing") != "ipv4":
            message = f"IPv6 needs at least {IPV6_LEAST_MTU} bytes (RFC 8200): raise it, or give 'addressing: ipv4'"
            document.refuse((*path, "mtu"), f"{mtu} is too little: {message}")


def walk_mappings(value: object, path: ValuePath = ()) -> Iterator[tuple[ValuePath, Mapping[str, object]]]:
    """Yield every mapping in a value with its path."""
    if isinstance(value, Mapping):
        yield path, value
        for key, inner in value.items():
            yield from walk_mappings(inner, (*path, key))
    elif isinstance(value, list):
        for n, inner in enumerate(value):
            yield from walk_mappings(inner, (*path, n))


def check_addresses(
    links: Sequence[tuple[int, str, str, Mapping[str, object]]],
    addressing: object,
    nodes: Mapping[str, NodeKind],
    document: Document,
) -> None:
    """Record problems of the addresses in the files: form, double use, subnets of links.

    Links that meet in a switch are one segment and have one subnet. Other segments have other subnets.
    """
    if not any(isinstance(link.get("addresses"), list) for *_, link in links):
        return
    segments = number_segments(nodes, [(a, b) for _, a, b, _ in links])
    taken: dict[object, ValuePath] = {}
    subnets: dict[tuple[int, Family], tuple[Subnet, ValuePath]] = {}
    for number, (n, a, b, link) in zip(segments, links, strict=True):
        addresses = link.get("addresses")
        written = link.get("addressing") or addressing
        families = families_of(written) if written in ("ipv4", "ipv6", "both") else FAMILIES[:1]
        if not isinstance(addresses, list) or len(addresses) != 2:
            continue
        for m, (end, texts) in enumerate(zip((a, b), addresses, strict=True)):
            path = ("links", n, "addresses", m)
            for position, interface in _read_end(end, nodes[end], texts, families, path, document):
                if interface.ip in taken:
                    line = _line(document, taken[interface.ip])
                    document.refuse(position, f"address {interface.ip} is taken by {line}: give each end its own")
                taken.setdefault(interface.ip, position)
                segment = (number, family_of(interface))
                network, first = subnets.setdefault(segment, (interface.network, position))
                if network != interface.network:
                    line = _line(document, first)
                    message = f"{interface} is not in subnet {network} of {line}: one link has one subnet"
                    document.refuse(position, message)
    _check_overlaps(list(subnets.values()), document)


def _read_end(
    end: str, kind: NodeKind, value: object, families: Sequence[Family], path: ValuePath, document: Document
) -> Iterator[tuple[ValuePath, InterfaceAddress]]:
    """The valid addresses of one end, with their paths. Problems are recorded for the others."""
    written = [((*path, n), text) for n, text in enumerate(value)] if isinstance(value, list) else [(path, value)]
    first: dict[Family, str] = {}
    for position, text in written:
        found = _read_address(end, kind, text, families, position, document)
        if found is None:
            continue
        family = family_of(found)
        if family in first:
            message = f"is a second {TITLES[family]} address in addition to {first[family]}: give one of each family"
            document.refuse(position, f"{text} {message}")
        else:
            first[family] = str(found)
            yield position, found


def _check_overlaps(subnets: list[tuple[Subnet, ValuePath]], document: Document) -> None:
    widest: tuple[Subnet, ValuePath] | None = None
    for network, path in sorted(subnets, key=lambda s: (s[0].version, int(s[0].network_address), s[0].prefixlen)):
        if widest is not None and network.version == widest[0].version and network.overlaps(widest[0]):
            later, earlier = max((path, widest[1]), key=_order), min((path, widest[1]), key=_order)
            message = f"its subnet overlaps with that of {_line(document, earlier)}: give each link its own"
            document.refuse(later, message)
        if widest is None or (network.version, int(network[-1])) > (widest[0].version, int(widest[0][-1])):
            widest = (network, path)


def _order(path: ValuePath) -> int:
    return int(path[1])


def _read_address(
    end: str, kind: NodeKind, text: object, families: Sequence[Family], path: ValuePath, document: Document
) -> InterfaceAddress | None:
    if kind == "switch":
        if text is not None:
            document.refuse(path, f"'{end}' is a switch and has no address: write null")
        return None
    if text is None:
        document.refuse(path, f"'{end}' is a {kind} and needs one: write an address, or leave 'addresses' out")
        return None
    if not isinstance(text, str):
        return None
    family: Family = "ipv6" if ":" in text else "ipv4"
    title, example, longest = TITLES[family], _EXAMPLES[family], _LONGEST_PREFIX[family]
    try:
        interface = ip_interface(text)
    except ValueError:
        document.refuse(path, f"'{text}' is no {title} address: write one as in '{example}'")
        return None
    network, ip = interface.network, interface.ip
    if family not in families:
        other = TITLES[families[0]]
        instead = (mirror_text(text) if family == "ipv4" else None) or _EXAMPLES[families[0]]
        hint = f"write '{instead}', or 'addressing: both'"
        document.refuse(path, f"'{text}' is an {title} address, and this link has {other} alone: {hint}")
    elif "/" not in text:
        document.refuse(path, f"'{text}' has no prefix length: write '{text}/{example.split('/')[1]}'")
    elif "." in text.split("/")[1] or not 1 <= network.prefixlen <= longest:
        document.refuse(path, f"'{text}' has no room for two ends: write a prefix length from 1 to {longest}")
    elif (which := _role_of(interface)) is not None:
        last = network[-2 if family == "ipv4" else -1]
        document.refuse(path, f"{text} is {which}: take one between {network[1]} and {last}")
    elif family == "ipv6" and ip.is_link_local:
        document.refuse(path, f"{text} {_LINK_LOCAL}: take one as in '{example}'")
    elif ip.is_loopback or ip.is_multicast or ip.is_unspecified or ip.is_reserved:
        document.refuse(path, f"{text} is not an address of one host: take one as in '{example}'")
    else:
        return interface
    return None


def _role_of(interface: InterfaceAddress) -> str | None:
    """The role of an address that is no host's address. Only IPv4 has broadcast addresses."""
    network = interface.network
    if network.prefixlen >= _LONGEST_PREFIX[family_of(interface)]:
        return None
    if interface.ip == network.network_address:
        return "the subnet itself" if interface.version == 4 else "the subnet's anycast address of routers (RFC 4291)"
    is_last = interface.version == 4 and interface.ip == network.broadcast_address
    return "the broadcast address" if is_last else None


def _line(document: Document, path: ValuePath) -> str:
    """Return a path with its line: `links[0].addresses[1] on line 7`."""
    return f"{render_path(path)} on line {document.position(path)[1]}"
