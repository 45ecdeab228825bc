# SPDX-License-Identifier: Apache-2.0
"""`parking-lot`: a client and a server over several bottlenecks, each shared with another pair.

         client1      server1,client2      server2
            |                |                |
client ----r0----- hop0 -----r1---- hop1 -----r2---- server

The nodes are client, server, the routers r0, r1 ..., and a pair client<i+1> and server<i+1> at the
two ends of each hop i, which is between r<i> and r<i+1>. The links are hop0, hop1 ..., and one for
each host with the host's name.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal

from pydantic import Field

from mprun.inputs.generators.end_hosts import Access
from mprun.inputs.keys.field import Whole
from mprun.inputs.keys.link import LinkProperties
from mprun.inputs.keys.topology import Expansion, GeneratedTopology
from mprun.model.spec import LinkSpec, NodeKind

MOST_HOPS = 100


class Parameters(GeneratedTopology):
    """A client and a server over several bottlenecks, each shared with another pair. Forward is from the clients to
    the servers on every link.
    """

    topology: Literal["parking-lot"]
    hops: Annotated[int, Whole(1, MOST_HOPS, f"{MOST_HOPS} hops have 202 hosts, and all share one machine")] = Field(
        examples=[3]
    )
    """The number of bottlenecks in a row."""
    hop: LinkProperties = Field(examples=[{"rate": "20mbit", "delay": "10ms"}])
    """The properties of each bottleneck."""
    access: Access
    """The properties of each link of a client or a server. Default: unshaped."""


def expand(parameters: Parameters) -> Expansion:
    """Return nodes and links; addresses are derived later."""
    routers = [f"r{n}" for n in range(parameters.hops + 1)]
    ends = [("client", routers[0]), *((f"client{n + 1}", router) for n, router in enumerate(routers[:-1]))]
    far_ends = [("server", routers[-1]), *((f"server{n + 1}", router) for n, router in enumerate(routers[1:]))]
    nodes: dict[str, NodeKind] = {name: "host" for name, _ in ends}
    nodes |= dict.fromkeys(routers, "router")
    nodes |= {name: "host" for name, _ in far_ends}
    links: list[LinkSpec] = [parameters.access.join(name, (name, router)) for name, router in ends]
    links += [parameters.hop.join(f"hop{n}", (a, b)) for n, (a, b) in enumerate(pairwise(routers))]
    links += [parameters.access.join(name, (router, name)) for name, router in far_ends]
    return nodes, tuple(links)
