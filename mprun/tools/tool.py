# SPDX-License-Identifier: Apache-2.0
"""What a traffic tool's module offers: argument vectors from a flow, results from its output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from mprun.capabilities import Capabilities
from mprun.plan import Process
from mprun.spec.spec import Flow


@dataclass(frozen=True)
class Endpoints:
    """Where a flow goes: addresses and the server's port."""

    source_address: str
    destination_address: str
    port: int


@dataclass(frozen=True)
class Result:
    """What a tool's output says. values: metric -> (value, unit), units bit/s, s, 1.

    data_ports: the client's TCP ports of the connections that carried the data.
    error: why there is no result, in the tool's words.
    """

    values: Mapping[str, tuple[float, str]] = field(default_factory=dict)
    data_ports: tuple[int, ...] = ()
    error: str | None = None


class Tool(Protocol):
    """One module in this folder; `TOOLS` names them."""

    @property
    def PROGRAMS(self) -> Mapping[str, str]:
        """Program -> Debian package that holds it, for the message when one is missing."""

    def servers(self, flow: Flow, ends: Endpoints, capabilities: Capabilities) -> tuple[Process, ...]:
        """What must listen before the flow starts."""

    def client(self, flow: Flow, ends: Endpoints, capabilities: Capabilities) -> Process:
        """The process that is the flow."""

    def parse(self, output: str) -> Result:
        """Read the client's output; never raises: what cannot be read is an error in the result."""
