# SPDX-License-Identifier: Apache-2.0
"""Describe a middlebox in few words, for the text below its name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mprun.model.spec import Middlebox

MOST_INSIDE = 3


def describe(box: Middlebox) -> Iterator[str]:
    """Yield a line for each behaviour."""
    if box.nat:
        yield f"NAT, {_inside(box.nat.inside)}"
    if box.firewall:
        yield f"firewall, {_inside(box.firewall.inside)}"
    if box.strip:
        yield f"strips {', '.join(option.upper() for option in box.strip)}"
    if box.alter:
        yield f"alters {', '.join(option.upper() for option in box.alter)}"
    if box.rewrite_sequence:
        yield "rewrites sequence numbers" + ("" if box.rewrite_sequence.sack else ", not SACK")
    if box.proxy:
        ports = ", ".join(map(str, box.proxy.ports))
        yield f"TCP proxy, port {ports}" if ports else "TCP proxy"


def _inside(links: Sequence[str]) -> str:
    more = f" and {len(links) - MOST_INSIDE} more" if len(links) > MOST_INSIDE else ""
    return f"inside: {', '.join(links[:MOST_INSIDE])}{more}"
