# SPDX-License-Identifier: Apache-2.0
"""The search for the commit that changed an outcome, with commits that cannot be tested. Pure: no git, no builds.

Each test halves the commits that can be told apart. git-bisect(1) counts all commits, also those that cannot be tested,
so it may need more builds if there are any.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

BisectTerm = Literal["good", "bad", "skip"]


@dataclass(frozen=True)
class CommitSearch:
    """The end of a search.

    - suspects: the commits of which one is the first bad commit, oldest first. The last one is bad.
    - tested: the verdicts in the order of the tests.
    """

    suspects: tuple[str, ...]
    tested: tuple[tuple[str, BisectTerm], ...]


def search(
    history: Sequence[str], parents: Mapping[str, Sequence[str]], test: Callable[[str], BisectTerm]
) -> CommitSearch:
    """Find the first bad commit of a history whose last commit is bad.

    history: the commits after the good one, each after its parents. parents: of each commit; a parent outside of the
    history is good. test: builds and judges a commit.
    """
    order = {commit: number for number, commit in enumerate(history)}
    # for each commit the set of itself and its ancestors in the history, as bits
    with_ancestors: list[int] = []
    for number, commit in enumerate(history):
        bits = 1 << number
        for parent in parents[commit]:
            bits |= with_ancestors[order[parent]] if parent in order else 0
        with_ancestors.append(bits)
    suspects, skipped = with_ancestors[-1], 0
    known_bad = len(history) - 1
    tested: list[tuple[str, BisectTerm]] = []
    while True:
        open_to_test = [n for n in _bits(suspects & ~skipped) if n != known_bad]
        if not open_to_test:
            return CommitSearch(tuple(history[n] for n in _bits(suspects)), tuple(tested))
        distinct = suspects & ~skipped
        total = distinct.bit_count()

        def least_left(number: int, distinct: int = distinct, total: int = total) -> int:
            below = (with_ancestors[number] & distinct).bit_count()
            return min(below, total - below)

        chosen = max(open_to_test, key=least_left)
        term = test(history[chosen])
        tested.append((history[chosen], term))
        if term == "bad":
            suspects &= with_ancestors[chosen]
            known_bad = chosen
        elif term == "good":
            suspects &= ~with_ancestors[chosen]
        else:
            skipped |= 1 << chosen


def _bits(bits: int) -> list[int]:
    return [number for number in range(bits.bit_length()) if bits >> number & 1]
