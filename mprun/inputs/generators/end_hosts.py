# SPDX-License-Identifier: Apache-2.0
"""Hosts of generators: limits of their number, and names of their links.

A host's link has the host's name. With several interfaces, the links are `h0-0`, `h0-1` ... A host is always the first
end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from mprun.inputs.keys.field import Whole
from mprun.inputs.keys.link import LinkProperties
from mprun.model.spec import LinkSpec

# Each host is a namespace of one machine, and has a table of routes in each router.
MOST_HOSTS = 500
WHY_HOSTS = f"all hosts share one machine, which is meant for {MOST_HOSTS} at most"
MOST_INTERFACES = 4

Interfaces = Annotated[
    int,
    Whole(1, MOST_INTERFACES, "a connection has 9 subflows at most, and two hosts with 4 make 16 paths already"),
]
Access = Annotated[LinkProperties, Field(default_factory=LinkProperties.model_construct)]


def join_host(host: str, to: str, interfaces: int, access: LinkProperties) -> Iterator[LinkSpec]:
    """Yield the links from a host to the node that all its interfaces connect to; forward is from the host."""
    for name in [host] if interfaces == 1 else [f"{host}-{n}" for n in range(interfaces)]:
        yield access.join(name, (host, to))
