# SPDX-License-Identifier: Apache-2.0
"""A finding is written as a report for maintainers, and each report of docs/upstream is reproduced from its folder."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from mprun.captures.pcapng import read_frames
from mprun.model.units import format_measured
from tests.scenes import TWO_PATHS
from tests.system.conftest import ROOT, Result

REPORTS = sorted(path.parent for path in (ROOT / "docs" / "upstream").glob("*/report.txt"))
EXPERIMENT = """\
version: 1
description: |
  a server that is left alone
  The client has fallen back,
  and the server has not.
params: {packet: 2}
hosts: {client: {mptcp: {path_manager: fullmesh}}, server: {mptcp: {path_manager: fullmesh}}}
traffic: [{name: get, tool: http, from: client, to: server, protocol: mptcp, sizes: [300kb], timeout: 5s}]
capture: [{host: client, snaplen: 128}]
faults: [{node: router, link: server0, packet: "{{ packet }}", action: strip}]
expect: [{metric: get.delay.max, max: 1s}]
"""


def read_values(report: str) -> dict[str, list[str]]:
    """Return the values of the run and of the control, by metric."""
    happened = report.partition("What happened?\n")[2].partition("What did you expect")[0]
    rows = (re.split(r" {2,}", line) for line in happened.splitlines())
    return {words[0]: words[1:] for words in rows if words[0] and len(words) > 1}


def test_a_report_has_files_packets_counters_and_a_control(mprun: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "topo.yaml").write_text(TWO_PATHS)
    (tmp_path / "xp.yaml").write_text(EXPERIMENT)
    (tmp_path / "fix.patch").write_text("a patch")
    control = mprun("-t", "topo", "-x", "xp", "-p", "packet=0", "--json")
    run = mprun("-t", "topo", "-x", "xp", "--json").run
    words = ("--control", control.run, "--attach", "fix.patch", "--to", "report")
    done = mprun("export", run, "--upstream", *words)
    assert done.status == 0, done.err
    folder = tmp_path / "report"
    assert {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()} == {
        *("report.txt", "topo.yaml", "xp.yaml", "control/topo.yaml", "control/xp.yaml", "fix.patch"),
        *("client.pcap", "control-client.pcap", "nstat.txt", "kernel-log.txt"),
    }
    report = (folder / "report.txt").read_text()
    assert report.startswith("Subject: a server that is left alone\n\nReported-by:\nSigned-off-by:\n")
    assert "get.delay.max is at most 1.000 s." in report
    assert "\n\nThe client has fallen back, and the server has not.\n" in report
    assert read_values(report)["get.delay.max"] == ["none", format_measured(control.metric("get.delay.max"), "s")]
    number = int(re.findall(r"first packet: client.pcap:(\d+) ", report)[0])
    for name in ("client.pcap", "control-client.pcap"):
        assert len(list(read_frames([(folder / name).read_bytes()]))) == min(number, 20) + 20
    (counted,) = re.findall(r"^MPTcpExtMPCapableDataFallback +client +(.*)$", (folder / "nstat.txt").read_text(), re.M)
    assert counted.split() == ["0", "1", "0", "0"]
    assert "Linux version" in (folder / "kernel-log.txt").read_text()
    # the files give the same packets
    again = mprun("-t", "report/topo", "-x", "report/xp", "--json").run
    assert (again / "pcap" / "client.pcap").read_bytes() == (run / "pcap" / "client.pcap").read_bytes()


def test_a_report_without_a_control_has_no_packets(mprun: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "topo.yaml").write_text(TWO_PATHS)
    (tmp_path / "xp.yaml").write_text(EXPERIMENT)
    run = mprun("-t", "topo", "-x", "xp", "--json").run
    assert mprun("export", run, "--upstream").status == 0
    assert {path.name for path in (run / "upstream").iterdir()} == {
        *("report.txt", "topo.yaml", "xp.yaml", "nstat.txt", "kernel-log.txt"),
    }
    refused = mprun("export", run, "--csv", "--control", run)
    assert (refused.status, "--control and --attach are for --upstream" in refused.err) == (2, True)


def test_a_report_has_the_files_of_its_programs(mprun: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "word").write_text("a word")
    (tmp_path / "topo.yaml").write_text(TWO_PATHS)
    own = "{name: own, tool: exec, from: client, to: server, command: [cat, tree/word], files: [tree]}"
    (tmp_path / "xp.yaml").write_text(f"version: 1\ntraffic: [{own}]\n")
    first = mprun("-t", "topo", "-x", "xp", "--allow-exec", "--json")
    assert first.status == 0, first.err
    assert mprun("export", first.run, "--upstream", "--to", "report").status == 0
    again = mprun("-t", "report/topo", "-x", "report/xp", "--allow-exec", "--json")
    assert again.status == 0, again.err
    assert (again.run / "logs" / "own.out").read_text() == "a word"


@pytest.mark.parametrize("folder", REPORTS, ids=[path.name for path in REPORTS])
def test_a_report_of_the_docs_is_reproduced_from_its_folder(
    folder: Path, mprun: Callable[..., Result], tmp_path: Path
) -> None:
    shutil.copytree(folder, tmp_path / "it")
    reported = read_values((folder / "report.txt").read_text())
    assert reported
    for column, part in enumerate(("it", "it/control")):
        if not (tmp_path / part / "xp.yaml").exists():
            continue
        metrics = mprun("-t", f"{part}/topo", "-x", f"{part}/xp", "--json").summary["metrics"]
        for name, values in reported.items():
            measured = format_measured(**metrics[name]) if name in metrics else "none"
            assert (name, measured) == (name, values[column])


def test_the_docs_list_all_reports() -> None:
    assert len(REPORTS) == 3
    page = (ROOT / "docs" / "upstream" / "index.md").read_text()
    assert all(f"({path.name}/report.txt)" in page for path in REPORTS)
