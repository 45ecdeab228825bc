# SPDX-License-Identifier: Apache-2.0
"""`star`: clients and a server around a switch, each with one or several interfaces.

 client0 ----+---+==== server
 client1 ----|hub|
 client2 ----+---+

The nodes are client0, client1 ... and server; all interfaces are on one subnet.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from mprun.inputs.generators.end_hosts import Access, Interfaces, join_host
from mprun.inputs.keys.field import Whole
from mprun.inputs.keys.file_model import KeyProblem
from mprun.inputs.keys.link import LinkProperties
from mprun.inputs.keys.topology import Expansion, GeneratedTopology
from mprun.model.spec import NodeKind

# The largest number of interfaces on one segment that get static neighbours.
MOST_ON_ONE_LAN = 32


class Parameters(GeneratedTopology):
    """Clients and a server around a switch."""

    topology: Literal["star"]
    clients: Annotated[int, Whole(1, 250, "all are on one subnet, numbered by one byte of the address")] = Field(
        examples=[4]
    )
    """The number of clients."""
    interfaces: Interfaces = 1
    """The number of interfaces of each client."""
    server_interfaces: Interfaces = 1
    """The number of interfaces of the server."""
    access: Access
    """The properties of each link of a client. Forward is from the client. Default: unshaped."""
    server_access: LinkProperties | None = None
    """The properties of each link of the server. Forward is from the server. Default: as `access`."""

    def find_conflicts(self) -> Iterator[KeyProblem]:
        total = self.clients * self.interfaces + self.server_interfaces
        if max(self.interfaces, self.server_interfaces) > 1 and total > MOST_ON_ONE_LAN:
            reason = (
                f"makes {total} interfaces on one switch, of which hosts have several: beyond {MOST_ON_ONE_LAN},"
                " neighbours are learnt by ARP, where a host answers for all its addresses on each interface;"
                " take fewer, or 'two-level-tree'"
            )
            yield "clients", reason


def expand(parameters: Parameters) -> Expansion:
    """Return nodes and links. A host's link has the host's name, or `client0-0`, `client0-1` ..."""
    clients = [f"client{n}" for n in range(parameters.clients)]
    nodes: dict[str, NodeKind] = {**dict.fromkeys(clients, "host"), "hub": "switch", "server": "host"}
    links = [link for name in clients for link in join_host(name, "hub", parameters.interfaces, parameters.access)]
    access = parameters.server_access or parameters.access
    return nodes, (*links, *join_host("server", "hub", parameters.server_interfaces, access))
