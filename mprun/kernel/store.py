# SPDX-License-Identifier: Apache-2.0
"""Experiment kernels of this user: find, describe and remove them.

A kernel is in `~/.cache/mprun/kernels/<digest>/` with `init` and `bulk.so`. The digest covers its source, its
configuration and our sources, so nothing is built twice. Names (`default`, or the value of `--name`) are links to
digests.

The kernel of the package mprun-kernel stays where pip put it. It is `default` until the user builds a kernel of this
name.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from mprun.errors import MachineError, SpecError
from mprun.kernel.patch import PATCHES
from mprun.kernel.recipe import C_SOURCES, FRAGMENT, GUEST, contents_of, guest_digest, places, recipe_digest
from mprun.kernel.tree import KeptTree
from mprun.machine import invoking_user, packaged
from mprun.machine.cache import cache, locked
from mprun.machine.version import version_in
from mprun.model.discipline import Discipline
from mprun.model.frozen import Frozen
from mprun.safety import unchanged_program

DEFAULT_NAME = "default"

NAME_PATTERN = re.compile(r"[A-Za-z0-9_][\w.+-]*")
FACTS = "kernel.json"
# The keys that describe a kernel, the key of its files' digests, and the files themselves.
_TOLD = ("version", "digest", "source", "options", "compiler", "build_seconds")
FILES = "files"
# The key of the state of a tree when its kernel was built, and the file with the user's additions.
STATE = "state"
ADDED = "added.json"
PROGRAMS = ("linux", "init", "bulk.so")
# The kernel's symbols, if it was built with them. They are no part of it, and no archive contains them.
SYMBOLS = "linux.debug"
# A build keeps this number of kernels that have lost their names to later builds.
MOST_UNNAMED = 20


class Kernel(Frozen):
    """A kernel that can be booted.

    name: the name of its link, or of its folder if it has none. options: the number of options that are on.
    """

    name: str
    path: str
    version: str
    digest: str
    source: str
    options: int
    compiler: str
    build_seconds: float

    @property
    def directory(self) -> Path:
        """The folder of the kernel in the store."""
        return Path(self.path).parent


def store() -> Path:
    """Return the folder of this user's kernels."""
    return cache("kernels")


def kept_tree(name: str) -> KeptTree:
    """Return the tree in which kernels of this name are built from the user's tree. It need not exist."""
    return KeptTree(cache("kernel-trees") / name)


def list_kernels() -> list[Kernel]:
    """Return all built kernels, sorted by name.

    Kernels that have lost their name to another build come last.
    """
    built = store().iterdir() if store().is_dir() else ()
    whole = [path for path in sorted(built) if not find_damage(path, ())]
    named = [path for path in whole if path.is_symlink()]
    paths = {path.resolve() for path in named}
    kernels = [_load(path) for path in (*named, *(path for path in whole if path.resolve() not in paths))]
    if packed := _find_packed():
        digest = json.loads((packed / FACTS).read_text())["digest"]
        taken = any(kernel.name == DEFAULT_NAME for kernel in kernels)
        kernels.append(_load(packed, digest[:16] if taken else DEFAULT_NAME))
    return kernels


def _find_packed() -> Path | None:
    """Return the folder of the kernel in the package mprun-kernel; None without the package."""
    folder = packaged.find_built("kernel")
    return folder if folder and not find_damage(folder, ()) else None


def find_by_digest(digest: str) -> Kernel | None:
    """Return a kernel of this user by its whole digest."""
    return next((kernel for kernel in list_kernels() if kernel.digest == digest), None)


def size_bytes(kernel: Kernel) -> int:
    """Return the size of a kernel on the disk."""
    return sum(path.stat().st_size for path in kernel.directory.iterdir())


def choose(names: Sequence[str]) -> list[Kernel]:
    """Return kernels by name, by digest, or by at least four leading digits of a digest.

    Raises SpecError for a name that does not exist or that fits several kernels.
    """
    kernels = list_kernels()
    chosen = []
    for name in names:
        found = _find_matching(kernels, name)
        if not found:
            raise SpecError(f"no kernel '{name}'; there is: {', '.join(kernel.name for kernel in kernels) or 'none'}")
        if len(found) > 1:
            raise SpecError(f"'{name}' is {' and '.join(kernel.name for kernel in found)}: choose one by its name")
        chosen += found
    return chosen


def _find_matching(kernels: Sequence[Kernel], name: str) -> list[Kernel]:
    """Return the kernel of a name, or else those whose digests begin with it, from four digits on."""
    named = [kernel for kernel in kernels if kernel.name == name]
    return named or [kernel for kernel in kernels if len(name) >= 4 and kernel.digest.startswith(name)]


def remove(kernel: Kernel) -> None:
    """Remove the name of a kernel, and the tree that is kept for it. Remove the kernel if it has no other name.

    Raises SpecError for the kernel of a package, which only pip removes.
    """
    if (packed := _find_packed()) and kernel.directory == packed.resolve():
        raise SpecError(f"kernel '{kernel.name}' is in the package mprun-kernel: pip uninstall mprun-kernel")
    # a build with this name ends first
    with locked(store(), part=kernel.name), locked(store()):
        link = store() / kernel.name
        if link.is_symlink():
            link.unlink()
            shutil.rmtree(kept_tree(kernel.name).folder, ignore_errors=True)
        if not any(path.is_symlink() and path.resolve() == kernel.directory for path in store().iterdir()):
            shutil.rmtree(kernel.directory)


def prune(most: int) -> list[Kernel]:
    """Remove the oldest kernels that have lost their names, so that `most` of them are left. Return those removed."""
    with locked(store()):
        unnamed = [kernel for kernel in list_kernels() if kernel.name == kernel.directory.name]
        unnamed.sort(key=lambda kernel: (kernel.directory / FACTS).stat().st_mtime_ns, reverse=True)
        removed = unnamed[most:]
        for kernel in removed:
            shutil.rmtree(kernel.directory)
        return removed


def find_kernel(name: str = DEFAULT_NAME) -> Kernel:
    """Return a built kernel, by name or digest.

    Raises MachineError for a word that is no name. Raises MachineError, with the command that builds it, if the kernel
    does not exist, if its files have changed since the build, or if another user could replace them.
    """
    if not NAME_PATTERN.fullmatch(name):
        raise MachineError(f"'{name}' is no name of a kernel: give one that `mprun kernel list` shows")
    link = store() / name
    what, how, otherwise = "experiment kernel", "mprun kernel build", ""
    if name != DEFAULT_NAME:
        what, how = f"{what} '{name}'", f"{how} --source TREE --name {name}"
        otherwise = ", or with `--with-scheduler FILE.c` instead of `--source` for a scheduler of your own"
    if not (link / FACTS).is_file():
        kernels = list_kernels()
        found = _find_matching(kernels, name)
        if len(found) != 1:
            others = ", ".join(kernel.name for kernel in kernels) or f"none in {store()}"
            raise MachineError(f"no {what} is built for this user (built: {others}); run `{how}`{otherwise}")
        link, name = found[0].directory, found[0].name
    if damage := find_damage(link):
        raise MachineError(f"the {what} is damaged ({damage}); run `{how}`")
    if strange := unchanged_program.find_stranger(link, PROGRAMS, (0, invoking_user.user())):
        raise MachineError(f"{strange}: remove {link.resolve()} and run `{how}`")
    return _load(link, name)


def has_option(kernel: Kernel, option: str) -> bool:
    """Return True if the configuration of a kernel has a line such as `CONFIG_VETH=y`."""
    return option in (kernel.directory / "config").read_text().splitlines()


def find_lacking_discipline(kernel: Kernel, known: Discipline) -> str | None:
    """Return the message, with a remedy, that a kernel lacks a queue discipline; None if the kernel has it."""
    if known.since is None or has_option(kernel, f"{known.kernel_option}=y"):
        return None
    since = "{}.{}".format(*known.since)
    return (
        f"experiment kernel '{kernel.name}' ({kernel.version}) has no queue discipline '{known.kind}', which "
        f"Linux has from {since} on: `mprun kernel build --source TREE --name later` with a source of {since} "
        "or later, and run with --kernel later"
    )


def is_current(kernel: Kernel) -> bool:
    """Return True if the kernel was built by this version of the recipe."""
    facts = json.loads((kernel.directory / FACTS).read_text())
    version = version_in(Path(facts["source"]).name) or version_in(facts["version"])
    return bool(facts["recipe"] == recipe_digest(version) and facts.get("guest") == guest_digest())


def find_update(kernel: Kernel) -> str:
    """Return what replaces a default kernel of another version of mprun: a command, or the packages to install."""
    packed = _find_packed()
    if packed and kernel.directory == packed.resolve():
        return "install mprun and mprun-kernel of one version"
    return "run `mprun kernel rm default`, which leaves that of mprun-kernel" if packed else "run `mprun kernel build`"


def is_built_from(kernel: Kernel, source_digest: str) -> bool:
    """Return True if the kernel was built from a source that has this digest now."""
    facts = json.loads((kernel.directory / FACTS).read_text())
    if STATE in facts:
        return bool(facts[STATE] == source_digest)
    added = kernel.directory / ADDED
    digest = hashlib.sha256(added.read_bytes()).hexdigest() if added.exists() else ""
    return kernel_digest(source_digest, facts["recipe"], digest) == kernel.digest


def kernel_digest(source_digest: str, recipe: str, added: str = "") -> str:
    """Return the digest of a kernel from the digests of its source and of its recipe.

    added: the digest of the user's additions; empty without any.
    """
    return hashlib.sha256((source_digest + recipe + added).encode()).hexdigest()


def find_damage(folder: Path, programs: Sequence[str] = PROGRAMS) -> str | None:
    """Return what is wrong with the files of a kernel; None if they are as they were built."""
    try:
        facts = json.loads((folder / FACTS).read_text())
        if lacking := [key for key in (*_TOLD, "recipe", FILES) if key not in facts]:
            return f"{FACTS} has no '{lacking[0]}'"
    except (OSError, ValueError, TypeError):
        return f"{FACTS} cannot be read"
    return unchanged_program.find_change(folder.resolve(), facts[FILES], programs)


def _load(link: Path, name: str = "") -> Kernel:
    """Return the kernel in a folder. name: its name, if this is not the name of the folder or of the link to it."""
    facts = json.loads((link / FACTS).read_text())
    directory = link.resolve()
    return Kernel(
        name=name or link.name,
        path=str(directory / "linux"),
        **{key: facts[key] for key in _TOLD},
    )


def describe_recipe(digest: str) -> dict[str, bytes]:
    """Return the files that describe how a kernel was made, by name below `kernel/`; empty if no such kernel exists.

    The files are its configuration and, if it has this version of the recipe, mprun's files and patches. The source is
    the distribution's. It is only given by name and digest.
    """
    found = find_by_digest(digest)
    if found is None:
        return {}
    folder = f"kernel/{digest[:16]}"
    told = [name for name in (FACTS, "config", ADDED) if (found.directory / name).exists()]
    files = {f"{folder}/{name}": (found.directory / name).read_bytes() for name in told}
    if is_current(found):
        files[f"{folder}/recipe/config.fragment"] = FRAGMENT.read_bytes()
        files[f"{folder}/recipe/places.json"] = f"{places()}\n".encode()
        for part, sources, pattern in (
            ("patches", PATCHES, "*.patch"),
            ("src", C_SOURCES, "*.[ch]"),
            ("guest", GUEST, "*.c"),
        ):
            contents = contents_of(sources, pattern)
            files |= {f"{folder}/recipe/{part}/{name}": content for name, content in contents.items()}
    return files
