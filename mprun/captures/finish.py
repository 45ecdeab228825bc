# SPDX-License-Identifier: Apache-2.0
"""Convert the captures of a finished run from pcap to pcapng, with the names of interfaces and their links.

Only this module opens capture files for the conversion. `mprun.captures.pcapng` converts the bytes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import BinaryIO

from mprun.captures.pcapng import (
    HEADER_BYTES,
    RECORD_BYTES,
    CaptureContent,
    InterfaceDescription,
    PcapngConversion,
    read_frames,
)
from mprun.captures.quic_observation import QuicObserver
from mprun.captures.quic_packet import read_datagram
from mprun.errors import MprunError
from mprun.model.agent_report import AgentReport
from mprun.model.intent import Intent
from mprun.model.network import Link, Network
from mprun.model.plan import Plan
from mprun.model.spec import Capture
from mprun.model.wording import describe
from mprun.storage.run_directory import RunDirectory
from mprun.workloads import tcpdump


def finish_captures(run: RunDirectory, plan: Plan, network: Network, agent: AgentReport) -> dict[str, CaptureContent]:
    """Convert each capture of a run to pcapng. Return the content of each capture by its name.

    If the disk has no room for a converted capture, the file stays as tcpdump wrote it.
    """
    found = {}
    for wanted in plan.intent.captures:
        seen = agent.captures.get(f"{tcpdump.PREFIX}{wanted.name}")
        if seen is not None:
            found[wanted.name] = _finish(run, wanted, plan, agent, _interfaces(wanted, network, seen.interfaces))
    return found


def _finish(
    run: RunDirectory, wanted: Capture, plan: Plan, agent: AgentReport, interfaces: Mapping[int, InterfaceDescription]
) -> CaptureContent:
    target = f"pcap/{wanted.name}.pcap"
    parts = _parts(run, target, wanted)
    conversion = PcapngConversion(_comment(wanted, plan, agent), interfaces)
    problem = ""
    observers = find_observers(wanted, plan.intent)
    try:
        with run.folder.whole(target) as file:
            written = _write(run, parts, conversion, file)
            if observers:
                _observe(written, observers)
            else:
                deque(written, 0)
        for part in parts:
            if part != target:
                run.folder.remove(part)
    except (OSError, MprunError) as error:
        problem = f"stays as tcpdump wrote it: {error}"
    quic = {} if problem else {name: observer.tell() for name, observer in observers.items()}
    warnings = []
    for flow in plan.intent.traffic:
        # the other facts need no keys
        if flow.name in quic and flow.options.get("testcase"):
            # few runs have a test case, and the models of QUIC's workload are slow to import
            from mprun.captures.quic_decryption import DecryptionError, decrypt

            try:
                quic[flow.name] |= decrypt(run, target, flow)
            except DecryptionError as error:
                warnings.append(f"{flow.name}: {error}")
    zero_ns = agent.zero_ns or 0
    boot_ns = agent.boot_ns
    first_ns = conversion.first_ns
    return CaptureContent(
        packets=conversion.packets,
        first_ns=None if first_ns is None or boot_ns is None else first_ns - boot_ns - zero_ns,
        problem=problem,
        quic=quic,
        warnings=tuple(warnings),
    )


def _write(run: RunDirectory, parts: Sequence[str], conversion: PcapngConversion, file: BinaryIO) -> Iterator[bytes]:
    """Write the converted parts of a capture to a file, and yield what is written."""
    for number, part in enumerate(parts):
        if number == 0:
            with run.folder.open(part) as source:
                begun = conversion.begin(source.read(HEADER_BYTES))
            file.write(begun)
            yield begun
        for blocks in conversion.convert(run.pieces(part)):
            file.write(blocks)
            yield blocks


def find_observers(wanted: Capture, intent: Intent) -> dict[str, QuicObserver]:
    """Return an observer for each flow of QUIC to the captured host, by the flow's name.

    A capture that may lack packets, or parts of them, has none: its counts would be too small.
    """
    if wanted.snaplen or wanted.filter or wanted.link is not None or wanted.size_bytes is not None:
        return {}
    return {
        flow.name: QuicObserver(flow.endpoints.port, flow.server_addresses)
        for flow in intent.traffic
        if flow.protocol == "quic" and flow.destination == wanted.node and flow.endpoints.port is not None
    }


def _observe(chunks: Iterable[bytes], observers: Mapping[str, QuicObserver]) -> None:
    """Show each datagram of a capture in pcapng to the observers."""
    for frame in read_frames(chunks):
        datagram = read_datagram(frame.network_bytes)
        if datagram is not None:
            for observer in observers.values():
                observer.add(datagram)


def _parts(run: RunDirectory, target: str, wanted: Capture) -> list[str]:
    """Return the files of a capture, those with the oldest packets first.

    tcpdump writes a ring of files and overwrites the oldest, so the order of names is not the order of packets.
    """
    found = run.folder.find(f"pcap/{tcpdump.ring(wanted.name)}*")
    ring = [name for name in found if run.folder.size(name) > HEADER_BYTES]
    return sorted(ring, key=lambda name: _first_record(run, name)) or [target]


def _first_record(run: RunDirectory, name: str) -> tuple[int, int]:
    """Return the time of a file's first packet: seconds and nanoseconds."""
    with run.folder.open(name) as file:
        file.seek(HEADER_BYTES)
        record = file.read(RECORD_BYTES)
    return int.from_bytes(record[0:4], "little"), int.from_bytes(record[4:8], "little")


def _comment(wanted: Capture, plan: Plan, agent: AgentReport) -> str:
    """Return the comment of the file: the run's digest and seed, the place of the capture, and time zero."""
    where = f"node {wanted.node}" if wanted.link is None else f"node {wanted.node}, link {wanted.link}"
    texts = [f"mprun, run of digest {plan.digest}, seed {plan.seed}", where]
    if agent.zero_epoch_ns is not None:
        seconds, rest_ns = divmod(agent.zero_epoch_ns, 1_000_000_000)
        texts.append(f"time zero is {seconds}.{rest_ns:09d}")
    return "; ".join(texts)


def _interfaces(wanted: Capture, network: Network, numbers: Mapping[str, int]) -> dict[int, InterfaceDescription]:
    """Return the interfaces that the capture may contain, by the kernel's interface numbers."""
    ends = {end.name: (link, end) for link in network.links for end in link.ends if end.node == wanted.node}
    names = [name for name in numbers if wanted.link is None or (name in ends and ends[name][0].name == wanted.link)]
    return {numbers[name]: _interface(name, ends[name][0] if name in ends else None, wanted.node) for name in names}


def _interface(name: str, link: Link | None, node: str) -> InterfaceDescription:
    if link is None:
        return InterfaceDescription(name)
    peer = next((end.node for end in link.ends if end.node != node), node)
    ahead, back = (link.forward, link.reverse) if link.ends[0].node == node else (link.reverse, link.forward)
    return InterfaceDescription(
        name, link.name, f"{link.name}: {_say(describe(ahead, back, f'to {peer}', f'from {peer}'))}"
    )


def _say(lines: Sequence[str]) -> str:
    return ", ".join(line.strip() for line in lines) or "unshaped"
