# SPDX-License-Identifier: Apache-2.0
"""Read-back: what tc and ip show, compared with what was asked."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from mprun.agent.readback import differences_mptcp, differences_tc

SHOWN: list[dict[str, Any]] = json.loads((Path(__file__).parents[1] / "outputs" / "tc-6.1.0-qdisc.json").read_text())
TC = [
    "tc qdisc add dev w0b root handle 1: netem limit 10000000 delay 20ms loss 0.5%".split(),
    "tc qdisc add dev w0b parent 1:1 handle 10: tbf rate 20mbit burst 1514 limit 121120".split(),
    "tc qdisc add dev w0b parent 10:1 handle 100: pfifo limit 80".split(),
    "tc qdisc add dev w0a ingress".split(),
]
LIMITS = "ip mptcp limits set subflows 2 add_addr_accepted 1".split()
ENDPOINT = "ip mptcp endpoint add 10.0.0.1 subflow fullmesh".split()


def test_equal_qdiscs_have_no_difference() -> None:
    assert differences_tc(TC, SHOWN) == []


@pytest.mark.parametrize(
    ("index", "asked", "other", "message"),
    [
        (0, "20ms", "21ms", "w0b netem delay: asked 21ms, reads 0.02"),
        (0, "0.5%", "0.6%", "w0b netem loss: asked 0.6%, reads 0.005"),
        (1, "20mbit", "21mbit", "w0b tbf rate: asked 21mbit, reads 20000000.0"),
        (2, "80", "81", "w0b pfifo limit: asked 81, reads 80.0"),
        (2, "pfifo", "bfifo", "w0b has no bfifo 100:"),
    ],
)
def test_each_difference_is_named(index: int, asked: str, other: str, message: str) -> None:
    commands = copy.deepcopy(TC)
    commands[index] = [other if word == asked else word for word in commands[index]]
    assert differences_tc(commands, SHOWN) == [message]


def test_equal_endpoints_have_no_difference() -> None:
    shown = ["10.0.0.1 id 1 subflow fullmesh", "add_addr_accepted 1 subflows 2 "]
    assert differences_mptcp([LIMITS, ENDPOINT], shown) == []


@pytest.mark.parametrize(
    ("shown", "message"),
    [
        (
            ["10.0.0.1 id 1 subflow fullmesh", "add_addr_accepted 0 subflows 2"],
            "limit add_addr_accepted: asked 1, reads 0",
        ),
        (["10.0.0.1 id 1 subflow", "add_addr_accepted 1 subflows 2"], "endpoint 10.0.0.1 lacks fullmesh"),
        (["add_addr_accepted 1 subflows 2"], "no endpoint 10.0.0.1"),
    ],
)
def test_each_endpoint_difference_is_named(shown: list[str], message: str) -> None:
    assert differences_mptcp([LIMITS, ENDPOINT], shown) == [message]
