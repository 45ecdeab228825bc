# SPDX-License-Identifier: Apache-2.0
"""Pairs of captures between which packets have a one-way delay. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import permutations

from mprun.errors import SpecError
from mprun.model.intent import Intent
from mprun.model.problem import name_nearest
from mprun.model.run_summary import CaptureFacts
from mprun.model.spec import Capture


@dataclass(frozen=True)
class CapturePair:
    """Two captures, and what is known of the way between them.

    - sender, receiver: the names of the captures.
    - addresses: the addresses of the receiver's node, if its capture has all interfaces of a host; else empty.
    - is_complete: the receiver's capture has each packet that arrived and that the sender's capture could have.
    - is_altered: a middlebox changes more than addresses and ports.
    """

    sender: str
    receiver: str
    addresses: frozenset[str] = frozenset()
    is_complete: bool = True
    is_altered: bool = False


def choose_pairs(
    intent: Intent, facts: Mapping[str, CaptureFacts], wanted: Iterable[tuple[str, str]]
) -> Iterator[CapturePair]:
    """Yield the wanted pairs, or by default both directions between captures of the two hosts of each flow.

    facts: `captures` of the run's summary. Raises SpecError for a capture that the run does not have.
    """
    captures = {capture.name: capture for capture in intent.captures}
    for sender, receiver in list(wanted) or _usual(intent):
        for name in (sender, receiver):
            if name not in captures:
                raise SpecError(f"no capture '{name}'{name_nearest(name, list(captures), 'captures')}")
        if captures[sender].node == captures[receiver].node:
            raise SpecError(f"'{sender}' and '{receiver}' are captures of the same node: name captures of two nodes")
        yield _make(intent, facts, captures[sender], captures[receiver])


def _usual(intent: Intent) -> Iterator[tuple[str, str]]:
    """Yield the pairs of captures of hosts that have a flow with each other."""
    ends = {frozenset((flow.source, flow.destination)) for flow in intent.traffic}
    hosts = {node.name for node in intent.nodes if node.kind == "host"}
    by_node: dict[str, list[Capture]] = {}
    for capture in intent.captures:
        if capture.node in hosts:
            by_node.setdefault(capture.node, []).append(capture)
    for node, captures in by_node.items():
        # a capture of all interfaces has the packets of the others too
        by_node[node] = [capture for capture in captures if capture.link is None] or captures
    for one, other in permutations(by_node, 2):
        if frozenset((one, other)) in ends:
            yield from ((mine.name, its.name) for mine in by_node[one] for its in by_node[other])


def _make(intent: Intent, facts: Mapping[str, CaptureFacts], sender: Capture, receiver: Capture) -> CapturePair:
    node = next(node for node in intent.nodes if node.name == receiver.node)
    is_all = node.kind == "host" and receiver.link is None
    addresses = (str(address.ip) for interface in node.interfaces for address in interface.addresses)
    known = facts.get(receiver.name)
    has_all = known is not None and known.lost == 0 and known.passed == known.packets
    boxes = intent.middleboxes.values()
    return CapturePair(
        sender.name,
        receiver.name,
        frozenset(addresses if is_all else ()),
        is_complete=has_all and receiver.filter in ("", sender.filter),
        is_altered=any(box.strip or box.alter or box.rewrite_sequence or box.proxy for box in boxes),
    )
