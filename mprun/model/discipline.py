# SPDX-License-Identifier: Apache-2.0
"""The queueing disciplines of links, and the loss models of netem: one table of each.

The keys of a file, its writer, the words of tc(8), their read-back and the check of a kernel follow these tables. The
agent reads the tables inside the experiment kernel. Therefore this module imports no other module of mprun, and no
dataclasses, whose import takes 4 ms.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

DisciplineName = Literal["fifo", "red", "codel", "fq_codel", "pie", "cake", "dualpi2"]
# flag: true or false. count: a whole number. ns, bytes: a whole number of this unit. share: 0..1. word: a keyword
# without a value. hidden: a value that tc does not show.
OptionKind = Literal["flag", "count", "ns", "bytes", "share", "word", "hidden"]
OptionValue = bool | int | float
# The type of a value of each kind; other kinds have whole numbers.
TYPES: Mapping[OptionKind, type[bool] | type[float]] = {"flag": bool, "share": float}


class Option(NamedTuple):
    """An option of a discipline that a file may set. Files and tc(8) use the same name.

    - meaning: the description for editors.
    - least, most: the bounds of a count, with the reason for them.
    - examples: values for editors, if the kind has no typical ones.
    - default: the value without the option, which a change must name, as tc keeps what a change does not name. None:
        every change names the option anyway, or the discipline cannot change it.
    """

    kind: OptionKind
    meaning: str
    least: int = 0
    most: int = 0
    reason: str = ""
    examples: tuple[int, ...] = ()
    default: int | None = None


class Discipline(NamedTuple):
    """A queueing discipline.

    - kind: the name of tc(8).
    - counts: the unit of the limit; None: the file decides.
    - options: the options that a file may set, by name.
    - further: the other keywords that mprun sets, and the kinds of their values.
    - limit: the keyword of the limit.
    - since: the first version of Linux with it, if the default experiment kernel does not have it.
    """

    kind: str
    counts: Literal["packets", "bytes"] | None
    options: Mapping[str, Option] = {}
    further: Mapping[str, OptionKind] = {}
    limit: str = "limit"
    since: tuple[int, int] | None = None

    @property
    def kernel_option(self) -> str:
        """Return the option of the kernel's configuration that it needs. Every kernel with disciplines has pfifo."""
        return "CONFIG_NET_SCHED" if self.kind == "pfifo" else f"CONFIG_NET_SCH_{self.kind.upper()}"

    @property
    def keywords(self) -> dict[str, OptionKind]:
        """Return all keywords of tc(8) that mprun sets, and the kinds of their values."""
        limit: OptionKind = "bytes" if self.counts == "bytes" else "count"
        return {self.limit: limit, **{name: one.kind for name, one in self.options.items()}, **self.further}


_ECN = Option("flag", "Mark packets of flows with ECN instead of dropping them.")
_MS = 1_000_000
_TARGET = Option("ns", "The target of the waiting time.", default=15 * _MS)
_INTERVAL = Option("ns", "The time that the waiting time may exceed the target.", default=100 * _MS)
# no packet waits for 2000 s, nearly the longest time that codel can have
_CE_THRESHOLD = Option(
    "ns",
    "Mark every ECN-capable packet that waited longer, as DCTCP and L4S need it. Default: no such threshold.",
    default=2_000_000 * _MS,
)
_STEP = Option("ns", "The waiting time in the L4S queue from which every packet is marked. Default: 1ms.", default=_MS)
_FLOWS = Option("count", "The number of queues.", 1, 65_536, "fq_codel has 1 to 65536 queues")
_COUPLING = Option(
    "count",
    "The ratio of the marking probability of the L4S queue to the root of the drop probability of the classic queue. "
    "Default: 2 (RFC 9332).",
    *(1, 255, "the kernel has 8 bits for it", (2,), 2),
)
_RED = {
    "min": Option("bytes", "The average queue at which dropping begins. Default: limit/6."),
    "max": Option("bytes", "The average queue at which the drop probability is largest. Default: 3 min."),
    "probability": Option("share", "The drop probability when the average queue is `max`. Default: 2%."),
    "ecn": _ECN,
}
_DELAYS = {"target": _TARGET._replace(default=5 * _MS), "interval": _INTERVAL}
_CODEL = {**_DELAYS, "ce_threshold": _CE_THRESHOLD, "ecn": _ECN}
_FQ_CODEL = {**_DELAYS, "flows": _FLOWS, "ce_threshold": _CE_THRESHOLD, "ecn": _ECN}
_RTT = Option("ns", "The expected round-trip time.", default=100 * _MS)
_DUALPI2 = {"target": _TARGET, "step_thresh": _STEP, "coupling_factor": _COUPLING}
DISCIPLINES: Mapping[DisciplineName, Discipline] = {
    "fifo": Discipline("pfifo", None),
    "red": Discipline("red", "bytes", _RED, {"avpkt": "hidden", "burst": "hidden", "bandwidth": "hidden"}),
    "codel": Discipline("codel", "packets", _CODEL),
    "fq_codel": Discipline("fq_codel", "packets", _FQ_CODEL, {"quantum": "bytes"}),
    "pie": Discipline("pie", "packets", {"target": _TARGET, "ecn": _ECN}),
    # unlimited: the rate stage above it shapes the traffic
    "cake": Discipline("cake", "bytes", {"rtt": _RTT}, {"unlimited": "word"}, "memlimit"),
    "dualpi2": Discipline("dualpi2", "packets", _DUALPI2, since=(6, 17)),
}
OPTIONS: Mapping[str, Option] = {name: one for known in DISCIPLINES.values() for name, one in known.options.items()}

# The loss models with states: the probabilities in the order of tc-netem(8), and their meanings. The first is required.
LOSS_MODELS: Mapping[str, Mapping[str, str]] = {
    "gemodel": {
        "p": "The probability to change from the good state to the bad state.",
        "r": "The probability to change from the bad state to the good state. Default: 1 - p.",
        "1-h": "The probability of loss in the bad state. Default: 100%.",
        "1-k": "The probability of loss in the good state. Default: 0%.",
    },
    "state": {
        "p13": "The probability to change from received to lost within a burst.",
        "p31": "The probability to change from lost within a burst to received. Default: 1 - p13.",
        "p32": "The probability to change from lost to received within a burst. Default: 0%.",
        "p23": "The probability to change from received within a burst to lost. Default: 100%.",
        "p14": "The probability to change from received to a single isolated loss. Default: 0%.",
    },
}
