# SPDX-License-Identifier: Apache-2.0
"""Samples of interfaces and queues -> rows, named by node and link; counters from the first sample on. Pure."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

from mprun.agent.message import attributes, split_messages
from mprun.analysis.rows import Kind, Rows
from mprun.compile.wire import ports

OF_INTERFACES: Mapping[str, Kind] = {
    **{"time_ns": "whole", "node": "text", "interface": "text", "link": "text"},
    **dict.fromkeys(("rx_bytes", "rx_packets", "tx_bytes", "tx_packets", "rx_drops", "tx_drops"), "whole"),
}
# backlog: what waits at that moment. drops: what the queue or its discipline dropped. lost: what the stage before it
# lost because it was asked to.
OF_QUEUES: Mapping[str, Kind] = {
    **{"time_ns": "whole", "link": "text", "direction": "text"},
    **dict.fromkeys(("backlog_bytes", "backlog_packets", "drops_packets", "lost_packets"), "whole"),
}
# linux/rtnetlink.h, linux/if_link.h
RTM_NEWSTATS, RTM_NEWQDISC = 92, 36
IFLA_STATS_LINK_64, TCA_STATS = 1, 3
_INDEX = struct.Struct("=4xI")
_STATS_MESSAGE_BYTES, _TCMSG = 12, struct.Struct("=4xiIII")
# The begin of struct rtnl_link_stats64: packets, bytes, errors and drops, each received and sent.
_COUNTERS = struct.Struct("=8Q")
# struct tc_stats
_STATS = struct.Struct("=QIIIIIII")
# Handles of the delay and loss stage, and of the rate stage, which counts what is in its queue too (compile.wire).
LOSS_STAGE, RATE_STAGE = 1 << 16, 0x10 << 16


class Counters:
    """Rows of the interfaces and queues of a network. links: those of the intent."""

    def __init__(self, links: Sequence[Mapping[str, Any]] = ()) -> None:
        self.interfaces = Rows(OF_INTERFACES)
        self.queues = Rows(OF_QUEUES)
        self._links = {(end["node"], end["name"]): link["name"] for link in links for end in link["ends"]}
        self._ways = {
            port: (link["name"], direction)
            for link in links
            if link["wire"] is not None
            for port, direction in zip(ports(link["wire"]), ("reverse", "forward"), strict=True)
        }
        self._names: dict[tuple[int, int], tuple[str, ...]] = {}
        self._first: dict[tuple[str, ...], tuple[int, ...]] = {}

    def add(self, source: int, facts: Mapping[str, Any]) -> None:
        """A source of samples: the nodes that share its namespace, and the numbers of its interfaces by name."""
        for interface, index in facts["indices"].items():
            if interface in self._ways:
                self._names[source, index] = self._ways[interface]
            for node in facts["nodes"]:
                if (node, interface) in self._links:
                    self._names[source, index] = (node, interface, self._links[node, interface])

    def read_interfaces(self, datagrams: bytes, at_ns: int, source: int) -> None:
        """Take in the answers to a dump of counters; interfaces that are part of no link are left out."""
        for kind, _, body in split_messages(datagrams):
            if kind != RTM_NEWSTATS:
                continue
            names = self._names.get((source, _INDEX.unpack_from(body)[0]))
            if names is not None:
                counters = attributes(body[_STATS_MESSAGE_BYTES:])[IFLA_STATS_LINK_64]
                rx, tx, rx_bytes, tx_bytes, _, _, rx_drops, tx_drops = _COUNTERS.unpack_from(counters)
                values = (rx_bytes, rx, tx_bytes, tx, rx_drops, tx_drops)
                self.interfaces.add((at_ns, *names, *self._since_first(names, values)))

    def read_queues(self, datagrams: bytes, at_ns: int, source: int) -> None:
        """Take in the answers to a dump of queueing disciplines; a direction without any has no row."""
        stages: dict[tuple[str, ...], dict[int, tuple[int, ...]]] = {}
        for kind, _, body in split_messages(datagrams):
            if kind != RTM_NEWQDISC:
                continue
            index, handle, _, _ = _TCMSG.unpack_from(body)
            names = self._names.get((source, index))
            if names is not None and handle in (LOSS_STAGE, RATE_STAGE):
                told = attributes(body[_TCMSG.size :])[TCA_STATS]
                stages.setdefault(names, {})[handle] = _STATS.unpack_from(told)
        for names, found in stages.items():
            rate, loss = found.get(RATE_STAGE), found.get(LOSS_STAGE)
            dropped, lost = self._since_first(names, (rate[2] if rate else 0, loss[2] if loss else 0))
            # what the rate stage drops, the stage before it counts too
            lost_packets = lost - dropped if loss else None
            if rate:
                self.queues.add((at_ns, *names, rate[7], rate[6], dropped, lost_packets))
            else:
                self.queues.add((at_ns, *names, None, None, None, lost_packets))

    def _since_first(self, names: tuple[str, ...], values: tuple[int, ...]) -> tuple[int, ...]:
        first = self._first.setdefault(names, values)
        return tuple(value - before for value, before in zip(values, first, strict=True))
