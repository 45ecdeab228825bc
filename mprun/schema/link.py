# SPDX-License-Identifier: Apache-2.0
"""What a link can be given, whether the user writes the link or a generator does."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Annotated, Any

from pydantic import Field, PlainValidator, WithJsonSchema, model_validator

from mprun.model.fault import Path, tell_unknown
from mprun.model.spec import DEFAULT_MTU, HEADER_BYTES, Addressing, Chance, Direction, Jitter, LinkSpec, Reorder
from mprun.schema.field import MTU, ChanceBoth, DelayBoth, JitterBoth, LossBoth, QueueBoth, RateBoth, ReorderBoth, Rtt
from mprun.schema.file_model import FileModel, refuse
from mprun.schema.profile import PROFILES


def _parse_profile(value: object) -> str:
    if not isinstance(value, str) or value not in PROFILES:
        raise ValueError(tell_unknown("profile", value, PROFILES))
    return value


Profile = Annotated[str, PlainValidator(_parse_profile), WithJsonSchema({"enum": list(PROFILES)})]


class DirectionProperties(FileModel):
    """What may differ by direction and change over time; each holds for both directions or is given by direction."""

    rate: RateBoth | None = Field(
        None, description="Bits per second on the wire; without it the link is as fast as the machine."
    )
    delay: DelayBoth | None = Field(None, description="One-way delay of each direction.")
    rtt: Rtt | None = Field(None, description="Round-trip delay instead of `delay`, split evenly.")
    jitter: JitterBoth | None = Field(None, description="Variation of the delay; packets may overtake each other.")
    loss: LossBoth | None = Field(
        None, description="Packets lost: at random, by Gilbert and Elliott's model, or by four states."
    )
    duplicate: ChanceBoth | None = Field(None, description="Share of packets that arrive twice.")
    corrupt: ChanceBoth | None = Field(None, description="Share of packets with one bit turned over.")
    reorder: ReorderBoth | None = Field(None, description="Share of packets that are sent at once, without delay.")
    queue: QueueBoth | None = Field(
        None,
        description=(
            "What waits before the rate stage: packets, bytes (64kb is 65536), time or BDPs."
            " Default: one BDP of the path, at least 20 packets."
        ),
    )

    def over(self, base: tuple[Direction, Direction]) -> tuple[Direction, Direction]:
        """Forward and reverse: what is said here, the rest as in `base`."""
        given: dict[str, tuple[Any, Any] | None] = {
            "rate_bit_per_s": self.rate,
            "delay_ns": self.delay if self.rtt is None else (self.rtt // 2, self.rtt // 2),
            "jitter": self.jitter,
            "loss": self.loss,
            "duplicate": self.duplicate,
            "corrupt": self.corrupt,
            "reorder": self.reorder,
            "queue": self.queue,
        }
        forward, reverse = (_lay_over(base[n], {k: both[n] for k, both in given.items() if both}) for n in (0, 1))
        return forward, reverse


def _lay_over(base: Direction, given: Mapping[str, Any]) -> Direction:
    """None is not said; a chance or a jitter of nothing takes away what the base has."""
    values = {field.name: getattr(base, field.name) for field in fields(base)}
    values |= {name: value for name, value in given.items() if value is not None}
    left: dict[str, Any] = {name: None if _is_nothing(value) else value for name, value in values.items()}
    return Direction(**left)


def _is_nothing(value: object) -> bool:
    if isinstance(value, Jitter):
        return value.amount_ns == 0
    if isinstance(value, Reorder):
        return value.probability == 0
    return isinstance(value, Chance) and value.probability == 0


def find_disagreements(forward: Direction, reverse: Direction) -> dict[Path, str]:
    """Faults of properties that ask for another one, by the key that is at fault."""
    faults: dict[Path, str] = {}
    for direction in (forward, reverse):
        if direction.queue is not None and direction.rate_bit_per_s is None:
            faults[("queue",)] = "has no rate to wait for: give the link a 'rate' or take 'queue' out"
        if direction.jitter is not None and direction.jitter.amount_ns > direction.delay_ns:
            what = "varies a delay that is not there" if not direction.delay_ns else "is more than the delay"
            faults[("jitter",)] = f"{what}, and nothing arrives before it was sent: raise 'delay'"
        if direction.reorder is not None and not direction.delay_ns:
            faults[("reorder",)] = "needs a delay that some packets do not wait for: give the link a 'delay'"
    return faults


def _explain_small_queue(direction: Direction, frame_bytes: int) -> str | None:
    """Why nothing would pass a queue of bytes or time as it was written; None if all would. As rates change, a queue of
    some time holds one frame always."""
    queue, rate = direction.queue, direction.rate_bit_per_s
    if queue is None or rate is None or queue.unit not in ("bytes", "time"):
        return None
    held_bytes = queue.amount * (rate / 8e9 if queue.unit == "time" else 1)
    if held_bytes >= frame_bytes:
        return None
    least = f"{frame_bytes}bytes"
    if queue.unit == "time":
        least = f"{math.ceil(frame_bytes * 8000 / rate)}ms"
    return f"holds {held_bytes:.0f} bytes, and no full frame of {frame_bytes} would pass: write '{least}' or more"


class LinkProperties(DirectionProperties):
    """Rate, delay, loss and all else that a link can be given."""

    profile: Profile | None = Field(
        None, description="A ready-made link; forward is up. What is said beside it holds.", examples=["4g-lte"]
    )
    mtu: Annotated[int, MTU] = Field(DEFAULT_MTU, description="Bytes of the largest IP packet.")
    backup: bool = Field(False, description="Subflows over this link are backup: used when no other works.")
    addressing: Addressing | None = Field(
        None, description="Addresses of this link's ends: IPv4, IPv6 or both. Default: as the topology's."
    )

    @model_validator(mode="after")
    def _agree(self) -> LinkProperties:
        faults = self.find_faults()
        if self.rtt is not None and self.delay is not None:
            faults[("rtt",)] = "stands beside 'delay': keep one of the two"
        for direction in self.directions():
            if message := _explain_small_queue(direction, self.mtu + HEADER_BYTES):
                faults.setdefault(("queue",), message)
        if faults:
            raise refuse(faults, self)
        return self

    def find_faults(self) -> dict[Path, str]:
        """Properties that ask for another one, by the key that is at fault."""
        return find_disagreements(*self.directions())

    def directions(self) -> tuple[Direction, Direction]:
        """Forward and reverse."""
        return self.over(PROFILES[self.profile] if self.profile else (Direction(), Direction()))

    def join(
        self, name: str, ends: tuple[str, str], addresses: tuple[str | None, str | None] = (None, None)
    ) -> LinkSpec:
        """The link of this kind that joins two nodes. addresses: IPv4, which IPv6 ones follow."""
        forward, reverse = self.directions()
        first, second = (() if address is None else (address,) for address in addresses)
        return LinkSpec(name, ends, forward, reverse, self.backup, (first, second), self.mtu, self.addressing)


# What a link has that is as fast as the machine.
UNSHAPED = LinkProperties.model_construct()
