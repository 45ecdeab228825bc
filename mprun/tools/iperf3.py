# SPDX-License-Identifier: Apache-2.0
"""`iperf3`: bulk transfer over TCP, MPTCP or SCTP, or UDP at a given rate, see iperf3(1).

Under MPTCP iperf3 has two connections, one for control and one for data; `data_ports` tells which
is which. Versions before 3.19 cannot open MPTCP sockets themselves: the wrap library of mptcpize
does it for them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, PlainValidator, WithJsonSchema, model_validator

from mprun.capabilities import Capabilities
from mprun.plan import Process, Ready
from mprun.spec.datagram import LENGTH
from mprun.spec.field import SIZE_SCHEMA, TIME_SCHEMA, Whole
from mprun.spec.flow import FlowRate, ServedEntry
from mprun.spec.metric import OF_CONNECTIONS, Metric
from mprun.spec.model import refuse
from mprun.spec.spec import Flow
from mprun.spec.units import NS_PER_S, SIZE, TIME
from mprun.tools.tool import Endpoints, Outputs, Program, Result, Table, Work, mptcp_environment

PROGRAMS = {"iperf3": Program("iperf3", "--version")}
PORTS = 1
METRICS = {
    "goodput": Metric("rate", "payload that the receiver's program got in the flow's time"),
    "bytes": Metric("size", "payload that the receiver's program got"),
    "retransmits": Metric("count", "segments sent again, of all subflows", ("tcp", "mptcp")),
    "loss": Metric("ratio", "share of the packets that did not arrive", ("udp",)),
    **OF_CONNECTIONS,
}

# Beyond its duration a client gets this long to connect, drain queues and exchange results.
GRACE_NS = 30_000_000_000
# What fits into a packet of 1500 bytes; iperf3's own 64 KiB fill a send buffer with three messages.
SCTP_MESSAGE_BYTES = 1_452
# So many UDP packets are sent at once, where timers allow it.
BURST_PACKETS = 4
# The receiver's clock starts half a round trip late; a last interval shorter than this is the end's.
MINIMUM_INTERVAL_S = 0.1


def _parse_whole_seconds(value: object) -> int:
    duration_ns = TIME.parse(value)
    if duration_ns == 0 or duration_ns % NS_PER_S:
        raise ValueError(f"iperf3 counts whole seconds from 1s on, not {TIME.render(duration_ns)}: write '10s'")
    return duration_ns


WholeSeconds = Annotated[int, PlainValidator(_parse_whole_seconds), WithJsonSchema(TIME_SCHEMA)]


class Entry(ServedEntry):
    """Bulk transfer, see iperf3(1)."""

    tool: Literal["iperf3"] = Field(description="The tool.")
    protocol: Literal["tcp", "mptcp", "udp", "sctp"] = Field(
        "tcp", description="tcp, mptcp, udp or sctp (the kernel's)."
    )
    rate_bit_per_s: FlowRate | None = Field(
        None, alias="rate", description="Bits of payload per second to offer; udp needs it."
    )
    length_bytes: Annotated[int, PlainValidator(SIZE.parse), WithJsonSchema(SIZE_SCHEMA)] | None = Field(
        None,
        alias="length",
        description="Bytes of payload in a UDP packet or an SCTP message. Default: what fits into 1500 bytes.",
    )
    duration: WholeSeconds = Field(description="How long it sends, in whole seconds.", examples=["10s"])
    reverse: bool = Field(False, description="The server sends and the client receives.")
    parallel: Annotated[int, Whole(1, 128, "iperf3 takes no more streams")] = Field(
        1, description="Connections side by side."
    )

    @model_validator(mode="after")
    def _agree(self) -> Entry:
        if self.protocol == "udp" and self.rate_bit_per_s is None:
            raise refuse({("rate",): "is missing: UDP sends as fast as it is told to, write 'rate: 10mbit'"}, self)
        if self.protocol not in ("udp", "sctp") and self.length_bytes is not None:
            raise refuse({("length",): "is of UDP packets and SCTP messages: take it out"}, self)
        return self


def work(flow: Flow, ends: Endpoints, capabilities: Capabilities) -> Work:
    """A server for one test, and a client whose JSON, with the server's in it, is on standard output."""
    return Work(clients=(_client(flow, ends, capabilities),), servers=(_server(flow, ends, capabilities),))


def _server(flow: Flow, ends: Endpoints, capabilities: Capabilities) -> Process:
    argv = ("iperf3", "--server", "--one-off", "--json", "--port", str(ends.port), *_mptcp_flag(flow, capabilities))
    return Process(
        name=f"{flow.name}.server",
        node=flow.destination,
        argv=argv,
        env=_preload(flow, capabilities, receives=not flow.options.get("reverse")),
        role="server",
        ready=Ready("port", str(ends.port)),
        needs=_needs(flow),
    )


def _client(flow: Flow, ends: Endpoints, capabilities: Capabilities) -> Process:
    assert flow.duration_ns is not None
    options: Mapping[str, Any] = flow.options
    argv = ["iperf3", "--client", ends.destination_address, "--port", str(ends.port)]
    argv += ["--time", f"{flow.duration_ns / 1e9:g}", "--json", "--get-server-output"]
    if options.get("reverse"):
        argv.append("--reverse")
    if flow.protocol == "udp":
        argv += ["--udp", "--length", str(options[LENGTH]), "--pacing-timer", str(_pacing_us(options))]
    if flow.protocol == "sctp":
        argv += ["--sctp", "--length", str(options.get(LENGTH, SCTP_MESSAGE_BYTES))]
    if "rate_bit_per_s" in options:
        argv += ["--bitrate", str(options["rate_bit_per_s"])]
    if options.get("parallel", 1) != 1:
        argv += ["--parallel", str(options["parallel"])]
    return Process(
        name=flow.name,
        node=flow.source,
        argv=(*argv, *_mptcp_flag(flow, capabilities)),
        env=_preload(flow, capabilities, receives=bool(options.get("reverse"))),
        role="flow",
        timeout_ns=flow.duration_ns + GRACE_NS,
        needs=_needs(flow),
    )


def _needs(flow: Flow) -> tuple[str, ...]:
    return ("sctp",) if flow.protocol == "sctp" else ()


def _pacing_us(options: Mapping[str, Any]) -> int:
    """How often iperf3 sends what is due, us: its own millisecond makes bursts of a hundred packets at 1 Gbit/s,
    which no short queue holds."""
    packets_us: float = BURST_PACKETS * options["length_bytes"] * 8e6 / options["rate_bit_per_s"]
    return round(min(1_000, max(50, packets_us)))


def _mptcp_flag(flow: Flow, capabilities: Capabilities) -> tuple[str, ...]:
    return ("--mptcp",) if flow.protocol == "mptcp" and capabilities.iperf3_speaks_mptcp else ()


def _preload(flow: Flow, capabilities: Capabilities, receives: bool) -> dict[str, str]:
    wrapped = {} if capabilities.iperf3_speaks_mptcp else mptcp_environment(flow, capabilities)
    libraries = list(wrapped.values())
    if receives and capabilities.bulk_library:
        libraries.append(capabilities.bulk_library)
    return {"LD_PRELOAD": ":".join(libraries)} if libraries else {}


def parse(flow: Flow, outputs: Outputs) -> Result:
    """goodput: what the receiver's program got in the flow's time; retransmits of all subflows.

    iperf3's own mean divides by the time until its control connection has said goodbye, which a
    single lost packet there makes 0.2 s longer; here only whole intervals of the test count.
    """
    output = outputs.log(flow.name)
    try:
        report: dict[str, Any] = json.loads(output)
    except ValueError:
        return Result(error="its output is not whole: " + (output.strip()[-200:] or "it printed nothing"))
    if "error" in report:
        return Result(error=str(report["error"]))
    try:
        test = report["start"]["test_start"]
        receiver = report if test["reverse"] else report["server_output_json"]
        intervals = [i["sum"] for i in receiver["intervals"] if i["sum"]["end"] < test["duration"] + MINIMUM_INTERVAL_S]
        seconds = sum(i["end"] - i["start"] for i in intervals)
        tables = {"goodput": _goodput_table(intervals)}
        if test["protocol"] == "UDP":
            return Result(_udp_values(report, sum(i["bytes"] for i in intervals) * 8 / seconds), tables=tables)
        sent, received = report["end"]["sum_sent"], report["end"]["sum_received"]
        values = {
            "goodput": sum(i["bytes"] for i in intervals) * 8 / seconds,
            "bytes": received["bytes"],
        }
        if "retransmits" in sent:
            values["retransmits"] = sent["retransmits"]
        is_asked = test["protocol"] == "TCP"
        ports = tuple(int(c["local_port"]) for c in report["start"]["connected"]) if is_asked else ()
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as fault:
        return Result(error=f"its report is not as expected: {type(fault).__name__} {fault}")
    return Result(values, ports, tables=tables)


def _goodput_table(intervals: Sequence[Mapping[str, Any]]) -> Table:
    """A row for each interval; times from the start of the test at its receiver."""
    return {
        "start_s": [float(i["start"]) for i in intervals],
        "end_s": [float(i["end"]) for i in intervals],
        "goodput_bit_per_s": [float(i["bits_per_second"]) for i in intervals],
    }


def _udp_values(report: Mapping[str, Any], goodput: float) -> dict[str, float]:
    """loss: share of the packets that were sent and did not come; there is no connection to look at."""
    total = report["end"]["sum"]
    received = total["packets"] - total["lost_packets"]
    return {
        "goodput": goodput,
        "bytes": received * report["start"]["test_start"]["blksize"],
        "loss": total["lost_packets"] / total["packets"],
    }
