# SPDX-License-Identifier: Apache-2.0
"""The middleboxes of a topology, and whether they fit its links."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mprun.inputs.document import Document
from mprun.inputs.keys.middlebox import MiddleboxEntry
from mprun.model.problem import ValuePath, list_names, name_nearest
from mprun.model.spec import (
    LinkSpec,
    Middlebox,
    NodeKind,
)


def read_middleboxes(
    entries: Mapping[str, MiddleboxEntry],
    nodes: Mapping[str, NodeKind],
    links: Sequence[LinkSpec],
    document: Document,
) -> dict[str, Middlebox]:
    """Return the middleboxes of a topology in the order of its nodes. Problems go to the document."""
    for name, entry in entries.items():
        position = ("middleboxes", name)
        if name not in nodes:
            routers = [node for node, kind in nodes.items() if kind == "router"]
            document.refuse(position, f"no node '{name}'{name_nearest(name, routers, 'routers')}")
        elif nodes[name] != "router":
            document.refuse(
                position, f"'{name}' is a {nodes[name]}, not a router: name a router, which forwards packets"
            )
        else:
            at = [link.name for link in links if name in link.ends]
            for behaviour, guard in (("nat", entry.nat), ("firewall", entry.firewall)):
                if guard is not None:
                    for path, message in _problems_of_inside(name, guard.inside, at):
                        document.refuse((*position, behaviour, "inside", *path), message)
    return {name: entries[name].value() for name in nodes if name in entries}


def _problems_of_inside(router: str, inside: Sequence[str], links: Sequence[str]) -> Iterator[tuple[ValuePath, str]]:
    """Return problems of `inside`. inside: names of links in the file. links: the links at the router."""
    for n, link in enumerate(inside):
        if link not in links:
            yield (n,), f"no link '{link}' at '{router}'{name_nearest(link, links, 'links there')}"
        elif link in inside[:n]:
            yield (n,), f"names '{link}' twice: keep one"
    if not set(links) - set(inside):
        yield (), f"leaves nothing outside{list_names(links, 'links there')}: remove one of these"
