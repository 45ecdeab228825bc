# SPDX-License-Identifier: Apache-2.0
"""Reports of real runs."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from tests.system.conftest import LAB, SHORT, Result


def contents(run: Path) -> dict[str, bytes]:
    return {str(path.relative_to(run)): path.read_bytes() for path in sorted(run.rglob("*")) if path.is_file()}


def test_report_repeats_and_leaves_the_run_alone(mprun: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "xp.yaml").write_text(SHORT + "expect: [{metric: bulk.subflows, equals: 2}]\n")
    ran = mprun("-t", LAB / "topo", "-x", "xp", "--json")
    before = contents(ran.run)
    made = mprun("report")
    assert made.status == 0, made.err
    first = contents(ran.run)
    assert made.out.strip() == str((ran.run / "report.html").relative_to(tmp_path))
    new = first.keys() - before.keys()
    assert {name: first[name] for name in before} == before
    for stem in ("topology", "rate-bulk", "rtt-bulk", "cwnd-bulk"):
        assert {f"figures/{stem}.{kind}" for kind in ("svg", "pdf", "png", "csv")} <= new
    page = first["report.html"].decode()
    assert "1 of 1 expectations hold" in page
    assert set(re.findall(r'href="(figures/[^"]+)"', page)) == new - {"report.html"}
    assert mprun("report").status == 0
    assert contents(ran.run) == first


def test_report_of_a_sweep(mprun: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "xp.yaml").write_text(
        SHORT
        + "matrix: {path0.rate: [5mbit, 10mbit, 20mbit]}\nrepeat: {runs: 2}\n"
        + "plots: [{metric: bulk.goodput, over: path0.rate, form: line}, {metric: bulk.subflows, over: path0.rate}]\n"
    )
    swept = mprun("sweep", "-t", LAB / "topo", "-x", "xp", "--keep", "none")
    assert swept.status == 0, swept.err
    (sweep,) = (path for path in (tmp_path / "runs").glob("*-sweep") if not path.is_symlink())
    before = contents(sweep)
    made = mprun("report", "latest-sweep")
    assert made.out.strip() == str((sweep / "report.html").relative_to(tmp_path)), made.err
    after = contents(sweep)
    assert {name: after[name] for name in before} == before
    page = after["report.html"].decode()
    assert "6 passed" in page
    figures = {name for name in after if name.endswith(".csv")}
    stems = ("bulk.goodput-over-path0.rate", "bulk.subflows-over-path0.rate-1", "topology")
    assert figures == {f"figures/{stem}.csv" for stem in stems}
    rows = after[f"figures/{stems[0]}.csv"].decode().splitlines()
    assert rows[0] == "series,path0_rate_bit_per_s,bulk_goodput_bit_per_s,low,high"
    assert [row.split(",")[1] for row in rows[1:]] == ["5000000", "10000000", "20000000"]
