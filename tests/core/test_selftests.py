# SPDX-License-Identifier: Apache-2.0
"""Results of the kernel's own tests, and the list of known failures."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from mprun.errors import MachineError, SpecError
from mprun.kernel.selftests import packetdrill, tap
from mprun.kernel.selftests.judgement import JudgedScript, SubtestChange, find_changes, judge
from mprun.kernel.selftests.known import Known, find_known, read_known
from mprun.kernel.selftests.script_run import DEFAULT_SCRIPTS, ScriptResult
from mprun.kernel.selftests.test_source import Script, list_scripts, list_tc_scripts
from mprun.model import engine_paths
from mprun.reports.test_results import checks_of_scripts, to_junit, to_tap

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
    assert tap.parse("Segmentation fault\n") == tap.TapOutput(None, ())


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
    assert {script.folder for script in found} == {f"{engine_paths.ROOT}/selftests/net/mptcp"}
    assert found[0].shown == {tmp_path: f"{engine_paths.ROOT}/selftests"}


def test_scripts_of_a_suite_start_in_their_own_folders(tmp_path: Path) -> None:
    for name in ("tcp/sack/first.pkt", "tcp/sack/notes.txt", "top.pkt"):
        path = tmp_path / "suite" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    found = packetdrill.list_suite(tmp_path / "suite", tmp_path / "program")
    assert [script.label for script in found] == ["packetdrill/tcp/sack/first", "packetdrill/top"]
    assert found[0].folder == f"{engine_paths.ROOT}/suite/tcp/sack"
    assert found[0].command == (f"{engine_paths.ROOT}/guest/packetdrill.sh", "first.pkt")
    assert found[0].shown == {
        tmp_path / "suite": f"{engine_paths.ROOT}/suite",
        tmp_path / "program": f"{engine_paths.ROOT}/program",
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
    assert script.folder == f"{engine_paths.ROOT}/selftests/net/packetdrill"


def test_a_folder_without_the_program_is_refused(tmp_path: Path) -> None:
    (tmp_path / "packetdrill").mkdir()
    with pytest.raises(MachineError, match="has no program 'packetdrill': build it there, as its README describes"):
        packetdrill.find_program(tmp_path)
    (tmp_path / "packetdrill" / "packetdrill").touch(mode=0o755)
    assert packetdrill.find_program(tmp_path / "packetdrill") == tmp_path / "packetdrill"


def result_of(script: Script, log: Path, *subtests: tuple[str, tap.TapResult], fault: str = "") -> ScriptResult:
    return ScriptResult(script, 0, tuple(tap.Subtest(*one) for one in subtests), fault, 1.5, 0.5, log)


DIAG = Script("diag", "", "/", ("./diag.sh",))
JOIN = Script("mptcp_join", "link_failure", "/", ("./mptcp_join.sh",))


def test_the_users_list_is_added_to_ours_and_needless_entries_are_named(tmp_path: Path) -> None:
    shipped = (Known("diag", "second", "of mprun"),)
    own = (Known("diag", "third*", "of the user"), Known("diag", "first", "fixed"), Known("diag", "nosuch", "gone"))
    result = result_of(DIAG, tmp_path, ("first", "passed"), ("second", "failed"), ("third one", "failed"))
    verdict = judge(result, shipped, own, None)
    assert verdict.reasons == {"second": "of mprun", "third one": "of the user"}
    assert verdict.needless == ("first",)
    assert verdict.passed
    assert judge(result, shipped, (), None).unexpected == ["third one"]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a: b\n", ": is no list: write entries as in '- {script: diag, subtest: NAME, reason: WHY}'"),
        ("- {script: diag, subtest: x}\n", ": entry 1: has no 'reason': write entries as in "),
        ("- {script: diag, subtest: x, reason: y}\n- 3\n", ": entry 2: write entries as in "),
        ("- {script: diag, subtest: x, reason: y, kernel: z}\n", ": entry 1: unknown key 'kernel'; keys: reason, "),
        ("- {script: diag, subtest: 3, reason: y}\n", ": entry 1: write entries as in "),
        ("- {\n", " is no YAML: "),
    ],
)
def test_a_fault_in_the_users_list_is_an_error(tmp_path: Path, text: str, fault: str) -> None:
    (tmp_path / "known.yaml").write_text(text)
    with pytest.raises(SpecError) as error:
        read_known(tmp_path / "known.yaml")
    assert str(error.value).startswith(f"{tmp_path}/known.yaml{fault}")


def test_changes_are_those_between_two_kernels(tmp_path: Path) -> None:
    before = [
        JudgedScript(result_of(JOIN, tmp_path, ("a", "passed"), ("a", "passed"), ("gone", "skipped"))),
        JudgedScript(result_of(DIAG, tmp_path, ("same", "failed"))),
    ]
    after = [
        JudgedScript(result_of(DIAG, tmp_path, ("same", "failed"), ("new", "passed"), fault="printed nothing")),
        JudgedScript(result_of(JOIN, tmp_path, ("a", "passed"), ("a", "failed"))),
    ]
    assert find_changes(before, before) == []
    assert find_changes(before, after) == [
        SubtestChange("diag", "", "ended", "printed nothing"),
        SubtestChange("diag", "new", "absent", "passed"),
        SubtestChange("mptcp_join/link_failure", "a (2)", "passed", "failed"),
        SubtestChange("mptcp_join/link_failure", "gone", "skipped", "absent"),
    ]


def mixed(folder: Path) -> dict[str, list[JudgedScript]]:
    subtests: list[tuple[str, tap.TapResult]] = [
        ("good # 1", "passed"), ("later", "skipped"), ("bad\x1b[2J", "failed"), ("old", "failed"),
    ]  # fmt: skip
    first = judge(result_of(DIAG, folder, *subtests), (), (Known("diag", "old", "since  6.1"),), None)
    return {"mine": [first, JudgedScript(result_of(JOIN, folder, fault="ended <early>"))]}


def test_results_as_tap(tmp_path: Path) -> None:
    lines = to_tap(list(checks_of_scripts(mixed(tmp_path)))).splitlines()
    assert [line for line in lines if not line.startswith("  ")] == [
        "TAP version 14",
        "1..5",
        "ok 1 - mine: diag: good \\# 1",
        "ok 2 - mine: diag: later # SKIP",
        "not ok 3 - mine: diag: bad�[2J",
        "not ok 4 - mine: diag: old # TODO known to fail: since 6.1",
        "not ok 5 - mine: mptcp_join/link_failure: the whole script",
    ]
    assert lines.count("  severity: error") == lines.count("  severity: fail") == 1
    assert '  message: "ended <early>"' in lines


def test_results_as_junit(tmp_path: Path) -> None:
    root = ElementTree.fromstring(
        to_junit("mprun kernel test", list(checks_of_scripts(mixed(tmp_path))), {"mine: diag": 1.0})
    )
    assert root.attrib == {
        "name": "mprun kernel test", "tests": "5", "failures": "1", "errors": "1", "skipped": "2", "time": "1.0",
    }  # fmt: skip
    cases = {case.get("name"): [child.tag for child in case] for case in root.iter("testcase")}
    assert cases == {
        "good # 1": [], "later": ["skipped"], "bad�[2J": ["failure"], "old": ["skipped"], "the whole script": ["error"],
    }  # fmt: skip
    assert {case.get("classname") for case in root.iter("testcase")} == {
        "mine: diag",
        "mine: mptcp_join/link_failure",
    }
    (known,) = root.findall("testsuite/testcase[@name='old']/skipped")
    assert known.get("message") == "known to fail: since 6.1"


def test_files_of_tests_of_traffic_control_are_scripts(tmp_path: Path) -> None:
    for name in ("qdiscs/netem.json", "filters/u32.json", "qdiscs/README"):
        path = tmp_path / "tc-testing" / "tc-tests" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    found = list_tc_scripts(tmp_path)
    assert [script.label for script in found] == ["tc-testing/filters/u32", "tc-testing/qdiscs/netem"]
    assert found[1].command[-2:] == ("-f", "tc-tests/qdiscs/netem.json")
    report = tap.parse("1..2\nok 1 cb28 - Create NETEM\nok 2 a089 - Limit # skipped - no feature\n")
    assert [subtest.outcome for subtest in report.subtests] == ["passed", "skipped"]
