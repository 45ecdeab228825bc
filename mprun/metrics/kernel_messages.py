# SPDX-License-Identifier: Apache-2.0
"""The log of a run's experiment kernel: its bugs, and its messages as a table. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from mprun.kernel.log import KernelMessage, count_lost, find_reports, find_traces
from mprun.metrics.readings import Readings
from mprun.metrics.rows import ColumnKind, Rows

if TYPE_CHECKING:
    import polars

TABLE = "kernel_log"
COMMAND = "`mprun show --kernel-log`"
OF_LOG: Mapping[str, ColumnKind] = {
    **{"time_ns": "whole", "sequence": "whole", "level": "text"},
    **{"origin": "text", "text": "text"},
}


def judge_log(messages: Sequence[KernelMessage], zero_ns: int | None) -> Readings:
    """Return the bugs that a run's kernel reported, and warnings. zero_ns: time zero, from the boot, if known."""
    return Readings(failures=tuple(_tell_reports(messages, zero_ns)), warnings=tuple(_doubt_log(messages)))


def _tell_reports(messages: Sequence[KernelMessage], zero_ns: int | None) -> Iterator[str]:
    """Yield the bugs that the kernel reported.

    Programs can write to the console too. So its lines count only if the kernel overwrote a part of its log.
    """
    if not count_lost(messages):
        messages = [message for message in messages if message.sequence is not None]
    reports = find_reports(messages)
    if not reports:
        return
    first = reports[0]
    count = "a fault" if len(reports) == 1 else f"{len(reports)} faults, the first"
    at = ""
    if first.at_us is not None:
        # a run that did not come to time zero has only the time from its boot
        at = f" at {first.at_us / 1e6:.2f} s after boot"
        if zero_ns is not None:
            at = f" at {(first.at_us * 1000 - zero_ns) / 1e9:.2f} s"
    yield f"the kernel reported {count}{at}: {first.describe()}; see {COMMAND}"


def _doubt_log(messages: Sequence[KernelMessage]) -> Iterator[str]:
    late = [message for message in messages if message.sequence is None]
    if not count_lost(messages) and (reports := find_reports(late)):
        yield f"only the kernel's console, to which programs can write too, has {reports[0].describe()}; see {COMMAND}"
    traces = find_traces(messages)
    if traces:
        more = f", and {len(traces) - 1} more" if len(traces) > 1 else ""
        yield f"the kernel printed a stack trace: {traces[0].strip()}{more}; see {COMMAND}"
    if lost := count_lost(messages):
        yield (
            f"the kernel's log is incomplete: {lost} messages were overwritten, of which only those of level 'warn' "
            "and worse are left: print less"
        )


def tabulate_log(messages: Iterable[KernelMessage], zero_ns: int | None) -> dict[str, polars.DataFrame]:
    """Return the table of a log; none without messages."""
    rows = Rows(OF_LOG)
    for one in messages:
        at_ns = None if one.at_us is None else one.at_us * 1000 - (zero_ns or 0)
        rows.add((at_ns, one.sequence, one.level, one.origin, one.text))
    frame = rows.frame()
    return {TABLE: frame} if len(frame) else {}
