# SPDX-License-Identifier: Apache-2.0
"""The errors, failures and warnings of a sweep's runs, joined: messages that differ in numbers only become one.

Numbers within a name, an address, a version or quotes are no measured values, and keep messages apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise, zip_longest

from mprun.model.run_summary import KINDS, Kind
from mprun.model.scalar import spell_values
from mprun.model.sweep_files import CellSummary
from mprun.storage.sweep_directory import SweepDirectory

# The number of cells that a message names.
MOST_CELLS = 2
# Of each kind, the most messages that are shown.
MOST_MESSAGES = 8
# What stands in quotes, or the group of a number. An apostrophe within or behind a word is no quote.
_NUMBER = re.compile(r"""(?<!\w)(?:'[^'\n]*'|"[^"\n]*"|`[^`\n]*`)|((?<![\w.:/-])\d+(?:\.\d+)?(?![\w:/]|[.-]\w))""")


def join_texts(runs: Sequence[Sequence[str]]) -> list[tuple[list[int], str]]:
    """Return each message with the runs that have it, the most frequent first. runs: the messages of each.

    `path0 was full for 12 % of the time` and the same with 31 % give `path0 was full for 12 to 31 % of the time`.
    """
    owners: dict[tuple[str, ...], dict[int, None]] = {}
    numbers: dict[tuple[str, ...], list[list[str]]] = {}
    for n, texts in enumerate(runs):
        for text in texts:
            found = [one.span(1) for one in _NUMBER.finditer(text) if one[1]]
            ends = [(0, 0), *found, (len(text), len(text))]
            key = tuple(text[end:begin] for (_, end), (begin, _) in pairwise(ends))
            owners.setdefault(key, {})[n] = None
            numbers.setdefault(key, []).append([text[begin:end] for begin, end in found])
    joined = [(list(owners[key]), _write(key, numbers[key])) for key in owners]
    return sorted(joined, key=lambda one: -len(one[0]))


def _write(words: Sequence[str], numbers: Sequence[Sequence[str]]) -> str:
    """Return the words with the ranges of the numbers between them."""
    ranges = []
    for values in zip(*numbers, strict=True):
        low, high = min(values, key=float), max(values, key=float)
        ranges.append(low if float(low) == float(high) else f"{low} to {high}")
    return "".join(word + span for word, span in zip_longest(words, ranges, fillvalue=""))


def list_messages(sweep: SweepDirectory, cells: Sequence[CellSummary]) -> Iterator[tuple[Kind, str]]:
    """Yield the messages of each kind, the most frequent first: `4 of 12 runs: path0 was full for 12 to 31 %`.

    cells: those of the sweep's summary. The runs are read only if one of them has a message.
    """
    if not any(cell.told.of(kind) for cell in cells for kind in KINDS):
        return
    runs = list(sweep.runs())
    values = [spell_values(cell.values) for cell in sweep.record.cells]

    def tell(owners: Sequence[int], text: str) -> str:
        of = list(dict.fromkeys(values[runs[n].cell] for n in owners))
        more = (
            f" and {len(of) - MOST_CELLS} more cell{'s' * (len(of) > MOST_CELLS + 1)}" if len(of) > MOST_CELLS else ""
        )
        where = f" ({'; '.join(of[:MOST_CELLS])}{more})" if len(of) < len(values) else ""
        return f"{len(owners)} of {len(runs)} runs{where}: {text}"

    for kind in KINDS:
        joined = join_texts([run.summary.messages(kind) for run in runs])
        yield from ((kind, tell(*one)) for one in joined[:MOST_MESSAGES])
        if len(joined) > MOST_MESSAGES:
            yield kind, f"{len(joined) - MOST_MESSAGES} more {kind} of runs, see summary.json"
