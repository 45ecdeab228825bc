# SPDX-License-Identifier: Apache-2.0
"""A kernel of the user's own: trace_printk() of its scheduler is an event of the run, and its lines are counted."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.system.conftest import LAB, call
from tests.system.own_kernel import NAME, build_own_kernel

pytestmark = [pytest.mark.long, pytest.mark.fresh]
Ask = Callable[..., str]
EXPERIMENT = """\
version: 1
hosts:
  client: {mptcp: {path_manager: fullmesh, scheduler: printer}}
  server: {mptcp: {path_manager: fullmesh}}
traffic: [{name: bulk, tool: iperf3, from: client, to: server, protocol: PROTOCOL, duration: 1s}]
tracepoints: ["ftrace:print"]
"""


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Ask:
    """Return a function that calls mprun in a folder with a run over MPTCP and one over TCP."""
    folder = tmp_path_factory.mktemp("own")
    env, _ = build_own_kernel()

    def do(*words: object) -> str:
        done = call(*words, cwd=folder, env=env)
        assert done.status == 0, done.out + done.err
        return done.out

    for protocol in ("tcp", "mptcp"):
        (folder / f"{protocol}.yaml").write_text(EXPERIMENT.replace("PROTOCOL", protocol))
        do("-t", LAB / "topo", "-x", protocol, "--engine", "virtual", "--kernel", NAME, "-o", protocol)
    return do


def test_trace_printk_of_a_scheduler_is_an_event(ask: Ask) -> None:
    events = json.loads(ask("show", "mptcp/latest", "--trace", "ftrace:print", "--json"))["events"]
    assert len(events) > 10
    for event in events:
        first, second = event["buf"].removeprefix("srtt ").split(" and ")
        # in us; the propagation delay is 40 ms
        assert all(40_000 <= srtt < 1_000_000 for srtt in map(int, (first, second)))
    assert 0 < events[0]["time_ns"] < events[-1]["time_ns"]


def executed(ask: Ask, *words: str) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Return the executed lines that the command lists, by file and function."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for line in json.loads(ask("coverage", *words, "--json"))["lines"]:
        if line["executed"]:
            found.setdefault((line["file"], line["function"]), []).append(line)
    return found


def test_lines_are_counted(ask: Ask) -> None:
    """Each call of the scheduler executes the first line of its function, which also prints an event."""
    events = json.loads(ask("show", "mptcp/latest", "--trace", "ftrace:print", "--json"))["events"]
    lines = [
        one for (file, _), own in executed(ask, "mptcp/latest").items() if file.endswith("own_printer.c") for one in own
    ]
    assert len(events) in [one["executed"] for one in lines]


def test_what_only_one_run_executed(ask: Ask) -> None:
    only_mptcp = executed(ask, "mptcp/latest", "tcp/latest")
    assert ("net/mptcp/protocol.c", "__mptcp_push_pending") in only_mptcp
    assert ("net/ipv4/tcp_output.c", "tcp_write_xmit") not in only_mptcp
    assert not [
        file for file, _ in executed(ask, "tcp/latest", "mptcp/latest") if file.startswith("net/mptcp/protocol")
    ]
    text = ask("coverage", "mptcp/latest", "tcp/latest", "--file", "net/mptcp/protocol.c", "--text")
    assert re.search(r"^ +\d+  .*__mptcp_push_pending\(", text, re.MULTILINE)


def test_counts_repeat(ask: Ask) -> None:
    assert "identical: " in ask("verify", "mptcp/latest")
