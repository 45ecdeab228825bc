# SPDX-License-Identifier: Apache-2.0
"""`mprun why` finds a planted burst of losses, and says so if nothing is drawn. Runs are equal until the change."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from tests.system.conftest import Result

# Losses for 100 ms, 7.3 s after time zero.
TOPOLOGY = """\
version: 1
nodes: {client: {kind: host}, router: {kind: router}, server: {kind: host}}
links:
  - {name: path0, between: [client, router], rate: 10mbit, delay: 10ms}
  - {name: server0, between: [router, server]}
events:
  - {at: 7.3s, link: path0, set: {loss: 10%}}
  - {at: 7.4s, link: path0, set: {loss: 0%}}
"""
EXPERIMENT = """\
version: 1
traffic:
  - {name: msg, tool: reqres, from: client, to: server, requests: 100, request: 1000bytes, response: 10000bytes,
     think: 50ms}
capture: [{node: client, snaplen: 100}]
expect: [{metric: msg.delay.max, max: 40ms}]
"""


def write(folder: Path, topology: str = TOPOLOGY, experiment: str = EXPERIMENT) -> tuple[str, ...]:
    (folder / "topo.yaml").write_text(topology)
    (folder / "xp.yaml").write_text(experiment)
    return "-t", "topo", "-x", "xp"


@pytest.mark.long
def test_a_planted_burst_is_found(mprun: Callable[..., Result], tmp_path: Path) -> None:
    files = write(tmp_path)
    failed = next(seed for seed in range(1, 20) if mprun(*files, "--seed", seed).status == 1)
    assert failed
    found = mprun("why", "--runs", "10", "--steps", "6", "--json")
    assert found.status == 0, found.out + found.err
    answer = json.loads(found.out)
    assert answer["is_drawn"]
    begin, end = answer["inevitable_after_ns"], answer["inevitable_by_ns"]
    assert begin < 7_400_000_000
    assert end > 7_300_000_000
    assert end - begin < 400_000_000
    first, *_, last = answer["moments"]
    assert 0 < first["failed"] < 10
    assert last["failed"] == 10
    sweep = Path(tmp_path, answer["directory"])
    assert pl.read_parquet(sweep / "tables" / "why.parquet").height == 10
    assert (sweep / "why.svg").is_file()
    told = mprun("why", "--runs", "10", "--steps", "6")
    assert "inevitable between" in told.out
    assert re.search(r"^[1-9][0-9]* packets of", told.out, re.MULTILINE)


def test_nothing_is_drawn_without_chance(mprun: Callable[..., Result], tmp_path: Path) -> None:
    files = write(tmp_path, TOPOLOGY.partition("events")[0], EXPERIMENT.replace("40ms", "1ms").replace("100,", "10,"))
    assert mprun(*files).status == 1
    found = mprun("why", "--steps", "2")
    assert found.status == 0, found.err
    # two seeds show it
    assert found.out.startswith("2 runs, ")
    assert "other random numbers change no metric" in found.out
    # a study is not named as a sweep of the same files
    assert (tmp_path / "runs" / "latest-sweep").resolve().name.split("-", 2)[2].startswith("why-topo-xp-")


def test_a_run_is_the_same_until_its_random_numbers_change(mprun: Callable[..., Result], tmp_path: Path) -> None:
    lossy = TOPOLOGY.partition("events")[0].replace("delay: 10ms", "delay: 10ms, loss: 2%")
    files = write(tmp_path, lossy, EXPERIMENT.partition("expect")[0])
    captures = []
    for reseed in ("", "repeat: {reseed: {at: 3s, seed: 5}}", "repeat: {reseed: {at: 3s, seed: 6}}"):
        (tmp_path / "xp.yaml").write_text(f"{EXPERIMENT.partition('expect')[0]}{reseed}\n")
        done = mprun(*files, "--json")
        assert done.status == 0, done.err
        assert mprun("packets", done.run).status == 0
        captures.append(pl.read_parquet(done.run / "tables" / "packets.parquet"))
    before = [table.filter(pl.col("time_ns") < 3_000_000_000) for table in captures]
    assert before[0].height > 100
    assert before[0].equals(before[1])
    assert before[0].equals(before[2])
    after = [table.filter(pl.col("time_ns") > 3_500_000_000) for table in captures]
    assert not after[0].equals(after[1])
    assert not after[1].equals(after[2])


def test_programs_of_a_run_cannot_change_the_seed(mprun: Callable[..., Result], tmp_path: Path) -> None:
    xp = """\
version: 1
traffic: [{name: try, tool: exec, from: client, to: server, command: [sh, -c, "echo 0 5 > /proc/mprun_reseed"]}]
"""
    files = write(tmp_path, TOPOLOGY.partition("events")[0], xp)
    done = mprun(*files, "--allow-exec")
    assert done.status == 1
    log = next((tmp_path / "runs" / "latest" / "logs").glob("try.err")).read_text()
    assert "error" in log or "not permitted" in log
