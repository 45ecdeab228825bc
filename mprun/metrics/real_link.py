# SPDX-License-Identifier: Apache-2.0
"""Differences of the links of a run in real time from lines that send bit by bit. Pure.

The virtual engine's kernel has such lines. The real engine has the host kernel's tbf, whose bucket holds one frame
(tc-tbf(8)), and only netem's delay stage takes a packet from its socket's account (tc-netem(8), LIMITATIONS).
"""

from __future__ import annotations

from collections.abc import Iterator

from mprun.model.intent import Intent


def tell_real_links(intent: Intent) -> Iterator[str]:
    """Yield notes on links that pass a frame early, and on senders that see the queue of their link."""
    limited = [link.name for link in intent.links if link.forward.rate_bit_per_s or link.reverse.rate_bit_per_s]
    if limited:
        yield (
            f"links {_list(limited)} let a frame pass at once where they are idle, up to a full frame's time early; "
            "the virtual engine sends bit by bit"
        )
    hosts = {node.name for node in intent.nodes if node.kind == "host"}
    seen = [
        f"'{link.name}' from {sender.node}"
        for link in intent.links
        for way, sender in zip((link.forward, link.reverse), link.ends, strict=True)
        if sender.node in hosts and way.rate_bit_per_s and not (way.delay_ns or way.jitter)
    ]
    if seen:
        yield (
            f"links {_list(seen)} have a rate and no delay: the sender's sockets see their queue, and may hold "
            "packets back; write a delay, or run with --engine virtual"
        )


def _list(names: list[str]) -> str:
    """Return at most four names as text."""
    shown = ", ".join(names[:4])
    return shown if len(names) <= 4 else f"{shown} and {len(names) - 4} more"
