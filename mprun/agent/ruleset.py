# SPDX-License-Identifier: Apache-2.0
"""Packet filters of a node: load a plan's nft(8) commands, read them back, read their counters."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from mprun.agent.mininet_network import NamespaceNode, run
from mprun.agent.readback import BuildError, refuse

_POSITION = re.compile(r"^\S*?:(\d+):\d+-\d+: (.*)$", re.MULTILINE)
_LIST = ["nft", "-j", "list", "ruleset"]


def load(node: NamespaceNode, commands: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
    """Carry out a node's commands as one transaction. Return the ruleset that nft then shows. Raises BuildError."""
    lines = [" ".join(argv[1:]) for argv in commands]
    status, output = run(node, ["nft", "-f", "-"], "\n".join(lines) + "\n")
    if status != 0:
        raise BuildError(f"{node.name}: {explain(output, lines)}")
    shown = show(node)
    refuse(node.name, missing(commands, shown))
    return shown


def show(node: NamespaceNode) -> list[dict[str, Any]]:
    """Return the node's whole ruleset, as `nft -j` prints it. Raises BuildError."""
    status, output = run(node, _LIST, "")
    if status != 0:
        raise BuildError(f"{node.name}: {' '.join(_LIST)}: {output.strip()}")
    shown: list[dict[str, Any]] = json.loads(output)["nftables"]
    return shown


def missing(commands: Sequence[Sequence[str]], shown: Sequence[dict[str, Any]]) -> list[str]:
    """Return the tables, chains and counters that are missing, and chains with another number of rules."""
    found = Counter(_identity(kind, entry) for one in shown for kind, entry in one.items() if kind != "metainfo")
    # `nft add KIND FAMILY TABLE NAME ...`; a rule has its chain's identity
    asked = Counter(tuple(argv[2:6]) for argv in commands if argv[1] == "add")
    return [
        f"{' '.join(identity)}: asked {number}, reads {found[identity]}"
        for identity, number in asked.items()
        if found[identity] != number
    ]


def _identity(kind: str, entry: dict[str, Any]) -> tuple[str, ...]:
    if kind == "table":
        return kind, entry["family"], entry["name"]
    return kind, entry["family"], entry["table"], entry["chain" if kind == "rule" else "name"]


def packets(shown: Sequence[dict[str, Any]]) -> dict[str, int]:
    """Return the packets that each named counter has seen, by names such as `strip.mp_join`."""
    return {
        f"{entry['table']}.{entry['name']}": entry["packets"]
        for one in shown
        for kind, entry in one.items()
        if kind == "counter"
    }


def explain(output: str, lines: Sequence[str]) -> str:
    """Return nft's error message with the command that it refused ("/dev/stdin:4:54-60: Error: ...")."""
    match = _POSITION.search(output)
    if match and 0 < int(match[1]) <= len(lines):
        return f"'nft {lines[int(match[1]) - 1]}': {match[2]}"
    return f"nft: {output.strip()}"
