# SPDX-License-Identifier: Apache-2.0
"""Record the trace events of an experiment kernel (Documentation/trace/events.rst).

The kernel records events into a buffer without any system call, so no simulated time passes. The agent reads the
buffer at the end. Files are opened, read and written by single system calls. Python's own files make more calls, which
could let a moment of simulated time pass.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress

from mprun.agent import namespace

# The place that the kernel gives to tracefs.
FOLDER = "/sys/kernel/tracing"
# The event of trace_printk(). The kernel always records it, and it cannot be switched.
PRINT = "ftrace:print"
# The size of the kernel's buffer. The oldest events are overwritten when it is full.
BUFFER_KIB = 32 << 10
# A page of the buffer begins with its time, and with the length of its events in the lower bits of a word
# (struct buffer_data_page, RB_MISSED_EVENTS).
_HEAD_BYTES, _LENGTH_AT, _LENGTH_BITS = 16, 8, 0xFFFFF
_PAGE_BYTES = 4096
_BLOCK = 1 << 16


class TraceEventError(Exception):
    """A request for an event that the kernel does not have."""


class TraceEvents:
    """The trace events of the kernel: prepared, then recorded, then read."""

    def __init__(self, tracepoints: Sequence[str]) -> None:
        """Prepare the recording of events, before any program of the run starts. Raises TraceEventError.

        Tracefs is mounted only meanwhile. What the agent needs later are three open files. The kernel does not let
        programs of the run open these files (`kernel/src/mprun_seal.c`).

        tracepoints: names of events such as `tcp:tcp_probe`, or patterns such as `mptcp:*`.
        """
        try:
            namespace.call("mount", b"tracefs", FOLDER.encode(), b"tracefs", 0, None)
        except OSError as error:
            raise TraceEventError(f"this kernel has no trace events ({error})") from None
        try:
            self._switch = os.open(f"{FOLDER}/tracing_on", os.O_WRONLY)
            os.write(self._switch, b"0")
            _write("buffer_size_kb", str(BUFFER_KIB))
            for one in tracepoints:
                if one != PRINT:
                    _switch_on(one)
            events = [*_read("set_event").decode().split(), *({PRINT} & set(tracepoints))]
            self._formats = {event: _read(f"events/{event.replace(':', '/')}/format").decode() for event in events}
            self._counts = os.open(f"{FOLDER}/per_cpu/cpu0/stats", os.O_RDONLY)
            self._pages = os.open(f"{FOLDER}/per_cpu/cpu0/trace_pipe_raw", os.O_RDONLY | os.O_NONBLOCK)
        finally:
            namespace.call("umount2", FOLDER.encode(), namespace.MNT_DETACH)

    def begin(self) -> None:
        """Begin to record."""
        os.write(self._switch, b"1")

    def end(self) -> tuple[dict[str, str], int, list[bytes]]:
        """End the recording. Return the formats by event, the number of lost events, and the pages of the buffer."""
        os.write(self._switch, b"0")
        os.close(self._switch)
        counts = dict(line.split(b":", 1) for line in _read_all(self._counts).splitlines() if b":" in line)
        lost = int(counts[b"overrun"]) + int(counts[b"dropped events"])
        pages = []
        with suppress(BlockingIOError):
            while page := os.read(self._pages, _PAGE_BYTES):
                length = int.from_bytes(page[_LENGTH_AT:_HEAD_BYTES], "little") & _LENGTH_BITS
                pages.append(page[: _HEAD_BYTES + length])
        os.close(self._pages)
        return self._formats, lost, pages


def _switch_on(tracepoint: str) -> None:
    try:
        _write("set_event", tracepoint)
    except OSError:
        known = _read("available_events").decode().split()
        raise TraceEventError(f"tracepoints: {explain_missing(tracepoint, [*known, PRINT])}") from None


def _read(name: str) -> bytes:
    return _read_all(os.open(f"{FOLDER}/{name}", os.O_RDONLY))


def _read_all(file: int) -> bytes:
    """Return the content of an open file, and close it."""
    parts = []
    while block := os.read(file, _BLOCK):
        parts.append(block)
    os.close(file)
    return b"".join(parts)


def _write(name: str, text: str) -> None:
    # a file that is truncated when it is opened would switch all events off
    file = os.open(f"{FOLDER}/{name}", os.O_WRONLY)
    try:
        os.write(file, text.encode())
    finally:
        os.close(file)


def explain_missing(tracepoint: str, known: Sequence[str]) -> str:
    """Return why no event has a name or pattern, with the nearest names."""
    # only a run that fails needs it, and the import is slow
    from difflib import get_close_matches

    group = tracepoint.partition(":")[0]
    near = get_close_matches(tracepoint, known, n=3)
    if "*" in tracepoint or not near:
        groups = sorted({event.partition(":")[0] for event in known})
        near = near or [f"{one}:*" for one in get_close_matches(group, groups, n=3, cutoff=0.5)]
        in_group = [event for event in known if event.partition(":")[0] == group]
        near = in_group[:8] or near or [f"{one}:*" for one in groups]
    return f"this kernel has no event '{tracepoint}': did you mean {' or '.join(near)}?"
