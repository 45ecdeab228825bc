# SPDX-License-Identifier: Apache-2.0
"""The pairs of hosts of an entry of `traffic` with several hosts: hosts by pattern or range, and their pairs."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import product
from typing import Annotated, Literal, TypeVar

from mprun.inputs.keys.field import NAME_PATTERN, parse_name, parsed

Pairing = Literal["all-to-all", "in-order", "permutation"]
# Several hosts as they are written in a file. A single host is text.
Several = tuple[str, ...]
EntryT = TypeVar("EntryT")

RANGE = ".."
_PATTERN = re.compile(r"[a-zA-Z*?\[][a-zA-Z0-9_*?\[\]!-]*")


def is_pattern(name: str) -> bool:
    """Return True if a name may mean several hosts: `h*`, `h[0-3]`, `h0..h4`."""
    return RANGE in name or any(sign in name for sign in "*?[")


def _parse_host(value: object) -> str:
    if not isinstance(value, str) or not is_pattern(value):
        return parse_name(value, "host")
    if RANGE in value:
        first, _, last = value.partition(RANGE)
        return f"{parse_name(first, 'host')}{RANGE}{parse_name(last, 'host')}"
    if not _PATTERN.fullmatch(value):
        raise ValueError(f"'{value}' is no pattern of names: write one as in 'h*', 'h[0-3]' or 'h0..h4'")
    return value


def _parse_hosts(value: object) -> str | Several:
    if isinstance(value, list):
        if not value:
            raise ValueError("names no host: write one, a pattern as in 'h*', or a list of them")
        return tuple(_parse_host(one) for one in value)
    one = _parse_host(value)
    return (one,) if is_pattern(one) else one


_ONE = {"type": "string", "pattern": NAME_PATTERN}
_MEANING = "A pattern such as 'h*', or a range such as 'h0..h4'."
_MATCHED = {"type": "string", "pattern": r"[*?\[]|\.\.", "description": _MEANING}
_LIST = {"type": "array", "items": {"anyOf": [_ONE, _MATCHED]}, "minItems": 1}
Hosts = Annotated[str | Several, *parsed(_parse_hosts, {"anyOf": [_ONE, _MATCHED, _LIST]})]

# One host, a pattern or a range, as the key of a mapping.
HostKey = Annotated[str, *parsed(_parse_host, {"type": "string", "pattern": rf"{NAME_PATTERN}|[*?\[]|\.\."})]


def find_hosts(wanted: str, hosts: Sequence[str]) -> Several:
    """The hosts that a name, pattern or range matches, in their order. Empty if none matches."""
    if RANGE in wanted:
        first, _, last = wanted.partition(RANGE)
        if first not in hosts or last not in hosts:
            return ()
        return tuple(hosts[hosts.index(first) : hosts.index(last) + 1])
    return tuple(host for host in hosts if fnmatchcase(host, wanted))


def spread_hosts(entries: Mapping[str, EntryT], hosts: Sequence[str]) -> dict[str, EntryT]:
    """Return the entry of each host. A name comes before patterns, and a later pattern before an earlier one."""
    found = {host: entry for key, entry in entries.items() if is_pattern(key) for host in find_hosts(key, hosts)}
    return found | {key: entry for key, entry in entries.items() if not is_pattern(key)}


def gather_hosts(wanted: str | Several, hosts: Sequence[str]) -> Several:
    """Return all hosts of a list, each once. Entries without a match are left out, as another check reports them."""
    names = (wanted,) if isinstance(wanted, str) else wanted
    return tuple(dict.fromkeys(host for name in names for host in find_hosts(name, hosts)))


def pair_hosts(
    sources: Sequence[str], destinations: Sequence[str], pairing: Pairing, key: str
) -> tuple[int, Iterable[tuple[str, str]]]:
    """The number of flows, and the (source, destination) of each. No host sends to itself.

    `key`: the permutation follows from it. Raises ValueError if the hosts make no such pairs.
    """
    if pairing == "all-to-all":
        count = len(sources) * len(destinations) - len({*sources} & {*destinations})
        return count, (pair for pair in product(sources, destinations) if pair[0] != pair[1])
    if len(sources) > len(destinations) or (pairing == "in-order" and len(sources) < len(destinations)):
        counts = f"{len(sources)} hosts at one end and {len(destinations)} at the other"
        raise ValueError(f"cannot pair {counts}: name as many, or write 'all-to-all'")
    drawn = _draw(sources, destinations, key) if pairing == "permutation" else list(destinations)
    pairs = list(zip(sources, drawn, strict=False))
    for source, destination in pairs:
        if source == destination:
            raise ValueError(f"would have '{source}' send to itself: name other hosts")
    return len(pairs), pairs


def _draw(sources: Sequence[str], destinations: Sequence[str], key: str) -> list[str]:
    """The destinations in an order that follows from the key, in which no source meets itself."""
    drawn = sorted(destinations, key=lambda name: hashlib.sha256(f"{key} {name}".encode()).digest())
    for n, source in enumerate(sources):
        if drawn[n] == source:
            other = (n + 1) % len(drawn)
            drawn[n], drawn[other] = drawn[other], drawn[n]
    return drawn
