# SPDX-License-Identifier: Apache-2.0
"""Late timers in real time: the excess of an idle round trip over the configured delay."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mprun.compile import allocate, compile_plan
from mprun.inputs.loading import load
from mprun.metrics.evidence import Evidence
from mprun.metrics.lateness import find_allowances, find_exchange_allowance
from mprun.metrics.observation import Observation
from mprun.metrics.summary import measure
from mprun.model.agent_report import AgentReport, Ended, MachineLoad
from mprun.model.intent import Intent
from mprun.model.run_summary import Summary
from mprun.model.spec import Expectation

LAB = Path(__file__).parents[2] / "labs" / "01_multipath"
PING = """\
PING 10.1.0.1 (10.1.0.1) 56(84) bytes of data.
64 bytes from 10.1.0.1: icmp_seq=1 ttl=63 time=TIME ms

--- 10.1.0.1 ping statistics ---
1 packets transmitted, 1 received, 0% packet loss, time 0ms
rtt min/avg/max/mdev = TIME/TIME/TIME/0.000 ms
"""
IDLE = MachineLoad(late_worst_ns=(9_000_000, 3_000_000, 3_000_000))


@pytest.fixture(scope="module")
def intent() -> Intent:
    spec = load(LAB / "topo", LAB / "xp_mptcp").spec
    return compile_plan(spec, allocate(spec)).intent


def judge(intent: Intent, time_ms: str, idle: MachineLoad | None) -> Summary:
    """Return the summary of a run with pings of path0 only. The expected range is 39.9 ms to 40.1 ms."""
    agent = AgentReport(None, True, {"probe.path0": Ended(0, False, "probe")}, host_idle=idle)
    expected = [Expectation("path0.rtt", 0.0399, 0.0401, None)]
    said = PING.replace("TIME", time_ms)
    return measure(
        Evidence(replace(intent, captures=()), agent, Observation(), lambda *_: said, expectations=expected)
    ).summary


def test_a_round_trip_waits_for_the_delay_stages_of_both_directions(intent: Intent) -> None:
    """path0 delays both ways; the link behind the router delays nothing.

    Five round trips wait for ten timers: one is 9 ms late, and none of the other nine more than 3 ms.
    """
    allowance = find_allowances(intent, IDLE)["path0.rtt"]
    assert (allowance.timers, allowance.round_trips) == (2, 5)
    assert allowance.most_s == pytest.approx((0.009 + 9 * 0.003) / 5)


def test_a_request_waits_for_the_delay_stages_and_for_both_ends(intent: Intent) -> None:
    """The four timers of one exchange are the worst of those that came while there was traffic."""
    allowance = find_exchange_allowance(intent, IDLE)
    assert allowance is not None
    assert allowance.timers == 4
    assert allowance.most_s == pytest.approx(0.009 + 3 * 0.003)
    assert find_exchange_allowance(intent, None) is None


@pytest.mark.parametrize("idle", [None, MachineLoad()])
def test_without_a_measurement_nothing_is_allowed(intent: Intent, idle: MachineLoad | None) -> None:
    """In simulated time timers are not measured, because none is late."""
    assert find_allowances(intent, idle) == {}


# 40.1 ms and 36 ms / 5: 47.3 ms
@pytest.mark.parametrize(
    ("time_ms", "idle", "holds", "warns"),
    [
        ("40.000", IDLE, True, False),
        ("47.200", IDLE, True, True),
        ("47.400", IDLE, False, False),
        ("47.200", None, False, False),
        # a late timer cannot explain a round trip that is too short
        ("39.800", IDLE, False, False),
    ],
)
def test_a_bound_holds_as_far_as_timers_were_late(
    intent: Intent, time_ms: str, idle: MachineLoad | None, holds: bool, warns: bool
) -> None:
    summary = judge(intent, time_ms, idle)
    assert [verdict.held for verdict in summary.expectations] == [holds]
    told = [text for text in summary.warnings if text.startswith("path0.rtt is")]
    assert bool(told) == warns
    if warns:
        late = "each of its packets waits for 2 timers, and this machine's came late by up to 9.0 ms"
        assert told == [f"path0.rtt is 47.200 ms, above 40.1 ms: {late}, which explains 7.2 ms"]
