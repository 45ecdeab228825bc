# SPDX-License-Identifier: Apache-2.0
"""The tc(8) commands that most wires are made of, as rtnetlink(7) messages.

A tc that is given them one by one makes three system calls for each. What is none of these is left to
tc, and so is reading all of them back.

Source: include/uapi/linux/{pkt_sched,pkt_cls,rtnetlink}.h and tc_act/tc_mirred.h of Linux.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Sequence

from mprun.agent.message import attribute
from mprun.agent.readback import RATE, RATIO, TIME, read_value
from mprun.agent.rtnetlink import NLM_F_CREATE, NLM_F_EXCL

RTM_NEWQDISC, RTM_NEWTFILTER = 36, 44
TCA_KIND, TCA_OPTIONS = 1, 2
TCA_TBF_PARMS, TCA_TBF_RATE64, TCA_TBF_BURST = 1, 4, 6
TCA_NETEM_LATENCY64 = 10
TCA_U32_SEL, TCA_U32_ACT, TCA_ACT_KIND, TCA_ACT_OPTIONS, TCA_MIRRED_PARMS = 5, 7, 1, 2, 2
TC_H_ROOT, TC_H_INGRESS, INGRESS_HANDLE = 0xFFFFFFFF, 0xFFFFFFF1, 0xFFFF0000
TC_LINKLAYER_ETHERNET = 1
TC_U32_TERMINAL, TC_ACT_STOLEN, TCA_EGRESS_REDIR = 1, 4, 1
ETH_P_ALL = 3
# A tick of the kernel's packet scheduler is 64 ns (PSCHED_SHIFT in include/net/pkt_sched.h).
TICK_NS = 64
LARGEST = 0xFFFFFFFF
REDIRECT = "parent ffff: protocol all u32 match u32 0 0 action mirred egress redirect dev".split()

_TCMSG = struct.Struct("=BxxxiIII")
# cell_log, linklayer, overhead, cell_align, mpu, rate
_RATESPEC = struct.Struct("=BBHhHI")
# limit, buffer, mtu: the last two are those of TCA_TBF_BURST and of a peak rate
_TBF = struct.Struct("=III")
# latency, limit, loss, gap, duplicate, jitter
_NETEM = struct.Struct("=IIIIII")
_U32_KEY = struct.Struct("=IIii")
_U32_SELECTOR = struct.Struct("=BBBxHHhhI")
_MIRRED = struct.Struct("=IIiiiiI")

Message = tuple[int, int, bytes]


def translate(words: Sequence[str], index: Callable[[str], int]) -> Message | None:
    """(type, flags, body) of a tc command without its leading `tc`; None if it is for tc itself.

    index: number of an interface in the namespace at hand.
    """
    words = list(words)
    if words[:3] == ["filter", "add", "dev"] and words[4:-1] == REDIRECT:
        return RTM_NEWTFILTER, NLM_F_CREATE | NLM_F_EXCL, _redirection(index(words[3]), index(words[-1]))
    if words[:3] != ["qdisc", "add", "dev"]:
        return None
    device, rest = index(words[3]), words[4:]
    if rest == ["ingress"]:
        parent, handle, kind, options = TC_H_INGRESS, INGRESS_HANDLE, "ingress", b""
    else:
        if rest[0] == "root":
            parent, rest = TC_H_ROOT, rest[1:]
        else:
            parent, rest = _handle(rest[1]), rest[2:]
        handle, kind = _handle(rest[1]), rest[2]
        found = _OPTIONS[kind](dict(_pairs(rest[3:]))) if kind in _OPTIONS else None
        if found is None:
            return None
        options = attribute(TCA_OPTIONS, found)
    body = _TCMSG.pack(0, device, handle, parent, 0) + attribute(TCA_KIND, kind.encode() + b"\0")
    return RTM_NEWQDISC, NLM_F_CREATE | NLM_F_EXCL, body + options


def _handle(text: str) -> int:
    """`10:1` as a number; its parts are hexadecimal (tc(8))."""
    major, _, minor = text.partition(":")
    return int(major, 16) << 16 | int(minor or "0", 16)


def _pairs(words: Sequence[str]) -> list[tuple[str, str]]:
    """Keywords with their one value each; `loss random` is one keyword. Others come out odd, and are not ours."""
    text = " ".join(words).replace("loss random", "loss-random").split()
    return list(zip(text[::2], [*text[1::2], ""], strict=False))


def _tbf(values: dict[str, str]) -> bytes | None:
    if values.keys() != {"rate", "burst", "limit"}:
        return None
    rate = int(read_value(RATE, values["rate"]) / 8)
    spec = _RATESPEC.pack(0, TC_LINKLAYER_ETHERNET, 0, 0, 0, min(rate, LARGEST))
    options = attribute(TCA_TBF_PARMS, spec + bytes(_RATESPEC.size) + _TBF.pack(int(values["limit"]), 0, 0))
    if rate > LARGEST:
        options += attribute(TCA_TBF_RATE64, struct.pack("=Q", rate))
    return options + attribute(TCA_TBF_BURST, struct.pack("=I", int(values["burst"])))


def _pfifo(values: dict[str, str]) -> bytes | None:
    return struct.pack("=I", int(values["limit"])) if values.keys() == {"limit"} else None


def _netem(values: dict[str, str]) -> bytes | None:
    if "limit" not in values or values.keys() - {"limit", "delay", "loss-random"}:
        return None
    delay_ns = round(read_value(TIME, values["delay"]) * 1e9) if "delay" in values else 0
    loss = round(read_value(RATIO, values["loss-random"]) * LARGEST) if "loss-random" in values else 0
    body = _NETEM.pack(min(delay_ns // TICK_NS, LARGEST), int(values["limit"]), loss, 0, 0, 0)
    return body + attribute(TCA_NETEM_LATENCY64, struct.pack("=q", delay_ns))


_OPTIONS = {"tbf": _tbf, "pfifo": _pfifo, "netem": _netem}


def _redirection(device: int, to: int) -> bytes:
    body = _TCMSG.pack(0, device, 0, INGRESS_HANDLE, socket.htons(ETH_P_ALL))
    selector = _U32_SELECTOR.pack(TC_U32_TERMINAL, 0, 1, 0, 0, 0, 0, 0) + _U32_KEY.pack(0, 0, 0, 0)
    mirred = _MIRRED.pack(0, 0, TC_ACT_STOLEN, 0, 0, TCA_EGRESS_REDIR, to)
    action = attribute(TCA_ACT_KIND, b"mirred\0") + attribute(TCA_ACT_OPTIONS, attribute(TCA_MIRRED_PARMS, mirred))
    options = attribute(TCA_U32_SEL, selector) + attribute(TCA_U32_ACT, attribute(1, action))
    return body + attribute(TCA_KIND, b"u32\0") + attribute(TCA_OPTIONS, options)
