# SPDX-License-Identifier: Apache-2.0
"""Make trains of frames that measure the delay, loss, rate and queue of each link.

Each direction of each link is measured alone. The network of the measurement carries nothing else and is not that of
the run, so the results of a run are the same with and without it. This module decides the times of the frames.
`metrics.calibration` computes the properties of the link from their arrivals.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from mprun.compile.planner import compile_plan
from mprun.model.capabilities import Capabilities
from mprun.model.correlation import burstiness, inflation
from mprun.model.frozen import Frozen
from mprun.model.network import LinkWay, Network
from mprun.model.plan import Plan, Train
from mprun.model.spec import Direction, Spec
from mprun.model.units import NS_PER_S

SMALL_BYTES = 64
# The offered rate as a share of the link's rate. A link that is too fast shows only above 1.
OVERLOAD = 1.2


class TrainLimits(Frozen):
    """The length of trains.

    - jitter_frames: the frames that measure a delay with jitter.
    - rate_frames, rate_ns: the least number of frames, and the least time, that measure a rate.
    - longest_ns: the longest time of a train; None for no limit.
    - most_frames: the largest number of frames of a train.
    """

    jitter_frames: int
    rate_frames: int
    rate_ns: int
    longest_ns: int | None
    most_frames: int


# In simulated time waiting takes no real time, and timers are exact.
SIMULATED = TrainLimits(jitter_frames=8_000, rate_frames=400, rate_ns=0, longest_ns=None, most_frames=400_000)
REAL = TrainLimits(
    jitter_frames=2_000, rate_frames=200, rate_ns=400_000_000, longest_ns=10 * NS_PER_S, most_frames=200_000
)


def compile_calibration(spec: Spec, network: Network, capabilities: Capabilities) -> Plan:
    """Return a plan that builds the network of time zero and measures it. spec: as `silence` returns it."""
    limits = SIMULATED if capabilities.is_simulated else REAL
    plan = compile_plan(spec, replace(network, paths={}, changes=(), switches={}), capabilities)
    shaped = [one for link in network.links for one in link.ways if one.way.is_shaped]
    trains = tuple(train for one in shaped for train in _trains(one, limits))
    # a switch would take what arrives at its ports before it could be counted there
    build = tuple(command for command in plan.build if "master" not in command.argv)
    return replace(plan, build=build, trains=trains)


def silence(spec: Spec) -> Spec:
    """Return a spec of the same network without traffic, measurements, faults and variations."""
    quiet = replace(
        spec.experiment,
        traffic=(),
        captures=(),
        expectations=(),
        probe_pings=0,
        vary=(),
        faults=(),
        reseed=None,
        tracepoints=(),
    )
    return replace(spec, experiment=quiet)


def _trains(measured: LinkWay, limits: TrainLimits) -> Iterator[Train]:
    """Yield the trains that measure a direction of a link."""
    link, way, sender, receiver = measured.link, measured.way, measured.sender, measured.receiver

    def train(kind: str, count: int, frame_bytes: int, batch: int, gap_ns: int) -> Train:
        if limits.longest_ns is not None and gap_ns:
            count = min(count, max(batch, limits.longest_ns // gap_ns * batch))
        return Train(
            link=link.name,
            direction=measured.direction,
            kind=kind,
            node=sender.node,
            interface=sender.name,
            peer_node=receiver.node,
            peer_interface=receiver.name,
            peer_mac=receiver.mac,
            count=min(count, limits.most_frames),
            frame_bytes=frame_bytes,
            batch=batch,
            gap_ns=gap_ns,
            tail_ns=_tail_ns(way, link.frame_bytes),
        )

    rate = way.rate_bit_per_s
    small_ns = math.ceil(SMALL_BYTES * 8 * NS_PER_S / rate) if rate else 1_000
    lost = way.loss.mean if way.loss else 0.0
    delays = 100 if way.reorder else 20
    if way.jitter:
        delays = round(min(20_000, limits.jitter_frames * inflation(way.jitter.correlation)))
    if lost < 1:
        yield train("delay", math.ceil(delays / (1 - lost)), SMALL_BYTES, 1, max(2 * small_ns, 1_000_000))
    queue = _queue_frames(way, link.frame_bytes)
    if way.loss:
        # a quarter of the rate, and no more at once than the queue holds with room to spare
        batch = max(1, min(16, queue // 4)) if rate else 16
        gap_ns = 4 * batch * small_ns
        if way.jitter and rate:
            gap_ns = max(gap_ns, 8 * batch * way.jitter.amount_ns // max(queue, 1))
        yield train("loss", math.ceil(100 / lost * burstiness(way.loss)), SMALL_BYTES, batch, gap_ns)
    if rate and lost < 0.9:
        frame_ns = link.frame_bytes * 8 * NS_PER_S / rate
        frames = max(limits.rate_frames, math.ceil(limits.rate_ns / frame_ns))
        if way.jitter:
            frames = max(frames, math.ceil(200 * way.jitter.amount_ns / frame_ns))
        offered = OVERLOAD / (1 - lost)
        batch = max(1, min(16, math.ceil(limits.rate_ns and 200_000 / frame_ns)))
        yield train("rate", math.ceil(frames * offered), link.frame_bytes, batch, round(batch * frame_ns / offered))
        if _is_countable(way):
            yield train("queue", min(queue + max(20, queue // 10), limits.most_frames), link.frame_bytes, queue * 2, 0)


def _is_countable(way: Direction) -> bool:
    """Check whether a burst shows the size of a queue: it drops from its tail, and all frames reach it at once."""
    disturbed = (way.jitter, way.loss, way.duplicate, way.reorder, way.corrupt)
    return way.queue is not None and way.queue.discipline == "fifo" and not any(disturbed)


def _queue_frames(way: Direction, frame_bytes: int) -> int:
    return 0 if way.queue is None else way.queue.size_bytes(frame_bytes) // frame_bytes


def _tail_ns(way: Direction, frame_bytes: int) -> int:
    """Return the time from the last sending until all frames must have arrived: delay, jitter and a full queue."""
    jitter_ns = 6 * way.jitter.amount_ns if way.jitter else 0
    queue_ns = 0
    if way.rate_bit_per_s:
        queue_ns = (_queue_frames(way, frame_bytes) + 4) * frame_bytes * 8 * NS_PER_S // way.rate_bit_per_s
    return 50_000_000 + way.delay_ns + jitter_ns + queue_ns
