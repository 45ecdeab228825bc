# SPDX-License-Identifier: Apache-2.0
"""Spec: the user's input, checked, with every default and parameter filled in and every unit known.

The input stage hands these values to `allocate`. They contain no file name and nothing of the machine. Two files with
the same meaning give equal values. Times are integer nanoseconds. Rates are integer bit/s on the wire (Ethernet
frame, no preamble). Sizes are bytes, and probabilities 0..1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import Any, Literal

from mprun.model.discipline import DISCIPLINES, DisciplineName, OptionValue
from mprun.model.frozen import Frozen
from mprun.model.grouping import gather
from mprun.model.search_space import Search

NodeKind = Literal["host", "router", "switch"]
Protocol = Literal["tcp", "mptcp", "udp", "sctp", "quic", "icmp"]
Family = Literal["ipv4", "ipv6"]
Addressing = Literal["ipv4", "ipv6", "both"]
QueueUnit = Literal["packets", "bytes", "time", "bdp"]
Distribution = Literal["uniform", "normal", "pareto", "paretonormal"]
Forwarding = Literal["learning", "flows", "multipath", "reactive"]
HashedBy = Literal["connection", "addresses", "datapath"]
FlowMatch = Literal["connection", "hosts"]
Refusal = Literal["drop", "reject"]
# Options of RFC 8684. `mptcp` means all of them.
StrippedOption = Literal["mptcp", "mp_capable", "mp_join", "dss", "add_addr"]
AlteredOption = Literal["mp_capable", "mp_join", "add_addr"]

FAMILIES: tuple[Family, ...] = ("ipv4", "ipv6")
TITLES: Mapping[Family, str] = {"ipv4": "IPv4", "ipv6": "IPv6"}


def families_of(addressing: Addressing) -> tuple[Family, ...]:
    """The address families of an addressing, IPv4 first."""
    return FAMILIES if addressing == "both" else (addressing,)


DEFAULT_MTU = 1500
# RFC 8200 section 5: every link that carries IPv6 has at least this MTU.
IPV6_LEAST_MTU = 1280
# Ethernet's header. tc and captures count it, but not the checksum.
HEADER_BYTES = 14

# The sysctls of TCP's buffers: the least, the first and the largest size.
BUFFERS = ("net.ipv4.tcp_wmem", "net.ipv4.tcp_rmem")

# The series that can be sampled during a run, see `experiment.SampleEntry`.
SampleKind = Literal["interfaces", "queues", "sockets", "cpu"]
# Figures over the time of a run, and the forms of figures.
SeriesName = Literal[
    "rate",
    "goodput",
    "rtt",
    "cwnd",
    "in_flight",
    "queue",
    "interfaces",
    "link_rate",
    "delay",
    "completion",
    "buffer",
    "quality",
    "sequence",
    "one_way_delay",
]
PlotForm = Literal["line", "step", "stack", "points", "cdf", "bar", "box", "heat"]

PathManagerName = Literal["default", "fullmesh", "in-order", "ndiffports"]
# The flags of an endpoint, ip-mptcp(8).
EndpointFlag = Literal["subflow", "signal", "fullmesh", "backup"]

# MPTCP_PM_ADDR_MAX in the kernel's net/mptcp/protocol.h limits a connection and a host.
MAX_ADDITIONAL_SUBFLOWS = MAX_ENDPOINTS = 8

# Variations that follow from the seed, in addition to the kernel's random numbers: `mprun.compile.variation`.
Variation = Literal["start", "wire"]
VARIATIONS: tuple[Variation, ...] = ("start", "wire")


class Queue(Frozen):
    """The capacity of a queue: whole packets, bytes or ns at the link's rate, or BDPs of the path.

    `options`: the options of the discipline that the file sets, see `discipline.DISCIPLINES`.
    """

    amount: int | float
    unit: QueueUnit
    discipline: DisciplineName = "fifo"
    options: Mapping[str, OptionValue] = field(default_factory=dict, hash=False)

    @property
    def counts_bytes(self) -> bool:
        """Return True if the resolved limit is in bytes and not in packets."""
        return (DISCIPLINES[self.discipline].counts or self.unit) in ("bytes", "time")

    @property
    def limit(self) -> int:
        """The limit of a queue that `allocate` has sized, in packets or bytes."""
        return int(self.amount)

    def size_bytes(self, frame_bytes: int) -> int:
        """Return the bytes of the full frames, or the bytes, that a sized queue holds."""
        return self.limit * (frame_bytes if self.unit == "packets" else 1)


ONE_BDP = Queue(1.0, "bdp")


class Jitter(Frozen):
    """Variation of the delay (tc-netem(8)). correlation: with the delay of the previous packet, 0..1."""

    amount_ns: int
    correlation: float = 0.0
    distribution: Distribution = "uniform"


class Chance(Frozen):
    """A random event of a packet. correlation: with the event of the previous packet, 0..1; only for losses."""

    probability: float
    correlation: float = 0.0

    @property
    def mean(self) -> float:
        return self.probability


class GilbertElliott(Frozen):
    """Two states. p: from good to bad. r: from bad to good. bad_loss (1-h), good_loss (1-k): the loss in each state.

    `model`: the name of the model, see `discipline.LOSS_MODELS`. Its probabilities are the fields in their order.
    """

    model = "gemodel"

    p: float
    r: float
    bad_loss: float = 1.0
    good_loss: float = 0.0

    @property
    def mean(self) -> float:
        """The share of packets lost in the long run."""
        bad = self.p / (self.p + self.r) if self.p else 0.0
        return bad * self.bad_loss + (1 - bad) * self.good_loss


class FourState(Frozen):
    """A Markov chain: 1 received in a gap, 2 received in a burst, 3 lost in a burst, 4 lost alone."""

    model = "state"

    p13: float
    p31: float
    p32: float
    p23: float
    p14: float

    @property
    def mean(self) -> float:
        """The share of packets lost in the long run: the stationary probability of states 3 and 4."""
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


class Reorder(Frozen):
    """Packets that are sent immediately while others wait for the delay.

    `gap`: after such a packet, gap - 1 packets wait. Then each packet is sent immediately with the probability p, until
    one is. The share of such packets is p / (1 + (gap - 1) p) (netem_enqueue() in net/sched/sch_netem.c).
    """

    probability: float
    gap: int = 1


class Direction(Frozen):
    """A direction of a link. rate None: as fast as the machine. queue None: the default."""

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
        """Return True if the delay and loss stage has anything to do."""
        return self.delay_ns > 0 or any((self.loss, self.duplicate, self.corrupt))

    @property
    def is_shaped(self) -> bool:
        return self.rate_bit_per_s is not None or self.is_delayed


class LinkSpec(Frozen):
    """A link between two nodes. Forward is from `ends[0]` to `ends[1]`.

    `addresses`: the interface addresses of the two ends with prefix length ("10.0.0.1/24"), at most one of each
    family. Missing addresses are derived.
    `mtu`: bytes of an IP packet.
    `addressing`: None for the topology's.
    """

    name: str
    ends: tuple[str, str]
    forward: Direction = Direction()
    reverse: Direction = Direction()
    backup: bool = False
    addresses: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    mtu: int = DEFAULT_MTU
    addressing: Addressing | None = None

    @property
    def is_shaped(self) -> bool:
        return self.forward.is_shaped or self.reverse.is_shaped


class LinkChange(Frozen):
    """The state of a link from a time on, counted from time zero: both directions in full.

    A link that is not up carries nothing, as if its cable were unplugged.
    """

    at_ns: int
    link: str
    forward: Direction
    reverse: Direction
    is_up: bool = True


class AddressChange(Frozen):
    """A host loses the address that it has on a link, or gets it back. Its MPTCP endpoint goes with the address."""

    at_ns: int
    host: str
    link: str
    is_there: bool


Rebound = Literal["port", "address"]


class Rebinding(Frozen):
    """From a time on, a NAT gives the packets of a host's address on a link another port, or another source address."""

    at_ns: int
    host: str
    link: str
    rebound: Rebound


Change = LinkChange | AddressChange | Rebinding


class Controller(Frozen):
    """A switch's connection to its controller, and the flows that the controller installs.

    `delay_ns`: one-way delay between switch and controller.
    `match`: the fields that the packets of a flow share: addresses and ports, or the two hosts.
    `idle_timeout_s`: a flow without packets is removed after this time; 0: never.
    """

    delay_ns: int = 0
    idle_timeout_s: int = 10
    match: FlowMatch = "connection"


class OpenFlow(Frozen):
    """An Open vSwitch.

    `mode`: the treatment of a packet that matches none of `flows`.
    `flows`, `groups`: in the syntax of ovs-ofctl(8), with names of links as ports.
    `hashed_by`: the fields that choose among several paths (multipath).
    `controller`: the controller of a reactive switch.
    """

    mode: Forwarding
    flows: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    hashed_by: HashedBy = "connection"
    controller: Controller | None = None

    @property
    def is_flooding(self) -> bool:
        """Return True if a packet to an unknown address leaves by every port."""
        return self.mode in ("learning", "reactive")


class Nat(Frozen):
    """Source NAT: a packet that comes in on a link of `inside` and leaves on another has the router's address (RFC
    3022).
    """

    inside: tuple[str, ...]


class Firewall(Frozen):
    """Connections can be opened only from the links of `inside`. refuse: the answer to others, or none."""

    inside: tuple[str, ...]
    refuse: Refusal = "drop"


class SequenceRewriter(Frozen):
    """Every sequence number is replaced. sack: also in SACK blocks (RFC 2018)."""

    sack: bool = True


class Proxy(Frozen):
    """TCP connections end at the router, which opens new ones. ports: ports of servers; empty for all."""

    ports: tuple[int, ...] = ()


class Middlebox(Frozen):
    """The functions of a router besides forwarding. strip: TCP options to remove. alter: TCP options to change."""

    nat: Nat | None = None
    firewall: Firewall | None = None
    strip: tuple[StrippedOption, ...] = ()
    alter: tuple[AlteredOption, ...] = ()
    rewrite_sequence: SequenceRewriter | None = None
    proxy: Proxy | None = None


class TopologySpec(Frozen):
    """Nodes in the order of the file, links, and changes in the order of time.

    `name`: for people (the file's stem).
    `middleboxes`: by the name of their router.
    `switches`: the switches that are an Open vSwitch; the others are bridges.
    `addressing`: for links without their own.
    `ecmp`: routers choose among equally short paths for each flow, else for each subnet.
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

    def families_of(self, link: LinkSpec) -> tuple[Family, ...]:
        """The address families of a link, IPv4 first."""
        return families_of(link.addressing or self.addressing)

    def carries(self, link: LinkSpec, family: Family) -> bool:
        """Return True if packets of a family may cross a link. Between two switches, all packets may."""
        return family in self.families_of(link) or all(self.nodes[end] == "switch" for end in link.ends)

    def links_at(self, node: str) -> Sequence[LinkSpec]:
        """The links that end at a node."""
        return self._at.get(node, ())

    @cached_property
    def _at(self) -> Mapping[str, Sequence[LinkSpec]]:
        return gather((end, link) for link in self.links for end in link.ends)


class Endpoint(Frozen):
    """An address for the kernel's path manager: the address of the host's interface on a link."""

    link: str
    flags: tuple[EndpointFlag, ...]


class Mptcp(Frozen):
    """A host's MPTCP settings.

    `path_manager`: the path manager that opens subflows.
    - `default`: only the subflows of `endpoints` (passive).
    - `fullmesh`: one for each pair of addresses.
    - `in-order`: one from the client's n-th address to the peer's n-th.
    - `ndiffports`: several between the first pair of addresses, from different ports.

    `subflows_per_pair`: the number of subflows for each pair.
    `subflows`, `add_addr_accepted`: `ip mptcp limits`; None: the limits that the topology needs.
    """

    path_manager: PathManagerName = "default"
    scheduler: str = "default"
    subflows: int | None = None
    add_addr_accepted: int | None = None
    subflows_per_pair: int = 1
    endpoints: tuple[Endpoint, ...] = ()

    @property
    def is_in_user_space(self) -> bool:
        """Return True if a program opens the subflows.

        The kernel opens at most one per pair of addresses, and from each address to all addresses or to one.
        """
        return self.subflows_per_pair > 1 or self.path_manager in ("in-order", "ndiffports")


class HostSpec(Frozen):
    """Settings of one host. sysctl: (name, value) in the order of the file.

    congestion: (link, congestion control) of TCP connections and MPTCP subflows from the host's address on the link.
    """

    mptcp: Mptcp = Mptcp()
    sysctl: tuple[tuple[str, str], ...] = ()
    congestion: tuple[tuple[str, str], ...] = ()


class After(Frozen):
    """An event of another flow or group: its first start or its last end. flow: the name of the flow or group."""

    flow: str
    of: Literal["start", "end"] = "end"


class FlowRepetition(Frozen):
    """The number of repetitions of a flow, and the time between them: interval_ns from start to start, or pause_ns
    from end to start.
    """

    times: int
    interval_ns: int | None = None
    pause_ns: int | None = None


class Flow(Frozen):
    """An entry of `traffic`.

    `start_ns`: from time zero, or from the event in `after`.
    `options`: the options that only the tool knows, as its model gives them, with units in their names (ping: count,
    interval_ns, size_bytes).
    `duration_ns`: None if the tool ends by itself.
    `family`: of the connection; None: IPv6 if both hosts have it, else IPv4.
    `timeout_ns`: None for the tool's default.
    `port`: None for the next free port.
    `congestion`: the congestion control of its connections; None for the hosts'.
    `background`: the flow is left out of sums over flows.
    `group`: the name under which the flow is measured together with others; None for no group.
    `repetition`: set only until `mprun.inputs.traffic.expand` has made a flow of each repetition.
    """

    name: str
    tool: str
    source: str
    destination: str
    protocol: Protocol
    start_ns: int
    duration_ns: int | None
    options: Mapping[str, Any]
    family: Family | None = None
    after: After | None = None
    timeout_ns: int | None = None
    port: int | None = None
    congestion: str | None = None
    background: bool = False
    group: str | None = None
    repetition: FlowRepetition | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the flow's repetitions: `bulk-1`, `bulk-2`. Its own name if it is not repeated."""
        if self.repetition is None:
            return (self.name,)
        return tuple(f"{self.name}-{k}" for k in range(1, self.repetition.times + 1))


class Capture(Frozen):
    """Packets of a node, of all its interfaces or of the interface on `link`. snaplen 0: whole packets. filter:
    pcap-filter(7).

    `size_bytes`: the largest size of the file. `keep` says if the first or the last packets are kept.
    """

    node: str
    snaplen: int = 0
    filter: str = ""
    link: str | None = None
    size_bytes: int | None = None
    keep: Literal["first", "last"] = "first"

    @property
    def name(self) -> str:
        """The stem of the capture's file."""
        return self.node if self.link is None else f"{self.node}-{self.link}"


# The kind of the TCP option of MPTCP (RFC 8684).
MPTCP_OPTION = 30
FaultAction = Literal["drop", "delay", "duplicate", "strip"]


class PacketFault(Frozen):
    """A fault of a packet that arrives at a node over a link.

    - packet: its number among the packets that arrive there, from 1. ICMP does not count.
    - by_ns: the delay of the packet, or the time until its duplicate arrives.
    - option: the kind of the TCP option that is removed.
    """

    node: str
    link: str
    packet: int
    action: FaultAction = "drop"
    by_ns: int = 0
    option: int = 0


class Expectation(Frozen):
    """A bound on a metric, in the metric's base unit (bit/s, s, 1). `equals` is exact."""

    metric: str
    minimum: float | None = None
    maximum: float | None = None
    equals: float | None = None


class Until(Frozen):
    """Repeat until the interval of a metric's mean is narrow enough.

    `confidence`: 0.95 or 0.99.
    `within`: half the interval's width, as a share of the mean.
    """

    metric: str
    confidence: float
    within: float


class Reseed(Frozen):
    """A change of the kernel's random numbers during a run: those of another seed, from a time after time zero on."""

    at_ns: int
    seed: int


class Repeat(Frozen):
    """The number of runs of each cell of a sweep: at least `least`, and at most `most` while `until` does not hold.

    `vary`: the variations that follow from the seed of each repetition.
    """

    least: int = 1
    most: int = 1
    until: Until | None = None
    vary: tuple[Variation, ...] = VARIATIONS


class Plot(Frozen):
    """A figure of a report: a series over the time of a run, or a metric over the cells of a sweep.

    `flow`: the flow of a series or a table; None for all.
    `table`, `column`: in place of a series, a column of a table of the user's own programs.
    `over`: the axis of the matrix along the figure.
    `by`: an axis with a line or colour for each value.
    `facet`: an axis with a plot for each value.
    `form`: None for the first form that fits.
    `log`: axes of the figure with a logarithmic scale.
    `x_title`, `y_title`: in place of the names of the axes. The unit follows.
    `names`: (name, text) pairs; the figure shows the text in place of the name.
    `width_um`: of the PDF; None for a paper's column.
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
    table: str | None = None
    column: str | None = None
    x_title: str = ""
    y_title: str = ""
    names: tuple[tuple[str, str], ...] = ()
    width_um: int | None = None

    @property
    def is_over_time(self) -> bool:
        """True if it shows a run, and not the cells of a sweep."""
        return self.metric is None


class Attachment(Frozen):
    """A file or folder that goes into a run, as an archive (`mprun.inputs.attachment`).

    `name`: under which programs find it.
    `sha256`, `size_bytes`: of the archive.
    `source`: the path of the user's file or folder, or of the archive if `is_archive`.
    """

    name: str
    sha256: str
    size_bytes: int
    source: str
    is_archive: bool = False

    @property
    def path(self) -> str:
        """The path of the archive, relative to the folder of a run's inputs."""
        return path_of_attachment(self.sha256)


def path_of_attachment(sha256: str) -> str:
    """Return the path of an archive with this digest, relative to the folder of a run's inputs."""
    return f"files/{sha256[:16]}.tar"


class ExperimentSpec(Frozen):
    """The traffic and the measurements on a topology.

    `probe_pings`: idle pings per path before time zero.
    `calibrate`: measure each link before the run.
    `vary`: the variations that follow from the seed in this run.
    `repeat`: for sweeps; a run is one repetition.
    `links`: names of links to files of the newest run, each with a pattern relative to the run.
    `samples`: the interval of each series that the file names, in ns.
    `plots`: of the report; empty for all plots with data.
    `across`: statements that must hold across the cells of a sweep (`mprun.statements.expression`).
    `attachments`: the files that go into the run.
    `show`: the metrics that the table of a sweep shows; empty for the main ones.
    `faults`: the faults of single packets.
    `reseed`: the change of the random numbers during the run.
    `tracepoints`: the trace events of the kernel to record, as names or patterns.
    `search`: the conditions that a search varies; a run ignores them.
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
    samples: Mapping[SampleKind, int] = field(default_factory=dict)
    plots: tuple[Plot, ...] = ()
    across: tuple[str, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    show: tuple[str, ...] = ()
    faults: tuple[PacketFault, ...] = ()
    reseed: Reseed | None = None
    tracepoints: tuple[str, ...] = ()
    search: Search | None = None

    def mptcp_of(self, host: str) -> Mptcp:
        """The MPTCP settings of a host."""
        return self.hosts.get(host, HostSpec()).mptcp


class Spec(Frozen):
    """A topology and an experiment that fit together."""

    topology: TopologySpec
    experiment: ExperimentSpec
