# SPDX-License-Identifier: Apache-2.0
"""The entry of an OpenFlow switch."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, PlainValidator, WithJsonSchema

from mprun.model import units
from mprun.model.spec import Controller, FlowMatch, Forwarding, HashedBy, OpenFlow
from mprun.model.units import NS_PER_S
from mprun.schema.field import TIME_SCHEMA, Time
from mprun.schema.file_model import FileModel

# OpenFlow counts idle time in 16 bits.
MOST_IDLE_S = 65_535


def _parse_line(value: object) -> str:
    if not isinstance(value, str) or not value.strip() or "\n" in value or value.lstrip().startswith("#"):
        raise ValueError("must be a line as ovs-ofctl(8) takes it: write 'in_port=path0,actions=output:server0'")
    return " ".join(value.split())


def _parse_idle_timeout(value: object) -> int:
    ns = units.TIME.parse(value)
    if ns % NS_PER_S or ns > MOST_IDLE_S * NS_PER_S:
        raise ValueError(f"OpenFlow counts whole seconds up to {MOST_IDLE_S}s, 0s for ever: write '10s'")
    return ns // NS_PER_S


Line = Annotated[str, PlainValidator(_parse_line), WithJsonSchema({"type": "string"})]
IdleTimeout = Annotated[int, PlainValidator(_parse_idle_timeout), WithJsonSchema(TIME_SCHEMA)]


class ControllerEntry(FileModel):
    """The controller of a reactive switch."""

    delay: Time = Field(0, description="One way between switch and controller: the first packet waits twice that.")
    idle_timeout: IdleTimeout = Field(
        10,
        description="A flow without packets for so long is forgotten; 0s: never.",
        json_schema_extra={"default": "10s"},
    )
    match: FlowMatch = Field(
        "connection",
        description="What the packets of a flow share: addresses, protocol and ports, or the two hosts' MAC addresses.",
    )


class OpenFlowEntry(FileModel):
    """An Open vSwitch in place of a Linux bridge."""

    mode: Forwarding | None = Field(
        None,
        description=(
            "What becomes of a packet that none of `flows` matches. learning: sent where its address was seen, else"
            " everywhere; multipath: sent by one of all equally short ways; reactive: the controller is asked;"
            " flows: dropped. Default: flows where there are any, reactive where a controller is given, else learning."
        ),
    )
    flows: list[Line] = Field(
        [],
        description="Flows as ovs-ofctl(8) takes them, links' names for ports.",
        examples=[["in_port=path0,actions=output:server0"]],
    )
    groups: list[Line] = Field(
        [],
        description="Groups as ovs-ofctl(8) takes them.",
        examples=[["group_id=1,type=select,bucket=output:path0,bucket=output:path1"]],
    )
    hash: HashedBy | None = Field(
        None,
        description=(
            "What decides the way of a packet in mode multipath. connection: addresses, protocol and ports (default);"
            " addresses: those alone; datapath: the kernel's own hash of the packet."
        ),
    )
    controller: ControllerEntry | None = Field(None, description="The controller of mode reactive.")

    def resolve(self) -> OpenFlow:
        mode: Forwarding = self.mode or ("reactive" if self.controller else "flows" if self.flows else "learning")
        entry = self.controller or ControllerEntry()  # type: ignore[call-arg]  # pydantic's defaults
        return OpenFlow(
            mode=mode,
            flows=tuple(self.flows),
            groups=tuple(self.groups),
            hashed_by=self.hash or "connection",
            controller=Controller(entry.delay, entry.idle_timeout, entry.match) if mode == "reactive" else None,
        )
