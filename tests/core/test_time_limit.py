# SPDX-License-Identifier: Apache-2.0
"""The time limit of a flow's programs: its entry's, or else its tool's, which is the time of its work and some more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from mprun.compile import allocate, compile_plan
from mprun.inputs.loading import load
from mprun.workloads import TOOLS
from mprun.workloads.tool import TimeLimit, Tool
from mprun.workloads.tool import load as load_tool

# An entry of each tool, and the time limit in seconds that follows from it.
ENTRIES: list[tuple[str, dict[str, Any], int]] = [
    ("iperf3", {"duration": "10s"}, 40),
    ("iperf3", {"size": "1000000bytes"}, 38),
    ("netperfmeter", {"duration": "5s"}, 125),
    ("ping", {"count": 7, "interval": "1s"}, 27),
    ("ping", {"duration": "3s", "interval": "1s"}, 23),
    ("reqres", {"requests": 10, "think": "1s", "server_think": "1s"}, 90),
    ("http", {"sizes": ["1000000bytes", "125000bytes"]}, 69),
    ("https", {"sizes": ["250000bytes"]}, 62),
    ("udp", {"duration": "4s", "rate": "1mbit"}, 34),
    ("quic", {"response": "5mb"}, 300),
    ("sctp", {"duration": "5s"}, 75),
    ("sctp", {"size": "1000000bytes"}, 78),
    ("flows", {"size": "10kb", "interval": "100ms", "duration": "3s"}, 63),
    ("video", {"length": "20s", "qualities": ["1mbit"]}, 260),
    ("video", {"length": "20s", "qualities": ["1mbit"], "protocol": "quic"}, 260),
    ("exec", {"command": ["true"]}, 60),
]


def limits_of(folder: Path, tool: str, entry: dict[str, Any]) -> set[float]:
    """Return the time limits of a flow's clients in seconds, and those that their arguments give."""
    (folder / "topo.yaml").write_text("version: 1\ntopology: multi-path\npaths: [{rate: 10mbit, delay: 5ms}]\n")
    flow = {"name": "f", "tool": tool, "from": "client", "to": "server", **entry}
    (folder / "xp.yaml").write_text(json.dumps({"version": 1, "traffic": [flow]}))
    spec = load(folder / "topo", folder / "xp").spec
    limits = set()
    for process in compile_plan(spec, allocate(spec)).flows:
        limits.add(process.timeout_ns / 1e9)
        if "--timeout-ms" in process.argv:
            limits.add(int(process.argv[process.argv.index("--timeout-ms") + 1]) / 1e3)
    return limits


@pytest.mark.parametrize(("tool", "entry", "limit_s"), ENTRIES)
def test_a_limit_is_the_tools_or_the_entrys(tmp_path: Path, tool: str, entry: dict[str, Any], limit_s: int) -> None:
    assert limits_of(tmp_path, tool, entry) == {limit_s}
    assert limits_of(tmp_path, tool, {**entry, "timeout": "13s"}) == {13}


@pytest.mark.parametrize("name", TOOLS)
def test_every_tool_has_a_limit(name: str) -> None:
    assert {tool for tool, _, _ in ENTRIES} >= {name}
    tool = cast(Tool, load_tool(name))
    is_declared = isinstance(getattr(tool, "TIME_LIMIT", None), TimeLimit)
    assert is_declared == (tool.Entry.model_fields["timeout"].default is None)
