# SPDX-License-Identifier: Apache-2.0
"""`dumbbell`: pairs of a client and a server, all over one bottleneck.

client0 ----+------+              +-------+---- server0
client1 ----| left |--bottleneck--| right |---- server1
            +------+              +-------+

The nodes are client0, client1 ..., the routers left and right, server0, server1 ... The links are
bottleneck, and one for each host with the host's name.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from mprun.inputs.generators.end_hosts import MOST_HOSTS, WHY_HOSTS, Access
from mprun.inputs.keys.field import Whole
from mprun.inputs.keys.link import LinkProperties
from mprun.inputs.keys.topology import Expansion, GeneratedTopology
from mprun.model.spec import NodeKind


class Parameters(GeneratedTopology):
    """Pairs of a client and a server over one bottleneck. Forward is from the clients to the servers on every link."""

    topology: Literal["dumbbell"]
    pairs: Annotated[int, Whole(1, MOST_HOSTS // 2, WHY_HOSTS)] = Field(examples=[2])
    """The number of pairs of a client and a server."""
    bottleneck: LinkProperties = Field(examples=[{"rate": "20mbit", "delay": "20ms"}])
    """The properties of the link that all pairs share."""
    access: Access
    """The properties of each link of a client or a server. Default: unshaped."""


def expand(parameters: Parameters) -> Expansion:
    """Return nodes and links; addresses are derived later."""
    clients = [f"client{n}" for n in range(parameters.pairs)]
    servers = [f"server{n}" for n in range(parameters.pairs)]
    nodes: dict[str, NodeKind] = {**dict.fromkeys(clients, "host"), "left": "router", "right": "router"}
    links = [
        *(parameters.access.join(name, (name, "left")) for name in clients),
        parameters.bottleneck.join("bottleneck", ("left", "right")),
        *(parameters.access.join(name, ("right", name)) for name in servers),
    ]
    return nodes | dict.fromkeys(servers, "host"), tuple(links)
