# SPDX-License-Identifier: Apache-2.0
"""The common part of the directories of runs and sweeps: names, files, locks and links."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from mprun.errors import MachineError, MprunError, RunError
from mprun.machine import invoking_user
from mprun.model.codec import PLAIN, JsonProblem
from mprun.safety.folder import Folder, UnsafeError
from mprun.safety.text import make_printable, plain, printable
from mprun.storage.damage import damaged
from mprun.storage.table import make_frame, pack, read_table

if TYPE_CHECKING:
    import polars

    from mprun.model.run_summary import Summary
    from mprun.model.sweep_files import SweepSummary

T = TypeVar("T")

FIGURES = "figures"
INCOMPLETE = "incomplete"
# The errors of flock(2) on a file system that has no locks.
_WITHOUT_LOCKS = (errno.EBADF, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
# The beginning of the name of a run or a sweep.
_SECOND = re.compile(r"\d{8}-\d{6}(?=-)")


class OutputDirectory:
    """The directory of a run or a sweep. Only `folder` opens its files: a stranger or a program may have made them.

    - NAME: the form of the name that it is made with, with the title and the beginning of the digest.
    - RECORD: a file that each has.
    - IS_NAMED_FIRST: it gets its name before its record.
    - LOCK: a file that is locked as long as a process works on it.
    """

    NAME: ClassVar[re.Pattern[str]]
    RECORD: ClassVar[str]
    LOCK: ClassVar[str]
    IS_NAMED_FIRST: ClassVar[bool] = False

    def __init__(self, folder: Path | Folder) -> None:
        self.folder = folder if isinstance(folder, Folder) else Folder(folder)
        self.path = self.folder.path

    @classmethod
    def is_at(cls, path: Path) -> bool:
        """Return whether a path is listed: a directory with a record, whatever its name, or one that will get it."""
        name = path.name
        # a name with other characters cannot be typed, and a terminal may obey it
        is_foreign = path.is_symlink() or name.startswith(".") or not name.isprintable()
        is_begun = cls.IS_NAMED_FIRST and cls.NAME.match(name)
        return not is_foreign and (bool(is_begun) or has_record(cls, path))

    @property
    def name(self) -> str:
        """The name of the directory. Of a run in a sweep, it is only the number of the repetition."""
        return self.path.name

    @property
    def short_digest(self) -> str:
        """The first 8 digits of the digest, from the name; empty if the name has none."""
        match = self.NAME.match(self.name)
        return match["digest"] if match else ""

    @property
    def is_held(self) -> bool:
        """True if a process is working on it."""
        try:
            with self.folder.locked(self.LOCK, fcntl.LOCK_SH | fcntl.LOCK_NB, create=False):
                return False
        except BlockingIOError:
            return True
        except (OSError, UnsafeError):
            return False

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock during the block, if the file system has locks. Raises RunError if another process holds it."""
        with contextlib.ExitStack() as holding:
            try:
                holding.enter_context(self.folder.locked(self.LOCK, fcntl.LOCK_EX | fcntl.LOCK_NB))
            except BlockingIOError:
                raise RunError(f"{self.path}: another mprun is running this {self._kind()}") from None
            except OSError as error:
                if error.errno not in _WITHOUT_LOCKS:
                    raise
            yield

    @classmethod
    def _kind(cls) -> str:
        return cls.__name__.removesuffix("Directory").lower()

    def has(self, name: str) -> bool:
        """Return whether a regular file of this name exists, such as `plan.json`."""
        return self.folder.has(name)

    def read(self, name: str, form: type[T]) -> T:
        """Return a JSON file as a value of the type `form`. Raises MprunError if the file is missing or damaged."""
        return self._decode(name, lambda: self.folder.read_json(name), lambda value: PLAIN.decode(form, value))

    def _decode(self, name: str, read: Callable[[], Any], decode: Callable[[Any], T]) -> T:
        """Return a file as `decode` converts what is read. The file's texts are made printable first."""
        try:
            value = make_printable(read())
        except (FileNotFoundError, NotADirectoryError):
            raise self.tell_missing(name) from None
        except ValueError as error:
            raise damaged(self.path / name, str(error)) from None
        try:
            return decode(value)
        except JsonProblem as problem:
            raise damaged(self.path / name, f"{plain(problem)[:200]} is not of its form") from None

    def tell_missing(self, name: str) -> MprunError:
        """Return the error for a file that does not exist: the run or sweep ended before it, or it was removed."""
        kind = self._kind()
        is_lost = self.has("summary.json") or (kind == "run" and not self.has(INCOMPLETE))
        why = "the file is missing" if is_lost else f"the {kind} did not get so far"
        return MprunError(f"{self.path}: no {name}: {why}")

    def inputs(self) -> dict[str, str]:
        """Return the text of each file in `inputs`, by name."""
        names = [one for one in self.folder.find("inputs/*") if one.isprintable()]
        return {one.partition("/")[2]: printable(self.folder.read_text(one)) for one in names}

    def write_summary(self, summary: Summary | SweepSummary) -> None:
        """Write `summary.json`, completely or not at all. Its metrics keep their order, which is for readers."""
        self.folder.write_json("summary.json", summary.to_json(), sort=False)

    def write_tables(self, tables: Mapping[str, Mapping[str, list[Any]] | polars.DataFrame]) -> None:
        """Write `tables/<name>.parquet`, completely or not at all, from frames, or from columns as for `make_frame`."""
        if not tables:
            return
        import polars

        self.folder.make("tables")
        for name, table in tables.items():
            frame = table if isinstance(table, polars.DataFrame) else make_frame(table)
            self.folder.write_bytes(f"tables/{name}.parquet", pack(frame))

    def find_table(self, name: str) -> polars.LazyFrame | None:
        """Return a table, read only when it is used; None if it does not exist. Raises MprunError if it is damaged."""
        file = f"tables/{name}.parquet"
        return read_table(self.folder, file) if self.has(file) else None

    def _remove(self, name: str, list_left: Callable[[Path], Sequence[OutputDirectory]]) -> None:
        """Delete the directory. A link of this name that pointed at it then points at the newest that is left."""
        shutil.rmtree(self.path)
        parent = self.path.parent
        link = parent / name
        if link.is_symlink() and os.readlink(link) == self.name:
            link.unlink()
            if left := list_left(parent):
                point(link, left[-1].name)


def has_record(kind: type[OutputDirectory], path: Path) -> bool:
    """Return whether a path is the directory of a run or of a sweep."""
    try:
        return Folder(path).has(kind.RECORD)
    except (OSError, ValueError):
        return False


def write_page(folder: Folder, page: str, figures: Mapping[str, bytes]) -> Path:
    """Write `report.html` in a folder, and replace its figures, by file name. Return the path of the page."""
    folder.remove_tree(FIGURES)
    folder.make(FIGURES)
    for name, content in figures.items():
        folder.write_bytes(f"{FIGURES}/{name}", content)
    folder.write_text("report.html", page)
    return folder.path / "report.html"


def second_of(name: str, recorded_ns: int) -> str:
    """Return the second in which a run or a sweep began: of its name, or else that of its record."""
    match = _SECOND.match(name)
    return match[0] if match else time.strftime("%Y%m%d-%H%M%S", time.localtime(recorded_ns / 1e9))


@contextlib.contextmanager
def making_in(parent: Path, latest: str) -> Iterator[None]:
    """Make the folder of results for the block. Raises MachineError if it, or what the block makes, cannot be made."""
    try:
        invoking_user.make_folder(parent)
        refuse_taken(parent / latest)
        yield
    except (FileExistsError, FileNotFoundError) as error:
        raise MachineError(f"no directory '{parent}' can be made there: give another with -o") from error
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EACCES):
            raise
        reason = os.strerror(error.errno).lower()
        raise MachineError(f"{parent}: cannot be written: {reason}: give another with -o") from error


def take_name(parent: Path, stem: str, suffix: str, take: Callable[[Path], object]) -> Path:
    """Take the first free name of STEM, STEM.1 and so on. Return its path. take: raises OSError if the path exists."""
    number = 0
    while True:
        path = parent / f"{stem}{f'.{number}' if number else ''}{suffix}"
        try:
            take(path)
        except OSError:
            if not path.exists():
                raise
            number += 1
        else:
            return path


def refuse_taken(link: Path) -> None:
    """Raise MachineError if a folder or a file, such as a copy of a link's target, has the name of a link."""
    if link.exists() and not link.is_symlink():
        what = "folder" if link.is_dir() else "file"
        raise MachineError(f"{link}: is a {what}, and mprun makes a link of this name: rename or remove it")


def point(link: Path, target: str) -> None:
    """Point a symbolic link at another target in one step, so that a reader always finds a target."""
    refuse_taken(link)
    temporary = link.with_name(f".{link.name}-{os.urandom(8).hex()}")
    temporary.symlink_to(target)
    try:
        temporary.replace(link)
    finally:
        temporary.unlink(missing_ok=True)
