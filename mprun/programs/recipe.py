# SPDX-License-Identifier: Apache-2.0
"""How a program is made: what it is called, what its source is, and what identifies it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mprun.genuine import digest_files

HERE = Path(__file__).parent
# A change in how programs are built, rather than in what they are built from, counts this on.
_EDITION = 2
# What is said of a program, beside it.
FACTS = "tool.json"


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

    def put(self, made: Path, target: Path, version: str, compiler: str, build_seconds: float) -> None:
        """Move the folder of a program that was built to its place, with what is said of it."""
        facts = {
            "name": self.name,
            "digest": self.digest,
            "version": version,
            "compiler": compiler,
            "build_seconds": round(build_seconds, 1),
            "files": digest_files(made, [self.executable]),
        }
        (made / FACTS).write_text(json.dumps(facts, indent=1) + "\n")
        made.chmod(0o755)
        made.rename(target)


@dataclass(frozen=True)
class CRecipe(Recipe):
    """A C program of which all files are compiled together; VERSION is what it is to say to --version.

    headers: (header, Debian package that holds it and its library). flags: the last words of gcc(1)'s command line.
    """

    headers: tuple[tuple[str, str], ...] = ()
    flags: tuple[str, ...] = ()

    def sources(self) -> Iterator[Path]:
        yield from sorted(self.folder.glob("*.[ch]"))
