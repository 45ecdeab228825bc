# SPDX-License-Identifier: Apache-2.0
"""Claims checked against summaries and tables."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mprun.captures.tcp_connection import CONNECTION_COLUMNS, SUBFLOW_COLUMNS
from mprun.metrics.claim_check import MeasuredRun, TableColumns, judge
from mprun.metrics.counter import OF_INTERFACES, OF_QUEUES
from mprun.metrics.lateness import Allowance
from mprun.metrics.observation import OF_SOCKETS
from mprun.model.run_summary import MetricValue
from mprun.statements.claim import Claim, column_unit
from mprun.statements.expression import parse

TABLES: dict[str, TableColumns] = {
    "requests": {
        "flow": ["msg", "msg", "msg", "other"],
        "sequence": [1, 2, 3, 1],
        "start_ns": [250_000_000, 541_000_000, 872_000_000, 0],
        "delay_ns": [41_000_000, 81_000_000, None, 7_000_000],
    },
    # times whose product with 1e-9 or 1e-3 is not the float of the literal
    "pings": {"start_ns": [0, 300_000_000, 2_300_000_000], "rtt_ns": [9_000_000, 11_000_000, 13_000_000]},
    "sockets": {"time_ns": [1, 2], "rtt_us": [5, 10]},
}
UNIT = "give the number a unit, as in '20ms'"
PLACES = "'cells', or the name of a table: write as in 'cells[cc=reno].bulk.goodput' or 'requests[flow=msg].delay_ns'"
RUNS = {
    "tcp": MeasuredRun({"bulk.goodput": MetricValue(18.9e6, "bit/s")}, lambda name: TABLES.get(name)),
    "mptcp": MeasuredRun({"bulk.goodput": MetricValue(36.9e6, "bit/s")}, lambda name: TABLES.get(name)),
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
        ("tcp.pings[start_ns=0.3s].rtt_ns <= 11ms", "held"),
        ("max(tcp.pings[start_ns=0s..2.3s].rtt_ns) == 11ms", "held"),
        ("max(tcp.pings[rtt_ns=9ms..13ms].rtt_ns) == 11ms", "held"),
        ("max(tcp.pings[rtt_ns=0..13ms].rtt_ns) == 11ms", "held"),
        ("min(tcp.sockets[rtt_us=5us..1ms].rtt_us) == 5us", "held"),
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
        ("mptcp[seed=3].bulk.goodput > 1mbit", f"conditions in brackets follow {PLACES}"),
        ("mptcp.requests[flow=msg].delay_ns[sequence=1] > 1ms", f"conditions in brackets follow {PLACES}"),
        ("mptcp.requests[start_ns=a..b].delay_ns > 1ms", "is no number: write one as in '20ms'"),
        ("mptcp.requests[start_ns=1..5ms].delay_ns > 1ms", f"compared with a time: {UNIT}"),
    ],
)
def test_what_cannot_be_decided_is_open(statement: str, reason: str) -> None:
    decided, said = verdict(statement)
    assert decided == "open"
    assert said.endswith(reason)


# A request over a path with a delay each way, and its two ends: four timers, of which one was 1.4 ms late.
LATE = Allowance(timers=4, round_trips=1, late_ns=(1_400_000, 200_000, 200_000, 200_000))
SLOW = {"slow": replace(RUNS["tcp"], allowance=LATE), "tcp": RUNS["tcp"]}


@pytest.mark.parametrize(
    ("statement", "verdict"),
    [
        # 2 ms are explained
        ("max(slow.requests[flow=msg].delay_ns) <= 79.1ms", "held"),
        ("slow.requests[sequence=1].delay_ns >= 7ms and max(slow.requests[flow=msg].delay_ns) <= 79.1ms", "held"),
        ("max(slow.requests[flow=msg].delay_ns) <= 78.9ms", "failed"),
        # no timer comes early, simulated time has none that are late, and a ratio of two times decides as it is
        ("min(slow.requests[flow=msg].delay_ns) >= 41.1ms", "failed"),
        ("max(tcp.requests[flow=msg].delay_ns) <= 79.1ms", "failed"),
        ("max(slow.requests[flow=msg].delay_ns) <= 0.99 * max(tcp.requests[flow=msg].delay_ns)", "failed"),
        ("not max(slow.requests[flow=msg].delay_ns) <= 81ms", "failed"),
        ("max(slow.requests[flow=msg].delay_ns) <= 79.1ms and slow.bulk.goodput >= 20mbit", "failed"),
    ],
)
def test_late_timers_explain_a_time_above_its_bound(statement: str, verdict: str) -> None:
    (judgement,) = judge([Claim("it is so", parse(statement), "because")], SLOW, {})
    assert judgement.verdict == verdict
    assert bool(judgement.reason) == (verdict == "held")


def test_what_late_timers_explain_is_said() -> None:
    statement = "max(slow.requests[flow=msg].delay_ns) <= 79.1ms"
    (judgement,) = judge([Claim("it is so", parse(statement), "because")], SLOW, {})
    assert judgement.reason == (
        "max(slow.requests[flow=msg].delay_ns) is 81.000 ms, above 79.1 ms: each of its packets waits for 4 timers, "
        "and this machine's came late by up to 1.4 ms, which explains 2.0 ms"
    )


@pytest.mark.parametrize(
    "table",
    [CONNECTION_COLUMNS, SUBFLOW_COLUMNS, OF_SOCKETS, OF_INTERFACES, OF_QUEUES],
    ids=["connections", "subflows", "sockets", "interfaces", "queues"],
)
def test_a_column_by_time_is_a_rate(table: dict[str, str]) -> None:
    """The unit of a rate is found by its whole suffix. Otherwise `_s` would match: a time."""
    assert {name for name in table if column_unit(name)[0] == "rate"} == {name for name in table if "_per_" in name}
