# SPDX-License-Identifier: Apache-2.0
"""The entry of an OpenFlow switch."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from mprun.inputs.keys.field import TIME_SCHEMA, Time, parsed
from mprun.inputs.keys.file_model import FileModel
from mprun.model import units
from mprun.model.spec import Controller, FlowMatch, Forwarding, HashedBy, OpenFlow
from mprun.model.units import NS_PER_S

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


OfctlLine = Annotated[str, *parsed(_parse_line, {"type": "string"})]
IdleTimeout = Annotated[int, *parsed(_parse_idle_timeout, TIME_SCHEMA)]


class ControllerEntry(FileModel):
    """The controller of a reactive switch."""

    delay_ns: Time = Field(0, alias="delay")
    """The one-way delay between switch and controller. The first packet of a flow waits twice this delay."""
    idle_timeout_s: IdleTimeout = Field(10, alias="idle_timeout", json_schema_extra={"default": "10s"})
    """The time after which the switch removes a flow without packets. 0s keeps flows for ever."""
    match: FlowMatch = "connection"
    """The definition of a flow. `connection`: packets with the same addresses, protocol and ports. `hosts`: packets
    with the same MAC addresses of both hosts."""


class OpenFlowEntry(FileModel):
    """An Open vSwitch instead of a Linux bridge."""

    mode: Forwarding | None = None
    """The treatment of a packet that matches none of `flows`. `learning`: send it to the port on which its destination
    was seen, else to all ports. `multipath`: send it over one of the shortest paths. `reactive`: ask the controller.
    `flows`: drop it. Default: reactive if a controller is given, else flows if flows are given, else learning."""
    flows: list[OfctlLine] = Field([], examples=[["in_port=path0,actions=output:server0"]])
    """Flows in the syntax of ovs-ofctl(8), with names of links instead of ports."""
    groups: list[OfctlLine] = Field([], examples=[["group_id=1,type=select,bucket=output:path0,bucket=output:path1"]])
    """Groups in the syntax of ovs-ofctl(8)."""
    hash: HashedBy | None = None
    """The fields that choose the path of a packet in mode `multipath`. `connection`: addresses, protocol and ports.
    `addresses`: only the addresses. `datapath`: the kernel's own hash of the packet. Default: connection."""
    controller: ControllerEntry | None = None
    """The controller in mode `reactive`."""

    def resolve(self) -> OpenFlow:
        mode: Forwarding = self.mode or ("reactive" if self.controller else "flows" if self.flows else "learning")
        controller = (self.controller or ControllerEntry.model_validate({})).fill(Controller)
        return self.fill(
            OpenFlow,
            mode=mode,
            hashed_by=self.hash or "connection",
            controller=controller if mode == "reactive" else None,
        )
