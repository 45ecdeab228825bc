# SPDX-License-Identifier: Apache-2.0
"""The packet schedulers of the experiment kernel: the purpose of each, measured from outside."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars
import pytest

from tests.system.conftest import Result

TOPOLOGY = """\
version: 1
topology: multi-path
params: {rate0: 20mbit, rate1: 20mbit, delay0: 20ms, delay1: 20ms}
paths:
  - {rate: "{{ rate0 }}", delay: "{{ delay0 }}"}
  - {rate: "{{ rate1 }}", delay: "{{ delay1 }}"}
"""
HOSTS = """\
version: 1
params: {scheduler: default}
hosts:
  client: &end {mptcp: {path_manager: fullmesh, scheduler: "{{ scheduler }}"}%s}
  server: *end
"""
BULK = """\
traffic: [{name: bulk, tool: iperf3, from: client, to: server, protocol: mptcp, duration: 10s}]
"""
REQUESTS = """\
traffic:
  - {name: req, tool: reqres, from: client, to: server, protocol: mptcp, requests: 20, request: 10000bytes,
     response: 10000bytes, think: 250ms}
"""
TCP = """\
version: 1
traffic: [{name: bulk, tool: iperf3, from: client, to: server, duration: 10s}]
"""
# Payload with TCP's timestamps and MPTCP's DSS option, of a frame of 1514 bytes.
MPTCP_PAYLOAD = 1424


@pytest.fixture
def run(mprun: Callable[..., Result], tmp_path: Path) -> Callable[..., Result]:
    (tmp_path / "topo.yaml").write_text(TOPOLOGY)
    (tmp_path / "tcp.yaml").write_text(TCP)

    def call(traffic: str, scheduler: str, sysctl: str = "", **parameters: str) -> Result:
        (tmp_path / "xp.yaml").write_text(HOSTS % (f", sysctl: {{{sysctl}}}" if sysctl else "") + traffic)
        chosen = [word for name, value in parameters.items() for word in ("-p", f"{name}={value}")]
        result = mprun("-t", "topo", "-x", "xp", "--json", "-p", f"scheduler={scheduler}", *chosen)
        assert result.status == 0, result.out + result.err
        return result

    return call


def delays_ms(result: Result) -> list[float]:
    """Return the delay of each request in ms, in order."""
    table = polars.read_parquet(result.run / "tables" / "requests.parquet")
    return [value / 1e6 for value in table["delay_ns"]]


def within(values: list[float], low: float, high: float) -> bool:
    return all(low <= value <= high for value in values)


FAST, SLOW = {"rate0": "100mbit", "rate1": "100mbit"}, (80, 82)


def test_lowest_rtt_uses_the_shorter_path(run: Callable[..., Result]) -> None:
    delays = delays_ms(run(REQUESTS, "lowest-rtt", **FAST, delay1="40ms"))
    assert len(delays) == 20
    assert within(delays, 41, 42)


def test_lowest_rtt_uses_the_shorter_path_wherever_it_stands(run: Callable[..., Result]) -> None:
    """The first request leaves before the second subflow exists. Mainline's scheduler stays with the first path."""
    delays = delays_ms(run(REQUESTS, "lowest-rtt", **FAST, delay0="40ms"))
    assert within(delays[:1], *SLOW)
    assert within(delays[1:], 41, 42)
    assert within(delays_ms(run(REQUESTS, "default", **FAST, delay0="40ms")), *SLOW)


def test_round_robin_waits_for_the_longer_path(run: Callable[..., Result]) -> None:
    delays = delays_ms(run(REQUESTS, "roundrobin", **FAST, delay1="40ms"))
    assert within(delays[:1], 41, 42)
    assert within(delays[1:], *SLOW)


def test_round_robin_by_more_segments(run: Callable[..., Result]) -> None:
    """A turn of 8 segments holds a whole request or answer, so requests use the two paths alternately."""
    delays = delays_ms(run(REQUESTS, "roundrobin", "net.mptcp.roundrobin_segments: 8", **FAST, delay1="40ms"))
    assert len(delays) == 20
    assert within(delays[::2], 41, 42)
    assert within(delays[1::2], *SLOW)


@pytest.mark.parametrize("second", [{}, {"rate1": "5mbit"}, {"rate1": "5mbit", "delay1": "100ms"}])
def test_redundant_is_as_fast_as_the_better_path(
    run: Callable[..., Result], mprun: Callable[..., Result], second: dict[str, str]
) -> None:
    result = run(BULK, "redundant", **second)
    alone = mprun("-t", "topo", "-x", "tcp", "--json")
    assert result.metric("bulk.goodput") >= 0.98 * alone.metric("bulk.goodput")
    assert result.metric("bulk.subflows") == 2


def test_redundant_is_as_fast_where_the_better_path_joins_later(
    run: Callable[..., Result], mprun: Callable[..., Result], tmp_path: Path
) -> None:
    """This holds once the subflow of the better path exists.

    The connection needs three round trips of the first path and one of the better path to create it.
    """
    result = run(BULK.replace("10s", "8s, omit: {start: 2s}"), "redundant", rate0="5mbit", delay0="100ms")
    (tmp_path / "tcp.yaml").write_text(TCP.replace("10s", "8s, omit: {start: 2s}"))
    alone = mprun("-t", "topo", "-x", "tcp", "--json")
    assert result.metric("bulk.joined.path1") < 1
    assert result.metric("bulk.goodput") >= 0.98 * alone.metric("bulk.goodput")


def test_redundant_answers_as_the_shorter_path_does(run: Callable[..., Result]) -> None:
    assert within(delays_ms(run(REQUESTS, "redundant", **FAST, delay1="40ms")), 41, 42)


def balanced_limit(slowest_bit_per_s: float, epsilon: float) -> float:
    """Return r / (1/n - epsilon (n - 1)) for n = 2, as payload."""
    return slowest_bit_per_s * MPTCP_PAYLOAD / 1514 / (1 / 2 - epsilon)


def most_share(result: Result, epsilon: float) -> float:
    """Return the largest share of the first path that the scheduler's decisions allow, with path1 at 5 Mbit/s.

    The scheduler does not decide about the packets of the two round trips before the join (10 and 20, RFC 6928), nor
    about retransmissions. Path1 has not delivered all of its packets when the flow ends: 20 may be in its queue, and 9
    under way, as 20 ms at 5 Mbit/s hold 8.3 frames.
    """
    limit = 0.5 + epsilon
    undecided = 30 * 1448 + result.metric("bulk.resent.bytes.path0")
    undelivered = 29 * 1448
    return limit + ((1 - limit) * undecided + limit * undelivered) / result.metric("bulk.bytes")


def test_balanced_shares_and_rate(run: Callable[..., Result]) -> None:
    result = run(BULK, "balanced", rate1="5mbit")
    assert 0.45 <= result.metric("bulk.share.path0") <= most_share(result, 0.05)
    limit = balanced_limit(5e6, 0.05)
    assert 0.96 * limit <= result.metric("bulk.goodput") <= limit


def test_balanced_with_another_epsilon(run: Callable[..., Result]) -> None:
    result = run(BULK, "balanced", "net.mptcp.balanced_epsilon: 10", rate1="5mbit")
    assert 0.4 <= result.metric("bulk.share.path0") <= most_share(result, 0.1)
    limit = balanced_limit(5e6, 0.1)
    assert 0.96 * limit <= result.metric("bulk.goodput") <= limit


def test_balanced_with_a_floor_is_no_slower_than_tcp(run: Callable[..., Result], mprun: Callable[..., Result]) -> None:
    floor = "net.mptcp.balanced_floor: 1"
    result = run(BULK, "balanced", floor, rate1="5mbit")
    assert result.metric("bulk.goodput") >= mprun("-t", "topo", "-x", "tcp", "--json").metric("bulk.goodput")
    # if balance costs less than the floor, it is kept
    kept = run(BULK, "balanced", floor, rate1="15mbit")
    assert abs(kept.metric("bulk.share.path0") - 0.5) <= 0.06
    assert kept.metric("bulk.goodput") >= result.metric("bulk.goodput")


def test_balanced_on_equal_paths_is_as_fast_as_default(run: Callable[..., Result]) -> None:
    ratio = run(BULK, "balanced").metric("bulk.goodput") / run(BULK, "default").metric("bulk.goodput")
    assert ratio >= 0.98


@pytest.mark.parametrize("scheduler", ["lowest-rtt", "roundrobin", "blest"])
def test_bulk_uses_all_paths(run: Callable[..., Result], scheduler: str) -> None:
    result = run(BULK, scheduler, rate1="5mbit")
    assert result.metric("bulk.goodput") >= 0.96 * 25e6 * MPTCP_PAYLOAD / 1514


def test_paths_are_told_of_under_the_names_of_all_transports(run: Callable[..., Result]) -> None:
    """Idle round trips are 40 and 100 ms. The second subflow joins a round trip after the first can carry data."""
    result = run(BULK, "lowest-rtt", rate1="5mbit", delay1="50ms")
    goodput = result.metric("bulk.goodput")
    assert result.metric("bulk.efficiency.sum") == pytest.approx(goodput / 25e6)
    assert result.metric("bulk.efficiency.best") == pytest.approx(goodput / 20e6)
    first, second = (result.metric(f"bulk.joined.path{n}") for n in range(2))
    # handshakes: the first takes its round trip, and the second its own, after the data of the first
    assert 0.1 <= second - first <= 0.2
    assert result.metric("bulk.srtt.path0") >= 0.04
    assert result.metric("bulk.srtt.path1") >= 0.1
    assert result.metric("bulk.retransmits") == sum(result.metric(f"bulk.resent.path{n}") for n in range(2))


@pytest.mark.parametrize("scheduler", ["lowest-rtt", "roundrobin", "redundant", "balanced", "blest"])
@pytest.mark.parametrize("stale", [1, 4])
def test_a_backup_takes_over_however_late_the_kernel_calls_a_path_stale(
    mprun: Callable[..., Result], tmp_path: Path, scheduler: str, stale: int
) -> None:
    (tmp_path / "topo.yaml").write_text(
        "version: 1\ntopology: multi-path\n"
        "paths: [{rate: 100mbit, delay: 20ms}, {rate: 100mbit, delay: 15ms, backup: true}]\n"
        "events: [{at: 3s, link: path0, set: {loss: 100%}}]\n"
    )
    (tmp_path / "xp.yaml").write_text(HOSTS % f", sysctl: {{net.mptcp.stale_loss_cnt: {stale}}}" + REQUESTS)
    result = mprun("-t", "topo", "-x", "xp", "--json", "-p", f"scheduler={scheduler}")
    assert result.status == 0, result.out + result.err
    delays = delays_ms(result)
    assert len(delays) == 20
    # time-outs begin at 200 ms and double; after the handover, data takes the backup of 30 ms
    assert max(delays) < 2000
    assert within(delays[-3:], 30, 32)
