# SPDX-License-Identifier: Apache-2.0
"""From the record of a run to observations and tables."""

from __future__ import annotations

import socket
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mprun.agent import record
from mprun.agent.message import HEADER, attribute
from mprun.agent.record import Recorder, read_entries
from mprun.metrics.connection import Connection, SendingEnd, Subflow
from mprun.metrics.limitation import ConnectionState
from mprun.metrics.observation import NAMES, TCP_INFO, Observation, observe
from mprun.metrics.processor import OF_CPU, measure_cpu
from mprun.metrics.rows import Rows
from mprun.metrics.series import FlowConnections, tabulate
from mprun.model.agent_report import AgentReport, Ended
from tests import intents
from tests.intents import flow

ZERO_NS = 5_000_000_000
ENDS = ("10.0.0.1", 40, "10.1.0.1", 5201)
COUNTED = {"TcpOutSegs": 5, "TcpInSegs": 4}
MIRRORED = ("10.1.0.1", 5201, "10.0.0.1", 40)


def message(kind: int, body: bytes) -> bytes:
    return HEADER.pack(HEADER.size + len(body), kind, 0, 0, 0) + body


def tcp_info(size: int = 240, **values: int) -> bytes:
    info = bytearray(size)
    for name, offset, form in TCP_INFO:
        if name in values:
            struct.pack_into("=" + form, info, offset, values[name])
    return bytes(info)


def diag(ends: tuple[str, int, str, int], info: bytes) -> bytes:
    """Return an answer of inet_diag about one socket. IPv4 addresses may be mapped into IPv6."""
    mapped = any(end.startswith("::ffff:") for end in (ends[0], ends[2]))
    family = socket.AF_INET6 if mapped or ":" in ends[0] else socket.AF_INET
    packed = [socket.inet_pton(family, end).ljust(16, b"\0") for end in (ends[0], ends[2])]
    body = struct.pack("=BBBB", family, 1, 0, 0) + struct.pack("!HH", ends[1], ends[3]) + b"".join(packed) + bytes(32)
    return message(18, body + attribute(8, b"\1") + attribute(2, info) + attribute(4, bytes(200)))


def event(kind: int, token: int, ends: tuple[str, int, str, int] | None = None) -> bytes:
    body = struct.pack("=BBH", kind, 1, 0) + attribute(1, struct.pack("=I", token))
    if ends:
        for place, address in ((5, ends[0]), (7, ends[2])):
            body += attribute(place, socket.inet_aton(address))
        for place, port in ((9, ends[1]), (10, ends[3])):
            body += attribute(place, struct.pack("!H", port))
    return message(30, body)


def written(folder: Path, *entries: tuple[int, int, int, bytes], sources: tuple[Mapping[str, Any], ...] = ()) -> bytes:
    recorder = Recorder(str(folder))
    for source in sources or ({"host": "client"}, {"host": "server"}):
        recorder.add_source(dict(source))
    for kind, number, at_ns, content in entries:
        recorder.write(kind, number, at_ns, [content])
    recorder.close()
    return (folder / record.NAME).read_bytes()


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    data = written(tmp_path, (record.SOCKETS, 0, 7, b"abc"), (record.EVENTS, 1, -8, b""))
    pieces = [data[n : n + 5] for n in range(0, len(data), 5)]
    assert list(read_entries(pieces))[2:] == [(record.SOCKETS, 0, 7, b"abc"), (record.EVENTS, 1, -8, b"")]


def test_the_record_of_a_killed_run_ends_anywhere(tmp_path: Path) -> None:
    noise = bytes(range(256)) * 16
    data = written(tmp_path, *((record.SOCKETS, 0, n, noise) for n in range(2000)))
    for share in (0.3, 0.6, 0.9):
        part = list(read_entries([data[: int(len(data) * share)]]))[2:]
        assert 0 < len(part) < 2000
        assert all(entry == (record.SOCKETS, 0, n, noise) for n, entry in enumerate(part))
    assert list(read_entries([])) == []


def test_sockets_have_their_values_from_time_zero(tmp_path: Path) -> None:
    values = {name: 1000 + place for place, name in enumerate(NAMES)}
    data = written(tmp_path, (record.SOCKETS, 0, ZERO_NS + 100, diag(ENDS, tcp_info(**values))))
    row = observe([data], ZERO_NS, []).sockets.frame().to_dicts()[0]
    assert row == {
        "time_ns": 100,
        "host": "client",
        **dict(zip(("local", "local_port", "remote", "remote_port"), ENDS, strict=True)),
        **values,
    }


@pytest.mark.parametrize("size", [216, 160, 104])
def test_a_kernel_that_says_less_leaves_columns_empty(tmp_path: Path, size: int) -> None:
    values = {name: 1000 + place for place, name in enumerate(NAMES)}
    info = tcp_info(**values)[:size]
    row = observe([written(tmp_path, (record.SOCKETS, 0, 0, diag(ENDS, info)))], 0, []).sockets.frame().to_dicts()[0]
    for name, offset, form in TCP_INFO:
        assert row[name] == (values[name] if offset + struct.calcsize(form) <= size else None)


def test_what_there_is_not_yet_is_empty(tmp_path: Path) -> None:
    unset = {"ssthresh_packets": 0x7FFFFFFF, "pacing_bytes_per_s": (1 << 64) - 1, "min_rtt_us": (1 << 32) - 1}
    data = written(tmp_path, (record.SOCKETS, 0, 0, diag(ENDS, tcp_info(**unset))))
    row = observe([data], 0, []).sockets.frame().to_dicts()[0]
    assert [row[name] for name in (*unset, "rtt_us")] == [None] * 4
    assert row["bytes_acked"] == 0


def test_ipv4_inside_of_ipv6_is_ipv4(tmp_path: Path) -> None:
    ends = ("::ffff:10.1.0.1", 5201, "::ffff:10.0.0.1", 40)
    observation = observe([written(tmp_path, (record.SOCKETS, 1, 0, diag(ends, tcp_info())))], 0, [])
    assert list(observation.hosts["server"].sockets) == [MIRRORED]


def test_a_socket_that_was_disconnected_keeps_what_it_had(tmp_path: Path) -> None:
    def state(kind: int, at_ns: int, acked: int) -> tuple[int, int, int, bytes]:
        return kind, 0, at_ns, diag(ENDS, tcp_info(bytes_acked=acked))

    observation = observe([written(tmp_path, state(record.SOCKETS, 1, 600), state(record.CLOSED, 2, 0))], 0, [])
    assert observation.hosts["client"].sockets[ENDS].get("bytes_acked") == 600
    assert observation.sockets.frame()["time_ns"].to_list() == [1]
    more = observe([written(tmp_path, state(record.SOCKETS, 1, 600), state(record.CLOSED, 2, 700))], 0, [])
    assert more.hosts["client"].sockets[ENDS].get("bytes_acked") == 700
    assert more.sockets.frame()["bytes_acked"].to_list() == [600, 700]


def connection(token: int | None) -> Connection:
    return Connection(token, (Subflow(ENDS, "path0", 0, 0, 0, SendingEnd(), SendingEnd()),))


def tables(observation: Observation, **path: str) -> dict[str, list[dict[str, Any]]]:
    carried = flow([intents.path("path0", source="10.0.0.1", destination="10.1.0.1", **path)])
    agent = AgentReport(None, True, counters={"client": COUNTED}, counters_before={"client": {"IpDefaultTTL": 64}})
    made = tabulate(agent, observation, [FlowConnections(carried, (connection(7),), 0, 10)])
    return {name: table.to_dicts() for name, table in made.items()}


def test_rows_name_their_flow_connection_and_path(tmp_path: Path) -> None:
    other = ("10.0.0.1", 41, "10.1.0.1", 5201)
    data = written(
        tmp_path,
        (record.SOCKETS, 0, 0, diag(ENDS, tcp_info()) + diag(other, tcp_info())),
        (record.SOCKETS, 1, 0, diag(MIRRORED, tcp_info())),
        (record.EVENTS, 0, 0, event(1, 7, ENDS) + event(3, 7) + event(3, 8)),
        (record.EVENTS, 1, 0, event(1, 9, MIRRORED) + event(3, 9)),
    )
    found = tables(observe([data], 0, []))
    bulk = ("bulk", 0, "path0")
    named = [(row["host"], row["flow"], row["connection"], row["path"]) for row in found["sockets"]]
    assert named == [("client", *bulk), ("client", None, None, None), ("server", *bulk)]
    events = [(row["host"], row["event"], row["flow"], row["path"]) for row in found["events"]]
    assert events == [
        ("client", "created", "bulk", "path0"),
        ("client", "closed", "bulk", None),
        ("client", "closed", None, None),
        ("server", "created", "bulk", "path0"),
        ("server", "closed", "bulk", None),
    ]
    assert found["counters"] == [
        {"host": "client", "name": "IpDefaultTTL", "value": 0, "before": 64, "after": 64},
        {"host": "client", "name": "TcpInSegs", "value": 4, "before": 0, "after": 4},
        {"host": "client", "name": "TcpOutSegs", "value": 5, "before": 0, "after": 5},
    ]


def test_beyond_a_nat_a_socket_is_known_by_its_other_address(tmp_path: Path) -> None:
    translated = ("10.1.0.1", 5201, "10.9.0.1", 40)
    observation = observe([written(tmp_path, (record.SOCKETS, 1, 0, diag(translated, tcp_info())))], 0, [])
    (row,) = tables(observation, source_seen="10.9.0.1")["sockets"]
    assert (row["flow"], row["path"]) == ("bulk", "path0")


def test_a_table_without_rows_is_left_out() -> None:
    assert tabulate(AgentReport(None, True), Observation(), []) == {}


def test_what_an_mptcp_connection_holds(tmp_path: Path) -> None:
    """write_seq, snd_una and rcv_nxt, then the bytes sent and acknowledged. SNDBUF and WMEM_QUEUED give the memory."""
    info = bytearray(96)
    struct.pack_into("=QQQ", info, 16, 1_000_900, 1_000_100, 7)
    struct.pack_into("=QQQ", info, 56, 700, 0, 100)
    memory = struct.pack("=9I", 1, 2, 3, 5000, 4, 900, 5, 6, 7)
    packed = [socket.inet_aton(end).ljust(16, b"\0") for end in (ENDS[0], ENDS[2])]
    body = struct.pack("=BBBB", socket.AF_INET, 1, 0, 0) + struct.pack("!HH", ENDS[1], ENDS[3])
    body += b"".join(packed) + bytes(32)
    told = message(20, body + attribute(7, memory) + attribute(2, bytes(info)))
    older = message(20, body + attribute(7, memory) + attribute(2, bytes(info[:40])))
    data = written(tmp_path, *((record.CONNECTIONS, 0, ZERO_NS + n, one) for n, one in enumerate((told, older))))
    # 800 bytes are written and not acknowledged, 600 of them are sent; an older kernel does not report these bytes
    assert observe([data], ZERO_NS, []).states == {("client", ENDS): [ConnectionState(0, 5000, 900, 600, 200)]}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flows", "names"),
    [(("a",), {"a.cpu.client"}), (("a", "g"), {"a.cpu.client"}), (("a", "b", "g"), set())],
    ids=["flow", "flow of a group", "flows of a group"],
)
def test_a_program_of_one_flow_has_its_cpu_time(flows: tuple[str, ...], names: set[str]) -> None:
    samples = Rows(OF_CPU)
    samples.add((1, "client", "run", 2_000_000_000, 1_000_000_000))
    found = measure_cpu({"run": Ended(0, False, "flow", flows)}, samples.frame()).metrics
    assert {name: metric.value for name, metric in found.items()} == dict.fromkeys(names, 3.0)


def test_an_entry_that_expands_without_reason_is_refused() -> None:
    """Before, 1.4 MB became 3 GB: one entry that declares its own size."""
    head = struct.pack("=BxHIq", record.SOCKETS, 0, 1_500_000_000, 0)
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    packed = packer.compress(head) + b"".join(packer.compress(bytes(1 << 20)) for _ in range(1000)) + packer.flush()
    with pytest.raises(ValueError, match="an entry of 1500000000 bytes"):
        list(read_entries([packed]))


@pytest.mark.slow
def test_a_record_that_expands_without_reason_is_refused() -> None:
    """The record repeats a small entry, compressed to a thousandth."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    entry = struct.pack("=BxHIq", record.PROGRESS, 0, 1 << 16, 0) + bytes(1 << 16)
    packed = b"".join(packer.compress(entry * 16) for _ in range(300)) + packer.flush()
    entries = read_entries([packed])
    with pytest.raises(ValueError, match="more than 300 times its size"):
        sum(len(content) for _, _, _, content in entries)


@pytest.mark.parametrize("pieces", [1, 2, 7, 100])
def test_a_record_is_read_in_any_pieces(tmp_path: Path, pieces: int) -> None:
    content = [bytes([n]) * (n << 14) for n in range(200)]
    data = written(tmp_path, *((record.SOCKETS, 0, n, one) for n, one in enumerate(content)))
    size = -(-len(data) // pieces)
    found = read_entries(data[at : at + size] for at in range(0, len(data), size))
    assert [one for kind, _, _, one in found if kind == record.SOCKETS] == content


@pytest.mark.parametrize("kind", [record.SOCKETS, record.INTERFACES, record.QUEUES, record.PROGRESS, record.EVENTS])
@pytest.mark.parametrize("length", [0, 1, 15])
def test_messages_shorter_than_their_header_end_the_reading(tmp_path: Path, kind: int, length: int) -> None:
    """Before, a message of length 0 was read for ever."""
    message = struct.pack("=IHHII", length, 20, 0, 0, 0) + bytes(100)
    data = written(tmp_path, (kind, 0, 0, message), sources=({"host": "client"},))
    observe([data], 0, [])
