# SPDX-License-Identifier: Apache-2.0
"""An archive of the programs that mprun has built: a kernel and the traffic tools, for machines without a compiler.

A kernel is a program that runs with the rights of the user. So an archive is only taken if its digest is one that this
mprun names, or that the user gives. Equal builds give equal archives.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mprun.bundles.archive import Content, is_archive, unpack, write_archive
from mprun.errors import SpecError
from mprun.kernel import store as kernels
from mprun.kernel.recipe import recipe_digest
from mprun.machine import invoking_user
from mprun.machine.cache import cache, locked
from mprun.machine.scratch import scratch
from mprun.machine.version import version_in
from mprun.safety.folder import open_regular
from mprun.workloads.built import PROGRAMS
from mprun.workloads.built import program_store as programs
from mprun.workloads.built.source import FACTS as TOOL_FACTS
from mprun.workloads.built.source import PipRecipe

SUFFIX = ".mprun-kernel.zip"
# The digests of the archives that belong to this release, one in a line.
TRUSTED = Path(__file__).parent / "trusted.txt"
KERNEL, TOOLS, RECIPE, NOTICE = "kernel", "tools", "recipe", "README"
# The facts of a build that differ between equal builds.
_OF_THE_BUILD = {"build_seconds": 0.0}

_TEXT = """\
An experiment kernel and traffic tools of mprun, built for x86-64 Linux.

The kernel is Linux {version} (User-Mode Linux) with changes of mprun. It is free software under the GNU General
Public License, version 2. Its complete source is:

- {source}, the source of Linux as distributed, SHA-256 {digest}
- the folder recipe/ of this archive: configuration, changes and additional files

With mprun, this command builds it again:

    mprun kernel build{option}

The tools are built by `mprun tools install` from sources in mprun and the packages that they name.
"""


def export(kernel: kernels.Kernel, target: Path) -> str:
    """Write an archive of a kernel and all built tools. Return its SHA-256."""
    files: dict[str, Content] = {
        f"{KERNEL}/{path.name}": _facts(path) if path.name == kernels.FACTS else path.read_bytes()
        for path in sorted(kernel.directory.iterdir())
        if path.is_file() and path.name != kernels.SYMBOLS
    }
    for tool in _built_tools():
        for path in sorted(tool.directory.iterdir()):
            content = _facts(path) if path.name == TOOL_FACTS else path.read_bytes()
            files[f"{TOOLS}/{tool.directory.name}/{path.name}"] = content
    for name, content in kernels.describe_recipe(kernel.digest).items():
        _, is_recipe, rest = name.partition(f"/{RECIPE}/")
        if is_recipe:
            files[f"{RECIPE}/{rest}"] = content
    facts = json.loads((kernel.directory / kernels.FACTS).read_text())
    option = "" if kernel.name == kernels.DEFAULT_NAME else f" --source TREE --name {kernel.name}"
    source = Path(kernel.source).name
    known = facts.get("source_digest", "of the package's file")
    text = _TEXT.format(version=kernel.version, source=source, digest=known, option=option)
    files[NOTICE] = text.encode()
    write_archive(target, files)
    return digest_of(target)


def _facts(path: Path) -> bytes:
    """Return the facts of a build, without facts that differ between equal builds."""
    facts: dict[str, Any] = json.loads(path.read_text())
    same = {name: _OF_THE_BUILD.get(name, value) for name, value in facts.items()}
    return (json.dumps(same, indent=2, sort_keys=True) + "\n").encode()


def _built_tools() -> Iterator[programs.BuiltProgram]:
    for name in sorted(PROGRAMS):
        found = programs.find(name)
        # a Python program names the interpreter of this machine
        if found is not None and not isinstance(PROGRAMS[name], PipRecipe):
            yield found


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file. Raises SpecError if it is no regular file."""
    try:
        with open_regular(path, path, follow=True) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise SpecError(f"{path}: {error.strerror or error}") from None


def trusted_digests() -> frozenset[str]:
    """Return the digests of archives that this release names."""
    lines = TRUSTED.read_text().splitlines()
    return frozenset(line.split()[0] for line in lines if line.strip() and not line.startswith("#"))


def take_in(source: Path, trust: str | None, name: str) -> tuple[str, list[str]]:
    """Unpack an archive into this user's store of kernels and tools.

    Return the version of the kernel, and the names of the tools that were new.

    - trust: the SHA-256 that the user gave; None if the user gave none.
    - name: the name that the kernel gets.

    Raises SpecError for an archive that is not trusted, that another version of mprun made, or that is damaged.
    """
    digest = digest_of(source)
    no_kernel = f"{source} is no archive of a kernel: `mprun kernel export` writes one"
    if digest != trust and digest not in trusted_digests():
        if not is_archive(source):
            raise SpecError(no_kernel)
        given = "" if trust is None else f", and --trust gives {trust}"
        raise SpecError(
            f"{source} has SHA-256 {digest}, which this mprun does not name{given}: a kernel runs with your rights, so "
            "ask its maker for the digest, and give it with --trust"
        )
    with scratch("mprun-import-") as work:
        unpack(source, work)
        if not (work / KERNEL / kernels.FACTS).is_file():
            raise SpecError(no_kernel)
        _set_modes(work / KERNEL, kernels.PROGRAMS)
        facts = _check_kernel(source, work / KERNEL)
        # tools of another version of mprun are left out
        folders = {name: work / TOOLS / recipe.digest[:16] for name, recipe in PROGRAMS.items()}
        kept_at = kernels.store() / facts["digest"][:16]
        invoking_user.make_folder(kernels.store())
        with locked(kernels.store()):
            _move(work / KERNEL, kept_at)
            link = kernels.store() / name
            link.unlink(missing_ok=True)
            link.symlink_to(kept_at.name)
        new = []
        invoking_user.make_folder(cache("tools"))
        for tool, folder in folders.items():
            target = programs.store() / folder.name
            if folder.is_dir() and not target.exists():
                _set_modes(folder, (programs.recipe_of(tool).executable,))
                _move(folder, target)
                new.append(tool)
        invoking_user.give(kernels.store())
        invoking_user.give(programs.store())
    return str(facts["version"]), new


def _check_kernel(source: Path, folder: Path) -> Mapping[str, Any]:
    if damage := kernels.find_damage(folder):
        raise SpecError(f"{source}: its kernel is damaged ({damage})")
    facts: dict[str, Any] = json.loads((folder / kernels.FACTS).read_text())
    version = version_in(Path(str(facts["source"])).name) or version_in(str(facts["version"]))
    if facts["recipe"] != recipe_digest(version):
        raise SpecError(f"{source}: its kernel was built by another version of mprun")
    if not all(character in "0123456789abcdef" for character in facts["digest"]) or len(facts["digest"]) != 64:
        raise SpecError(f"{source}: its kernel has no digest")
    return facts


def _set_modes(folder: Path, executables: tuple[str, ...]) -> None:
    """Give files the modes of what was built here. An archive has no modes."""
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        path.chmod(0o755 if path.name in executables else 0o644)


def _move(source: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    shutil.move(source, target)
