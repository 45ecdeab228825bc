# SPDX-License-Identifier: Apache-2.0
"""SCTP and netperfmeter: chosen paths, argument vectors, and outputs of real runs, whole and broken."""

from __future__ import annotations

import bz2
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from mprun.compile import allocate, compile_plan
from mprun.errors import MachineError, RunError
from mprun.inputs.loading import load
from mprun.metrics.connection import ports_towards
from mprun.metrics.observation import Host, PathManagerEvent, SocketState
from mprun.model.spec import Flow, Protocol
from mprun.workloads import netperfmeter, sctp
from mprun.workloads.built import PROGRAMS
from mprun.workloads.built.program_store import build
from mprun.workloads.built.source import CRecipe
from mprun.workloads.tool import Portion
from tests.core.test_tools import Left, output

SECOND_NS = 10**9


def flow(tool: str, protocol: Protocol, **options: object) -> Flow:
    return Flow("bulk", tool, "client", "server", protocol, 0, 2 * SECOND_NS, options)


def left(prefix: str = "cmtsctp", **changed: str) -> Left:
    logs = {"bulk": output(f"{prefix}-sender.json"), "bulk.server": output(f"{prefix}-receiver.json")}
    return Left(logs | changed)


def at_4_s(outputs: Left) -> Left:
    """Return the outputs with a flow that began at time zero, when its hosts' clock showed 4 s."""
    return replace(outputs, zero_ns=4 * SECOND_NS, began_ns=4 * SECOND_NS)


@pytest.mark.parametrize(("asked", "warned"), [(262_144, 0), (262_145, 1)])
def test_a_send_buffer_that_the_library_cannot_have_is_told(asked: int, warned: int) -> None:
    assert len(sctp.parse(flow("sctp", "sctp", send_buffer_bytes=asked), left()).notes) == warned


def test_sctp_report() -> None:
    """Two paths, of which the first lost a fifth of its packets."""
    result = sctp.parse(flow("sctp", "sctp", cmt="on"), left())
    receiver = json.loads(output("cmtsctp-receiver.json"))
    assert result.error is None
    assert result.values["goodput"] == pytest.approx(receiver["bytes"] * 8 / 2)
    assert result.values["retransmits"] == 26
    assert [(use.source, use.destination, use.reverse_bytes) for use in result.paths] == [
        ("10.0.0.1", "10.0.0.2", 0),
        ("10.0.1.1", "10.0.1.2", 0),
    ]
    assert result.paths[0].forward_bytes < result.paths[1].forward_bytes == 1_583_928
    # whole messages: the library reports the same number for both paths together
    assert [(use.resent, use.resent_bytes) for use in result.paths] == [(1, 1444), (25, 25 * 1444)]
    assert len(result.tables["goodput"]["end_s"]) == 4
    assert {metric.split(".")[0] for metric in result.values} <= sctp.METRICS.keys()


def test_sctp_times_count_from_time_zero() -> None:
    """The receiver's association was up 60 ms after time zero, and the sender's association 20 ms later."""
    result = sctp.parse(flow("sctp", "sctp", cmt="on"), at_4_s(left()))
    rows = result.tables["goodput"]
    assert rows["start_s"] == pytest.approx([0.06, 0.56, 1.06, 1.56], abs=1e-3)
    assert rows["end_s"] == pytest.approx([0.56, 1.06, 1.56, 2.06], abs=1e-3)
    assert rows["direction"] == ["forth"] * 4
    later = [0.58, 0.58, 1.08, 1.08, 1.58, 1.58, 2.08, 2.08]
    assert result.tables["sctp_paths"]["time_s"] == pytest.approx(later, abs=1e-3)
    portions = result.portions["goodput"]
    assert [one.begin_ns / 1e9 for one in portions] == pytest.approx(rows["start_s"])
    assert sum(one.size_bytes for one in portions) == result.values["bytes"]


def test_what_is_omitted_does_not_count() -> None:
    rows = json.loads(output("cmtsctp-receiver.json"))["intervals"]
    result = sctp.parse(flow("sctp", "sctp", omit={"start_ns": SECOND_NS, "end_ns": SECOND_NS // 2}), left())
    assert result.values["goodput"] == pytest.approx(rows[2]["bits_per_second"])


def test_backwards_the_server_sends() -> None:
    swapped = left(**{"bulk": output("cmtsctp-receiver.json"), "bulk.server": output("cmtsctp-sender.json")})
    result = sctp.parse(flow("sctp", "sctp", reverse=True), swapped)
    assert (result.paths[1].source, result.paths[1].reverse_bytes) == ("10.0.1.2", 1_583_928)


def test_the_receiver_says_when_data_stood_still_and_the_sender_when_paths_were_ready() -> None:
    """The receiver's association was up at 4.060 s of the hosts' clock, the client's 20 ms later.

    The flow began at 4 s.
    """

    result = sctp.parse(flow("sctp", "sctp", cmt="on"), at_4_s(left()))
    # RFC 9260, section 5.4: addresses that the client got as arguments are confirmed
    assert [use.joined_s for use in result.paths] == [pytest.approx(0.08, abs=1e-4)] * 2
    assert result.movement is not None
    assert result.movement.began_ns == pytest.approx(60_000_000, abs=100_000)
    assert result.movement.ended_ns - result.movement.began_ns == 2 * SECOND_NS
    assert result.movement.standstills_ns[0] == pytest.approx((60_000_000, 100_000_000), abs=100_000)
    later = output("cmtsctp-sender.json").replace('"state"', '"confirmed_ns": 4120000000, "state"')
    backwards = at_4_s(left(**{"bulk": output("cmtsctp-receiver.json"), "bulk.server": later}))
    assert [use.joined_s for use in sctp.parse(flow("sctp", "sctp", reverse=True), backwards).paths] == [0.12, 0.12]


def test_a_path_that_never_answered_is_a_failure_of_cmt() -> None:
    silent = output("cmtsctp-sender.json").replace('"active"', '"unconfirmed"')
    with_cmt, without = (sctp.parse(flow("sctp", "sctp", cmt=cmt), left(bulk=silent)) for cmt in ("on", "off"))
    assert "no heartbeat was ever answered" in str(with_cmt.paths[0].failure)
    assert without.paths[0].failure is None


@pytest.mark.parametrize("text", ["", output("cmtsctp-sender.json")[:700], "[]"], ids=["nothing", "cut off", "other"])
def test_a_broken_sctp_report_is_an_error(text: str) -> None:
    assert sctp.parse(flow("sctp", "sctp"), left(bulk=text)).error


@pytest.mark.parametrize(
    ("pairs", "is_reverse", "chosen"),
    [
        ("c0-s0 c1-s1", False, "c0-s0 c1-s1"),
        ("c0-s0 c1-s0", False, "c0-s0"),
        ("c0-s0 c1-s0", True, "c0-s0 c1-s0"),
        ("c0-s0 c0-s1 c1-s0 c1-s1", False, "c0-s0 c1-s1"),
        ("c0-s0 c0-s1 c1-s0 c1-s1", True, "c0-s0 c1-s1"),
        ("c0-s0 c0-s1", False, "c0-s0 c0-s1"),
    ],
)
def test_each_address_of_the_receiver_is_a_path(pairs: str, is_reverse: bool, chosen: str) -> None:
    def read(text: str) -> list[tuple[str, str]]:
        return [(pair[:2], pair[3:]) for pair in text.split()]

    assert sctp.choose_pairs(read(pairs), is_reverse) == read(chosen)


def netperfmeter_files() -> dict[str, bytes]:
    prefix = "netperfmeter-1.9.4-udp-"
    files = {f"flow-{side}.sca": output(f"{prefix}{side}.sca").encode() for side in ("active", "passive")}
    for name in ("passive", "passive-00000001-0000"):
        files[f"flow-{name}.vec.bz2"] = bz2.compress(output(f"{prefix}{name}.vec").encode())
    return files


def scalar_files(scalars: Mapping[str, Mapping[str, float]]) -> dict[str, bytes]:
    return {
        f"flow-{side}.sca": "".join(
            f'scalar "netPerfMeter.{side}.flow[0]" "{name}"\t{value}\n' for name, value in values.items()
        ).encode()
        for side, values in scalars.items()
    }


def test_netperfmeter_files() -> None:
    """Two flows send 35 messages each, and 58 messages arrive. The vector of one flow begins two messages late."""
    asked = flow("netperfmeter", "udp", parallel=2, messages=True, rate_bit_per_s=200_000, message_bytes=1452)
    result = netperfmeter.parse(asked, Left(files=netperfmeter_files()))
    assert result.error is None
    assert result.values["bytes"] == 58 * 1452
    assert result.values["loss"] == pytest.approx(12 / 70)
    assert result.warnings == ()
    assert len(result.tables["messages"]["sequence"]) == 28
    assert sum(result.tables["messages"]["bytes"]) == 28 * 1452
    rows = result.tables["goodput"]
    carried = sum(
        rate * (end - start)
        for rate, start, end in zip(rows["goodput_bit_per_s"], rows["start_s"], rows["end_s"], strict=True)
    )
    assert carried / 8 == pytest.approx(58 * 1452)
    assert rows["direction"] == ["forth"] * len(rows["stream"])
    assert result.values.keys() <= netperfmeter.METRICS.keys()


def test_netperfmeters_times_count_from_time_zero() -> None:
    """The vectors begin at 10.7515 s by the wall clock, and messages arrived from 10.600004 s to 12.608043 s."""
    asked = flow("netperfmeter", "udp", parallel=2, messages=True, rate_bit_per_s=200_000, message_bytes=1452)
    files = netperfmeter_files()
    result = netperfmeter.parse(asked, Left(files=files, epoch_ns=1_700_000_010 * SECOND_NS))
    rows = result.tables["goodput"]
    first = [end for stream, end in zip(rows["stream"], rows["end_s"], strict=True) if stream == 0]
    assert first[:2] == pytest.approx([0.751501, 1.751506])
    assert (min(rows["start_s"]), max(rows["end_s"])) == pytest.approx((0.600004, 2.608043))
    assert result.tables["messages"]["time_s"][0] == pytest.approx(0.777772)
    portions = result.portions["goodput"]
    assert min(one.begin_ns for one in portions) == 600_004_000
    assert max(one.end_ns for one in portions) == 2_608_043_000
    assert sum(one.size_bytes for one in portions) == result.values["bytes"]
    # the first line of a stream is at 0.751501 s: 4356 of its bytes arrived before
    assert portions[0] == Portion(600_004_000, 751_501_000, 4356)


def test_netperfmeters_messages_tell_when_data_stood_still() -> None:
    """The kernel's SCTP sends a message every 100 ms from 5 s of the wall clock on. Each takes 20 ms.

    One message was sent again and delayed all messages behind it, and one message never arrived.
    """
    rows = [(0, 20), (100, 20), (700, 500), (700, 400), (705, 305), (820, 20)]
    lines = ["AbsTime RelTime SeqNumber\tAbsBytes AbsPackets AbsFrames\tRelBytes RelPackets RelFrames\tDelay ..."]
    lines += [
        f"{n:06d} {5_000_000 + (at + 20) * 1000} {at / 1000:.6f} {n - 1}\t1452 {n} 0\t1452 1 0\t{delay:.3f} 0.1 1.2"
        for n, (at, delay) in enumerate(rows, start=1)
    ]
    scalars: dict[str, dict[str, float]] = {
        "passive": {"Received Packets": 6, "Received Bytes": 8712, "First Reception": 5.02e6, "Last Reception": 5.84e6},
        "active": {"Transmitted Packets": 6, "Transmitted Bytes": 8712},
    }

    def files(sent: int) -> dict[str, bytes]:
        scalars["active"]["Transmitted Packets"] = sent
        return {
            "flow-passive-00000000-0000.vec.bz2": bz2.compress(("\n".join(lines) + "\n").encode()),
            **scalar_files(scalars),
        }

    asked = replace(flow("netperfmeter", "sctp"), duration_ns=2 * SECOND_NS)
    movement, cut = (
        netperfmeter.parse(asked, Left(files=files(sent), epoch_ns=5 * SECOND_NS)).movement for sent in (6, 7)
    )
    assert movement is not None
    spans = [(since // 1_000_000, until // 1_000_000) for since, until in movement.standstills_ns]
    assert (movement.began_ns, movement.ended_ns) == (0, 840_000_000)
    assert spans == [(100, 120), (220, 720), (820, 840)]
    assert cut is not None
    assert (cut.ended_ns, cut.standstills_ns[-1]) == (2 * SECOND_NS, (840_000_000, 2 * SECOND_NS))


@pytest.mark.parametrize(
    ("arrived", "loss"), [(range(100), 0), ((*range(50), *range(51, 100)), 0.01), (range(40), 0.6)]
)
def test_messages_after_the_time_of_a_receiving_client_are_not_lost(arrived: Sequence[int], loss: float) -> None:
    """The server sends a message every 10 ms for 2 s. The client reads for 1 s, and begins when 16 messages wait."""
    lines = ["AbsTime RelTime SeqNumber\t..."]
    for count, number in enumerate(arrived, start=1):
        at_ms = max(10 * number + 20, 180)
        counts = f"{1000 * count} {count} 0\t1000 1 0\t{at_ms - 10 * number:.3f} 0.1 1.2"
        lines.append(f"{count:06d} {5_000_000 + at_ms * 1000} 0.1 {number}\t{counts}")
    last_us = 5e6 + 1e4 * arrived[-1] + 2e4
    counted = {"Received Packets": len(arrived), "Received Bytes": 1000 * len(arrived)}
    scalars = {
        "active": {**counted, "First Reception": 5.18e6, "Last Reception": last_us},
        "passive": {"Transmitted Packets": 201, "Transmitted Bytes": 201_000}
        | {"First Transmission": 5e6, "Last Transmission": 7e6},
    }
    files = scalar_files(scalars)
    files["flow-active-00000000-0000.vec.bz2"] = bz2.compress(("\n".join(lines) + "\n").encode())
    rates = {"rate_bit_per_s": 800_000, "message_bytes": 1000}
    asked = replace(flow("netperfmeter", "udp", reverse=True, **rates), duration_ns=SECOND_NS)
    result = netperfmeter.parse(asked, Left(files=files, epoch_ns=5 * SECOND_NS))
    assert result.values["loss"] == pytest.approx(loss, abs=0.005)
    # the longer of 1 s and the time of the arrivals, with one gap for the last message
    arriving_s = 0.01 * arrived[-1] * len(arrived) / (len(arrived) - 1)
    assert result.values["goodput"] == pytest.approx(8e3 * len(arrived) / max(1, arriving_s))
    assert result.portions["goodput"][0].begin_ns == 20_000_000
    assert result.warnings == ()


@pytest.mark.parametrize(
    ("protocol", "spread_us", "goodput"),
    [
        # 24 messages of 8000 bytes within 76 ms; the rest of the 3 s brought none
        ("udp", 75_600, 24 * 64_000 / 3),
        ("sctp", 75_600, 24 * 64_000 / 0.0756),
        # a queue delivers for longer than the flow sends
        ("udp", 4_600_000, 24 * 64_000 / 4.8),
    ],
)
def test_over_udp_the_goodput_counts_the_whole_time(protocol: Protocol, spread_us: int, goodput: float) -> None:
    counted = {"Received Packets": 24.0, "Received Bytes": 192_000.0}
    scalars = {
        "passive": {**counted, "First Reception": 5e6, "Last Reception": 5e6 + spread_us},
        "active": {"Transmitted Packets": 1500.0, "Transmitted Bytes": 12_000_000.0},
    }
    asked = replace(flow("netperfmeter", protocol, message_bytes=8000), duration_ns=3 * SECOND_NS)
    result = netperfmeter.parse(asked, Left(files=scalar_files(scalars), epoch_ns=5 * SECOND_NS))
    assert result.values["goodput"] == pytest.approx(goodput)
    assert sum(one.size_bytes for one in result.portions["goodput"]) == 192_000
    until_ns = max(spread_us * 1000, 3 * SECOND_NS) if protocol == "udp" else spread_us * 1000
    assert max(one.end_ns for one in result.portions["goodput"]) == until_ns


@pytest.mark.parametrize(("streams", "rate"), [(1, {}), (2, {"rate_bit_per_s": 1_000_000})])
def test_one_message_has_no_goodput_but_a_warning(streams: int, rate: dict[str, int]) -> None:
    """The messages of two connections, a millisecond apart, are no 23 Mbit/s."""
    files: dict[str, bytes] = {}
    for stream in range(streams):
        at_us = 5e6 + 1000 * stream
        counted = {"Received Packets": 1.0, "Received Bytes": 1452.0, "First Reception": at_us, "Last Reception": at_us}
        scalars = {"passive": counted, "active": {"Transmitted Packets": 1.0, "Transmitted Bytes": 1452.0}}
        for name, content in scalar_files(scalars).items():
            files[name] = files.get(name, b"") + content.replace(b"flow[0]", f"flow[{stream}]".encode())
    asked = flow("netperfmeter", "sctp", message_bytes=1452, parallel=streams, **rate)
    result = netperfmeter.parse(asked, Left(files=files, epoch_ns=5 * SECOND_NS))
    assert result.values == {"bytes": 1452 * streams}
    told = "no connection got two messages, which a goodput needs: write a longer duration"
    assert result.warnings[-1] == told + ", or a higher rate" * len(rate)


@pytest.mark.parametrize(("protocol", "larger"), [("udp", False), ("sctp", True)])
def test_larger_messages_are_no_remedy_where_they_are_sent_in_fragments(protocol: Protocol, larger: bool) -> None:
    asked = flow("netperfmeter", protocol, parallel=2, rate_bit_per_s=10_000_000, message_bytes=1452)
    (warning,) = netperfmeter.parse(asked, Left(files=netperfmeter_files())).warnings
    assert ("write a larger message" in warning) == larger
    assert warning.endswith("several flows in parallel")


def test_netperfmeter_that_offers_less_says_so() -> None:
    asked = flow("netperfmeter", "udp", parallel=2, rate_bit_per_s=10_000_000, message_bytes=1452)
    (warning,) = netperfmeter.parse(asked, Left(files=netperfmeter_files())).warnings
    assert warning.startswith("it offered 0.407 of 20 Mbit/s")


@pytest.mark.parametrize("kept", [(), ("flow-active.sca",)], ids=["nothing", "one side"])
def test_netperfmeter_without_files_is_an_error(kept: tuple[str, ...]) -> None:
    files = {name: data for name, data in netperfmeter_files().items() if name in kept}
    assert netperfmeter.parse(flow("netperfmeter", "udp"), Left(files=files)).error == "it left no scalars"


@pytest.mark.parametrize(("side", "limit"), [("send", "wmem_max"), ("receive", "rmem_max")])
def test_netperfmeter_with_a_buffer_above_the_limit_names_the_sysctl(side: str, limit: str) -> None:
    said = f"ERROR: actual {side} buffer size < configured {side} buffer size: 425984 < 104857600\nNOTE: no DCCP!\n"
    asked = flow("netperfmeter", "tcp", **{f"{side}_buffer_bytes": 104857600})
    error = netperfmeter.parse(asked, Left(logs={"bulk.err": said, "flow.err": said})).error
    assert error is not None
    assert error.endswith(
        f"104857600: the kernel's limit is lower: give a host 'sysctl: {{net.core.{limit}: 104857600}}'"
    )


def test_ports_of_the_client_by_those_of_the_server() -> None:
    def event(kind: str, local: int, remote: int) -> PathManagerEvent:
        return PathManagerEvent(0, kind, None, "c", local, "s", remote)

    def state(local: int, remote: int) -> SocketState:
        return SocketState(("c", local, "s", remote), ())

    events = [event("created", 31, 5204), event("subflow established", 32, 5204), event("created", 33, 5205)]
    sockets = {one.addresses: one for one in (state(32, 5204), state(34, 5204))}
    assert ports_towards(Host(events, sockets), [5204]) == (31, 34)


LAB = Path(__file__).parents[2] / "labs" / "13_sctp_vs_mptcp"


@pytest.mark.parametrize("technology", ["ethernet", "wifi-802.11g", "4g-lte", "3g-hspa+"])
@pytest.mark.parametrize("topology", ["topo_scripts", "topo_table"])
def test_lab_compiles_with_each_technology(topology: str, technology: str) -> None:
    for name in ("cmt", "mptcp", "tcp"):
        loaded = load(LAB / topology, LAB / name, {"technology": technology}, strict=True)
        (bulk,) = loaded.spec.experiment.traffic
        assert bulk.duration_ns == 20 * SECOND_NS
        (plan,) = compile_plan(loaded.spec, allocate(loaded.spec)).flows
        assert plan.argv.count("--path") == (4 if name == "cmt" else 0)


def test_a_missing_library_is_named(tmp_path: Path) -> None:
    recipe = CRecipe("greeting", "greeting", "", headers=(("no_such_header.h", "libnone-dev"),))
    with pytest.raises(MachineError, match=r"no_such_header\.h: apt-get install libnone-dev"):
        build(recipe, tmp_path / "made", tmp_path, 1, print)


def test_what_the_compiler_says_is_shown(tmp_path: Path) -> None:
    recipe = PROGRAMS["cmtsctp"]
    assert isinstance(recipe, CRecipe)
    broken = CRecipe("cmtsctp", "cmtsctp", "", flags=("-l:no_such_library.a",))
    with pytest.raises(RunError, match=r"no_such_library|usrsctp\.h"):
        build(broken, tmp_path / "made", tmp_path, 1, print)
    assert not (tmp_path / "made").exists()
