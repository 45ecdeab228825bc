# SPDX-License-Identifier: Apache-2.0
"""Results of the kernel's own tests, and the list of known failures."""

from __future__ import annotations

from pathlib import Path

import pytest

from mprun import inside
from mprun.errors import HostError, SpecError
from mprun.selftests import packetdrill, tap
from mprun.selftests.known import Known, find_known, read_known
from mprun.selftests.run import DEFAULT_SCRIPTS
from mprun.selftests.source import list_scripts

# diag.sh of 6.12 with iproute2 6.1, shortened
DIAG_6_12 = """\
06 after MPC handshake                               [ OK ]
07 ....chk last_data_sent                            [SKIP] Feature probably not supported

TAP version 13
1..3
ok 1 - diag: after MPC handshake # time=0ms
ok 2 - diag: ....chk last_data_sent # SKIP time=500ms
not ok 3 - diag: ....chk 2->0 msk in use after flush # time=1100ms
"""


def test_results_are_those_after_the_version_line() -> None:
    report = tap.parse(DIAG_6_12)
    assert report.planned == 3
    assert report.subtests == (
        tap.Subtest("diag: after MPC handshake", "passed"),
        tap.Subtest("diag: ....chk last_data_sent", "skipped"),
        tap.Subtest("diag: ....chk 2->0 msk in use after flush", "failed"),
    )


def test_an_excused_failure_is_one() -> None:
    lines = ["ok 1 - simult_flows: unbalanced bwidth # IGNORE Flaky time=3ms", "not ok 2 odd # XFAIL", "ok 3 plain"]
    report = tap.parse("\n".join(["KTAP version 1", "1..3", *lines]))
    assert [subtest.outcome for subtest in report.subtests] == ["failed", "failed", "passed"]


def test_a_script_that_was_cut_short_has_fewer_results_than_planned() -> None:
    report = tap.parse(DIAG_6_12.rsplit("not ok", 1)[0])
    assert (report.planned, len(report.subtests)) == (3, 2)
    assert tap.parse("Segmentation fault\n") == tap.Report(None, ())


def test_a_known_failure_is_that_of_its_script_and_scheduler() -> None:
    known = (Known("mptcp_join", "mptcp_join: link*", "why", "redundant"), Known("diag", "*", "why"))
    assert find_known(known, "mptcp_join", "mptcp_join: link failure", "redundant") is known[0]
    assert find_known(known, "mptcp_join", "mptcp_join: link failure", None) is None
    assert find_known(known, "mptcp_join", "mptcp_join: backup", "redundant") is None
    assert find_known(known, "diag", "diag: anything", "redundant") is known[1]


def test_every_known_failure_has_a_script_and_a_reason(tmp_path: Path) -> None:
    for entry in read_known():
        assert entry.script in DEFAULT_SCRIPTS
        assert len(entry.reason) > 20
    (tmp_path / "known.yaml").write_text("- {script: diag, subtest: 'diag: x', reason: because}\n")
    assert read_known(tmp_path / "known.yaml") == (Known("diag", "diag: x", "because"),)


def test_groups_of_a_script_run_by_themselves(tmp_path: Path) -> None:
    folder = tmp_path / "net" / "mptcp"
    folder.mkdir(parents=True)
    groups = "all_tests_sorted=(\n\tf@subflows_tests\n\te@subflows_error_tests\n)\n"
    for name, text in (("diag", "exit"), ("mptcp_join", groups), ("mptcp_lib", "")):
        (folder / f"{name}.sh").write_text(text)
    found = list_scripts(tmp_path)
    assert [script.label for script in found] == ["diag", "mptcp_join/subflows", "mptcp_join/subflows_error"]
    assert [script.command for script in found] == [
        ("./diag.sh",),
        ("./mptcp_join.sh", "-f"),
        ("./mptcp_join.sh", "-e"),
    ]
    assert {script.folder for script in found} == {f"{inside.ROOT}/selftests/net/mptcp"}
    assert found[0].shown == {tmp_path: f"{inside.ROOT}/selftests"}


def test_scripts_of_a_suite_start_in_their_own_folders(tmp_path: Path) -> None:
    for name in ("tcp/sack/first.pkt", "tcp/sack/notes.txt", "top.pkt"):
        path = tmp_path / "suite" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    found = packetdrill.list_suite(tmp_path / "suite", tmp_path / "program")
    assert [script.label for script in found] == ["packetdrill/tcp/sack/first", "packetdrill/top"]
    assert found[0].folder == f"{inside.ROOT}/suite/tcp/sack"
    assert found[0].command == (f"{inside.ROOT}/guest/packetdrill.sh", "first.pkt")
    assert found[0].shown == {
        tmp_path / "suite": f"{inside.ROOT}/suite",
        tmp_path / "program": f"{inside.ROOT}/program",
    }
    (tmp_path / "empty").mkdir()
    with pytest.raises(SpecError, match=r"empty: no file \*\.pkt in this folder or below it"):
        packetdrill.list_suite(tmp_path / "empty", tmp_path)


def test_the_kernels_own_packetdrill_scripts_have_its_runner(tmp_path: Path) -> None:
    folder = tmp_path / "net" / "packetdrill"
    folder.mkdir(parents=True)
    (folder / "tcp_inq.pkt").touch()
    (folder / "ksft_runner.sh").touch()
    (script,) = packetdrill.list_own(tmp_path, tmp_path / "program")
    assert (script.label, script.command) == ("packetdrill/tcp_inq", ("./ksft_runner.sh", "tcp_inq.pkt"))
    assert script.folder == f"{inside.ROOT}/selftests/net/packetdrill"


def test_a_folder_without_the_program_is_refused(tmp_path: Path) -> None:
    (tmp_path / "packetdrill").mkdir()
    with pytest.raises(HostError, match="has no program 'packetdrill': build it there, as its README describes"):
        packetdrill.find_program(tmp_path)
    (tmp_path / "packetdrill" / "packetdrill").touch(mode=0o755)
    assert packetdrill.find_program(tmp_path / "packetdrill") == tmp_path / "packetdrill"
