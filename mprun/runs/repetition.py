# SPDX-License-Identifier: Apache-2.0
"""Repeat a run, and compare it with the original."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from mprun.engines.agent_process import RunProgress
from mprun.engines.debugger import Debugger
from mprun.metrics.comparison import differing_values
from mprun.model.engine_name import EngineName
from mprun.model.permission import Consent
from mprun.model.run_files import RunEnvironment
from mprun.runs import runner
from mprun.runs.place import choose_place
from mprun.runs.provenance import find_kernel, list_makers
from mprun.runs.run_directory import RunDirectory

BLOCK_BYTES = 1 << 20
CAPTURES = "pcap/"


def repeat(
    original: RunDirectory,
    parent: Path,
    engine: EngineName,
    kernel: str | None,
    consent: Consent,
    progress: RunProgress,
    debugger: Debugger | None = None,
) -> RunDirectory:
    """Repeat a run in a new directory below `parent`, and return the directory.

    - kernel: the kernel for the virtual engine. None: the original kernel if it is built here, else `default`.
    - debugger: gdb, which stops the kernel of the repetition.

    Raises MachineError if this machine cannot run it, SpecError or RunError if this mprun cannot repeat it.
    """
    place = choose_place(engine, kernel or find_kernel(original.environment(), engine))
    for left in reversed(range(runner.MOST_DISTURBED + 1)):
        again, _ = runner.run_again(original, parent, place, progress, consent, debugger)
        if not left or not again.changed_files().paths:
            break
        again.remove()
    return again


def find_other_makers(before: RunEnvironment, after: RunEnvironment) -> dict[str, tuple[object, object]]:
    """Return the engine, kernel and programs that made another run, where they differ."""
    return differing_values(list_makers(before), list_makers(after))


def has_captures(artifacts: Iterable[str]) -> bool:
    """Return True if a capture is among artifacts."""
    return any(name.startswith(CAPTURES) for name in artifacts)


def first_difference(one: RunDirectory, other: RunDirectory) -> str | None:
    """Return a message with the first artifact and byte in which two runs differ; None if they are identical.

    Captures that the first run did not keep are not compared.
    """
    ours, theirs = (set(run.artifacts()) for run in (one, other))
    theirs = {name for name in theirs if name in ours or not name.startswith(CAPTURES)}
    for name in sorted(ours | theirs):
        if name not in theirs or name not in ours:
            return f"{name} is only in {one.path if name in ours else other.path}"
        at = _first_differing_byte(one, other, name)
        if at is not None:
            sizes = f"{one.folder.size(name)} and {other.folder.size(name)}"
            return f"{name} differs from byte {at} on (sizes {sizes})"
    return None


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
