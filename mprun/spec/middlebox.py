# SPDX-License-Identifier: Apache-2.0
"""Middleboxes: what may be written of them, and whether it fits the topology.

A middlebox is a router of the topology, written out or a generator's, that also translates addresses,
filters, or alters segments: what Honda et al. (IMC 2011) found between hosts, and what RFC 8684
section 3.7 falls back for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

from pydantic import Field, model_validator

from mprun.spec.document import Document
from mprun.spec.fault import Path, list_names, name_nearest
from mprun.spec.field import Name, Whole
from mprun.spec.model import FileModel, refuse
from mprun.spec.spec import (
    AlteredOption,
    Firewall,
    LinkSpec,
    Middlebox,
    Nat,
    NodeKind,
    Proxy,
    Refusal,
    SequenceRewriter,
    StrippedOption,
)

_INSIDE = "Links at this router whose far ends are inside; all others are outside."
_BEHAVIOURS = ("nat", "firewall", "strip", "alter", "rewrite_sequence", "proxy")

Port = Annotated[int, Whole(1, 65_535, "a port has 16 bits")]


class NatEntry(FileModel):
    """Source NAT: hosts inside share the router's address, and nobody outside can reach them unasked."""

    inside: list[Name] = Field(description=_INSIDE, examples=[["lan"]], min_length=1)


class FirewallEntry(FileModel):
    """A stateful firewall: only those inside open connections; answers pass."""

    inside: list[Name] = Field(description=_INSIDE, examples=[["lan"]], min_length=1)
    refuse: Refusal = Field(
        "drop", description="What others get: drop, nothing; reject, a TCP reset or an ICMP error. Default: drop."
    )


class SequenceEntry(FileModel):
    """A rewriter of sequence numbers, as firewalls have that do not trust a host's own."""

    sack: bool = Field(
        True, description="It rewrites those in SACK blocks too; false: it forgets them, as some boxes do."
    )


class ProxyEntry(FileModel):
    """A transparent TCP proxy: it answers in the server's place, without MPTCP, and connects in the client's."""

    ports: list[Port] = Field([], description="Ports of servers. Default: all.", examples=[[80, 443]])


class MiddleboxEntry(FileModel):
    """What a router does beside forwarding."""

    nat: NatEntry | None = Field(None, description="Translates addresses.", examples=[{"inside": ["lan"]}])
    firewall: FirewallEntry | None = Field(
        None, description="Lets connections open from inside only.", examples=[{"inside": ["lan"]}]
    )
    strip: list[StrippedOption] = Field(
        [], description="Removes TCP options: those of MPTCP named here; mptcp: all of them.", examples=[["mp_join"]]
    )
    alter: list[AlteredOption] = Field(
        [],
        description="Changes TCP options of MPTCP: the key, token or address that they hold is another behind it.",
        examples=[["add_addr"]],
    )
    rewrite_sequence: SequenceEntry | None = Field(None, description="Rewrites sequence numbers.", examples=[{}])
    proxy: ProxyEntry | None = Field(None, description="Ends TCP connections and opens others.", examples=[{}])

    @model_validator(mode="after")
    def _agree(self) -> MiddleboxEntry:
        does = [name for name in _BEHAVIOURS if getattr(self, name) not in (None, [])]
        if not does:
            raise ValueError(f"does nothing: write {', '.join(repr(name) for name in _BEHAVIOURS[:-1])} or 'proxy'")
        for n, option in enumerate(self.alter):
            if {option, "mptcp"} & set(self.strip):
                raise refuse({("alter", n): f"'{option}' is removed by 'strip': keep one of the two"}, self)
        for name, why in (
            ("rewrite_sequence", "what tracks connections would see other numbers in either direction"),
            ("proxy", "its own connections would pass neither"),
        ):
            others = [other for other in does if other not in (name, "strip", "alter")]
            if name in does and others:
                message = f"stands beside '{others[0]}', and {why}: give each a router of its own"
                raise refuse({(name,): message}, self)
        return self

    def value(self) -> Middlebox:
        return Middlebox(
            nat=None if self.nat is None else Nat(tuple(self.nat.inside)),
            firewall=None if self.firewall is None else Firewall(tuple(self.firewall.inside), self.firewall.refuse),
            strip=tuple(dict.fromkeys(self.strip)),
            alter=tuple(dict.fromkeys(self.alter)),
            rewrite_sequence=None if self.rewrite_sequence is None else SequenceRewriter(self.rewrite_sequence.sack),
            proxy=None if self.proxy is None else Proxy(tuple(dict.fromkeys(self.proxy.ports))),
        )


def read_middleboxes(
    entries: Mapping[str, MiddleboxEntry],
    nodes: Mapping[str, NodeKind],
    links: Sequence[LinkSpec],
    document: Document,
) -> dict[str, Middlebox]:
    """The middleboxes of a topology, in the order of its nodes; faults go to the document."""
    for name, entry in entries.items():
        place = ("middleboxes", name)
        if name not in nodes:
            routers = [node for node, kind in nodes.items() if kind == "router"]
            document.fault(place, f"no node '{name}'{name_nearest(name, routers, 'routers')}")
        elif nodes[name] != "router":
            document.fault(place, f"'{name}' is a {nodes[name]}, not a router: name a router, which forwards packets")
        else:
            at = [link.name for link in links if name in link.ends]
            for behaviour, guard in (("nat", entry.nat), ("firewall", entry.firewall)):
                if guard is not None:
                    for path, message in _faults_of_inside(name, guard.inside, at):
                        document.fault((*place, behaviour, "inside", *path), message)
    return {name: entries[name].value() for name in nodes if name in entries}


def _faults_of_inside(router: str, inside: Sequence[str], links: Sequence[str]) -> Iterator[tuple[Path, str]]:
    """inside: names of links as written; links: those at the router."""
    for n, link in enumerate(inside):
        if link not in links:
            yield (n,), f"no link '{link}' at '{router}'{name_nearest(link, links, 'links there')}"
        elif link in inside[:n]:
            yield (n,), f"names '{link}' twice: keep one"
    if not set(links) - set(inside):
        yield (), f"leaves nothing outside{list_names(links, 'links there')}: take one of these out"
