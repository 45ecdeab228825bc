# SPDX-License-Identifier: Apache-2.0
"""Routes with several ways (equal-cost multipath, RFC 2992), and the hash that chooses between the ways.

The hash covers the flow's addresses, protocol and ports. So a flow keeps its way, and subflows between the same pair of
addresses may have different ways. Each router has its own seed. If all routers hashed alike, all would choose alike,
and half the ways of a tree would stay empty (polarization). The seed is derived from the experiment's seed and the
router's name. So the choice is the same on every machine, and another `--seed` distributes flows differently.

The kernel's hash policy is 3, with explicit fields (networking/ip-sysctl). Policy 1 has the same five fields, but it
uses the hash that a packet already has (`skb->l4_hash` in fib_multipath_hash()). Between namespaces of one kernel, a
packet keeps the hash of its socket. This hash is the same on all routers, and changes after each retransmission
time-out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from itertools import groupby

from mprun.model.network import Node, Route
from mprun.model.plan import Command, sysctl
from mprun.model.spec import FAMILIES, Family

# Source, destination, protocol, source port, destination port.
_FIELDS = str(0x01 | 0x02 | 0x04 | 0x10 | 0x20)
# The router at the end of a link that is down takes another way. Other routers do not learn of the failure, because no
# routing protocol runs.
_SYSCTLS: dict[Family, tuple[tuple[str, str], ...]] = {
    family: (
        (f"net.{family}.fib_multipath_hash_policy", "3"),
        (f"net.{family}.fib_multipath_hash_fields", _FIELDS),
        (f"net.{family}.conf.all.ignore_routes_with_linkdown", "1"),
    )
    for family in FAMILIES
}
# The seed for both address families, since Linux 6.11.
_SEED = "net.ipv4.fib_multipath_hash_seed"


def group_ways(routes: Iterable[Route]) -> Iterator[tuple[Route, ...]]:
    """Yield groups of neighbouring routes with the same family, destination and table: the ways of one route."""
    for _, ways in groupby(routes, lambda route: (route.family, route.destination, route.table)):
        yield tuple(ways)


def hashing_commands(node: Node, seed: int) -> Iterator[Command]:
    """Yield the commands that make a node choose between ways; none if it never has to."""
    families = sorted({ways[0].family for ways in group_ways(node.routes) if len(ways) > 1})
    if not families:
        return
    settings = [setting for family in families for setting in _SYSCTLS[family]]
    for name, value in (*settings, (_SEED, str(_seed_of(node.name, seed)))):
        yield sysctl(node.name, name, value)


def _seed_of(router: str, seed: int) -> int:
    """Return a router's seed of 32 bits. It is never 0, because the kernel would then choose a seed itself."""
    digest = hashlib.sha256(f"{seed} {router}".encode()).digest()
    return int.from_bytes(digest[:4], "big") or 1
