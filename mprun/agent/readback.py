# SPDX-License-Identifier: Apache-2.0
"""Compare tc and `ip mptcp` commands with what the tools then show as JSON. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_RATES = {"bit": 1, "kbit": 1e3, "mbit": 1e6, "gbit": 1e9}
_TIMES = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


def differences_tc(commands: Sequence[Sequence[str]], shown: list[dict[str, Any]]) -> list[str]:
    """What `tc -j qdisc show` has otherwise than the `tc qdisc add` commands say; empty if nothing."""
    found = {(q["dev"], q["handle"]): q for q in shown}
    differences = []
    for argv in commands:
        words = list(argv[3:])
        if argv[1] != "qdisc" or words[2] == "ingress":
            continue
        device = words[1]
        handle = words[words.index("handle") + 1]
        kind, options = words[words.index("handle") + 2], words[words.index("handle") + 3 :]
        qdisc = found.get((device, handle))
        if qdisc is None or qdisc["kind"] != kind:
            differences.append(f"{device} has no {kind} {handle}")
            continue
        for name, asked in zip(options[::2], options[1::2], strict=True):
            got = _shown_option(kind, name, qdisc["options"])
            wanted = _asked_option(name, asked)
            if got is None or abs(got - wanted) > _resolution(kind, name, wanted):
                differences.append(f"{device} {kind} {name}: asked {asked}, reads {got}")
    return differences


def _asked_option(name: str, text: str) -> float:
    """An option's value in base units: s, bit/s, probability, or a count."""
    if name == "loss":
        return float(text.rstrip("%")) / 100
    number = text.rstrip("bitkmgnus")
    unit = text[len(number) :]
    if name == "delay":
        return float(number) * _TIMES[unit]
    if name == "rate":
        return float(number) * _RATES[unit]
    return float(number)


def _shown_option(kind: str, name: str, options: dict[str, Any]) -> float | None:
    value: Any
    if name == "delay":
        value = options.get("delay", {}).get("delay")
    elif name == "loss":
        value = options.get("loss-random", {}).get("loss")
    elif kind == "tbf" and name == "rate":
        return float(options["rate"]) * 8
    elif kind == "tbf" and name == "limit":
        # tc shows a limit only through the time that it takes to drain
        value = options.get("limit")
        if value is None and "lat" in options:
            return float(options["rate"]) * float(options["lat"]) / 1e6 + float(options["burst"])
    else:
        value = options.get(name)
    return None if value is None else float(value)


def _resolution(kind: str, name: str, wanted: float) -> float:
    """How exactly tc can hold and show an option: its clock ticks, 32-bit probabilities, drain times
    in microseconds."""
    if name == "loss":
        return 1e-7
    if name == "delay":
        return 1e-6
    if kind == "tbf" and name == "limit":
        return max(2.0, wanted * 1e-3)
    if kind == "tbf" and name == "burst":
        return 1.0 + wanted * 1e-2
    return 0.5


def differences_mptcp(commands: Sequence[Sequence[str]], shown: Sequence[str]) -> list[str]:
    """What the lines of `ip mptcp endpoint show` and `limits show` have otherwise than the commands say.

    As text: `limits show` of iproute2 6.1 is no JSON even with -j.
    """
    endpoints: dict[str, list[str]] = {}
    limits: dict[str, str] = {}
    for line in shown:
        words = line.split()
        if "id" in words:
            endpoints[words[0]] = words[1:]
        else:
            limits |= dict(zip(words[::2], words[1::2], strict=False))
    differences = []
    for argv in commands:
        if argv[2] == "limits":
            for name, asked in zip(argv[4::2], argv[5::2], strict=True):
                if limits.get(name) != asked:
                    differences.append(f"limit {name}: asked {asked}, reads {limits.get(name)}")
        else:
            address, flags = argv[4], argv[5:]
            missing = [flag for flag in flags if flag not in endpoints.get(address, ())]
            if address not in endpoints:
                differences.append(f"no endpoint {address}")
            elif missing:
                differences.append(f"endpoint {address} lacks {' '.join(missing)}")
    return differences
