# SPDX-License-Identifier: Apache-2.0
"""Record the trace events of an experiment kernel (Documentation/trace/events.rst).

The kernel records events into a buffer without any system call, so no simulated time passes. The agent reads the
buffer at the end.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress

from mprun.agent import kernel_file, namespace
from mprun.agent.readback import BuildError

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


class TraceEvents:
    """The trace events of the kernel: prepared, then recorded, then read."""

    def __init__(self, tracepoints: Sequence[str]) -> None:
        """Prepare the recording of events, before any program of the run starts. Raises BuildError.

        Tracefs is mounted only meanwhile. What the agent needs later are three open files. The kernel does not let
        programs of the run open these files (`kernel/src/mprun_seal.c`).

        tracepoints: names of events such as `tcp:tcp_probe`, or patterns such as `mptcp:*`.
        """
        try:
            namespace.call("mount", b"tracefs", FOLDER.encode(), b"tracefs", 0, None)
        except OSError as error:
            raise BuildError(f"this kernel has no trace events ({error})") from None
        try:
            self._switch = os.open(f"{FOLDER}/tracing_on", os.O_WRONLY)
            os.write(self._switch, b"0")
            kernel_file.write(f"{FOLDER}/buffer_size_kb", str(BUFFER_KIB))
            for one in tracepoints:
                if one != PRINT:
                    _switch_on(one)
            events = [*kernel_file.read(f"{FOLDER}/set_event").split(), *({PRINT} & set(tracepoints))]
            paths = {event: f"{FOLDER}/events/{event.replace(':', '/')}/format" for event in events}
            self._formats = {event: kernel_file.read(path) for event, path in paths.items()}
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
        counts = dict(line.split(b":", 1) for line in kernel_file.read_open(self._counts).splitlines() if b":" in line)
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
        # a file that is truncated when it is opened would switch all events off
        kernel_file.write(f"{FOLDER}/set_event", tracepoint)
    except OSError:
        known = kernel_file.read(f"{FOLDER}/available_events").split()
        raise BuildError(f"tracepoints: {explain_missing(tracepoint, [*known, PRINT])}") from None


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
