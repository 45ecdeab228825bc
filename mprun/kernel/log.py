# SPDX-License-Identifier: Apache-2.0
"""The messages of a kernel: the records of /dev/kmsg, the lines of a console, and the reports of bugs in them. Pure.

A record has the form of Documentation/ABI/testing/dev-kmsg: `PRIORITY,SEQUENCE,MICROSECONDS,FLAGS;TEXT`. The console
has only messages of level `warn` and worse (`mprun.engines.guest`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from mprun.model.frozen import Frozen
from mprun.safety.text import printable

# syslog(2), by number, with the names of dmesg(1)
LEVELS = ("emerg", "alert", "crit", "err", "warn", "notice", "info", "debug")
Origin = Literal["kernel", "program"]

_CONSOLE_LINE = re.compile(r"\[\s*(\d+)\.(\d{6})\] (.*)")
_ESCAPE = re.compile(rb"\\x([0-9a-f]{2})")
# The first line of a report.
_FIRST = re.compile(
    r"WARNING: |BUG: |BUG \S+ \(|kernel BUG at |watchdog: BUG: |UBSAN: |kmemleak: unreferenced object |"
    r"(rcu: )?INFO: rcu\S* .*stall|INFO: (possible |inconsistent |suspicious |"
    r"task \S+ blocked for more|trying to register non-static key)"
)
# Lines that a report has after its first line. Without a first line, they are the first line.
_LATER = re.compile(
    r"Oops\b|refcount_t: |general protection fault|Internal error: |Unable to handle kernel |kmemleak: \d+ new "
)
# First lines with only a place. The text of the warning comes before or after them.
_WITH_DETAIL = re.compile(r"WARNING: (CPU: |\S+:\d+ at )")
_PANIC = "Kernel panic - not syncing"
_END, _TRACE = "---[ end ", "Call Trace:"
# Lines with which the state of the CPU begins, after the message of a report.
_STATE = re.compile(r"---|Kernel panic|CPU: |Modules linked in|Stack:|Call Trace:|RIP: |Tainted: |\s")
_POSITIONS = (
    re.compile(r" at (?:\S+:\d+ )?([A-Za-z_][\w.]*)\+0x"),
    re.compile(r" in ([A-Za-z_][\w.]*)\+0x"),
    re.compile(r" at \S+/([A-Za-z_]\w*)\(\)!"),
)
_FRAME = re.compile(r"(?:kmemleak:)?\s+(?:\[<[0-9a-f]+>\] )?(?:\? )?([A-Za-z_][\w.]*)\+0x[0-9a-f]+/0x")
# Functions that report a bug and are not its place.
_REPORTERS = re.compile(
    r"dump_stack|show_stack|_?printk|__?warn|warn_slowpath|refcount_warn_saturate|print_|kasan_|__asan_|check_|mark_lock|"
    r"__?lock_acquire|lock_acquire|validate_chain|lockdep_|__might_|um_set_signals|(?:un)?block_signals|report_bug|"
    r"save_stack_trace|stack_trace_save|set_track_prepare|__alloc_object|__create_object|kmemleak_|__kmalloc|"
    r"kmem_cache_alloc"
)


class KernelMessage(Frozen):
    """A message of a kernel's log.

    - at_us: the time since boot, in ticks of the kernel's clock (10 ms in an experiment kernel); None if unknown.
    - level: a name of LEVELS; None for a line of the console.
    - origin: `program` if a program wrote the message to /dev/kmsg. A line of the console has none.
    - sequence: its number in the log; None for a line of the console.
    """

    at_us: int | None
    text: str
    level: str | None = None
    origin: Origin | None = None
    sequence: int | None = None


class KernelReport(Frozen):
    """A report of a bug: its first line, the time of this line, and the function. `detail`: the line that follows."""

    at_us: int | None
    text: str
    function: str | None = None
    detail: str | None = None

    def describe(self) -> str:
        """Return the report on one line, without its time."""
        where = f" in {self.function}()" if self.function else ""
        return f'"{self.text}{f": {self.detail}" if self.detail else ""}"{where}'


def read_records(records: bytes) -> list[KernelMessage]:
    """Return the messages of records of /dev/kmsg. A text of several lines has a message for each line.

    Raises ValueError for a text that is no record.
    """
    found = []
    for line in records.split(b"\n"):
        # a line with a space is one of the record's properties
        if not line or line.startswith(b" "):
            continue
        head, semicolon, escaped = line.partition(b";")
        fields = head.split(b",")
        if not semicolon or len(fields) < 3:
            raise ValueError("a record of the kernel's log is not of its form")
        priority, sequence, at_us = map(int, fields[:3])
        text = _ESCAPE.sub(lambda code: bytes([int(code[1], 16)]), escaped).decode(errors="replace")
        # only the kernel itself can write with facility 0
        origin: Origin = "program" if priority >> 3 else "kernel"
        found += [
            KernelMessage(at_us, part, LEVELS[priority & 7], origin, sequence) for part in printable(text).split("\n")
        ]
    return found


def read_console(text: str) -> list[KernelMessage]:
    """Return the lines of a console. Lines of the kernel have a time (printk.time), and other lines have none."""
    found = []
    for line in printable(text).removesuffix("\n").split("\n"):
        match = _CONSOLE_LINE.match(line)
        at_us = int(match[1]) * 1_000_000 + int(match[2]) if match else None
        found.append(KernelMessage(at_us, match[3] if match else line))
    return found


def count_lost(records: Sequence[KernelMessage]) -> int:
    """Return the number of records that the kernel had overwritten before the log was read."""
    numbers = {record.sequence for record in records if record.sequence is not None}
    return max(numbers) + 1 - len(numbers) if numbers else 0


def complete(records: Sequence[KernelMessage], console: Iterable[KernelMessage]) -> list[KernelMessage]:
    """Return a log with the messages that only the console has: overwritten ones, and those after the log was read."""
    known = Counter((record.at_us, record.text) for record in records)
    others = []
    for line in console:
        known[line.at_us, line.text] -= 1
        if line.at_us is not None and known[line.at_us, line.text] < 0:
            others.append(line)
    if not records:
        return others
    # nothing is before the first record of all
    began_us = (records[0].at_us or 0) if records[0].sequence else -1
    early = [line for line in others if (line.at_us or 0) <= began_us]
    late = [line for line in others if (line.at_us or 0) > began_us]
    return [*early, *records, *late]


def find_reports(messages: Iterable[KernelMessage]) -> list[KernelReport]:
    """Return the reports of a log in their order: warnings, bugs, bugs of locks and of memory, stalls.

    Messages that programs wrote are no reports.
    """
    return [_read_report(part) for is_report, part in _split(messages) if is_report]


def find_traces(messages: Iterable[KernelMessage]) -> list[str]:
    """Return the message before each stack trace that belongs to no report, such as that of a lack of memory."""
    found = []
    cause = _TRACE
    for is_report, (message, *_) in _split(messages):
        if is_report:
            continue
        if message.text.startswith(_TRACE):
            found.append(cause)
        elif not _STATE.match(message.text):
            cause = message.text
    return found


def _split(messages: Iterable[KernelMessage]) -> Iterator[tuple[bool, list[KernelMessage]]]:
    """Yield the kernel's own messages in parts: each report whole, and each other message alone.

    A report ends with its end mark, or with its first stack trace.
    """
    part: list[KernelMessage] = []
    is_traced = has_reported = False
    for message in messages:
        text = message.text
        if message.origin == "program":
            continue
        is_first = _FIRST.match(text) is not None
        is_end = text.startswith(_END)
        if part and ((is_first and not _is_prefix(part)) or (is_traced and not is_end and not _STATE.match(text))):
            yield True, part
            part = []
        if not part and not is_first and not _LATER.match(text) and (has_reported or not text.startswith(_PANIC)):
            yield False, [message]
            continue
        is_traced = (is_traced and bool(part)) or text.startswith(_TRACE)
        part.append(message)
        has_reported = True
        if is_end:
            yield True, part
            part = []
    if part:
        yield True, part


def _is_prefix(part: Sequence[KernelMessage]) -> bool:
    """Return True if a part is only the text of a warning whose line with the place comes next."""
    return len(part) == 1 and _LATER.match(part[0].text) is not None


def _read_report(part: Sequence[KernelMessage]) -> KernelReport:
    first = next((message for message in part[:2] if _FIRST.match(message.text)), part[0])
    other = next((message for message in part[:2] if message is not first and message.at_us == first.at_us), None)
    has_detail = other is not None and _WITH_DETAIL.match(first.text) and not _STATE.match(other.text)
    detail = other.text.strip() if other and has_detail else None
    return KernelReport(first.at_us, first.text.strip(), _find_function(first.text, part), detail)


def _find_function(text: str, part: Sequence[KernelMessage]) -> str | None:
    """Return the function in the first line of a report, or the first one in its stack trace that reports no bug."""
    named = next((match[1] for position in _POSITIONS if (match := position.search(text))), None)
    if named is not None and not _REPORTERS.match(named):
        return named
    texts = [message.text for message in part]
    traced = texts[texts.index(_TRACE) :] if _TRACE in texts else texts
    frames = [match[1] for text in traced if (match := _FRAME.match(text))]
    after = frames[frames.index(named) + 1 :] if named in frames else frames
    return next((frame for frame in after if not _REPORTERS.match(frame)), named)
