# SPDX-License-Identifier: Apache-2.0
"""Interference: the packets of a flow that middleboxes on its paths changed or dropped, by the counters of rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from mprun.model.frozen import Frozen
from mprun.model.intent import AddressedFlow

# The effect of each rule on the packets that it counts. The words follow the name of the middlebox.
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


class Interference(Frozen):
    """The counts of each rule, by middlebox and `TABLE.COUNTER`, on the paths of one flow or of all."""

    counts: Mapping[str, Mapping[str, int]]

    def blame(self, *rules: str) -> str | None:
        """Return the first middlebox whose rule counted packets, with the number; None if no rule counted any."""
        return next(self.tell(rules), None)

    def tell(self, rules: Iterable[str] = tuple(_WORDS)) -> Iterator[str]:
        """Yield a sentence for each of these rules that counted packets, by middlebox."""
        for name, counted in self.counts.items():
            for rule in rules:
                if counted.get(rule):
                    yield _say(name, rule, counted[rule])


NONE = Interference({})


def on_paths(flow: AddressedFlow, filtered: Mapping[str, Mapping[str, int]]) -> Interference:
    """Return the counts of the middleboxes on a flow's paths. filtered: those of all, as the agent reports them."""
    names = {name for path in flow.paths for name in path.middleboxes}
    return Interference({name: counted for name, counted in filtered.items() if name in names})


def _say(name: str, rule: str, number: int) -> str:
    nouns = {f"{noun}s": f"{number} {noun}{'' if number == 1 else 's'}" for noun in ("packet", "connection")}
    return f"middlebox '{name}' {_WORDS[rule].format(**nouns)}"
