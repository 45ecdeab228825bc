# SPDX-License-Identifier: Apache-2.0
"""The entries of `middleboxes`.

A middlebox is a router of the topology that also translates addresses, filters, or alters segments. The behaviours are
those that Honda et al. (IMC 2011) found between hosts, and for which RFC 8684 section 3.7 has the fallback.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from mprun.inputs.keys.field import Name, Whole
from mprun.inputs.keys.file_model import FileModel, KeyProblem
from mprun.model.spec import AlteredOption, Firewall, Middlebox, Nat, Proxy, Refusal, SequenceRewriter, StrippedOption

_INSIDE = "The links of this router that lead to the inside. All other links lead to the outside."
_BEHAVIOURS = ("nat", "firewall", "strip", "alter", "rewrite_sequence", "proxy")

Port = Annotated[int, Whole(1, 65_535, "a port has 16 bits")]


class NatEntry(FileModel):
    """Source NAT: hosts inside share the router's address. Hosts outside cannot open connections to them."""

    inside: list[Name] = Field(description=_INSIDE, examples=[["lan"]], min_length=1)


class FirewallEntry(FileModel):
    """A stateful firewall: only hosts inside can open connections. Answers pass."""

    inside: list[Name] = Field(description=_INSIDE, examples=[["lan"]], min_length=1)
    refuse: Refusal = "drop"
    """The treatment of refused packets. `drop`: no answer. `reject`: a TCP reset or an ICMP error. Default: drop."""


class SequenceEntry(FileModel):
    """A rewriter of sequence numbers. Some firewalls replace the numbers that a host chose."""

    sack: bool = True
    """Also rewrite the sequence numbers in SACK blocks. `false` leaves SACK blocks as they are, as some middleboxes
    do."""


class ProxyEntry(FileModel):
    """A transparent TCP proxy. It answers instead of the server, without MPTCP, and connects instead of the client."""

    ports: list[Port] = Field([], examples=[[80, 443]])
    """The server ports to intercept. Default: all ports."""


class MiddleboxEntry(FileModel):
    """The functions of a router besides forwarding."""

    nat: NatEntry | None = Field(None, examples=[{"inside": ["lan"]}])
    """Network address translation (NAT)."""
    firewall: FirewallEntry | None = Field(None, examples=[{"inside": ["lan"]}])
    """A stateful firewall."""
    strip: list[StrippedOption] = Field([], examples=[["mp_join"]])
    """The MPTCP options that the router removes from TCP segments. `mptcp` removes all of them."""
    alter: list[AlteredOption] = Field([], examples=[["add_addr"]])
    """The MPTCP options in which the router replaces the key, token or address."""
    rewrite_sequence: SequenceEntry | None = Field(None, examples=[{}])
    """Rewriting of TCP sequence numbers."""
    proxy: ProxyEntry | None = Field(None, examples=[{}])
    """A transparent proxy that terminates TCP connections and opens new ones."""

    def find_conflicts(self) -> Iterator[KeyProblem]:
        does = [name for name in _BEHAVIOURS if getattr(self, name) not in (None, [])]
        if not does:
            yield (), f"does nothing: write {', '.join(repr(name) for name in _BEHAVIOURS[:-1])} or 'proxy'"
            return
        for n, option in enumerate(self.alter):
            if {option, "mptcp"} & set(self.strip):
                yield ("alter", n), f"'{option}' is removed by 'strip': remove it from one of the two"
                return
        for name, why in (
            ("rewrite_sequence", "connection tracking would see different numbers in each direction"),
            ("proxy", "the proxy's own connections would bypass it"),
        ):
            others = [other for other in does if other not in (name, "strip", "alter")]
            if name in does and others:
                yield name, f"conflicts with '{others[0]}', as {why}: give each its own router"
                return

    def value(self) -> Middlebox:
        return Middlebox(
            nat=None if self.nat is None else Nat(tuple(self.nat.inside)),
            firewall=None if self.firewall is None else Firewall(tuple(self.firewall.inside), self.firewall.refuse),
            strip=tuple(dict.fromkeys(self.strip)),
            alter=tuple(dict.fromkeys(self.alter)),
            rewrite_sequence=None if self.rewrite_sequence is None else SequenceRewriter(self.rewrite_sequence.sack),
            proxy=None if self.proxy is None else Proxy(tuple(dict.fromkeys(self.proxy.ports))),
        )
