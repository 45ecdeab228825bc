# SPDX-License-Identifier: Apache-2.0
"""The notebook in the docs runs on the sweep that its text describes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pytest

from tests.system.conftest import LAB, ROOT, SHORT, Result


def test_notebook_runs(mprun: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = json.loads((ROOT / "docs" / "notebook.ipynb").read_text())
    asked = "".join(notebook["cells"][0]["source"])
    (tmp_path / "xp.yaml").write_text(
        SHORT + "".join(f"{line.strip()}\n" for line in asked.splitlines() if line.startswith("    "))
    )
    swept = mprun("sweep", "-t", LAB / "topo", "-x", "xp", "--keep", "none")
    assert swept.status == 0, swept.err
    monkeypatch.chdir(tmp_path)
    mpl.use("Agg")
    names: dict[str, Any] = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    assert (tmp_path / "goodput.pdf").stat().st_size > 0
    assert names["goodput"]["count"].to_list() == [2, 2]
    # the automatic figure is the figure of the table
    assert names["drawn"].svg.startswith("<?xml")
    assert "bulk.goodput" in names["drawn"].title
    assert names["drawn"].data["bulk_goodput_bit_per_s"].to_list() == pytest.approx(names["goodput"]["mean"].to_list())
    assert "Round-trip time of bulk" in [figure.title for figure in names["run"].figures()]
    # one connection has both paths in each of the four runs
    assert names["carried"].height == 8
    assert names["carried"]["bytes_acked"].min() > 0
