# SPDX-License-Identifier: Apache-2.0
"""The changes of a network during a run, as a table."""

from __future__ import annotations

from mprun.metrics.series import tabulate_changes
from mprun.model.run_files import StepRecord


def test_a_row_for_each_property() -> None:
    link = {"state": "down", "forward": {"rate_bit_per_s": 5_000_000, "loss": {"probability": 0.1, "correlation": 0.0}}}
    steps = [
        StepRecord("start", 0, "bulk"),
        StepRecord("change", 7, "path0", link),
        StepRecord("change", 8, "client.path1", {"address": "removed"}),
    ]
    assert tabulate_changes(steps).rows() == [
        (7, None, "path0", None, "state", '"down"'),
        (7, None, "path0", "forward", "rate_bit_per_s", "5000000"),
        (7, None, "path0", "forward", "loss", '{"correlation": 0.0, "probability": 0.1}'),
        (8, "client", "path1", None, "address", '"removed"'),
    ]
    assert len(tabulate_changes(steps[:1])) == 0
