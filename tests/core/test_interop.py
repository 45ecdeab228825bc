# SPDX-License-Identifier: Apache-2.0
"""The page of QUIC libraries against each other: each cell has its result, and each failure its cause."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from benchmarks.interop import write
from mprun.model.sweep_files import CellSummary, CellVerdict, Messages, RunCounts, Statistic

AMPLIFICATION = "get.seen.amplification"
NUMBERS: dict[str, Any] = {**{field.name: 3.25 for field in fields(Statistic)}, "count": 1, "unit": "count"}


def cell(case: str, client: str, server: str, failed: str = "", error: str = "") -> CellSummary:
    """Return a cell of one run. failed: the metric whose expectation the run did not hold."""
    values = {"case": case, "client": client, "server": server}
    counts = RunCounts(passed=not (failed or error), failed=bool(failed), error=bool(error))
    statistic = Statistic(**NUMBERS)
    expectations = (CellVerdict(failed or AMPLIFICATION, None, 3.0, None, 0 if failed or error else 1, 1),)
    told = Messages({}, errors={error: 1} if error else {})
    return CellSummary(values, counts, 1, {failed: statistic} if failed else {}, told, expectations=expectations)


def test_a_row_is_a_client_and_a_column_a_server() -> None:
    cells = [
        cell("retry", "noq", "noq"),
        cell("retry", "noq", "aioquic", failed="get.goodput"),
        cell("retry", "aioquic", "noq", failed=AMPLIFICATION),
        cell("v2", "aioquic", "aioquic", error="get: the server did not answer"),
    ]
    page = write(cells, 111.4, 2)
    assert "| noq | passed | failed |\n| aioquic | failed | - |\n" in page
    assert "| noq | - | - |\n| aioquic | - | error |\n" in page
    assert "4 cells: 2 cases" in page
    assert "took 111 s of real time, 2 runs at a time" in page
    assert "Passed: 1 of 4 cells." in page


def test_a_failure_has_its_value_and_its_cause() -> None:
    cells = [
        cell("retry", "noq", "aioquic", failed="get.goodput"),
        cell("retry", "aioquic", "noq", failed=AMPLIFICATION),
        cell("v2", "aioquic", "aioquic", error="get: the server did not answer"),
    ]
    page = write(cells, 1, 1)
    assert "- `retry`, noq and server aioquic: `get.goodput` is 3.25. The cause is not known.\n" in page
    assert f"- `retry`, aioquic and server noq: `{AMPLIFICATION}` is 3.25. noq sends a whole datagram" in page
    # of a run that ended early, no verdict counts
    assert "- `v2`, aioquic and server aioquic: `get: the server did not answer`. The cause is not known.\n" in page


def test_cells_with_one_reason_share_a_line() -> None:
    cells = [cell("rebindport", client, "tquic", error="get: nothing arrived") for client in ("noq", "aioquic")]
    page = " ".join(write(cells, 1, 1).split())
    assert "- `rebindport`, noq, aioquic and server tquic: `get: nothing arrived`. tquic 1.6 validates the" in page
    assert page.count("get: nothing arrived") == 1


def test_a_page_of_passed_cells_lists_no_failure() -> None:
    assert "The other cells" not in write([cell("retry", "noq", "noq")], 1, 1)
