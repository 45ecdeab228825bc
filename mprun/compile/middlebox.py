# SPDX-License-Identifier: Apache-2.0
"""Commands for middleboxes: nft(8) rules, one table for each behaviour, and a relay for each proxy.

Each rule that changes or drops packets has a counter with a unique name `TABLE.COUNTER`. So a run can report what each
middlebox did. This module also finds the effect of middleboxes on a path, such as the source address behind a NAT. A
rebinding has rules too, which come while the network runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, pairwise

from mprun.model import engine_paths
from mprun.model.address import Address, free_addresses
from mprun.model.frozen import Frozen
from mprun.model.network import Interface, Network, Node, Path, walk
from mprun.model.plan import Command, Process, Ready
from mprun.model.spec import (
    AlteredOption,
    Firewall,
    Middlebox,
    Nat,
    Proxy,
    Rebinding,
    SequenceRewriter,
    StrippedOption,
)

# Above the ports of iperf3 servers, and below the ports of clients.
RELAY_PORT = 3129
RELAY = f"{engine_paths.PROGRAMS}/relay.py"

# Subtypes of the option (RFC 8684 8.1), for which nft 1.0.6 has no words. nft finds only the first MPTCP option of a
# segment. Linux sends these subtypes alone or first.
_SUBTYPES: Mapping[StrippedOption, int] = {"mp_capable": 0, "mp_join": 1, "dss": 2, "add_addr": 3}
# Bits 32 to 63 of the option: half of MP_CAPABLE's key, a join's token, ADD_ADDR's address (RFC 8684 3.1, 3.2, 3.4.1).
# They are replaced with 192.0.2.1, an address for documentation (RFC 5737). nft 1.0.6 can set such bits only to
# constants.
_CONTENT = "tcp option @30,32,32"
_OTHER = "0xc0000201"
# Half of the sequence space (RFC 9293 3.4). Adding it toggles one bit, which nft can compute. Adding it twice changes
# nothing, so one rule works in both directions.
_HALF = "0x80000000"
# The number of SACK blocks that fit into the options (RFC 2018 3).
_SACK_BLOCKS = 4

_FILTER = "type filter hook forward priority filter;"


def middlebox_commands(node: Node, box: Middlebox) -> Iterator[Command]:
    """Yield the nft commands of a middlebox in order."""
    rules = (
        *(_strip(box.strip) if box.strip else ()),
        *(_alter(box.alter) if box.alter else ()),
        *(_rewrite_sequence(box.rewrite_sequence) if box.rewrite_sequence else ()),
        *(_firewall(node, box.firewall) if box.firewall else ()),
        *(_nat(node, box.nat) if box.nat else ()),
        *(_proxy(box.proxy) if box.proxy else ()),
    )
    for words in rules:
        yield Command(node.name, ("nft", "add", *words))


def _table(table: str, chain: str, hook: str, *counters: str) -> Iterator[tuple[str, ...]]:
    yield "table", "inet", table
    for counter in counters:
        yield "counter", "inet", table, counter
    yield "chain", "inet", table, chain, f"{{ {hook} }}"


def _rule(table: str, chain: str, words: str) -> tuple[str, ...]:
    return "rule", "inet", table, chain, words


def _strip(options: Sequence[StrippedOption]) -> Iterator[tuple[str, ...]]:
    """Yield rules that overwrite an option with NOPs (RFC 9293 3.1). The segment itself passes."""
    yield from _table("strip", "forward", _FILTER, *options)
    for option in options:
        match = "exists" if option == "mptcp" else f"subtype {_SUBTYPES[option]}"
        words = f"tcp option mptcp {match} counter name {option} reset tcp option mptcp"
        yield _rule("strip", "forward", words)


def _alter(options: Sequence[AlteredOption]) -> Iterator[tuple[str, ...]]:
    """Yield rules that change the content of an option. In a SYN, MP_CAPABLE has no content (RFC 8684 3.1)."""
    yield from _table("alter", "forward", _FILTER, *options)
    for option in options:
        match = f"tcp option mptcp subtype {_SUBTYPES[option]} tcp option mptcp length > 4"
        yield _rule("alter", "forward", f"{match} counter name {option} {_CONTENT} set {_OTHER}")


def _rewrite_sequence(rewriter: SequenceRewriter) -> Iterator[tuple[str, ...]]:
    yield from _table("sequence", "forward", _FILTER, "rewritten")
    fields = ["tcp sequence", "tcp ackseq"]
    if rewriter.sack:
        fields += [f"tcp option sack{n} {edge}" for n in range(_SACK_BLOCKS) for edge in ("left", "right")]
    yield _rule("sequence", "forward", "meta l4proto tcp counter name rewritten")
    for field in fields:
        condition = "tcp flags & ack == ack " if field == "tcp ackseq" else ""
        yield _rule("sequence", "forward", f"{condition}{field} set {field} ^ {_HALF}")


def _firewall(node: Node, firewall: Firewall) -> Iterator[tuple[str, ...]]:
    """Yield rules that refuse packets from outside, except for connections opened from inside.

    ICMP errors about such connections pass too.
    """
    yield from _table("firewall", "forward", _FILTER, "refused")
    inside = _names(node, firewall.inside)
    condition = f"iifname != {inside} oifname {inside} ct state {{ new, invalid }} counter name refused"
    if firewall.refuse == "drop":
        yield _rule("firewall", "forward", f"{condition} drop")
    else:
        yield _rule("firewall", "forward", f"meta l4proto tcp {condition} reject with tcp reset")
        yield _rule("firewall", "forward", f"{condition} reject with icmpx admin-prohibited")


def _nat(node: Node, nat: Nat) -> Iterator[tuple[str, ...]]:
    """Yield rules that translate source addresses, and drop unsolicited packets from outside.

    On the Internet such packets would be lost too, since inside addresses are not routed there.
    """
    inside = _names(node, nat.inside)
    yield from _table("nat", "postrouting", "type nat hook postrouting priority srcnat;", "translated", "unsolicited")
    words = f"iifname {inside} oifname != {inside} counter name translated masquerade"
    yield _rule("nat", "postrouting", words)
    yield "chain", "inet", "nat", "forward", f"{{ {_FILTER} }}"
    words = f"iifname != {inside} oifname {inside} ct state {{ new, invalid }} counter name unsolicited drop"
    yield _rule("nat", "forward", words)


def _proxy(proxy: Proxy) -> Iterator[tuple[str, ...]]:
    """Yield rules that redirect connections to the relay on the box.

    The relay learns the original destination with SO_ORIGINAL_DST.
    """
    yield from _table("proxy", "prerouting", "type nat hook prerouting priority dstnat;", "intercepted")
    ports = ", ".join(map(str, proxy.ports))
    match = f"tcp dport {{ {ports} }}" if ports else "meta l4proto tcp"
    yield _rule("proxy", "prerouting", f"{match} counter name intercepted redirect to :{RELAY_PORT}")


def rebinding_commands(network: Network, rebindings: Sequence[Rebinding]) -> Iterator[Command]:
    """Yield the commands of the last of these rebindings of one address. They replace the rules of the earlier ones.

    The packets change before connection tracking and NAT of the router. Answers change after them, also answers of a
    relay on the router.
    """
    host, link = rebindings[-1].host, rebindings[-1].link
    (way,) = walk(network.links, host, [link])
    own, other = way.sender, way.receiver
    table = f"rebind-{other.name}"
    if len(rebindings) > 1:
        yield Command(other.node, ("nft", "delete", "table", "inet", table))
    ports, addresses = (sum(one.rebound == what for one in rebindings) for what in ("port", "address"))
    rules = [
        *_table(table, "from_host", "type filter hook prerouting priority raw;"),
        ("chain", "inet", table, "to_host", "{ type filter hook postrouting priority srcnat + 1; }"),
    ]
    taken = {one.ip for one in (*own.addresses, *other.addresses)}
    for address in own.addresses:
        seen = [address.ip, *islice(free_addresses(address.network, taken), addresses)]
        rules += _rebind(table, other.name, [str(one) for one in seen], ports)
    for words in rules:
        yield Command(other.node, ("nft", "add", *words))


def _rebind(table: str, interface: str, addresses: Sequence[str], ports: int) -> Iterator[tuple[str, ...]]:
    """Yield the rules of an address.

    addresses: the host's own address, then the address after each rebinding.
    ports: the number of rebindings of the port. XOR with this number gives the new port, and XOR of the new port gives
        the old one.
    """
    own, now = addresses[0], addresses[-1]
    ip = "ip6" if ":" in own else "ip"
    if now != own:
        yield _rule(table, "to_host", f"oifname {interface} {ip} daddr {{ {', '.join(addresses[:-1])} }} drop")
    for protocol in ("udp", "tcp") if ports else ():
        source, answer = (f"{protocol} {side} set {protocol} {side} ^ {ports}" for side in ("sport", "dport"))
        yield _rule(table, "from_host", f"iifname {interface} {ip} saddr {own} {source}")
        yield _rule(table, "to_host", f"oifname {interface} {ip} daddr {now} {answer}")
    if now != own:
        yield _rule(table, "from_host", f"iifname {interface} {ip} saddr {own} {ip} saddr set {now}")
        yield _rule(table, "to_host", f"oifname {interface} {ip} daddr {now} {ip} daddr set {own}")


def _names(node: Node, links: Sequence[str]) -> str:
    """Return the node's interfaces on these links, as a name or a set in nft's syntax."""
    names = [interface.name for interface in node.interfaces if interface.link in links]
    return names[0] if len(names) == 1 else f"{{ {', '.join(names)} }}"


def relays(boxes: Mapping[str, Middlebox]) -> Iterator[Process]:
    """Yield the relay program of each proxy."""
    for name, box in boxes.items():
        if box.proxy:
            yield Process(
                name=f"proxy.{name}",
                node=name,
                argv=("python3", "-I", "-S", "-B", RELAY, str(RELAY_PORT)),
                role="server",
                ready=Ready("port", str(RELAY_PORT)),
            )


def speakers(boxes: Mapping[str, Middlebox]) -> frozenset[str]:
    """Return the routers that send from their own addresses, so that other nodes need routes to them."""
    return frozenset(name for name, box in boxes.items() if box.nat or box.proxy)


class MiddleboxCrossing(Frozen):
    """A middlebox on a path, with the interfaces through which a packet arrives and departs."""

    name: str
    box: Middlebox
    arrival: Interface
    departure: Interface


def crossings(network: Network, boxes: Mapping[str, Middlebox], path: Path) -> Iterator[MiddleboxCrossing]:
    """Yield the middleboxes that a packet from the path's source meets, in order.

    If the path has several ways, only the middleboxes of the first way are found.
    """
    for before, after in pairwise(walk(network.links, path.source.node, path.links)) if boxes else ():
        name = before.receiver.node
        if name == path.destination.node:
            return
        if name in boxes:
            yield MiddleboxCrossing(name, boxes[name], before.receiver, after.sender)


def is_closed(network: Network, boxes: Mapping[str, Middlebox], path: Path) -> bool:
    """Return whether a NAT or a firewall refuses connections that are opened on this path."""
    return any(
        guard is not None and crossing.arrival.link not in guard.inside and crossing.departure.link in guard.inside
        for crossing in crossings(network, boxes, path)
        for guard in (crossing.box.nat, crossing.box.firewall)
    )


def source_seen(network: Network, boxes: Mapping[str, Middlebox], path: Path) -> Address | None:
    """Return the source address that the destination sees if a NAT translates it; None without translation."""
    seen = None
    for crossing in crossings(network, boxes, path):
        nat = crossing.box.nat
        leaves = nat is not None and crossing.arrival.link in nat.inside and crossing.departure.link not in nat.inside
        address = crossing.departure.address(path.family)
        if leaves and address is not None:
            seen = address.ip
    return seen
