# SPDX-License-Identifier: Apache-2.0
"""Spec: what the user asked for, checked, every default and parameter filled in, no unit left to guess.

These are the values that the input stage hands to `allocate`. They hold no file name and nothing
of the machine; two files that mean the same give equal values. Times are integer nanoseconds,
rates integer bit/s on the wire (Ethernet frame, no preamble), sizes bytes, probabilities 0..1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

NodeKind = Literal["host", "router", "switch"]
Protocol = Literal["tcp", "mptcp", "udp", "sctp", "quic", "icmp"]
Family = Literal["ipv4", "ipv6"]
Addressing = Literal["ipv4", "ipv6", "both"]
QueueUnit = Literal["packets", "bytes", "time", "bdp"]
Discipline = Literal["fifo", "red", "codel", "fq_codel", "pie", "cake"]
Distribution = Literal["uniform", "normal", "pareto", "paretonormal"]
Forwarding = Literal["learning", "flows", "multipath", "reactive"]
HashedBy = Literal["connection", "addresses", "datapath"]
FlowMatch = Literal["connection", "hosts"]
Refusal = Literal["drop", "reject"]
# Options of RFC 8684; mptcp: any of them.
StrippedOption = Literal["mptcp", "mp_capable", "mp_join", "dss", "add_addr"]
AlteredOption = Literal["mp_capable", "mp_join", "add_addr"]

# What bounds the queues of these; those of fifo are bounded by either.
IN_BYTES: tuple[Discipline, ...] = ("red", "cake")
IN_PACKETS: tuple[Discipline, ...] = ("codel", "fq_codel", "pie")

FAMILIES: tuple[Family, ...] = ("ipv4", "ipv6")
TITLES: Mapping[Family, str] = {"ipv4": "IPv4", "ipv6": "IPv6"}

DEFAULT_MTU = 1500
# RFC 8200 section 5: every link that carries IPv6 has at least this MTU.
IPV6_LEAST_MTU = 1280
# Ethernet's header; tc and captures count it, and not the checksum.
HEADER_BYTES = 14

# What is sampled during a run, see `experiment.SampleEntry`.
Series = Literal["interfaces", "queues", "sockets", "cpu"]
# Figures over the time of a run, and how figures look.
SeriesName = Literal[
    "rate", "goodput", "rtt", "cwnd", "queue", "interfaces", "delay", "completion", "buffer", "quality", "sequence"
]
PlotForm = Literal["line", "step", "stack", "points", "cdf", "bar", "box", "heat"]

PathManager = Literal["default", "fullmesh", "in-order", "ndiffports"]
# What an endpoint is for, ip-mptcp(8).
EndpointFlag = Literal["subflow", "signal", "fullmesh", "backup"]

# MPTCP_PM_ADDR_MAX in the kernel's net/mptcp/protocol.h: of a connection, and of a host.
MAX_ADDITIONAL_SUBFLOWS = MAX_ENDPOINTS = 8

# What the seed of a run varies beside what the kernel draws: `mprun.compile.variation`.
Variation = Literal["start", "wire"]
VARIATIONS: tuple[Variation, ...] = ("start", "wire")


@dataclass(frozen=True)
class Queue:
    """How much a queue holds: packets, bytes, ns of the link's rate, or BDPs of the path.

    options: of the discipline, as tc(8) names them: times in ns, sizes in bytes, probabilities 0..1.
    """

    amount: float
    unit: QueueUnit
    discipline: Discipline = "fifo"
    options: tuple[tuple[str, float], ...] = ()

    @property
    def counts_bytes(self) -> bool:
        """Whether its limit is in bytes, not in packets, once it is resolved."""
        return self.discipline in IN_BYTES or (self.discipline == "fifo" and self.unit in ("bytes", "time"))


@dataclass(frozen=True)
class Jitter:
    """Variation of the delay (tc-netem(8)). correlation: of each packet's with the one before, 0..1."""

    amount_ns: int
    correlation: float = 0.0
    distribution: Distribution = "uniform"


@dataclass(frozen=True)
class Chance:
    """What happens to a packet at random. correlation: with what happened to the one before, 0..1; of losses only."""

    probability: float
    correlation: float = 0.0

    @property
    def mean(self) -> float:
        return self.probability


@dataclass(frozen=True)
class GilbertElliott:
    """Two states: p good to bad, r bad to good; bad_loss (1-h) and good_loss (1-k) is what each loses."""

    p: float
    r: float
    bad_loss: float = 1.0
    good_loss: float = 0.0

    @property
    def mean(self) -> float:
        """The share of packets lost in the long run."""
        bad = self.p / (self.p + self.r) if self.p else 0.0
        return bad * self.bad_loss + (1 - bad) * self.good_loss


@dataclass(frozen=True)
class FourState:
    """A Markov chain: 1 received in a gap, 2 received in a burst, 3 lost in a burst, 4 lost alone."""

    p13: float
    p31: float
    p32: float
    p23: float
    p14: float

    @property
    def mean(self) -> float:
        """The share of packets lost in the long run: what the stationary states 3 and 4 hold."""
        if not self.p13:
            return self.p14 / (1 + self.p14)
        if self.p32 and not self.p23:
            return 0.0
        third = self.p13 / self.p31 if self.p31 else 1.0
        second = third * self.p32 / self.p23 if self.p23 else 0.0
        first = 1.0 if self.p31 else 0.0
        fourth = first * self.p14
        return (third + fourth) / (first + second + third + fourth)


Loss = Chance | GilbertElliott | FourState


@dataclass(frozen=True)
class Reorder:
    """Packets sent at once while others wait for the delay; every `gap`-th is up for it."""

    probability: float
    gap: int = 1


@dataclass(frozen=True)
class Direction:
    """One direction of a link. rate None: as fast as the machine; queue None: the default."""

    rate_bit_per_s: int | None = None
    delay_ns: int = 0
    jitter: Jitter | None = None
    loss: Loss | None = None
    duplicate: Chance | None = None
    corrupt: Chance | None = None
    reorder: Reorder | None = None
    queue: Queue | None = None

    @property
    def is_delayed(self) -> bool:
        """Whether there is anything for the delay and loss stage to do."""
        return self.delay_ns > 0 or any((self.loss, self.duplicate, self.corrupt))

    @property
    def is_shaped(self) -> bool:
        return self.rate_bit_per_s is not None or self.is_delayed


@dataclass(frozen=True)
class LinkSpec:
    """A link between two nodes; forward is from `ends[0]` to `ends[1]`.

    `addresses` are the interface addresses of the two ends with prefix length ("10.0.0.1/24"), at most
    one of each family; those that are not there are derived. mtu: bytes of an IP packet.
    addressing: None is that of the topology.
    """

    name: str
    ends: tuple[str, str]
    forward: Direction = Direction()
    reverse: Direction = Direction()
    backup: bool = False
    addresses: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    mtu: int = DEFAULT_MTU
    addressing: Addressing | None = None


@dataclass(frozen=True)
class LinkChange:
    """What becomes of a link at a moment, counted from time zero: both directions as they are from then on.

    A link that is not up carries nothing, as if its cable were pulled.
    """

    at_ns: int
    link: str
    forward: Direction
    reverse: Direction
    is_up: bool = True


@dataclass(frozen=True)
class AddressChange:
    """A host loses the address that it has on a link, or gets it back, and its MPTCP endpoint with it."""

    at_ns: int
    host: str
    link: str
    is_there: bool


Change = LinkChange | AddressChange


@dataclass(frozen=True)
class Controller:
    """A switch's way to its controller, and what that installs.

    delay_ns: one way between switch and controller. match: what the packets of a flow have in common,
    addresses and ports or the two hosts. idle_timeout_s: a flow without packets is forgotten; 0: never.
    """

    delay_ns: int = 0
    idle_timeout_s: int = 10
    match: FlowMatch = "connection"


@dataclass(frozen=True)
class OpenFlow:
    """An Open vSwitch. mode: what becomes of a packet that none of `flows` matches.

    flows, groups: in the words of ovs-ofctl(8), ports called like their links. hashed_by: what decides
    which of several ways a packet takes (multipath). controller: that of a reactive one.
    """

    mode: Forwarding
    flows: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    hashed_by: HashedBy = "connection"
    controller: Controller | None = None

    @property
    def is_flooding(self) -> bool:
        """Whether a packet to an unknown address leaves by every port."""
        return self.mode in ("learning", "reactive")


@dataclass(frozen=True)
class Nat:
    """Source NAT: what comes in by a link of `inside` and leaves by another has the box's address (RFC 3022)."""

    inside: tuple[str, ...]


@dataclass(frozen=True)
class Firewall:
    """Connections are opened from the links of `inside` only; refuse: what others get, nothing or an answer."""

    inside: tuple[str, ...]
    refuse: Refusal = "drop"


@dataclass(frozen=True)
class SequenceRewriter:
    """Every sequence number is another behind the box; sack: those in SACK blocks too (RFC 2018)."""

    sack: bool = True


@dataclass(frozen=True)
class Proxy:
    """TCP connections end at the box, which opens others; ports: of servers, none for all."""

    ports: tuple[int, ...] = ()


@dataclass(frozen=True)
class Middlebox:
    """What a router does beside forwarding. strip: TCP options that it removes; alter: those that it changes."""

    nat: Nat | None = None
    firewall: Firewall | None = None
    strip: tuple[StrippedOption, ...] = ()
    alter: tuple[AlteredOption, ...] = ()
    rewrite_sequence: SequenceRewriter | None = None
    proxy: Proxy | None = None


@dataclass(frozen=True)
class TopologySpec:
    """Nodes in the order of the file, links, and changes in the order of time.

    `name` is for people (the file's stem). middleboxes: by the name of their router. switches: those that are
    an Open vSwitch; the others are bridges. addressing: of the links that do not say their own. ecmp: routers
    with several equally short ways choose one for each flow, else one for each subnet.
    """

    name: str
    description: str
    nodes: Mapping[str, NodeKind]
    links: tuple[LinkSpec, ...]
    changes: tuple[Change, ...] = ()
    switches: Mapping[str, OpenFlow] = field(default_factory=dict)
    middleboxes: Mapping[str, Middlebox] = field(default_factory=dict)
    addressing: Addressing = "ipv4"
    ecmp: bool = False

    def addressing_of(self, link: LinkSpec) -> Addressing:
        return link.addressing or self.addressing


@dataclass(frozen=True)
class Endpoint:
    """An address that the kernel's path manager uses: that of the host's interface on a link."""

    link: str
    flags: tuple[EndpointFlag, ...]


@dataclass(frozen=True)
class Mptcp:
    """A host's MPTCP settings.

    path_manager: `default` opens no subflow by itself (passive) but what `endpoints` say; `fullmesh` one per
    pair of addresses, `in-order` one from the client's n-th address to the peer's n-th, `ndiffports` several between
    the first pair, from different ports.
    subflows_per_pair: how many for each pair. subflows, add_addr_accepted: `ip mptcp limits`; None: what the
    topology needs.
    """

    path_manager: PathManager = "default"
    scheduler: str = "default"
    subflows: int | None = None
    add_addr_accepted: int | None = None
    subflows_per_pair: int = 1
    endpoints: tuple[Endpoint, ...] = ()

    @property
    def is_in_user_space(self) -> bool:
        """Whether its subflows are opened by a program: the kernel opens one per pair of addresses at most, and from
        each address to all or to one."""
        return self.subflows_per_pair > 1 or self.path_manager == "in-order"


@dataclass(frozen=True)
class HostSpec:
    """Settings of one host; sysctl as (name, value) in the order of the file."""

    mptcp: Mptcp = Mptcp()
    sysctl: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class After:
    """A moment of another flow, or of a group: its first start, its last end. flow: the name of either."""

    flow: str
    of: Literal["start", "end"] = "end"


@dataclass(frozen=True)
class Repetition:
    """How often a flow takes place, and when again: interval_ns from start to start, or pause_ns from end to start."""

    times: int
    interval_ns: int | None = None
    pause_ns: int | None = None


@dataclass(frozen=True)
class Flow:
    """One entry of `traffic`.

    start_ns: from time zero, or from the moment of another flow that `after` names. options: what the
    tool alone knows, as its own model gave it, names with their units (ping: count, interval_ns,
    size_bytes). duration_ns None: the tool ends by itself. family: of the connection that is opened; None:
    IPv6 where its hosts have it, else IPv4. timeout_ns, port: None: the tool's, the next that is free.
    congestion: control of its connections; None: the hosts'. background: not part of sums over flows.
    group: what the flow is measured together with others as; None: nothing. repetition: only until
    `repetition.expand` has made a flow of each.
    """

    name: str
    tool: str
    source: str
    destination: str
    protocol: Protocol
    start_ns: int
    duration_ns: int | None
    options: Mapping[str, object]
    family: Family | None = None
    after: After | None = None
    timeout_ns: int | None = None
    port: int | None = None
    congestion: str | None = None
    background: bool = False
    group: str | None = None
    repetition: Repetition | None = None


@dataclass(frozen=True)
class Capture:
    """Packets of a node: of all its interfaces, or of that on `link`. snaplen 0: whole packets. filter: pcap-filter(7).

    size_bytes: what its file may come to, of which `keep` says whether the first packets are kept or the last.
    """

    node: str
    snaplen: int = 0
    filter: str = ""
    link: str | None = None
    size_bytes: int | None = None
    keep: Literal["first", "last"] = "first"

    @property
    def name(self) -> str:
        """That of its file, without what follows the point."""
        return self.node if self.link is None else f"{self.node}-{self.link}"


@dataclass(frozen=True)
class Expectation:
    """A bound on a metric, in the metric's base unit (bit/s, s, 1). `equals` is exact."""

    metric: str
    minimum: float | None = None
    maximum: float | None = None
    equals: float | None = None


@dataclass(frozen=True)
class Until:
    """Repeat until the interval of a metric's mean is narrow enough.

    confidence: 0.95 or 0.99; within: half the interval's width, as a share of the mean.
    """

    metric: str
    confidence: float
    within: float


@dataclass(frozen=True)
class Repeat:
    """How often each cell of a sweep runs: `least` times, and up to `most` where `until` does not hold yet.

    vary: what the seed of each repetition varies.
    """

    least: int = 1
    most: int = 1
    until: Until | None = None
    vary: tuple[Variation, ...] = VARIATIONS


@dataclass(frozen=True)
class Plot:
    """A figure of a report.

    Either series, over the time of a run: of one flow, or None for all; or metric, over the cells of a sweep: over,
    an axis of the matrix, along the figure; by: an axis with a line or colour for each value; facet: with a plot
    for each. form None: the first of those that fit. log: axes of the figure with a logarithmic scale.
    """

    series: SeriesName | None = None
    flow: str | None = None
    metric: str | None = None
    over: str | None = None
    by: str | None = None
    facet: str | None = None
    form: PlotForm | None = None
    log: tuple[Literal["x", "y"], ...] = ()
    title: str = ""


@dataclass(frozen=True)
class ExperimentSpec:
    """What happens on a topology. probe_pings: idle pings per path before time zero.

    calibrate: whether each link is measured before the run. vary: what the seed varies in this run. repeat: for
    sweeps; a run is one. links: names that stand for files of the newest run, each with a pattern relative to it.
    samples: interval of each series that the file asks for, ns.
    plots: of its report; none: those that there is data for.
    across: what must hold across the cells of a sweep (`mprun.statement.expression`).
    """

    name: str
    description: str
    hosts: Mapping[str, HostSpec]
    traffic: tuple[Flow, ...]
    captures: tuple[Capture, ...]
    expectations: tuple[Expectation, ...]
    probe_pings: int
    seed: int
    calibrate: bool = False
    vary: tuple[Variation, ...] = ()
    repeat: Repeat = Repeat()
    links: tuple[tuple[str, str], ...] = ()
    samples: Mapping[Series, int] = field(default_factory=dict)
    plots: tuple[Plot, ...] = ()
    across: tuple[str, ...] = ()


@dataclass(frozen=True)
class Spec:
    """A topology and an experiment that fit together."""

    topology: TopologySpec
    experiment: ExperimentSpec
