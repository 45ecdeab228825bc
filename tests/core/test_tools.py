# SPDX-License-Identifier: Apache-2.0
"""Tools: outputs captured from real programs, whole, truncated and failed, and argument vectors."""

from __future__ import annotations

from pathlib import Path

import pytest

from mprun.capabilities import Capabilities
from mprun.spec.spec import Flow
from mprun.tools import iperf3, ping, tcpdump
from mprun.tools.tool import Endpoints

OUTPUTS = Path(__file__).parents[1] / "outputs"
ENDS = Endpoints("10.0.0.1", "10.1.0.1", 5201)


def output(name: str) -> str:
    return (OUTPUTS / name).read_text()


def flow(tool: str, protocol: str = "tcp", duration_ns: int | None = 10**10, **options: object) -> Flow:
    assert protocol in ("tcp", "mptcp")
    return Flow("bulk", tool, "client", "server", protocol, 0, duration_ns, options)  # type: ignore[arg-type]


def test_iperf3_report() -> None:
    result = iperf3.parse(output("iperf3-3.12-mptcp.json"))
    assert result.error is None
    goodput, unit = result.values["goodput"]
    assert goodput == pytest.approx(36.9e6, rel=0.02)
    assert unit == "bit/s"
    assert result.values["retransmits"][1] == "1"
    assert len(result.data_ports) == 1


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("iperf3-3.12-refused.json", "unable to connect to server: Connection refused"),
        ("iperf3-3.12-truncated.json", "its output is not whole: "),
    ],
)
def test_iperf3_failures(name: str, error: str) -> None:
    result = iperf3.parse(output(name))
    assert not result.values
    assert result.error is not None
    assert result.error.startswith(error)


def test_iperf3_said_nothing() -> None:
    assert iperf3.parse("").error == "its output is not whole: it printed nothing"


def test_iperf3_under_mptcp_is_wrapped_only_where_it_must() -> None:
    wrapped = iperf3.client(flow("iperf3", "mptcp"), ENDS, Capabilities(mptcp_library="/lib/wrap.so"))
    native = iperf3.client(flow("iperf3", "mptcp"), ENDS, Capabilities(iperf3_speaks_mptcp=True))
    assert wrapped.env == {"LD_PRELOAD": "/lib/wrap.so"}
    assert "--mptcp" not in wrapped.argv
    assert native.env == {}
    assert native.argv[-1] == "--mptcp"


def test_only_the_receiver_is_woken_less_often() -> None:
    capabilities = Capabilities(bulk_library="/lib/bulk.so")
    forward, reverse = flow("iperf3"), flow("iperf3", reverse=True)
    assert iperf3.servers(forward, ENDS, capabilities)[0].env == {"LD_PRELOAD": "/lib/bulk.so"}
    assert iperf3.client(forward, ENDS, capabilities).env == {}
    assert iperf3.servers(reverse, ENDS, capabilities)[0].env == {}
    assert iperf3.client(reverse, ENDS, capabilities).env == {"LD_PRELOAD": "/lib/bulk.so"}


def test_ping_report() -> None:
    values = ping.parse(output("ping-20221126.txt")).values
    assert values["rtt"] == (0.04, "s")
    assert values["loss"] == (0.0, "share")


def test_ping_without_answers() -> None:
    result = ping.parse("3 packets transmitted, 0 received, 100% packet loss, time 400ms\n")
    assert result.values == {"loss": (1.0, "share")}
    assert result.error == "no answer to any of its 3 requests"


def test_ping_truncated() -> None:
    assert ping.parse(output("ping-20221126.txt")[:150]).error is not None


def test_ping_without_count_fills_its_duration() -> None:
    argv = ping.client(flow("ping", duration_ns=2 * 10**9, interval_ns=500_000_000), ENDS, Capabilities()).argv
    assert argv[argv.index("-c") + 1] == "4"


def test_tcpdump_tells_its_drops() -> None:
    # stopped before it had read its last block
    assert tcpdump.lost(output("tcpdump-4.99.3.txt")) == 269
    said = "{} packets captured\n{} packets received by filter\n{} packets dropped by kernel\n"
    assert tcpdump.lost(said.format(93, 100, 7)) == 7
    assert tcpdump.lost(said.format(93, 100, 0)) == 7
    assert tcpdump.lost("tcpdump: listening on any") is None
