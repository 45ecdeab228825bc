# SPDX-License-Identifier: Apache-2.0
"""The pages of findings and of `faults`: each command in their tables gives the figure in its row."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import polars
import pytest

from mprun.model.units import format_measured
from tests.system.conftest import ROOT, call, needs_tool

PAGE = "".join((ROOT / "docs" / name).read_text() for name in ("measured/findings.md", "reference/questions/faults.md"))
FILES = dict(re.findall(r"```yaml\n# (\w+\.yaml)\n(.*?)```", PAGE, re.DOTALL))
TABLES = re.findall(r"^\| command \| `(.*?)` \|\n\| --- \| --- \|\n((?:\|.*\|\n)+)", PAGE, re.MULTILINE)
ROWS = [
    (metric, *row)
    for metric, rows in TABLES
    for row in re.findall(r"^\| `mprun (.*?)` \| (.*?) \|$", rows, re.MULTILINE)
]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def test_the_page_has_files_and_figures() -> None:
    assert len(FILES) == 19
    assert len(ROWS) == len(re.findall(r"^\| `mprun", PAGE, re.MULTILINE)) == 52


@pytest.mark.parametrize(("metric", "words", "figure"), ROWS)
def test_the_figure_is_measured_again(metric: str, words: str, figure: str, files: Path) -> None:
    done = call(*shlex.split(words), "--json", cwd=files)
    assert done.status == 0, done.err
    assert not [warning for warning in done.summary["warnings"] if "never arrived" in warning]
    unit = done.summary["metrics"][metric]["unit"]
    assert format_measured(done.metric(metric), unit) == figure


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("-t dying -x megabyte -p dies=60ms", "did not end in time"),
        *(
            pytest.param(words, told, marks=needs_tool("quic"))
            for words, told in (
                (
                    "-t dead -x quic -p back=3.4s -p stack=tquic",
                    "no answer came over it to 8 packets with PATH_CHALLENGE",
                ),
                ("-t far -x quic -p delay=200ms", "too many gaps in stream buffer"),
                ("-t far -x quic -p delay=100ms -p stack=tquic", "its validation was not over"),
            )
        ),
    ],
)
def test_the_run_fails_as_described(words: str, told: str, files: Path) -> None:
    done = call(*words.split(), "--json", cwd=files)
    assert done.status == 1, done.err
    assert told in " ".join((*done.summary["errors"], *done.summary["failures"]))


def test_the_window_after_an_early_loss_is_as_described(files: Path) -> None:
    done = call("-t", "topo", "-x", "mptcp", "-p", "packet=7", "--json", cwd=files)
    rows = polars.read_parquet(files / done.summary["directory"] / "tables" / "sockets.parquet").filter(
        (polars.col("host") == "client") & (polars.col("path") == "path1") & (polars.col("time_ns") <= 3_000_001_024)
    )
    # of the two connections, the one with the data
    port = rows.sort("bytes_sent")["local_port"][-1]
    windows = rows.filter(polars.col("local_port") == port)["snd_cwnd_packets"].to_list()
    assert windows[:2] == [10, 7]
    assert windows[-1] == 40
    assert set(rows.filter(polars.col("local_port") == port)["ssthresh_packets"].drop_nulls()) == {7}


@pytest.mark.parametrize("lost", ["-p packet=3", "-p link=server0 -p packet=12"])
def test_the_second_path_is_ready_a_second_later(lost: str, files: Path) -> None:
    usual, late = (call("-t", "topo", "-x", "mptcp", *more.split(), "--json", cwd=files) for more in ("", lost))
    assert 1.0 < late.metric("bulk.joined.path1") - usual.metric("bulk.joined.path1") < 1.1


def test_a_connection_stops_after_one_packet_without_options(files: Path) -> None:
    assert call("-t", "topo", "-x", "get", cwd=files).status == 0
    done = call("-t", "topo", "-x", "get", "-p", "packet=2", "--json", cwd=files)
    assert done.status == 1
    assert done.summary["errors"][0].startswith("get: did not end in time and was stopped after ")
    rows = polars.read_parquet(files / done.summary["directory"] / "tables" / "counters.parquet").to_dicts()
    growth = {(row["host"], row["name"]): row["value"] for row in rows}
    assert growth["client", "MPTcpExtMPCapableDataFallback"] == 1
    assert ("server", "MPTcpExtMPCapableDataFallback") not in growth
    assert growth["server", "MPTcpExtMPTCPRetrans"] > 10
