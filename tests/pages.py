# SPDX-License-Identifier: Apache-2.0
"""The pages of the documentation, and what stands in their fences."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("labs/*/*.md"))]
# Language and text of a fenced block.
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
# A block that begins with the name of a file is that file, on which later blocks of its page can build; one that begins
# with `more of` and the name is added to it.
NAMED = re.compile(r"# (more of )?([\w-]+\.yaml)\b")


def blocks_of(page: Path, *languages: str) -> list[str]:
    """What stands in fences of these languages."""
    return [text for language, text in BLOCK.findall(page.read_text()) if language in languages]
