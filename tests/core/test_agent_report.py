# SPDX-License-Identifier: Apache-2.0
"""The agent writes what the reader of its report needs."""

from __future__ import annotations

import json
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import pytest

from mprun.agent import result
from mprun.model.codec import Fault
from mprun.runs import agent_report
from mprun.runs.agent_report import AgentReport, read_report

REPORT = json.loads((Path(__file__).parents[1] / "outputs" / "run" / "agent.json").read_text())


@pytest.mark.parametrize(
    ("read", "written"),
    [
        (AgentReport, result.Result),
        *((getattr(agent_report, name), getattr(result, name)) for name in ("Ended", "Captured", "HostLoad")),
        *((getattr(agent_report, name), getattr(result, name)) for name in ("Delays", "Arrivals")),
    ],
)
def test_both_sides_have_the_same_keys(read: Any, written: Any) -> None:
    """The reader knows no key that the agent does not write, and needs none that the agent may leave out."""
    assert {one.name for one in fields(read)} <= written.__annotations__.keys()
    needed = {one.name for one in fields(read) if one.default is MISSING and one.default_factory is MISSING}
    assert needed <= {name for name, kind in written.__annotations__.items() if "NotRequired" not in str(kind)}


def test_a_report_is_read() -> None:
    report = read_report(REPORT)
    assert report.processes["bulk"].flows == ("bulk",)
    assert report.captures["capture.client"].interfaces["client-eth0"] == 101
    assert report.zero_epoch_ns == REPORT["boot_ns"] + REPORT["zero_ns"]
    assert report.counters_of("server")["TcpRetransSegs"] == 2
    assert report.host is None


@pytest.mark.parametrize(
    ("part", "place"),
    [
        ({"error": 1}, ".error"),
        ({"processes": {"bulk": {"status": 0}}}, ".processes.bulk.timed_out"),
        ({"counters": {"client": {"TcpOutSegs": "5"}}}, ".counters.client.TcpOutSegs"),
        ({"captures": []}, ".captures"),
    ],
)
def test_a_fault_is_told_by_its_place(part: dict[str, object], place: str) -> None:
    with pytest.raises(Fault) as raised:
        read_report({**REPORT, **part})
    assert str(raised.value) == place
