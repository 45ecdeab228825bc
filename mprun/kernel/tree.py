# SPDX-License-Identifier: Apache-2.0
"""Trees in which kernels are built, one for each name of a kernel that is built from the user's tree.

The user's tree is only read. Its source files are copied here, with our files and hooks on top. Products of a build in
the user's tree are not copied. A later build copies only files that have changed, so that make(1) compiles only what
depends on them.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field, replace
from pathlib import Path

from mprun.model.frozen import Frozen
from mprun.safety.folder import open_regular

# Folders and the endings of files in and below them that no build for this architecture reads. Leaving them out saves
# a third of the time to unpack or copy a source. Kconfig files stay, because those of all subsystems are read.
NOT_NEEDED: Mapping[str, tuple[str, ...]] = {
    "Documentation": (".rst", ".yaml", ".txt", ".svg"),
    **dict.fromkeys(("samples", "tools/testing", "tools/perf"), (".c", ".h")),
    **dict.fromkeys(
        (f"drivers/{name}" for name in "gpu media staging infiniband scsi usb iio clk pinctrl".split()), (".c", ".h")
    ),
    **dict.fromkeys((f"drivers/net/{name}" for name in ("ethernet", "wireless", "phy", "dsa")), (".c", ".h")),
    **dict.fromkeys(
        (f"fs/{name}" for name in "btrfs xfs ext4 f2fs ocfs2 nfs nfsd smb ceph bcachefs ntfs3".split()), (".c", ".h")
    ),
    "sound": (".c", ".h"),
    **dict.fromkeys(
        (
            f"arch/{name}"
            for name in "alpha arc arm arm64 loongarch m68k mips parisc powerpc riscv s390 sh sparc xtensa".split()
        ),
        (".c", ".h", ".S", ".dts", ".dtsi"),
    ),
}


# Products of a build, and files of editors. Make keeps the command of other products in `.NAME.cmd` beside them.
_PRODUCT = re.compile(
    r"""(?:^|/)(?:[^/]*\.(?:o|a|cmd|d|ko|mod|order|so|dbg|orig|rej)|\.(?:tmp_|vmlinux)[^/]*)$
    |(?:^|/)(?:[^/]*~|\.[^/]*\.sw[a-p]|\.?\#[^/]*)$
    |^(?:include/(?:config|generated)|arch/[^/]+/include/generated)/
    |^(?:\.config[^/]*|\.missing[^/]*|vmlinux[^/]*|linux|System\.map|Module[^/]*|modules[^/]*)$""",
    re.VERBOSE,
)


_FILES, _OPTIONS, _SYMBOLS, _UNFINISHED = "files.json", "options", "symbols", "unfinished"


# Size, time of the last change of content, and of status (ns).
TreeState = tuple[int, int, int]


def scan(source: Path) -> dict[str, TreeState]:
    """Return the state of each source file of a tree by its path in the tree.

    Products of a build, editors' files and the files of git are left out.
    """
    found = {}
    waiting: list[tuple[str, tuple[str, ...]]] = [("", ())]
    while waiting:
        folder, unread = waiting.pop()
        with os.scandir(source / folder) as listed:
            entries = [entry for entry in listed if entry.name != ".git"]
        names = {entry.name for entry in entries}
        for entry in entries:
            name = f"{folder}/{entry.name}" if folder else entry.name
            if entry.is_dir(follow_symlinks=False):
                waiting.append((name, NOT_NEEDED.get(name, unread)))
            elif not (
                f".{entry.name}.cmd" in names or (unread and entry.name.endswith(unread)) or _PRODUCT.search(name)
            ) and (entry.is_file(follow_symlinks=False) or entry.is_symlink()):
                status = entry.stat(follow_symlinks=False)
                found[name] = (status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return found


class _Marker(Frozen):
    """The files in a kept tree: the source's, with state and SHA-256, and the paths of ours. source: its path."""

    source: str = ""
    files: Mapping[str, tuple[TreeState, str]] = field(default_factory=dict)
    ours: frozenset[str] = frozenset()


class KeptTree(Frozen):
    """A tree for builds. folder: of the tree and of the record of its files."""

    folder: Path

    @property
    def tree(self) -> Path:
        return self.folder / "tree"

    @property
    def exists(self) -> bool:
        return self.tree.is_dir()

    def is_configured_with(self, options: str) -> bool:
        """Return True if the tree is configured with these options, and no Kconfig file has changed since."""
        try:
            return (self.folder / _OPTIONS).read_text() == options and (self.tree / ".config").is_file()
        except OSError:
            return False

    def note_options(self, options: str) -> None:
        """Record the options that the tree has been configured with."""
        (self.folder / _OPTIONS).write_text(options)

    @property
    def has_symbols(self) -> bool:
        """Return whether the tree is built with symbols for gdb."""
        return (self.folder / _SYMBOLS).exists()

    def note_symbols(self) -> None:
        """Build the tree with symbols from now on. Without them, the next build would compile every file again."""
        (self.folder / _SYMBOLS).write_text("")

    @contextmanager
    def under_way(self) -> Iterator[None]:
        """Mark the tree as unfinished while the block updates it and builds in it.

        If the block is interrupted or killed, files and objects may be incomplete. The next block then compares all
        files by content, and removes the objects that are newer than the mark.
        """
        mark = self.folder / _UNFINISHED
        self.folder.mkdir(parents=True, exist_ok=True)
        if mark.exists():
            _remove_objects(self.tree, mark.stat().st_mtime_ns)
            record = self._record()
            self._write_record(replace(record, source=""))
        mark.write_text("")
        try:
            yield
        except Exception:
            mark.unlink()
            raise
        mark.unlink()

    def update(self, source: Path, ours: Mapping[str, bytes], progress: Callable[[float], None]) -> str:
        """Make the tree equal to `source` with `ours` on top. Return the SHA-256 of the source's names and contents.

        ours: contents by paths in the tree. Files whose content stays the same are not written.
        """
        record = self._record()
        if not record.files:
            shutil.rmtree(self.tree, ignore_errors=True)
        is_known = record.source == str(source.absolute())
        files: dict[str, tuple[TreeState, str]] = {}
        states = scan(source)
        # first, because a link may have become a folder
        self._remove((record.files.keys() | record.ours) - states.keys() - ours.keys())
        for number, (name, state) in enumerate(sorted(states.items())):
            known = record.files.get(name)
            uncovered = name in record.ours and name not in ours
            if is_known and known and known[0] == state and not uncovered:
                files[name] = known
            elif digest := _take(source / name, None if name in ours else _clear(self.tree, name)):
                files[name] = (state, digest)
                if name.rpartition("/")[2].startswith("Kconfig") and (not known or known[1] != digest):
                    (self.folder / _OPTIONS).unlink(missing_ok=True)
            if number % 1000 == 0:
                progress(number / len(states))
        # files that vanished while the others were copied
        self._remove(states.keys() - files.keys() - ours.keys())
        put_files(self.tree, ours)
        self._write_record(_Marker(str(source.absolute()), files, frozenset(ours)))
        total = hashlib.sha256()
        for name, (_, digest) in sorted(files.items()):
            total.update(f"{name} {digest}\n".encode())
        return total.hexdigest()

    def _remove(self, names: Iterable[str]) -> None:
        for name in names:
            _clear(self.tree, name).unlink(missing_ok=True)

    def _record(self) -> _Marker:
        try:
            read = json.loads((self.folder / _FILES).read_text())
        except (OSError, ValueError):
            return _Marker()
        files = {name: ((state[0], state[1], state[2]), digest) for name, (state, digest) in read["files"].items()}
        return _Marker(read["source"], files, frozenset(read["ours"]))

    def _write_record(self, record: _Marker) -> None:
        text = json.dumps({"source": record.source, "files": record.files, "ours": sorted(record.ours)})
        partial = self.folder / f".{_FILES}.new"
        partial.write_text(text)
        partial.replace(self.folder / _FILES)


def read_source(tree: Path, name: str) -> str:
    """Return the text of a source file. Raises OSError, or UnsafeError if it is a pipe or a device."""
    with open_regular(tree / name, tree / name, follow=True) as file:
        return file.read().decode(errors="replace")


def put_files(tree: Path, files: Mapping[str, bytes]) -> None:
    """Write files into a tree, by their paths in it. Files that have their content are not written."""
    for name, content in files.items():
        _write(_clear(tree, name), content)


def _clear(tree: Path, name: str) -> Path:
    """Return the path of a file in a tree, and remove what is in its way.

    These are a link or a file in place of one of its folders, and a folder in place of the file. So nothing is written
    or removed through a link.
    """
    *folders, last = name.split("/")
    path = tree
    for folder in folders:
        path = path / folder
        if path.is_symlink() or path.is_file():
            path.unlink()
    path = path / last
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    return path


def _take(source: Path, target: Path | None) -> str | None:
    """Copy a file or link to `target`, unless None. Return the SHA-256 of its content; None if it has vanished."""
    try:
        mode = source.lstat().st_mode
        content = os.readlink(source).encode() if stat.S_ISLNK(mode) else source.read_bytes()
    except FileNotFoundError:
        # a file that an editor or git replaces at this moment; the next build takes it
        return None
    if target is not None:
        if stat.S_ISLNK(mode):
            _link(target, content.decode())
        else:
            _write(target, content, mode & 0o777 | 0o600)
    return hashlib.sha256(content).hexdigest()


def _link(target: Path, to: str) -> None:
    if target.is_symlink() and os.readlink(target) == to:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    target.symlink_to(to)


def _write(target: Path, content: bytes, mode: int = 0o644) -> None:
    """Write a file unless it has this content. A file that is written is newer than all objects."""
    if target.is_symlink():
        target.unlink()
    try:
        is_same = target.read_bytes() == content
    except FileNotFoundError:
        target.parent.mkdir(parents=True, exist_ok=True)
        is_same = False
    if not is_same:
        target.write_bytes(content)
    if target.stat().st_mode & 0o777 != mode:
        target.chmod(mode)


def _remove_objects(tree: Path, since_ns: int) -> None:
    """Remove the products that are not older than a time."""
    for folder, _, names in os.walk(tree):
        for name in names:
            path = os.path.join(folder, name)
            made = name.endswith(".cmd") or f".{name}.cmd" in names or name == ".config"
            if made and os.lstat(path).st_mtime_ns >= since_ns:
                os.unlink(path)
