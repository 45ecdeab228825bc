# SPDX-License-Identifier: Apache-2.0
"""Checks that a kernel tree became the requested kernel: its options are on, and its hooks have an effect.

Configuring drops an option that a tree does not have. Compiling drops a hook that lies in a part of a file which the
tree's options leave out. Neither makes make(1) fail.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from mprun.kernel.patch import PLACES, UnfitTree, read_hooks

# Options that later trees have under another name: 7.3 made one option of two.
LATER_NAMES: Mapping[str, str] = {"CONFIG_PROC_SYSCTL=y": "CONFIG_SYSCTL=y"}

_OURS = re.compile(r"\bmprun_\w+")
# A line of `nm -A` for a function of ours: the object in the archive, defined (T) or called (U) there.
_SYMBOL = re.compile(r"^[^:]*:(?P<object>[^:]*):.* (?P<kind>[TU]) (?P<name>mprun_\w+)$", re.MULTILINE)


def later_names(options: Iterable[str]) -> list[str]:
    """Return the later names of options, as lines of a configuration; a tree with the earlier names ignores them."""
    return [LATER_NAMES[option] for option in options if option in LATER_NAMES]


def check_options(configuration: str, asked: Sequence[str]) -> None:
    """Check that every option is on, by its name or its later name. Raises UnfitTree.

    configuration: the tree's `.config`. asked: lines such as `CONFIG_NET=y`.
    """
    made = set(configuration.splitlines())
    if missing := [option for option in asked if not {option, LATER_NAMES.get(option, option)} & made]:
        raise UnfitTree(f"this kernel tree has no {', '.join(missing)}; mprun needs 6.12 or later")


def check_hooks(symbols: str) -> None:
    """Check that compiled files call mprun's functions where the hooks put the calls. Raises UnfitTree.

    symbols: the output of `nm -A` for the kernel's archive. A hook in a header has an effect if any object of the
    tree's own files calls mprun's function.
    """
    found = [match.groupdict() for match in _SYMBOL.finditer(symbols)]
    ours = {one["name"] for one in found if one["kind"] == "T"}
    files = {str(Path(path).with_suffix(".o")) for path in PLACES.values()}
    calls = {(one["object"], one["name"]) for one in found if one["kind"] == "U" and one["object"] not in files}
    called = {name for _, name in calls}
    for hook in read_hooks():
        first = hook[0]
        made = str(Path(first.file).with_suffix(".o"))
        for name in sorted(ours & set(_OURS.findall("".join(hunk.new for hunk in hook)))):
            if (made, name) not in calls if first.file.endswith(".c") else name not in called:
                raise UnfitTree(
                    f"{first} has no effect: {name}() is never called from there; "
                    "this tree needs a variant of the patch in mprun/kernel/patches"
                )
