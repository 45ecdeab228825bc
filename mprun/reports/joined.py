# SPDX-License-Identifier: Apache-2.0
"""Join the messages of many runs: messages that differ in numbers only become one with ranges. Pure.

Numbers within a name, an address or a version are no measured values, and keep messages apart.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import zip_longest

_NUMBER = re.compile(r"(?<![\w.:/-])\d+(?:\.\d+)?(?![\w:/]|[.-]\w)")


def join_texts(runs: Sequence[Sequence[str]]) -> list[tuple[int, str]]:
    """Return each message with the number of runs that have it, the most frequent first. runs: the messages of each.

    `path0 was full for 12 % of the time` and the same with 31 % give `path0 was full for 12 to 31 % of the time`.
    """
    owners: dict[tuple[str, ...], set[int]] = {}
    numbers: dict[tuple[str, ...], list[list[str]]] = {}
    for n, texts in enumerate(runs):
        for text in texts:
            key = tuple(_NUMBER.split(text))
            owners.setdefault(key, set()).add(n)
            numbers.setdefault(key, []).append(_NUMBER.findall(text))
    found = [(len(owners[key]), _write(key, numbers[key])) for key in owners]
    return sorted(found, key=lambda one: -one[0])


def _write(words: Sequence[str], numbers: Sequence[Sequence[str]]) -> str:
    """Return the words with the ranges of the numbers between them."""
    ranges = []
    for values in zip(*numbers, strict=True):
        low, high = min(values, key=float), max(values, key=float)
        ranges.append(low if float(low) == float(high) else f"{low} to {high}")
    return "".join(word + span for word, span in zip_longest(words, ranges, fillvalue=""))
