# SPDX-License-Identifier: Apache-2.0
"""The first time at which a statement is true of the tables of a run."""

from __future__ import annotations

import pytest

from mprun.metrics.claim_check import MeasuredRun, TableColumns
from mprun.metrics.first_time import MOST_TIMES, find_onset_ns
from mprun.model.run_summary import MetricValue
from mprun.statements.expression import ExpressionError, parse

TABLES: dict[str, TableColumns] = {
    "queues": {
        "time_ns": [0, 100, 0, 100, 200, 300],
        "link": ["path1", "path1", "path0", "path0", "path0", "path0"],
        "backlog_packets": [9, 9, 0, 40, 60, 20],
    },
    "goodput": {"flow": ["bulk", "bulk"], "end_s": [1.0, 2.0], "goodput_bit_per_s": [20e6, 8e6]},
    "requests": {
        "flow": ["msg", "msg", "msg"],
        "start_ns": [100, 200, 900_000_000],
        "delay_ns": [40_000_000, None, 60_000_000],
    },
    "counters": {"name": ["a"], "value": [1]},
    "many": {"flow": ["a"] * (MOST_TIMES + 1), "time_ns": list(range(MOST_TIMES + 1)), "x": [1] * (MOST_TIMES + 1)},
}
RUN = MeasuredRun({"bulk.goodput": MetricValue(1e6, "bit/s")}, TABLES.get)


@pytest.mark.parametrize(
    ("statement", "expected_ns"),
    [
        ("max(queues[link=path0].backlog_packets) > 50", 200),
        # a name alone is the mean of the rows until then: 0, 20, 33.3
        ("queues[link=path0].backlog_packets > 30", 200),
        # the first row of path0 is also at time 0
        ("max(queues[link=path1].backlog_packets) > max(queues[link=path0].backlog_packets)", 0),
        ("max(queues[link=path0].backlog_packets) > 1000", None),
        # true of an early row only, and not of all rows
        ("sum(queues[link=path1].backlog_packets) < 10", 0),
        ("min(goodput[flow=bulk].goodput_bit_per_s) < 10mbit", 2_000_000_000),
        # the answer of the first request, and the third answer
        ("min(requests[flow=msg].delay_ns) < 50ms", 40_000_100),
        ("max(requests[flow=msg].delay_ns) > 50ms", 960_000_000),
        # nothing is known of both names before the first row of goodput
        ("max(queues[link=path0].backlog_packets) > 50 and max(goodput[flow=bulk].goodput_bit_per_s) > 1mbit", 10**9),
    ],
)
def test_onset(statement: str, expected_ns: int | None) -> None:
    assert find_onset_ns(parse(statement), RUN) == expected_ns


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("bulk.goodput < 20mbit", "is known only at the end of a run: name a column of a table"),
        ("max(queues[link=path0].backlog) > 1", "table 'queues' has no column 'backlog'"),
        ("max(queues[link=path0].backlog_packets) > 1s", "a number"),
        ("max(queues[link=path7].backlog_packets) > 1", "has no value"),
        ("max(nothing[link=path7].backlog_packets) > 1", "the run has no table 'nothing'"),
        ("max(counters[name=a].value) > 1", "table 'counters' has no times"),
        ("max(many[flow=a].x) > 1", "has rows at 10,001 times, at most 10,000 can be tested: add conditions"),
    ],
)
def test_a_statement_without_a_time_says_why(statement: str, said: str) -> None:
    with pytest.raises(ExpressionError) as error:
        find_onset_ns(parse(statement), RUN)
    assert said in str(error.value)
