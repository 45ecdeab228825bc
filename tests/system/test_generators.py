# SPDX-License-Identifier: Apache-2.0
"""Every generator's network runs, and what shares a bottleneck gets no more than it, and most of it."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from mprun.topologies import GENERATORS
from tests.system.conftest import ROOT, Result

PLANS = ROOT / "tests" / "golden" / "plans"
CASES = {name: "two-paths" if name == "multi-path" else name for name in GENERATORS}
# Of 1514 bytes on the wire TCP carries 1448.
TCP_SHARE = 1448 / 1514


@pytest.mark.parametrize("generator", sorted(CASES))
def test_network_runs(mprun: Callable[..., Result], generator: str) -> None:
    case = PLANS / CASES[generator]
    result = mprun("-t", case / "topo", "-x", case / "xp", "--engine", "virtual", "--json")
    assert result.status == 0, result.out + result.err
    assert result.summary["failures"] == []


@pytest.mark.parametrize(
    ("generator", "flows", "rate"),
    [
        ("dumbbell", ("a", "b"), 20e6),
        ("parking-lot", ("long", "cross1"), 20e6),
        ("parking-lot", ("long", "cross2"), 20e6),
        ("fat-tree", ("far", "near"), 100e6),
        ("two-level-tree", ("bulk",), 20e6),
    ],
)
def test_bottleneck_is_shared(
    mprun: Callable[..., Result], generator: str, flows: tuple[str, ...], rate: float
) -> None:
    result = mprun("-t", PLANS / generator / "topo", "-x", PLANS / generator / "xp", "--engine", "virtual", "--json")
    total = sum(result.metric(f"{flow}.goodput") for flow in flows)
    assert 0.6 * rate * TCP_SHARE <= total <= 1.01 * rate * TCP_SHARE


@pytest.mark.parametrize(
    "generator", ["access-points", "dumbbell", "khalili", "line", "multi-client", "parking-lot", "star"]
)
def test_links_of_generators_are_as_asked(mprun: Callable[..., Result], generator: str) -> None:
    result = mprun("calibrate", "-t", PLANS / generator / "topo", "--engine", "virtual", "--json")
    assert [row for row in json.loads(result.out)["rows"] if not row["held"]] == []
    assert result.status == 0
