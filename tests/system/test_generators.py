# SPDX-License-Identifier: Apache-2.0
"""Every generator's network runs. Flows that share a bottleneck get no more than its rate, and most of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from mprun.inputs.generators import GENERATORS
from tests.system.conftest import ROOT, Result

PLANS = ROOT / "tests" / "golden" / "plans"
CASES = {name: "two-paths" if name == "multi-path" else name for name in GENERATORS}
# TCP carries 1448 of 1514 bytes on the wire.
TCP_SHARE = 1448 / 1514


@pytest.mark.parametrize("generator", sorted(CASES))
def test_network_runs(mprun: Callable[..., Result], generator: str) -> None:
    case = PLANS / CASES[generator]
    result = mprun("-t", case / "topo", "-x", case / "xp", "--engine", "virtual", "--json")
    assert result.status == 0, result.out + result.err
    assert result.summary["failures"] == []


def test_names_of_any_length_have_interfaces(mprun: Callable[..., Result], tmp_path: Path) -> None:
    """An interface's name has up to 15 characters (IFNAMSIZ), a node's up to 32, and a link's more."""
    client, router, switch, bridge, server = (f"{kind}-".ljust(32, "x") for kind in "crsbh")
    (tmp_path / "topo.yaml").write_text(
        f"version: 1\nnodes: {{{client}: {{kind: host}}, {router}: {{kind: router}}, {bridge}: {{kind: switch}},"
        f" {switch}: {{kind: switch, openflow: {{mode: learning}}}}, {server}: {{kind: host}}}}\n"
        "links:\n"
        + "".join(f"  - {{name: way-{n}, between: [{client}, {router}], delay: {n + 1}ms}}\n" for n in range(12))
        + "".join(f"  - {{between: [{a}, {b}]}}\n" for a, b in ((router, switch), (switch, bridge), (bridge, server)))
    )
    (tmp_path / "xp.yaml").write_text(
        f"version: 1\ntraffic: [{{name: echo, tool: ping, from: {client}, to: {server}, count: 2}}]\n"
    )
    result = mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--json")
    assert result.status == 0, result.out + result.err
    # each way is a separate path, by its address
    assert [result.metric(f"way-{n}.rtt") for n in range(12)] == pytest.approx(
        [2e-3 * (n + 1) for n in range(12)], abs=1e-4
    )
    plan = json.loads((result.run / "plan.json").read_text())
    names = [(end["node"], end["name"]) for link in plan["intent"]["links"] for end in link["ends"]]
    assert len(set(names)) == len(names)
    assert max(len(name) for _, name in names) <= 15


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
