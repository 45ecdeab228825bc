# SPDX-License-Identifier: Apache-2.0
"""iperf3(1): bulk transfer over TCP or MPTCP, or UDP at a given rate.

Under MPTCP iperf3 has two connections, one for control and one for data; `data_ports` tells which
is which. Versions before 3.19 cannot open MPTCP sockets themselves: the wrap library of mptcpize
does it for them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mprun.capabilities import Capabilities
from mprun.plan import Process, Ready
from mprun.spec.spec import Flow
from mprun.tools.tool import Endpoints, Result

PROGRAMS = {"iperf3": "iperf3"}

# Beyond its duration a client gets this long to connect, drain queues and exchange results.
GRACE_NS = 30_000_000_000
# So many UDP packets are sent at once, where timers allow it.
BURST_PACKETS = 4
# The receiver's clock starts half a round trip late; a last interval shorter than this is the end's.
MINIMUM_INTERVAL_S = 0.1


def servers(flow: Flow, ends: Endpoints, capabilities: Capabilities) -> tuple[Process, ...]:
    """A server for one test on the flow's own port."""
    argv = ("iperf3", "--server", "--one-off", "--json", "--port", str(ends.port), *_mptcp_flag(flow, capabilities))
    return (
        Process(
            name=f"{flow.name}.server",
            node=flow.destination,
            argv=argv,
            env=_preload(flow, capabilities, receives=not flow.options.get("reverse")),
            role="server",
            ready=Ready("port", str(ends.port)),
        ),
    )


def client(flow: Flow, ends: Endpoints, capabilities: Capabilities) -> Process:
    """The client; its JSON, with the server's in it, is on standard output."""
    assert flow.duration_ns is not None
    options = flow.options
    argv = ["iperf3", "--client", ends.destination_address, "--port", str(ends.port)]
    argv += ["--time", f"{flow.duration_ns / 1e9:g}", "--json", "--get-server-output"]
    if options.get("reverse"):
        argv.append("--reverse")
    if flow.protocol == "udp":
        argv += ["--udp", "--length", str(options["length_bytes"]), "--pacing-timer", str(_pacing_us(options))]
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
        at_ns=flow.start_ns,
        timeout_ns=flow.duration_ns + GRACE_NS,
    )


def _pacing_us(options: Mapping[str, Any]) -> int:
    """How often iperf3 sends what is due, us: its own millisecond makes bursts of a hundred packets at 1 Gbit/s,
    which no short queue holds."""
    packets_us: float = BURST_PACKETS * options["length_bytes"] * 8e6 / options["rate_bit_per_s"]
    return round(min(1_000, max(50, packets_us)))


def _mptcp_flag(flow: Flow, capabilities: Capabilities) -> tuple[str, ...]:
    return ("--mptcp",) if flow.protocol == "mptcp" and capabilities.iperf3_speaks_mptcp else ()


def _preload(flow: Flow, capabilities: Capabilities, receives: bool) -> dict[str, str]:
    libraries = []
    if flow.protocol == "mptcp" and not capabilities.iperf3_speaks_mptcp:
        libraries.append(capabilities.mptcp_library)
    if receives and capabilities.bulk_library:
        libraries.append(capabilities.bulk_library)
    return {"LD_PRELOAD": ":".join(libraries)} if libraries else {}


def parse(output: str) -> Result:
    """goodput: what the receiver's program got in the flow's time; retransmits of all subflows.

    iperf3's own mean divides by the time until its control connection has said goodbye, which a
    single lost packet there makes 0.2 s longer; here only whole intervals of the test count.
    """
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
        if test["protocol"] == "UDP":
            return _udp_result(report, sum(i["bytes"] for i in intervals) * 8 / seconds)
        sent, received = report["end"]["sum_sent"], report["end"]["sum_received"]
        values = {
            "goodput": (sum(i["bytes"] for i in intervals) * 8 / seconds, "bit/s"),
            "bytes": (float(received["bytes"]), "byte"),
        }
        if "retransmits" in sent:
            values["retransmits"] = (float(sent["retransmits"]), "1")
        ports = tuple(int(c["local_port"]) for c in report["start"]["connected"])
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as fault:
        return Result(error=f"its report is not as expected: {type(fault).__name__} {fault}")
    return Result(values, ports)


def _udp_result(report: dict[str, Any], goodput: float) -> Result:
    """loss: share of the packets that were sent and did not come; there is no connection to look at."""
    total = report["end"]["sum"]
    received = total["packets"] - total["lost_packets"]
    values = {
        "goodput": (goodput, "bit/s"),
        "bytes": (float(received * report["start"]["test_start"]["blksize"]), "byte"),
        "loss": (total["lost_packets"] / total["packets"], "share"),
    }
    return Result(values)
