# SPDX-License-Identifier: Apache-2.0
"""Read the record of a run: the MPTCP events and sockets of each host, and all samples as rows. Pure.

The names of flows and links are not known here. `mprun.metrics.series` adds them.
"""

from __future__ import annotations

import dataclasses
import json
import struct
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple, cast

from mprun.agent import message, record
from mprun.agent.mptcp_event import read_events, spell_address
from mprun.kernel.log import KernelMessage, read_records
from mprun.metrics.counter import Counters
from mprun.metrics.limitation import ConnectionState
from mprun.metrics.processor import Processors
from mprun.metrics.rows import ColumnKind, Rows, SampleSource
from mprun.metrics.trace_event_tables import RecordedEvents
from mprun.model.codec import PLAIN
from mprun.model.frozen import Frozen
from mprun.model.network import Link
from mprun.workloads.tool import SocketSample

Tuple4 = tuple[str, int, str, int]

# struct tcp_info (include/uapi/linux/tcp.h), to which newer kernels append: name, offset, format.
TCP_INFO = (
    ("rtt_us", 68, "I"),
    ("rttvar_us", 72, "I"),
    ("min_rtt_us", 148, "I"),
    ("snd_cwnd_packets", 80, "I"),
    ("ssthresh_packets", 76, "I"),
    ("unacked_packets", 24, "I"),
    ("lost_packets", 32, "I"),
    ("retransmits_packets", 100, "I"),
    ("pacing_bytes_per_s", 104, "Q"),
    ("delivery_bytes_per_s", 160, "Q"),
    ("bytes_sent", 200, "Q"),
    ("bytes_retransmitted", 208, "Q"),
    ("bytes_acked", 120, "Q"),
    ("bytes_received", 128, "Q"),
    ("notsent_bytes", 144, "I"),
    # the time since payload was last sent and received
    ("last_sent_ms", 44, "I"),
    ("last_received_ms", 52, "I"),
    ("snd_wnd_bytes", 228, "I"),
    ("last_ack_recv_ms", 56, "I"),
    ("busy_us", 168, "Q"),
    ("rwnd_limited_us", 176, "Q"),
    ("sndbuf_limited_us", 184, "Q"),
)
NAMES = tuple(name for name, _, _ in TCP_INFO)
_ACKED, _RECEIVED = NAMES.index("bytes_acked"), NAMES.index("bytes_received")
# The kernel's values for a quantity that is not known yet (TCP_INFINITE_SSTHRESH, ~0).
UNSET = {
    "rtt_us": 0,
    "min_rtt_us": (1 << 32) - 1,
    "ssthresh_packets": 0x7FFFFFFF,
    "pacing_bytes_per_s": (1 << 64) - 1,
}
# The two ends of a socket, as columns.
ENDS: Mapping[str, ColumnKind] = {"local": "text", "local_port": "whole", "remote": "text", "remote_port": "whole"}
OF_SOCKETS: Mapping[str, ColumnKind] = {"time_ns": "whole", "host": "text", **ENDS, **dict.fromkeys(NAMES, "whole")}
_MOVED = ("bytes_sent", "bytes_retransmitted", "bytes_received", "last_sent_ms", "last_received_ms")
_LIMITS = [(NAMES.index(name), value) for name, value in UNSET.items()]
AF_INET = 2
_DIAG_BYTES = 72
_ENDS_BYTES = 40
# Of struct mptcp_info: mptcpi_write_seq, mptcpi_snd_una, mptcpi_rcv_nxt.
_WRITE_SEQ, _SEQUENCES = 16, struct.Struct("=QQQ")
# And mptcpi_bytes_sent (each byte once), mptcpi_bytes_acked, which Linux has from 6.5 on.
_SENT, _COUNTS = 56, struct.Struct("=Q8xQ")
# Of struct sock's memory SK_MEMINFO_SNDBUF and SK_MEMINFO_WMEM_QUEUED (linux/sock_diag.h).
_SNDBUF, _MEMORY = 12, struct.Struct("=I4xI")
_PORTS = struct.Struct("!HH")


class PathManagerEvent(NamedTuple):
    """An event of a path manager (`mprun.agent.mptcp_event`), from time zero. None stands for a value that it lacks."""

    at_ns: int
    event: str
    token: int | None = None
    local: str | None = None
    local_port: int | None = None
    remote: str | None = None
    remote_port: int | None = None
    local_id: int | None = None
    remote_id: int | None = None
    backup: int | None = None
    error: int | None = None
    server_side: bool = False

    @property
    def addresses(self) -> Tuple4:
        """The ends of the event's subflow, the host's own end first."""
        return cast(Tuple4, (self.local, self.local_port, self.remote, self.remote_port))


@dataclasses.dataclass
class Host:
    """The observed connections of a host.

    - events: of its path manager.
    - sockets: the last state of each socket, by its addresses.
    - has_lost_sockets: more sockets closed at once than the kernel could report.
    """

    events: list[PathManagerEvent] = field(default_factory=list)
    sockets: dict[Tuple4, SocketState] = field(default_factory=dict)
    has_lost_sockets: bool = False


class SocketState(NamedTuple):
    """The state of a TCP socket at a time. values: of TCP_INFO; None if the kernel has none."""

    addresses: Tuple4
    values: tuple[int | None, ...]

    def get(self, name: str) -> int:
        """Return a value of TCP_INFO; 0 if it is missing."""
        return self.values[NAMES.index(name)] or 0

    @property
    def volume_bytes(self) -> int:
        """The payload in both directions."""
        return (self.values[_ACKED] or 0) + (self.values[_RECEIVED] or 0)


class DataProgress(Frozen):
    """An end of a connection at a time, in ns from time zero.

    - expected: the data sequence number that it expects next.
    - is_waiting: the other end lacks a part of its data.
    """

    at_ns: int
    expected: int
    is_waiting: bool


@dataclasses.dataclass
class Observation:
    """The content of a record.

    - sockets: each sampled state, and the last state of closed sockets.
    - progress: how far the data of an MPTCP connection was, by host and addresses.
    - states: the data that an MPTCP connection had sent and held, by host and addresses.
    - kernel_log: the log of an experiment kernel; empty for another kernel.
    - trace: the trace events of an experiment kernel.
    """

    hosts: dict[str, Host] = field(default_factory=dict)
    sockets: Rows = field(default_factory=lambda: Rows(OF_SOCKETS))
    progress: dict[tuple[str, Tuple4], list[DataProgress]] = field(default_factory=dict)
    states: dict[tuple[str, Tuple4], list[ConnectionState]] = field(default_factory=dict)
    counters: Counters = field(default_factory=Counters)
    processors: Processors = field(default_factory=Processors)
    kernel_log: list[KernelMessage] = field(default_factory=list)
    trace: RecordedEvents = field(default_factory=RecordedEvents)

    def sample_sockets(
        self, host: str, port: int, servers: Collection[str]
    ) -> Iterator[tuple[int, list[SocketSample]]]:
        """Yield the samples of a host's sockets with this port and one of these addresses at an end, by time."""
        import polars

        ends = (
            (polars.col(f"{end}_port") == port) & polars.col(end).is_in(list(servers)) for end in ("local", "remote")
        )
        mine = self.sockets.frame().filter(polars.col("host") == host, polars.any_horizontal(*ends))
        known = mine.select("time_ns", *_MOVED).drop_nulls().sort("time_ns", maintain_order=True)
        for at_ns, rows in groupby(known.iter_rows(), key=itemgetter(0)):
            yield (
                at_ns,
                [
                    SocketSample(sent - again, received, at_ns - sent_ms * 1_000_000, at_ns - received_ms * 1_000_000)
                    for _, sent, again, received, sent_ms, received_ms in rows
                ],
            )


def observe(chunks: Iterable[bytes], zero_ns: int, links: Sequence[Link]) -> Observation:
    """Read a record. zero_ns: time zero on its clock. links: of the intent. Raises ValueError if it is damaged."""
    found = Observation(counters=Counters(links))
    sources: dict[int, SampleSource] = {}
    for kind, number, moment_ns, content in record.read_entries(chunks):
        at_ns = moment_ns - zero_ns
        if kind == record.SOURCE:
            source = sources[number] = PLAIN.decode(SampleSource, json.loads(content))
            if source.host is not None:
                found.hosts[source.host] = Host()
            elif source.session is not None:
                found.processors.add(source)
            elif source.indices is not None:
                found.counters.add(number, source)
            elif source.formats is not None:
                found.trace.add(source)
        elif kind == record.INTERFACES:
            found.counters.read_interfaces(content, at_ns, number)
        elif kind == record.QUEUES:
            found.counters.read_queues(content, at_ns, number)
        elif kind == record.KERNEL_LOG:
            found.kernel_log += read_records(content)
        elif kind == record.TRACE:
            found.trace.read(content, zero_ns)
        elif kind == record.CPU:
            found.processors.read(content, at_ns, sources[number].tick_per_s)
        elif kind == record.PROGRESS:
            for addresses, state in _read_progress(content, at_ns):
                found.progress.setdefault((_host_of(sources[number]), addresses), []).append(state)
        elif kind == record.CONNECTIONS:
            for addresses, held in _read_states(content, at_ns):
                found.states.setdefault((_host_of(sources[number]), addresses), []).append(held)
        else:
            _read_host(kind, content, at_ns, _host_of(sources[number]), found)
    return found


def _host_of(source: SampleSource) -> str:
    """Return the host of a source of sockets. Raises ValueError for another source."""
    if source.host is None:
        raise ValueError("samples of sockets have no host")
    return source.host


def _read_host(kind: int, content: bytes, at_ns: int, host: str, found: Observation) -> None:
    """Add what was recorded of a host's connections."""
    if kind == record.EVENTS:
        found.hosts[host].events += [PathManagerEvent(at_ns, **event) for event in read_events(content)]
        return
    if kind == record.LOST:
        found.hosts[host].has_lost_sockets = True
        return
    last = found.hosts[host].sockets
    for state in _sockets(content):
        # a socket that was disconnected closes with its counts cleared
        if state.addresses not in last or state.volume_bytes >= last[state.addresses].volume_bytes:
            last[state.addresses] = state
            found.sockets.add((at_ns, host, *state.addresses, *state.values))


def _read_connections(datagrams: bytes) -> Iterator[tuple[Tuple4, Mapping[int, bytes], bytes]]:
    """Yield addresses, attributes and struct mptcp_info of each MPTCP connection."""
    for kind, _, body in message.split_messages(datagrams):
        if kind != message.SOCK_DIAG_BY_FAMILY:
            continue
        found = message.attributes(body[_DIAG_BYTES:])
        info = found.get(message.INET_DIAG_INFO, b"")
        if len(info) >= _WRITE_SEQ + _SEQUENCES.size:
            yield _read_ends(body[:_ENDS_BYTES]), found, info


def _read_progress(datagrams: bytes, at_ns: int) -> Iterator[tuple[Tuple4, DataProgress]]:
    """Yield the addresses of each MPTCP connection, and how far its data is."""
    for addresses, _, info in _read_connections(datagrams):
        written, acknowledged, expected = _SEQUENCES.unpack_from(info, _WRITE_SEQ)
        yield addresses, DataProgress(at_ns, expected, written != acknowledged)


def _read_states(datagrams: bytes, at_ns: int) -> Iterator[tuple[Tuple4, ConnectionState]]:
    """Yield the addresses of each MPTCP connection with its data; nothing if the kernel does not report it."""
    for addresses, found, info in _read_connections(datagrams):
        memory = found.get(message.INET_DIAG_SKMEMINFO, b"")
        if len(info) >= _SENT + _COUNTS.size and len(memory) >= _SNDBUF + _MEMORY.size:
            written, acknowledged, _ = _SEQUENCES.unpack_from(info, _WRITE_SEQ)
            sent, received = _COUNTS.unpack_from(info, _SENT)
            room, held = _MEMORY.unpack_from(memory, _SNDBUF)
            flying = sent - received
            yield addresses, ConnectionState(at_ns, room, held, flying, max(0, written - acknowledged - flying))


def _sockets(datagrams: bytes) -> Iterator[SocketState]:
    """Yield the sockets in answers to a dump, or in broadcasts (struct inet_diag_msg and its attributes)."""
    for kind, _, body in message.split_messages(datagrams):
        if kind not in (message.TCPDIAG_GETSOCK, message.SOCK_DIAG_BY_FAMILY):
            continue
        addresses = _read_ends(body[:_ENDS_BYTES])
        try:
            begins, ends = message.find_attribute(body, _DIAG_BYTES, len(body), message.INET_DIAG_INFO)
        except KeyError:
            continue
        if addresses[3]:
            # a socket without a port at the other end is a listening socket that closes
            yield SocketState(addresses, _read_tcp_info(body[begins:ends]))


def _whole() -> tuple[struct.Struct, list[tuple[int, int]]]:
    """Return a struct that reads all fields of TCP_INFO at once, and the place of each in what it reads and its end."""
    ordered = sorted(TCP_INFO, key=lambda entry: entry[1])
    form, end = "=", 0
    for _, offset, one in ordered:
        form += f"{offset - end}x{one}"
        end = offset + struct.calcsize("=" + one)
    return struct.Struct(form), [
        (ordered.index(entry), entry[1] + struct.calcsize("=" + entry[2])) for entry in TCP_INFO
    ]


_WHOLE, _FIELDS = _whole()


def _read_tcp_info(info: bytes) -> tuple[int | None, ...]:
    # an older kernel reports fewer fields
    read, size = _WHOLE.unpack_from(info.ljust(_WHOLE.size, b"\0")), len(info)
    values = [read[place] if end <= size else None for place, end in _FIELDS]
    for number, unset in _LIMITS:
        if values[number] == unset:
            values[number] = None
    return tuple(values)


@lru_cache(maxsize=1 << 16)
def _read_ends(head: bytes) -> Tuple4:
    """Return the addresses and ports at the beginning of a struct inet_diag_msg. Many samples have the same ones."""
    local_port, remote_port = _PORTS.unpack_from(head, 4)
    length = 4 if head[0] == AF_INET else 16
    return spell_address(head[8 : 8 + length]), local_port, spell_address(head[24 : 24 + length]), remote_port
