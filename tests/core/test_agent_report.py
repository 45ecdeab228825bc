# SPDX-License-Identifier: Apache-2.0
"""The agent writes what the reader of its report needs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mprun.model.agent_report import (
    AgentReport,
    Arrivals,
    Captured,
    Delays,
    Ended,
    MachineLoad,
    spell_status,
    write_report,
)
from mprun.model.codec import PLAIN, JsonProblem

REPORT = json.loads((Path(__file__).parents[1] / "outputs" / "run" / "agent.json").read_text())


def read_report(value: object) -> AgentReport:
    return PLAIN.decode(AgentReport, value)


@pytest.mark.parametrize(("status", "text"), [(-11, "-11 (SIGSEGV)"), (-63, "-63"), (3, "3"), (None, "None")])
def test_a_status_names_its_signal(status: int | None, text: str) -> None:
    assert spell_status(status) == text


def test_what_the_agent_writes_is_read_as_the_same_values() -> None:
    ended = Ended(None, True, "flow", ("bulk", "all"), 1, 2, {"bulk.out": 3}, "killed")
    trains = (
        Arrivals(3, 2, 2, Delays(5.5, 5.25, 0.5, -0.1), 1, 9, took_ns=7, unseen=1, late=1),
        Arrivals(1, 0, 0, None, None, None, 7),
    )
    load = MachineLoad(None, 0.25, 9, (9, 3), timers=2, late_median_ns=3)
    report = AgentReport(
        "it failed", False, {"bulk": ended}, {"capture.client": Captured(5, {"eth0": 2}, 6)}, host=load, trains=trains
    )
    written = json.loads(json.dumps(write_report(report)))
    assert read_report(written) == report
    assert written["trains"][1].keys() == {"sent", "received", "distinct", "delay_ns", "first_ns", "last_ns", "took_ns"}


def test_a_key_is_written_only_if_it_says_something() -> None:
    """The agent changes the mappings of a report, but never their defaults."""
    assert write_report(AgentReport(None, True)) == {"error": None, "complete": True}
    processes: dict[str, Ended] = {}
    report = AgentReport(None, True, processes)
    processes["bulk"] = Ended(0, False, "flow")
    assert write_report(report)["processes"] == {"bulk": {"status": 0, "timed_out": False, "role": "flow"}}
    assert AgentReport(None, True).processes == {}


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
    with pytest.raises(JsonProblem) as raised:
        read_report({**REPORT, **part})
    assert str(raised.value) == place
