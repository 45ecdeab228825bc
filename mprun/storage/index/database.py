# SPDX-License-Identifier: Apache-2.0
"""The index in a SQLite file in the user's cache, one file for each folder of runs.

The file is only a cache. It never lies in the folder of runs, which may come from a stranger. A question first compares
the folder with the file, and reads the directories that are new or have changed. A file that is damaged or has another
version is made again. If no file can be kept, the index is in memory.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Literal, TypeVar

from mprun.errors import MachineError
from mprun.machine.cache import Progress, cache, locked
from mprun.model.frozen import Frozen
from mprun.model.run_summary import MetricValue
from mprun.model.scalar import Scalar
from mprun.storage.index.listed import DirectoryKind, FoundDirectory, ListedEntry, Scan, read
from mprun.storage.output_directory import second_of

T = TypeVar("T")

# To be raised with each change of the tables or of what `read` returns.
VERSION = 2
FILE = "runs.sqlite"
# The path of the folder of runs, beside the index.
OF = "folder"
# A directory that changed so shortly before it was read may change again without a new time: it is read again.
FRESH_NS = 2_000_000_000
# The number of directories after which progress is shown.
SOME = 200
_MOST_WAIT_S = 60.0
_INTEGERS = range(-(1 << 63), 1 << 63)

_TABLES = """
CREATE TABLE runs (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, mark TEXT NOT NULL, status TEXT NOT NULL,
    engine TEXT NOT NULL, seed INTEGER, planned_ns INTEGER NOT NULL, has_report INTEGER NOT NULL, fault TEXT NOT NULL
);
CREATE TABLE parameters (
    name TEXT NOT NULL, run INTEGER NOT NULL, value TEXT NOT NULL, PRIMARY KEY (name, run)
) WITHOUT ROWID;
CREATE TABLE metrics (
    name TEXT NOT NULL, run INTEGER NOT NULL, value NOT NULL, unit TEXT NOT NULL, PRIMARY KEY (name, run)
) WITHOUT ROWID;
"""
# The columns of a run that are the first fields of a `ListedEntry`, in their order.
_COLUMNS = "name, kind, status, engine, seed, planned_ns, has_report, fault"
# The rows of a run are found by its number when it is removed, without an index that would cost time at each listing.
_OF_RUN = ("parameters", "metrics")


class Index:
    """The index of some kinds of directories in a folder. Entries have no parameters and metrics: ask for them."""

    def __init__(self, database: sqlite3.Connection, kinds: Sequence[DirectoryKind]) -> None:
        self._database = database
        self._kinds = json.dumps(list(kinds))

    def entries(self) -> dict[int, ListedEntry]:
        """Return all runs and sweeps by their numbers in the index, oldest first."""
        query = f"SELECT id, {_COLUMNS} FROM runs WHERE kind IN (SELECT value FROM json_each(?))"
        rows = self._database.execute(query, (self._kinds,))
        found = {number: ListedEntry(*values) for number, *values in rows}
        return dict(sorted(found.items(), key=lambda item: _age(item[1])))

    def parameter(self, name: str) -> dict[int, Scalar]:
        """Return the value of a parameter by the number of the run."""
        rows = self._database.execute("SELECT run, value FROM parameters WHERE name = ?", (name,))
        return {number: json.loads(value) for number, value in rows}

    def metric(self, name: str) -> dict[int, MetricValue]:
        """Return the value of a metric by the number of the run."""
        rows = self._database.execute("SELECT run, value, unit FROM metrics WHERE name = ?", (name,))
        return {number: MetricValue(value, unit) for number, value, unit in rows}

    def names(self, table: Literal["parameters", "metrics"]) -> list[str]:
        """Return the names of the parameters or of the metrics of these runs, in order."""
        query = (
            f"SELECT DISTINCT {table}.name FROM {table} JOIN runs ON runs.id = {table}.run "
            "WHERE runs.kind IN (SELECT value FROM json_each(?)) ORDER BY 1"
        )
        return [name for (name,) in self._database.execute(query, (self._kinds,))]


def _age(entry: ListedEntry) -> tuple[str, bool, int, str, str, int]:
    """Return the key that orders entries, oldest first: a sweep after the runs of its second, then its own runs."""
    top, _, inner = entry.name.partition("/")
    second = second_of(top, entry.planned_ns)
    if entry.kind == "run":
        return second, False, entry.planned_ns, top, "", 0
    cell, _, number = inner.rpartition("/")
    return second, True, 0, top, cell, int(number or 0)


class FolderIndex(Frozen):
    """The index of a folder of runs, which is brought up to date with each question.

    - scan: the present content of the folder, with all directories of these kinds.
    - progress: is called while directories are read.
    - clock: the present time, ns.
    """

    parent: Path
    scan: Scan
    kinds: Sequence[DirectoryKind]
    progress: Progress = lambda text, done: None
    clock: Callable[[], int] = time.time_ns

    def ask(self, question: Callable[[Index], T]) -> tuple[T, str]:
        """Return the answer to a question, whose errors are raised, and why the index could not be kept; else empty."""
        try:
            folder = _folder_of(self.parent)
            with contextlib.suppress(sqlite3.DatabaseError), closing(_open(folder / FILE)) as database:
                # the question sees one state, even if another process updates the file meanwhile
                database.execute("BEGIN")
                if _is_current(database) and not any(self.compare(database)):
                    return question(Index(database, self.kinds)), ""
            with locked(folder, lambda: self.progress("waiting for another mprun that reads the runs", 0.0)):
                try:
                    return self.answer(folder, question), ""
                except sqlite3.DatabaseError:
                    _remove(folder)
                    return self.answer(folder, question), ""
        except (sqlite3.Error, OSError, MachineError) as error:
            with closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
                _make(database)
                self.carry_out(database)
                return question(Index(database, self.kinds)), str(error)

    def answer(self, folder: Path, question: Callable[[Index], T]) -> T:
        """Answer a question with the file, which is made if it does not exist. The caller has locked its folder."""
        with closing(_open(folder / FILE)) as database:
            if not _is_current(database):
                if database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                    raise sqlite3.DatabaseError("another version")
                _forget_removed(folder.parent)
                (folder / OF).write_text(str(self.parent.resolve()), errors="surrogateescape")
                _make(database)
            self.carry_out(database)
            return question(Index(database, self.kinds))

    def compare(self, database: sqlite3.Connection) -> tuple[list[FoundDirectory], list[int]]:
        """Return the directories that must be read, and the numbers of the runs in the index that are out of date."""
        rows = database.execute("SELECT id, name, mark, kind FROM runs").fetchall()
        marks = {name: mark for _, name, mark, _ in rows}
        changed = [one for one in self.scan.found if marks.get(one.name) != one.mark]
        names = {one.name for one in self.scan.found}
        read_again = {one.name for one in changed}
        out_of_date = [
            number
            for number, name, _, kind in rows
            if name in read_again or (kind in self.kinds and name not in names) or name.partition("/")[0] not in names
        ]
        return changed, out_of_date

    def carry_out(self, database: sqlite3.Connection) -> None:
        """Make the index equal to the folder, in one transaction."""
        changed, out_of_date = self.compare(database)
        database.execute("BEGIN IMMEDIATE")
        with database:
            _drop(database, out_of_date)
            for n, one in enumerate(changed):
                # few runs take no time that a person would notice
                if n % SOME == SOME - 1:
                    self.progress(f"reading {len(changed)} runs", n / len(changed))
                is_fresh = self.clock() - one.changed_ns < FRESH_NS
                _insert(database, read(self.parent, one), "" if is_fresh else one.mark)


def _folder_of(parent: Path) -> Path:
    """Return the folder of the index of a folder of runs. Raises MachineError if the user has no home directory."""
    return cache("index") / hashlib.sha256(os.fsencode(parent.resolve())).hexdigest()[:32]


def _open(file: Path) -> sqlite3.Connection:
    """Open a database. Raises sqlite3.OperationalError if its folder does not exist."""
    return sqlite3.connect(file, timeout=_MOST_WAIT_S, isolation_level=None)


def _is_current(database: sqlite3.Connection) -> bool:
    """Return whether a database has this version. Raises sqlite3.DatabaseError if it is damaged."""
    if (found := database.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
        raise sqlite3.DatabaseError(found)
    return bool(database.execute("PRAGMA user_version").fetchone()[0] == VERSION)


def _make(database: sqlite3.Connection) -> None:
    database.execute("BEGIN IMMEDIATE")
    with database:
        for statement in _TABLES.split(";"):
            database.execute(statement)
        database.execute(f"PRAGMA user_version = {VERSION}")


def _remove(folder: Path) -> None:
    """Remove the file, and first the journal, which would otherwise be applied to the next file of this name."""
    for name in (f"{FILE}-journal", FILE):
        (folder / name).unlink(missing_ok=True)


def _forget_removed(indexes: Path) -> None:
    """Remove the indexes of folders that no longer exist."""
    for folder in indexes.iterdir():
        with contextlib.suppress(OSError):
            if not Path((folder / OF).read_text(errors="surrogateescape")).is_dir():
                shutil.rmtree(folder, ignore_errors=True)


def _drop(database: sqlite3.Connection, numbers: Sequence[int]) -> None:
    if numbers:
        chosen = json.dumps(numbers)
        for table, column in (*((table, "run") for table in _OF_RUN), ("runs", "id")):
            database.execute(f"DELETE FROM {table} WHERE {column} IN (SELECT value FROM json_each(?))", (chosen,))


def _insert(database: sqlite3.Connection, entry: ListedEntry, mark: str) -> None:
    values = (entry.name, entry.kind, entry.status, entry.engine, entry.seed, entry.planned_ns, entry.has_report)
    query = f"INSERT INTO runs ({_COLUMNS}, mark) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
    number = database.execute(query, (*values, entry.damage, mark)).lastrowid
    database.executemany(
        "INSERT INTO parameters VALUES (?, ?, ?)",
        ((name, number, json.dumps(value)) for name, value in entry.parameters.items()),
    )
    database.executemany(
        "INSERT INTO metrics VALUES (?, ?, ?, ?)",
        ((name, number, _storable(one.value), one.unit) for name, one in entry.metrics.items()),
    )


def _storable(value: float) -> float:
    """Return a value as SQLite keeps it: an integer has at most 64 bits."""
    return value if isinstance(value, float) or value in _INTEGERS else float(value)
