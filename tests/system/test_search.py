# SPDX-License-Identifier: Apache-2.0
"""`mprun search` finds a planted boundary, leaves out what is not multipath's fault, and continues where it ended."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
import yaml

from tests.system.conftest import Result

TOPOLOGY = """\
version: 1
nodes: {client: {kind: host}, router: {kind: router}, server: {kind: host}}
links:
  - {name: path0, between: [client, router], rate: 10mbit, delay: 10ms, queue: 100packets}
  - {name: server0, between: [router, server]}
"""
# The receive window is half of the buffer: 65536 bytes in a round-trip time of twice the delay.
EXPERIMENT = """\
version: 1
params: {buffer: 131072}
hosts: {server: {sysctl: {net.ipv4.tcp_rmem: "4096 131072 {{ buffer }}"}}}
traffic: [{name: bulk, tool: iperf3, from: client, to: server, duration: 2s}]
search:
  vary: {path0.delay: 5ms..100ms, path0.queue: 5packets..100packets}
  violate: bulk.goodput >= 6mbit
  control: {large: {buffer: 6291456}}
"""


def test_a_planted_boundary_is_found(mprun: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "topo.yaml").write_text(TOPOLOGY)
    (tmp_path / "xp.yaml").write_text(EXPERIMENT)
    words = ("search", "-t", "topo", "-x", "xp", "--budget", "16")
    found = mprun(*words)
    assert found.status == 1, found.out + found.err
    assert "worst point for: bulk.goodput >= 6mbit" in found.out
    assert "below a floor" in found.out
    assert "search" not in yaml.safe_load((tmp_path / "worst" / "xp.yaml").read_text())
    again = mprun("-t", "worst/topo", "-x", "worst/xp", "--json")
    assert again.status == 0, again.err
    sweep = next((tmp_path / "runs").glob("2*-sweep"))
    points = pl.read_parquet(sweep / "tables" / "search.parquet")
    violated = points.filter(verdict="violated")
    held = points.filter(verdict="holds")
    assert again.metric("bulk.goodput") == violated["bulk.goodput"].min()

    def delays(table: pl.DataFrame) -> list[float]:
        return [float(text.removesuffix("ms")) for text in table["path0.delay"]]

    # 65536 bytes in twice the delay are 6 Mbit/s at 43.7 ms, of which slow start takes a part
    assert max(delays(held)) < 43.7
    assert min(delays(violated)) > 30
    floor = points.filter(verdict="floor")
    assert all(float(text.removesuffix("packets")) < 10 for text in floor["path0.queue"])
    assert floor["run"].unique().to_list() == [""]
    assert {path.name for path in sweep.glob("*.svg")} == {"search.svg"}
    # nothing is left to run, and the outcome is the same
    (tmp_path / "worst").rename(tmp_path / "first")
    repeated = mprun(*words, "--json")
    assert repeated.status == 1, repeated.err
    assert json.loads(repeated.out)["worst"]["margin"] == pytest.approx(violated["margin"].min())
    assert (tmp_path / "worst" / "topo.yaml").read_bytes() == (tmp_path / "first" / "topo.yaml").read_bytes()
    assert len(list((tmp_path / "runs").glob("2*-sweep"))) == 1


def test_a_violation_counts_only_if_the_control_passes(mprun: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "topo.yaml").write_text(TOPOLOGY)
    text = EXPERIMENT.replace("path0.delay: 5ms..100ms, path0.queue: 5packets..100packets", "path0.rate: 4mbit..5mbit")
    (tmp_path / "xp.yaml").write_text(text)
    found = mprun("search", "-t", "topo", "-x", "xp", "--budget", "4")
    assert found.status == 0, found.out + found.err
    assert "0 violated" in found.out
    assert "where a control fails too" in found.out
    assert not (tmp_path / "worst").exists()


def test_the_kernel_itself_is_no_control(mprun: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "topo.yaml").write_text(TOPOLOGY)
    (tmp_path / "xp.yaml").write_text(EXPERIMENT.replace("{buffer: 6291456}", "{kernel: default}"))
    found = mprun("search", "-t", "topo", "-x", "xp", "--budget", "4")
    refused = "search.control.large: default is the kernel of the other runs too: name another, or give --kernel\n"
    assert (found.status, found.err) == (2, refused)


def test_a_run_without_values_is_told_apart(mprun: Callable[..., Result], tmp_path: Path) -> None:
    """No ping of 98 bytes passes 8 bit/s in time."""
    (tmp_path / "topo.yaml").write_text(TOPOLOGY)
    control = "control: {fast: {path0.rate: 10mbit}}\n"
    text = EXPERIMENT[: EXPERIMENT.index("search:")].replace("2s", "1s")
    vary = "search:\n  vary: {path0.rate: 8bit..20bit}\n  violate: bulk.goodput >= 1mbit\n"
    (tmp_path / "xp.yaml").write_text(f"{text}{vary}  {control}")
    found = mprun("search", "-t", "topo", "-x", "xp", "--budget", "4")
    assert "0 hold, 4 violated (4 by a run without values)" in found.out, found.out + found.err
    assert "its run ended without values: probe.path0: no answer over this path" in " ".join(found.out.split())
