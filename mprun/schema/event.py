# SPDX-License-Identifier: Apache-2.0
"""The entries of `events`: changes of a network over time.

An event sets properties of a link, takes it down or up, or takes an address from a host. It may be repeated, spread
over a time, or stand for a whole file (see `trace`).
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from mprun.model.fault import Path
from mprun.model.units import NS_PER_MS
from mprun.schema.field import Name, Time
from mprun.schema.file_model import FileModel, refuse
from mprun.schema.link import DirectionProperties

PROPERTIES = tuple(DirectionProperties.model_fields)


class EventEntry(FileModel):
    """A change of a link or of a host's address, or several."""

    at: Time = Field(0, description="When, from time zero; of a file, when it begins.", examples=["5s"])
    link: Name | None = Field(None, description="The link that changes.", examples=["path0"])
    set: DirectionProperties | None = Field(
        None, description="Properties that it has from then on.", examples=[{"loss": "100%"}]
    )
    over: Time | None = Field(None, description="Reach what is set by equal steps over this time.")
    step: Time = Field(100 * NS_PER_MS, description="Time between the steps of `over`.")
    state: Literal["down", "up", "removed", "added"] | None = Field(
        None, description="A link goes down or up; an address is removed or added."
    )
    host: Name | None = Field(None, description="The host whose address changes.")
    address: Name | None = Field(None, description="Which one: the name of the link that it is on.")
    every: Time | None = Field(None, description="Do it again after each such time, until `until`.")
    until: Time | None = Field(None, description="When repetition ends.", examples=["60s"])
    schedule: str | None = Field(None, description="A CSV file of properties over time: at,rate,delay ...")
    trace: str | None = Field(None, description="A file of rates over time.")
    format: Literal["mahimahi", "rates"] = Field("mahimahi", description="Of the trace.")
    interval: Time = Field(
        100 * NS_PER_MS, description="Of a rate trace, how long each line holds; of a mahimahi trace, how long a rate."
    )
    direction: Literal["forward", "reverse", "both"] = Field("both", description="Where the trace holds.")

    @model_validator(mode="after")
    def _agree(self) -> EventEntry:
        actions = [name for name in ("set", "state", "schedule", "trace") if getattr(self, name) is not None]
        faults: dict[Path, str] = {}
        if len(actions) != 1:
            what = "changes nothing" if not actions else f"has {' and '.join(actions)}"
            faults[()] = f"{what}: write one of 'set', 'state', 'schedule', 'trace'"
        if self.set is not None and not self.set.model_fields_set:
            faults[("set",)] = "sets nothing: write a property, as in '{loss: 100%}'"
        is_address = self.state in ("removed", "added")
        if is_address and (self.host is None or self.address is None):
            faults[("state",)] = f"an address is {self.state} of a host: write 'host: client, address: path0'"
        elif not is_address and self.link is None:
            faults[("link",)] = "is missing: write 'link: path0'"
        for name in ("every", "step", "interval"):
            value = getattr(self, name)
            if value is not None and value < NS_PER_MS:
                faults[(name,)] = "is shorter than 1ms: write a longer time"
        if self.every is not None and self.until is None:
            faults[("until",)] = "is missing: write when repetition ends, as in 'until: 60s'"
        if self.until is not None and self.every is None and self.trace is None:
            faults[("every",)] = "is missing: write the time between repetitions, as in 'every: 10s'"
        if self.until is not None and self.until <= self.at:
            faults[("until",)] = "is not after 'at': nothing would happen"
        if self.over is not None and self.set is None:
            faults[("over",)] = "spreads what is set: write 'set'"
        if self.over is not None and self.step and self.over % self.step:
            faults[("step",)] = "does not divide 'over' into equal steps"
        if faults:
            raise refuse(faults, self)
        return self
