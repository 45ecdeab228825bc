# SPDX-License-Identifier: Apache-2.0
"""Sequence space: which bytes of a stream have been seen, and how far without a gap."""

from __future__ import annotations

from bisect import bisect_left, bisect_right


class Seen:
    """The bytes of one stream that have been seen, as offsets from its beginning.

    front: how far there is no gap. Beyond it there are islands, few and in order.
    """

    def __init__(self, front: int = 0) -> None:
        self.front = front
        self._begins: list[int] = []
        self._ends: list[int] = []

    @property
    def is_whole(self) -> bool:
        """Whether there is no gap."""
        return not self._begins

    def add(self, begin: int, end: int) -> int:
        """Take in the bytes from `begin` to before `end`; how many of them are new."""
        front = self.front
        if begin <= front and not self._begins:
            if end <= front:
                return 0
            self.front = end
            return end - front
        begin = max(begin, front)
        if end <= begin:
            return 0
        begins, ends = self._begins, self._ends
        # the islands that touch the new one become one with it
        low, high = bisect_left(ends, begin), bisect_right(begins, end)
        known = sum(min(end, ends[n]) - max(begin, begins[n]) for n in range(low, high))
        if low < high:
            merged_begin, merged_end = min(begin, begins[low]), max(end, ends[high - 1])
        else:
            merged_begin, merged_end = begin, end
        begins[low:high], ends[low:high] = [merged_begin], [merged_end]
        while begins and begins[0] <= self.front:
            self.front = max(self.front, ends.pop(0))
            begins.pop(0)
        return end - begin - known
