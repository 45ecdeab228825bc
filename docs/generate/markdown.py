# SPDX-License-Identifier: Apache-2.0
"""Markdown that generated pages share."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence

LICENSE = """\
<!-- SPDX-License-Identifier: Apache-2.0 -->
<!-- Written by `python -m docs.generate`: change what it reads. -->
"""


MOST_COLUMNS = 110


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table. A bar within a cell is escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def code(text: str) -> str:
    return f"`{text}`" if "`" not in text else f"`` {text} ``"


def anchor(heading: str) -> str:
    """Return the fragment that GitHub and the site give to a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def words(names: Iterable[str], last: str = "or") -> str:
    """Return names as `a`, `b` or `c`."""
    coded = [code(name) for name in names]
    return coded[0] if len(coded) == 1 else f"{', '.join(coded[:-1])} {last} {coded[-1]}"


def wrap(page: str) -> str:
    """Return a page with at most 110 columns. Tables, headings, comments and code stay as they are."""
    lines: list[str] = []
    in_code = False
    for line in page.splitlines():
        in_code ^= line.startswith("```")
        if in_code or len(line) <= MOST_COLUMNS or line.startswith(("|", "#", "<", "    ")):
            lines.append(line)
        else:
            indent = "  " if line.startswith("- ") else ""
            lines += textwrap.wrap(
                line, MOST_COLUMNS, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
            )
    return "\n".join(lines) + "\n"
