# SPDX-License-Identifier: Apache-2.0
"""The recipe of an experiment kernel: its configuration, our patches and our files, without the source of Linux."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from mprun.kernel.patch import COLD, COLD_LINE, PATCHES, PLACES, UnfitTree
from mprun.model.discipline import DISCIPLINES

HERE = Path(__file__).parent


C_SOURCES = HERE / "src"


GUEST = HERE / "guest"


FRAGMENT = HERE / "config.fragment"


KernelVersion = tuple[int, int]


# Options that trees have only from a version on. They are no part of the recipe for earlier trees.
LATER_OPTIONS: Mapping[str, KernelVersion] = {
    f"{one.kernel_option}=y": one.since for one in DISCIPLINES.values() if one.since
}

# Options that later trees have under another name: 7.3 made one option of two.
LATER_NAMES: Mapping[str, str] = {"CONFIG_PROC_SYSCTL=y": "CONFIG_SYSCTL=y"}


def recipe_digest(version: KernelVersion | None = None) -> str:
    """Return the SHA-256 of a kernel's recipe: the configuration, the patches and mprun's files, but not the source.

    version: the version of the source; None if it is not known.
    """
    options = "\n".join(asked_options(version))
    parts = {"options": options.encode(), "places": places().encode()}
    return _digest(parts | contents_of(PATCHES, "*.patch") | contents_of(C_SOURCES, "*.[ch]"))


def places() -> str:
    """Return where mprun's files go in a tree, and which folders are compiled with -O1, as JSON.

    The patches and the sources do not say this.
    """
    return json.dumps([PLACES, sorted(COLD), COLD_LINE], indent=1)


def guest_digest() -> str:
    """Return the SHA-256 of the sources of the programs that run beside the kernel: `init` and `bulk.so`.

    These programs are built in less than a second.
    """
    return _digest(contents_of(GUEST, "*.c"))


def contents_of(folder: Path, pattern: str) -> dict[str, bytes]:
    """Return the content of each file below a folder that matches a pattern, by its path in the folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob(pattern))}


def _digest(parts: Mapping[str, bytes]) -> str:
    total = hashlib.sha256()
    for name, content in parts.items():
        total.update(f"{name} {len(content)}\n".encode() + content)
    return total.hexdigest()


def asked_options(version: KernelVersion | None = None) -> list[str]:
    """Return the lines of the configuration that set an option in a tree of this version.

    version: None stands for a version that is not known.
    """
    always = [line for line in FRAGMENT.read_text().splitlines() if line.startswith("CONFIG_")]
    return always + [option for option, since in LATER_OPTIONS.items() if version is not None and version >= since]


def later_names(options: Iterable[str]) -> list[str]:
    """Return the later names of options, as lines of a configuration; a tree with the earlier names ignores them."""
    return [LATER_NAMES[option] for option in options if option in LATER_NAMES]


def check_options(configuration: str, asked: Sequence[str]) -> None:
    """Check that every option is on, by its name or its later name. Raises UnfitTree.

    make(1) drops an option that a tree does not have without an error.
    configuration: the tree's `.config`. asked: lines such as `CONFIG_NET=y`.
    """
    made = set(configuration.splitlines())
    if missing := [option for option in asked if not {option, LATER_NAMES.get(option, option)} & made]:
        raise UnfitTree(f"this kernel tree has no {', '.join(missing)}; mprun needs 6.12 or later")
