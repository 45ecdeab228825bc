# SPDX-License-Identifier: Apache-2.0
"""Find the first packet and trace event, and the counters, in which two runs of equal inputs diverge.

In simulated time, equal inputs, kernels and programs give equal runs. So the first packet that differs shows the first
effect of a change in the kernel or in a program.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import zip_longest
from typing import Any, NamedTuple

from mprun.captures.pcapng import CapturedFrame, read_frames, to_pcap
from mprun.captures.tshark import decoding
from mprun.metrics.comparison import ComparedMetric
from mprun.model.frozen import Frozen
from mprun.model.trace_event_name import event_of
from mprun.model.units import NS_PER_S
from mprun.reports.metrics import choose_main
from mprun.safety.text import plain
from mprun.storage.damage import reading
from mprun.storage.run_directory import RunDirectory

# The most lines of each packet, and the most counters.
MOST_LINES = 12
MOST_COUNTERS = 5
# Of a dissected packet: without times, and with the numbers that are in the packet.
_DISSECT = ("-n", "-V", "-r", "-", "-o", "tcp.relative_sequence_numbers:FALSE")


class DifferentPacket(Frozen):
    """The first packet in which two runs differ. A value is None if the run's capture has ended before.

    - capture: its file name.
    - number: from 1 on, as Wireshark counts.
    - at_ns: its time in each run, from time zero.
    - lines: the fields that only the packet of each run has, as tshark prints them; none if only the times differ.
    """

    capture: str
    number: int
    at_ns: tuple[int | None, int | None]
    lines: tuple[tuple[str, ...], tuple[str, ...]]


class DifferentEvent(Frozen):
    """The first trace event in which two runs differ.

    - at_ns: its time from time zero, in the run that has it first.
    - fields: the values that differ in each run, by column; None if the run's table has ended before.
    """

    event: str
    at_ns: int
    fields: tuple[dict[str, Any] | None, dict[str, Any] | None]


class DifferentCounter(Frozen):
    """A counter of the kernel (nstat) that grew by another number during the runs. None: the run does not have it."""

    host: str
    name: str
    values: tuple[int | None, int | None]


class Divergence(Frozen):
    """The divergence of two runs. counters: those that only one run has first, then by the size of the change."""

    packet: DifferentPacket | None
    event: DifferentEvent | None
    counters: tuple[DifferentCounter, ...]

    def tell(self, run: str, compared: Sequence[ComparedMetric]) -> Iterator[str]:
        """Yield lines for people. run: the first run, whose kernel can be stopped there. compared: of both runs."""
        yield _say_changed(compared)
        if self.packet is not None:
            yield from tell_packet(self.packet)
            if self.packet.at_ns[0] is not None:
                yield (f"  to stop there: mprun debug {run} --packet {plain(self.packet.capture)}:{self.packet.number}")
        if self.event is not None:
            yield f"first trace event: {plain(self.event.event)} at {_say_time(self.event.at_ns)}: " + " -> ".join(
                "none" if one is None else ", ".join(f"{name} {plain(str(value))}" for name, value in one.items())
                for one in self.event.fields
            )
        told = []
        for one in self.counters[:MOST_COUNTERS]:
            change = " -> ".join("none" if value is None else str(value) for value in one.values)
            told.append(f"{plain(one.host)} {plain(one.name)} {change}")
        if told:
            more = len(self.counters) - len(told)
            yield f"counters: {', '.join(told)}" + (f", and {more} more" if more else "")


def tell_packet(packet: DifferentPacket) -> Iterator[str]:
    """Yield lines for people: the capture, number and times of a packet, and the fields that differ."""
    ours, theirs = packet.at_ns
    when = " -> ".join("no packet" if at_ns is None else _say_time(at_ns) for at_ns in dict.fromkeys((ours, theirs)))
    yield f"first packet: {plain(packet.capture)}:{packet.number} at {when}"
    for sign, lines in zip("-+", packet.lines, strict=True):
        yield from (f"  {sign} {plain(line)}" for line in lines)


def _say_time(at_ns: int) -> str:
    return f"{at_ns / NS_PER_S:.9f} s"


def are_equal_inputs(one: RunDirectory, other: RunDirectory) -> bool:
    """Return whether two runs have equal inputs and seeds and ran in simulated time, so that chance changes nothing."""
    return one.digest == other.digest and not any(run.environment().real_time for run in (one, other))


def _say_changed(compared: Sequence[ComparedMetric]) -> str:
    """Return the number of metrics that two runs of equal inputs have different values of, and the largest change."""
    changed = [one for one in compared if one.tendency != "same"]
    if not changed:
        return "equal inputs in simulated time: no metric changed"
    main = choose_main([one.metric for one in changed], ())
    most = max((one for one in changed if one.metric in main), key=lambda one: abs(one.change or 0.0))
    by = "" if most.change is None else f", most {plain(most.metric)} by {most.change:+.3%}"
    many = "s" if len(changed) > 1 else ""
    return (
        f"equal inputs in simulated time: {len(changed)} metric{many} changed{by}; the size of the effect under other "
        "conditions needs repetitions"
    )


def find_divergence(one: RunDirectory, other: RunDirectory) -> Divergence:
    """Return where two runs diverge, as far as both have captures and tables. Raises MprunError."""
    return Divergence(find_packet(one, other), find_event(one, other), tuple(find_counters(one, other)))


class _TimedFrame(NamedTuple):
    """A packet and its time from time zero. The frame's own time is 0."""

    at_ns: int
    frame: CapturedFrame


def find_packet(one: RunDirectory, other: RunDirectory) -> DifferentPacket | None:
    """Return the earliest packet that differs in any capture of both runs; None if there is none. Raises MprunError."""
    captures, theirs = one.captures(), other.captures()
    found: list[tuple[int, str, int, tuple[_TimedFrame | None, _TimedFrame | None]]] = []
    for name in sorted(captures.keys() & theirs.keys()):
        with _timed_frames(one, captures[name]) as ours, _timed_frames(other, theirs[name]) as others:
            pairs = enumerate(zip_longest(ours, others), 1)
            number, pair = next(((n, pair) for n, pair in pairs if pair[0] != pair[1]), (0, (None, None)))
        if number:
            at_ns = min(told.at_ns for told in pair if told is not None)
            found.append((at_ns, captures[name].rpartition("/")[2], number, pair))
    if not found:
        return None
    _, capture, number, (a, b) = min(found, key=lambda each: each[:3])
    fields: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    if a is not None and b is not None and a.frame != b.frame and shutil.which("tshark") is not None:
        options = decoding(one.plan().intent.traffic)
        first, second = list(_dissect(a.frame, options)), list(_dissect(b.frame, options))
        fields = tuple(_only(first, second)), tuple(_only(second, first))
    return DifferentPacket(capture, number, (a and a.at_ns, b and b.at_ns), fields)


@contextmanager
def _timed_frames(run: RunDirectory, file: str) -> Iterator[Iterator[_TimedFrame]]:
    """Yield the packets of a capture with their times from time zero."""
    zero_ns = run.agent_report().zero_epoch_ns or 0
    with reading(run.path / file):
        frames = read_frames(run.pieces(file))
        yield (_TimedFrame(frame.at_ns - zero_ns, replace(frame, at_ns=0)) for frame in frames)


def _only(ours: Sequence[str], theirs: Sequence[str]) -> list[str]:
    return [line for line in ours if line not in theirs][:MOST_LINES]


def _dissect(frame: CapturedFrame, options: Sequence[str]) -> Iterator[str]:
    """Yield each field of a packet, without what tshark computes of it, in brackets."""
    argv = ["tshark", *_DISSECT, *options]
    done = subprocess.run(argv, input=to_pcap(frame), capture_output=True, check=False)
    is_header = True
    for line in done.stdout.decode(errors="replace").splitlines():
        if not line.startswith(" "):
            # those of the frame are facts about the capture
            is_header = line.startswith("Frame ")
        elif not is_header and not line.lstrip().startswith("[") and "Checksum" not in line:
            # the value of a bit has the other bits as dots before it
            yield line.rpartition(" = ")[2].strip()


def find_event(one: RunDirectory, other: RunDirectory) -> DifferentEvent | None:
    """Return the earliest trace event that differs in any table of both runs; None if there is none."""
    theirs = dict(other.tables())
    found = []
    for table, frame in one.tables():
        event = event_of(table)
        if event is None or table not in theirs:
            continue
        pairs = zip_longest(frame.collect().iter_rows(named=True), theirs[table].collect().iter_rows(named=True))
        pair = next((pair for pair in pairs if pair[0] != pair[1]), None)
        if pair is not None:
            at_ns = min(row["time_ns"] for row in pair if row is not None)
            found.append(DifferentEvent(event, at_ns, _find_changed(*pair)))
    return min(found, key=lambda each: each.at_ns, default=None)


def _find_changed(
    one: dict[str, Any] | None, other: dict[str, Any] | None
) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    if one is None or other is None:
        return one, other
    names = [name for name in one if one[name] != other.get(name)]
    return {name: one[name] for name in names}, {name: other.get(name) for name in names}


def find_counters(one: RunDirectory, other: RunDirectory) -> list[DifferentCounter]:
    """Return the counters that grew by another number: first those that one run has not counted at all."""
    first, second = (_read_counters(run) for run in (one, other))
    found = [
        DifferentCounter(*key, (first.get(key), second.get(key)))
        for key in sorted(first | second)
        if first.get(key) != second.get(key)
    ]
    return sorted(found, key=lambda each: -_share(*each.values))


def _share(one: int | None, other: int | None) -> float:
    values = (one or 0, other or 0)
    return abs(values[0] - values[1]) / max(map(abs, values), default=0) if any(values) else 0.0


def _read_counters(run: RunDirectory) -> dict[tuple[str, str], int]:
    return {(row["host"], row["name"]): row["value"] for row in run.rows("counters")}
