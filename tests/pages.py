# SPDX-License-Identifier: Apache-2.0
"""The pages of the documentation, their fenced blocks, and their commands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
# The decisions of each folder of mprun.
RECORDS = sorted(ROOT.glob("mprun/*/DECISIONS.md"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("labs/*/*.md")), *RECORDS]
# Language and text of a fenced block.
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
# A block that begins with the name of a file is this file, and later blocks of its page can use it. A block that begins
# with `more of` and the name is appended.
NAMED = re.compile(r"(?:#|//) (more of )?([\w-]+\.(?:yaml|py|c))\b")


def blocks_of(page: Path, *languages: str) -> list[str]:
    """Return the contents of fences of these languages."""
    return [text for language, text in BLOCK.findall(page.read_text()) if language in languages]


def _lines_of(text: str) -> list[str]:
    """Return the commands of mprun in a block, without comments behind them."""
    return [re.split(r"\s+#", line)[0] for line in re.findall(r"^(?:\$ )?(mprun .*)$", text, re.MULTILINE)]


def commands_in_blocks(page: Path, *languages: str) -> list[str]:
    """Return the commands in fences of these languages. `indented` stands for code that is indented by four spaces."""
    commands = [line for block in blocks_of(page, *languages) for line in _lines_of(block)]
    if "indented" in languages:
        plain = BLOCK.sub("", page.read_text())
        commands += _lines_of("\n".join(re.findall(r"^    (mprun .*)$", plain, re.MULTILINE)))
    return commands


def commands_in_sentences(page: Path) -> Iterator[str]:
    """Yield each code span in a sentence that begins with mprun. Some are only the name of a command."""
    for inner in re.findall(r"`(mprun [^`]*)`", BLOCK.sub("", page.read_text())):
        yield " ".join(inner.split())
