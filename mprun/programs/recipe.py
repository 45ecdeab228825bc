# SPDX-License-Identifier: Apache-2.0
"""How a program is made: what it is called, what its source is, and what identifies it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
# A change in how programs are built, rather than in what they are built from, counts this on.
_EDITION = 1


@dataclass(frozen=True)
class Recipe:
    """A Rust program.

    patched: the library to which `<library>.patch` is applied before it is compiled; None: none.
    """

    name: str
    executable: str
    description: str
    patched: str | None = None

    @property
    def folder(self) -> Path:
        """Where its source is."""
        return HERE / self.name

    def sources(self) -> Iterator[Path]:
        """Every file that it is made of, in a fixed order."""
        for pattern in ("Cargo.*", "*.patch", "src/**/*.rs"):
            yield from sorted(self.folder.glob(pattern))

    @property
    def digest(self) -> str:
        """SHA-256 over its sources, hexadecimal; the compiler's version is not in it."""
        total = hashlib.sha256(f"{_EDITION} {self}".encode())
        for path in self.sources():
            content = path.read_bytes()
            total.update(f"{path.relative_to(self.folder)} {len(content)}\n".encode() + content)
        return total.hexdigest()


@dataclass(frozen=True)
class CRecipe(Recipe):
    """A C program of which all files are compiled together; VERSION is what it is to say to --version.

    headers: (header, Debian package that holds it and its library). flags: the last words of gcc(1)'s command line.
    """

    headers: tuple[tuple[str, str], ...] = ()
    flags: tuple[str, ...] = ()

    def sources(self) -> Iterator[Path]:
        yield from sorted(self.folder.glob("*.[ch]"))
