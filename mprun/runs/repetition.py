# SPDX-License-Identifier: Apache-2.0
"""Repeat a run in a new directory."""

from __future__ import annotations

from pathlib import Path

from mprun.engines.agent_process import RunProgress
from mprun.engines.debugger import Debugger
from mprun.metrics.comparison import differing_values
from mprun.model.engine_name import EngineName
from mprun.model.permission import Consent
from mprun.model.run_files import RunEnvironment
from mprun.runs import runner
from mprun.runs.place import choose_place, find_kernel
from mprun.runs.provenance import list_makers
from mprun.storage.run_directory import RunDirectory


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
