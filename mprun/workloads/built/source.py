# SPDX-License-Identifier: Apache-2.0
"""The recipe of a program: its name, its source, and its digest."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

from mprun.errors import RunError, show_failure
from mprun.model.frozen import Frozen
from mprun.safety.unchanged_program import digest_files

HERE = Path(__file__).parent
# Increase this number if programs are built in another way from the same source.
_EDITION = 3
# The file beside a program that describes it.
FACTS = "tool.json"


def run(argv: list[str]) -> str:
    """Run a command and return its output. Raises RunError with its first error."""
    done = subprocess.run(argv, capture_output=True, text=True)
    if done.returncode:
        raise RunError(f"{' '.join(argv)}: status {done.returncode}:\n{show_failure(done.stderr)}")
    return done.stdout


class Recipe(Frozen):
    """The recipe of a Rust program.

    - patched: the library to which `<library>.patch` is applied before the build; None: no library.
    - shared: folders beside the program's, whose crates it is built on.
    - oldest_cargo: the first version of cargo that compiles it.
    - needs: (program, Debian package of it) that the build starts in addition to cargo.
    """

    name: str
    executable: str
    description: str
    patched: str | None = None
    shared: tuple[str, ...] = ()
    oldest_cargo: tuple[int, int] = (1, 75)
    needs: tuple[tuple[str, str], ...] = ()

    @property
    def folder(self) -> Path:
        """The folder of the program's source."""
        return HERE / self.name

    def sources(self) -> Iterator[Path]:
        """Yield every source file in a fixed order."""
        for folder in (self.folder, *(HERE / name for name in self.shared)):
            for pattern in ("Cargo.*", "*.patch", "src/**/*.rs"):
                yield from sorted(folder.glob(pattern))

    @property
    def digest(self) -> str:
        """SHA-256 of the sources, hexadecimal. The compiler's version is not part of it."""
        total = hashlib.sha256(f"{_EDITION} {self}".encode())
        for path in self.sources():
            content = path.read_bytes()
            total.update(f"{path.relative_to(HERE)} {len(content)}\n".encode() + content)
        return total.hexdigest()

    def put(self, made: Path, target: Path, version: str, compiler: str, build_seconds: float) -> None:
        """Move the folder of a built program to its place, and describe it in FACTS."""
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


class CRecipe(Recipe):
    """The recipe of a C program whose files are compiled together. The macro VERSION is the output of --version.

    headers: (header, Debian package of the header and its library). flags: the last words of gcc(1)'s command line.
    """

    headers: tuple[tuple[str, str], ...] = ()
    flags: tuple[str, ...] = ()

    def sources(self) -> Iterator[Path]:
        yield from sorted(self.folder.glob("*.[ch]"))


class PipRecipe(Recipe):
    """The recipe of a Python program, `program.py`, with the libraries of its `requirements.txt`.

    oldest_python: the first version of Python for which the requirements have wheels.
    """

    oldest_python: tuple[int, int] = (3, 11)

    def sources(self) -> Iterator[Path]:
        yield from (self.folder / "program.py", self.folder / "requirements.txt")
