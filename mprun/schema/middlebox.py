# SPDX-License-Identifier: Apache-2.0
"""The entries of `middleboxes`.

A middlebox is a router of the topology that also translates addresses, filters, or alters segments. The behaviours are
those that Honda et al. (IMC 2011) found between hosts, and for which RFC 8684 section 3.7 has the fallback.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from mprun.model.spec import (
    AlteredOption,
    Firewall,
    Middlebox,
    Nat,
    Proxy,
    Refusal,
    SequenceRewriter,
    StrippedOption,
)
from mprun.schema.field import Name, Whole
from mprun.schema.file_model import FileModel, refuse

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
