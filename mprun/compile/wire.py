# SPDX-License-Identifier: Apache-2.0
"""Commands for links: a veth pair if the ends are joined directly, a wire if packets are shaped.

A wire is two veth pairs, one to each end, whose inner ports are in the hidden namespace `_wires`. All wires share this
namespace, because a namespace for each wire would take longer to make than the wire. Packets never pass from one wire
to another.

Packets that enter one port are redirected to the other. The root qdisc of that port is the impairment of this
direction. netem is the stage of delay and loss, its child is the rate, and the child of the rate is the queue. So
delay comes first, and the queue has exactly the size that was asked for.

A packet counts as queued by its socket until the delay stage takes it. In the experiment kernel, the rate stage also
ends this. In real time, the sender on a link with a rate and no delay therefore notices the link's queue (TCP Small
Queues; tc-netem(8), LIMITATIONS).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import astuple, replace
from typing import Any

from mprun.model.discipline import DISCIPLINES, OptionKind
from mprun.model.network import Link
from mprun.model.plan import ROOT, Command
from mprun.model.spec import DEFAULT_MTU, Chance, Direction, FourState, GilbertElliott, Jitter, LinkChange, Queue
from mprun.model.units import MOST_QUEUE_BYTES, RATE, TIME, render_ratio

# Names of users never begin with an underscore.
WIRES = "_wires"
# The delay stage must never drop packets: this is more than any rate x delay that the models allow.
DELAY_LINE_PACKETS = 10_000_000
# The time by which a packet of a varied wire is early or late, as a share of a full frame's time at the link's rate.
WANDER = 0.05
# A rate that delays no packet by more than 15 ns. With any rate, netem keeps packets in order.
IN_ORDER = "1000gbit"
# The texts of a discipline's options for tc, in the order of their kinds.
_SPELLED: Mapping[OptionKind, Callable[[Any], str]] = {"ns": lambda ns: TIME.render(ns, "tc"), "count": str}
# Offloads that combine several packets into one, as ethtool(8) names them. `gso` does not include SCTP and UDP.
OFFLOADS = ("tso", "gso", "gro", "tx-sctp-segmentation", "tx-udp-segmentation")


def link_commands(link: Link) -> Iterator[Command]:
    """Return the commands that create a link without offloads: one packet on the wire is one packet in a capture."""
    a, b = link.ends
    if link.wire is None:
        yield _veth(a.node, a.name, a.mac, b.node, b.name, b.mac)
    else:
        for end, port in zip(link.ends, link.ports, strict=True):
            yield _veth(end.node, end.name, end.mac, WIRES, port, f"02:01{end.mac[5:]}")
    if link.mtu != DEFAULT_MTU:
        for node, name in _devices(link):
            yield Command(node, ("ip", "link", "set", name, "mtu", str(link.mtu)))
    # a wire's ports need no such setting, because their packets have passed an end without offloads
    for node, name in _ends(link):
        yield Command(node, ("ethtool", "-K", name, *(word for offload in OFFLOADS for word in (offload, "off"))))


def start_commands(link: Link) -> Iterator[Command]:
    """Return the commands that bring a link's interfaces up."""
    for node, name in _devices(link):
        yield Command(node, ("ip", "link", "set", name, "up"))


def _ends(link: Link) -> list[tuple[str, str]]:
    """Return (node, interface) of both ends."""
    return [(end.node, end.name) for end in link.ends]


def _devices(link: Link) -> list[tuple[str, str]]:
    """Return (node, interface) of both ends and of the wire's ports between them."""
    devices = _ends(link)
    if link.wire is not None:
        devices += [(WIRES, port) for port in link.ports]
    return devices


def _veth(node: str, name: str, mac: str, peer_node: str, peer: str, peer_mac: str) -> Command:
    """Return the command for a veth pair with one queue in each direction.

    By default, it has a queue for each processor. These take time to make, and mprun's qdiscs do not use them.
    """
    one = "numtxqueues 1 numrxqueues 1"
    first = f"{name} address {mac} netns {node} {one}"
    second = f"{peer} address {peer_mac} netns {peer_node} {one}"
    return Command(ROOT, tuple(f"ip link add {first} type veth peer name {second}".split()))


def shaping_commands(link: Link, timer_slack_ns: int, is_changing: bool, is_varied: bool = False) -> Iterator[Command]:
    """Yield the tc commands of a wire, in the namespace of all wires.

    A link that changes has the stage of delay and loss from the start, because adding or removing a stage would lose
    the packets in it. is_varied: each packet is a little early or late (`WANDER`).
    """
    if link.wire is None:
        return
    first, second = link.ports
    for port, other, direction in ((second, first, link.forward), (first, second, link.reverse)):
        for words in _qdiscs(port, direction, link.frame_bytes, timer_slack_ns, is_changing, is_varied):
            yield Command(WIRES, ("tc", "qdisc", "add", *words))
        yield Command(WIRES, ("tc", "qdisc", "add", "dev", other, "ingress"))
        redirect = "parent ffff: protocol all u32 match u32 0 0 action mirred egress redirect dev"
        yield Command(WIRES, ("tc", "filter", "add", "dev", other, *redirect.split(), port))


def change_commands(
    link: Link, before: LinkChange, after: LinkChange, timer_slack_ns: int, is_varied: bool
) -> Iterator[Command]:
    """Return the commands that change a link's wire. Nothing in flight is lost unless the link goes down."""
    assert link.wire is not None
    first, second = link.ports
    if before.is_up != after.is_up:
        for port in (first, second):
            yield Command(WIRES, ("ip", "link", "set", port, "up" if after.is_up else "down"))
    for port, old, new in ((second, before.forward, after.forward), (first, before.reverse, after.reverse)):
        common = (link.frame_bytes, timer_slack_ns, True, is_varied)
        was, becomes = (list(_qdiscs(port, way, *common)) for way in (old, _name_defaults(old, new)))
        for n, (one, other) in enumerate(zip(was, becomes, strict=True)):
            # a change of tbf sets its own limit in a fifo below it too
            if one != other or (n == 2 and {"pfifo", "bfifo"} & {*other} and was[1] != becomes[1]):
                yield Command(WIRES, ("tc", "qdisc", "change", *other))


def _name_defaults(before: Direction, after: Direction) -> Direction:
    """Return a direction with the defaults of the options that only its queue before a change has."""
    if before.queue is None or after.queue is None:
        return after
    known = DISCIPLINES[after.queue.discipline].options
    ended = {name: known[name].default for name in before.queue.options.keys() - after.queue.options.keys()}
    given = {name: value for name, value in ended.items() if value is not None}
    return replace(after, queue=replace(after.queue, options={**after.queue.options, **given}))


def _qdiscs(
    port: str, direction: Direction, frame_bytes: int, timer_slack_ns: int, is_changing: bool, is_varied: bool
) -> Iterator[list[str]]:
    """Yield the stages of one direction as words of tc-qdisc(8) from `dev` on.

    Delay and loss come first, then the rate below them, then the queue below the rate. A stage without effect is left
    out. The burst is one frame, since a larger burst would let packets pass the queue. In real time, the burst also
    includes the bytes that could be sent while a timer is late. Otherwise, every packet would lose this time.
    """
    parent = ["root"]
    wander_ns = find_wander(direction, frame_bytes) if is_varied else 0
    if direction.is_delayed or is_changing or wander_ns:
        yield [*f"dev {port} root handle 1: netem".split(), *_netem(direction, is_changing, is_varied, wander_ns)]
        parent = ["parent", "1:1"]
    rate, queue = direction.rate_bit_per_s, direction.queue
    if rate is None or queue is None:
        return
    burst = frame_bytes + math.ceil(rate * timer_slack_ns / 8e9)
    # tbf must have a limit of its own, which has no effect beside the queue below it
    tbf = f"handle 10: tbf rate {RATE.render(rate, 'tc')} burst {burst} limit {MOST_QUEUE_BYTES}"
    yield ["dev", port, *parent, *tbf.split()]
    yield [*f"dev {port} parent 10:1 handle 100:".split(), *spell_discipline(queue, rate, frame_bytes)]


def find_wander(direction: Direction, frame_bytes: int) -> int:
    """Return by how many ns a packet of a varied wire is early or late, in whole microseconds.

    It is 0 without a rate, which is its measure, and if delays vary anyway.
    """
    if direction.rate_bit_per_s is None or direction.jitter or direction.reorder:
        return 0
    return max(1, round(frame_bytes * 8e6 / direction.rate_bit_per_s * WANDER)) * 1000


def _netem(direction: Direction, is_changing: bool, is_varied: bool, wander_ns: int) -> list[str]:
    """Return the words of tc-netem(8) for the stage of delay and loss.

    If the stage changes, the words include every zero, since netem keeps what a change does not name. With any rate,
    netem keeps packets in order.
    """
    words = ["limit", str(DELAY_LINE_PACKETS)]
    jitter, loss, reorder = direction.jitter, direction.loss, direction.reorder
    if direction.delay_ns or is_changing or wander_ns:
        words += ["delay", TIME.render(max(direction.delay_ns, wander_ns), "tc")]
    if wander_ns:
        words += [TIME.render(wander_ns, "tc"), "0%"]
    elif jitter or is_changing:
        jitter = jitter or Jitter(0)
        words += [TIME.render(jitter.amount_ns, "tc"), render_ratio(jitter.correlation, "tc")]
        if jitter.distribution != "uniform":
            words += ["distribution", jitter.distribution]
    if isinstance(loss, Chance) and loss.correlation:
        loss = correlate(loss)
    for keyword, event in (("loss", loss), ("duplicate", direction.duplicate), ("corrupt", direction.corrupt)):
        if isinstance(event, GilbertElliott | FourState):
            words += [keyword, event.model, *(render_ratio(share, "tc") for share in astuple(event))]
        elif event or is_changing:
            words += [keyword] if keyword != "loss" else [keyword, "random"]
            words.append(render_ratio(event.probability if event else 0, "tc"))
            words += ["0%"] if is_changing else []
    if reorder:
        words += ["reorder", render_ratio(reorder.probability, "tc"), "0%"]
        words += ["gap", str(reorder.gap)]
    elif is_changing:
        words += ["reorder", "0%", "0%"]
    if wander_ns:
        words += ["rate", IN_ORDER]
    elif is_changing and is_varied:
        words += ["rate", "0bit"]
    return words


def correlate(loss: Chance) -> GilbertElliott:
    """Return a two-state model with the requested share of lost packets and correlation of consecutive losses.

    netem's own correlation is not used, because it removes most of the loss. Of 1 % loss with a correlation of 25 %, it
    leaves 0.006 %.
    """
    p, kept = loss.probability, loss.correlation
    return GilbertElliott(p=p * (1 - kept), r=(1 - p) * (1 - kept))


def spell_discipline(queue: Queue, rate: int, frame_bytes: int) -> list[str]:
    """Return the words of the queue's discipline, such as of tc-pfifo(8), tc-red(8) or tc-codel(8)."""
    if queue.discipline == "red":
        return _red(queue, rate, frame_bytes)
    known, given = DISCIPLINES[queue.discipline], queue.options
    words = ["bfifo" if (known.kind, queue.unit) == ("pfifo", "bytes") else known.kind]
    words += [*(name for name, kind in known.further.items() if kind == "word"), known.limit, str(queue.limit)]
    for kind, spell in _SPELLED.items():
        for name, option in known.options.items():
            if option.kind == kind and name in given:
                words += [name, spell(given[name])]
    if "quantum" in known.further:
        words += ["quantum", str(frame_bytes)]
    if "ecn" in known.options:
        words.append("ecn" if given.get("ecn") else "noecn")
    return words


def _red(queue: Queue, rate: int, frame_bytes: int) -> list[str]:
    """Return the words of tc-red(8).

    By default, min is a sixth of the limit, and max is three times min. The burst is (2 min + max) / 3 in packets.
    """
    options, limit = queue.options, queue.limit
    least = round(options.get("min", min(options.get("max", limit / 2) / 3, limit / 6)))
    most = round(options.get("max", min(3 * least, limit)))
    burst = max(1, (2 * least + most) // (3 * frame_bytes), -(-least // frame_bytes))
    bandwidth = RATE.render(rate, "tc")
    words = f"red limit {limit} min {least} max {most} avpkt {frame_bytes} burst {burst} bandwidth {bandwidth}"
    probability = render_ratio(options.get("probability", 0.02), "tc").rstrip("%")
    extra = ["probability", f"{float(probability) / 100:.10g}"]
    return [*words.split(), *extra, *(["ecn"] if options.get("ecn") else [])]
