# SPDX-License-Identifier: Apache-2.0
"""Claims checked against summaries and tables."""

from __future__ import annotations

import pytest

from mprun.analysis.claim import Columns, Measured, judge
from mprun.analysis.counter import OF_INTERFACES, OF_QUEUES
from mprun.analysis.observation import OF_SOCKETS
from mprun.packets.connection import CONNECTION_COLUMNS, SUBFLOW_COLUMNS
from mprun.statement.claim import Claim, column_unit
from mprun.statement.expression import parse

TABLES: dict[str, Columns] = {
    "requests": {
        "flow": ["msg", "msg", "msg", "other"],
        "sequence": [1, 2, 3, 1],
        "start_ns": [250_000_000, 541_000_000, 872_000_000, 0],
        "delay_ns": [41_000_000, 81_000_000, None, 7_000_000],
    }
}
RUNS = {
    "tcp": Measured({"bulk.goodput": {"value": 18.9e6, "unit": "bit/s"}}, lambda name: TABLES.get(name)),
    "mptcp": Measured({"bulk.goodput": {"value": 36.9e6, "unit": "bit/s"}}, lambda name: TABLES.get(name)),
}


def verdict(statement: str) -> tuple[str, str]:
    claim = Claim("it is so", parse(statement), "because")
    (judgement,) = judge([claim], RUNS, {"broken": "did not end"})
    return judgement.verdict, judgement.reason


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("mptcp.bulk.goodput >= 1.8 * tcp.bulk.goodput", "held"),
        ("mptcp.bulk.goodput >= 2 * tcp.bulk.goodput", "failed"),
        ("tcp.requests[flow=msg, sequence=1].delay_ns == 41ms", "held"),
        ("abs(median(tcp.requests[flow=msg].delay_ns) - 61ms) < 1ns", "held"),
        # from 0.3 s until before 0.9 s: the second request, and the third, which has no answer
        ("tcp.requests[flow=msg, start_ns=0.3s..0.9s].delay_ns == 81ms", "held"),
        ("min(tcp.requests[sequence=1].delay_ns) == 7ms", "held"),
    ],
)
def test_verdict(statement: str, expected: str) -> None:
    assert verdict(statement) == (expected, "")


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("mptcp.bulk.goodput > broken.bulk.goodput", "broken: did not end"),
        ("mptcp.bulk.goodput > third.bulk.goodput", "third: was not run"),
        ("mptcp.bulk.godput > 1mbit", "the run measured no 'bulk.godput': did you mean 'bulk.goodput'?"),
        ("mptcp.reqs[flow=msg].delay_ns > 1ms", "the run has no table 'reqs'"),
        ("mptcp.requests[flow=msg].delay_us > 1ms", "no column 'delay_us': did you mean 'delay_ns'?"),
        ("mptcp.requests[flow=nobody].delay_ns > 1ms", "has no value"),
        ("mptcp.requests[start_ns=a..b].delay_ns > 1ms", "is no number: write one as in '20ms'"),
    ],
)
def test_what_cannot_be_decided_is_open(statement: str, reason: str) -> None:
    decided, said = verdict(statement)
    assert decided == "open"
    assert said.endswith(reason)


@pytest.mark.parametrize(
    "table",
    [CONNECTION_COLUMNS, SUBFLOW_COLUMNS, OF_SOCKETS, OF_INTERFACES, OF_QUEUES],
    ids=["connections", "subflows", "sockets", "interfaces", "queues"],
)
def test_a_column_by_time_is_a_rate(table: dict[str, str]) -> None:
    """The unit of a rate is found by its whole suffix. Otherwise `_s` would match: a time."""
    assert {name for name in table if column_unit(name)[0] == "rate"} == {name for name in table if "_per_" in name}
