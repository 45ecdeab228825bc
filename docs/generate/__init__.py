# SPDX-License-Identifier: Apache-2.0
"""The pages of the documentation that say what the code says: `python -m docs.generate` writes them.

`keys` has those of files, `metrics` those of results, `commands` those of the command line, `manual` the manual
page. Each gives text; a test holds what is in the tree against it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from docs.generate import commands, keys, manual, metrics

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"


def pages() -> Iterator[tuple[Path, str]]:
    """Each generated file, and its text."""
    for name, text in keys.pages():
        yield REFERENCE / f"{name}.md", text
    yield REFERENCE / "metrics.md", metrics.page()
    yield REFERENCE / "commands.md", commands.page()
    yield ROOT / "docs" / "man" / "mprun.1", manual.page()
