# SPDX-License-Identifier: Apache-2.0
"""What a link can be given, whether the user writes the link or a generator does."""

from __future__ import annotations

from pydantic import Field, model_validator

from mprun.spec.field import DelayBoth, LossBoth, QueueBoth, RateBoth, Rtt
from mprun.spec.model import FileModel, refuse
from mprun.spec.spec import Direction


class LinkProperties(FileModel):
    """Rate, delay, loss and queue of a link; each holds for both directions or is given by direction."""

    rate: RateBoth | None = Field(
        None, description="Bits per second on the wire; without it the link is as fast as the machine."
    )
    delay: DelayBoth | None = Field(None, description="One-way delay of each direction.")
    rtt: Rtt | None = Field(None, description="Round-trip delay instead of `delay`, split evenly.")
    queue: QueueBoth | None = Field(
        None,
        description=(
            "What waits before the rate stage: packets, bytes (64kb is 65536), time or BDPs."
            " Default: one BDP of the path, at least 20 packets."
        ),
    )
    loss: LossBoth | None = Field(None, description="Share of packets lost at random.")
    backup: bool = Field(False, description="Subflows over this link are backup: used when no other works.")

    @model_validator(mode="after")
    def _agree(self) -> LinkProperties:
        if self.rtt is not None and self.delay is not None:
            raise refuse({("rtt",): "stands beside 'delay': keep one of the two"}, self.rtt)
        if self.queue is not None:
            rates = self.rate or (None, None)
            if any(queue is not None and rate is None for queue, rate in zip(self.queue, rates, strict=True)):
                raise refuse({("queue",): "has no rate to wait for: give the link a 'rate' or take 'queue' out"}, self)
        return self

    def directions(self) -> tuple[Direction, Direction]:
        """Forward and reverse."""
        rate = self.rate or (None, None)
        delay = self.delay or (None, None)
        if self.rtt is not None:
            delay = (self.rtt // 2, self.rtt // 2)
        loss = self.loss or (None, None)
        queue = self.queue or (None, None)
        forward, reverse = (
            Direction(rate_bit_per_s=rate[n], delay_ns=delay[n] or 0, loss=loss[n] or 0.0, queue=queue[n])
            for n in (0, 1)
        )
        return forward, reverse
