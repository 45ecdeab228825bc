# SPDX-License-Identifier: Apache-2.0
"""Archives: written so that equal contents are equal bytes, and read as what a stranger has made.

What is read is data: names that lead out of the archive's folder, links, duplicates and sizes beyond reason are
refused before anything is written.
"""

from __future__ import annotations

import stat
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from mprun.errors import SpecError

SUFFIX = ".mprun.zip"
# Zip's first day: a member's time is no content.
_DAY = (1980, 1, 1, 0, 0, 0)
MOST_MEMBERS = 200_000
MOST_BYTES = 8 << 30
# What deflate can reach is 1032.
MOST_RATIO = 1000
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
MOST_LETTERS = 400
_BLOCK = 1 << 20


def write_archive(target: Path, files: Mapping[str, Path | bytes]) -> None:
    """Members by their names, from files or as they are; whole or not at all."""
    partial = target.with_name(f".{target.name}.partial")
    try:
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in sorted(files):
                content = files[name]
                member = zipfile.ZipInfo(name, _DAY)
                member.compress_type = zipfile.ZIP_DEFLATED
                member.external_attr = (stat.S_IFREG | 0o644) << 16
                data = content if isinstance(content, bytes) else content.read_bytes()
                archive.writestr(member, data)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def unpack(source: Path, folder: Path) -> None:
    """All members into an empty folder. Raises SpecError that says which member is refused, and why."""
    try:
        with zipfile.ZipFile(source) as archive:
            members = archive.infolist()
            _check(source, members)
            for member in members:
                if not member.is_dir():
                    _write(archive, member, folder / member.filename)
    except (zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, EOFError, zlib.error) as error:
        raise SpecError(f"{source}: no archive that can be read: {error}") from None
    except OSError as error:
        raise SpecError(f"{source}: {error.strerror or error}") from None


def _check(source: Path, members: list[zipfile.ZipInfo]) -> None:
    if len(members) > MOST_MEMBERS:
        raise SpecError(f"{source}: {len(members)} members, and {MOST_MEMBERS} are the most that are unpacked")
    if sum(member.file_size for member in members) > MOST_BYTES:
        raise SpecError(f"{source}: it would unpack to more than {MOST_BYTES >> 30} GB")
    seen = set()
    for member in members:
        reason = _find_fault(member)
        # file systems that do not tell cases apart would let one overwrite the other
        if member.filename.casefold() in seen:
            reason = "is there twice"
        seen.add(member.filename.casefold())
        if reason:
            raise SpecError(f"{source}: member {member.filename!r} {reason}: nothing was unpacked")


def _find_fault(member: zipfile.ZipInfo) -> str | None:
    name = member.filename
    kind = stat.S_IFMT(member.external_attr >> 16)
    path = PurePosixPath(name)
    if not name or len(name) > MOST_LETTERS or not name.isprintable() or "\\" in name or ":" in name:
        return "has no name of a file"
    if path.is_absolute() or ".." in path.parts or str(path) != name.rstrip("/"):
        return "leads out of the archive"
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        return "is no plain file"
    if member.flag_bits & 0x1:
        return "is encrypted"
    if member.compress_type not in _METHODS:
        return "is packed in another way than by deflate"
    if member.file_size > _BLOCK and member.file_size > MOST_RATIO * max(member.compress_size, 1):
        return "is packed beyond reason"
    return None


def _write(archive: zipfile.ZipFile, member: zipfile.ZipInfo, target: Path) -> None:
    """No more than the archive says it holds: its word is what was checked."""
    target.parent.mkdir(parents=True, exist_ok=True)
    left = member.file_size
    with archive.open(member) as packed, target.open("xb") as file:
        while block := packed.read(min(_BLOCK, left + 1)):
            left -= len(block)
            if left < 0:
                raise SpecError(f"{archive.filename}: member {member.filename!r} is larger than it says")
            file.write(block)
