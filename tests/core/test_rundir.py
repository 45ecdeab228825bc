# SPDX-License-Identifier: Apache-2.0
"""Files of runs and sweeps: whole or not at all, and columns of one type."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars
import pytest

from mprun.rundir import RunDirectory, make_frame


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([1, 1.5, None], [1.0, 1.5, None]),
        ([1, "1.5", None], ["1", "1.5", None]),
        ([True, 1], ["True", "1"]),
        ([True, None], [True, None]),
        ([None, None], [None, None]),
        ([2**40, None], [2**40, None]),
    ],
)
def test_a_column_has_one_type(values: list[Any], found: list[Any]) -> None:
    assert [(type(one), one) for one in make_frame({"a": values})["a"].to_list()] == [(type(one), one) for one in found]


def test_a_table_that_cannot_be_written_leaves_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = RunDirectory(tmp_path)
    run.write_tables({"a": {"x": [1, 2]}})

    def fail(_: polars.DataFrame, file: Path) -> None:
        file.write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(polars.DataFrame, "write_parquet", fail)
    with pytest.raises(OSError, match="disk full"):
        run.write_tables({"a": {"x": [3, 4]}})
    assert [path.name for path in (tmp_path / "tables").iterdir()] == ["a.parquet"]
    assert polars.read_parquet(tmp_path / "tables" / "a.parquet")["x"].to_list() == [1, 2]
