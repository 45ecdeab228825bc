# SPDX-License-Identifier: Apache-2.0
"""`multi-path`: a client with several links to a router, behind which is the server.

   path0   +--------+
client ----| router |---- server
   path1   +--------+ server0
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from mprun.spec.field import Name
from mprun.spec.link import LinkProperties
from mprun.spec.model import refuse
from mprun.spec.spec import LinkSpec
from mprun.spec.topology import Expansion, GeneratedTopology

MOST_PATHS = 250


class PathEntry(LinkProperties):
    """One link between the router and an end."""

    name: Name | None = Field(None, description="Default: path0, path1 ... or server0, server1 ...")


class Parameters(GeneratedTopology):
    """A client and a server joined by disjoint paths, numbered from 0 in the order of the file."""

    topology: Literal["multi-path"] = Field(description="The generator.")
    paths: list[PathEntry] = Field(
        description="Links between the client and the router; forward is from the client.",
        examples=[[{"rate": "20mbit", "delay": "20ms"}, {"rate": "20mbit", "delay": "20ms"}]],
        min_length=1,
    )
    server_paths: list[PathEntry] = Field(
        [],
        description="Links between the router and the server; forward is to the server. Default: one, unshaped.",
    )

    @model_validator(mode="after")
    def _agree(self) -> Parameters:
        faults: dict[tuple[str | int, ...], str] = {}
        taken: dict[str, tuple[str | int, ...]] = {}
        for key, prefix, entries in (("paths", "path", self.paths), ("server_paths", "server", self.server_links)):
            if len(entries) > MOST_PATHS:
                reason = "each has a subnet of its own, numbered by one byte of the address"
                faults[(key,)] = f"{len(entries)} links are more than {MOST_PATHS}: {reason}"
            for n, entry in enumerate(entries):
                name = entry.name or f"{prefix}{n}"
                place = (key, n, "name")
                if name in taken:
                    blamed = place if entry.name else taken[name]
                    faults[blamed] = f"'{name}' is the name of two links: give each its own"
                taken.setdefault(name, place)
        if faults:
            raise refuse(faults, self)
        return self

    @property
    def server_links(self) -> list[PathEntry]:
        """The links between the router and the server: one, unshaped, where the file has none."""
        return self.server_paths or [PathEntry.model_construct()]


def expand(parameters: Parameters) -> Expansion:
    """Path i has subnet 10.0.i.0/24, link j to the server 10.1.j.0/24; the router is .2 on each."""
    links = []
    for n, entry in enumerate(parameters.paths):
        forward, reverse = entry.directions()
        addresses = (f"10.0.{n}.1/24", f"10.0.{n}.2/24")
        links.append(
            LinkSpec(entry.name or f"path{n}", ("client", "router"), forward, reverse, entry.backup, addresses)
        )
    for n, entry in enumerate(parameters.server_links):
        forward, reverse = entry.directions()
        addresses = (f"10.1.{n}.2/24", f"10.1.{n}.1/24")
        links.append(
            LinkSpec(entry.name or f"server{n}", ("router", "server"), forward, reverse, entry.backup, addresses)
        )
    return {"client": "host", "router": "router", "server": "host"}, tuple(links)
