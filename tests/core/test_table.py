# SPDX-License-Identifier: Apache-2.0
"""Damaged tables, records and outputs: one line names the file and the remedy."""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import polars
import pytest

from mprun.errors import MprunError
from mprun.storage.run_directory import RunDirectory
from mprun.storage.table import MOST_CELLS, open_table
from tests.hostile import call_verb, copy_run


def change(run: Path, name: str, made: Callable[[polars.DataFrame], polars.DataFrame]) -> None:
    path = run / "tables" / f"{name}.parquet"
    made(polars.read_parquet(path)).write_parquet(path)


LINE = r"^[^\n]*/tables/{name}\.parquet: damaged: {fault}: remove [^\n]*/tables: `mprun show` makes again what it held$"


@pytest.mark.parametrize(
    ("name", "made", "fault"),
    [
        ("queues", lambda t: t.drop("time_ns"), "has no column time_ns"),
        ("queues", lambda t: t.with_columns(polars.lit("x").alias("time_ns")), "column time_ns holds no number"),
        ("queues", lambda t: t.with_columns(polars.lit(1).alias("link")), "column link holds no text"),
        ("queues", lambda t: t.with_columns(polars.lit([[1]]).alias("y")), "column y holds no single values"),
        ("queues", lambda t: t.with_columns(polars.lit("x").alias("y_ns")), "column y_ns holds no number"),
        ("queues", lambda t: t.with_columns(polars.lit(1).alias("\x1b[2J")), "a column has no name that can be print"),
        ("queues", lambda t: t.with_columns(time_ns=None), "column time_ns lacks a value"),
        ("goodput", lambda t: t.with_columns(start_s=float("nan")), "column start_s holds a value that is no number"),
        ("goodput", lambda t: t.with_columns(end_s=float("inf")), "column end_s holds a value that is no number"),
        ("counters", lambda t: t.with_columns(value=-1e308), "column value holds a value that is no number"),
    ],
)
def test_a_table_has_its_form(
    name: str, made: Callable[[polars.DataFrame], polars.DataFrame], fault: str, tmp_path: Path
) -> None:
    run = copy_run(tmp_path)
    change(run, name, made)
    with pytest.raises(MprunError, match=LINE.format(name=name, fault=f"{fault}[^:]*")):
        list(RunDirectory(run).tables())


def test_values_that_are_not_known_are_no_fault(tmp_path: Path) -> None:
    run = copy_run(tmp_path)
    change(run, "requests", lambda t: t.with_columns(start_ns=None))
    change(run, "sockets", lambda t: t.with_columns(flow=None, path=None, rtt_us=None))
    assert len(list(RunDirectory(run).tables())) == 8


@pytest.mark.parametrize("at_s", [-1e299, -1.0, 1e299])
def test_times_of_any_size_are_drawn(at_s: float, tmp_path: Path) -> None:
    run = copy_run(tmp_path)
    change(run, "goodput", lambda t: t.with_columns(start_s=at_s))
    assert call_verb("show", run).error is None


def test_a_flow_of_another_run_is_a_fault(tmp_path: Path) -> None:
    """Before, the command ended with the KeyError of a colour."""
    run = copy_run(tmp_path)
    change(run, "requests", lambda t: t.with_columns(flow=polars.lit("other")))
    called = call_verb("show", run)
    assert "tables/requests.parquet: damaged: names a flow 'other'" in str(called.error)


def test_a_table_that_would_fill_the_memory_is_refused() -> None:
    """A column of one value takes the same few bytes for any number of rows. One byte more than the bound is enough."""
    packed = io.BytesIO()
    polars.select(polars.repeat(7, MOST_CELLS + 1, dtype=polars.Int64).alias("value")).write_parquet(packed)
    size = packed.tell()
    assert size < MOST_CELLS // 20
    packed.seek(0)
    with pytest.raises(ValueError, match=f"holds {MOST_CELLS + 1} values in {size} bytes"):
        open_table(packed, "other", size)


@pytest.mark.slow
def test_a_panic_of_a_library_is_not_printed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The test damages the end of the file, where its structure is stored, byte by byte."""
    run = copy_run(tmp_path)
    path = run / "tables" / "queues.parquet"
    whole = path.read_bytes()
    faults = []
    for at in range(len(whole) - 400, len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        try:
            list(RunDirectory(run).tables())
        except MprunError as error:
            faults.append(str(error))
    assert len(faults) > 300
    assert all(fault.startswith(f"{path}: damaged: ") and "\n" not in fault for fault in faults)
    assert capfd.readouterr().err == ""


HEADER = struct.Struct("=BxHIq")


@pytest.mark.parametrize(
    "content",
    [
        b"no gzip",
        gzip.compress(HEADER.pack(0, 0, 3, 0) + b"[1]"),
        gzip.compress(HEADER.pack(0, 0, 2, 0) + b"{\x00"),
        gzip.compress(HEADER.pack(1, 9, 0, 0)),
        gzip.compress(HEADER.pack(0, 0, 13, 0) + b'{"host": [1]}'),
        gzip.compress(HEADER.pack(6, 0, 4, 0) + os.urandom(4)),
    ],
    ids=range(6),
)
def test_a_damaged_record_is_named(content: bytes, tmp_path: Path) -> None:
    run = copy_run(tmp_path)
    shutil.rmtree(run / "tables")
    (run / "record.gz").write_bytes(content)
    called = call_verb("show", run)
    assert called.status == 1
    assert str(called.error).startswith(f"{run}/record.gz: damaged: ")
    assert "\n" not in str(called.error)


@pytest.mark.parametrize("value", [[], {}, "x", None, 1e308, 10**30])
def test_an_output_with_an_odd_value_is_no_traceback(value: object, tmp_path: Path) -> None:
    run = copy_run(tmp_path)
    shutil.rmtree(run / "tables")
    for name in ("bulk.out", "bulk.server.out"):
        report = json.loads((run / "logs" / name).read_text())
        report["end"]["sum_received"] = dict.fromkeys(report["end"]["sum_received"], value)
        report["end"]["sum_sent"] = dict.fromkeys(report["end"]["sum_sent"], value)
        (run / "logs" / name).write_text(json.dumps(report))
    assert call_verb("show", run).error is None


@pytest.mark.parametrize("name", ["asks.out", "bulk.out", "bulk.server.out"])
@pytest.mark.parametrize("text", ["", "{}", "[]", "1 999999999999999999999999999999\n", "{\x1b[2J", '{"end": {}}'])
def test_damaged_outputs_make_no_traceback(name: str, text: str, tmp_path: Path) -> None:
    run = copy_run(tmp_path)
    shutil.rmtree(run / "tables")
    (run / "logs" / name).write_text(text)
    assert call_verb("show", run).error is None
