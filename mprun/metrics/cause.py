# SPDX-License-Identifier: Apache-2.0
"""Causes of a shortfall: why a flow got less than its best path carries. Pure.

CAUSES lists them in the order in which they are asked. The first with evidence is the answer. At most the whole rate of
the best path is missing at the time of a sample. So a limit of samples is named only if its share of the samples is at
least half of the missing share of the rate.

Packets that the queue of any path drops fill buffers and windows too, as later data waits for them. So a queue that is
too short comes first, unless the file gives the size that was full, or the program had nothing to send. If samples show
no full buffer or window, only a short queue of a best path is a cause.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field

from mprun.metrics.diagnosis import is_left_alone
from mprun.metrics.evidence import Evidence
from mprun.metrics.flow_group import join_intervals
from mprun.metrics.limitation import ConnectionState, Limit
from mprun.model.frozen import Frozen
from mprun.model.intent import AddressedFlow, FlowPath
from mprun.model.network import LinkWay
from mprun.model.spec import BUFFERS, HEADER_BYTES
from mprun.model.units import SIZE, TIME
from mprun.workloads.tool import Portion, Result, tool_of

# With this share of its rate, a best path was used well.
GOOD = 0.9
# Fewer samples do not show a limit.
LEAST_SAMPLES = 5
# A limit must account for at least this part of the missing share.
LEAST_PART = 0.5
# A limit in fewer samples may be chance.
LEAST_SHOWN = 3
# A size is no limit if it is larger than the size in use by this factor. The window is half of its buffer.
NO_LIMIT = 4
# A buffer of the largest size that a file allows has at least this share of it. Others may grow.
LEAST_GROWN = 0.8
# A queue below this share of the BDP lets a flow fall short of the rate.
SHORT_QUEUE = 0.5
# So few packets that are sent again end slow start early, but fill no buffer or window.
FEW_RESENT = 5
# A window that grows by less than this share in a third of a flow does not grow.
GROWN = 0.01
# A time without payload that is longer than waiting for a retransmission.
LEAST_STOP_NS = 500_000_000
# The default buffers of usrsctp.
_LIBRARY_BYTES = {"send_buffer_bytes": 1 << 18, "receive_buffer_bytes": 1 << 17}
# A way back with this share of the rate carries all acknowledgements.
LEAST_REVERSE = 1 / 20
# The headers of a frame with IPv4, TCP with timestamps, and MPTCP.
HEADERS_BYTES = 86
# The limits that can be a cause.
LIMITS: tuple[Limit, ...] = ("buffer", "window", "scheduler")


class UsedPath(Frozen):
    """A path of a flow in the direction of its data.

    - rate: on the wire, in bit/s.
    - there, back: the links that data crosses, and those that acknowledgements cross.
    - resent: the packets that the flow sent again on it; None if they are not counted.
    - is_backup: its subflow is a backup; None without a subflow.
    """

    path: FlowPath
    rate: float
    there: Sequence[LinkWay]
    back: Sequence[LinkWay] = ()
    resent: int | None = None
    is_backup: bool | None = False

    @property
    def bdp_bytes(self) -> float:
        return self.rate * self.path.rtt_ns / 8e9

    @property
    def is_disturbed(self) -> bool:
        return disturb(self.there)


def disturb(ways: Iterable[LinkWay]) -> bool:
    """Return whether the file asks for losses, or for packets out of order, on one of these links."""
    found = (one.way for one in ways)
    return any(way.loss or way.duplicate or way.corrupt or way.reorder or way.jitter for way in found)


class Shortfall(Frozen):
    """A flow that got less than its best path carries, with the evidence of the cause.

    - told: the begin of the sentence: the flow and what it got.
    - is_forward: the client sends the data.
    - paths: the paths that the flow may use. A flow that is not of MPTCP has one.
    - efficiency: the payload of the flow, divided by what the best path carries.
    - span_ns: begin and end of the time that counts.
    - result: of its tool, with the payload over time.
    - is_unusual: headers, handshake and slow start explain less than what is missing.
    - drops: the packets that the queue of each direction of a link dropped.
    - limits: the limit that each sample shows, with the state of its connection. Sockets of SCTP are not sampled.
    - sharing: the paths that share the flow's buffers, if they are more than `paths`.
    """

    flow: AddressedFlow
    told: str
    is_forward: bool
    paths: Sequence[UsedPath]
    efficiency: float
    span_ns: tuple[float, float]
    result: Result
    evidence: Evidence
    is_unusual: bool = True
    drops: Mapping[tuple[str, str], int] = field(default_factory=dict)
    limits: Sequence[tuple[Limit, ConnectionState]] = ()
    sharing: Sequence[UsedPath] = ()

    @property
    def hosts(self) -> tuple[str, str]:
        """The sender and the receiver."""
        ends = self.flow.source, self.flow.destination
        return ends if self.is_forward else ends[::-1]

    @property
    def counters(self) -> list[Mapping[str, int]]:
        return [self.evidence.agent.counters_of(host) for host in self.hosts]

    @property
    def portions(self) -> Sequence[Portion]:
        return self.result.portions.get("goodput", ())

    @property
    def fastest(self) -> list[UsedPath]:
        """The paths with the highest rate."""
        rate = max(one.rate for one in self.paths)
        return [one for one in self.paths if one.rate == rate]

    @property
    def best(self) -> list[UsedPath]:
        """The fastest paths that get data: the congestion window of a backup has room, whatever holds the data back."""
        return [one for one in self.fastest if not one.is_backup] or self.fastest

    @property
    def names(self) -> str:
        return " and ".join(one.path.name for one in self.best)

    @property
    def counts(self) -> Counter[Limit]:
        return Counter(limit for limit, _ in self.limits)

    @property
    def has_few_samples(self) -> bool:
        return self.flow.protocol != "sctp" and len(self.limits) < LEAST_SAMPLES

    @property
    def shown(self) -> Limit | None:
        """The limit that enough samples show: one of LIMITS, or a program with nothing to send; None without one."""
        counts = self.counts
        # one path needs no scheduler
        limit = max(LIMITS if len(self.paths) > 1 else LIMITS[:2], key=lambda name: counts[name])
        limit = "program" if counts["program"] >= counts[limit] else limit
        return limit if len(self.limits) >= LEAST_SAMPLES and counts[limit] >= self.least_samples else None

    @property
    def least_samples(self) -> float:
        return max(LEAST_PART * (1 - self.efficiency) * len(self.limits), LEAST_SHOWN)

    @property
    def own_key(self) -> str:
        """The key of the flow that fixes its buffers, so that the hosts' sysctls have no effect; empty without one."""
        keys = ("window", "send_buffer", "receive_buffer")
        return next((key for key in keys if f"{key}_bytes" in self.flow.options), "")

    def mean(self, name: str) -> float:
        """Return the mean of a value over the samples that show the limit."""
        states = [state for limit, state in self.limits if limit == self.shown]
        return float(sum(getattr(state, name) or 0 for state in states)) / len(states)

    @property
    def mtu(self) -> int:
        return min(one.link.mtu for one in self.best[0].there)


def _explain_unused(it: Shortfall) -> str | None:
    names = " and ".join(one.path.name for one in it.fastest)
    if all(one.is_backup is None for one in it.fastest):
        return f"it has no subflow on {names}"
    if all(one.is_backup is not False for one in it.fastest) and any(one.is_backup is False for one in it.paths):
        what = "is a backup, which gets" if len(it.fastest) == 1 else "are backups, which get"
        return f"{names} {what} data only after the other paths have failed"
    return None


def _explain_fallback(it: Shortfall) -> str | None:
    if not is_left_alone(*it.counters):
        return None
    sender, receiver = it.hosts
    return (
        f"{receiver} has fallen back to TCP and {sender} still uses MPTCP: it waits for DATA_ACKs "
        "that never come, and sends acknowledged data again (docs/networks.md, strip)"
    )


def _explain_memory(it: Shortfall) -> str | None:
    pressures = sum(counted.get("TcpExtTCPMemoryPressures", 0) for counted in it.counters)
    if not pressures or it.flow.protocol == "sctp":
        return None
    return (
        f"memory: TCP came under memory pressure {pressures} times (TCPMemoryPressures), which makes "
        "buffers and windows small. Remedy: give smaller buffers"
    )


def _explain_queue(it: Shortfall) -> str | None:
    """Explain by queues that are short and dropped packets of the flow. Losses of the file are no fault of a queue."""
    short: dict[tuple[str, str], str] = {}
    is_best = False
    for used in it.paths:
        # other flows may have lost all packets that a queue dropped
        is_harmless = used.resent is not None and used.resent <= (FEW_RESENT if it.shown else 0)
        if used.is_disturbed or is_harmless:
            continue
        for one in used.there:
            queue, dropped = one.way.queue, it.drops.get((one.link.name, one.direction))
            if queue is None or not dropped or queue.discipline != "fifo":
                continue
            held_bytes = queue.size_bytes(one.link.frame_bytes)
            if held_bytes < SHORT_QUEUE * used.bdp_bytes:
                holds, needed = (size / one.link.frame_bytes for size in (held_bytes, used.bdp_bytes))
                packets = "1 packet" if holds == 1 else f"{holds:.3g} packets"
                is_best = is_best or used in it.best
                short[one.link.name, one.direction] = (
                    f"the queue of '{one.link.name}' {one.direction} holds {packets} and dropped {dropped}, "
                    f"and the path's BDP is {needed:.0f} packets"
                )
    may_be_queue = is_best or it.shown or it.has_few_samples
    if not short or not it.is_unusual or not may_be_queue or it.shown == "program" or _is_given(it):
        return None
    return f"{'; '.join(short.values())}. Remedy: write 'queue: 1bdp'"


def _explain_calm(it: Shortfall) -> str | None:
    """Explain by the timer or the buffers of SCTP, whose sockets are not sampled, if nothing else can limit the flow.

    No packet was lost or overtaken, and the links carry all acknowledgements, so no congestion window stays small.
    """
    [used, *_], flow = it.best, it.flow
    has_way_back = all((one.way.rate_bit_per_s or math.inf) >= LEAST_REVERSE * used.rate for one in used.back)
    is_calm = has_way_back and not disturb((*used.there, *used.back)) and not _count_drops(it)
    if flow.protocol != "sctp" or not it.evidence.is_simulated or not is_calm:
        return None
    timeouts = round(it.result.values.get("timeouts", 0))
    half_bytes = min(int(str(flow.options.get(name, size))) for name, size in _LIBRARY_BYTES.items()) / 2
    # a longer timer does not help a buffer that holds less than the path
    is_short = flow.options.get("send_buffer_bytes", math.inf) < used.bdp_bytes
    if timeouts and it.efficiency * used.bdp_bytes < half_bytes and not is_short:
        return (
            f"its retransmission timer (T3-rtx) expired {timeouts} times in all, although no packet was lost. Each "
            f"time its congestion window falls to one packet: {_compare(it)}. Remedy: give '{flow.name}' 'rto_min: 60s'"
        )
    # the burst of a round trip counts in one third of the flow or the next
    begin_ns, end_ns = it.span_ns
    growth = 1 + max(GROWN, used.path.rtt_ns / (end_ns - begin_ns))
    if timeouts or it.efficiency * used.rate < growth * rate_of(it.portions, 2 * begin_ns - end_ns, begin_ns):
        return f"its buffers were full, as no packet was lost: {_compare(it)}. Remedy: {_enlarge(it)}"
    return None


def _explain_limit(it: Shortfall) -> str | None:
    """Explain by the buffer, the receive window or the scheduler that samples show."""
    limit = it.shown
    if limit not in LIMITS:
        return None
    seen = f"in {it.counts[limit]} of {len(it.limits)} samples"
    room = f"{it.names} had room in {'its congestion window' if len(it.best) == 1 else 'their congestion windows'}"
    waits, flying = (_spell(it.mean(name)) for name in ("unsent_bytes", "flying_bytes"))
    if limit == "scheduler":
        free = "neither a buffer nor the receive window was full"
        name = it.evidence.intent.mptcp_of(it.hosts[0]).scheduler
        return f"scheduler {name}: {seen} {room}, {waits} waited, and {free}"
    told = f"its receive window was full {seen}: {waits} waited, and {flying} was under way"
    if limit == "buffer":
        buffer, held = it.mean("buffer_bytes"), it.mean("held_bytes")
        sizes = f" ({_spell(held)} held, of {_spell(buffer)})" if buffer else ""
        told = f"its send buffer was full {seen}: {room}, and all data written had been sent{sizes}"
    return f"{told}; {_compare(it)}. Remedy: {_enlarge(it)}" if len(it.paths) == 1 else f"{told}. {_advise(it)}"


def _tell_program(it: Shortfall) -> str | None:
    if len(it.limits) < LEAST_SAMPLES or it.counts["program"] < it.least_samples:
        return None
    return f"its program had nothing to send in {it.counts['program']} of {len(it.limits)} samples"


def _tell_stop(it: Shortfall) -> str | None:
    """Name the longest time without any payload, if it accounts for half of what is missing."""
    first_ns, last_ns = it.span_ns
    empty = ((max(one.begin_ns, first_ns), min(one.end_ns, last_ns)) for one in it.portions if not one.size_bytes)
    begin_ns, end_ns = max(join_intervals(empty), key=lambda span: span[1] - span[0], default=(0.0, 0.0))
    if end_ns - begin_ns < max(LEAST_STOP_NS, LEAST_PART * (1 - it.efficiency) * (last_ns - first_ns)):
        return None
    # netperfmeter does not count what the kernel's SCTP sends again
    may_wait = it.flow.protocol == "sctp" and it.result.values.get("retransmits") != 0
    timer = ": a chunk that is lost again waits for a timer of 1 s or more (docs/sctp.md)" if may_wait else ""
    return f"nothing arrived from {begin_ns / 1e9:.2f} s to {end_ns / 1e9:.2f} s{timer}"


def _tell_few_samples(it: Shortfall) -> str | None:
    if not it.has_few_samples:
        return None
    few = f"too few samples of its sockets ({len(it.limits)})"
    return f"no cause found: {few}; write 'sample: {{sockets: 10ms}}', or let it last longer"


def _tell_nothing(it: Shortfall) -> str:
    full = f"the congestion window on {it.names} was full in {it.counts['congestion']} of {len(it.limits)} samples"
    if it.limits and it.best[0].is_disturbed:
        return f"{full}, and losses or reordered packets, which the file asks for there, make it smaller"
    examined = ["queue", "send buffer", "receive window", "memory", "scheduler"][: 5 if len(it.paths) > 1 else 4]
    # sockets of SCTP are not sampled
    examined = ["queue", "buffers", "timer"] if it.flow.protocol == "sctp" else examined
    among = f"no cause found among {', '.join(examined[:-1])} and {examined[-1]}"
    dropped = f"queues on its paths dropped {_count_drops(it)} packets"
    return f"{among}: {full}; {dropped}" if it.limits else f"{among}; {dropped}"


# Each cause, in their order, and whether it is a fault to warn of. A note is no fault of the network or the settings.
CAUSES: Sequence[tuple[Callable[[Shortfall], str | None], bool]] = (
    (_explain_unused, False),
    (_explain_fallback, True),
    (_explain_memory, True),
    (_explain_queue, True),
    (_explain_calm, True),
    (_explain_limit, True),
    (_tell_program, False),
    (_tell_stop, False),
    (_tell_few_samples, False),
    (_tell_nothing, False),
)


def find_cause(it: Shortfall) -> tuple[str, bool]:
    """Return the cause of a shortfall as a sentence, and whether to warn of it."""
    return next((text, is_warning) for explain, is_warning in CAUSES if (text := explain(it)))


def _count_drops(it: Shortfall) -> int:
    ways = {(one.link.name, one.direction) for used in it.paths for one in (*used.there, *used.back)}
    return sum(it.drops.get(way, 0) for way in ways)


def _limit_sizes(it: Shortfall) -> tuple[Sequence[int], float]:
    """Return the sizes that the file gives for the limit, and the largest size that may have limited the flow."""
    is_buffer = it.shown == "buffer"
    host, name = [*zip(it.hosts, BUFFERS, strict=True)][not is_buffer]
    sizes = dict(it.evidence.intent.host(host).sysctl).get(name, "").split()
    known = tuple(map(int, sizes)) if len(sizes) == 3 and all(map(str.isdecimal, sizes)) else ()
    in_use = it.mean("buffer_bytes") if is_buffer else 0
    return known, NO_LIMIT * (in_use or 2 * it.mean("flying_bytes"))


def _is_given(it: Shortfall) -> bool:
    """Return whether the file gives the size of the buffer or window that was full."""
    if it.shown not in ("buffer", "window"):
        return False
    sizes, most = _limit_sizes(it)
    return bool(it.own_key) or bool(sizes and LEAST_GROWN * sizes[-1] <= most / NO_LIMIT)


def _advise(it: Shortfall) -> str:
    """Return the remedy for a buffer or window of several paths, without values that were larger already."""
    if it.own_key:
        return f"Remedy: raise or remove '{it.own_key}' of the flow"
    is_buffer, (sender, receiver) = it.shown == "buffer", it.hosts
    setting = f"net.ipv4.tcp_wmem of {sender}" if is_buffer else f"net.ipv4.tcp_rmem of {receiver}"
    page = f"(docs/mptcp.md, {'send buffer' if is_buffer else 'receive window'})"
    sizes, most = _limit_sizes(it)
    if not sizes or sizes[-1] <= most:
        return f"Remedy: raise {setting}{', its middle value too' if is_buffer else ''} {page}"
    if sizes[1] <= most:
        return f"Remedy: raise the middle value of {setting} {page}"
    return f"{setting} allows more already {page}"


def rate_of(portions: Iterable[Portion], begin_ns: float, end_ns: float) -> float:
    """Return the rate of payload between two times, bit/s."""
    total = 0.0
    for one in portions:
        shared_ns = min(one.end_ns, end_ns) - max(one.begin_ns, begin_ns)
        if shared_ns > 0:
            total += one.size_bytes * shared_ns / (one.end_ns - one.begin_ns)
    return total * 8e9 / (end_ns - begin_ns) if end_ns > begin_ns else 0.0


def _compare(it: Shortfall) -> str:
    """Return what the flow had under way on its only path, and what this path holds."""
    [used, *_] = it.best
    flying, held = (_spell(size) for size in (it.efficiency * used.bdp_bytes, used.bdp_bytes))
    return f"{flying} in a round trip of {TIME.render(used.path.rtt_ns)}, and the path holds {held}"


def _enlarge(it: Shortfall) -> str:
    """Return the lines that give the buffers of a flow the size of two BDPs of all its paths at the longest delay."""
    flow, fields, (sender, receiver) = it.flow, tool_of(it.flow).Entry.model_fields, it.hosts
    paths = it.sharing or it.paths
    longest_ns = max(one.path.rtt_ns for one in paths)
    least_bytes = math.ceil(2 * sum(one.rate for one in paths) * longest_ns / 8e9)
    least = SIZE.render(least_bytes)
    core = "net.core.wmem_max and net.core.rmem_max of both hosts"
    if flow.tool == "netperfmeter" and flow.protocol == "sctp":
        # an association announces half of the buffer that its server's socket has from the start
        return (
            f"give '{flow.name}' 'send_buffer: {least}', allow it by net.core.wmem_max of '{sender}', and give "
            f"'{receiver}' 'sysctl: {{net.core.rmem_default: {2 * least_bytes}}}'"
        )
    if "send_buffer_bytes" in fields:
        allow = f", and allow them by {core}" if flow.tool == "netperfmeter" else ""
        # a slow path fills a shared buffer
        split = ", with 'buffer_splitting: both'" if len(paths) > 1 else ""
        return f"give '{flow.name}' 'send_buffer: {least}' and 'receive_buffer: {least}'{split}{allow}"
    if "window_bytes" in flow.options or flow.protocol == "sctp":
        return f"give '{flow.name}' 'window: {least}', and allow it by {core}"
    return (
        f"give '{receiver}' 'sysctl: {{net.ipv4.tcp_rmem: 4096 131072 {least_bytes}}}', and "
        f"'{sender}' net.ipv4.tcp_wmem alike"
    )


def tell_headers(mtu: int) -> str:
    """Return the end of a sentence that names the headers, if they take much of a small MTU; else nothing."""
    headers = share_of_headers(mtu)
    told = f"; headers take {headers:.0%} of each frame, as the MTU is {mtu} bytes".replace("%", " %")
    return told if headers > 1 - GOOD else ""


def share_of_headers(mtu: int) -> float:
    return min(1.0, HEADERS_BYTES / (mtu + HEADER_BYTES))


def _spell(size_bytes: float) -> str:
    return f"{size_bytes / 1e6:.3g} MB" if size_bytes >= 1e6 else f"{size_bytes / 1e3:.3g} kB"
