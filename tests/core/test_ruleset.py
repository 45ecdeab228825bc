# SPDX-License-Identifier: Apache-2.0
"""Packet filters: the output of nft compared with the requested rules, and the filter named in an error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mprun.agent.ruleset import explain, missing, packets

SHOWN: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "outputs" / "nft-1.0.6-ruleset.json").read_text()
)["nftables"]
COMMANDS = [
    "nft add table inet nat".split(),
    "nft add counter inet nat translated".split(),
    "nft add counter inet nat unsolicited".split(),
    [*"nft add chain inet nat postrouting".split(), "{ type nat hook postrouting priority srcnat; }"],
    [*"nft add rule inet nat postrouting".split(), "counter name translated masquerade"],
    [*"nft add chain inet nat forward".split(), "{ type filter hook forward priority filter; }"],
    [*"nft add rule inet nat forward".split(), "counter name unsolicited drop"],
]


def test_what_is_shown_is_what_was_added() -> None:
    assert missing(COMMANDS, SHOWN) == []


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("rule", "rule inet nat postrouting: asked 1, reads 0"),
        ("chain", "chain inet nat postrouting: asked 1, reads 0"),
        ("counter", "counter inet nat translated: asked 1, reads 0"),
        ("table", "table inet nat: asked 1, reads 0"),
    ],
)
def test_what_is_not_shown_is_named(kind: str, message: str) -> None:
    assert missing(COMMANDS, [one for one in SHOWN if kind not in one])[0] == message


def test_counters_go_by_table_and_name() -> None:
    assert packets(SHOWN) == {"nat.translated": 0, "nat.unsolicited": 0}


def test_the_refused_command_is_shown() -> None:
    lines = ["add table inet strip", "add rule inet strip forward tcp option mptcp subtype mp-join drop"]
    output = "/dev/stdin:2:54-60: Error: Could not parse integer\nadd rule inet strip ...\n      ^^^^^^^\n"
    assert explain(output, lines) == f"'nft {lines[1]}': Error: Could not parse integer"
    assert explain("netlink: Error: cache initialization failed", lines).startswith("nft: netlink: Error")
