# SPDX-License-Identifier: Apache-2.0
"""The pages of the documentation that are made from the code. `python -m docs.generate` writes them.

`keys` makes the pages of files, `links` the page of link profiles and traces, `metrics` the page of results,
`commands` the page of the command line, `manual` the manual page, and `measured` the page in front of the measured
pages. Each returns text, and a test compares the text with the files in the tree.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from docs.generate import commands, keys, links, manual, measured, metrics
from docs.generate.markdown import wrap

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"


def pages() -> Iterator[tuple[Path, str]]:
    """Return each generated file and its text."""
    for name, text in keys.pages():
        yield REFERENCE / f"{name}.md", wrap(text)
    yield REFERENCE / "profiles.md", wrap(links.page())
    yield REFERENCE / "metrics.md", wrap(metrics.page())
    yield REFERENCE / "commands.md", wrap(commands.page())
    yield measured.FOLDER / "index.md", wrap(measured.page())
    yield ROOT / "docs" / "man" / "mprun.1", manual.page()
