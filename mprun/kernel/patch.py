# SPDX-License-Identifier: Apache-2.0
"""The changes that mprun makes in a kernel tree: unified diffs in `patches/`, and files of our own in `src/`.

A hunk of a patch is called a hook. Its context and removed lines are one block, which must occur exactly once in the
file. The line numbers of a hunk are not used: patch(1) and readers need them, and they are those of Linux 6.12. The
text after the second `@@` is the purpose of the hook.

`SUBJECT.patch` fits Linux 6.12. `SUBJECT.VARIANT.patch` has the hunks that differ in other trees. Hunks of a subject
with the same purpose are alternatives, of which exactly one must fit. A tree in which a hook does not fit exactly once
is refused; nothing is patched by guessing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from mprun.errors import MachineError
from mprun.kernel.tree import read_source
from mprun.model.frozen import Frozen

PATCHES = Path(__file__).parent / "patches"


class UnfitTree(MachineError):
    """A kernel tree that cannot become an experiment kernel, although this machine could build it."""


class Hunk(Frozen):
    """Replace the lines `old` by `new` in `file` (relative to the kernel tree). patch: the name of the patch."""

    patch: str
    file: str
    purpose: str
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.patch}: {self.file}: the hook {self.purpose!r}"

    def starts_in(self, text: str) -> list[int]:
        """Return each position in the text where the lines `old` begin."""
        return [found.start() for found in re.finditer(f"^(?={re.escape(self.old)})", text, re.MULTILINE)]


# One change of a tree: the hunk of a subject's patch, and those of its variants.
Hook = tuple[Hunk, ...]

_HEADING = re.compile(r"-\d+(?:,(?P<old>\d+))? \+\d+(?:,(?P<new>\d+))? @@ (?P<purpose>\S.*)\n")


def read_patch(path: Path) -> Iterator[Hunk]:
    """Return the hunks of a patch. Raises ValueError if it is not a unified diff, or if a hunk has no purpose."""
    _, *changes = re.split(r"^--- a/", path.read_text(), flags=re.MULTILINE)
    if not changes:
        raise ValueError(f"{path.name}: no file is changed")
    for change in changes:
        names, *hunks = re.split(r"^@@ ", change, flags=re.MULTILINE)
        file, _, _ = names.partition("\n")
        if names != f"{file}\n+++ b/{file}\n" or not hunks:
            raise ValueError(f"{path.name}: {file}: no change of this file")
        for hunk in hunks:
            heading, *lines = re.findall(r".*\n", hunk)
            marks = {line[0] for line in lines}
            old, new = ([line[1:] for line in lines if line[0] in both] for both in (" -", " +"))
            counts = _HEADING.fullmatch(heading)
            if not counts or (int(counts["old"] or 1), int(counts["new"] or 1)) != (len(old), len(new)):
                raise ValueError(f"{path.name}: {file}: {heading.strip()}: {len(old)} old and {len(new)} new lines")
            if not old or not new or not marks & {"+", "-"} or not marks <= {" ", "+", "-"}:
                raise ValueError(f"{path.name}: {file}: {heading.strip()}: no hunk that changes lines")
            yield Hunk(path.name, file, counts["purpose"], "".join(old), "".join(new))


@cache
def read_hooks() -> tuple[Hook, ...]:
    """Return the hooks of all patches, in the order in which they are applied."""
    found: dict[tuple[str, str], Hook] = {}
    # The patch of a subject comes before its variants, because its name has fewer suffixes.
    for path in sorted(PATCHES.glob("*.patch"), key=lambda path: (len(path.suffixes), path.name)):
        for hunk in read_patch(path):
            key = path.name.partition(".")[0], hunk.purpose
            found[key] = (*found.get(key, ()), hunk)
    return tuple(found.values())


MPTCP_FILES = (
    *("mprun_mptcp.h", "mprun_sched.h", "mprun_sched.c", "mprun_redundant.c", "mprun_balanced.c", "mprun_blest.c"),
    *("mprun_coupled.h", "mprun_coupled_math.h", "mprun_coupled.c", "mprun_wvegas.c"),
)
# Our file -> its place in the tree.
PLACES = {
    "mprun.h": "include/linux/mprun.h",
    "mprun_random.c": "arch/um/kernel/mprun_random.c",
    "mprun_packet.c": "arch/um/kernel/mprun_packet.c",
    "mprun_hostfs.c": "arch/um/kernel/mprun_hostfs.c",
    "mprun_time.c": "arch/um/kernel/mprun_time.c",
    "mprun_clock.h": "include/linux/mprun_clock.h",
    "mprun_clock.c": "arch/um/kernel/mprun_clock.c",
    "mprun_vdso.c": "arch/x86/um/vdso/mprun_vdso.c",
    "mprun_cost.c": "arch/um/kernel/mprun_cost.c",
    "mprun_fault.c": "arch/um/kernel/mprun_fault.c",
    "mprun_fp.c": "arch/um/kernel/mprun_fp.c",
    "mprun_seal.c": "arch/um/kernel/mprun_seal.c",
    "mprun_limit.c": "arch/um/kernel/mprun_limit.c",
    "mprun_jitter.c": "net/sched/mprun_jitter.c",
    "mprun_line.c": "net/sched/mprun_line.c",
    **{f"mptcp/{name}": f"net/mptcp/{name}" for name in MPTCP_FILES},
}

# Folders whose code no packet meets. They are compiled with less optimisation, which saves a quarter of the time. An
# IPv4 experiment spends no measurable time in them.
COLD = (
    *("fs", "drivers/base", "drivers/tty", "init", "ipc", "security", "kernel/irq", "kernel/printk", "kernel/trace"),
    *("net/bridge", "net/ethtool", "net/ipv6", "net/llc", "net/802"),
    *("net/netfilter", "net/ipv4/netfilter", "net/ipv6/netfilter", "net/openvswitch", "net/mpls", "net/nsh"),
)
COLD_LINE = "\nsubdir-ccflags-y += -O1 # mprun\n"


def our_files(tree: Path, sources: Path) -> dict[str, bytes]:
    """Return the content of every file that a tree gets from us, by its path in the tree.

    These are the tree's files with the hooks applied, and our files. Raises UnfitTree if a hook does not fit.
    """
    texts: dict[str, str] = {}
    for hook in read_hooks():
        _apply(tree, hook, texts)
    for folder in COLD:
        name = f"{folder}/Makefile"
        texts[name] = _read(tree, name) + COLD_LINE
    placed = {place: (sources / name).read_bytes() for name, place in PLACES.items()}
    return {name: text.encode() for name, text in texts.items()} | placed


def _apply(tree: Path, hook: Hook, texts: dict[str, str]) -> None:
    """Apply a hook to the texts of a tree's files. Raises UnfitTree if it does not fit exactly once."""
    first = hook[0]
    # Some trees do not have the file of a variant.
    names = {hunk.file for hunk in hook if (tree / hunk.file).exists()} or {first.file}
    found = {name: texts[name] if name in texts else _read(tree, name) for name in names}
    fits = [(hunk, start) for hunk in hook if hunk.file in found for start in hunk.starts_in(found[hunk.file])]
    if len(fits) != 1:
        raise UnfitTree(
            f"{first} fits {len(fits)} times instead of once: {first.old.strip()!r}; "
            "this tree needs a variant of the patch in mprun/kernel/patches"
        )
    hunk, start = fits[0]
    text = found[hunk.file]
    texts[hunk.file] = text[:start] + hunk.new + text[start + len(hunk.old) :]


def _read(tree: Path, name: str) -> str:
    try:
        return read_source(tree, name)
    except OSError as error:
        raise UnfitTree(f"{tree}: no {name} ({error.strerror}): is this a Linux tree?") from error


_OURS = re.compile(r"\bmprun_\w+")
# A line of `nm -A` for a function of ours: the object in the archive, defined (T) or called (U) there.
_SYMBOL = re.compile(r"^[^:]*:(?P<object>[^:]*):.* (?P<kind>[TU]) (?P<name>mprun_\w+)$", re.MULTILINE)


def check_hooks(symbols: str) -> None:
    """Check that compiled files call mprun's functions where the hooks put the calls. Raises UnfitTree.

    A hook may lie in a part of a file that the tree's options leave out. Then make(1) drops it without an error.
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
