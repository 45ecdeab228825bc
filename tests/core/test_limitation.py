# SPDX-License-Identifier: Apache-2.0
"""Causes of a shortfall, from evidence made by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from mprun.metrics.cause import Shortfall, UsedPath, _tell_stop, find_cause
from mprun.metrics.connection import Connection, SendingEnd, Subflow
from mprun.metrics.evidence import Evidence
from mprun.metrics.limitation import ConnectionState, Limit, Sample, SubflowState, find_limit
from mprun.metrics.observation import Observation
from mprun.metrics.series import FlowConnections
from mprun.metrics.shortfall import _find_paths
from mprun.model.agent_report import AgentReport
from mprun.model.spec import Chance, Direction, HostSpec, Queue
from mprun.workloads.tool import Portion, Result
from tests import intents

BEST = ("fast",)
S = 10**9


def use(name: str, rate_bit_per_s: int, packets: int = 1000, **way: Any) -> UsedPath:
    """Return a path of 100 ms with a queue."""
    direction = Direction(rate_bit_per_s=rate_bit_per_s, queue=Queue(packets, "packets"), **way)
    link = intents.link(name, ("client", "server"), direction, direction)
    path = intents.path(name, [name], rtt_ns=100_000_000)
    return UsedPath(path, rate_bit_per_s, link.ways[:1], link.ways[1:], resent=100)


FAST, SLOW = use("fast", 20_000_000), use("slow", 10_000_000)
SLOW_ROUND = replace(FAST, path=replace(FAST.path, rtt_ns=400_000_000))
FLOW = intents.flow([FAST.path, SLOW.path])


def fall_short(efficiency: float, samples: Sequence[Sample], **given: Any) -> Shortfall:
    """Return the shortfall of a flow from client to server over two paths, in 10 s.

    given: parts of the shortfall or its evidence. wmem, rmem: of the client and of the server. counters: of each host.
    earlier: what the flow got in the 10 s before, as a part of what it got.
    """
    sysctls = {"client": "wmem", "server": "rmem"}
    hosts = {host: HostSpec(sysctl=((f"net.ipv4.tcp_{name}", given.pop(name, "")),)) for host, name in sysctls.items()}
    agent = AgentReport(error=None, complete=True, counters=given.pop("counters", {}))
    run = {"is_simulated": given.pop("is_simulated", True)}
    evidence = Evidence(intents.intent(hosts=hosts), agent, Observation(), lambda name, stream: "", **run)
    limits = [(limit, sample.connection) for sample in samples if (limit := find_limit(sample, BEST))]
    paths = given.pop("paths", (FAST, SLOW))
    size_bytes = efficiency * paths[0].rate * 10 / 8
    before = Portion(-10 * S, 0, size_bytes * given.pop("earlier", 1.0))
    result = Result(given.pop("values", {}), portions={"goodput": [before, Portion(0, 10 * S, size_bytes)]})
    parts = {"flow": FLOW, "told": "bulk", "is_forward": True, "span_ns": (0, 10 * S), "result": result}
    return Shortfall(paths=paths, efficiency=efficiency, evidence=evidence, limits=limits, **{**parts, **given})


def explain(efficiency: float, samples: Sequence[Sample], **given: Any) -> tuple[str, bool]:
    return find_cause(fall_short(efficiency, samples, **given))


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
        pytest.param(sample(800_000, 798_600, 1_400), "buffer", id="less-than-a-packet-waits"),
        pytest.param(BEYOND, "window", id="peer-window-full"),
        pytest.param(sample(800_000, 285_000, 400_000, subflow(window=300_000)), "window", id="nearly-full"),
        pytest.param(sample(800_000, 284_000, 400_000, subflow(window=300_000)), "scheduler", id="a-packet-fits"),
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
def test_what_a_moment_shows(given: Sample, cause: Limit | None) -> None:
    assert find_limit(given, BEST) == cause


def test_a_cause_accounts_for_half_of_what_is_missing() -> None:
    """40 % of 20 samples are 8 samples: half of the missing 80 %."""
    told, is_known = explain(0.2, [FULL] * 8 + [BUSY] * 12)
    assert is_known
    assert told.startswith(
        "its send buffer was full in 8 of 20 samples: fast had room in its congestion window, and all data written had "
        "been sent (800 kB held, of 900 kB). Remedy: raise net.ipv4.tcp_wmem of client"
    )
    told, is_known = explain(0.2, [FULL] * 7 + [BUSY] * 13)
    assert not is_known
    assert told.endswith(
        "the congestion window on fast was full in 13 of 20 samples; queues on its paths dropped 0 packets"
    )
    assert told.startswith("no cause found among queue, send buffer, receive window, memory and scheduler")
    lossy = replace(FAST, there=use("fast", 20_000_000, reorder=Chance(0.01)).there)
    told, is_known = explain(0.2, [FULL] * 7 + [BUSY] * 13, paths=(lossy, SLOW))
    assert not is_known
    assert told == (
        "the congestion window on fast was full in 13 of 20 samples, and losses or reordered packets, which the file "
        "asks for there, make it smaller"
    )


def test_every_cause_is_named_with_its_figures() -> None:
    window, _ = explain(0.5, [BEYOND] * 10)
    assert "its receive window was full in 10 of 10 samples: 400 kB waited, and 299 kB was under way" in window
    assert "tcp_rmem of server" in window
    for samples in ([FULL] * 10, [BEYOND] * 10):
        own, _ = explain(0.5, samples, flow=replace(FLOW, options={"window_bytes": 1}))
        assert own.endswith("Remedy: raise or remove 'window' of the flow")
    left, _ = explain(0.5, [LEFT] * 10)
    assert left.startswith("scheduler default: in 10 of 10 samples fast had room")
    alone, is_known = explain(0.5, [LEFT] * 10, is_forward=False, counters={"client": {"MPTcpExtDssFallback": 1}})
    assert is_known
    assert alone.startswith("client has fallen back to TCP and server still uses MPTCP")
    pressed, is_known = explain(0.5, [LEFT] * 10, counters={"server": {"TcpExtTCPMemoryPressures": 3}})
    assert is_known
    assert pressed.startswith("memory: TCP came under memory pressure 3 times (TCPMemoryPressures)")


def test_three_samples_show_a_cause() -> None:
    """At 82 %, half of what is missing is one of nine samples."""
    told, is_known = explain(0.82, [FULL] * 2 + [BUSY] * 7)
    assert not is_known
    assert told.startswith("no cause found")
    assert explain(0.82, [FULL] * 3 + [BUSY] * 6)[1]


QUEUE = "the queue of 'slow' forward holds 5 packets and dropped 7, and the path's BDP is 83 packets. Remedy: "
SHORT = use("slow", 10_000_000, 5)
DROPS = {("slow", "forward"): 7, ("fast", "forward"): 7}


@pytest.mark.parametrize(
    ("samples", "given", "told"),
    [
        pytest.param([FULL] * 10, {}, QUEUE, id="full-buffer"),
        pytest.param([BEYOND] * 10, {}, QUEUE, id="full-window"),
        pytest.param([BUSY] * 10, {"paths": (use("fast", 20_000_000, 5), SHORT)}, "the queue of 'fast'", id="best"),
        pytest.param([FULL] * 2, {}, QUEUE, id="few-samples"),
        pytest.param([FULL] * 10, {"wmem": "4096 16384 67108864"}, QUEUE, id="less-than-the-file-allows"),
        pytest.param([FULL] * 10, {"wmem": "4096 16384 1800000"}, QUEUE, id="twice-the-buffer-in-use"),
        pytest.param([FULL] * 10, {"wmem": "4096 16384 900000"}, "its send buffer", id="buffer-of-the-file"),
        pytest.param([BEYOND] * 10, {"rmem": "1 2 600000"}, "its receive window", id="window-of-the-file"),
        pytest.param(
            [BEYOND] * 10,
            {"flow": replace(FLOW, options={"window_bytes": 1})},
            "its receive window",
            id="window-of-the-flow",
        ),
        pytest.param([FULL] * 10, {"counters": {"client": {"TcpExtTCPMemoryPressures": 3}}}, "memory", id="memory"),
        pytest.param([FULL] * 10, {"drops": {}}, "its send buffer", id="no-drop"),
        pytest.param([FULL] * 10, {"paths": (FAST, SLOW)}, "its send buffer", id="long-queue"),
        pytest.param([FULL] * 10, {"is_unusual": False}, "its send buffer", id="nothing-unusual"),
    ],
)
def test_a_short_queue_comes_before_what_fills_behind_it(samples: list[Sample], given: Any, told: str) -> None:
    text, is_known = explain(0.5, samples, **{"paths": (FAST, SHORT), "drops": DROPS, **given})
    assert text.startswith(told)
    assert is_known


@pytest.mark.parametrize(("resent", "is_queue"), [(0, False), (5, False), (6, True), (None, True)])
def test_a_queue_that_drops_packets_of_other_flows_is_no_cause(resent: int | None, is_queue: bool) -> None:
    text, _ = explain(0.5, [FULL] * 10, paths=(FAST, replace(SHORT, resent=resent)), drops=DROPS)
    assert text.startswith("the queue of 'slow'") == is_queue


@pytest.mark.parametrize(("resent", "is_queue"), [(0, False), (1, True)])
def test_a_few_drops_end_slow_start_early(resent: int, is_queue: bool) -> None:
    """No buffer and no window is full, and the congestion window stays small for a long time."""
    paths = (replace(use("fast", 20_000_000, 5), resent=resent),)
    text, _ = explain(0.3, [BUSY] * 10, flow=ALONE["flow"], paths=paths, drops=DROPS)
    assert text.startswith("the queue of 'fast'") == is_queue


@pytest.mark.parametrize("resent", [0, 6])
def test_packets_that_were_sent_again_are_counted_on_their_path(resent: int) -> None:
    ways = Direction(rate_bit_per_s=10_000_000), Direction()
    flow = intents.flow([intents.path("path1", ["backup"])])
    ended = Subflow(("", 0, "", 0), "path1", 0, 0, 0, SendingEnd(resent=resent), SendingEnd())
    one = FlowConnections(flow, [Connection(None, (ended,))], 0, 0)
    links = [intents.link("backup", ("client", "server"), *ways)]
    hosts = {host: SimpleNamespace(events=[]) for host in ("client", "server")}
    evidence: Any = SimpleNamespace(intent=intents.intent(links=links), observation=SimpleNamespace(hosts=hosts))
    [used] = _find_paths(flow, flow.paths, True, one, evidence)
    assert (used.resent, used.is_backup, used.rate) == (resent, False, 10_000_000)


def test_a_short_queue_of_a_slower_path_does_not_fill_the_best_path() -> None:
    """The best path carries what it can, and a longer queue of the other path hardly helps."""
    samples = [FULL] * 3 + [BEYOND] * 2 + [IDLE] + [BUSY] * 14
    text, is_known = explain(0.624, samples, paths=(FAST, SHORT), drops=DROPS)
    assert "the congestion window on fast was full in 14 of 20 samples" in text
    assert not is_known


@pytest.mark.parametrize("samples", [[IDLE] * 8 + [BUSY], [IDLE] * 5 + [FULL] * 4], ids=["idle", "often-idle"])
def test_a_program_that_sends_little_is_not_held_back(samples: list[Sample]) -> None:
    """A flow with a rate of its own reaches it with any queue, and often has nothing in its buffer."""
    text, is_known = explain(0.25, samples, paths=(FAST, SHORT), drops=DROPS)
    assert text.startswith("its program had nothing to send in ")
    assert not is_known


@pytest.mark.parametrize(
    ("samples", "sizes", "told"),
    [
        pytest.param(FULL, "", "Remedy: raise net.ipv4.tcp_wmem of client, its middle value too (", id="no-wmem"),
        pytest.param(FULL, "1 2 3600000", "client, its middle value too (docs", id="wmem-in-use"),
        pytest.param(FULL, "1 2 3600001", "Remedy: raise the middle value of net.ipv4.tcp_wmem", id="large-wmem"),
        pytest.param(BEYOND, "", "Remedy: raise net.ipv4.tcp_rmem of server (docs", id="no-rmem"),
        pytest.param(BEYOND, "1 2 2392000", "Remedy: raise net.ipv4.tcp_rmem of server (docs", id="rmem-in-use"),
        pytest.param(BEYOND, "1 2 2392001", "Remedy: raise the middle value of net.ipv4.tcp_rmem", id="large-rmem"),
        pytest.param(BEYOND, "1 64000000 64000000", ". net.ipv4.tcp_rmem of server allows more", id="both"),
    ],
)
def test_no_remedy_raises_what_is_far_larger_than_the_size_in_use(samples: Sample, sizes: str, told: str) -> None:
    text, _ = explain(0.5, [samples] * 10, wmem=sizes, rmem=sizes)
    assert told in text


def test_what_is_no_cause_of_the_network_is_a_note() -> None:
    assert explain(0.1, [IDLE] * 10) == (
        "its program had nothing to send in 10 of 10 samples",
        False,
    )
    few, is_known = explain(0.1, [FULL] * 4)
    assert not is_known
    assert few.startswith("no cause found: too few samples of its sockets (4); write")


def test_a_long_time_without_payload_is_named() -> None:
    """Half a second counts in the last third, and two intervals that touch are one time."""
    rate = [*([350_000] * 31), *([0] * 9)]
    portions = [Portion(n * 100_000_000, (n + 1) * 100_000_000, size) for n, size in enumerate(rate)]

    def tell(some: list[Portion], protocol: Any = "tcp", **values: float) -> str | None:
        result = Result(values, portions={"goodput": some})
        flow = replace(FLOW, protocol=protocol)
        return _tell_stop(fall_short(0.5, [], flow=flow, result=result, span_ns=(2_600_000_000, 4 * S)))

    waits = ": a chunk that is lost again waits for a timer of 1 s or more (docs/sctp.md)"
    assert tell(portions, "sctp", retransmits=3) == f"nothing arrived from 3.10 s to 4.00 s{waits}"
    assert tell(portions, "sctp") == f"nothing arrived from 3.10 s to 4.00 s{waits}"
    assert tell(portions, "sctp", retransmits=0) == "nothing arrived from 3.10 s to 4.00 s"
    assert tell(portions) == "nothing arrived from 3.10 s to 4.00 s"
    assert tell(portions[:35]) is None
    assert tell([*portions[:35], portions[0], *portions[36:]]) is None


ALONE = {"paths": (FAST,), "flow": intents.flow([FAST.path], protocol="tcp")}


def test_a_flow_over_one_path_is_told_sizes() -> None:
    """The BDP is 250 kB."""
    text, is_known = explain(0.5, [FULL] * 10, **ALONE)
    assert is_known
    assert text.endswith(
        "(800 kB held, of 900 kB); 125 kB in a round trip of 100ms, and the path holds 250 kB. Remedy: give 'server' "
        "'sysctl: {net.ipv4.tcp_rmem: 4096 131072 500000}', and 'client' net.ipv4.tcp_wmem alike"
    )


def test_a_buffer_of_tcp_accounts_for_half_of_what_is_missing() -> None:
    """Half of the missing 53.6 % are 23 of 85 samples. A rule of half the samples asks for 43."""
    for full, is_known in ((23, True), (22, False)):
        assert explain(0.464, [FULL] * full + [BUSY] * (85 - full), **ALONE)[1] == is_known


def test_one_path_needs_no_scheduler() -> None:
    text, is_known = explain(0.5, [LEFT] * 10, **ALONE)
    assert text.startswith("no cause found")
    assert not is_known


def test_buffers_of_all_paths_are_advised_for_an_association_over_several() -> None:
    """The remedy of the fastest path alone left the warning word for word."""
    flow = intents.flow([FAST.path], tool="sctp", protocol="sctp", options={"cmt": "on"})
    slow = replace(SLOW_ROUND, rate=10_000_000)
    given: dict[str, Any] = {"efficiency": 0.1, "samples": [], "flow": flow, "paths": (FAST,)}
    least = math.ceil(2 * (FAST.rate + slow.rate) * slow.path.rtt_ns / 8e9)
    text, _ = explain(**given, sharing=(FAST, slow))
    assert slow.path.rtt_ns > FAST.path.rtt_ns
    assert f"'receive_buffer: {least}bytes', with 'buffer_splitting: both'" in text
    assert "splitting" not in explain(**given)[0]


TIMER = "its retransmission timer (T3-rtx) expired 3 times in all, although no packet was lost"
BUFFERS, NOTHING = "its buffers were full, as no packet was lost", "no cause found among queue"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        pytest.param({}, BUFFERS, id="constant"),
        pytest.param({"earlier": 0.98}, NOTHING, id="grows"),
        # a round trip is 4 % of the third
        pytest.param({"earlier": 0.97, "paths": (SLOW_ROUND,)}, BUFFERS, id="burst"),
        pytest.param({"drops": {("fast", "forward"): 1}}, NOTHING, id="drop"),
        pytest.param({"drops": {("fast", "reverse"): 1}}, NOTHING, id="dropped-acknowledgement"),
        pytest.param({"is_simulated": False}, NOTHING, id="real-time"),
        pytest.param({"paths": (use("fast", 20_000_000, reorder=Chance(0.01)),)}, NOTHING, id="reordered"),
        pytest.param({"paths": (replace(FAST, back=use("fast", 999_999).back),)}, NOTHING, id="few-acknowledgements"),
        pytest.param({"values": {"timeouts": 3}, "earlier": 0.5}, TIMER, id="timer"),
        pytest.param({"values": {"timeouts": 3}, "earlier": 0.5, "efficiency": 0.6}, BUFFERS, id="buffers-half-used"),
    ],
)
def test_buffers_of_sctp_are_found_by_exclusion(given: dict[str, Any], told: str) -> None:
    flow = intents.flow([FAST.path], protocol="sctp")
    text, is_known = explain(**{"efficiency": 0.1, "samples": [], "flow": flow, "paths": (FAST,), **given})
    assert text.startswith(told)
    assert is_known == (told != NOTHING)
