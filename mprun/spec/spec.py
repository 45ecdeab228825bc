# SPDX-License-Identifier: Apache-2.0
"""Spec: what the user asked for, checked, every default and parameter filled in, no unit left to guess.

These are the values that the input stage hands to `allocate`. They hold no file name and nothing
of the machine; two files that mean the same give equal values. Times are integer nanoseconds,
rates integer bit/s on the wire (Ethernet frame, no preamble), sizes bytes, probabilities 0..1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

NodeKind = Literal["host", "router", "switch"]
Protocol = Literal["tcp", "mptcp"]
QueueUnit = Literal["packets", "bytes", "time", "bdp"]


@dataclass(frozen=True)
class Queue:
    """How much a queue holds: packets, bytes, ns of the link's rate, or BDPs of the path."""

    amount: float
    unit: QueueUnit


@dataclass(frozen=True)
class Direction:
    """One direction of a link. rate None: as fast as the machine; queue None: the default."""

    rate_bit_per_s: int | None = None
    delay_ns: int = 0
    loss: float = 0.0
    queue: Queue | None = None

    @property
    def is_shaped(self) -> bool:
        return self.rate_bit_per_s is not None or self.delay_ns > 0 or self.loss > 0


@dataclass(frozen=True)
class LinkSpec:
    """A link between two nodes; forward is from `ends[0]` to `ends[1]`.

    `addresses` are the interface addresses of the two ends with prefix length ("10.0.0.1/24"),
    None where they are to be derived.
    """

    name: str
    ends: tuple[str, str]
    forward: Direction = Direction()
    reverse: Direction = Direction()
    backup: bool = False
    addresses: tuple[str | None, str | None] = (None, None)


@dataclass(frozen=True)
class TopologySpec:
    """Nodes in the order of the file, and links. `name` is for people (the file's stem)."""

    name: str
    description: str
    nodes: Mapping[str, NodeKind]
    links: tuple[LinkSpec, ...]


@dataclass(frozen=True)
class Mptcp:
    """A host's MPTCP settings.

    path_manager: `default` opens no subflow by itself (passive), `fullmesh` one per address pair.
    subflows, add_addr_accepted: `ip mptcp limits`; None: what the topology needs.
    """

    path_manager: Literal["default", "fullmesh"] = "default"
    scheduler: str = "default"
    subflows: int | None = None
    add_addr_accepted: int | None = None


@dataclass(frozen=True)
class HostSpec:
    """Settings of one host; sysctl as (name, value) in the order of the file."""

    mptcp: Mptcp = Mptcp()
    sysctl: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Flow:
    """One entry of `traffic`.

    options: what the tool alone knows, as the tool's own model gave it (ping: count, interval_ns,
    size_bytes; iperf3: reverse, parallel, ...). duration_ns None: the tool ends by itself.
    """

    name: str
    tool: str
    source: str
    destination: str
    protocol: Protocol
    start_ns: int
    duration_ns: int | None
    options: Mapping[str, object]


@dataclass(frozen=True)
class Capture:
    """Packets of one host, all its interfaces. snaplen 0: whole packets. filter: pcap-filter(7)."""

    host: str
    snaplen: int = 0
    filter: str = ""


@dataclass(frozen=True)
class Expectation:
    """A bound on a metric, in the metric's base unit (bit/s, s, 1). `equals` is exact."""

    metric: str
    minimum: float | None = None
    maximum: float | None = None
    equals: float | None = None


@dataclass(frozen=True)
class ExperimentSpec:
    """What happens on a topology. probe_pings: idle pings per path before time zero."""

    name: str
    description: str
    hosts: Mapping[str, HostSpec]
    traffic: tuple[Flow, ...]
    captures: tuple[Capture, ...]
    expectations: tuple[Expectation, ...]
    probe_pings: int
    seed: int


@dataclass(frozen=True)
class Spec:
    """A topology and an experiment that fit together."""

    topology: TopologySpec
    experiment: ExperimentSpec
