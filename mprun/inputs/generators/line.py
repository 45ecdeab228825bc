# SPDX-License-Identifier: Apache-2.0
"""`line`: a client and a server with a chain of routers between them.

client ---- r1 ---- r2 ---- ... ---- rn ---- server
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal

from pydantic import Field

from mprun.inputs.keys.field import Whole
from mprun.inputs.keys.link import LinkProperties
from mprun.inputs.keys.topology import Expansion, GeneratedTopology
from mprun.model.spec import NodeKind


class Parameters(GeneratedTopology, LinkProperties):
    """A client and a server with a chain of routers between them. Link properties apply to each link of the chain."""

    topology: Literal["line"]
    routers: Annotated[int, Whole(1, 254, "an IP packet lives for 255 hops at most")] = Field(examples=[2])
    """The number of routers between client and server."""


def expand(parameters: Parameters) -> Expansion:
    """Return nodes and links. Links are named after their ends; addresses are derived later."""
    routers = [f"r{n + 1}" for n in range(parameters.routers)]
    chain = ["client", *routers, "server"]
    nodes: dict[str, NodeKind] = {"client": "host", **dict.fromkeys(routers, "router"), "server": "host"}
    return nodes, tuple(parameters.join(f"{a}-{b}", (a, b)) for a, b in pairwise(chain))
