# SPDX-License-Identifier: Apache-2.0
"""`multi-client`: `multi-path` with a further client and server on each path, to compete with.

client1 ----+
           [s0]---- path0 ----+--------+---- server
client  ---<                  | router |---- server1
           [s1]---- path1 ----+--------+---- server2
client2 ----+

The client and client<i+1> are joined to the switch s<i>. Path i is the link between s<i> and the
router, so both clients share its rate and queue. All other links of clients, and the links of the
additional servers, are unshaped. A path of the client has the name of the path, `path0`. The path of
client1 has the name of its own link, `client1`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from mprun.inputs.generators.multi_path import MOST_PATHS, Paths, find_addresses, join_server
from mprun.inputs.keys.file_model import KeyProblem
from mprun.inputs.keys.link import UNSHAPED
from mprun.inputs.keys.topology import Expansion
from mprun.model.problem import ValuePath
from mprun.model.spec import LinkSpec, NodeKind


class Parameters(Paths):
    """The topology `multi-path` with a further client and server for each path, to compete with the first ones."""

    topology: Literal["multi-client"]

    def find_conflicts(self) -> Iterator[KeyProblem]:
        servers = len(self.server_links) + len(self.paths)
        if servers > MOST_PATHS:
            reason = "each has a subnet of its own, numbered by one byte of the address"
            yield "paths", f"make {servers} links to servers, more than {MOST_PATHS}: {reason}"
        yield from super().find_conflicts()

    def place_links(self, names: Sequence[str]) -> Mapping[str, ValuePath]:
        # the client's own link has the flag of the path
        clients = {f"client-s{n}": ("paths", n) for n in range(len(self.paths))}
        return {**super().place_links(names), **clients}

    def other_links(self) -> list[str]:
        own = [(f"client-s{n}", f"client{n + 1}", f"router-server{n + 1}") for n in range(len(self.paths))]
        return [name for names in own for name in names]


def expand(parameters: Parameters) -> Expansion:
    """Return nodes and links. Path i has subnet 10.0.i.0/24: the client is .1, the router .2, client<i+1> .10.

    The links to the server have 10.1.j.0/24; the links to the other servers have the following subnets.
    """
    count = len(parameters.paths)
    nodes: dict[str, NodeKind] = {"client": "host"}
    nodes |= {f"client{n + 1}": "host" for n in range(count)}
    nodes |= {f"s{n}": "switch" for n in range(count)}
    nodes |= {"router": "router", "server": "host"}
    nodes |= {f"server{n + 1}": "host" for n in range(count)}
    links: list[LinkSpec] = []
    for n, entry in enumerate(parameters.paths):
        subnet = parameters.client_subnets[n << 8]
        near, far = find_addresses(parameters.client_subnets, n)
        access = UNSHAPED.model_copy(update={"mtu": entry.mtu, "addressing": entry.addressing})
        client = access.join(f"client-s{n}", ("client", f"s{n}"), (near, None))
        path = entry.join(entry.name or f"path{n}", (f"s{n}", "router"), (None, far))
        # a subflow is backup if the interface that it leaves by is backup
        links += [replace(client, backup=entry.backup), replace(path, backup=False)]
        links.append(access.join(f"client{n + 1}", (f"client{n + 1}", f"s{n}"), (f"{subnet + 10}/24", None)))
    links += join_server(parameters)
    for n in range(count):
        server, router = find_addresses(parameters.server_subnets, len(parameters.server_links) + n)
        links.append(UNSHAPED.join(f"router-server{n + 1}", ("router", f"server{n + 1}"), (router, server)))
    return nodes, tuple(links)
