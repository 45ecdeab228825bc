# SPDX-License-Identifier: Apache-2.0
"""A flow of QUIC as a capture of its server shows it, without keys. Pure.

Runners of interoperability tests judge in the same way: by what is on the wire, and not by what an end reports.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from mprun.captures import quic_packet
from mprun.captures.quic_packet import Datagram, QuicPacket, read_quic

_Source = tuple[str, int]


class QuicObserver:
    """Collects the facts of a flow from the datagrams at its server, in order.

    A client's address is validated when a Handshake packet, or the token of a Retry packet, arrives from it (RFC 9000
    8.1). An address without an Initial packet, as after a rebinding, does not count in the amplification.

    port, addresses: of the server.
    """

    def __init__(self, port: int, addresses: Collection[str]) -> None:
        self._port, self._addresses = port, addresses
        # the bytes of Handshake packets that the server sent on each connection, by its connection identifier
        self._flights: dict[bytes, int] = {}
        self._tokens: set[bytes] = set()
        self._returned: set[bytes] = set()
        self._negotiations = self._early_bytes = 0
        # Handshake packets: all, and those of version 2
        self._handshakes = [0, 0]
        # datagrams by direction: all, and those with ECN
        self._arrived, self._sent = [0, 0], [0, 0]
        # the bytes from and to each address that is not validated; None once it is
        self._unvalidated: dict[_Source, list[int] | None] = {}
        self._amplification = 0.0
        self._sources: set[_Source] = set()
        self._destinations: set[_Source] = set()

    def add(self, datagram: Datagram) -> None:
        if datagram.destination_port == self._port and datagram.destination in self._addresses:
            _count(self._arrived, datagram.ecn != 0)
            self._receive((datagram.source, datagram.source_port), datagram)
        elif datagram.source_port == self._port and datagram.source in self._addresses:
            _count(self._sent, datagram.ecn != 0)
            self._send((datagram.destination, datagram.destination_port), datagram)

    def _receive(self, source: _Source, datagram: Datagram) -> None:
        packets = list(read_quic(datagram.payload))
        kinds = {packet.kind for packet in packets}
        if kinds & {quic_packet.INITIAL, quic_packet.EARLY}:
            self._unvalidated.setdefault(source, [0, 0])
        counts = self._unvalidated.get(source)
        if counts is not None:
            counts[0] += datagram.payload_bytes
        returned = {packet.token for packet in packets if packet.kind == quic_packet.INITIAL} & self._tokens
        self._returned |= returned
        if quic_packet.HANDSHAKE in kinds or returned:
            self._unvalidated[source] = None
        self._early_bytes += sum(packet.size_bytes for packet in packets if packet.kind == quic_packet.EARLY)
        self._note_handshakes(packets)
        if quic_packet.SHORT in kinds:
            self._sources.add(source)

    def _send(self, destination: _Source, datagram: Datagram) -> None:
        packets = list(read_quic(datagram.payload))
        counts = self._unvalidated.get(destination)
        if counts is not None:
            counts[1] += datagram.payload_bytes
            self._amplification = max(self._amplification, counts[1] / counts[0])
        self._tokens |= {packet.token for packet in packets if packet.kind == quic_packet.RETRY}
        self._negotiations += sum(packet.kind == quic_packet.NEGOTIATION for packet in packets)
        for packet in packets:
            if packet.kind == quic_packet.HANDSHAKE:
                self._flights[packet.source] = self._flights.get(packet.source, 0) + packet.size_bytes
        self._note_handshakes(packets)
        if any(packet.kind == quic_packet.SHORT for packet in packets):
            self._destinations.add(destination)

    def _note_handshakes(self, packets: Iterable[QuicPacket]) -> None:
        for packet in packets:
            if packet.kind == quic_packet.HANDSHAKE:
                _count(self._handshakes, packet.version == quic_packet.VERSION_2)

    def tell(self) -> dict[str, float]:
        """Return the facts by their names, as `mprun.workloads.quic_connection.METRICS` has them after `seen.`."""
        return {
            "handshakes": len(self._flights),
            "flight": min(self._flights.values(), default=0),
            "retries": len(self._returned),
            "negotiations": self._negotiations,
            "early": self._early_bytes,
            "version2": _share(self._handshakes),
            "amplification": self._amplification,
            "ecn.forward": _share(self._arrived),
            "ecn.reverse": _share(self._sent),
            "sources": len(self._sources),
            "destinations": len(self._destinations),
        }


def _count(counts: list[int], is_marked: bool) -> None:
    counts[0] += 1
    counts[1] += is_marked


def _share(counts: list[int]) -> float:
    return counts[1] / counts[0] if counts[0] else 0.0
