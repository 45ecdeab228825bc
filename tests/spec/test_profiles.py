# SPDX-License-Identifier: Apache-2.0
"""`mprun topology profiles`: the values that it lists are the values that a link gets."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from mprun.cli import topology
from mprun.inputs.keys.profile import PROFILES
from mprun.inputs.loading import load_topology


def _listed(*words: str) -> str:
    return CliRunner().invoke(topology.command, ["profiles", *words], catch_exceptions=False).output


def test_a_link_with_the_listed_values_is_a_link_with_the_profile(tmp_path: Path) -> None:
    listed = json.loads(_listed("--json"))
    assert [one["name"] for one in listed] == list(PROFILES)
    for one in listed:
        both = {key: {way: one[way][key] for way in ("forward", "reverse")} for key in one["forward"] | one["reverse"]}
        links = []
        for values in ({"profile": one["name"]}, both):
            link = {"name": "path0", "between": ["a", "b"], **values}
            text = {"version": 1, "nodes": {"a": {"kind": "host"}, "b": {"kind": "host"}}, "links": [link]}
            (tmp_path / "topo.yaml").write_text(json.dumps(text))
            links.append(load_topology(tmp_path / "topo.yaml", {}).links)
        assert links[0] == links[1]


def test_the_list_has_a_row_for_each_direction_that_differs() -> None:
    rows = [line.split() for line in _listed().splitlines()]
    assert rows[0] == ["profile", "direction", "rate", "delay", "jitter", "loss"]
    assert ["ethernet", "both", "100mbit", "2ms", "-", "1%"] in rows
    assert [row[:2] for row in rows].count(["3g-hspa+", "forward"]) == 1
    assert ["reverse", "56mbit", "80ms", "-", "9%"] in rows
    assert max(map(len, _listed().splitlines())) <= 80
