# SPDX-License-Identifier: Apache-2.0
"""Flows and groups in the syntax of ovs-ofctl(8), as far as mprun reads them: the ports and groups that they name.

ovs-ofctl understands the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

# Names of ports that are not links (ovs-ofctl(8), OpenFlow 1.5 section 7.2.1).
RESERVED_PORTS = ("in_port", "table", "normal", "flood", "all", "local", "controller", "any", "none")

_PORT = re.compile(r'\b(in_port|output|port|watch_port|enqueue)(\s*[=:]\s*)"?([A-Za-z][\w-]*|\d+)"?')
_BARE = re.compile(r'((?:actions?=|[,(])\s*)"?([A-Za-z][\w-]*)"?(?=\s*(?:,|\)|$))')
_GROUP_ID = re.compile(r"\bgroup_id\s*=\s*(\d+)")
_GROUP_USED = re.compile(r"\bgroup\s*[:=]\s*(\d+)")
_ACTIONS = re.compile(r"\bactions?\s*=")
_NO_LINK = re.compile(r"\d+|" + "|".join(RESERVED_PORTS), re.IGNORECASE)


def ports_named(text: str) -> Iterator[str]:
    """The names of ports, without reserved names and numbers."""
    for match in _PORT.finditer(text):
        if not _NO_LINK.fullmatch(match[3]):
            yield match[3]


def port_numbers(text: str) -> Iterator[int]:
    """The ports that are named by their number."""
    for match in _PORT.finditer(text):
        if match[3].isdigit():
            yield int(match[3])


def rename_ports(text: str, names: Mapping[str, str]) -> str:
    """The text with each port in `names` renamed. An action may consist of a port's name alone."""

    def rename(match: re.Match[str]) -> str:
        return f"{match[1]}{match[2]}{names.get(match[3], match[3])}"

    renamed = _PORT.sub(rename, text)
    start = _ACTIONS.search(renamed)
    if start is None:
        return renamed
    head, actions = renamed[: start.start()], renamed[start.start() :]
    actions = _BARE.sub(lambda m: f"{m[1]}output:{names[m[2]]}" if m[2] in names else m[0], actions)
    return head + actions


def has_actions(text: str) -> bool:
    return _ACTIONS.search(text) is not None


def group_id(text: str) -> int | None:
    """The number of the group in a text."""
    match = _GROUP_ID.search(text)
    return int(match[1]) if match else None


def groups_used(text: str) -> set[int]:
    """The groups to which a flow or a bucket sends packets."""
    return {int(match[1]) for match in _GROUP_USED.finditer(text)}
