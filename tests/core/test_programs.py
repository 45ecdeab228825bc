# SPDX-License-Identifier: Apache-2.0
"""The soak of foreign programs: its experiments compile, and its checks can fail."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from benchmarks.programs import (
    ROOT,
    SPINNER,
    SPINNERS,
    TOPOLOGY,
    Row,
    check,
    check_late,
    compare,
    list_programs,
    missing_packages,
    try_program,
    write,
)
from mprun.compile import allocate, compile_plan
from mprun.inputs.loading import load

PROGRAMS = {
    *("iperf2", "nuttcp", "socat", "wrk", "h2load", "redis", "rsync", "git", "s_time", "ffmpeg", "go", "java"),
    *("python", "node", "postgresql"),
}


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_experiments_compile_and_say_what_is_checked(name: str) -> None:
    path = list_programs()[name]
    spec = load(TOPOLOGY, path).spec
    compile_plan(spec, allocate(spec))
    experiment = yaml.safe_load(path.read_text())
    listed = (ROOT / "packages-soak.txt").read_text().splitlines()
    assert set(experiment["x-needs"].values()) <= set(listed)
    flows = {entry["name"] for entry in experiment["traffic"]}
    for log in experiment["x-prints"]:
        assert log.removesuffix(".out").removesuffix(".server") in flows
    assert experiment["capture"], "without a capture no two runs are compared by their packets"


def test_all_programs_are_there_and_spinners_are_those_of_the_program() -> None:
    assert set(list_programs()) == PROGRAMS
    assert len(SPINNERS) == 16
    for look in SPINNERS:
        assert f'"{look}": ' in SPINNER.read_text()


def test_a_log_without_the_line_is_a_fault(tmp_path: Path) -> None:
    experiment = {"x-prints": {"it.out": ["^first$", "^3 of 3$"]}}
    (tmp_path / "it.out").write_text("first\n3 of 3\n")
    assert check(experiment, tmp_path) == ""
    (tmp_path / "it.out").write_text("first\n2 of 3\n")
    assert check(experiment, tmp_path) == "it.out has no line '^3 of 3$'"
    (tmp_path / "it.out").unlink()
    assert check(experiment, tmp_path) == "it.out has no line '^first$'"


def test_a_spinner_is_late_or_early_beyond_its_bounds() -> None:
    assert check_late("0.0012\n") == check_late("-0.0181") == ""
    assert check_late("0.1") == "late by 0.100 s"
    assert check_late("-1") == "late by -1.000 s"


def test_two_runs_differ_in_one_byte_of_a_capture_or_a_log(tmp_path: Path) -> None:
    for name in ("one", "other"):
        for path in ("pcap/client.pcap", "logs/it.out", "logs/console.log", "summary.json", "steps.jsonl"):
            (tmp_path / name / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name / path).write_text("same")
    one, other = tmp_path / "one", tmp_path / "other"
    (other / "logs" / "console.log").write_text("a message of the machine's")
    assert compare(one, other) == ""
    (other / "pcap" / "client.pcap").write_text("some")
    assert compare(one, other) == "another pcap/client.pcap"
    (other / "logs" / "it.err").touch()
    assert compare(one, other) == "another logs/it.err"


def test_a_missing_program_is_not_run_and_no_success(tmp_path: Path) -> None:
    path = tmp_path / "odd.yaml"
    path.write_text("x-needs: {sh: dash, no-such-program: odd-package}\n")
    row = try_program(path, tmp_path)
    assert row == Row("odd", not_run="apt-get install --no-install-recommends odd-package")
    assert not row.is_good
    assert missing_packages({"sh": "dash"}) == []
    assert "| odd | not run: apt-get install" in write([row])


def test_a_fault_is_no_success() -> None:
    assert Row("good", faults={}, wall_s=1.0).is_good
    bad = Row("bad", faults={"repeats": "another pcap/client.pcap"}, wall_s=1.25, simulated_s=3)
    assert not bad.is_good
    assert bad.cells() == ["bad", "yes", "yes", "another pcap/client.pcap", "1.2", "3.0"]
    assert Row("hung", faults={"ends": "no end in 900 s of real time"}).cells()[1:4] == [
        "no end in 900 s of real time",
        "",
        "",
    ]
