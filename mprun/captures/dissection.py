# SPDX-License-Identifier: Apache-2.0
"""Read the captures of a run with tshark, and write the tables of packets, connections, subflows and delays.

A capture goes to tshark in portions, one for each CPU at a time. So the memory in use does not grow with the length of
the capture. `mprun.captures.packet` and `mprun.captures.tcp_connection` interpret the output.
"""

from __future__ import annotations

import os
import subprocess
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from mprun.captures import tshark
from mprun.captures.delay import DELAY_COLUMNS, CapturePair, choose_pairs, find_delays, summarize
from mprun.captures.identity import IDENTITY_COLUMNS, Identities, identify, kept_bytes
from mprun.captures.packet import PACKET_COLUMNS, ObservationPoint, name_quic, read_packets, shape_packets
from mprun.captures.pcapng import Portions
from mprun.captures.quic_packet import list_kinds
from mprun.captures.stream import LATE
from mprun.captures.tcp_connection import CONNECTION_COLUMNS, SUBFLOW_COLUMNS, CaptureConnections
from mprun.errors import MprunError
from mprun.machine.version import code_digest
from mprun.model.intent import Intent
from mprun.model.run_summary import CaptureFacts
from mprun.model.spec import Capture
from mprun.storage.run_directory import RunDirectory
from mprun.storage.table import read_table

if TYPE_CHECKING:
    import polars

PORTION_PACKETS = 50_000
CHUNK_BYTES = 4 << 20

# The file that says from what the tables of a run were made.
KEPT = "tables/packets.json"
_OF_CONNECTIONS = ("connections", "subflows")

DissectionProgress = Callable[[str, float, str], None]


@dataclass
class Dissection:
    """The result of reading captures: the number of packets, the rows of each table, and warnings.

    delays: a summary of each pair of captures and path.
    """

    packets: int = 0
    connections: list[dict[str, Any]] = field(default_factory=list)
    subflows: list[dict[str, Any]] = field(default_factory=list)
    delays: list[dict[str, Any]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


class KeptReading(NamedTuple):
    """The origin of the tables of a run, and what they do not hold."""

    origin: tuple[str, ...]
    packets: int
    warnings: tuple[str, ...]


def dissect(run: RunDirectory, progress: DissectionProgress, wanted: Iterable[tuple[str, str]] = ()) -> Dissection:
    """Read all captures of a run, and write `packets`, `connections`, `subflows` and `one_way_delays` to its tables.

    If this code has made the tables of these captures before, return what they hold.

    wanted: the pairs of captures with delays; by default those of the two hosts of each flow.
    If a capture is incomplete, its readable part is kept, with a warning. Raises MachineError without tshark,
    MprunError if the run has no captures, and SpecError for a wanted capture that the run does not have.
    """
    captures = run.need_captures()
    program = tshark.need()
    facts = run.summary().captures if run.has("summary.json") else {}
    pairs = list(choose_pairs(run.plan().intent, facts, wanted))
    origin = _describe_origin(run, captures, program, pairs)
    if (kept := _find_kept(run)) and kept.origin == origin:
        return _collect(run, kept)
    run.folder.remove(KEPT)
    found = Dissection()
    run.write_frames("packets", PACKET_COLUMNS | IDENTITY_COLUMNS, _read_all(run, captures, program, progress, found))
    import polars

    for name, columns, rows in (
        ("connections", CONNECTION_COLUMNS, found.connections),
        ("subflows", SUBFLOW_COLUMNS, found.subflows),
    ):
        run.write_tables({name: polars.DataFrame(rows, schema=columns)})
    run.write_frames("one_way_delays", DELAY_COLUMNS, _find_delays(run, pairs, facts, progress, found))
    kept = KeptReading(origin, found.packets, tuple(found.warnings))
    run.folder.write_json(KEPT, kept._asdict())
    return _collect(run, kept)


def _describe_origin(
    run: RunDirectory, captures: Mapping[str, str], program: str, pairs: Sequence[CapturePair]
) -> tuple[str, ...]:
    """Return what decides the tables: mprun's code, tshark, the captures, and the pairs of captures with delays."""
    stats = {"tshark": os.stat(program), **{name: run.folder.stat(file) for name, file in captures.items()}}
    files = [f"{name} {one.st_size} {one.st_mtime_ns}" for name, one in stats.items()]
    return (code_digest(), *files, *(f"{pair.sender} {pair.receiver}" for pair in pairs))


def _find_kept(run: RunDirectory) -> KeptReading | None:
    names = ("packets", *_OF_CONNECTIONS, "one_way_delays")
    has_all = run.has(KEPT) and all(run.has(f"tables/{name}.parquet") for name in names)
    return run.read(KEPT, KeptReading) if has_all else None


def _collect(run: RunDirectory, kept: KeptReading) -> Dissection:
    """Return what the tables of a run hold."""
    connections, subflows, delays = (
        read_table(run.folder, f"tables/{name}.parquet").collect() for name in (*_OF_CONNECTIONS, "one_way_delays")
    )
    rows = (connections.to_dicts(), subflows.to_dicts(), summarize(delays))
    return Dissection(kept.packets, *rows, list(kept.warnings))


def _find_delays(
    run: RunDirectory,
    pairs: Sequence[CapturePair],
    facts: Mapping[str, CaptureFacts],
    progress: DissectionProgress,
    found: Dissection,
) -> Iterator[polars.DataFrame]:
    packets = read_table(run.folder, "tables/packets.parquet")
    counts = dict(packets.group_by("capture").len().collect().iter_rows())
    short = {name: counts.get(name, 0) for name, one in facts.items() if counts.get(name, 0) < one.packets}
    found.warnings += [
        f"{name}: {number} of the {facts[name].packets} packets that the run captured were read: what is missing is "
        "unknown, not lost"
        for name, number in short.items()
    ]
    intent = run.plan().intent
    there = {path.ends: path.name for flow in intent.traffic for path in flow.paths}
    paths = {ends[::-1]: name for ends, name in there.items()} | there
    flows = _flows(intent)
    for number, pair in enumerate(pairs):
        progress("comparing captures", number / len(pairs), f"{pair.sender} to {pair.receiver}")
        pair = replace(pair, is_complete=pair.is_complete and pair.receiver not in short)
        delays, warnings = find_delays(packets, pair, paths, flows)
        found.warnings += warnings
        yield delays


def _read_all(
    run: RunDirectory, captures: Mapping[str, str], program: str, progress: DissectionProgress, found: Dissection
) -> Iterator[polars.DataFrame]:
    intent = run.plan().intent
    zero_epoch_ns = run.agent_report().zero_epoch_ns
    if zero_epoch_ns is None:
        found.warnings.append("the run did not reach time zero: times are those of the captures' clock")
    total = sum(run.folder.size(file) for file in captures.values())
    wanted = {capture.name: capture for capture in intent.captures}
    kept = kept_bytes([(capture.snaplen, capture.link is None) for capture in intent.captures])
    quic_ports = {port for flow in intent.traffic if flow.protocol == "quic" for port in flow.endpoints.all_ports}
    done = 0
    for name, path in captures.items():
        capture = wanted.get(name)
        nat = intent.middleboxes[capture.node].nat if capture and capture.node in intent.middleboxes else None
        inside = nat.inside if nat else ()
        trace = CaptureConnections(
            _paths(intent), _forwards(intent, capture), inside, _find_outside(intent), _servers(intent).keys()
        )
        number = 1
        cut = 0
        argv = [program, *tshark.argv(intent.traffic)[1:]]
        progress(f"reading {name}", done / total, f"{found.packets} packets")
        for portion, read in _portions(run, path, _Reader(argv, kept, quic_ports), name, found):
            identities = portion.identities
            packets = read_packets(portion.text, _observation_point(intent), zero_epoch_ns or 0)
            table = trace.follow(name_quic(packets, portion.kinds))
            yield shape_packets(table, name, number).hstack(identities.frame().head(len(table)))
            number += len(table)
            cut += portion.cut
            found.packets += len(table)
            progress(f"reading {name}", (done + read) / total, f"{found.packets} packets")
        done += run.folder.size(path)
        found.connections += [{"capture": name, **row} for row in trace.tell_connections()]
        subflows = trace.tell_subflows()
        found.subflows += [{"capture": name, **row} for row in subflows]
        if late := sum(row["kind"] == LATE for row in subflows):
            found.warnings.append(
                f"{name}: connections and subflows that began before the capture: {late}; each such subflow is a "
                "connection of its own, and its offsets count from the first packet in the capture"
            )
        if trace.cut_packets:
            found.warnings.append(
                f"{name}: of {trace.cut_packets} packets the options of TCP are not all in the capture, so that what "
                "they say of MPTCP is not known; a larger snaplen keeps them, 120 at least over IPv6"
            )
        if cut:
            found.warnings.append(
                f"{name}: of {cut} datagrams of QUIC the packets are not all in the capture, so that their kinds lack "
                "some; without a snaplen they are"
            )
        if trace.cut_chunks:
            found.warnings.append(
                f"{name}: of {trace.cut_chunks} packets of SCTP the chunks are not all in the capture, so that what "
                "they carry is not known; without a snaplen they are"
            )


class _Reader(NamedTuple):
    """The way to read a portion: the command of tshark, the bytes of identities, and the ports of QUIC."""

    argv: list[str]
    kept: int
    quic_ports: set[int]

    def read(self, content: bytes) -> _Portion:
        done = subprocess.run(self.argv, input=content, capture_output=True, check=False)
        said = [line for line in done.stderr.decode(errors="replace").splitlines() if "Running as user" not in line]
        problem = (said[-1] if said else f"ended with status {done.returncode}") if done.returncode else ""
        kinds, cut = list_kinds(content, self.quic_ports) if self.quic_ports else (None, 0)
        return _Portion(done.stdout, identify(content, self.kept), kinds, cut, problem)


class _Portion(NamedTuple):
    """The reading of a portion: tshark's lines, the identity and the kinds of each packet, and tshark's problem.

    cut: the number of datagrams of QUIC whose packets are not all in the capture.
    """

    text: bytes
    identities: Identities
    kinds: list[str | None] | None
    cut: int
    problem: str


def _portions(
    run: RunDirectory, path: str, reader: _Reader, name: str, found: Dissection
) -> Iterator[tuple[_Portion, int]]:
    """Yield what was read of each portion of a capture in order, and the bytes read so far."""
    portions = Portions(PORTION_PACKETS)
    workers = len(os.sched_getaffinity(0))
    waiting: deque[tuple[Future[_Portion], int]] = deque()
    read = 0
    with ThreadPoolExecutor(workers) as pool, run.folder.open(path) as file:
        try:
            for portion in portions.split(iter(lambda: file.read(CHUNK_BYTES), b"")):
                read += len(portion)
                waiting.append((pool.submit(reader.read, portion), read))
                if len(waiting) > workers:
                    yield _take(waiting, name, found)
        except MprunError as error:
            found.warnings.append(f"{name}: {error}")
        while waiting:
            yield _take(waiting, name, found)
    if not portions.is_whole:
        found.warnings.append(f"{name}: ends in the midst of a packet; what came before it was read")


def _take(waiting: deque[tuple[Future[_Portion], int]], name: str, found: Dissection) -> tuple[_Portion, int]:
    future, read = waiting.popleft()
    portion = future.result()
    if portion.problem:
        found.warnings.append(f"{name}: tshark: {portion.problem}; what it had read was kept")
    return portion, read


def _find_outside(intent: Intent) -> frozenset[str]:
    """Return the addresses that NATs have outside."""
    return frozenset(path.source_seen for flow in intent.traffic for path in flow.paths if path.source_seen)


def _forwards(intent: Intent, capture: Capture | None) -> bool:
    """Return whether a capture contains each forwarded packet twice, incoming and outgoing.

    This is so for a capture of all interfaces of a node other than a host.
    """
    kinds = {node.name: node.kind for node in intent.nodes}
    return capture is not None and not capture.link and kinds.get(capture.node, "host") != "host"


def _observation_point(intent: Intent) -> ObservationPoint:
    switches = {node.name for node in intent.nodes if node.kind == "switch"}
    ends = [end for link in intent.links for end in link.ends]
    return ObservationPoint(
        {end.name: end.link for end in ends}, {end.name: end.mac for end in ends if end.node not in switches}
    )


def _paths(intent: Intent) -> dict[tuple[str, str], str]:
    """Return the name of each path by its source and destination address, also by the source address behind a NAT."""
    found: dict[tuple[str, str], str] = {}
    for flow in intent.traffic:
        for path in flow.paths:
            for source in (path.source, path.seen_from):
                found.setdefault((source, path.destination), path.name)
    return found


def _flows(intent: Intent) -> dict[tuple[str, int], str]:
    """Return the name of each flow by the addresses and ports of its server, without those of several flows."""
    return {server: names.pop() for server, names in _servers(intent).items() if len(names) == 1}


def _servers(intent: Intent) -> dict[tuple[str, int], set[str]]:
    """Return the names of the flows of each server, by its address and port."""
    found: dict[tuple[str, int], set[str]] = {}
    for flow in intent.traffic:
        for address in flow.server_addresses:
            for port in flow.endpoints.all_ports:
                found.setdefault((address, port), set()).add(flow.name)
    return found
