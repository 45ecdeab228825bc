# SPDX-License-Identifier: Apache-2.0
"""Convert samples of interfaces and queues to rows, named by node and link. Pure.

Counters are counted from the first sample on.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from mprun.agent.message import find_attribute, split_messages
from mprun.metrics.rows import ColumnKind, Rows, SampleSource
from mprun.model.network import Link

OF_INTERFACES: Mapping[str, ColumnKind] = {
    **{"time_ns": "whole", "node": "text", "interface": "text", "link": "text"},
    **dict.fromkeys(("rx_bytes", "rx_packets", "tx_bytes", "tx_packets", "rx_drops", "tx_drops"), "whole"),
}
# backlog: waits in the queue at this time. drops: dropped by the queue or its discipline. lost: dropped by the loss
# stage before the queue, as the file asks.
OF_QUEUES: Mapping[str, ColumnKind] = {
    **{"time_ns": "whole", "link": "text", "direction": "text"},
    **dict.fromkeys(("backlog_bytes", "backlog_packets", "drops_packets", "lost_packets"), "whole"),
}
# linux/rtnetlink.h, linux/if_link.h
RTM_NEWSTATS, RTM_NEWQDISC = 92, 36
IFLA_STATS_LINK_64, TCA_STATS = 1, 3
# The index in struct if_stats_msg, and the index and the handle in struct tcmsg, with the sizes of both.
_STATS_MESSAGE, _STATS_BYTES = struct.Struct("=4xI"), 12
_QDISC_MESSAGE, _QDISC_BYTES = struct.Struct("=4xiI"), 20
# The begin of struct rtnl_link_stats64: packets, bytes, errors and drops, each received and sent.
_COUNTERS = struct.Struct("=8Q")
# struct tc_stats
_STATS = struct.Struct("=QIIIIIII")
# Handles of the delay and loss stage, and of the rate stage, which counts what is in its queue too (compile.wire).
LOSS_STAGE, RATE_STAGE = 1 << 16, 0x10 << 16


class Counters:
    """Rows of the interfaces and queues of a network. links: those of the intent."""

    def __init__(self, links: Sequence[Link] = ()) -> None:
        self.interfaces = Rows(OF_INTERFACES)
        self.queues = Rows(OF_QUEUES)
        # the link of each interface, and the direction from it
        self._links = {
            (end.node, end.name): (link.name, side)
            for link in links
            for end, side in zip(link.ends, ("forward", "reverse"), strict=True)
        }
        self._untaken: dict[tuple[str, ...], int] = {}
        self._ways = {
            port: (link.name, direction)
            for link in links
            if link.ports
            for port, direction in zip(link.ports, ("reverse", "forward"), strict=True)
        }
        self._names: dict[tuple[int, int], tuple[str, ...]] = {}
        self._first: dict[tuple[str, ...], tuple[int, ...]] = {}
        # by way, in the last sample: the packets dropped or lost, and the packets that were under way
        self.lost: dict[tuple[str, ...], int] = {}
        self.held: dict[tuple[str, ...], int] = {}

    def add(self, source: int, facts: SampleSource) -> None:
        """Add a source of samples: the nodes that share its namespace, and the numbers of its interfaces by name."""
        for interface, index in (facts.indices or {}).items():
            if interface in self._ways:
                self._names[source, index] = self._ways[interface]
            for node in facts.nodes:
                if (node, interface) in self._links:
                    self._names[source, index] = (node, interface, self._links[node, interface][0])

    def read_interfaces(self, datagrams: bytes, at_ns: int, source: int) -> None:
        """Add the answers to a dump of counters, of links only. Of a wire's port, only the untaken packets count."""
        for kind, _, body in split_messages(datagrams):
            names = self._names.get((source, *_STATS_MESSAGE.unpack_from(body))) if kind == RTM_NEWSTATS else None
            if names is not None:
                start, _ = find_attribute(body, _STATS_BYTES, len(body), IFLA_STATS_LINK_64)
                rx, tx, rx_bytes, tx_bytes, _, _, rx_drops, tx_drops = _COUNTERS.unpack_from(body, start)
                counts = (rx_bytes, rx, tx_bytes, tx, rx_drops, tx_drops)
                values = self._since_first(("interface", *names), counts)
                self._untaken[names] = values[-1]
                if not _is_way(names):
                    self.interfaces.add((at_ns, *names, *values))

    def read_queues(self, datagrams: bytes, at_ns: int, source: int) -> None:
        """Add the answers to a dump of queueing disciplines. A direction without a discipline has no row."""
        stages: dict[tuple[str, ...], dict[int, tuple[int, ...]]] = {}
        for kind, _, body in split_messages(datagrams):
            index, handle = _QDISC_MESSAGE.unpack_from(body) if kind == RTM_NEWQDISC else (0, 0)
            if handle in (LOSS_STAGE, RATE_STAGE) and (source, index) in self._names:
                start, _ = find_attribute(body, _QDISC_BYTES, len(body), TCA_STATS)
                stages.setdefault(self._names[source, index], {})[handle] = _STATS.unpack_from(body, start)
        for names, found in stages.items():
            rate, loss = found.get(RATE_STAGE), found.get(LOSS_STAGE)
            dropped, lost = self._since_first(names, (rate[2] if rate else 0, loss[2] if loss else 0))
            # what the rate stage drops, the stage before it counts too
            lost_packets = lost - dropped if loss else None
            self.lost[names] = max(dropped, lost)
            self.held[names] = max(rate[6] if rate else 0, loss[6] if loss else 0)
            if rate:
                self.queues.add((at_ns, *names, rate[7], rate[6], dropped, lost_packets))
            else:
                self.queues.add((at_ns, *names, None, None, None, lost_packets))

    def find_untaken(self) -> dict[tuple[str, str], int]:
        """Return the packets, by link and direction, that were sent and that the kernel did not take in at the peer.

        No file asks for these losses, and no queue counts them.
        """
        found: dict[tuple[str, str], int] = {}
        for names, packets in self._untaken.items():
            link, direction = names if _is_way(names) else self._links[names[0], names[1]]
            if packets:
                found[link, direction] = found.get((link, direction), 0) + packets
        return found

    def _since_first(self, names: tuple[str, ...], values: tuple[int, ...]) -> tuple[int, ...]:
        first = self._first.setdefault(names, values)
        return tuple(value - before for value, before in zip(values, first, strict=True))


def _is_way(names: tuple[str, ...]) -> bool:
    """Check whether the names are those of a wire's port (link and direction), and not of a node's interface."""
    return len(names) == 2
