# SPDX-License-Identifier: Apache-2.0
"""Build an experiment kernel from a source tree or tarball, and the programs that run beside it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from mprun.errors import MachineError, SpecError
from mprun.kernel import recipe, store
from mprun.kernel.addition import NOTHING, Addition
from mprun.kernel.line_coverage import keep_notes
from mprun.kernel.make import make, run
from mprun.kernel.patch import UnfitTree, check_hooks, our_files
from mprun.kernel.recipe import KernelVersion
from mprun.kernel.store import Kernel
from mprun.kernel.symbols import FLAGS, has_symbols, keep_symbols
from mprun.kernel.tree import NOT_NEEDED, put_files, read_source, scan
from mprun.machine.cache import Progress, locked
from mprun.machine.scratch import scratch
from mprun.machine.version import version_in
from mprun.model.frozen import Frozen
from mprun.safety import unchanged_program

# The path on Debian. On other releases the linux-source package of 6.12 or later has another name. The second folder
# has the source that setup.sh fetches if there is no such package.
KERNEL_SOURCE_FOLDERS = (Path("/usr/src"), Path("/usr/local/src"))


DEFAULT_KERNEL_SOURCE = KERNEL_SOURCE_FOLDERS[0] / "linux-source-6.12.tar.xz"


KERNEL_SOURCE_REMEDY = "apt-get install linux-source-6.12; on Ubuntu, in a checkout: ./setup.sh"


OLDEST = (6, 12)


BUILD_TOOLS = {"make": "make", "gcc": "gcc", "flex": "flex", "bison": "bison", "bc": "bc", "xz": "xz-utils"}


# A build after a change of a file takes less.
_LEAST_WHOLE_S = 60


# The size of a tree without the files that no build needs and with its objects, plus a tenth.
_BUILD_BYTES = 1_000_000_000


def default_source() -> Path:
    """Return the path of the default source.

    It is Debian's source of 6.12 if it exists, else the newest installed source from 6.12 on. If there is none, it is
    the path of Debian's source.
    """
    if DEFAULT_KERNEL_SOURCE.exists():
        return DEFAULT_KERNEL_SOURCE
    paths = [path for folder in KERNEL_SOURCE_FOLDERS for path in folder.glob("linux-source-[0-9]*.tar.*")]
    found = [(version, path) for path in paths if (version := version_in(path.name)) and version >= OLDEST]
    return max(found, default=(OLDEST, DEFAULT_KERNEL_SOURCE))[1]


def digest_source(source: Path) -> str:
    """Return the SHA-256 of a tarball, or of names, sizes and times of the source files of a tree."""
    if source.is_file():
        with source.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    total = hashlib.sha256()
    for name, (size, changed_ns, _) in sorted(scan(source).items()):
        total.update(f"{name} {size} {changed_ns}\n".encode())
    return total.hexdigest()


class _Order(Frozen):
    """A request to build a kernel.

    - name: for the kernel.
    - version: the version of the source; None if it is not known.
    - jobs: the number of compilers that run at a time.
    - with_symbols: the kernel gets symbols for gdb.
    """

    name: str
    source: Path
    version: KernelVersion | None
    added: Addition
    jobs: int
    progress: Progress
    with_symbols: bool = False

    def tell_waiting(self) -> None:
        self.progress("waiting for another build of a kernel", 0)

    def digest(self, source_digest: str) -> str:
        """Return the digest of the kernel from a source with this digest."""
        return store.kernel_digest(source_digest, recipe.recipe_digest(self.version), self.added.digest)

    @property
    def log(self) -> Path:
        """The log of the newest build with this name."""
        return store.store() / ("build.log" if self.name == store.DEFAULT_NAME else f"build-{self.name}.log")

    @property
    def options(self) -> str:
        """The configuration that is asked of the tree, also with the names that later trees have for its options."""
        asked = recipe.asked_options(self.version)
        later = [option for option in asked if option in recipe.LATER_OPTIONS]
        return "\n".join([recipe.FRAGMENT.read_text(), *later, *recipe.later_names(asked), *self.added.options, ""])

    def our_files(self, tree: Path) -> dict[str, bytes]:
        """Return what the tree gets from us. Raises UnfitTree if it is no Linux or a hook does not fit."""
        _check_version(tree, self.source)
        return self.added.add_files(our_files(tree, recipe.C_SOURCES))

    def is_fulfilled_by(self, target: Path) -> bool:
        """Return whether a folder of the store has the requested kernel, whose digest is the folder's name."""
        return store.find_damage(target, store.PROGRAMS[:1]) is None and (has_symbols(target) or not self.with_symbols)


def build(
    source: Path | None,
    name: str,
    jobs: int,
    progress: Progress,
    added: Addition = NOTHING,
    with_symbols: bool = False,
) -> tuple[Kernel, bool]:
    """Build the kernel of `source` (tarball or tree) and name it `name`. Return the kernel, and True if it was built.

    A tree is only read. Its files are copied to a tree that is kept for the name, so that a later build copies and
    compiles only what has changed. If `source` is None and no package's source exists, an existing kernel of this name
    is returned. with_symbols: the kernel gets symbols for gdb, also if it exists already.

    Raises SpecError for an invalid name or addition, MachineError for what is missing on this machine, RunError with
    the end of the log if the build fails.
    """
    if not store.NAME_PATTERN.fullmatch(name):
        raise SpecError(
            f"'{name}' cannot be the name of a kernel: that has letters, digits, and . + - _ after the first"
        )
    link = store.store() / name
    if link.exists() and not link.is_symlink():
        raise SpecError(f"'{name}' cannot be the name of a kernel: {link} is another thing")
    if name == store.DEFAULT_NAME and added.digest:
        raise SpecError(f"a kernel with additions needs a name of its own, not '{name}': add --name mine")
    asked, source = source, source or default_source()
    is_whole = not store.find_damage(link) and (not with_symbols or has_symbols(link))
    known = store.find_kernel(name) if is_whole else None
    is_current = known is not None and store.is_current(known)
    if not source.exists():
        if known and is_current and not asked:
            return known, False
        raise MachineError(
            f"no kernel source at {source}: {'give another --source' if asked else KERNEL_SOURCE_REMEDY}"
        )
    if not source.is_file() and not source.is_dir():
        raise MachineError(f"{source} is neither a tarball nor a tree of files")
    missing = [package for tool, package in BUILD_TOOLS.items() if not shutil.which(tool)]
    if missing:
        raise MachineError(f"building a kernel needs {', '.join(missing)}: apt-get install {' '.join(missing)}")
    if set(" :\t") & set(str(store.store().absolute())):
        raise MachineError(
            f"make cannot build a kernel below {store.store()}, with a space or colon in it: set XDG_CACHE_HOME"
        )
    progress("reading the source", 0)
    order = _Order(name, source, _find_version(source), added, jobs, progress, with_symbols)
    # a kernel that is there waits for no other build
    if known and is_current and source.is_file() and known.digest == order.digest(digest_source(source)):
        return known, False
    with locked(store.store(), lambda: progress(f"waiting for another build of '{name}'", 0), part=name):
        target, fresh = _build_in_kept(order) if source.is_dir() else _build_archive(order)
        # a build with another name may make the same kernel
        with locked(store.store(), order.tell_waiting):
            facts = json.loads((target / store.FACTS).read_text())
            wanted = {**facts, "guest": recipe.guest_digest()}
            if source.is_dir():
                wanted[store.STATE] = digest_source(source)
            if facts.get("guest") != wanted["guest"] or store.find_damage(target):
                _build_guest(target)
            if facts != wanted or store.find_damage(target):
                _write_facts(target, wanted)
            temporary = link.with_name(f".{name}.new")
            temporary.unlink(missing_ok=True)
            temporary.symlink_to(target.name)
            temporary.replace(link)
    return store.find_kernel(name), fresh


def _build_archive(order: _Order) -> tuple[Path, bool]:
    """Build the kernel of a tarball in a tree that is removed afterwards, unless the kernel exists."""
    digest = order.digest(digest_source(order.source))
    target = store.store() / digest[:16]
    if order.is_fulfilled_by(target):
        return target, False
    started = time.monotonic()
    _check_room()
    with scratch(".build-", store.store()) as work:
        order.progress("unpacking the source", 0)
        patterns = (f"*/{folder}/*{ending}" for folder, endings in NOT_NEEDED.items() for ending in endings)
        tree = unpack(order.source, work, [f"--exclude={pattern}" for pattern in patterns])
        put_files(tree, order.our_files(tree))
        with order.log.open("w") as output:
            _configure(tree, work, output, order)
            _compile(tree, output, order)
        return target, _keep(tree, target, digest, order, started)


def _build_in_kept(order: _Order) -> tuple[Path, bool]:
    """Build the kernel of the user's tree in the tree that is kept for its name, unless the kernel exists."""
    started = time.monotonic()
    kept = store.kept_tree(order.name)
    if not kept.exists:
        _check_room()
    ours = order.our_files(order.source)
    with kept.under_way():
        digest = order.digest(kept.update(order.source, ours, lambda done: order.progress("copying the source", done)))
        target = store.store() / digest[:16]
        if order.is_fulfilled_by(target):
            return target, False
        if order.with_symbols:
            kept.note_symbols()
        order = replace(order, with_symbols=kept.has_symbols)
        with order.log.open("w") as output:
            if not kept.is_configured_with(order.options):
                _configure(kept.tree, kept.folder, output, order)
                kept.note_options(order.options)
            _compile(kept.tree, output, order)
    return target, _keep(kept.tree, target, digest, order, started)


def _check_room() -> None:
    if (free := shutil.disk_usage(store.store()).free) < _BUILD_BYTES:
        raise MachineError(
            f"{store.store()} has {free / 1e9:.1f} GB free, and building one takes {_BUILD_BYTES / 1e9:.1f} GB: "
            "make room there, or set XDG_CACHE_HOME to a folder on another disk"
        )


def _configure(tree: Path, work: Path, output: TextIO, order: _Order) -> None:
    order.progress("configuring", 0)
    options = work / "asked"
    options.write_text(order.options)
    make(tree, order.log, output, [f"KCONFIG_ALLCONFIG={options}", "allnoconfig"], None)
    configuration = (tree / ".config").read_text()
    recipe.check_options(configuration, recipe.asked_options(order.version))
    order.added.check_options(configuration)


def _compile(tree: Path, output: TextIO, order: _Order) -> None:
    symbols = FLAGS if order.with_symbols else ()
    text = f"compiling on {order.jobs} {'CPU' if order.jobs == 1 else 'CPUs'}"
    if not (tree / "vmlinux.a").exists() and (took_s := last_whole_build_s()):
        text += f" (the last whole build took {took_s / 60:.1f} min)"
    order.progress(text, 0)
    words = [f"-j{order.jobs}", *symbols, *order.added.variables, "linux"]
    make(tree, order.log, output, words, lambda done: order.progress(text, done))
    defined = run(["nm", "-A", "vmlinux.a"], tree)
    check_hooks(defined)
    order.added.check_files(defined)


def last_whole_build_s() -> float | None:
    """Return the time that the newest build from nothing took on this machine; None if none is known."""
    built = [kernel for kernel in store.list_kernels() if kernel.build_seconds > _LEAST_WHOLE_S]
    newest = max(built, key=lambda kernel: (kernel.directory / store.FACTS).stat().st_mtime_ns, default=None)
    return None if newest is None else newest.build_seconds


def _keep(tree: Path, target: Path, digest: str, order: _Order, started: float) -> bool:
    """Move what was built, and the facts about it, to its place. started: of the monotonic clock, in s.

    Return False if the kernel was there already and has only got its symbols.
    """
    order.progress("finishing", 1)
    with locked(store.store(), order.tell_waiting), scratch(".build-", store.store()) as work:
        if store.find_damage(target, store.PROGRAMS[:1]) is None:
            keep_symbols(tree / "linux", target, work)
            return False
        made = work / "made"
        made.mkdir()
        shutil.copy(tree / "linux", made / "linux")
        run(["strip", str(made / "linux")])
        shutil.copy(tree / ".config", made / "config")
        if order.added.digest:
            (made / store.ADDED).write_text(order.added.to_text())
        if order.added.counts_lines:
            keep_notes(tree, made)
        facts = {
            "digest": digest,
            "recipe": recipe.recipe_digest(order.version),
            "version": run(["make", "-s", "ARCH=um", "kernelrelease"], tree).strip(),
            "source": str(order.source),
            "options": (tree / ".config").read_text().count("=y\n"),
            "compiler": run(["gcc", "--version"]).splitlines()[0],
            "build_seconds": round(time.monotonic() - started, 1),
        }
        _write_facts(made, facts)
        if order.with_symbols:
            keep_symbols(tree / "linux", made, work)
        made.chmod(0o755)
        shutil.rmtree(target, ignore_errors=True)
        made.rename(target)
        return True


def _find_version(source: Path) -> KernelVersion | None:
    """Return the version of a source: in its name, else in the Makefile of a tree. None if neither has one."""
    return version_in(source.name) or (_read_version(source) if source.is_dir() else None)


def _read_version(tree: Path) -> KernelVersion | None:
    try:
        makefile = read_source(tree, "Makefile")
    except OSError:
        return None
    lines = [re.search(rf"^{name} = (\d+)$", makefile, re.MULTILINE) for name in ("VERSION", "PATCHLEVEL")]
    found = [int(line[1]) for line in lines if line]
    return (found[0], found[1]) if len(found) == 2 else None


def _write_facts(folder: Path, facts: Mapping[str, object]) -> None:
    """Write the facts about a kernel, with the current digests of its programs."""
    facts = {**facts, store.FILES: unchanged_program.digest_files(folder, store.PROGRAMS)}
    partial = folder / ".kernel.json.new"
    partial.write_text(json.dumps(facts, indent=1) + "\n")
    partial.replace(folder / store.FACTS)


def _build_guest(target: Path) -> None:
    """Compile the first process of the kernel and the library for bulk receivers."""
    for name, flags in (("init", ["-static"]), ("bulk.so", ["-shared", "-fPIC", "-ldl"])):
        partial = target / f".{name}.new"
        run(["gcc", "-O2", "-o", str(partial), str(recipe.GUEST / f"{name.split('.')[0]}.c"), *flags])
        partial.replace(target / name)


def unpack(source: Path, work: Path, words: Sequence[str]) -> Path:
    """Return the tree of a tarball, or the part that `words` (options and patterns of tar(1)) select."""
    # Debian's tarball has blocks that xz can unpack in parallel
    environment = {**os.environ, "XZ_DEFAULTS": "-T0"}
    # without --force-local, tar takes a name with a colon for a file of another machine, and starts rsh(1)
    argv = ["tar", "-x", "--force-local", "-f", str(source), "-C", str(work), *words]
    done = subprocess.run(argv, capture_output=True, text=True, env=environment)
    if done.returncode:
        said = done.stderr.strip()
        lacking = re.search(r"\(child\): (\w+): Cannot exec", said)
        mend = f"; apt-get install {lacking[1]}" if lacking else ""
        raise MachineError(f"{source}: cannot be unpacked: {said.splitlines()[0] if said else 'tar failed'}{mend}")
    trees = [path for path in work.iterdir() if path.is_dir()]
    if len(trees) != 1:
        raise MachineError(f"{source}: holds {len(trees)} folders instead of one kernel tree")
    return trees[0]


def _check_version(tree: Path, source: Path) -> None:
    """Raise UnfitTree if the tree is not Linux, or is older than our files require."""
    found = _read_version(tree)
    if found is None or not (tree / "arch" / "um").is_dir():
        raise UnfitTree(f"{source} is no Linux source tree: there is no Makefile with a version, or no arch/um")
    if found < OLDEST:
        version, oldest = (".".join(map(str, numbers)) for numbers in (found, OLDEST))
        raise UnfitTree(f"{source} is Linux {version}; mprun needs {oldest} or later")
