# SPDX-License-Identifier: Apache-2.0
"""Count what makes the source hard or easy to live in: lines, rooms, loose types, language.

usage: structure.py

Prints a table of the working tree. To compare two commits, run it in a checkout of each.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import mean

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "mprun"
sys.path.insert(0, str(ROOT))

from tests import language  # noqa: E402

LOOSE = re.compile(r"Mapping\[str, Any\]|dict\[str, Any\]")


def sources(*suffixes: str) -> list[Path]:
    """Return the files of the package with these suffixes."""
    found = (path for path in PACKAGE.rglob("*") if path.suffix in suffixes and "__pycache__" not in path.parts)
    return sorted(path for path in found if path.is_file())


def lines_of(paths: list[Path]) -> int:
    return sum(len(path.read_text().splitlines()) for path in paths)


def count(pattern: str | re.Pattern[str], folder: Path = PACKAGE) -> int:
    """Return how often a pattern occurs in the Python files of a folder."""
    return sum(len(re.findall(pattern, path.read_text())) for path in folder.rglob("*.py"))


def rows() -> Iterator[tuple[str, object]]:
    python = sources(".py")
    yield "lines of Python", lines_of(python)
    yield (
        "lines of C, Rust, shell, YAML, CSS and templates",
        lines_of(sources(".c", ".h", ".rs", ".sh", ".yaml", ".css", ".html", ".js", ".fragment")),
    )
    yield "modules", len(python)
    yield "lines of the longest module", max(len(path.read_text().splitlines()) for path in python)
    for room in sorted(path.parent for path in PACKAGE.glob("*/__init__.py")):
        yield f"lines of Python in {room.name}", lines_of(sorted(room.rglob("*.py")))
    for room in ("metrics", "compile"):
        yield f"loose mappings in {room}", count(LOOSE, PACKAGE / room)
    yield "type: ignore", count(r"# type: ignore")
    yield "comparisons with an engine's name", count(r"""[!=]= (?:"(?:real|virtual)"|(?:real|virtual)\.NAME)""")
    faults = list(language.faults_of(language.files_below(PACKAGE)))
    yield "docstrings with a forbidden opening", sum(fault.kind == "opening" for fault in faults)
    patterns = ("README.md", "docs/*.md", "labs/*/*.md", "mprun/*/DECISIONS.md")
    pages = [page for pattern in patterns for page in sorted(ROOT.glob(pattern))]
    means = [words for page in pages if (words := language.mean_of(page))]
    longest = max(language.count_words(one) for page in pages for one in _sentences(page))
    yield "words in a sentence, mean of pages", f"{mean(means):.1f} ({min(means):.1f} to {max(means):.1f})"
    yield "words in the longest sentence of a page", longest


def _sentences(page: Path) -> Iterator[str]:
    for _, text in language.paragraphs_of(page.read_text()):
        yield from language.sentences_of(text)


def main() -> int:
    for name, value in rows():
        print(f"{name:55} {value}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
