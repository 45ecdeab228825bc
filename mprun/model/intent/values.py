# SPDX-License-Identifier: Apache-2.0
"""The values of an intent: the network, the flows with their addresses and paths, captures, changes and the seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from mprun.model import spec
from mprun.model.frozen import Frozen
from mprun.model.network import Link, Node, Switch


class FlowEnds(Frozen):
    """The addresses between which a flow begins, and the ports of its server.

    `port`: the first port; None for a flow without ports.
    `ports`: all of them, where there are several.
    """

    source_address: str
    destination_address: str
    port: int | None = None
    ports: tuple[int, ...] = ()

    @property
    def all_ports(self) -> tuple[int, ...]:
        """Every port of the server."""
        return self.ports or (() if self.port is None else (self.port,))


class FlowPath(Frozen):
    """A path that a flow may use.

    `source`, `destination`: its addresses as the kernel spells them.
    `links`: names in the order in which a packet from the source meets them.
    `rtt_ns`: the sum of the delays of its links; of several ways, that of the slowest.
    `ways`: the number of ways that packets may go; a flow takes one.
    `least_rtt_ns`: the round trip of the fastest way; None where there is one way.
    `middleboxes`: the names of the routers on it that do more than forward.
    `source_seen`: the source's address beyond a NAT; None without NAT.
    """

    name: str
    source: str
    destination: str
    links: tuple[str, ...]
    rtt_ns: int = 0
    backup: bool = False
    ways: int = 1
    least_rtt_ns: int | None = None
    middleboxes: tuple[str, ...] = ()
    source_seen: str | None = None

    @property
    def ends(self) -> tuple[str, str]:
        """Both addresses, the source's first."""
        return self.source, self.destination

    @property
    def seen_from(self) -> str:
        """The source's address as the destination sees it."""
        return self.source_seen or self.source


class AddressedFlow(spec.Flow, kw_only=True):
    """A flow with what the network decides for it.

    `port`: the port that the file gives; None if the file gives none. The server's port is in `endpoints`.
    `family`: not part of an intent; the endpoints tell it.
    `paths`: the paths that its connection can use, the one that it begins on first.
    `subflows`: the number that the path managers of both hosts open; 1 without MPTCP.
    """

    endpoints: FlowEnds
    paths: tuple[FlowPath, ...] = ()
    subflows: int = 1

    @property
    def server_addresses(self) -> frozenset[str]:
        """The addresses of its server on all paths."""
        return frozenset((self.endpoints.destination_address, *(path.destination for path in self.paths)))


class Intent(Frozen):
    """The meaning of the inputs.

    `hosts`: settings by the name of the host, for hosts that the experiment names.
    `vary`: what the seed varies.
    `samples`: the interval of each series that the file asks for, ns.
    `switches`: the Open vSwitches among the nodes.
    `middleboxes`: by the name of their router.
    `faults`: the faults of single packets.
    `reseed`: the change of the random numbers during the run.
    `tracepoints`: the trace events of the kernel to record.
    """

    nodes: tuple[Node, ...]
    links: tuple[Link, ...]
    hosts: Mapping[str, spec.HostSpec]
    traffic: tuple[AddressedFlow, ...]
    captures: tuple[spec.Capture, ...]
    changes: tuple[spec.Change, ...]
    seed: int
    probe_pings: int = 0
    vary: tuple[spec.Variation, ...] = ()
    samples: Mapping[spec.SampleKind, int] = field(default_factory=dict)
    switches: Mapping[str, Switch] = field(default_factory=dict)
    middleboxes: Mapping[str, spec.Middlebox] = field(default_factory=dict)
    faults: tuple[spec.PacketFault, ...] = ()
    reseed: spec.Reseed | None = None
    tracepoints: tuple[str, ...] = ()

    def host(self, name: str) -> spec.HostSpec:
        """The settings of a host, as far as the experiment gives any."""
        return self.hosts.get(name) or spec.HostSpec()

    @property
    def path_links(self) -> dict[str, Sequence[str]]:
        """The links of each path of all flows, in the order of the network."""
        paths = {path.name: path.links for flow in self.traffic for path in flow.paths}
        order = {link.name: n for n, link in enumerate(self.links)}
        return dict(sorted(paths.items(), key=lambda item: min((order.get(link, 0) for link in item[1]), default=0)))

    def mptcp_of(self, host: str) -> spec.Mptcp:
        """A host's MPTCP settings."""
        return self.host(host).mptcp
