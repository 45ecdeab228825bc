# SPDX-License-Identifier: Apache-2.0
"""The properties of a link, written by the user or by a generator."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Annotated, Any

from pydantic import Field

from mprun.inputs.keys.field import MTU, Rtt, parsed
from mprun.inputs.keys.file_model import FileModel, KeyProblem
from mprun.inputs.keys.impairment import ChanceBoth, DelayBoth, JitterBoth, LossBoth, QueueBoth, RateBoth, ReorderBoth
from mprun.inputs.keys.profile import PROFILES
from mprun.model.distribution import SHAPES, largest_amount_ns, least_delay_ns
from mprun.model.problem import ValuePath, tell_unknown
from mprun.model.spec import DEFAULT_MTU, HEADER_BYTES, Addressing, Chance, Direction, Jitter, LinkSpec, Queue, Reorder
from mprun.model.units import DELAY, MOST_QUEUE_BYTES


def _parse_profile(value: object) -> str:
    if not isinstance(value, str) or value not in PROFILES:
        raise ValueError(tell_unknown("profile", value, PROFILES))
    return value


ProfileName = Annotated[str, *parsed(_parse_profile, {"enum": list(PROFILES)})]

# The keys of the fields of Direction whose names have a unit.
_KEYS = {"rate_bit_per_s": "rate", "delay_ns": "delay"}


class DirectionProperties(FileModel):
    """Properties that may differ by direction and change over time. A value applies to both directions, or each
    direction has its own.
    """

    ELSEWHERE = dict.fromkeys(
        ("for", "at", "over", "step", "every", "until", "state"), "stands beside 'set', not in it"
    ) | dict.fromkeys(("backup", "mtu"), "is fixed for a run: write it at the link, and remove it here")
    rate: RateBoth | None = None
    """The rate in bits per second on the wire. A link, or a direction of it, without a rate is as fast as the
    machine."""
    delay: DelayBoth | None = None
    """The one-way delay of each direction."""
    rtt: Rtt | None = None
    """The round-trip delay, split evenly between the directions. Use it instead of `delay`."""
    jitter: JitterBoth | None = None
    """The variation of the delay. Packets may overtake each other."""
    loss: LossBoth | None = None
    """The loss of packets: independent and random, by the Gilbert-Elliott model, or by a model of four states."""
    duplicate: ChanceBoth | None = None
    """The share of packets that arrive twice."""
    corrupt: ChanceBoth | None = None
    """The share of packets with one flipped bit."""
    reorder: ReorderBoth | None = None
    """The share of packets that are sent immediately, without delay."""
    queue: QueueBoth | None = None
    """The queue in front of the rate stage, in packets, bytes (64kb is 65536), time or BDPs. It holds at least one full
    frame. A change of the rate leaves the packets that it holds: 50ms at 10mbit are 250ms at 2mbit. Default: one BDP of
    the path, at least 20 packets."""

    def find_conflicts(self) -> Iterator[KeyProblem]:
        if self.rtt is not None and self.delay is not None:
            yield "rtt", "conflicts with 'delay': remove one of the two"

    def given(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the values of this entry by field of Direction: forward, reverse. A zero chance or jitter is None."""
        values = {one.name: getattr(self, _KEYS.get(one.name, one.name)) for one in fields(Direction)}
        if self.rtt is not None:
            values["delay_ns"] = (self.rtt // 2, self.rtt // 2)
        forward, reverse = (
            {
                name: None if _is_nothing(both[n]) else both[n]
                for name, both in values.items()
                if both and both[n] is not None
            }
            for n in (0, 1)
        )
        return forward, reverse

    def over(self, base: tuple[Direction, Direction]) -> tuple[Direction, Direction]:
        """Return `base`, forward and reverse, with the values of this entry."""
        forward, reverse = (replace(way, **values) for way, values in zip(base, self.given(), strict=True))
        return forward, reverse


def _is_nothing(value: object) -> bool:
    if isinstance(value, Jitter):
        return value.amount_ns == 0
    return isinstance(value, Chance | Reorder) and value.probability == 0


def find_disagreements(forward: Direction, reverse: Direction, frame_bytes: int) -> dict[ValuePath, str]:
    """Problems of properties that need another property, by the key of the problem. A queue of bytes needs a frame."""
    problems: dict[ValuePath, str] = {}
    for direction, lacks, other, has in (
        (forward, "forward", reverse, "reverse"),
        (reverse, "reverse", forward, "forward"),
    ):
        if direction.queue is not None and direction.rate_bit_per_s is None:
            problems[("queue",)] = (
                "has no effect without a rate: give the link a 'rate' or remove 'queue'"
                if other.rate_bit_per_s is None
                else f"has no effect in {lacks}, which has no rate: write one, or a queue as in '{{{has}: 100packets}}'"
            )
        elif direction.queue is not None and direction.rate_bit_per_s and direction.queue.unit == "bytes":
            problems |= _refuse_queue(direction.queue, direction.rate_bit_per_s, frame_bytes)
        if message := _explain_cut_jitter(direction):
            problems[("jitter",)] = message
        if direction.reorder is not None and not direction.delay_ns:
            problems[("reorder",)] = "has no effect without a delay: give the link a 'delay'"
    return problems


def _explain_cut_jitter(direction: Direction) -> str | None:
    """The reason why netem would cut the distribution of a jitter off at zero. None if the delay is long enough."""
    jitter, delay_ns = direction.jitter, direction.delay_ns
    if jitter is None or least_delay_ns(jitter) <= delay_ns:
        return None
    if not delay_ns:
        return "varies a delay of zero, and nothing arrives before it was sent: raise 'delay'"
    if jitter.distribution == "uniform":
        return "is more than the delay, and nothing arrives before it was sent: raise 'delay'"
    below, most_us = SHAPES[jitter.distribution].below, largest_amount_ns(jitter.distribution, delay_ns) // 1000
    most, least = DELAY.render(most_us * 1000), DELAY.render(least_delay_ns(jitter))
    return (
        f"reaches {below:.3g} amounts below the delay with '{jitter.distribution}', and nothing arrives before it was "
        f"sent: write at most {most}, or raise 'delay' to {least}"
    )


def _refuse_queue(queue: Queue, rate: int, frame_bytes: int) -> dict[ValuePath, str]:
    """The problem of a queue of bytes or time that no frame would pass, or that Linux cannot have. Empty if it can.

    A queue of some time always holds at least one frame, as rates may change.
    """
    held_bytes = queue.amount * (rate / 8e9 if queue.unit == "time" else 1)
    if held_bytes > MOST_QUEUE_BYTES:
        return {("queue",): f"holds {held_bytes:.0f} bytes, and Linux counts 4 GB at most: write it in packets"}
    if held_bytes >= frame_bytes:
        return {}
    least = f"{frame_bytes}bytes"
    if queue.unit == "time":
        least = f"{math.ceil(frame_bytes * 8000 / rate)}ms"
    text = f"holds {held_bytes:.0f} bytes, and no full frame of {frame_bytes} would pass: write '{least}' or more"
    return {("queue",): text}


class LinkProperties(DirectionProperties):
    """Rate, delay, loss and all other properties of a link."""

    ELSEWHERE = dict.fromkeys(("trace",), "is an event: write 'events: [{link: NAME, trace: ...}]'")
    profile: ProfileName | None = Field(None, examples=["4g-lte"])
    """A named set of properties. Forward is the uplink. Other keys of the link override the profile."""
    mtu: Annotated[int, MTU] = DEFAULT_MTU
    """The size of the largest IP packet in bytes."""
    backup: bool = False
    """Give subflows over this link the backup flag. They are used only if no other subflow works."""
    addressing: Addressing | None = None
    """The addresses of the link's ends: IPv4, IPv6 or both. Default: the topology's `addressing`."""

    def find_conflicts(self) -> Iterator[KeyProblem]:
        ways = self.directions()
        problems = self.find_problems(*ways)
        yield from super().find_conflicts()
        for way in ways:
            if way.queue is not None and way.rate_bit_per_s and way.queue.unit == "time":
                problems = _refuse_queue(way.queue, way.rate_bit_per_s, self.mtu + HEADER_BYTES) | problems
        yield from problems.items()

    def find_problems(self, forward: Direction, reverse: Direction) -> dict[ValuePath, str]:
        """Problems of properties that need another property, by the key of the problem."""
        return find_disagreements(forward, reverse, self.mtu + HEADER_BYTES)

    def directions(self) -> tuple[Direction, Direction]:
        """Return the link forward and reverse, with the values of its profile."""
        return self.over(PROFILES[self.profile].directions if self.profile else (Direction(), Direction()))

    def has_idle_profile(self) -> bool:
        """Return True if the other keys replace all values of the profile."""
        return self.profile is not None and self.directions() == self.over((Direction(), Direction()))

    def join(
        self, name: str, ends: tuple[str, str], addresses: tuple[str | None, str | None] = (None, None)
    ) -> LinkSpec:
        """Return the link of this kind between two nodes. addresses: IPv4 addresses; the IPv6 addresses follow them."""
        forward, reverse = self.directions()
        first, second = (() if address is None else (address,) for address in addresses)
        return LinkSpec(name, ends, forward, reverse, self.backup, (first, second), self.mtu, self.addressing)


# The properties of a link that is as fast as the machine.
UNSHAPED = LinkProperties.model_construct()
