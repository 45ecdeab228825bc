# SPDX-License-Identifier: Apache-2.0
"""`multi-path`: a client with several links to a router, and a server behind the router.

   path0   +--------+
client ----| router |---- server
   path1   +--------+ server0
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from ipaddress import IPv4Network
from typing import Literal

from pydantic import Field

from mprun.inputs.keys.field import Name, Subnets
from mprun.inputs.keys.file_model import KeyProblem
from mprun.inputs.keys.link import LinkProperties
from mprun.inputs.keys.topology import Expansion, GeneratedTopology
from mprun.model.problem import ValuePath
from mprun.model.spec import LinkSpec

MOST_PATHS = 250
CLIENT_SUBNETS = IPv4Network("10.0.0.0/16")
SERVER_SUBNETS = IPv4Network("10.1.0.0/16")


class PathEntry(LinkProperties):
    """A link between the router and an end."""

    name: Name | None = None
    """The name of the link in events, paths and metrics. Default: path0, path1 and so on, or server0, server1 and so
    on."""


class Paths(GeneratedTopology):
    """A client and a server joined by disjoint paths, numbered from 0 in the order of the file."""

    paths: list[PathEntry] = Field(
        examples=[[{"rate": "20mbit", "delay": "20ms"}, {"rate": "20mbit", "delay": "20ms"}]], min_length=1
    )
    """The links between the client and the router. Forward is from the client."""
    server_paths: list[PathEntry] = Field([], examples=[[{"rate": "20mbit"}, {"rate": "20mbit"}]])
    """The links between the router and the server. Forward is to the server. Default: one, unshaped."""
    client_subnets: Subnets = CLIENT_SUBNETS
    """The network of the paths' subnets. Path i has the i-th subnet. Default: 10.0.0.0/16, so path 1 has
    10.0.1.0/24."""
    server_subnets: Subnets = SERVER_SUBNETS
    """The network of the server links' subnets. Link j has the j-th subnet. Default: 10.1.0.0/16."""

    def find_conflicts(self) -> Iterator[KeyProblem]:
        taken: dict[str, ValuePath] = {}
        others = self.other_links()
        for key, entries in (("paths", self.paths), ("server_paths", self.server_links)):
            if len(entries) > MOST_PATHS:
                reason = "each has a subnet of its own, numbered by one byte of the address"
                yield key, f"{len(entries)} links are more than {MOST_PATHS}: {reason}"
        for name, place, entry in self.name_entries():
            position = (*place, "name")
            if name in others:
                yield position, f"'{name}' is the name of another link of this generator: give it its own"
            if name in taken:
                blamed = position if entry.name else taken[name]
                yield blamed, f"'{name}' is the name of two links: give each its own"
            taken.setdefault(name, position)
        if self.client_subnets == self.server_subnets:
            blamed_key = next(key for key in ("server_subnets", "client_subnets") if key in self.model_fields_set)
            message = f"{self.client_subnets} is for the other side too: give each side its own, as in '10.2.0.0/16'"
            yield blamed_key, message

    def name_entries(self) -> Iterator[tuple[str, ValuePath, PathEntry]]:
        """Yield the name of the link of each entry, its path in the file, and the entry."""
        for key, prefix, entries in (("paths", "path", self.paths), ("server_paths", "server", self.server_links)):
            for n, entry in enumerate(entries):
                yield entry.name or f"{prefix}{n}", (key, n), entry

    def place_links(self, names: Sequence[str]) -> Mapping[str, ValuePath]:
        return {name: place for name, place, _ in self.name_entries()}

    def other_links(self) -> Sequence[str]:
        """Return the names that the generator gives to other links than these."""
        return ()

    @property
    def server_links(self) -> list[PathEntry]:
        """The links between the router and the server: one, unshaped, if the file has none."""
        return self.server_paths or [PathEntry.model_construct()]


class Parameters(Paths):
    """A client with several links to a router, and a server behind the router."""

    topology: Literal["multi-path"]


def find_addresses(subnets: IPv4Network, n: int) -> tuple[str, str]:
    """Return the addresses of a host and of the router in subnet number n."""
    base = subnets[n << 8]
    return f"{base + 1}/24", f"{base + 2}/24"


def expand(parameters: Parameters) -> Expansion:
    """Return nodes and links.

    Path i has subnet 10.0.i.0/24, link j to the server 10.1.j.0/24; the router is .2 on each.
    """
    paths = [
        entry.join(entry.name or f"path{n}", ("client", "router"), find_addresses(parameters.client_subnets, n))
        for n, entry in enumerate(parameters.paths)
    ]
    return {"client": "host", "router": "router", "server": "host"}, (*paths, *join_server(parameters))


def join_server(parameters: Paths) -> Iterator[LinkSpec]:
    """Yield the links between the router and the server."""
    for n, entry in enumerate(parameters.server_links):
        server, router = find_addresses(parameters.server_subnets, n)
        yield entry.join(entry.name or f"server{n}", ("router", "server"), (router, server))
