# SPDX-License-Identifier: Apache-2.0
"""The tc(8) commands that most wires need, as rtnetlink(7) messages, and the read-back of their qdiscs.

If tc gets these commands one by one, it makes three system calls for each. To start tc only to list a few qdiscs takes
longer than to build them. All other commands are left to tc.

Source: include/uapi/linux/{pkt_sched,pkt_cls,rtnetlink}.h and tc_act/tc_mirred.h of Linux.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mprun.agent.message import attribute, attributes
from mprun.agent.readback import RATE, RATIO, TIME, read_value
from mprun.agent.rtnetlink import NLM_F_CREATE, NLM_F_EXCL, Netlink

RTM_NEWQDISC, RTM_GETQDISC, RTM_NEWTFILTER = 36, 38, 44
TCA_KIND, TCA_OPTIONS = 1, 2
TCA_TBF_PARMS, TCA_TBF_RATE64, TCA_TBF_BURST = 1, 4, 6
TCA_NETEM_LATENCY64 = 10
TCA_DUALPI2_LIMIT, TCA_DUALPI2_TARGET, TCA_DUALPI2_STEP_THRESH_US, TCA_DUALPI2_COUPLING = 1, 3, 8, 10
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
# limit, buffer, mtu; buffer is given in TCA_TBF_BURST, and mtu belongs to a peak rate
_TBF = struct.Struct("=III")
# latency, limit, loss, gap, duplicate, jitter
_NETEM = struct.Struct("=IIIIII")
_U32_KEY = struct.Struct("=IIii")
_U32_SELECTOR = struct.Struct("=BBBxHHhhI")
_MIRRED = struct.Struct("=IIiiiiI")

NetlinkMessage = tuple[int, int, bytes]


def translate(words: Sequence[str], index: Callable[[str], int]) -> NetlinkMessage | None:
    """Return (type, flags, body) of a tc command without its leading `tc`; None if tc itself must run it.

    index: the index of an interface in the current namespace.
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
        found = _OPTIONS[kind](_pairs(rest[3:])) if kind in _OPTIONS else None
        if found is None:
            return None
        options = attribute(TCA_OPTIONS | (NLA_F_NESTED if kind in _STRICT else 0), found)
    body = _TCMSG.pack(0, device, handle, parent, 0) + attribute(TCA_KIND, kind.encode() + b"\0")
    return RTM_NEWQDISC, NLM_F_CREATE | NLM_F_EXCL, body + options


def _handle(text: str) -> int:
    """Return `10:1` as a number. Its parts are hexadecimal (tc(8))."""
    major, _, minor = text.partition(":")
    return int(major, 16) << 16 | int(minor or "0", 16)


def _pairs(words: Sequence[str]) -> dict[str, str]:
    """Return keywords with their one value each; `loss random` is one keyword.

    Other options give wrong pairs, which `_OPTIONS` then refuses.
    """
    rest = iter(words)
    return {f"loss {next(rest, '')}" if keyword == "loss" else keyword: next(rest, "") for keyword in rest}


def _tbf(values: dict[str, str]) -> bytes | None:
    if values.keys() != {"rate", "burst", "limit"}:
        return None
    rate = int(read_value(RATE, values["rate"]) / 8)
    spec = _RATESPEC.pack(0, TC_LINKLAYER_ETHERNET, 0, 0, 0, min(rate, LARGEST))
    options = attribute(TCA_TBF_PARMS, spec + bytes(_RATESPEC.size) + _TBF.pack(int(values["limit"]), 0, 0))
    if rate > LARGEST:
        options += attribute(TCA_TBF_RATE64, struct.pack("=Q", rate))
    return options + attribute(TCA_TBF_BURST, struct.pack("=I", int(values["burst"])))


def _fifo(values: dict[str, str]) -> bytes | None:
    return struct.pack("=I", int(values["limit"])) if values.keys() == {"limit"} else None


def _netem(values: dict[str, str]) -> bytes | None:
    if "limit" not in values or values.keys() - {"limit", "delay", "loss random"}:
        return None
    delay_ns = round(read_value(TIME, values["delay"]) * 1e9) if "delay" in values else 0
    loss = round(read_value(RATIO, values["loss random"]) * LARGEST) if "loss random" in values else 0
    body = _NETEM.pack(min(delay_ns // TICK_NS, LARGEST), int(values["limit"]), loss, 0, 0, 0)
    return body + attribute(TCA_NETEM_LATENCY64, struct.pack("=q", delay_ns))


def _dualpi2(values: dict[str, str]) -> bytes | None:
    """Return the options of a dualpi2, which iproute2 knows from 6.17 on (DUALPI2 of pkt_sched.h)."""
    if "limit" not in values or values.keys() - {"limit", "target", "step_thresh", "coupling_factor"}:
        return None
    options = attribute(TCA_DUALPI2_LIMIT, struct.pack("=I", int(values["limit"])))
    for name, kind in (("target", TCA_DUALPI2_TARGET), ("step_thresh", TCA_DUALPI2_STEP_THRESH_US)):
        if name in values:
            options += attribute(kind, struct.pack("=I", round(read_value(TIME, values[name]) * 1e6)))
    if "coupling_factor" in values:
        options += attribute(TCA_DUALPI2_COUPLING, struct.pack("=B", int(values["coupling_factor"])))
    return options


# Newer queue disciplines refuse nested options without this flag (NL_VALIDATE_STRICT of netlink.h).
NLA_F_NESTED = 1 << 15
_STRICT = ("dualpi2",)
_OPTIONS = {"tbf": _tbf, "pfifo": _fifo, "bfifo": _fifo, "netem": _netem, "dualpi2": _dualpi2}


def read_back(netlink: Netlink, names: Mapping[int, str]) -> list[dict[str, Any]]:
    """Return the qdiscs of these interfaces in the format of `tc -j qdisc show`, with the options that are set here.

    names: the interfaces by index. A tbf has no limit here: it has no effect beside the queue below it.
    """
    shown = []
    for body in netlink.dump(RTM_GETQDISC, bytes(_TCMSG.size)):
        _family, device, handle, _parent, _info = _TCMSG.unpack_from(body)
        if device not in names:
            continue
        found = attributes(body[_TCMSG.size :])
        kind = found[TCA_KIND].rstrip(b"\0").decode()
        options = _SHOWN[kind](found[TCA_OPTIONS]) if kind in _SHOWN else {}
        shown.append({"kind": kind, "handle": f"{handle >> 16:x}:", "dev": names[device], "options": options})
    return shown


def _show_tbf(options: bytes) -> dict[str, Any]:
    """Return the options of a tbf. The kernel holds a burst as the time that it takes to send."""
    found = attributes(options)
    parameters = found[TCA_TBF_PARMS]
    rate = _RATESPEC.unpack_from(parameters)[-1]
    if TCA_TBF_RATE64 in found:
        (rate,) = struct.unpack("=Q", found[TCA_TBF_RATE64])
    _limit, ticks, _mtu = _TBF.unpack_from(parameters, 2 * _RATESPEC.size)
    return {"rate": rate, "burst": round(rate * ticks * TICK_NS / 1e9)}


def _show_netem(options: bytes) -> dict[str, Any]:
    _ticks, limit, loss, _gap, _duplicate, _jitter = _NETEM.unpack_from(options)
    (delay_ns,) = struct.unpack("=q", attributes(options[_NETEM.size :])[TCA_NETEM_LATENCY64])
    return {"limit": limit, "delay": {"delay": delay_ns / 1e9}, "loss-random": {"loss": loss / LARGEST}}


def _show_fifo(options: bytes) -> dict[str, Any]:
    return {"limit": struct.unpack_from("=I", options)[0]}


def _show_dualpi2(options: bytes) -> dict[str, Any]:
    """Return the options of a dualpi2, with times in us. A threshold in packets is not one that mprun sets."""
    found = attributes(options)
    names = {
        "limit": TCA_DUALPI2_LIMIT,
        "target": TCA_DUALPI2_TARGET,
        "step_thresh": TCA_DUALPI2_STEP_THRESH_US,
    }
    shown = {name: struct.unpack("=I", found[kind])[0] for name, kind in names.items() if kind in found}
    return shown | {"coupling_factor": found[TCA_DUALPI2_COUPLING][0]}


_SHOWN = {"tbf": _show_tbf, "pfifo": _show_fifo, "bfifo": _show_fifo, "netem": _show_netem, "dualpi2": _show_dualpi2}


def _redirection(device: int, to: int) -> bytes:
    body = _TCMSG.pack(0, device, 0, INGRESS_HANDLE, socket.htons(ETH_P_ALL))
    selector = _U32_SELECTOR.pack(TC_U32_TERMINAL, 0, 1, 0, 0, 0, 0, 0) + _U32_KEY.pack(0, 0, 0, 0)
    mirred = _MIRRED.pack(0, 0, TC_ACT_STOLEN, 0, 0, TCA_EGRESS_REDIR, to)
    action = attribute(TCA_ACT_KIND, b"mirred\0") + attribute(TCA_ACT_OPTIONS, attribute(TCA_MIRRED_PARMS, mirred))
    options = attribute(TCA_U32_SEL, selector) + attribute(TCA_U32_ACT, attribute(1, action))
    return body + attribute(TCA_KIND, b"u32\0") + attribute(TCA_OPTIONS, options)
