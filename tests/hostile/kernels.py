# SPDX-License-Identifier: Apache-2.0
"""Archives of kernels from a stranger: digests that nobody gave, changed programs, names that lead outside, bombs.

A kernel runs with the rights of its user. In each case, the programs of the archive leave a file if one of them runs.
"""

from __future__ import annotations

import re
import warnings
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

from mprun.bundles.archive import Content, write_archive
from mprun.bundles.installation import digest_of, export
from mprun.kernel import build, store
from mprun.kernel.recipe import guest_digest, recipe_digest
from tests.hostile import Finding, archives, call, environment, files_of, first_line

# The name that an archive of a release has.
NAME = "mprun-0.1.0-x86_64.mprun-kernel.zip"
DIGEST = "a" * 64
UNKNOWN = r"SHA-256 [0-9a-f]{64}, which this mprun does not name"
MB = 1 << 20

# Changes an archive. Returns the digest for --trust, or None for no --trust.
Make = Callable[[Path], str | None]


def _unknown(_archive: Path) -> None:
    """Give no digest for a valid archive."""


def _other(_archive: Path) -> str:
    """Give the digest of another archive."""
    return "0" * 64


def _changed_after(archive: Path) -> str:
    """Change a program after the digest was given. The name stays the right one."""
    given = digest_of(archive)
    _change(archive, {"kernel/linux": b"#!/bin/sh\ntouch changed\n"})
    return given


def _beginning(archive: Path) -> str:
    """Give only the beginning of the digest."""
    return digest_of(archive)[:16]


def _changed(member: str, content: bytes) -> Make:
    """Return a function that changes a member before the digest is taken, as a maker of a poisoned archive does."""

    def make(archive: Path) -> str:
        _change(archive, {member: content})
        return digest_of(archive)

    return make


def _change(archive: Path, changes: Mapping[str, bytes]) -> None:
    with zipfile.ZipFile(archive) as opened:
        files: dict[str, Content] = {name: opened.read(name) for name in opened.namelist()}
    write_archive(archive, {**files, **changes})


def _of_bundle(case: str) -> Make:
    """Return a function that writes an archive as the case of a bundle has it."""

    def make(archive: Path) -> str:
        archives.write(case, archive)
        return digest_of(archive)

    return make


def _bomb(member: str, count: int, size_mb: int, is_trusted: bool) -> Make:
    """Return a function that adds members of zeros to an archive. They are small until they are unpacked."""

    def make(archive: Path) -> str | None:
        with zipfile.ZipFile(archive, "a", zipfile.ZIP_DEFLATED, compresslevel=1) as opened:
            for n in range(count):
                with opened.open(member.format(n), "w") as file:
                    for _ in range(size_mb):
                        file.write(bytes(MB))
        return digest_of(archive) if is_trusted else None

    return make


CASES: dict[str, tuple[Make, str]] = {
    "a digest that no release names": (_unknown, UNKNOWN),
    "the digest of another archive": (_other, f"{UNKNOWN}, and --trust gives 0{{64}}"),
    "the beginning of its digest": (_beginning, UNKNOWN),
    "the right name, changed afterwards": (_changed_after, UNKNOWN),
    "a changed kernel, digest given": (
        _changed("kernel/linux", b"#!/bin/sh\n"),
        "linux is not the file that was built",
    ),
    "a changed init, digest given": (_changed("kernel/init", b"#!/bin/sh\n"), "init is not the file that was built"),
    "facts without keys": (_changed("kernel/kernel.json", b"{}"), "has no 'version'"),
    "facts that are no JSON": (_changed("kernel/kernel.json", b"{" * 10_000), "cannot be read"),
    "a bomb without its digest": (_bomb("kernel/bomb{}", 1, 700, False), UNKNOWN),
    "a bomb, digest given": (_bomb("kernel/bomb{}", 1, 700, True), "has more than 64 MB"),
    "a bomb of many members": (_bomb("kernel/bomb{}", 60, 15, True), "is compressed too much"),
    **{
        f"{case}, digest given": (_of_bundle(case), reason)
        for case, reason in [
            *((name, reason) for name, (_, _, reason) in archives.MEMBERS.items()),
            *((name, reason) for name, (_, reason) in archives.OTHERS.items() if name != "200,001 members"),
        ]
    },
}


def write_valid(archive: Path, folder: Path) -> None:
    """Write a valid archive of a kernel, whose programs leave the file `it_ran`. folder: for the maker's cache."""
    with environment(XDG_CACHE_HOME=str(folder / "maker")):
        place = store.store() / DIGEST[:16]
        place.mkdir(parents=True)
        for name in store.PROGRAMS:
            (place / name).write_text(f"#!/bin/sh\ntouch {folder}/it_ran\n")
            (place / name).chmod(0o755)
        facts = {"digest": DIGEST, "recipe": recipe_digest((6, 12)), "guest": guest_digest(), "options": 1}
        facts |= {"version": "6.12.117-mprun", "source": "/usr/src/linux-source-6.12.tar.xz", "compiler": "gcc 12"}
        build._write_facts(place, {**facts, "build_seconds": 1.0})
        (store.store() / "default").symlink_to(place.name)
        export(store.find_kernel(), archive)


def attempt(case: str, folder: Path) -> Finding:
    """Import an archive. It must be refused with its reason, run nothing, and leave nothing."""
    make, reason = CASES[case]
    archive = folder / NAME
    write_valid(archive, folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trust = make(archive)
    temporary = folder / "tmp"
    temporary.mkdir()
    before = set(files_of(folder))
    with environment(XDG_CACHE_HOME=str(folder / "cache"), TMPDIR=str(temporary)):
        called = call("kernel", "import", str(archive), *(("--trust", trust) if trust else ()))
    told = first_line(called).rpartition(f"{NAME}: ")[2].replace(f"{folder}/", "")
    if (folder / "it_ran").exists():
        return Finding(told, "a program of the archive ran", called.cpu_s)
    if left := [path for path in files_of(folder) if path not in before]:
        return Finding(told, f"files were left: {left[0].relative_to(folder)}", called.cpu_s)
    if called.status not in (1, 2):
        return Finding(told, f"it was taken, with status {called.status}", called.cpu_s)
    if not re.search(reason, called.text):
        return Finding(told, f"the reason is another than {reason!r}", called.cpu_s)
    return Finding(told, cpu_s=called.cpu_s)
