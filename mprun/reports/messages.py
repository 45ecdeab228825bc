# SPDX-License-Identifier: Apache-2.0
"""The errors, failures and warnings of a sweep's runs, joined: messages that differ in numbers only become one.

Numbers within a name, an address or a version are no measured values, and keep messages apart.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import zip_longest

from mprun.model.run_summary import KINDS, Kind
from mprun.model.sweep_files import CellSummary
from mprun.storage.sweep_directory import SweepDirectory

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


def join_messages(sweep: SweepDirectory, cells: Sequence[CellSummary]) -> dict[Kind, list[str]]:
    """Return the messages of each kind, the most frequent first: `4 of 12 runs: path0 was full for 12 to 31 %`.

    cells: those of the sweep's summary. The runs are read only if one of them has a message.
    """
    if not any(cell.told.of(kind) for cell in cells for kind in KINDS):
        return {kind: [] for kind in KINDS}
    runs = [kept.summary for kept in sweep.runs()]
    found = {kind: join_texts([run.messages(kind) for run in runs]) for kind in KINDS}
    return {kind: [f"{count} of {len(runs)} runs: {text}" for count, text in texts] for kind, texts in found.items()}
