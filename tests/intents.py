# SPDX-License-Identifier: Apache-2.0
"""Intents and their parts with only what a test says of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mprun.model.intent import AddressedFlow, FlowEnds, FlowPath, Intent
from mprun.model.network import Interface, Link
from mprun.model.spec import Direction


def intent(**parts: Any) -> Intent:
    """Return an intent without nodes, links, flows, captures and changes but those given."""
    nothing = dict.fromkeys(("nodes", "links", "traffic", "captures", "changes"), ())
    return Intent(**{**nothing, "hosts": {}, "seed": 1, **parts})


def flow(paths: Sequence[FlowPath] = (), **parts: Any) -> AddressedFlow:
    """Return a flow over MPTCP from `client` to `server`."""
    given = {"name": "bulk", "tool": "iperf3", "source": "client", "destination": "server", "protocol": "mptcp"}
    timing: dict[str, Any] = {"start_ns": 0, "duration_ns": None, "options": {}}
    return AddressedFlow(
        **{**given, **timing, "endpoints": FlowEnds("10.0.0.1", "10.1.0.1"), "paths": tuple(paths), **parts}
    )


def path(name: str, links: Sequence[str] = (), source: str = "", destination: str = "", **parts: Any) -> FlowPath:
    """Return a path over these links."""
    return FlowPath(name, source, destination, tuple(links), **parts)


def link(name: str, ends: tuple[str, str], forward: Direction, reverse: Direction) -> Link:
    """Return a link between two nodes."""
    a, b = (Interface(f"{end}-{name}", end, name, "", (), False, 0) for end in ends)
    return Link(name, (a, b), forward, reverse, 1500, None)
