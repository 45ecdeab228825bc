# SPDX-License-Identifier: Apache-2.0
"""The labs: every step, and each pair of files of a step."""

from __future__ import annotations

from pathlib import Path

import pytest

from mprun.labs.definition import FILE, Step, read_lab

ROOT = Path(__file__).parents[1]
FOLDERS = sorted(path.parent for path in ROOT.glob(f"labs/*/{FILE}"))


def _find_pairs() -> list[tuple[str, Step]]:
    """Return one step of each pair of files, and its name among all labs."""
    found = {(step.topology, step.experiment): step for folder in FOLDERS for step in reversed(read_lab(folder).steps)}
    return [
        (f"{path.parent.relative_to(ROOT / 'labs')}-{path.stem}-{step.topology.name}", step)
        for (_, path), step in found.items()
    ]


PAIRS = [pytest.param(step, id=name) for name, step in sorted(_find_pairs(), key=lambda pair: pair[0])]
