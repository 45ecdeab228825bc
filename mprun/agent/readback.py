# SPDX-License-Identifier: Apache-2.0
"""Compare the settings that commands of tc, `ip mptcp` and ovs-ofctl request with what these tools then show. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from mprun.model.discipline import DISCIPLINES, LOSS_MODELS

_RATES = {"bit": 1.0, "kbit": 1e3, "mbit": 1e6, "gbit": 1e9}
_TIMES = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}

# The form of a value, and how exactly tc can hold and show it.
COUNT, BYTES, TIME, MICROSECONDS, RATE, RATIO, BUCKET = range(7)
_Position = tuple[str, int]

# The events of a packet with a probability and a correlation.
_CHANCES = ("duplicate", "corrupt", "reorder")

# The kernel shows the time of a burst in 32 bits, in ticks of 64 ns. It counts with more.
LONGEST_BURST_S = 2**32 * 64e-9

# The forms of the options of queueing disciplines that tc shows.
_FORMS: dict[str, int] = {"count": COUNT, "ns": MICROSECONDS, "bytes": BYTES}

# For each kind of qdisc: keyword -> the places of its values in `tc -j qdisc show`, and their forms. A place with dots
# is nested; None: the value is not shown. `loss MODEL` is one keyword.
_GRAMMAR: dict[str, dict[str, list[_Position | None]]] = {
    "netem": {
        "limit": [("limit", COUNT)],
        "delay": [("delay.delay", TIME), ("delay.jitter", TIME), ("delay.correlation", RATIO)],
        "distribution": [None],
        "loss random": [("loss-random.loss", RATIO), ("loss-random.correlation", RATIO)],
        **{f"loss {model}": [(f"loss-{model}.{name}", RATIO) for name in LOSS_MODELS[model]] for model in LOSS_MODELS},
        **{name: [(f"{name}.{name}", RATIO), (f"{name}.correlation", RATIO)] for name in _CHANCES},
        "gap": [("gap", COUNT)],
        "rate": [("rate.rate", RATE)],
    },
    # the limit of a tbf has no effect beside the queue below it, and tc shows it as a time
    "tbf": {"rate": [("rate", RATE)], "burst": [("burst", BUCKET)], "limit": [None]},
    "bfifo": {"limit": [("limit", BYTES)]},
    **{
        known.kind: {
            keyword: [] if kind == "word" else [(keyword, _FORMS[kind]) if kind in _FORMS else None]
            for keyword, kind in known.keywords.items()
        }
        for known in DISCIPLINES.values()
    },
}


class BuildError(Exception):
    """A failure to build the network: a command failed, or a setting that was read back differs from the plan."""


def refuse(place: str, differences: Sequence[str]) -> None:
    """Raise BuildError if a place has differences between what was set and what was read back."""
    if differences:
        raise BuildError(f"{place}: read back is not what was set: {'; '.join(differences)}")


def differences_tc(commands: Sequence[Sequence[str]], shown: list[dict[str, Any]]) -> list[str]:
    """Return the differences between `tc -j qdisc show` and `tc qdisc add` and `change` commands.

    The list is empty if there are none. Of several commands for one qdisc, the last one counts.
    """
    found = {(q["dev"], q["handle"]): q for q in shown}
    asked: dict[tuple[str, str], list[str]] = {}
    for argv in commands:
        words = list(argv[3:])
        if argv[1] == "qdisc" and words[2] != "ingress":
            at = words.index("handle") + 1
            asked[words[1], words[at]] = words[at + 1 :]
    differences = []
    for (device, handle), (kind, *words) in asked.items():
        qdisc = found.get((device, handle))
        if qdisc is None or qdisc["kind"] != kind:
            differences.append(f"{device} has no {kind} {handle}")
            continue
        differences += [f"{device} {kind} {text}" for text in _compare(kind, words, qdisc["options"])]
    return differences


def _compare(kind: str, words: list[str], options: dict[str, Any]) -> Iterator[str]:
    """Yield each option that differs, such as `delay: asked 20ms, reads 0.03`."""
    grammar = _GRAMMAR[kind]
    while words:
        keyword = words.pop(0)
        if keyword not in grammar and words and f"{keyword} {words[0]}" in grammar:
            keyword += " " + words.pop(0)
        if keyword in ("ecn", "noecn"):
            if bool(options.get("ecn")) != (keyword == "ecn"):
                yield f"{keyword}: reads {options.get('ecn')}"
            continue
        if keyword not in grammar:
            yield f"{keyword}: not known to be set"
            continue
        for position in grammar[keyword]:
            if not words or words[0] in (*grammar, "loss"):
                break
            text = words.pop(0)
            if position is None:
                continue
            wanted, got = read_value(position[1], text), _shown(position, options)
            if got is None and wanted == 0:
                continue
            if got is None or _distance(position[1], got, wanted, options) > _resolution(position[1], wanted, options):
                yield f"{keyword}: asked {text}, reads {got}"


def read_value(form: int, text: str) -> float:
    """Return an option's value in base units: s, bit/s, probability, bytes or a count."""
    if form == RATIO:
        return float(text.rstrip("%")) / 100
    number = text.rstrip("bitkmgnus")
    unit = text[len(number) :]
    if form in (TIME, MICROSECONDS):
        return float(number) * _TIMES[unit]
    return float(number) * _RATES[unit] if form == RATE else float(number)


def _shown(position: _Position, options: dict[str, Any]) -> float | None:
    path, form = position
    value: Any = options
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    if value is None:
        return None
    scale = {RATE: 8.0, MICROSECONDS: 1e-6}.get(form, 1.0)
    return float(value) * scale


def _distance(form: int, got: float, wanted: float, options: dict[str, Any]) -> float:
    """Return the difference of two values. A burst is shown as a time in 32 bits, so that a longer time wraps."""
    distance = abs(got - wanted)
    if form != BUCKET:
        return distance
    wrap = float(options["rate"]) * LONGEST_BURST_S
    return min(distance % wrap, wrap - distance % wrap)


def _resolution(form: int, wanted: float, options: dict[str, Any]) -> float:
    """Return the largest difference that the rounding of the kernel and of tc explains.

    A time has whole microseconds of tc's clock ticks, and one microsecond less with a jitter. Probabilities have 32
    bits. The kernel holds a burst as a time in ticks of 64 ns. tc prints this time in whole microseconds, converted to
    whole bytes.
    """
    if form == BUCKET:
        return 1.0 + float(options["rate"]) * 1.064e-6
    return {
        RATIO: 1e-7,
        TIME: 2.1e-6,
        MICROSECONDS: 2e-6,
        BYTES: 1.0,
    }.get(form, 0.5)


def differences_mptcp(commands: Sequence[Sequence[str]], shown: Sequence[str]) -> list[str]:
    """Return the differences between the output of `ip mptcp endpoint show` and `limits show` and the commands.

    The output is text: `limits show` of iproute2 6.1 is not JSON even with -j.
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


def differences_groups(asked: Sequence[str], shown: Sequence[str]) -> list[str]:
    """Return the differences between the output of `ovs-ofctl dump-groups` and the groups of the plan."""
    found = {_group_number(line): line.strip() for line in shown}
    return [
        f"group asked as '{text}', reads '{found.get(_group_number(text), 'nothing')}'"
        for text in asked
        if _group_shape(found.get(_group_number(text), "")) != _group_shape(text)
    ]


def differences_ports(commands: Sequence[Sequence[str]], shown: Sequence[Sequence[Any]]) -> list[str]:
    """Return the differences between rows of name, number and error, and `ofport_request` of ovs-vsctl commands."""
    found = {row[0]: row[1:] for row in shown}
    differences = []
    for argv in commands:
        for name, word in pairwise(argv):
            if not word.startswith("ofport_request="):
                continue
            number, error = found.get(name, (None, None))
            if str(number) != word.split("=")[1]:
                reads = number if isinstance(number, int) else "nothing"
                why = f" ({error})" if isinstance(error, str) and error else ""
                differences.append(f"port {name}: asked {word.split('=')[1]}, reads {reads}{why}")
    return differences


def _group_number(text: str) -> str:
    found = re.search(r"group_id=(\d+)", text)
    return found[1] if found else ""


def _group_shape(text: str) -> tuple[Any, ...]:
    """Return the parts of a group that are compared: type, method, and each bucket's weight and outputs."""
    plain = re.sub(r'["\s]', "", text)
    head, *buckets = plain.split("bucket=")
    kind, method = (re.search(rf"\b{word}=([\w]+)", head) for word in ("type", "selection_method"))
    return kind and kind[1], method and method[1], tuple(map(_bucket, buckets))


def _bucket(text: str) -> tuple[Any, ...]:
    weight = re.search(r"weight[:=](\d+)", text)
    # a weight of 1 is not shown
    outputs = re.findall(r"output[:=]([\w-]+)", text)
    return weight[1] if weight else "1", tuple(outputs)
