# SPDX-License-Identifier: Apache-2.0
"""Causes that limited an MPTCP connection, from samples made by hand."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from mprun.metrics.connection import Connection, SendingEnd, Subflow
from mprun.metrics.efficiency import _find_ways
from mprun.metrics.limitation import Cause, ConnectionState, LimitedFlow, Sample, SubflowState, explain_rate, find_cause
from mprun.metrics.series import FlowConnections
from mprun.metrics.shortfall import _explain_stop
from mprun.model.spec import Direction
from mprun.workloads.tool import Portion, Result
from tests import intents

BEST = ("fast",)
LIMITS = LimitedFlow("client", "server", "default", 0)


def subflow(path: str = "fast", flying: int = 0, unsent: int = 0, window: int = 3_000_000, ms: int = 0) -> SubflowState:
    """Return a subflow with a congestion window of 20 packets."""
    return SubflowState(path, 20, flying, unsent, window, ms)


def sample(held: int, flying: int, unsent: int, *subflows: SubflowState) -> Sample:
    """Return a sample of a connection with a buffer of 900 kB."""
    return Sample(ConnectionState(0, 900_000, held, flying, unsent), subflows or (subflow(),))


FULL = sample(800_000, 800_000, 0)
BUSY = sample(800_000, 400_000, 400_000, subflow(flying=20, unsent=50_000))
IDLE = sample(0, 0, 0)
BEYOND = sample(800_000, 299_000, 400_000, subflow(window=300_000))
LEFT = sample(800_000, 100_000, 400_000)


@pytest.mark.parametrize(
    ("given", "cause"),
    [
        pytest.param(FULL, "buffer", id="all-sent-and-full"),
        # a program is woken once a third of the buffer is free: of 900 kB at 600 kB used
        pytest.param(sample(601_000, 601_000, 0), "buffer", id="not-writable-yet"),
        pytest.param(sample(599_000, 599_000, 0), "program", id="writable"),
        pytest.param(IDLE, "program", id="nothing-to-send"),
        pytest.param(BUSY, "congestion", id="window-full"),
        pytest.param(sample(800_000, 800_000, 0, subflow(flying=16)), "congestion", id="less-than-a-quarter-empty"),
        pytest.param(sample(800_000, 800_000, 0, subflow(flying=15)), "buffer", id="a-quarter-empty"),
        # the rest of a packet waits for more data, not for the window
        pytest.param(sample(800_000, 800_000, 0, subflow(unsent=1_400)), "buffer", id="a-packet-begun"),
        pytest.param(BEYOND, "window", id="peer-window-full"),
        pytest.param(sample(800_000, 298_000, 400_000, subflow(window=300_000)), "scheduler", id="a-packet-fits"),
        pytest.param(LEFT, "scheduler", id="nothing-full"),
        # both subflows have the same window, and the subflow with the latest update knows it
        pytest.param(
            sample(800_000, 299_000, 400_000, subflow(window=300_000), subflow("slow", window=900_000, ms=300)),
            "window",
            id="newest-window-counts",
        ),
        pytest.param(
            sample(800_000, 299_000, 400_000, subflow(window=300_000), subflow("slow", window=900_000)),
            "unknown",
            id="two-windows-at-once",
        ),
        pytest.param(sample(800_000, 800_000, 0, subflow("slow")), None, id="best-path-not-joined"),
    ],
)
def test_what_a_moment_shows(given: Sample, cause: Cause | None) -> None:
    assert find_cause(given, BEST) == cause


def test_a_cause_accounts_for_half_of_what_is_missing() -> None:
    """40 % of 20 samples are 8 samples: half of the missing 80 %."""
    told, is_known = explain_rate(0.2, [FULL] * 8 + [BUSY] * 12, BEST, LIMITS)
    assert is_known
    assert told.startswith(
        "its send buffer: in 8 of 20 samples fast had room in its congestion window, all data written had been sent, "
        "and client's buffer was full (800 kB held, of 900 kB)"
    )
    told, is_known = explain_rate(0.2, [FULL] * 7 + [BUSY] * 13, BEST, LIMITS)
    assert not is_known
    assert told.endswith("the congestion window on fast was full in 13 of 20 samples")
    assert told.startswith("no cause found among queue, send buffer, receive window, memory and scheduler")
    lossy = LimitedFlow("client", "server", "default", 0, is_disturbed=True)
    told, is_known = explain_rate(0.2, [FULL] * 7 + [BUSY] * 13, BEST, lossy)
    assert not is_known
    assert told == (
        "the congestion window on fast was full in 13 of 20 samples, and losses or reordered packets, which the file "
        "asks for there, make it smaller"
    )


def test_every_cause_is_named_with_its_figures() -> None:
    window, _ = explain_rate(0.5, [BEYOND] * 10, BEST, LIMITS)
    assert "its receive window: in 10 of 10 samples 400 kB waited, and 299 kB under way filled the window" in window
    assert "tcp_rmem of server" in window
    fixed = LimitedFlow("client", "server", "default", 0, own_key="window")
    for samples in ([FULL] * 10, [BEYOND] * 10):
        own, _ = explain_rate(0.5, samples, BEST, fixed)
        assert own.endswith("Remedy: raise or remove 'window' of the flow")
    left, _ = explain_rate(0.5, [LEFT] * 10, BEST, LIMITS)
    assert left.startswith("scheduler default: in 10 of 10 samples fast had room")
    alone, is_known = explain_rate(0.5, [LEFT] * 10, BEST, LimitedFlow("server", "client", "default", 0, True))
    assert is_known
    assert alone.startswith("client has fallen back to TCP and server still uses MPTCP")
    pressed, is_known = explain_rate(0.5, [LEFT] * 10, BEST, LimitedFlow("client", "server", "default", 3))
    assert is_known
    assert pressed.startswith("memory: TCP came under memory pressure 3 times (TCPMemoryPressures)")


def test_three_samples_show_a_cause() -> None:
    """At 82 %, half of what is missing is one of nine samples."""
    told, is_known = explain_rate(0.82, [FULL] * 2 + [BUSY] * 7, BEST, LIMITS)
    assert not is_known
    assert told.startswith("no cause found")
    assert explain_rate(0.82, [FULL] * 3 + [BUSY] * 6, BEST, LIMITS)[1]


QUEUE = "the queue of 'slow' forward holds 5 packets"


@pytest.mark.parametrize(
    ("samples", "given", "told"),
    [
        pytest.param([FULL] * 10, {}, QUEUE, id="full-buffer"),
        pytest.param([BEYOND] * 10, {}, QUEUE, id="full-window"),
        pytest.param([BUSY] * 10, {"has_short_best": True}, QUEUE, id="full-congestion-window"),
        pytest.param([FULL] * 2, {}, QUEUE, id="few-samples"),
        pytest.param([FULL] * 10, {"send_sizes": (4096, 16384, 67108864)}, QUEUE, id="less-than-the-file-allows"),
        pytest.param([FULL] * 10, {"send_sizes": (4096, 16384, 900000)}, "its send buffer", id="buffer-of-the-file"),
        pytest.param([BEYOND] * 10, {"receive_sizes": (1, 2, 600000)}, "its receive window", id="window-of-the-file"),
        pytest.param([BEYOND] * 10, {"own_key": "window"}, "its receive window", id="window-of-the-flow"),
        pytest.param([FULL] * 10, {"pressures": 3}, "memory", id="memory"),
    ],
)
def test_a_short_queue_comes_before_what_fills_behind_it(samples: list[Sample], given: Any, told: str) -> None:
    text, is_known = explain_rate(0.5, samples, BEST, replace(LIMITS, short_queues=QUEUE, **given))
    assert text.startswith(told)
    assert is_known


@pytest.mark.parametrize(("resent", "found"), [(0, []), (5, []), (6, ["path1"])])
def test_a_queue_that_drops_packets_of_other_flows_is_no_cause(resent: int, found: list[str]) -> None:
    ways = Direction(rate_bit_per_s=10_000_000), Direction()
    flow = intents.flow([intents.path("path1", ["backup"])])
    ended = Subflow(("", 0, "", 0), "path1", 0, 0, 0, SendingEnd(resent=resent), SendingEnd())
    one = FlowConnections(flow, [Connection(None, (ended,))], 0, 0)
    evidence: Any = SimpleNamespace(intent=intents.intent(links=[intents.link("backup", ("client", "server"), *ways)]))
    assert list(_find_ways(one, evidence, True)) == found


def test_a_short_queue_of_a_slower_path_does_not_fill_the_best_path() -> None:
    """The best path carries what it can, and a longer queue of the other path hardly helps."""
    samples = [FULL] * 3 + [BEYOND] * 2 + [IDLE] + [BUSY] * 14
    text, is_known = explain_rate(0.624, samples, BEST, replace(LIMITS, short_queues=QUEUE))
    assert text.endswith("the congestion window on fast was full in 14 of 20 samples")
    assert not is_known


@pytest.mark.parametrize("samples", [[IDLE] * 8 + [BUSY], [IDLE] * 5 + [FULL] * 4], ids=["idle", "often-idle"])
def test_a_program_that_sends_little_is_not_held_back(samples: list[Sample]) -> None:
    """A flow with a rate of its own reaches it with any queue, and often has nothing in its buffer."""
    text, is_known = explain_rate(0.25, samples, BEST, replace(LIMITS, short_queues=QUEUE))
    assert text.startswith("its program had nothing to send in ")
    assert not is_known


@pytest.mark.parametrize(
    ("samples", "sizes", "told"),
    [
        pytest.param(FULL, (), "Remedy: raise net.ipv4.tcp_wmem of client, its middle value too (", id="no-wmem"),
        pytest.param(FULL, (1, 2, 3_600_000), "client, its middle value too (docs", id="wmem-in-use"),
        pytest.param(FULL, (1, 2, 3_600_001), "Remedy: raise the middle value of net.ipv4.tcp_wmem", id="large-wmem"),
        pytest.param(BEYOND, (), "Remedy: raise net.ipv4.tcp_rmem of server (docs", id="no-rmem"),
        pytest.param(BEYOND, (1, 2, 2_392_000), "Remedy: raise net.ipv4.tcp_rmem of server (docs", id="rmem-in-use"),
        pytest.param(BEYOND, (1, 2, 2_392_001), "Remedy: raise the middle value of net.ipv4.tcp_rmem", id="large-rmem"),
        pytest.param(BEYOND, (1, 64_000_000, 64_000_000), ". net.ipv4.tcp_rmem of server allows more", id="both"),
    ],
)
def test_no_remedy_raises_what_is_far_larger_than_the_size_in_use(
    samples: Sample, sizes: tuple[int, ...], told: str
) -> None:
    text, _ = explain_rate(0.5, [samples] * 10, BEST, replace(LIMITS, send_sizes=sizes, receive_sizes=sizes))
    assert told in text


def test_what_is_no_cause_of_the_network_is_a_note() -> None:
    assert explain_rate(0.1, [IDLE] * 10, BEST, LIMITS) == (
        "its program had nothing to send in 10 of 10 samples",
        False,
    )
    few, is_known = explain_rate(0.1, [FULL] * 4, BEST, LIMITS)
    assert not is_known
    assert few.startswith("no cause found: too few samples of its sockets (4); write")


def test_a_long_time_without_payload_is_named() -> None:
    """Half a second counts in the last third, and two intervals that touch are one time."""
    flow = SimpleNamespace(protocol="sctp")
    scene: Any = SimpleNamespace(flow=flow, begin_ns=2_600_000_000, end_ns=4_000_000_000)
    rate = [*([350_000] * 31), *([0] * 9)]
    portions = [Portion(n * 100_000_000, (n + 1) * 100_000_000, size) for n, size in enumerate(rate)]

    def explain(some: list[Portion], **values: float) -> str | None:
        return _explain_stop(scene, Result(values, portions={"goodput": some}))

    waits = ": a chunk that is lost again waits for a timer of 1 s or more (docs/sctp.md)"
    assert explain(portions, retransmits=3) == f"nothing arrived from 3.10 s to 4.00 s{waits}"
    assert explain(portions) == f"nothing arrived from 3.10 s to 4.00 s{waits}"
    assert explain(portions, retransmits=0) == "nothing arrived from 3.10 s to 4.00 s"
    flow.protocol = "tcp"
    assert explain(portions) == "nothing arrived from 3.10 s to 4.00 s"
    assert explain(portions[:35]) is None
    assert explain([*portions[:35], portions[0], *portions[36:]]) is None
