# SPDX-License-Identifier: Apache-2.0
"""Tools: outputs captured from real programs, whole, truncated and failed, and argument vectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from mprun.capabilities import Capabilities
from mprun.spec.spec import Flow
from mprun.tools import iperf3, ping, tcpdump
from mprun.tools.tool import Endpoints

OUTPUTS = Path(__file__).parents[1] / "outputs"
ENDS = Endpoints("10.0.0.1", "10.1.0.1", (5201,), (("10.0.0.1", "10.1.0.1"),))


@dataclass(frozen=True)
class Left:
    """Outputs of a flow `bulk`: by process what it printed, by name the files that it left."""

    logs: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)
    zero_ns: int = 0

    def log(self, process: str, stream: str = "out") -> str:
        return self.logs.get(process, "") if stream == "out" else ""

    def span(self, process: str) -> tuple[int, int] | None:
        return None

    def file(self, name: str) -> bytes | None:
        return self.files.get(name)


def output(name: str) -> str:
    return (OUTPUTS / name).read_text()


def flow(tool: str, protocol: str = "tcp", duration_ns: int | None = 10**10, **options: object) -> Flow:
    assert protocol in ("tcp", "mptcp")
    return Flow("bulk", tool, "client", "server", protocol, 0, duration_ns, options)  # type: ignore[arg-type]


def test_iperf3_report() -> None:
    result = iperf3.parse(flow("iperf3"), Left({"bulk": output("iperf3-3.12-mptcp.json")}))
    assert result.error is None
    assert result.values["goodput"] == pytest.approx(36.9e6, rel=0.02)
    assert result.values.keys() <= iperf3.METRICS.keys()
    assert len(result.data_ports) == 1
    table = result.tables["goodput"]
    assert table["end_s"][-1] == pytest.approx(10, abs=0.1)
    seconds = [end - start for start, end in zip(table["start_s"], table["end_s"], strict=True)]
    carried = sum(rate * s for rate, s in zip(table["goodput_bit_per_s"], seconds, strict=True))
    assert carried / sum(seconds) == pytest.approx(result.values["goodput"])


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("iperf3-3.12-refused.json", "unable to connect to server: Connection refused"),
        ("iperf3-3.12-truncated.json", "its output is not whole: "),
    ],
)
def test_iperf3_failures(name: str, error: str) -> None:
    result = iperf3.parse(flow("iperf3"), Left({"bulk": output(name)}))
    assert not result.values
    assert result.error is not None
    assert result.error.startswith(error)


def test_iperf3_said_nothing() -> None:
    assert iperf3.parse(flow("iperf3"), Left({"bulk": ""})).error == "its output is not whole: it printed nothing"


def test_iperf3_under_mptcp_is_wrapped_only_where_it_must() -> None:
    wrapped = iperf3.work(flow("iperf3", "mptcp"), ENDS, Capabilities(mptcp_library="/lib/wrap.so")).clients[0]
    native = iperf3.work(flow("iperf3", "mptcp"), ENDS, Capabilities(iperf3_speaks_mptcp=True)).clients[0]
    assert wrapped.env == {"LD_PRELOAD": "/lib/wrap.so"}
    assert "--mptcp" not in wrapped.argv
    assert native.env == {}
    assert native.argv[-1] == "--mptcp"


def test_only_the_receiver_is_woken_less_often() -> None:
    capabilities = Capabilities(bulk_library="/lib/bulk.so")
    forward, reverse = flow("iperf3"), flow("iperf3", reverse=True)
    assert iperf3.work(forward, ENDS, capabilities).servers[0].env == {"LD_PRELOAD": "/lib/bulk.so"}
    assert iperf3.work(forward, ENDS, capabilities).clients[0].env == {}
    assert iperf3.work(reverse, ENDS, capabilities).servers[0].env == {}
    assert iperf3.work(reverse, ENDS, capabilities).clients[0].env == {"LD_PRELOAD": "/lib/bulk.so"}


def test_ping_report() -> None:
    values = ping.read(output("ping-20221126.txt")).values
    assert values["rtt"] == 0.04
    assert values["loss"] == 0.0


def test_ping_without_answers() -> None:
    result = ping.read("3 packets transmitted, 0 received, 100% packet loss, time 400ms\n")
    assert result.values == {"loss": 1.0}
    assert result.error == "no answer to any of its 3 requests"


def test_ping_truncated() -> None:
    assert ping.read(output("ping-20221126.txt")[:150]).error is not None


def test_ping_without_count_fills_its_duration() -> None:
    asked = flow("ping", duration_ns=2 * 10**9, interval_ns=500_000_000)
    argv = ping.work(asked, ENDS, Capabilities()).clients[0].argv
    assert argv[argv.index("-c") + 1] == "4"


def test_tcpdump_tells_its_drops() -> None:
    # stopped before it had read its last block
    assert tcpdump.lost(output("tcpdump-4.99.3.txt")) == 269
    said = "{} packets captured\n{} packets received by filter\n{} packets dropped by kernel\n"
    assert tcpdump.lost(said.format(93, 100, 7)) == 7
    assert tcpdump.lost(said.format(93, 100, 0)) == 7
    assert tcpdump.lost("tcpdump: listening on any") is None
