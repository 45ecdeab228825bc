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
    assert made.out.strip() == str(ran.run / "report.html")
    new = first.keys() - before.keys()
    assert {name: first[name] for name in before} == before
    for stem in ("topology", "rate-bulk", "rtt-bulk", "cwnd-bulk"):
        assert {f"figures/{stem}.{kind}" for kind in ("svg", "pdf", "png", "csv")} <= new
    page = first["report.html"].decode()
    assert "1 of 1 expectations hold" in page
    assert set(re.findall(r'href="(figures/[^"]+)"', page)) == new - {"report.html"}
    assert mprun("report").status == 0
    assert contents(ran.run) == first
