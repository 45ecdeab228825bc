# SPDX-License-Identifier: Apache-2.0
"""Interference: what the middleboxes on a flow's paths took from it, by the counters of their rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from mprun.model.intent import AddressedFlow

# What a rule of a middlebox did to each packet that it counted; the words stand after the box's name.
_WORDS = {
    "strip.mptcp": "removed the option of MPTCP from {packets}",
    "strip.mp_capable": "removed MP_CAPABLE from {packets}",
    "strip.mp_join": "removed MP_JOIN from {packets}",
    "strip.dss": "removed DSS from {packets}",
    "strip.add_addr": "removed ADD_ADDR from {packets}",
    "alter.mp_capable": "altered MP_CAPABLE in {packets}",
    "alter.mp_join": "altered MP_JOIN in {packets}",
    "alter.add_addr": "altered ADD_ADDR in {packets}",
    "sequence.rewritten": "rewrote the sequence numbers of {packets}",
    "firewall.refused": "refused {packets} of connections from outside",
    "nat.unsolicited": "dropped {packets} to addresses behind its NAT, which hosts outside cannot reach",
    "nat.translated": "translated the address of {connections}",
    "proxy.intercepted": "answered {connections} in the server's place",
}


@dataclass(frozen=True)
class Interference:
    """The counts of each rule, by middlebox and `TABLE.COUNTER`, on the paths of one flow or of all."""

    counts: Mapping[str, Mapping[str, int]]

    def blame(self, *rules: str) -> str | None:
        """Name the middlebox that did one of these things, and how often; None if none did."""
        for name, counted in self.counts.items():
            for rule in rules:
                if counted.get(rule):
                    return _say(name, rule, counted[rule])
        return None

    def tell(self) -> Iterator[str]:
        """Everything that was done, a sentence each."""
        for name, counted in self.counts.items():
            for rule in _WORDS:
                if counted.get(rule):
                    yield _say(name, rule, counted[rule])


NONE = Interference({})


def on_paths(flow: AddressedFlow, filtered: Mapping[str, Mapping[str, int]]) -> Interference:
    """Return what the middleboxes on a flow's paths did. filtered: the counts of all, as the agent reports them."""
    names = {name for path in flow.paths for name in path.middleboxes}
    return Interference({name: counted for name, counted in filtered.items() if name in names})


def _say(name: str, rule: str, number: int) -> str:
    nouns = {f"{noun}s": f"{number} {noun}{'' if number == 1 else 's'}" for noun in ("packet", "connection")}
    return f"middlebox '{name}' {_WORDS[rule].format(**nouns)}"
