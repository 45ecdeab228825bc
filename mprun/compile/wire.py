# SPDX-License-Identifier: Apache-2.0
"""Links as commands: a veth pair where ends are joined directly, a wire where packets are shaped.

A wire is two veth pairs, one to each end, whose inner ports lie in the hidden namespace `_wires`.
What enters one port is redirected to the other, and that port's root qdisc is the impairment of
this direction: netem holds delay and loss, its child the rate, whose child the queue, so delay
comes first and the queue holds exactly what was asked. Nothing is shaped on a sending host, where
TCP Small Queues would make it see its own queue (tc-netem(8), LIMITATIONS). All wires share one
namespace, because a namespace each would cost more than the wire; packets never pass from one wire
to another.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from mprun.compile.network import FRAME_BYTES, Impairment, Interface, Link
from mprun.plan import ROOT, Command

# No name of a user begins so.
WIRES = "_wires"
# The delay line only delays: more packets than any rate x delay that the models allow can put in it.
DELAY_LINE_PACKETS = 10_000_000


def ports(wire: int) -> tuple[str, str]:
    """Names of a wire's two inner ports: towards the link's first end and its second."""
    return f"w{wire}a", f"w{wire}b"


def link_commands(link: Link) -> Iterator[Command]:
    """What creates a link, offloads off: one packet on the wire is one packet in a capture."""
    a, b = link.ends
    if link.wire is None:
        yield _veth(a.node, a.name, a.mac, b.node, b.name, b.mac)
    else:
        for end, port in zip(link.ends, ports(link.wire), strict=True):
            yield _veth(end.node, end.name, end.mac, WIRES, port, _port_mac(end))
    for node, name in _devices(link):
        yield Command(node, ("ethtool", "-K", name, "tso", "off", "gso", "off", "gro", "off"))


def start_commands(link: Link) -> Iterator[Command]:
    """What brings a link's interfaces up."""
    for node, name in _devices(link):
        yield Command(node, ("ip", "link", "set", name, "up"))


def _devices(link: Link) -> list[tuple[str, str]]:
    """(node, interface) of both ends, and of the ports between them."""
    devices = [(end.node, end.name) for end in link.ends]
    if link.wire is not None:
        devices += [(WIRES, port) for port in ports(link.wire)]
    return devices


def _veth(node: str, name: str, mac: str, peer_node: str, peer: str, peer_mac: str) -> Command:
    words = f"ip link add {name} address {mac} netns {node} type veth peer name {peer} address {peer_mac}"
    return Command(ROOT, (*words.split(), "netns", peer_node))


def _port_mac(end: Interface) -> str:
    return "02:01" + end.mac[5:]


def shaping_commands(link: Link, timer_slack_ns: int) -> Iterator[Command]:
    """The tc commands of a wire, in the namespace of all wires."""
    if link.wire is None:
        return
    first, second = ports(link.wire)
    for port, other, impairment in ((second, first, link.forward), (first, second, link.reverse)):
        for words in _qdiscs(port, impairment, timer_slack_ns):
            yield Command(WIRES, ("tc", *words))
        yield Command(WIRES, ("tc", "qdisc", "add", "dev", other, "ingress"))
        redirect = f"u32 match u32 0 0 action mirred egress redirect dev {port}"
        yield Command(
            WIRES, ("tc", "filter", "add", "dev", other, "parent", "ffff:", "protocol", "all", *redirect.split())
        )


def _qdiscs(port: str, impairment: Impairment, timer_slack_ns: int) -> Iterator[list[str]]:
    """delay and loss, below them the rate, below that the queue; a stage without effect is left out.

    The burst is one frame where timers are exact: more would let packets past the queue.
    """
    parent = "root"
    if impairment.delay_ns or impairment.loss:
        netem = f"qdisc add dev {port} root handle 1: netem limit {DELAY_LINE_PACKETS}"
        if impairment.delay_ns:
            netem += f" delay {spell_time(impairment.delay_ns)}"
        if impairment.loss:
            netem += f" loss {spell_percent(impairment.loss)}"
        yield netem.split()
        parent = "parent 1:1"
    if impairment.rate_bit_per_s:
        limit = impairment.queue_bytes or (impairment.queue_packets or 0) * FRAME_BYTES
        burst = max(FRAME_BYTES, impairment.rate_bit_per_s * timer_slack_ns // 8_000_000_000)
        tbf = f"tbf rate {spell_rate(impairment.rate_bit_per_s)} burst {burst} limit {limit}"
        yield f"qdisc add dev {port} {parent} handle 10: {tbf}".split()
        if impairment.queue_packets is not None:
            queue = f"pfifo limit {impairment.queue_packets}"
            yield f"qdisc add dev {port} parent 10:1 handle 100: {queue}".split()


def spell_time(ns: int) -> str:
    """A time as tc reads it without loss: `20ms`, `1500us`, `7ns`."""
    for unit, size in (("s", 10**9), ("ms", 10**6), ("us", 10**3)):
        if ns % size == 0:
            return f"{ns // size}{unit}"
    return f"{ns}ns"


def spell_rate(bit_per_s: int) -> str:
    """A rate as tc reads it without loss: `20mbit`, `1500bit`."""
    for unit, size in (("gbit", 10**9), ("mbit", 10**6), ("kbit", 10**3)):
        if bit_per_s % size == 0:
            return f"{bit_per_s // size}{unit}"
    return f"{bit_per_s}bit"


def spell_percent(probability: float) -> str:
    """A probability as tc reads it: `0.5%`."""
    percent = float(Fraction(str(probability)) * 100)
    return f"{percent:.10g}%"
