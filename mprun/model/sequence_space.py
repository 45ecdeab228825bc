# SPDX-License-Identifier: Apache-2.0
"""Sequence space: the bytes of a stream that have been seen, and the first gap among them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right


class Seen:
    """The bytes of one stream that have been seen, as offsets from its beginning.

    front: the first byte that has not been seen. Beyond `front` lie ranges of seen bytes, few and in order.
    """

    def __init__(self, front: int = 0) -> None:
        self.front = front
        self._begins: list[int] = []
        self._ends: list[int] = []

    @property
    def is_whole(self) -> bool:
        """Return whether the seen bytes have no gap."""
        return not self._begins

    def add(self, begin: int, end: int) -> int:
        """Add the bytes from `begin` to before `end`. Return the number of new bytes."""
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
        # ranges that touch the new range are merged with it
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
