# SPDX-License-Identifier: Apache-2.0
"""The tables of a run (Parquet), checked against their forms when they are opened.

A table may be damaged or made by a stranger.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from mprun.errors import MprunError, explain_machine
from mprun.model.table_columns import find_column_problem, never_null
from mprun.safety.text import UNPRINTABLE, plain
from mprun.storage.damage import damaged

if TYPE_CHECKING:
    import polars

    from mprun.safety.folder import Folder

# A value takes at most 16 bytes in memory. A table of samples has at most 2 values for each byte of its file. Only a
# large file may contain more than MOST_CELLS values.
MOST_CELLS, MOST_CELLS_A_BYTE = 50_000_000, 20
# The values of tables up to this size are checked, which takes less than 0.1 s. Wrong values in a larger table are
# found when it is read.
MOST_CHECKED_BYTES = 16 << 20
MOST_NUMBER = 1e300
_KINDS = {"String": "text", "Boolean": "flag", "Null": "null"}


def open_table(file: BinaryIO, name: str, size_bytes: int) -> polars.LazyFrame:
    """Return a table, not yet read, whose texts contain no control characters. Raises ValueError if it is damaged.

    name: the table's name without folder and suffix.
    """
    import polars

    try:
        # with a damaged file, polars may panic and print the place in its code
        with _silent():
            table = polars.scan_parquet(file)
            problem = _find_problem(name, table, size_bytes)
    except BaseException as error:
        if not is_of_polars(error) or explain_machine(error):
            raise
        raise ValueError(str(error).partition("\n")[0] or type(error).__name__) from None
    if problem:
        raise ValueError(problem)
    texts = [column for column, kind in table.collect_schema().items() if kind == polars.String]
    return table.with_columns(polars.col(texts).str.replace_all(UNPRINTABLE, "\ufffd")) if texts else table


def pack(table: polars.DataFrame) -> bytes:
    """Return a table as the content of a Parquet file. Polars hides the system's error if it writes a file itself."""
    packed = io.BytesIO()
    table.write_parquet(packed)
    return packed.getvalue()


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn a system error that polars meets while it writes a file into an OSError. Raises OSError or MprunError."""
    try:
        yield
    except BaseException as error:
        # polars also raises OSErrors with the error number only in the text
        is_plain = isinstance(error, OSError) and error.errno is None
        number = re.search(r"(?:os error |Errno )([0-9]+)", str(error)) if is_plain or is_of_polars(error) else None
        if number is None and is_of_polars(error) and "transport error" in str(error):
            # an error at the end of a Parquet file, for which polars keeps no number
            raise MprunError(f"{path}: cannot be written whole: check the free space and `ulimit -f`") from error
        if number is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from error


def is_of_polars(error: BaseException) -> bool:
    """Return whether an error comes from polars. A panic in polars is a BaseException and no Exception."""
    return type(error).__module__.partition(".")[0] in ("polars", "pyo3_runtime")


def stem(name: str) -> str:
    """Return the name of a table or a capture, without folder and suffix."""
    return name.rpartition("/")[2].rpartition(".")[0]


def read_table(folder: Folder, name: str) -> polars.LazyFrame:
    """Return a table, checked, and read only when it is used. Raises FileNotFoundError, or MprunError if damaged."""
    try:
        with folder.open(name) as file:
            return open_table(file, stem(name), folder.size(name))
    except ValueError as error:
        remedy = f"remove {folder.path / 'tables'}: `mprun show` makes again what it held"
        raise damaged(folder.path / name, plain(error)[:200], remedy) from None


@contextlib.contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn an error of polars in the block into an MprunError that names the run's tables.

    Polars reads a table only when it is used, so damage may show as late as in a drawing. path: of the run.
    """
    try:
        yield
    except BaseException as error:
        if not is_of_polars(error) or explain_machine(error):
            raise
        remedy = f"remove {path / 'tables'}: `mprun show` makes again what it held"
        raise damaged(path / "tables", plain(error)[:200], remedy) from error


def make_frame(columns: Mapping[str, list[Any]]) -> polars.DataFrame:
    """Return a frame of columns of equal length, each of one type. None stands for a missing value."""
    import polars

    return polars.DataFrame({name: _of_one_type(values) for name, values in columns.items()})


def _of_one_type(values: list[Any]) -> list[Any]:
    """Return values of one type: whole numbers become fractions beside fractions, and all values text beside text."""
    there = [value for value in values if value is not None]
    if any(isinstance(value, str) for value in there) or len({isinstance(value, bool) for value in there}) > 1:
        return [None if value is None else str(value) for value in values]
    if any(isinstance(value, float) for value in there):
        return [None if value is None else float(value) for value in values]
    return values


def _find_problem(name: str, table: polars.LazyFrame, size_bytes: int) -> str | None:
    """Return what is wrong with a table; None if nothing is wrong. Raises errors of polars."""
    import polars

    schema = table.collect_schema()
    if not all(column.isprintable() for column in schema):
        return "a column has no name that can be printed"
    kinds = {
        column: "number" if kind.is_numeric() else _KINDS.get(str(kind), "other") for column, kind in schema.items()
    }
    if problem := find_column_problem(name, kinds):
        return problem
    cells = int(table.select(polars.len()).collect().item()) * len(kinds)
    if cells > max(MOST_CELLS, MOST_CELLS_A_BYTE * size_bytes):
        return f"holds {cells} values in {size_bytes} bytes"
    if size_bytes > MOST_CHECKED_BYTES or not kinds:
        return None
    floats = [polars.col(column) for column, kind in schema.items() if kind.is_float()]
    odd = [(~one.is_finite() | (one.abs() > MOST_NUMBER)).sum() for one in floats]
    found = table.select(polars.all().null_count().name.prefix("null "), *odd).collect().row(0, named=True)
    for column in never_null(name):
        if found[f"null {column}"]:
            return f"column {column} lacks a value"
    for column, count in found.items():
        if count and not column.startswith("null "):
            return f"column {column} holds a value that is no number"
    return None


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Discard all output to standard error during the block, including the output of libraries."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.memfd_create("nowhere")
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
