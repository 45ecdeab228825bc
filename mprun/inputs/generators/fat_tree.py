# SPDX-License-Identifier: Apache-2.0
"""`fat-tree`: the k-ary fat tree of Al-Fares et al. (SIGCOMM 2008), of routers.

     c0   c1         c2   c3          (k/2)^2 cores, each joined to one aggregation router a pod
      |\\  /|          |\\  /|
      | \\/ |  ...     | \\/ |
      a0   a1         a2   a3         k/2 a pod: a0 has the first k/2 cores, a1 the next ...
      | \\/ |          | \\/ |
      | /\\ |          | /\\ |
      e0   e1         e2   e3         k/2 a pod, each joined to all aggregation routers of the pod
      /\\   /\\         /\\   /\\
    h0 h1 h2 h3     h4 h5 h6 h7       k/2 an edge router, k^3/4 in all

Nodes are numbered from the left through all pods. The links between routers are `e0-a0`, `a0-c0` ...
A host's link is `h0`; with several interfaces its links are `h0-0`, `h0-1` ... All interfaces of a
host connect to its edge router, each on a subnet of its own.

Between pods there are (k/2)^2 shortest routes, one for each core. The subnets behind an edge router
use them in turn (see `mprun.compile.routing`). With up to (k/2)^2 interfaces, packets to each
interface of a host use a core of their own, and meet other packets only in the edge routers. Up to
k/2 of these routes share no link between routers. In a pod there are k/2 routes. A subflow from
interface i to interface j sends its data on the route of j, and its acknowledgements on the route of i.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Annotated, Literal

from pydantic import Field

from mprun.inputs.generators.end_hosts import Access, Interfaces, join_host
from mprun.inputs.generators.fabric import Uplink, rates_of
from mprun.inputs.keys.field import Whole
from mprun.inputs.keys.file_model import KeyProblem
from mprun.inputs.keys.link import LinkProperties
from mprun.inputs.keys.topology import Expansion, GeneratedTopology
from mprun.model.spec import LinkSpec, NodeKind

MOST_PORTS = 12


class Parameters(GeneratedTopology):
    """A k-ary fat tree of routers with three layers of links. Forward is upwards on every link."""

    topology: Literal["fat-tree"]
    k: Annotated[int, Whole(2, MOST_PORTS, f"a tree of {MOST_PORTS} has 432 hosts, and all share one machine")] = Field(
        examples=[4]
    )
    """The number of ports of each router, an even number. The tree has k pods with k/2 edge routers, each with k/2
    hosts."""
    interfaces: Interfaces = 1
    """The number of interfaces of each host."""
    access: Access
    """The links between hosts and edge routers. Default: unshaped."""
    aggregation: Annotated[Uplink, Field(default_factory=Uplink.model_construct)]
    """The links between edge and aggregation routers. Default: unshaped."""
    core: Annotated[Uplink, Field(default_factory=Uplink.model_construct)]
    """The links between aggregation and core routers. Default: unshaped."""

    def find_conflicts(self) -> Iterator[KeyProblem]:
        if self.k % 2:
            yield "k", f"{self.k} is odd, and half of a router's ports lead down, half up: write {self.k + 1}"
        below: tuple[str, bool] = ("access", any(rates_of(self.access)))
        for key, layer in (("aggregation", self.aggregation), ("core", self.core)):
            if layer.oversubscription is not None and not below[1]:
                yield (key, "oversubscription"), f"has no rate below to divide: give '{below[0]}' a 'rate'"
            below = (key, any(rates_of(layer)) or layer.oversubscription is not None)

    @property
    def layers(self) -> tuple[LinkProperties, LinkProperties]:
        """The aggregation and core links with their resulting rates."""
        aggregation = self.aggregation.above(self.access, Fraction(self.interfaces))
        return aggregation, self.core.above(aggregation, Fraction(1))


def expand(parameters: Parameters) -> Expansion:
    """Return nodes and links; addresses are derived later, in the order of the hosts."""
    half = parameters.k // 2
    cores = [f"c{n}" for n in range(half * half)]
    aggregations = [f"a{n}" for n in range(parameters.k * half)]
    edges = [f"e{n}" for n in range(parameters.k * half)]
    hosts = [f"h{n}" for n in range(len(edges) * half)]
    nodes: dict[str, NodeKind] = {**dict.fromkeys(hosts, "host"), **dict.fromkeys(edges, "router")}
    nodes |= dict.fromkeys(aggregations + cores, "router")
    aggregation, core = parameters.layers
    links: list[LinkSpec] = []
    for n, host in enumerate(hosts):
        links += join_host(host, edges[n // half], parameters.interfaces, parameters.access)
    for n, edge in enumerate(edges):
        pod = n // half * half
        links += [aggregation.join(f"{edge}-{upper}", (edge, upper)) for upper in aggregations[pod : pod + half]]
    for n, lower in enumerate(aggregations):
        first = n % half * half
        links += [core.join(f"{lower}-{upper}", (lower, upper)) for upper in cores[first : first + half]]
    return nodes, tuple(links)
