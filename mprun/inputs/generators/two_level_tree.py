# SPDX-License-Identifier: Apache-2.0
"""`two-level-tree`: core and edge routers of equal port counts, several links between each two.

       c0        c1          core
      //\\\\      //\\\\
     //  \\\\    //  \\\\        `parallel` links between each core and each edge router
    //    \\\\  //    \\\\
     e0    e1 ...             edge
    / | \\                     hosts on all ports that are left
  h0 h1 h2 ...

Nodes are c0 ..., e0 ... and the hosts h0 ..., numbered from the left. The links between routers are
`e0-c0` ..., or `e0-c0-0`, `e0-c0-1` ... if there are several. A host's link is `h0`; with several
interfaces its links are `h0-0`, `h0-1` ... Each has a port and a subnet of its own.

Between two edge routers there are (core x parallel) routes that share no link. The subnets behind an
edge router use them in turn, core after core (see `mprun.compile.routing`). Up to this number of
interfaces, each interface of a host has a route of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Annotated, Literal

from pydantic import Field

from mprun.inputs.generators.end_hosts import MOST_HOSTS, WHY_HOSTS, Access, Interfaces, join_host
from mprun.inputs.generators.fabric import Uplink, rates_of
from mprun.inputs.keys.field import Whole
from mprun.inputs.keys.file_model import KeyProblem
from mprun.inputs.keys.topology import Expansion, GeneratedTopology
from mprun.model.spec import LinkSpec, NodeKind

MOST_PORTS = 250
Count = Annotated[int, Whole(1, MOST_PORTS, "a router of this generator has at most 250 ports")]


class Parameters(GeneratedTopology):
    """Core and edge routers with two layers of links. Forward is upwards on every link."""

    topology: Literal["two-level-tree"]
    ports: Annotated[int, Whole(2, MOST_PORTS, "one leads up and one down at least, and nobody builds larger ones")] = (
        Field(examples=[36])
    )
    """The number of ports of each router."""
    core: Count = Field(examples=[2])
    """The number of core routers."""
    edge: Count = Field(examples=[4])
    """The number of edge routers."""
    parallel: Count = Field(1, examples=[9])
    """The number of links between each core router and each edge router."""
    hosts_per_edge: Count | None = None
    """The number of hosts on each edge router. Default: as many as an edge router has ports for."""
    interfaces: Interfaces = 1
    """The number of interfaces of each host."""
    access: Access
    """The links between hosts and edge routers. Default: unshaped."""
    trunk: Annotated[Uplink, Field(default_factory=Uplink.model_construct)]
    """The links between edge and core routers. Default: unshaped."""

    def find_conflicts(self) -> Iterator[KeyProblem]:
        down, up = self.edge * self.parallel, self.core * self.parallel
        if down > self.ports:
            need = f"{self.edge} edge routers with {self.parallel} links each need {down} ports of a core router"
            yield "edge", f"{need}, which has {self.ports}: take fewer, or more 'ports'"
        free = (self.ports - up) // self.interfaces
        if free < 1:
            taken = f"{self.core} core routers with {self.parallel} links each take {up}"
            left = f"of an edge router's {self.ports} ports, which leaves no host its {self.interfaces}"
            yield "core", f"{taken} {left}: take fewer, or more 'ports'"
        elif self.hosts_per_edge is not None and self.hosts_per_edge > free:
            yield "hosts_per_edge", f"{self.hosts_per_edge} are more than an edge router has ports for, {free}"
        elif self.hosts > MOST_HOSTS:
            yield "edge", f"{self.edge} edge routers have {self.hosts} hosts: {WHY_HOSTS}"
        if self.trunk.oversubscription is not None and not any(rates_of(self.access)):
            yield ("trunk", "oversubscription"), "has no rate below to divide: give 'access' a 'rate'"

    @property
    def hosts(self) -> int:
        """The number of hosts."""
        return self.edge * (self.hosts_per_edge or (self.ports - self.core * self.parallel) // self.interfaces)


def expand(parameters: Parameters) -> Expansion:
    """Return nodes and links; addresses are derived later, in the order of the hosts."""
    cores = [f"c{n}" for n in range(parameters.core)]
    edges = [f"e{n}" for n in range(parameters.edge)]
    hosts = [f"h{n}" for n in range(parameters.hosts)]
    nodes: dict[str, NodeKind] = {**dict.fromkeys(hosts, "host"), **dict.fromkeys(edges + cores, "router")}
    per_edge = parameters.hosts // parameters.edge
    upwards = parameters.core * parameters.parallel
    trunk = parameters.trunk.above(parameters.access, Fraction(per_edge * parameters.interfaces, upwards))
    links: list[LinkSpec] = []
    for n, host in enumerate(hosts):
        links += join_host(host, edges[n // per_edge], parameters.interfaces, parameters.access)
    for edge in edges:
        # one core after the other, so that the first ways that routing uses have different cores
        for n in range(parameters.parallel):
            suffix = f"-{n}" if parameters.parallel > 1 else ""
            links += [trunk.join(f"{edge}-{core}{suffix}", (edge, core)) for core in cores]
    return nodes, tuple(links)
