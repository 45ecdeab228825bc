# SPDX-License-Identifier: Apache-2.0
"""Find out why a flow over one path got less than the path carries: a short queue, a buffer or a window. Pure.

Only the last third of a flow counts, and only if slow start is over by then. The flow must send as fast as it can, and
no change, middlebox or choice of ways may be on its path. A queue that dropped packets is the cause if it is shorter
than half the BDP. Otherwise, the samples of TCP's sockets show what was full. Sockets of other transports are not
sampled. There the buffers are the cause if no packet was lost and the rate is constant, or a timer that expired.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from mprun.metrics.capacity import cross, find_capacity
from mprun.metrics.evidence import Evidence
from mprun.metrics.flow_group import join_intervals
from mprun.metrics.limitation import GOOD, LEAST_PART, LEAST_SAMPLES, PACKET_BYTES
from mprun.metrics.readings import Readings
from mprun.model.frozen import Frozen
from mprun.model.intent import AddressedFlow, FlowPath
from mprun.model.network import LinkWay
from mprun.model.units import SIZE, TIME
from mprun.workloads.tool import Portion, Result, tool_of

if TYPE_CHECKING:
    import polars

# Headers of a packet with all options that a transport uses.
MOST_HEADERS_BYTES = 100
# The smallest growth of a window in a round trip of slow start, from the smallest first window (RFC 9260 7.2.1).
GROWTH, FIRST_BYTES = 1.5, 4380
# A queue below this share of the BDP lets a flow fall short of the rate.
SHORT_QUEUE = 0.5
# A window that grows by less than this share in a third of a flow does not grow.
GROWN = 0.01
# A window counts as full if this share of it is in use.
FULL = 0.95
# A time without payload that is longer than waiting for a retransmission.
LEAST_STOP_NS = 500_000_000
# The default buffers of usrsctp.
_LIBRARY_BYTES = {"send_buffer_bytes": 1 << 18, "receive_buffer_bytes": 1 << 17}
# A way back with this share of the rate carries all acknowledgements.
LEAST_REVERSE = 1 / 20
# Flows of these tools leave nearly the whole rate to other flows.
_LIGHT = ("ping",)
_OF_SOCKETS = (
    *("snd_cwnd_packets", "unacked_packets", "notsent_bytes", "snd_wnd_bytes"),
    *("bytes_sent", "bytes_retransmitted", "bytes_acked"),
)


class _Scene(Frozen):
    """A flow that got less than its path carries.

    - rate: of the path, in bit/s.
    - got, before: the payload in the last and in the second third, in bit/s.
    - there, back: the links that data crosses, and those that acknowledgements cross.
    - begin_ns, end_ns: the last third, from time zero.
    """

    flow: AddressedFlow
    path: FlowPath
    rate: float
    got: float
    before: float
    there: Sequence[LinkWay]
    back: Sequence[LinkWay]
    begin_ns: float
    end_ns: float

    @property
    def bdp_bytes(self) -> float:
        return self.rate * self.path.rtt_ns / 8e9

    @property
    def sender(self) -> str:
        return self.flow.destination if self.flow.options.get("reverse") else self.flow.source

    @property
    def receiver(self) -> str:
        return self.flow.source if self.flow.options.get("reverse") else self.flow.destination

    @property
    def is_disturbed(self) -> bool:
        return disturb((*self.there, *self.back))


def disturb(ways: Iterable[LinkWay]) -> bool:
    """Return whether the file asks for losses, or for packets out of order, on one of these links."""
    found = (one.way for one in ways)
    return any(way.loss or way.duplicate or way.corrupt or way.reorder or way.jitter for way in found)


def explain_shortfall(
    flow: AddressedFlow, results: Mapping[str, Result], tables: Mapping[str, polars.DataFrame], evidence: Evidence
) -> Readings:
    """Explain why a flow got less than its path carries: a warning if a cause is known, else a note."""
    scene = _find_scene(flow, results, evidence)
    if scene is None:
        return Readings()
    told = (
        f"{flow.name}: {scene.got / 1e6:.3g} of {scene.rate / 1e6:.4g} Mbit/s on {scene.path.name} in its last third: "
    )
    drops = count_drops(tables)
    if cause := None if scene.is_disturbed else explain_queues([(scene.there, scene.bdp_bytes)], drops):
        return Readings(warnings=(told + cause,))
    samples = list(_find_samples(scene, tables))
    if flow.protocol in ("tcp", "mptcp"):
        counts = Counter(_judge(*one) for one in samples)
        what = max(("window", "buffer"), key=lambda name: counts[name])
        if len(samples) >= LEAST_SAMPLES and counts[what] >= LEAST_PART * len(samples):
            name = "receive window" if what == "window" else "send buffer"
            seen = f"its {name} was full in {counts[what]} of {len(samples)} samples"
            return Readings(warnings=(told + _explain_buffers(scene, seen),))
    elif evidence.is_simulated and _has_lost_nothing(scene, drops):
        expired = round(results[flow.name].values.get("timeouts", 0))
        # a longer timer does not help a buffer that holds less than the path
        is_short = flow.options.get("send_buffer_bytes", math.inf) < scene.bdp_bytes
        if expired and _has_small_window(scene) and not is_short:
            return Readings(warnings=(told + _explain_timer(scene, expired),))
        if expired or not _has_grown(scene):
            return Readings(warnings=(told + _explain_buffers(scene, "its buffers were full, as no packet was lost"),))
    if flow.group is not None or scene.is_disturbed:
        # a file that asks for losses explains itself; a group may have hundreds of members, so they get no notes
        return Readings()
    few = len(samples) < LEAST_SAMPLES and flow.protocol in ("tcp", "mptcp")
    if few and not evidence.expects(flow.name):
        return Readings()
    more = "; write 'sample: {sockets: 10ms}'" if few else f"; queues on its path dropped {_sum(drops, scene)} packets"
    cause = _explain_stop(scene, results[flow.name])
    return Readings(notes=(f"{told}{cause or 'no cause found among queue, buffers and receive window'}{more}",))


def _find_scene(flow: AddressedFlow, results: Mapping[str, Result], evidence: Evidence) -> _Scene | None:
    """Return the flow's last third; None if the flow did not fall short, or is none that can be judged."""
    intent, options = evidence.intent, flow.options
    mine = results[flow.name].portions.get("goodput", ()) if flow.name in results else ()
    is_greedy = flow.protocol in ("tcp", "mptcp", "sctp") and "rate_bit_per_s" not in options
    is_one = flow.protocol != "mptcp" or len(flow.paths) == 1
    if not mine or not is_greedy or not is_one or options.get("bidirectional"):
        return None
    is_forward = not options.get("reverse")
    paths = flow.paths if options.get("cmt", "off") != "off" else flow.paths[:1]
    capacity = find_capacity(intent, replace(flow, paths=paths), is_forward)
    touched = {change.link for change in intent.changes} | {fault.link for fault in intent.faults}
    if capacity is None or any(one.ways > 1 or one.middleboxes or touched & {*one.links} for one in paths):
        return None
    path = next(one for one in paths if one.name in capacity.best_paths)
    begin_ns = min(one.begin_ns for one in mine)
    end_ns = min(max(one.end_ns for one in mine), begin_ns + (flow.duration_ns or math.inf))
    there, back = (list(cross(intent, flow, path, way)) for way in (is_forward, not is_forward))
    first_ns, late_ns = (begin_ns + (end_ns - begin_ns) * n / 3 for n in (1, 2))
    before, got = _rate_of(mine, first_ns, late_ns), _rate_of(mine, late_ns, end_ns)
    scene = _Scene(flow, path, capacity.best, got, before, there, back, late_ns, end_ns)
    rounds = math.log(max(1.0, scene.bdp_bytes / FIRST_BYTES), GROWTH)
    if not path.rtt_ns or begin_ns + rounds * path.rtt_ns > late_ns:
        return None
    if max(one.end_ns - one.begin_ns for one in mine) > (end_ns - begin_ns) / 3:
        return None
    mtu = min(one.link.mtu for one in there)
    others = _rate_of_others(scene, results, evidence)
    least = GOOD * capacity.best * (mtu - MOST_HEADERS_BYTES) / (mtu + MOST_HEADERS_BYTES)
    return scene if scene.got + others < least else None


def _rate_of(portions: Sequence[Portion], begin_ns: float, end_ns: float) -> float:
    """Return the rate of payload between two times, bit/s."""
    total = 0.0
    for one in portions:
        shared_ns = min(one.end_ns, end_ns) - max(one.begin_ns, begin_ns)
        if shared_ns > 0:
            total += one.size_bytes * shared_ns / (one.end_ns - one.begin_ns)
    return total * 8e9 / (end_ns - begin_ns) if end_ns > begin_ns else 0.0


def _rate_of_others(scene: _Scene, results: Mapping[str, Result], evidence: Evidence) -> float:
    """Return the payload of other flows on links of the path, in bit/s; infinite if it is not known."""
    links, total = set(scene.path.links), 0.0
    for other in evidence.intent.traffic:
        if other.name == scene.flow.name or other.tool in _LIGHT or other.name not in results:
            continue
        if links.isdisjoint(link for path in other.paths for link in path.links):
            continue
        spans = [
            (one.started_ns - (evidence.agent.zero_ns or 0), one.ended_ns - (evidence.agent.zero_ns or 0))
            for one in evidence.agent.ended("flow", other.name).values()
        ]
        if not any(begin_ns < scene.end_ns and end_ns > scene.begin_ns for begin_ns, end_ns in spans):
            continue
        portions = [one for some in results[other.name].portions.values() for one in some]
        total += _rate_of(portions, scene.begin_ns, scene.end_ns) if portions else math.inf
    return total


def _name(one: LinkWay) -> tuple[str, str]:
    return one.link.name, one.direction


def count_drops(tables: Mapping[str, polars.DataFrame]) -> Counter[tuple[str, str]]:
    """Return the packets that the queue of each direction of a link dropped."""
    drops: Counter[tuple[str, str]] = Counter()
    if "queues" in tables:
        for link, direction, packets in tables["queues"].select("link", "direction", "drops_packets").iter_rows():
            drops[link, direction] = max(drops[link, direction], packets or 0)
    return drops


def _sum(drops: Counter[tuple[str, str]], scene: _Scene) -> int:
    return sum(drops[_name(one)] for one in (*scene.there, *scene.back))


def explain_queues(paths: Iterable[tuple[Iterable[LinkWay], float]], drops: Counter[tuple[str, str]]) -> str | None:
    """Return the sentence for short queues that dropped, or None. paths: the data's links, and the BDP in bytes."""
    short: dict[tuple[str, str], str] = {}
    for there, bdp_bytes in paths:
        for one in there:
            queue, dropped = one.way.queue, drops[_name(one)]
            if queue is None or not dropped or queue.discipline != "fifo":
                continue
            held_bytes = queue.size_bytes(one.link.frame_bytes)
            if held_bytes < SHORT_QUEUE * bdp_bytes:
                holds, needed = (size / one.link.frame_bytes for size in (held_bytes, bdp_bytes))
                packets = "1 packet" if holds == 1 else f"{holds:.3g} packets"
                short[_name(one)] = (
                    f"the queue of '{one.link.name}' {one.direction} holds {packets} and dropped {dropped}, "
                    f"and the path's BDP is {needed:.0f} packets"
                )
    return f"{'; '.join(short.values())}. Remedy: write 'queue: 1bdp'" if short else None


def _explain_stop(scene: _Scene, result: Result) -> str | None:
    """Return the sentence for the longest time in the last third without any payload; None for a short one."""
    empty = (
        (max(one.begin_ns, scene.begin_ns), min(one.end_ns, scene.end_ns))
        for one in result.portions["goodput"]
        if not one.size_bytes
    )
    begin_ns, end_ns = max(join_intervals(empty), key=lambda span: span[1] - span[0], default=(0.0, 0.0))
    if end_ns - begin_ns < LEAST_STOP_NS:
        return None
    timer = ": a chunk that is lost again waits for a timer of 1 s or more (docs/sctp.md)"
    said = f"nothing arrived from {begin_ns / 1e9:.2f} s to {end_ns / 1e9:.2f} s"
    # netperfmeter does not count what the kernel's SCTP sends again
    may_wait = scene.flow.protocol == "sctp" and result.values.get("retransmits") != 0
    return said + (timer if may_wait else "")


def _find_samples(scene: _Scene, tables: Mapping[str, polars.DataFrame]) -> Iterator[tuple[int, ...]]:
    """Yield the values of the sender's sockets at each moment of the last third."""
    if "sockets" in tables:
        mine = tables["sockets"].filter(flow=scene.flow.name, host=scene.sender)
        for at_ns, *values in mine.select("time_ns", *_OF_SOCKETS).iter_rows():
            # older kernels do not report all values
            if scene.begin_ns <= at_ns < scene.end_ns and None not in values:
                yield tuple(values)


def _judge(cwnd: int, unacked: int, unsent: int, window: int, sent: int, again: int, acked: int) -> str:
    """Return what a moment of a TCP socket shows to be full: its window, its buffer or the congestion window."""
    if sent - again - acked >= FULL * window:
        return "window"
    return "buffer" if unacked <= 0.75 * cwnd and unsent < PACKET_BYTES else "congestion"


def _has_lost_nothing(scene: _Scene, drops: Counter[tuple[str, str]]) -> bool:
    """Return whether no packet was lost or overtaken, and the links carry the acknowledgements of the whole rate."""
    has_way_back = all((one.way.rate_bit_per_s or math.inf) >= LEAST_REVERSE * scene.rate for one in scene.back)
    return has_way_back and not scene.is_disturbed and not _sum(drops, scene)


def _has_grown(scene: _Scene) -> bool:
    """Return whether the window grew: by more than the burst of a round trip, which counts in one third or the next."""
    burst = scene.path.rtt_ns / (scene.end_ns - scene.begin_ns)
    return scene.got >= (1 + max(GROWN, burst)) * scene.before


def _has_small_window(scene: _Scene) -> bool:
    """Return whether a flow of usrsctp had less than half of its buffers under way in a round trip."""
    held_bytes = min(int(str(scene.flow.options.get(name, size))) for name, size in _LIBRARY_BYTES.items())
    return scene.got * scene.path.rtt_ns / 8e9 < held_bytes / 2


def _explain_timer(scene: _Scene, expired: int) -> str:
    """Return the sentence for a retransmission timer that reduces the congestion window without a loss."""
    rtt, under_way = TIME.render(scene.path.rtt_ns), _spell(scene.got * scene.path.rtt_ns / 8e9)
    return (
        f"its retransmission timer (T3-rtx) expired {expired} times in all, although no packet was lost. Each time its "
        f"congestion window falls to one packet: {under_way} in a round trip of {rtt}, and the path holds "
        f"{_spell(scene.bdp_bytes)}. Remedy: give '{scene.flow.name}' 'rto_min: 60s'"
    )


def _explain_buffers(scene: _Scene, seen: str) -> str:
    """Return the sentence for a buffer or window that is full, with the lines that give larger ones."""
    flow, fields = scene.flow, tool_of(scene.flow).Entry.model_fields
    under_way, held = (_spell(size) for size in (scene.got * scene.path.rtt_ns / 8e9, scene.bdp_bytes))
    least_bytes = math.ceil(2 * scene.bdp_bytes)
    least = SIZE.render(least_bytes)
    core = "net.core.wmem_max and net.core.rmem_max of both hosts"
    if flow.tool == "netperfmeter" and flow.protocol == "sctp":
        # an association announces half of the buffer that its server's socket has from the start
        line = (
            f"give '{flow.name}' 'send_buffer: {least}', allow it by net.core.wmem_max of '{scene.sender}', and give "
            f"'{scene.receiver}' 'sysctl: {{net.core.rmem_default: {2 * least_bytes}}}'"
        )
    elif "send_buffer_bytes" in fields:
        line = f"give '{flow.name}' 'send_buffer: {least}' and 'receive_buffer: {least}'"
        line += f", and allow them by {core}" if flow.tool == "netperfmeter" else ""
    elif "window_bytes" in flow.options or flow.protocol == "sctp":
        line = f"give '{flow.name}' 'window: {least}', and allow it by {core}"
    else:
        line = (
            f"give '{scene.receiver}' 'sysctl: {{net.ipv4.tcp_rmem: 4096 131072 {least_bytes}}}', and "
            f"'{scene.sender}' net.ipv4.tcp_wmem alike"
        )
    rtt = TIME.render(scene.path.rtt_ns)
    return f"{seen}: {under_way} in a round trip of {rtt}, and the path holds {held}. Remedy: {line}"


def _spell(size_bytes: float) -> str:
    return f"{size_bytes / 1e6:.3g} MB" if size_bytes >= 1e6 else f"{size_bytes / 1e3:.3g} kB"
