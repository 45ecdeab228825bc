# SPDX-License-Identifier: Apache-2.0
"""Accounts of flows, for people: `mprun.workloads.account` writes them from the data that the metrics come from."""

from __future__ import annotations

import json
from pathlib import Path

from mprun.workloads.account import tell_iperf3, tell_requests

OUTPUTS = Path(__file__).parents[1] / "outputs"


def told(name: str) -> list[str]:
    report = json.loads((OUTPUTS / name).read_text())
    return tell_iperf3(report, "logs/bulk.out", is_mptcp="mptcp" in name).splitlines()


def test_iperf3_is_told_as_it_prints() -> None:
    lines = told("iperf3-3.12-mptcp.json")
    assert lines[:2] == [
        "# told as iperf3 prints it, from logs/bulk.out",
        "# Retr, Cwnd: of the connection's first subflow",
    ]
    assert lines[2].startswith("Connecting to host 10.1.0.1, port 5201")
    report = json.loads((OUTPUTS / "iperf3-3.12-mptcp.json").read_text())
    rows = [line for line in lines if " sec " in line]
    assert len(rows) == len(report["intervals"]) + 2
    received = report["end"]["sum_received"]["bits_per_second"] / 1e6
    assert lines[-1].endswith("receiver")
    assert f"{received:.1f} Mbits/sec" in lines[-1]


def test_both_directions_and_a_refused_test_are_told() -> None:
    assert len([line for line in told("iperf3-3.12-bidir.json") if line.endswith(("sender", "receiver"))]) == 4
    assert told("iperf3-3.12-refused.json")[-1].startswith("iperf3: unable to connect")


def test_requests_are_a_line_each() -> None:
    table: dict[str, list[int | None]] = {
        "sequence": [1, 2],
        "start_ns": [250_000_000, None],
        "delay_ns": [41_484_000, 80_732_000],
    }
    first, second = tell_requests(table).splitlines()[1:]
    assert first.split() == ["1", "0.250000", "s", "41.484", "ms"]
    assert second.split() == ["2", "80.732", "ms"]
