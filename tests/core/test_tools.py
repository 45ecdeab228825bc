# SPDX-License-Identifier: Apache-2.0
"""Tools: outputs of real programs, whole, truncated and failed, and argument vectors."""

from __future__ import annotations

import errno
import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from mprun.agent.programs.echo import sum_up
from mprun.agent.programs.flows import Sending
from mprun.errors import MachineError
from mprun.model.capabilities import Capabilities
from mprun.model.spec import After, Flow
from mprun.workloads import flows, http, iperf3, ping, probe, reqres, tcpdump, udp, web
from mprun.workloads.tool import Endpoints, Portion, Result, SocketSample, summarize_delays

OUTPUTS = Path(__file__).parents[1] / "outputs"
ENDS = Endpoints("10.0.0.1", "10.1.0.1", (5201,), (("10.0.0.1", "10.1.0.1"),))


@dataclass(frozen=True)
class Left:
    """Outputs of a flow `bulk`: printed text by process, and files by name."""

    logs: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)
    zero_ns: int = 0
    epoch_ns: int = 0
    began_ns: int | None = None
    ended_ns: int | None = None
    samples: Mapping[str, Sequence[tuple[int, Sequence[SocketSample]]]] = field(default_factory=dict)

    def log(self, process: str, stream: str = "out") -> str:
        return self.logs.get(process if stream == "out" else f"{process}.{stream}", "")

    def span(self, process: str) -> tuple[int, int] | None:
        return (
            None
            if self.began_ns is None
            else (self.began_ns, self.began_ns if self.ended_ns is None else self.ended_ns)
        )

    def file(self, name: str) -> bytes | None:
        return self.files.get(name)

    def sockets(self, host: str, port: int) -> Iterator[tuple[int, Sequence[SocketSample]]]:
        yield from self.samples.get(host, ())


def output(name: str) -> str:
    return (OUTPUTS / name).read_text()


def flow(tool: str, protocol: str = "tcp", duration_ns: int | None = 10**10, **options: object) -> Flow:
    assert protocol in ("tcp", "mptcp", "sctp", "udp")
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
    ("name", "sent", "size_bytes", "lost"),
    [
        # its path was down for the second half of its time, and iperf3 reports no loss
        ("outage", 1019, 486 * 1472, 533),
        # 1 % of the packets arrived twice and out of order, and iperf3 reports 2**64 - 1 lost packets
        ("reordered", 16434, 5_528_803, 0),
    ],
)
def test_iperf3_over_udp_has_lost_what_did_not_arrive(name: str, sent: int, size_bytes: int, lost: int) -> None:
    asked = flow("iperf3", "udp", (4 if name == "outage" else 2) * 10**9)
    result = iperf3.parse(asked, Left({"bulk": output(f"iperf3-3.12-udp-{name}.json")}))
    assert result.error is None
    assert (result.values["bytes"], result.lost_packets) == (size_bytes, lost)
    assert result.values["loss"] == lost / sent


def test_iperf3_over_sctp_has_no_lost_packets() -> None:
    result = iperf3.parse(flow("iperf3", "sctp", 2 * 10**9), Left({"bulk": output("iperf3-3.12-sctp.json")}))
    assert result.error is None
    assert result.values == {"goodput": pytest.approx(14.08e6, rel=1e-3), "bytes": 3_609_672}
    assert (result.lost_packets, result.data_ports) == (0, ())


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


def test_iperf3_names_the_limits_of_a_window() -> None:
    report = '{"error": "socket buffer size not set correctly"}'
    error = iperf3.parse(flow("iperf3", window_bytes=8388608), Left({"bulk": report})).error or ""
    assert "'sysctl: {net.core.rmem_max: 8388608, net.core.wmem_max: 8388608}'" in error


def test_iperf3_said_nothing() -> None:
    assert iperf3.parse(flow("iperf3"), Left({"bulk": ""})).error == "its output is not whole: it printed nothing"


def test_iperf3_under_mptcp_is_wrapped_only_where_it_must() -> None:
    wrapped = iperf3.work(flow("iperf3", "mptcp"), ENDS, Capabilities(mptcp_library="/lib/wrap.so")).clients[0]
    native = iperf3.work(flow("iperf3", "mptcp"), ENDS, Capabilities(iperf3_speaks_mptcp=True)).clients[0]
    assert wrapped.env == {"LD_PRELOAD": "/lib/wrap.so"}
    assert "--mptcp" not in wrapped.argv
    assert native.env == {}
    assert native.argv[-1] == "--mptcp"


def test_mptcp_of_a_program_that_cannot_by_itself_needs_the_library() -> None:
    asked = flow("http", "mptcp", None, sizes_bytes=[1000], requests=1, persistent=True, concurrency=1)
    with pytest.raises(MachineError, match="flow 'bulk' needs mptcpize: apt-get install mptcpize"):
        http.work(asked, ENDS, Capabilities(mptcp_library="", iperf3_speaks_mptcp=True))


def test_only_the_receiver_is_woken_less_often() -> None:
    capabilities = Capabilities(bulk_library="/lib/bulk.so")
    forward, reverse = flow("iperf3"), flow("iperf3", reverse=True)
    assert iperf3.work(forward, ENDS, capabilities).servers[0].env == {"LD_PRELOAD": "/lib/bulk.so"}
    assert iperf3.work(forward, ENDS, capabilities).clients[0].env == {}
    assert iperf3.work(reverse, ENDS, capabilities).servers[0].env == {}
    assert iperf3.work(reverse, ENDS, capabilities).clients[0].env == {"LD_PRELOAD": "/lib/bulk.so"}
    sized = flow("iperf3", duration_ns=None, reverse=True, size_bytes=1_000_000)
    assert iperf3.work(sized, ENDS, capabilities).clients[0].env == {}


@pytest.mark.parametrize(
    ("options", "length"), [({}, 10_240), ({"length_bytes": 20_000}, 10_240), ({"length_bytes": 1_000}, 1_000)]
)
def test_iperf3_sends_no_more_than_the_size(options: dict[str, int], length: int) -> None:
    asked = replace(flow("iperf3", duration_ns=None), options={"size_bytes": 10_240, **options})
    argv = iperf3.work(asked, ENDS, Capabilities()).clients[0].argv
    assert argv[argv.index("--length") + 1] == str(length)
    whole = iperf3.work(flow("iperf3", duration_ns=None, size_bytes=1 << 20), ENDS, Capabilities()).clients[0].argv
    assert "--length" not in whole


@pytest.mark.parametrize(("share", "warned"), [(0.97, True), (0.99, False)])
def test_a_size_of_which_a_part_did_not_arrive_is_told(share: float, warned: bool) -> None:
    report = output("iperf3-3.12-mptcp.json")
    arrived = iperf3.parse(flow("iperf3"), Left({"bulk": report})).values["bytes"]
    asked = flow("iperf3", "mptcp", None, size_bytes=round(arrived / share))
    warnings = iperf3.parse(asked, Left({"bulk": report})).warnings
    assert [" arrived: iperf3 ends when all is written" in text for text in warnings] == [True] * warned


def test_probe_statistics() -> None:
    values = probe.read_statistics(output("ping-20221126.txt"))
    assert (values["rtt"], values["loss"]) == (0.04, 0.0)
    assert probe.read_statistics(output("ping-20221126.txt")[:150]) == {}


def asked_ping() -> Flow:
    return flow("ping", interval_ns=100_000_000, size_bytes=56)


def test_ping_has_its_answers() -> None:
    """The second request has no answer. The answers to the third and fourth came twice."""
    result = ping.parse(asked_ping(), Left({"bulk": output("mprun-echo-0.1.0.txt")}, zero_ns=4 * 10**9))
    assert result.error is None
    table = result.tables["pings"]
    assert table["sequence"] == [1, 3, 3, 4, 4]
    assert table["rtt_ms"] == [40.001] * 5
    assert table["start_ns"] == [163_840, 200_164_096, 200_164_096, 300_164_096, 300_164_096]
    assert result.values["rtt"] == pytest.approx(0.040001)
    assert result.values["loss"] == 0.25
    assert result.values.keys() <= ping.METRICS.keys()


def test_ping_that_was_killed_keeps_its_answers() -> None:
    said = output("mprun-echo-0.1.0.txt")
    result = ping.parse(asked_ping(), Left({"bulk": said[: said.index("---")]}))
    assert result.error is not None
    assert result.tables["pings"]["sequence"] == [1, 3, 3, 4, 4]


@pytest.mark.parametrize(
    ("said", "errors", "error"),
    [
        ("3 packets transmitted, 0 received, 100% packet loss, time 400ms\n", "", "no answer to any of its requests"),
        ("3 packets transmitted, 0 received\n", "icmp_seq=3: no\n", "no answer to any of its requests: icmp_seq=3: no"),
        ("", "10.0.0.1: Operation not permitted\n", "no statistics: 10.0.0.1: Operation not permitted"),
        ("", "", "no statistics: it printed nothing"),
    ],
)
def test_ping_failures(said: str, errors: str, error: str) -> None:
    result = ping.parse(asked_ping(), Left({"bulk": said, "bulk.err": errors}))
    assert result.error == error
    assert result.values == ({"loss": 1.0} if said else {})


def test_ping_without_count_fills_its_duration() -> None:
    asked = flow("ping", duration_ns=2 * 10**9, interval_ns=500_000_000, size_bytes=56)
    assert "count=4" in ping.work(asked, ENDS, Capabilities()).clients[0].argv


@pytest.mark.parametrize(("message", "checksum"), [(bytes.fromhex("0001f203f4f5f6f7"), 0x220D), (b"\x01", 0xFEFF)])
def test_internet_checksum(message: bytes, checksum: int) -> None:
    """The first message is the example of RFC 1071 section 3. An odd byte is padded with zeros."""
    assert sum_up(message) == checksum


def test_tcpdump_tells_its_drops() -> None:
    # stopped before it read its last block
    assert tcpdump.lost(output("tcpdump-4.99.3.txt")) == 269
    said = "{} packets captured\n{} packets received by filter\n{} packets dropped by kernel\n"
    assert tcpdump.lost(said.format(93, 100, 7)) == 7
    assert tcpdump.lost(said.format(93, 100, 0)) == 7
    assert tcpdump.lost("tcpdump: listening on any") is None
    # packets that tcpdump counts only after the traffic was over are not lost
    over = "{} packets captured, {} packets received by filter, 0 packets dropped by kernel\n"
    assert tcpdump.lost(over.format(80, 90) + said.format(93, 100, 0)) == 0
    assert tcpdump.lost(over.format(80, 95) + said.format(93, 100, 0)) == 2
    assert tcpdump.passed(over.format(80, 95) + said.format(93, 100, 0)) == 93


def test_reqres_tells_each_request() -> None:
    asked = flow("reqres", requests=3)
    result = reqres.parse(asked, Left({"bulk": "port 4321\n1000 1500\n2000 2600\n3000 3400\n"}, zero_ns=500))
    assert result.error is None
    assert result.data_ports == (4321,)
    assert result.tables["requests"] == {
        "sequence": [1, 2, 3],
        "start_ns": [500, 1500, 2500],
        "delay_ns": [500, 600, 400],
    }
    told = summarize_delays("delay", result.delays_ns["delay"])
    delays = {name.removeprefix("delay."): value * 1e9 for name, value in told.items()}
    expected = {"mean": 500, "stdev": 100, "median": 500, "p95": 590, "p99": 598, "min": 400, "max": 600}
    assert delays == pytest.approx(expected)


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("port 4321\n1000 1500\n", "1 of 3 requests were answered: it said nothing"),
        ("", "0 of 3 requests were answered: it said nothing"),
        ("Traceback (most recent call last):\n", "a line that it never prints: Traceback (most recent call last):"),
    ],
)
def test_reqres_failures(said: str, error: str) -> None:
    assert reqres.parse(flow("reqres", requests=3), Left({"bulk": said})).error == error


def web_flow() -> Flow:
    return flow("http", duration_ns=None, sizes_bytes=[1000, 3000], requests=3, concurrency=1)


def test_web_tells_each_request() -> None:
    """The output is that of curl 7.88.1."""
    said = (
        "0 0 200 1000 40000 1 0.040006 0.000000 0.080010 0.080080\n"
        "1 0 200 3000 40000 0 0.000000 0.000000 0.040006 0.040100\n"
        "2 0 200 1000 40002 1 0.040006 0.000000 0.080010 0.079820\n"
    )
    result = web.parse(web_flow(), Left({"bulk": said}))
    assert result.error is None
    assert result.data_ports == (40000, 40002)
    assert result.values["goodput"] == pytest.approx(5000 * 8 / 0.2)
    assert result.values["first_byte.median"] == pytest.approx(0.08001)
    table = result.tables["requests"]
    assert table["start_ns"] == [0, 80_080_000, 120_180_000]
    assert table["size_bytes"] == [1000, 3000, 1000]
    assert table["delay_ns"] == [80_080_000, 40_100_000, 79_820_000]
    assert result.portions == {"goodput": [Portion(0, 200_000_000, 5000)]}
    assert result.values.keys() <= web.METRICS.keys()


def test_web_without_an_answer() -> None:
    said = "0 7 000 0 0 0 0.000000 0.000000 0.000000 0.040100\n"
    result = web.parse(web_flow(), Left({"bulk": said}))
    assert result.error == "0 of 3 requests were answered: it said nothing"
    assert result.values == {"requests": 0, "bytes": 0}
    assert result.tables["requests"]["delay_ns"] == [None]
    assert result.accounts["bulk"].splitlines()[1].split()[-2:] == ["no", "answer"]
    assert web.parse(web_flow(), Left({"bulk": "curl: (6)"})).error == (
        "a line that curl never prints: zip() argument 2 is shorter than argument 1"
    )


def test_udp_counts_what_arrives() -> None:
    """Packets 0 to 5: 3 is lost, 1 comes late and twice, 5 comes twice in a row (RFC 4737, section 3.3)."""
    arrived = [(0, 100, 200), (2, 120, 220), (1, 110, 230), (4, 140, 240), (1, 110, 250), (5, 150, 260), (5, 150, 261)]
    content = b"".join(struct.pack("<QQQ", *one) for one in arrived)
    asked = flow("udp", duration_ns=1000, length_bytes=100, rate_bit_per_s=80 * 10**9)
    result = udp.parse(asked, Left({"bulk": "6\n"}, {"packets": content}, zero_ns=50))
    assert result.error is None
    assert result.values["loss"] == pytest.approx(1 / 6)
    assert result.values["reordered"] == pytest.approx(1 / 7)
    assert result.values["duplicates"] == 2
    assert max(result.delays_ns["delay"]) == 120
    assert result.values["goodput"] == pytest.approx(5 * 100 * 8 / 1e-6)
    assert result.tables["datagrams"]["sent_ns"][:3] == [50, 70, 60]
    # 100 bytes at 80 Gbit/s are one packet in 10 ns: the sixth at 150 and the first at 100, where time zero is 50
    assert result.portions["goodput"] == [Portion(50, 1050, 500)]
    # a duration that is over before the last packet arrives does not end the flow
    brief = udp.parse(replace(asked, duration_ns=60), Left({"bulk": "6\n"}, {"packets": content}, zero_ns=50))
    assert brief.portions["goodput"] == [Portion(50, 211, 500)]
    # seven arrivals in 61 ns
    assert brief.values["goodput"] == pytest.approx(500 * 8e9 / (61 * 7 / 6))
    assert udp.parse(asked, Left({"bulk": "6\n"})).error == "the receiver's record is missing or not whole"
    assert udp.parse(asked, Left({"bulk": "6\n"}, {"packets": content[:-1]})).error is not None


def test_udp_sends_as_many_packets_as_are_due() -> None:
    """100 bytes at 13.9175 Mbit/s take 57481.59 ns: 68603.5 packets in 3.943439 s.

    Whole nanoseconds gave one packet more.
    """
    asked = flow("udp", duration_ns=3_943_439_000, length_bytes=100, rate_bit_per_s=13_917_500)
    (sender,) = udp.work(asked, ENDS, Capabilities()).clients
    assert sender.argv[-2:] == ("rate=13917500", "packets=68603")


def test_iperf3_leaves_out_what_a_flow_omits() -> None:
    asked = flow("iperf3", omit={"start_ns": 2 * 10**9, "end_ns": 10**9})
    whole = iperf3.parse(flow("iperf3"), Left({"bulk": output("iperf3-3.12-mptcp.json")}))
    steady = iperf3.parse(asked, Left({"bulk": output("iperf3-3.12-mptcp.json")}))
    rates = whole.tables["goodput"]["goodput_bit_per_s"]
    assert steady.values["goodput"] == pytest.approx(sum(rates[2:9]) / 7, rel=1e-4)
    assert steady.tables == whole.tables


@pytest.mark.parametrize(("is_back", "loss"), [(False, 0.4), (True, 0.1)])
def test_the_last_packets_to_the_server_of_iperf3_are_lost_too(is_back: bool, loss: float) -> None:
    """iperf3 sees a loss by a later packet. Of 10 packets, the fifth and the last three did not arrive.

    A client that receives ends before the last ones can arrive.
    """
    counted = [{"streams": [], "sum": {"start": 0, "end": 1, "bytes": 6000, "bits_per_second": 48000}}]
    report = {
        "start": {
            "connecting_to": {"host": "10.1.0.1", "port": 5201},
            "connected": [],
            "test_start": {"protocol": "UDP", "reverse": int(is_back), "blksize": 1000},
        },
        "intervals": counted,
        "server_output_json": {"intervals": counted},
        "end": {"sum": {"packets": 10, "lost_packets": 1}},
    }
    result = iperf3.parse(flow("iperf3", duration_ns=10**9), Left({"bulk": json.dumps(report)}))
    assert result.error is None
    assert (result.values["loss"], result.values["bytes"], result.lost_packets) == (loss, 6000, round(10 * loss))


def test_iperf3_both_ways() -> None:
    asked = flow("iperf3", duration_ns=2 * 10**9, bidirectional=True)
    result = iperf3.parse(asked, Left({"bulk": output("iperf3-3.12-bidir.json")}))
    assert result.values["goodput"] == pytest.approx(10e6, rel=0.06)
    assert result.values["goodput.back"] == pytest.approx(10e6, rel=0.06)
    assert result.tables["goodput"]["direction"] == ["forth"] * 2 + ["back"] * 2
    assert len(result.data_ports) == 2


def samples(at_ms: int, *sockets: tuple[int, int, int, int]) -> tuple[int, list[SocketSample]]:
    """Return a moment, and for each socket its bytes sent and received, and the moments in ms of the last of each."""
    moments = ((sent, got, sent_ms * 10**6, got_ms * 10**6) for sent, got, sent_ms, got_ms in sockets)
    return at_ms * 10**6, [SocketSample(*one) for one in moments]


def test_iperf3_begins_when_its_server_says_so() -> None:
    """The server has sent four states at 180 ms, and the client has them at 200 ms.

    Each end counts from its own moment.
    """
    asked = flow("iperf3", duration_ns=2 * 10**9, bidirectional=True)
    # each end sends data on one connection; at first the server has not sent all states, and after the test it sends
    # its results
    server = [
        samples(100, (2, 186, 90, 95), (0, 37, 90, 95)),
        samples(500, (4, 186, 180, 100), (0, 300_037, 170, 499), (300_000, 37, 499, 170)),
        samples(2500, (3503, 464, 2420, 2460), (0, 2_000_037, 170, 2300)),
    ]
    client = [samples(500, (187, 4, 80, 200), (300_037, 0, 499, 160), (37, 300_000, 160, 499))]
    ended_ns = 2_480_000_000
    seen = {"server": server, "client": client}
    left = Left({"bulk": output("iperf3-3.12-bidir.json")}, began_ns=0, ended_ns=ended_ns, samples=seen)
    result = iperf3.parse(asked, left)
    starts = result.tables["goodput"]["start_s"]
    assert starts == pytest.approx([0.18, 1.18, 0.2, 1.2], abs=1e-3)
    assert [result.portions[name][0].begin_ns for name in ("goodput", "goodput.back")] == [180_000_000, 200_000_000]
    counted = result.portions["goodput"]
    length_s = (counted[-1].end_ns - counted[0].begin_ns) / 1e9
    assert sum(one.size_bytes for one in counted) * 8 / length_s == pytest.approx(result.values["goodput"], rel=1e-4)


@pytest.mark.parametrize(
    "sockets",
    [
        # the last of the four states took another subflow; a subflow that has joined and sent nothing has a moment too
        [(3, 186, 180, 100), (1, 0, 190, 150), (0, 0, 400, 400), (0, 99_999, 170, 499)],
        # MPTCP has sent a copy of two states on further subflows
        [(4, 186, 190, 100), (1, 0, 270, 150), (1, 0, 250, 150), (0, 99_999, 170, 499)],
    ],
)
def test_iperf3_begins_over_several_subflows(sockets: list[tuple[int, int, int, int]]) -> None:
    seen = {"server": [samples(500, *sockets)]}
    left = Left({"bulk": output("iperf3-3.12-mptcp.json")}, began_ns=0, ended_ns=11 * 10**9, samples=seen)
    assert iperf3.parse(flow("iperf3", "mptcp"), left).portions["goodput"][0].begin_ns == 190_000_000


@pytest.mark.parametrize("sent_ms", [None, 800])
def test_iperf3_begins_early_enough_to_end_with_its_program(sent_ms: int | None) -> None:
    """No sample was taken in the test, or the last state was lost and sent again, here half a second later."""
    seen = {"server": [samples(1000, (4, 186, sent_ms, 100))]} if sent_ms else {}
    report = {"bulk": output("iperf3-3.12-mptcp.json")}
    left = Left(report, zero_ns=10**9, began_ns=10**9, ended_ns=11_300_000_000, samples=seen)
    result = iperf3.parse(flow("iperf3", "mptcp"), left)
    assert result.tables["goodput"]["end_s"][-1] == pytest.approx(10.3)
    assert 0.2 < result.tables["goodput"]["start_s"][0] < 0.3


RECORD = struct.Struct("<QQQIII")


def test_flows_are_complete_when_their_receiver_has_them() -> None:
    asked = flow("flows", deadline_ns=500)
    said = "bulk 1 100 0 2000 2200 2800 3 1 1 0 40001\nbulk 0 50 0 1000 1100 1500 0 0 0 0 40000\n"
    said += "other 0 9 0 1 2 3 0 0 0 0 7\nbulk 2 70 0 3000 3100 3600 0 0 0 0 40002\nbulk 3 70 0 4000 0 0 0 0 0 0 0\n"
    records = [(0, 50, 1400, 0, 0, 0), (1, 100, 2700, 0, 0, 0), (2, 60, 3500, 0, 0, 0)]
    content = b"".join(RECORD.pack(*record) for record in records)
    left = Left({"bulk": said, "bulk.err": "10.0.0.1 port 5201: refused\n"}, {"received": content}, zero_ns=500)
    result = flows.parse(asked, left)
    table = result.tables["flows"]
    assert table["completion_ns"] == [400, 700, None, None]
    assert table["start_ns"] == [500, 1500, 2500, 3500]
    assert table["connect_ns"] == [100, 200, 100, None]
    assert (table["retransmits"], table["losses"]) == ([0, 3, 0, 0], [0, 2, 0, 0])
    # flows that did not complete have no class, although no loss is recorded for them
    assert table["class"] == ["full_window", "delay_with_loss", None, None]
    assert (result.values["class.full_window"], result.values["class.delay_with_loss"]) == (0.5, 0.5)
    assert flows.pool([asked], [result]).values["class.full_window"] == 0.5
    assert result.error == "2 flows did not arrive whole: 10.0.0.1 port 5201: refused"
    assert result.values["missed"] == 0.5
    assert (result.values["flows"], result.values["bytes"]) == (4, 150)


@pytest.mark.parametrize(
    ("counts", "kind"),
    [
        ("0 0 0 0", "full_window"),
        ("2 2 0 0", "full_window"),
        ("2 1 0 0", "intensive"),
        ("2 0 1 0", "delay_with_loss"),
        ("2 0 2 0", "extreme_delay"),
        ("1 0 1 1", "extreme_delay"),
    ],
)
def test_a_flow_is_classed_by_what_it_met_with(counts: str, kind: str) -> None:
    """counts: segments sent again, duplicates among them, time-outs, lost handshakes."""
    content = RECORD.pack(0, 50, 1400, 0, 0, 0)
    said = f"bulk 0 50 0 1000 1100 1500 {counts} 40000\n"
    result = flows.parse(flow("flows"), Left({"bulk": said}, {"received": content}))
    assert result.tables["flows"]["class"] == [kind]
    assert result.values[f"class.{kind}"] == 1


def test_a_query_takes_as_long_as_its_last_part() -> None:
    asked = [
        replace(flow("flows", aggregate=True, deadline_ns=450, request_bytes=16), source="m", destination=name)
        for name in ("w1", "w2")
    ]
    ends = {"w1": (1400, 5300, 0), "w2": (1600, 5200, 9999)}
    results = []
    for one in asked:
        lines = [
            f"bulk {n} 50 50 {start} {start + 9} {end} 0 0 0 0 {n}\n"
            for n, (start, end) in enumerate(zip((1000, 5000, 9000), ends[one.destination], strict=True))
        ]
        results.append(flows.parse(one, Left({"bulk": "".join(lines)}, {"received": b""})))
    assert [result.error for result in results] == ["1 flows did not arrive whole", None]
    pooled = flows.pool(asked, results)
    assert pooled.tables["queries"]["completion_ns"] == [600, 300, None]
    assert pooled.tables["queries"]["last"] == ["w2", "w1", None]
    assert pooled.values["queries"] == 3
    assert pooled.values["missed"] == 0.5
    assert pooled.delays_ns["completion"] == [600, 300]


def part_of(start_ns: int, **options: Any) -> tuple[Flow, Result]:
    """Return a series of one flow that begins at a time and takes 300 ns, with its result."""
    one = replace(flow("flows", request_bytes=16, **options), start_ns=start_ns)
    said = f"bulk 0 50 50 {start_ns} {start_ns + 9} {start_ns + 300} 0 0 0 0 1\n"
    return one, flows.parse(one, Left({"bulk": said}, {"received": b""}))


def test_repetitions_are_queries_of_their_own() -> None:
    pooled = flows.pool(*zip(*(part_of(start_ns, aggregate=True) for start_ns in (1000, 9000)), strict=True))
    assert pooled.tables["queries"]["completion_ns"] == [300, 300]
    assert pooled.tables["queries"]["parts"] == [1, 1]


def test_repetitions_that_wait_for_each_other_are_queries_of_their_own() -> None:
    (first, result), (second, other) = part_of(0, aggregate=True), part_of(9000, aggregate=True)
    second = replace(second, name="again", start_ns=0, after=After("bulk"))
    assert flows.pool((first, second), (result, other)).tables["queries"]["completion_ns"] == [300, 300]


def test_each_flow_of_a_group_has_its_own_deadline() -> None:
    measured = [part_of(1000, deadline_ns=200), part_of(1000, deadline_ns=400), part_of(1000)]
    assert flows.pool(*zip(*measured, strict=True)).values["missed"] == 0.5


def test_a_connection_that_is_refused_at_once_says_why(capfd: pytest.CaptureFixture[str]) -> None:
    """A broadcast address has no TCP, so the kernel sends nothing."""
    asked = {"address": "255.255.255.255", "port": 5201, "protocol": "tcp", "congestion": "", "request_bytes": None}
    sending = Sending(0, 100, {"name": "bulk", **asked})
    with pytest.raises(OSError, match="unreachable") as error:
        sending.send()
    sending.say(0)
    sending.socket.close()
    assert error.value.errno == errno.ENETUNREACH
    # and there was no handshake
    assert capfd.readouterr().out.split()[5] == "0"


@pytest.mark.parametrize("name", flows.DISTRIBUTIONS)
def test_distributions_rise_to_one(name: str) -> None:
    sizes, shares = zip(*flows.DISTRIBUTIONS[name], strict=True)
    assert list(sizes) == sorted(set(sizes))
    assert list(shares) == sorted(set(shares))
    assert (shares[0], shares[-1]) == (0, 1)
