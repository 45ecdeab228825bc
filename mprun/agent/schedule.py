# SPDX-License-Identifier: Apache-2.0
"""Decide when the processes of flows and the samples are due.

A flow is due at its time, or after another flow or group has started or ended. A flow has started when its first
process was due. It has ended when its last process has ended. The same holds for a group of flows.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

# The series of how much data of MPTCP connections has arrived at the receivers.
PROGRESS = "progress"


class Sampling:
    """The times of the next sample of each series: multiples of its interval from time zero on, in ns.

    Times that have passed without a sample are left out. watches: the spans in which `progress` is sampled.
    """

    def __init__(self, intervals_ns: dict[str, int], zero_ns: int, watches: list[tuple[int, int]]) -> None:
        self._intervals_ns = intervals_ns
        self._due_ns = {series: zero_ns + interval for series, interval in intervals_ns.items()}
        self._spans_ns = [(zero_ns + begin, zero_ns + end) for begin, end in watches]
        self._into_spans()

    def next_ns(self) -> int:
        """Return the time of the next sample."""
        return min(self._due_ns.values())

    def take_due(self, now_ns: int) -> list[str]:
        """Return the series that are due."""
        due = [series for series, moment in self._due_ns.items() if moment <= now_ns]
        for series in due:
            interval = self._intervals_ns[series]
            self._due_ns[series] += interval * (1 + (now_ns - self._due_ns[series]) // interval)
        self._into_spans()
        return due

    def _into_spans(self) -> None:
        """Move the next `progress` sample into a span, or drop it if no span is left."""
        due_ns = self._due_ns.pop(PROGRESS, None)
        later = [max(due_ns, begin) for begin, end in self._spans_ns if due_ns is not None and due_ns <= end]
        if later:
            self._due_ns[PROGRESS] = later[0]


class FlowSchedule:
    """The flows of a plan that have not started yet. Times are ns on the machine's clock."""

    def __init__(self, flows: list[dict[str, Any]], zero_ns: int) -> None:
        timed = (planned for planned in flows if not planned["after"])
        self._waiting: list[tuple[int, dict[str, Any]]] = [(zero_ns + planned["at_ns"], planned) for planned in timed]
        self._waiting.sort(key=lambda due: due[0])
        self._dependent = [planned for planned in flows if planned["after"]]
        self._unfinished = Counter(name for planned in flows for name in planned["flows"])
        self._started: set[str] = set()

    @property
    def is_empty(self) -> bool:
        """True if no process is due any more. Processes that depend on an event that never happened do not count."""
        return not self._waiting

    def next_ns(self) -> list[int]:
        """Return the time of the next process as a list; empty if no time is known."""
        return [self._waiting[0][0]] if self._waiting else []

    def take_due(self, now_ns: int) -> tuple[int, dict[str, Any]] | None:
        """Return the first process that is due, with its due time; None if none is due."""
        if not self._waiting or self._waiting[0][0] > now_ns:
            return None
        due_ns, planned = self._waiting.pop(0)
        for name in planned["flows"]:
            if name not in self._started:
                self._started.add(name)
                self._release((name, "start"), due_ns)
        return due_ns, planned

    def note_end(self, planned: dict[str, Any], at_ns: int) -> None:
        """Record that a process has ended. This may make other flows due."""
        for name in planned["flows"]:
            self._unfinished[name] -= 1
            if not self._unfinished[name]:
                self._release((name, "end"), at_ns)

    def _release(self, moment: tuple[str, str], at_ns: int) -> None:
        for planned in [one for one in self._dependent if tuple(one["after"]) == moment]:
            self._dependent.remove(planned)
            self._waiting.append((at_ns + planned["at_ns"], planned))
        self._waiting.sort(key=lambda due: due[0])
