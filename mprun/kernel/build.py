# SPDX-License-Identifier: Apache-2.0
"""Build an experiment kernel from a source tree or tarball, and the programs that run beside it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TextIO

from mprun import genuine
from mprun.cache import Progress, locked
from mprun.errors import HostError, RunError, SpecError
from mprun.kernel.fit import check_hooks, check_options, later_names
from mprun.kernel.hooks import apply_hooks
from mprun.kernel.recipe import (
    FRAGMENT,
    GUEST,
    LATER_OPTIONS,
    SOURCES,
    Version,
    asked_options,
    guest_digest,
    recipe_digest,
    version_in,
)
from mprun.kernel.store import (
    FACTS,
    FILES,
    NAME_PATTERN,
    PROGRAMS,
    Kernel,
    find_damage,
    find_kernel,
    is_current,
    kernel_digest,
    store,
)
from mprun.scratch import scratch

# The path on Debian. On other releases the linux-source package of 6.12 or later has another name. The second folder
# has the source that setup.sh fetches if there is no such package.
SOURCE_FOLDERS = (Path("/usr/src"), Path("/usr/local/src"))


DEFAULT_SOURCE = SOURCE_FOLDERS[0] / "linux-source-6.12.tar.xz"


SOURCE_REMEDY = "apt-get install linux-source-6.12; on Ubuntu, in a checkout: ./setup.sh"


OLDEST = (6, 12)


BUILD_TOOLS = {"make": "make", "gcc": "gcc", "flex": "flex", "bison": "bison", "bc": "bc", "xz": "xz-utils"}


# Files that no build for this architecture reads. Leaving them out saves a third of the unpacking time. Kconfig files
# stay, because those of all subsystems are read.
_NOT_NEEDED = (
    *(f"*/Documentation/*.{suffix}" for suffix in ("rst", "yaml", "txt", "svg")),
    *(f"*/{folder}/*.[ch]" for folder in ("samples", "tools/testing", "tools/perf")),
    *(f"*/drivers/{name}/*.[ch]" for name in "gpu media staging infiniband scsi usb iio clk pinctrl".split()),
    *(f"*/drivers/net/{name}/*.[ch]" for name in ("ethernet", "wireless", "phy", "dsa")),
    *(f"*/fs/{name}/*.[ch]" for name in "btrfs xfs ext4 f2fs ocfs2 nfs nfsd smb ceph bcachefs ntfs3".split()),
    "*/sound/*.[ch]",
    *(
        f"*/arch/{name}/*.{suffix}"
        for name in "alpha arc arm arm64 loongarch m68k mips parisc powerpc riscv s390 sh sparc xtensa".split()
        for suffix in ("[chS]", "dts*")
    ),
)


# Fixed, so that place, time and user of the build do not enter the kernel. They are in utsname, which is mixed into the
# kernel's random pool.
_BUILD_IDENTITY = {
    "KBUILD_BUILD_TIMESTAMP": "2026-01-01 00:00:00 UTC",
    "KBUILD_BUILD_USER": "mprun",
    "KBUILD_BUILD_HOST": "mprun",
    "KBUILD_BUILD_VERSION": "1",
}


# The variables of the user's environment that a build gets. Others, such as ARCH, CROSS_COMPILE or MAKEFLAGS of a
# parent make, would give another kernel or none.
_BUILD_SEES = ("PATH", "HOME")


# Files and folders that show that a tree has been built in.
_BUILT_IN = (".config", "include/config", "include/generated")


# The size of a tree without the parts above and with its objects, plus a tenth.
_BUILD_BYTES = 1_000_000_000


# The number of files that the configuration compiles; only the progress bar needs it.
_EXPECTED_STEPS = 1090


def default_source() -> Path:
    """Return the path of the default source.

    It is Debian's source of 6.12 if it exists, else the newest installed source from 6.12 on. If there is none, it is
    the path of Debian's source.
    """
    if DEFAULT_SOURCE.exists():
        return DEFAULT_SOURCE
    found = []
    for path in (path for folder in SOURCE_FOLDERS for path in folder.glob("linux-source-*.tar.*")):
        match = re.match(r"linux-source-(\d+)\.(\d+)", path.name)
        if match and (version := (int(match[1]), int(match[2]))) >= OLDEST:
            found.append((version, path))
    return max(found, default=((0, 0), DEFAULT_SOURCE))[1]


def digest_source(source: Path) -> str:
    """Return the SHA-256 of a tarball, or of names, sizes and times of the files of a tree."""
    total = hashlib.sha256()
    if source.is_file():
        with source.open("rb") as file:
            while block := file.read(1 << 20):
                total.update(block)
        return total.hexdigest()
    for folder, folders, files in os.walk(source):
        folders[:] = sorted(name for name in folders if name != ".git")
        for name in sorted(files):
            if name.endswith((".o", ".cmd", ".a", ".d")):
                continue
            status = os.lstat(os.path.join(folder, name))
            total.update(f"{os.path.relpath(folder, source)}/{name} {status.st_size} {status.st_mtime_ns}\n".encode())
    return total.hexdigest()


def build(source: Path | None, name: str, jobs: int, progress: Progress) -> tuple[Kernel, bool]:
    """Build the kernel of `source` (tarball or tree) and name it `name`. Return the kernel, and True if it was built.

    If `source` is None and no package's source exists, an existing kernel of this name is returned. Raises SpecError
    for an invalid name, HostError for what is missing on this machine, RunError with the end of the log if the build
    fails.
    """
    if not NAME_PATTERN.fullmatch(name):
        raise SpecError(
            f"'{name}' cannot be the name of a kernel: that has letters, digits, and . + - _ after the first"
        )
    if (store() / name).exists() and not (store() / name).is_symlink():
        raise SpecError(f"'{name}' cannot be the name of a kernel: {store() / name} is another thing")
    asked, source = source, source or default_source()
    if not source.exists():
        if not asked and not find_damage(store() / name) and is_current(kernel := find_kernel(name)):
            return kernel, False
        raise HostError(f"no kernel source at {source}: {'give another --source' if asked else SOURCE_REMEDY}")
    if not source.is_file() and not source.is_dir():
        raise HostError(f"{source} is neither a tarball nor a tree of files")
    missing = [package for tool, package in BUILD_TOOLS.items() if not shutil.which(tool)]
    if missing:
        raise HostError(f"building a kernel needs {', '.join(missing)}: apt-get install {' '.join(missing)}")
    if set(" :\t") & set(str(store().absolute())):
        raise HostError(f"make cannot build a kernel below {store()}, with a space or colon in it: set XDG_CACHE_HOME")
    with locked(store(), lambda: progress("waiting for another build of this user", 0)):
        progress("reading the source", 0)
        version = _find_version(source)
        digest = kernel_digest(digest_source(source), recipe_digest(version))
        target = store() / digest[:16]
        fresh = find_damage(target, PROGRAMS[:1]) is not None
        if fresh:
            shutil.rmtree(target, ignore_errors=True)
            _build_into(target, source, digest, version, jobs, progress)
        facts = json.loads((target / FACTS).read_text())
        if facts.get("guest") != guest_digest() or find_damage(target):
            _build_guest(target)
            facts["guest"] = guest_digest()
            _write_facts(target, facts)
        temporary = store() / f".{name}.new"
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(target.name)
        temporary.replace(store() / name)
    return find_kernel(name), fresh


def _build_into(
    target: Path, source: Path, digest: str, version: Version | None, jobs: int, progress: Progress
) -> None:
    started = time.monotonic()
    disk = os.statvfs(store())
    if (free := disk.f_bavail * disk.f_frsize) < _BUILD_BYTES:
        raise HostError(
            f"{store()} has {free / 1e9:.1f} GB free, and building one takes {_BUILD_BYTES / 1e9:.1f} GB: "
            "make room there, or set XDG_CACHE_HOME to a folder on another disk"
        )
    with scratch(".build-", store()) as work:
        progress(f"{'copying' if source.is_dir() else 'unpacking'} the source", 0)
        tree = _unpack(source, work)
        _check_version(tree, source)
        apply_hooks(tree, SOURCES)
        log = store() / "build.log"
        with log.open("w") as output:
            progress("configuring", 0)
            _make(tree, log, output, [f"KCONFIG_ALLCONFIG={_write_options(work, version)}", "allnoconfig"], None)
            check_options((tree / ".config").read_text(), asked_options(version))
            text = f"compiling on {jobs} {'CPU' if jobs == 1 else 'CPUs'}"
            _make(tree, log, output, [f"-j{jobs}", "linux"], lambda done: progress(text, done))
        check_hooks(_compile(["nm", "-A", "vmlinux.a"], tree))
        progress("finishing", 1)
        made = work / "made"
        made.mkdir()
        shutil.copy(tree / "linux", made / "linux")
        _compile(["strip", str(made / "linux")])
        shutil.copy(tree / ".config", made / "config")
        facts = {
            "digest": digest,
            "recipe": recipe_digest(version),
            "version": _compile(["make", "-s", "ARCH=um", "kernelrelease"], tree).strip(),
            "source": str(source),
            "options": (tree / ".config").read_text().count("=y\n"),
            "compiler": _compile(["gcc", "--version"]).splitlines()[0],
            "build_seconds": round(time.monotonic() - started, 1),
        }
        _write_facts(made, facts)
        made.chmod(0o755)
        made.rename(target)


def _find_version(source: Path) -> Version | None:
    """Return the version of a source: in its name, else in the Makefile of a tree. None if neither has one."""
    return version_in(source.name) or (_read_version(source) if source.is_dir() else None)


def _read_version(tree: Path) -> Version | None:
    try:
        makefile = (tree / "Makefile").read_text(errors="replace")
    except OSError:
        return None
    lines = [re.search(rf"^{name} = (\d+)$", makefile, re.MULTILINE) for name in ("VERSION", "PATCHLEVEL")]
    found = [int(line[1]) for line in lines if line]
    return (found[0], found[1]) if len(found) == 2 else None


def _write_options(work: Path, version: Version | None) -> Path:
    """Write the configuration that is asked of a tree, with the names that later trees have for its options."""
    options = work / "options"
    asked = asked_options(version)
    later = [option for option in asked if option in LATER_OPTIONS]
    options.write_text("\n".join([FRAGMENT.read_text(), *later, *later_names(asked), ""]))
    return options


def _write_facts(folder: Path, facts: Mapping[str, object]) -> None:
    """Write the facts about a kernel, with the current digests of its programs."""
    facts = {**facts, FILES: genuine.digest_files(folder, PROGRAMS)}
    partial = folder / ".kernel.json.new"
    partial.write_text(json.dumps(facts, indent=1) + "\n")
    partial.replace(folder / FACTS)


def _build_guest(target: Path) -> None:
    """Compile the first process of the kernel and the library for bulk receivers."""
    for name, flags in (("init", ["-static"]), ("bulk.so", ["-shared", "-fPIC", "-ldl"])):
        partial = target / f".{name}.new"
        _compile(["gcc", "-O2", "-o", str(partial), str(GUEST / f"{name.split('.')[0]}.c"), *flags])
        partial.replace(target / name)


def _unpack(source: Path, work: Path) -> Path:
    """Return the source as a tree that may be changed."""
    if source.is_dir():
        tree = work / "tree"
        try:
            shutil.copytree(source, tree, symlinks=True, ignore=shutil.ignore_patterns(".git", "*.o", "*.cmd", "*.a"))
        except shutil.Error as error:
            failures = error.args[0]
            raise HostError(f"{source}: cannot be copied: {failures[0][2]} ({len(failures)} in all)") from error
        if any((tree / name).exists() for name in _BUILT_IN):
            # one clean-up for the architecture that was built there, and one for ours, which generates files of this
            # machine's
            for architecture in ("x86", "um"):
                _compile(["make", "-s", f"ARCH={architecture}", "mrproper"], tree)
        return tree
    return unpack(source, work, [f"--exclude={pattern}" for pattern in _NOT_NEEDED])


def unpack(source: Path, work: Path, words: Sequence[str]) -> Path:
    """Return the tree of a tarball, or the part that `words` (options and patterns of tar(1)) select."""
    # Debian's tarball has blocks that xz can unpack in parallel
    environment = {**os.environ, "XZ_DEFAULTS": "-T0"}
    argv = ["tar", "-x", "-f", str(source), "-C", str(work), *words]
    done = subprocess.run(argv, capture_output=True, text=True, env=environment)
    if done.returncode:
        said = done.stderr.strip()
        lacking = re.search(r"\(child\): (\w+): Cannot exec", said)
        mend = f"; apt-get install {lacking[1]}" if lacking else ""
        raise HostError(f"{source}: cannot be unpacked: {said.splitlines()[0] if said else 'tar failed'}{mend}")
    trees = [path for path in work.iterdir() if path.is_dir()]
    if len(trees) != 1:
        raise HostError(f"{source}: holds {len(trees)} folders instead of one kernel tree")
    return trees[0]


def _make(tree: Path, log: Path, output: TextIO, words: list[str], progress: Callable[[float], None] | None) -> None:
    process = subprocess.Popen(
        ["make", "ARCH=um", *words],
        cwd=tree,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**_environment(), "TMPDIR": str(tree.parent)},
        start_new_session=True,
    )
    assert process.stdout is not None
    steps = 0
    tail: list[str] = []
    try:
        for line in process.stdout:
            output.write(line)
            tail = [*tail[-14:], line]
            if line.startswith("  CC "):
                steps += 1
                if progress:
                    progress(min(0.99, steps / _EXPECTED_STEPS))
    except BaseException:
        # also the compilers, which would otherwise continue to write into the folder that is being removed
        os.killpg(process.pid, signal.SIGKILL)
        raise
    finally:
        process.wait()
    if process.returncode:
        raise RunError(f"the kernel does not build (whole log: {log}):\n{''.join(tail)}")


def _environment() -> dict[str, str]:
    seen = {name: value for name, value in os.environ.items() if name in _BUILD_SEES}
    return {**seen, "LC_ALL": "C", **_BUILD_IDENTITY}


def _check_version(tree: Path, source: Path) -> None:
    """Raise HostError if the tree is not Linux, or is older than our files require."""
    found = _read_version(tree)
    if found is None or not (tree / "arch" / "um").is_dir():
        raise HostError(f"{source} is no Linux source tree: there is no Makefile with a version, or no arch/um")
    if found < OLDEST:
        version, oldest = (".".join(map(str, numbers)) for numbers in (found, OLDEST))
        raise HostError(f"{source} is Linux {version}; mprun needs {oldest} or later")


def _compile(argv: list[str], directory: Path | None = None) -> str:
    done = subprocess.run(argv, cwd=directory, capture_output=True, text=True, env=_environment())
    if done.returncode:
        raise RunError(f"{' '.join(argv)}: status {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout
