# SPDX-License-Identifier: Apache-2.0
"""The keys of an entry that brings its own programs: commands, the files that they need, and their environment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Annotated, Any

from pydantic import Field

from mprun.inputs.keys.file_model import FileModel
from mprun.model.fault import Path
from mprun.model.spec import Attachment

MOST_FILES, MOST_VARIABLES = 50, 100

Command = Annotated[list[str], Field(min_length=1, max_length=1000)]
Variable = Annotated[str, Field(pattern="^[A-Za-z_][A-Za-z0-9_]{0,99}$")]


class ArchiveEntry(FileModel):
    """A file that a run has kept: its archive, and its name."""

    name: str = Field(min_length=1, max_length=200, description="The name under which programs find it.")
    archive: str = Field(min_length=1, max_length=1000, description="The archive in the run's inputs.")


File = str | ArchiveEntry
Files = Annotated[list[File], Field(max_length=MOST_FILES)]
Environment = Annotated[dict[Variable, str], Field(max_length=MOST_VARIABLES)]

FILES: Any = Field(
    [],
    description="Files and folders that the programs need, relative to this file. They are copied into the run. "
    "The programs start in a folder with copies of them, `{inputs}`.",
    examples=[["client.py", "data"]],
)
BUILD: Any = Field(
    None,
    description="A command that runs before time zero in the folder with the copies, inside the engine.",
    examples=[["make"]],
)
ENVIRONMENT: Any = Field({}, description="Environment variables of the programs.", examples=[{"LOG_LEVEL": "debug"}])


def find_faults(
    files: Sequence[File], build: Sequence[str] | None, environment: Mapping[str, str], words: Mapping[Path, str]
) -> Iterator[tuple[Path, str]]:
    """Yield the faults of these keys by their paths. words: those of all commands, by their paths."""
    names = [_name_of(one) for one in files]
    for n, name in enumerate(names):
        if not name or "/" in name or name in (".", "..") or not name.isprintable():
            yield ("files", n), "is no name of a file or folder: write one, as in 'client.py'"
        elif names.index(name) < n:
            yield ("files", n), f"'{name}' is there already: rename one of the two"
    if build is not None and not files:
        yield ("build",), "needs files to build: write 'files', or remove this"
    for name, value in environment.items():
        if "\0" in value:
            yield ("environment", name), "contains a character that no variable can have: remove it"
    for path, word in words.items():
        if "\0" in word or (path[-1] == 0 and not word):
            yield path, "is no program, or contains a character that no argument can have: write a name, as in 'nc'"


def named_words(**commands: Sequence[str] | None) -> dict[Path, str]:
    """Return each word of commands by its path. commands: by the name of their key."""
    return {(name, n): word for name, words in commands.items() for n, word in enumerate(words or ())}


def attachments(files: Sequence[File]) -> dict[Path, tuple[str, str | None]]:
    """Return the files as `FlowEntry.attachments` has them."""
    return {
        ("files", n): (file, None) if isinstance(file, str) else (file.archive, file.name)
        for n, file in enumerate(files)
    }


def describe_attachments(attached: Sequence[Attachment]) -> list[dict[str, object]]:
    """Return the option `attachments` of a flow."""
    return [{"name": one.name, "sha256": one.sha256, "size_bytes": one.size_bytes} for one in attached]


def _name_of(file: File) -> str:
    """Return the name under which programs find a file."""
    return PurePath(file).name if isinstance(file, str) else file.name
