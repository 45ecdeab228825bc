# SPDX-License-Identifier: Apache-2.0
"""qlog: its forms, what the reader finds in it, the tables of a run, and a QUIC stack of the user."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from mprun.metrics.qlog_tables import read_qlogs
from mprun.model.intent import AddressedFlow, FlowEnds, FlowPath
from mprun.model.spec import Flow
from mprun.workloads import qlog, quic
from mprun.workloads.qlog_export import render
from mprun.workloads.tool import Outputs, SocketSample
from tests.qlog_schema import find_faults

MS = 1_000_000
STACK = {"client": ["client"], "server": ["server"]}


def event(at_ms: float, name: str, **keys: Any) -> dict[str, Any]:
    return {"time": at_ms, "name": name, **keys}


def packet(
    at_ms: float, what: str, number: int, *frames: dict[str, Any], path: int | None = None, kind: str = "1RTT"
) -> dict[str, Any]:
    """Return an event of a packet of 1000 bytes. path: its number, which is also the end of the name of its tuple."""
    header: dict[str, Any] = {"packet_type": kind, "packet_number": number}
    ends = {} if path is None else {"tuple": f"p{path}"}
    if path is not None:
        header["path_id"] = path
    data = {"header": header, "raw": {"length": 1000}, "frames": list(frames)}
    return event(at_ms, f"quic:packet_{what}", data=data, **ends)


def stream(offset: int, length: int, stream_id: int = 0) -> dict[str, Any]:
    return {"frame_type": "stream", "stream_id": stream_id, "offset": offset, "raw": {"length": length}}


def assigned(number: int, local: str | None, remote: str) -> dict[str, Any]:
    sides = {"tuple_remote": {"ip_v4": remote}, **({"tuple_local": {"ip_v4": local}} if local else {})}
    return event(0, "quic:tuple_assigned", data={"tuple_id": f"p{number}", **sides})


def sequence(*events: Mapping[str, Any]) -> bytes:
    head = {"file_schema": "urn:ietf:params:qlog:file:sequential", "trace": {}}
    return b"".join(b"\x1e" + json.dumps(one).encode() + b"\n" for one in (head, *events))


def whole(*events: Mapping[str, Any]) -> bytes:
    return json.dumps({"qlog_version": "0.3", "traces": [{"events": []}, {"events": events}]}).encode()


@pytest.mark.parametrize("form", [sequence, whole])
def test_both_forms_are_read(form: Any) -> None:
    trace = qlog.read(form(packet(1.5, "sent", 0, stream(0, 8), path=1), event(2, "recovery:metrics_updated", data={})))
    assert [(one.at_ms, one.name, one.path) for one in trace.events] == [
        (1.5, "packet_sent", 1),
        (2, "metrics_updated", None),
    ]
    assert trace.has_paths
    assert not trace.is_unix
    assert trace.events[0].size_bytes == 1000


@pytest.mark.parametrize("time_format", ["delta", "relative_to_previous_event"])
def test_times_from_the_event_before_are_added_up(time_format: str) -> None:
    events = [packet(at_ms, "sent", number) for number, at_ms in enumerate((5, 0, 2.5))]
    trace = {"common_fields": {"time_format": time_format}}
    head, *others = ({"trace": trace}, *events)
    text = b"".join(b"\x1e" + json.dumps(one).encode() for one in (head, *others))
    one_object = json.dumps({"traces": [{**trace, "events": events}]}).encode()
    for content in (text, one_object):
        assert [one.at_ms for one in qlog.read(content).events] == [5, 5, 7.5]


def test_the_last_record_of_a_stopped_end_may_be_cut_and_no_other() -> None:
    content = sequence(packet(0, "sent", 0), packet(1, "sent", 1))
    assert len(qlog.read(content[:-20]).events) == 1
    with pytest.raises(qlog.QlogError, match="record 2 is not JSON"):
        qlog.read(content.replace(b'{"time": 0', b'{"time" 0', 1))


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"", "is neither a JSON text sequence nor an object"),
        (b"[]", "is neither"),
        (b'{"traces": [3]}', "is neither"),
        (b"\x1e{}", "has no events"),
        (b'\x1e{"name": "quic:packet_sent"}', "has no time"),
        (b'\x1e{"name": "quic:packet_sent", "time": 0, "data": []}', "or no data"),
    ],
)
def test_what_is_no_qlog_is_refused(content: bytes, fault: str) -> None:
    with pytest.raises(qlog.QlogError, match=fault):
        qlog.read(content)


def test_a_request_ends_when_its_last_missing_byte_arrives() -> None:
    trace = qlog.read(
        sequence(
            packet(10, "sent", 0, stream(0, 8)),
            packet(11, "sent", 1, stream(0, 8, stream_id=4), stream(0, 5, stream_id=2)),
            packet(20, "received", 0, stream(0, 100)),
            packet(21, "received", 1, stream(200, 100)),
            packet(25, "received", 2, stream(0, 50, stream_id=4)),
            packet(30, "received", 3, stream(100, 100)),
            # the peer has sent this again for nothing
            packet(40, "received", 4, stream(200, 100)),
        )
    )
    assert qlog.find_exchanges(trace) == [qlog.Exchange(0, 10, 30), qlog.Exchange(4, 11, 25)]


def test_viewers_get_one_trace_with_all_paths_and_one_for_each() -> None:
    trace = qlog.read(
        sequence(
            assigned(0, None, "10.1.0.1"),
            packet(1, "sent", 0, stream(0, 8), path=0),
            packet(2, "sent", 0, stream(8, 8), path=1),
            event(3, "quic:recovery_metrics_updated", data={"path_id": 1, "smoothed_rtt": 40.0}),
        )
    )
    found = json.loads(render(trace, "client", "run: get"))
    assert found["qlog_version"] == "0.3"
    assert {one["title"]: len(one["events"]) for one in found["traces"]} == {
        "client, all paths": 3,
        "client, path 0": 1,
        "client, path 1": 2,
    }
    sent = found["traces"][0]["events"][0]
    assert sent["name"] == "transport:packet_sent"
    assert sent["data"]["raw"] == {"length": 1000}
    assert sent["data"]["frames"][0]["length"] == 8
    assert found["traces"][0]["events"][2]["name"] == "recovery:metrics_updated"


def test_an_export_has_only_what_the_schema_of_qlog_has() -> None:
    """Each value here was written by a library, and is none of qlog 0.3."""
    header = {"packet_type": "1RTT", "packet_number": 7, "path_id": 1, "version": "1", "scid": "0a"}
    frames = [
        {"frame_type": "padding", "raw": {"length": 9}},
        {"frame_type": "crypto", "offset": 0, "raw": {"length": 9}},
        {"frame_type": "new_connection_id", "sequence_number": 1, "retire_prior_to": 0, "connection_id": "0a"},
        {"frame_type": "connection_close", "error_space": "application_error", "error_code": 0},
        {"frame_type": "path_ack", "path_id": 0, "acked_ranges": [[0, 2]]},
    ]
    trace = qlog.read(
        sequence(
            event(0, "quic:connection_started", data={"local": {}, "remote": {"ip_v4": "10.1.0.1"}}),
            event(0, "quic:connection_started", data={"local": {"ip_v4": "10.0.0.1"}, "remote": {"ip_v4": "10.1.0.1"}}),
            event(1, "quic:parameters_set", data={"initiator": "local", "stateless_reset_token": "Some(221)"}),
            event(2, "quic:packet_sent", data={"header": header, "raw": {"length": 1000}, "frames": frames}),
            event(3, "quic:packet_received", data={"header": {"packet_type": "retry"}}),
            event(4, "quic:recovery_metrics_updated", data={"path_id": 0, "ssthresh": 2**64 - 1, "min_rtt": 1.5}),
            event(5, "quic:packet_lost", data={"header": header, "trigger": "none"}),
        )
    )
    found = json.loads(render(trace, "client", "run: get"))
    assert list(find_faults(found)) == []
    events = {one["name"]: one["data"] for one in found["traces"][0]["events"]}
    assert events["connectivity:connection_started"] == {"src_ip": "10.0.0.1", "dst_ip": "10.1.0.1"}
    assert events["transport:parameters_set"] == {"owner": "local"}
    assert events["recovery:metrics_updated"] == {"min_rtt": 1.5}
    assert events["transport:packet_sent"]["header"]["version"] == "00000001"
    assert "transport:packet_received" not in events
    assert [one.get("path_id") for one in found["traces"][0]["events"]] == [None, None, 1, 0, 1]


def test_a_fault_of_an_export_is_found() -> None:
    found = json.loads(render(qlog.read(CLIENT), "client", "run: get"))
    assert list(find_faults(found)) == []
    found["traces"][0]["events"][0]["data"]["header"]["path_id"] = 0
    assert next(find_faults(found)).startswith("$.traces[0].events[0].data.header: Additional properties")


PATHS = (FlowPath("path0", "10.0.0.1", "10.1.0.1", ("path0",)), FlowPath("path1", "10.0.1.1", "10.1.0.1", ("path1",)))


def placed(stack: object, *, multipath: bool = True) -> AddressedFlow:
    options = {"stack": stack, "multipath": multipath, "qlog": True, "requests": 1, "response_bytes": 300}
    return AddressedFlow(
        name="get",
        tool="quic",
        source="client",
        destination="server",
        protocol="quic",
        start_ns=0,
        duration_ns=None,
        options=options,
        endpoints=FlowEnds("10.0.0.1", "10.1.0.1", 5201),
        paths=PATHS,
    )


CLIENT = sequence(
    # noq's client does not know its own address on the first path
    assigned(0, None, "10.1.0.1"),
    packet(0, "sent", 0, {"frame_type": "crypto", "raw": {"length": 9}}, path=0, kind="initial"),
    packet(41, "received", 0, path=0, kind="initial"),
    packet(42, "sent", 0, {"frame_type": "crypto", "raw": {"length": 9}}, path=0, kind="handshake"),
    packet(42, "sent", 0, stream(0, 8), path=0),
    assigned(1, "10.0.1.1", "10.1.0.1"),
    packet(80, "sent", 0, {"frame_type": "path_challenge"}, {"frame_type": "padding"}, path=1),
    packet(100, "received", 0, stream(0, 100), path=0),
    packet(120, "received", 0, stream(100, 200), {"frame_type": "path_abandon", "path_id": 0}, path=1),
)
SERVER = sequence(
    assigned(0, "10.1.0.1", "10.0.0.1"),
    packet(0, "received", 0, path=0, kind="initial"),
    packet(1, "sent", 0, path=0, kind="initial"),
    event(1, "quic:recovery_metrics_updated", data={"path_id": 0, "smoothed_rtt": 333, "min_rtt": 333}),
    event(41, "quic:recovery_metrics_updated", data={"path_id": 0, "smoothed_rtt": 40, "min_rtt": 40}),
    event(42, "quic:recovery_metrics_updated", data={"path_id": 0, "congestion_window": 14720, "ssthresh": 2**64 - 1}),
    packet(50, "sent", 1, stream(0, 100), path=0),
    packet(51, "sent", 1, stream(100, 200), path=1),
    packet(52, "sent", 2, stream(100, 200), path=1),
    event(60, "quic:packet_lost", data={"header": {"packet_type": "1RTT", "packet_number": 2, "length": 1000}}),
    event(61, "quic:packet_lost", data={"header": {"packet_type": "1RTT", "packet_number": 1, "length": 1000}}),
)


class Left(Outputs):
    """The files of a flow whose client ran from 0.5 s after time zero on."""

    def __init__(self, **files: bytes) -> None:
        self._files = files

    zero_ns = 5_000 * MS
    epoch_ns = 1_700_000_005_000 * MS

    def log(self, process: str, stream: str = "out") -> str:
        if stream == "out" and process == "get":
            return json.dumps({"event": "begin", "monotonic_ns": 5_500 * MS})
        return "it says why\n" if stream == "err" else ""

    def span(self, process: str) -> tuple[int, int] | None:
        return 5_500 * MS, 6_000 * MS

    def file(self, name: str) -> bytes | None:
        return self._files.get(name.replace(".", "_"))

    def sockets(self, host: str, port: int) -> Iterator[tuple[int, Sequence[SocketSample]]]:
        return iter(())


def tables_of(flow: AddressedFlow, left: Left) -> dict[str, list[dict[str, Any]]]:
    found = read_qlogs(flow, left, None)  # type: ignore[arg-type]
    return {
        title: [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
        for title, _, table in found.tables
    }


def test_packets_have_the_name_of_their_path_and_one_clock() -> None:
    tables = tables_of(placed("noq"), Left(client_sqlog=CLIENT, server_sqlog=SERVER))
    packets = tables["qlog_packets"]
    first = [one["time_ns"] // MS for one in packets if one["type"] == "initial" and one["event"] == "sent"]
    # 41 ms for both ways and 1 ms at the server: the first packet arrived 20 ms after it was sent
    assert first == [500, 521]
    paths = [(one["end"], one["event"], one["path"]) for one in packets if one["payload_bytes"]]
    assert paths == [
        ("client", "sent", "path0"),
        ("client", "received", "path0"),
        ("client", "received", "path1"),
        ("server", "sent", "path0"),
        ("server", "sent", "path1"),
        ("server", "sent", "path1"),
    ]
    assert packets[0]["frames"] == "crypto"


def test_the_clocks_of_both_ends_are_one_if_the_first_packet_was_lost() -> None:
    """The second packet leaves after 1 s and arrives after 20 ms, when the server's trace begins."""
    client = sequence(
        packet(0, "sent", 0, kind="initial"),
        packet(1000, "sent", 1, kind="initial"),
        packet(1041, "received", 0, kind="initial"),
    )
    server = sequence(packet(0, "received", 1, kind="initial"), packet(1, "sent", 0, kind="initial"))
    packets = tables_of(placed("tquic", multipath=False), Left(client_sqlog=client, server_sqlog=server))
    times = [one["time_ns"] // MS for one in packets["qlog_packets"] if one["end"] == "server"]
    assert times == [1520, 1521]


def test_a_loss_has_a_path_if_one_path_alone_sent_a_packet_of_this_number() -> None:
    packets = tables_of(placed("noq"), Left(client_sqlog=CLIENT, server_sqlog=SERVER))["qlog_packets"]
    assert [(one["packet"], one["path"]) for one in packets if one["event"] == "lost"] == [(2, "path1"), (1, None)]


@pytest.mark.parametrize("name", ["sent", "received", "lost"])
def test_a_packet_number_may_be_anything(name: str) -> None:
    odd = event(70, f"quic:packet_{name}", data={"header": {"packet_type": "1RTT", "packet_number": {"value": [1]}}})
    _, _, last = sequence(odd).partition(b"\n")
    packets = tables_of(placed("noq"), Left(client_sqlog=CLIENT, server_sqlog=SERVER + last))["qlog_packets"]
    assert [(one["event"], one["packet"]) for one in packets][-1] == (name, None)


def test_frames_name_the_path_that_they_are_about() -> None:
    frames = tables_of(placed("noq"), Left(client_sqlog=CLIENT, server_sqlog=SERVER))["qlog_frames"]
    assert "padding" not in {one["frame"] for one in frames}
    [abandoned] = [one for one in frames if one["frame"] == "path_abandon"]
    assert (abandoned["path"], abandoned["about"]) == ("path1", "path0")


def test_states_are_kept_until_they_change_and_no_time_stands_for_what_is_not_measured() -> None:
    states = tables_of(placed("noq"), Left(client_sqlog=CLIENT, server_sqlog=SERVER))["qlog_recovery"]
    assert [(one["srtt_ns"], one["cwnd_bytes"], one["ssthresh_bytes"]) for one in states] == [
        (None, None, None),
        (40 * MS, None, None),
        (40 * MS, 14720, None),
    ]


def test_a_qlog_without_paths_says_so_and_that_of_a_single_path_has_one_path() -> None:
    plain = sequence(packet(0, "sent", 0, stream(0, 8)), packet(41, "received", 0, stream(0, 300)))
    several, single = (
        read_qlogs(placed("tquic", multipath=many), Left(client_sqlog=plain, server_sqlog=plain), None)  # type: ignore[arg-type]
        for many in (True, False)
    )
    assert several.notes == ("get: its qlog does not have the path of a packet: no figures by path",)
    assert set(several.tables[0][2]["path"]) == {None}
    assert not single.notes
    assert set(single.tables[0][2]["path"]) == {"path0"}


def test_a_damaged_qlog_is_a_warning() -> None:
    found = read_qlogs(placed("noq"), Left(client_sqlog=CLIENT, server_sqlog=b"x"), None)  # type: ignore[arg-type]
    assert len(found.warnings) == 1
    assert found.warnings[0].startswith("get: the qlog of its server is neither")
    assert set(found.tables[0][2]["end"]) == {"client"}


def test_the_qlog_of_a_client_whose_output_is_cut_is_read() -> None:
    """Before, the summary of the run ended with a traceback."""

    class Stopped(Left):
        def log(self, process: str, stream: str = "out") -> str:
            return super().log(process, stream)[:-1]

    [packets, *_] = tables_of(placed("noq"), Stopped(client_sqlog=CLIENT)).values()
    assert packets[0]["time_ns"] == 500 * MS


@pytest.mark.parametrize("time", ["NaN", "1e400", "1e17", "-1e30", "1" + "0" * 400])
def test_an_event_at_a_time_that_no_clock_shows_is_a_warning(time: str) -> None:
    """Before, such an event ended the summary of a run with a traceback."""
    odd = CLIENT + b'\x1e{"name": "quic:packet_sent", "time": %s, "data": {}}\n' % time.encode()
    found = read_qlogs(placed("noq"), Left(client_sqlog=odd, server_sqlog=SERVER), None)  # type: ignore[arg-type]
    assert [text.partition("event")[2] for text in found.warnings] == [" packet_sent has no time or no data"]


@pytest.mark.parametrize("value", [True, -1, 1 << 70, 1e300, float("nan"), 10**400])
def test_numbers_that_no_packet_has_are_left_out(value: float) -> None:
    header = {"packet_type": "1RTT", "packet_number": value, "path_id": value, "length": value}
    frame = {"frame_type": "stream", "stream_id": value, "offset": value, "length": value}
    odd = (
        event(70, "quic:packet_sent", data={"header": header, "frames": [frame]}),
        event(71, "quic:recovery_metrics_updated", data={"path_id": 0, "smoothed_rtt": value, "min_rtt": value}),
    )
    _, _, last = sequence(*odd).partition(b"\n")
    tables = tables_of(placed("noq"), Left(client_sqlog=CLIENT, server_sqlog=SERVER + last))
    packet = tables["qlog_packets"][-1]
    assert (packet["path"], packet["packet"], packet["size_bytes"], packet["payload_bytes"]) == (None, None, None, 0)
    frame = tables["qlog_frames"][-1]
    assert (frame["stream"], frame["offset_bytes"], frame["length_bytes"]) == (None, 0, 0)
    assert not isinstance(tables["qlog_recovery"][-1]["srtt_ns"], bool)


def report(size: int = 300, **more: Any) -> bytes:
    return json.dumps({"status": 0, "downloads": {"1": size}, "qlogs": 1, **more}).encode()


def own() -> Flow:
    return placed(STACK, multipath=False)


def test_a_stack_of_the_user_is_measured_from_its_qlog() -> None:
    result = quic.parse(own(), Left(client_json=report(), client_sqlog=CLIENT))
    assert result.error is None
    assert result.values == {
        "requests": 1,
        "bytes": 300,
        "handshake": pytest.approx(0.042),
        "completion": pytest.approx(0.12),
        "goodput": pytest.approx(300 * 8 / 0.078),
    }
    assert result.tables["requests"]["start_ns"] == [542 * MS]
    assert result.movement is not None
    assert result.movement.standstills_ns == [(542 * MS, 600 * MS), (600 * MS, 620 * MS)]


def test_a_request_without_time_has_no_goodput() -> None:
    """Before, the message was ZeroDivisionError."""
    at_once = sequence(packet(5, "sent", 0, stream(0, 8)), packet(5, "received", 0, stream(0, 300)))
    result = quic.parse(own(), Left(client_json=report(), client_sqlog=at_once))
    assert result.error is None
    assert result.values == {"requests": 1, "bytes": 300, "completion": 0}
    assert not result.portions


def test_a_clock_since_1970_is_taken_as_it_is() -> None:
    late = sequence(
        packet(1_700_000_005_010, "sent", 0, stream(0, 8)), packet(1_700_000_005_050, "received", 0, stream(0, 300))
    )
    result = quic.parse(own(), Left(client_json=report(), client_sqlog=late))
    assert result.tables["requests"]["start_ns"] == [10 * MS]


@pytest.mark.parametrize(
    ("files", "fault"),
    [
        ({}, "the client left no report; it printed: it says why"),
        ({"client_json": report(12), "client_sqlog": CLIENT}, "0 of 1 files arrived whole: '1' has 12 of 300 bytes"),
        ({"client_json": report(downloads={})}, "0 of 1 files arrived whole: '1' has 0 of 300 bytes"),
        ({"client_json": report()}, "the qlog of its client is missing: it wrote no file to QLOGDIR"),
        ({"client_json": report(), "client_sqlog": sequence(packet(0, "sent", 0))}, "its qlog has 0 requests, not 1"),
    ],
)
def test_a_stack_that_did_not_do_it_is_an_error_in_words(files: dict[str, bytes], fault: str) -> None:
    result = quic.parse(own(), Left(**files))
    assert result.error is not None
    assert fault in result.error


def test_paths_of_a_stack_of_the_user_follow_from_its_packets() -> None:
    from mprun.compile import allocate
    from mprun.inputs.loading import load
    from tests.core.test_quic import LAB

    intent = allocate(load(LAB / "topo.yaml", LAB / "xp_multipath_rtt.yaml").spec)
    flow = placed(STACK)
    found = read_qlogs(flow, Left(client_sqlog=CLIENT, server_sqlog=SERVER), intent)  # type: ignore[arg-type]
    assert found.metrics["get.paths"].value == 2
    assert found.metrics["get.share.path0"].value == pytest.approx(1 / 3)
    assert found.metrics["get.joined.path1"].value == pytest.approx(0.12)
    events = [json.loads(one) for one in CLIENT.decode().split("\x1e")[2:]]
    alone = sequence(*(one for one in events if one.get("tuple") != "p1"))
    unused = read_qlogs(flow, Left(client_sqlog=alone), intent)  # type: ignore[arg-type]
    assert unused.failures == ("get: path path1: no packet arrived over it",)
