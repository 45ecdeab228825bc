# SPDX-License-Identifier: Apache-2.0
"""Tables of a run (Parquet), held against their forms when they are opened: they may be damaged, or a stranger's."""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from mprun.errors import MprunError, explain_machine
from mprun.form import find_column_fault, never_null
from mprun.text import UNPRINTABLE

if TYPE_CHECKING:
    import polars

# A value takes at most 16 bytes in memory. A table of samples has at most 2 values a byte of its file. More than
# MOST_CELLS may only be in a file that is large itself.
MOST_CELLS, MOST_CELLS_A_BYTE = 50_000_000, 20
# The values of a table up to this size are checked, which takes less than 0.1 s. What is wrong in a larger one shows
# when it is read.
MOST_CHECKED_BYTES = 16 << 20
MOST_NUMBER = 1e300
_KINDS = {"String": "text", "Boolean": "flag", "Null": "null"}


def open_table(file: BinaryIO, name: str, size_bytes: int) -> polars.LazyFrame:
    """Return a table, not yet read, whose texts no terminal obeys. Raises ValueError for one that is damaged.

    name: the table's, without folder and ending.
    """
    import polars

    try:
        # a damaged file lets polars panic, which prints where in its code
        with _silent():
            table = polars.scan_parquet(file)
            fault = _find_fault(name, table, size_bytes)
    except BaseException as error:
        if not is_of_polars(error) or explain_machine(error):
            raise
        raise ValueError(str(error).partition("\n")[0] or type(error).__name__) from None
    if fault:
        raise ValueError(fault)
    texts = [column for column, kind in table.collect_schema().items() if kind == polars.String]
    return table.with_columns(polars.col(texts).str.replace_all(UNPRINTABLE, "\ufffd")) if texts else table


def pack(table: polars.DataFrame) -> bytes:
    """Return a table as the content of a file. polars hides what the system says of a file that it cannot write."""
    packed = io.BytesIO()
    table.write_parquet(packed)
    return packed.getvalue()


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an error of the system that polars met while it wrote a file into one of Python's."""
    try:
        yield
    except BaseException as error:
        # polars also raises an OSError that has the number in its text only
        is_plain = isinstance(error, OSError) and error.errno is None
        number = re.search(r"(?:os error |Errno )([0-9]+)", str(error)) if is_plain or is_of_polars(error) else None
        if number is None and is_of_polars(error) and "transport error" in str(error):
            # the end of a Parquet file, of which polars keeps no number
            raise MprunError(f"{path}: cannot be written whole: check the free space and `ulimit -f`") from error
        if number is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from error


def is_of_polars(error: BaseException) -> bool:
    """Return whether polars raised an error. A panic in it is no Exception."""
    return type(error).__module__.partition(".")[0] in ("polars", "pyo3_runtime")


def _find_fault(name: str, table: polars.LazyFrame, size_bytes: int) -> str | None:
    """Return what is wrong with a table. Raises errors of polars."""
    import polars

    schema = table.collect_schema()
    if not all(column.isprintable() for column in schema):
        return "a column has no name that can be printed"
    kinds = {
        column: "number" if kind.is_numeric() else _KINDS.get(str(kind), "other") for column, kind in schema.items()
    }
    if fault := find_column_fault(name, kinds):
        return fault
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
    """Let nothing reach standard error, whoever writes it."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.memfd_create("nowhere")
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
