# SPDX-License-Identifier: Apache-2.0
"""Packets that did not arrive, and where they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mprun.metrics.counter import Counters
from mprun.metrics.host_doubts import account_for_losses
from mprun.metrics.observation import Observation
from mprun.model.agent_report import AgentReport
from mprun.model.spec import Direction, LinkChange
from mprun.workloads.tool import Result
from tests.intents import intent


class Counted(Counters):
    """Counters of links with given counts."""

    def __init__(self, lost: int, held: int) -> None:
        super().__init__()
        self.lost, self.held = {("link", "forward"): lost}, {("link", "forward"): held}


class Links(Observation):
    """Links with given counts."""

    def __init__(self, lost: int = 0, held: int = 0) -> None:
        super().__init__()
        self.counters = Counted(lost, held)


def account(
    lost: int, links: Observation, counters: Mapping[str, Mapping[str, int]] | None = None, **report: Any
) -> list[str]:
    agent = AgentReport(None, complete=True, counters=counters or {})._replace(**report)
    return list(account_for_losses({"d": Result(lost_packets=lost)}, intent(), agent, links))


def test_losses_that_links_count_need_no_word() -> None:
    assert account(0, Links()) == []
    assert account(7, Links(lost=7)) == []
    assert account(7, Links(lost=9)) == []


def test_each_place_of_a_lost_packet_is_named() -> None:
    counters = {"server": {"IpReasmFails": 4, "UdpInErrors": 4, "TcpRetransSegs": 9}}
    assert account(10, Links(lost=2, held=3), counters) == [
        "packets did not arrive that no link dropped: of d (10): 3 still under way at the end; "
        "4 whose fragments did not all arrive at 'server'; 1 that nothing counts"
    ]


def test_losses_at_full_sockets_have_a_warning_of_their_own() -> None:
    assert account(10, Links(lost=2), {"server": {"UdpRcvbufErrors": 8}}) == []
    (text,) = account(10, Links(lost=2), {"server": {"UdpRcvbufErrors": 7}})
    assert text.endswith("of d (10): 1 that nothing counts")


def test_a_middlebox_explains_what_it_refused() -> None:
    (text,) = account(5, Links(), filtered={"box": {"firewall.refused": 5}})
    assert text.endswith("of d (5): middlebox 'box' refused 5 packets of connections from outside")
    (text,) = account(5, Links(), filtered={"box": {"nat.translated": 1}})
    assert text.endswith("5 that nothing counts")


def test_faults_of_single_packets_are_asked_losses() -> None:
    assert account(1, Links(), faults={"server": {"eth0": 1}}) == []


def test_a_link_that_was_down_explains_the_rest() -> None:
    down = LinkChange(1_000_000_000, "path0", Direction(), Direction(), is_up=False)
    agent = AgentReport(None, complete=True)
    (text,) = account_for_losses({"d": Result(lost_packets=3)}, intent(changes=(down,)), agent, Links())
    assert text.endswith("3 while a link was down")
