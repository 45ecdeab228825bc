# SPDX-License-Identifier: Apache-2.0
"""What the kernel's tests say, and the list of those that are known to fail."""

from __future__ import annotations

from pathlib import Path

from mprun.selftests import tap
from mprun.selftests.known import Known, find_known, read_known
from mprun.selftests.run import DEFAULT_SCRIPTS
from mprun.selftests.source import Script, list_scripts

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
    (tmp_path / "mptcp").mkdir()
    groups = "all_tests_sorted=(\n\tf@subflows_tests\n\te@subflows_error_tests\n)\n"
    for name, text in (("diag", "exit"), ("mptcp_join", groups), ("mptcp_lib", "")):
        (tmp_path / "mptcp" / f"{name}.sh").write_text(text)
    joins = [Script("mptcp_join", "subflows", ("-f",)), Script("mptcp_join", "subflows_error", ("-e",))]
    assert list_scripts(tmp_path) == [Script("diag"), *joins]
    assert joins[1].label == "mptcp_join/subflows_error"
