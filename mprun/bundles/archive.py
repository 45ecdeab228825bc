# SPDX-License-Identifier: Apache-2.0
"""Zip archives of bundles: written so that equal contents give equal bytes, and read as untrusted input.

The content is only data. Names that lead out of the archive's folder, links, duplicates and excessive sizes are refused
before anything is written.
"""

from __future__ import annotations

import stat
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from mprun.errors import SpecError
from mprun.safety.folder import Folder, free_bytes, open_regular

SUFFIX = ".mprun.zip"
# The first day of the zip format. The time of a member is no content.
_DAY = (1980, 1, 1, 0, 0, 0)
MOST_MEMBERS = 200_000
MOST_BYTES = 8 << 30
MB = 1 << 20
# The most bytes of a member by its suffix, and of an input file. The reader of inputs has a limit, too.
MOST_OF_KIND = {
    ".json": 64 * MB,
    ".jsonl": 256 * MB,
    ".parquet": 1024 * MB,
    ".csv": 256 * MB,
    ".pcap": 4096 * MB,
    ".tar": 300 * MB,
}
MOST_OF_INPUT = 4 * MB
MOST_OF_OTHERS = 64 * MB
# Deflate can reach a ratio of 1032. Captures of empty payload come close to it. Tables are compressed already, and text
# has 5 to 30.
MOST_RATIO = 1000
MOST_RATIO_OF_TEXT = 200
MOST_RATIO_OF_ALL = 100
# Members with fewer bytes may have any ratio. Captures do not count in the sum.
SMALL = 16 * MB
# The space that is left for the following run.
SPARE_BYTES = 64 * MB
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
MOST_LETTERS = 400
_BLOCK = 1 << 20


# The bytes of a member, or a function that opens its file.
Content = bytes | Callable[[], BinaryIO]


def write_archive(target: Path, files: Mapping[str, Content]) -> None:
    """Write an archive. files: the content of each member by its name. The file is complete or does not exist."""
    with (
        Folder(target.parent).whole(target.name) as partial,
        zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        for name in sorted(files):
            content = files[name]
            member = zipfile.ZipInfo(name, _DAY)
            member.compress_type = zipfile.ZIP_DEFLATED
            member.external_attr = (stat.S_IFREG | 0o644) << 16
            if not isinstance(content, bytes):
                with content() as file:
                    content = file.read()
            archive.writestr(member, content)


def unpack(source: Path, folder: Path) -> None:
    """Unpack all members into an empty folder. Raises SpecError with the refused member and the reason."""
    try:
        with open_regular(source, source, follow=True) as file, zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            _check(source, members, free_bytes(folder))
            for member in members:
                if not member.is_dir():
                    _write(archive, member, Folder(folder))
    except (zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, EOFError, zlib.error) as error:
        raise SpecError(f"{source}: no archive that can be read: {_tell_damage(source, error)}") from None
    except OSError as error:
        raise SpecError(f"{source}: {error.strerror or error}") from None


def is_archive(source: Path) -> bool:
    """Return True for a zip file, also for a damaged one: it begins with PK."""
    with open_regular(source, source, follow=True) as file:
        return file.read(2) == b"PK"


def _tell_damage(source: Path, error: Exception) -> str:
    """Return why a file cannot be unpacked, and the remedy."""
    if is_archive(source):
        return f"it is damaged or cut off ({error}): copy it again from where it came"
    return f"{error if source.stat().st_size else 'it is empty'}: name a run, a sweep or a bundle"


def _check(source: Path, members: list[zipfile.ZipInfo], free: int) -> None:
    if len(members) > MOST_MEMBERS:
        raise SpecError(f"{source}: {len(members)} members: at most {MOST_MEMBERS} are unpacked")
    total = sum(member.file_size for member in members)
    if total > MOST_BYTES:
        raise SpecError(f"{source}: it would unpack to more than {MOST_BYTES >> 30} GB")
    if total + SPARE_BYTES > free:
        need, room = (total + SPARE_BYTES) // MB, free // MB
        raise SpecError(f"{source}: unpacking needs {need} MB, and {room} MB are free: set TMPDIR to a larger folder")
    seen = set()
    for member in members:
        reason = _find_problem(member)
        # on file systems that ignore case, one member would overwrite the other
        if member.filename.casefold() in seen:
            reason = "is there twice"
        seen.add(member.filename.casefold())
        if reason:
            raise SpecError(f"{source}: member {member.filename!r} {reason}: nothing was unpacked")
    packed = [member for member in members if not member.filename.endswith(".pcap")]
    sizes = sum(member.file_size for member in packed)
    if sizes > SMALL and sizes > MOST_RATIO_OF_ALL * sum(member.compress_size for member in packed):
        raise SpecError(f"{source}: it is compressed too much: nothing was unpacked")


def _find_problem(member: zipfile.ZipInfo) -> str | None:
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
    is_input = "inputs" in path.parts and path.suffix != ".tar"
    most = MOST_OF_INPUT if is_input else MOST_OF_KIND.get(path.suffix, MOST_OF_OTHERS)
    if member.file_size > most:
        return f"has more than {most // MB} MB"
    ratio = MOST_RATIO if path.suffix == ".pcap" else MOST_RATIO_OF_TEXT
    if member.file_size > SMALL and member.file_size > ratio * max(member.compress_size, 1):
        return "is compressed too much"
    return None


def _write(archive: zipfile.ZipFile, member: zipfile.ZipInfo, folder: Folder) -> None:
    """Write a member, but no more bytes than the archive announces. The announced size is the size that was checked."""
    name = member.filename
    if "/" in name:
        folder.make(name.rpartition("/")[0])
    left = member.file_size
    with archive.open(member) as packed, folder.create(name) as file:
        while block := packed.read(min(_BLOCK, left + 1)):
            left -= len(block)
            if left < 0:
                raise SpecError(f"{archive.filename}: member {member.filename!r} is larger than it says")
            file.write(block)
