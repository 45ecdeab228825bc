# SPDX-License-Identifier: Apache-2.0
"""The first difference between the artifacts of two runs."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable

from mprun.storage.run_directory import RunDirectory

BLOCK_BYTES = 1 << 20
CAPTURES = "pcap/"
SUMMARY = "summary.json"


def has_captures(artifacts: Iterable[str]) -> bool:
    """Return True if a capture is among artifacts."""
    return any(name.startswith(CAPTURES) for name in artifacts)


def first_difference(one: RunDirectory, other: RunDirectory) -> str | None:
    """Return a message with the first artifact and byte in which two runs differ; None if they are identical.

    Captures that the first run did not keep are not compared, nor is the order of the keys of a summary.
    """
    ours, theirs = (set(run.artifacts()) for run in (one, other))
    theirs = {name for name in theirs if name in ours or not name.startswith(CAPTURES)}
    for name in sorted(ours | theirs):
        if name not in theirs or name not in ours:
            return f"{name} is only in {one.path if name in ours else other.path}"
        at = _first_differing_byte(one, other, name)
        if at is not None and not (name == SUMMARY and _are_sorted_alike(one, other)):
            sizes = f"{one.folder.size(name)} and {other.folder.size(name)}"
            return f"{name} differs from byte {at} on (sizes {sizes})"
    return None


def sort_summary(run: RunDirectory) -> bytes:
    """Return the bytes of a run's summary as earlier versions wrote it, with sorted keys. Raises ValueError."""
    return (json.dumps(run.folder.read_json(SUMMARY), indent=1, sort_keys=True) + "\n").encode()


def _are_sorted_alike(one: RunDirectory, other: RunDirectory) -> bool:
    """Return True if the summaries of two runs differ in the order of their keys only."""
    with contextlib.suppress(ValueError):
        return sort_summary(one) == sort_summary(other)
    return False


def _first_differing_byte(one: RunDirectory, other: RunDirectory, name: str) -> int | None:
    at = 0
    with one.folder.open(name) as ours, other.folder.open(name) as theirs:
        while True:
            a, b = ours.read(BLOCK_BYTES), theirs.read(BLOCK_BYTES)
            if a != b:
                return at + next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
            if not a:
                return None
            at += len(a)
