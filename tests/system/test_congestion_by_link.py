# SPDX-License-Identifier: Apache-2.0
"""The subflows of one connection have the congestion controls of their links."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

from tests.system.conftest import Result

TOPOLOGY = """\
version: 1
topology: multi-path
paths:
  - {rate: 20mbit, delay: 20ms}
  - {rate: 20mbit, delay: 20ms}
"""
EXPERIMENT = """\
version: 1
params: {second: vegas}
hosts:
  client:
    mptcp: {path_manager: fullmesh}
    congestion: {path0: cubic, path1: "{{ second }}"}
  server: {mptcp: {path_manager: fullmesh}}
traffic:
  - {name: bulk, tool: iperf3, from: client, to: server, protocol: mptcp, duration: 5s}
  - {name: look, tool: exec, from: client, to: server, start: 2s, command: [ss, -tni]}
"""


def test_each_subflow_has_the_congestion_control_of_its_link(mprun: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "topo.yaml").write_text(TOPOLOGY)
    (tmp_path / "xp.yaml").write_text(EXPERIMENT)
    result = mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--allow-exec", "--json")
    assert result.status == 0, result.out + result.err
    shown = (result.run / "logs" / "look.out").read_text()
    sockets = re.findall(r"^ESTAB\s+\d+\s+\d+\s+(10\.0\.[01])\.1:\S+.*\n\s+(\w+) ", shown, re.MULTILINE)
    assert set(sockets) == {("10.0.0", "cubic"), ("10.0.1", "vegas")}
    agent = json.loads((result.run / "agent.json").read_text())
    assert agent["readback"]["congestion"] == {"client": {"client-eth0": "cubic", "client-eth1": "vegas"}}


def test_an_unknown_congestion_control_is_refused(mprun: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "topo.yaml").write_text(TOPOLOGY)
    (tmp_path / "xp.yaml").write_text(EXPERIMENT)
    result = mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--allow-exec", "-p", "second=newvegas")
    assert result.status == 2
    said = "hosts.client.congestion.path1: kernel 'default' has no congestion control 'newvegas': did you mean"
    assert said in result.err
