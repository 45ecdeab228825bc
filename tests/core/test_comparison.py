# SPDX-License-Identifier: Apache-2.0
"""Comparisons, statements across cells, and the output of expectations for other programs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import polars as pl
import pytest

from mprun.api import Sweep
from mprun.cli.compare import _find_alone
from mprun.cli.compare import _show as show_pair
from mprun.cli.verify import _show_metrics as show_metrics
from mprun.metrics.cells import column_of, find_equal, find_lacking, judge_across, sum_up, tabulate
from mprun.metrics.comparison import (
    ComparedMetric,
    Expected,
    Side,
    compare,
    compare_expectations,
    compare_statements,
    differing_lines,
    unmatched,
)
from mprun.metrics.metric_table import table_of_sweep
from mprun.metrics.statistics import Interval, MeanDifference, MeanRatio
from mprun.model.cell_run import CellRun
from mprun.model.run_summary import ExpectationVerdict, MetricValue, Summary
from mprun.model.sweep_files import RunCounts, StatementResult, SweepSummary
from mprun.reports.effect import SideValue, leave_out_repeated, order_by_effect, say_briefly, say_change, value_of
from mprun.reports.test_results import CheckedExpectation, checks_of_run, checks_of_sweep, to_junit, to_tap
from mprun.safety.cell import MISSING
from mprun.storage.sweep_directory import SweepDirectory
from mprun.sweeps.operands import Operands, SidePair, read_operands
from mprun.workloads import iperf3, reqres
from tests.hostile import make_sweep
from tests.summaries import PASSED, make_cell


def summary(value: float | None, seed: int = 1, held: bool = True) -> Summary:
    metrics: dict[str, MetricValue] = {} if value is None else {"bulk.goodput": MetricValue(value, "bit/s")}
    verdict = ExpectationVerdict("bulk.goodput", minimum=1.0, maximum=None, equals=None, value=value, held=held)
    return PASSED._replace(seed=seed, metrics=metrics, expectations=(verdict,))


def side(*values: float, first_seed: int = 1, **cell: Any) -> Side:
    return Side(cell, {n: summary(value, first_seed + n) for n, value in enumerate(values, start=1)})


def compared(first: Side, second: Side) -> ComparedMetric:
    (one,) = compare([first], [second])
    return one


def test_runs_of_one_seed_are_pairs() -> None:
    """Each pair differs by 1. The paired difference is clear, however much the runs vary among each other."""
    one = compared(side(10, 20, 30), side(11, 21, 31.1))
    assert one.difference is not None
    assert (one.difference.is_paired, one.tendency) == (True, "higher")
    other = compared(side(10, 20, 30), side(11, 21, 31.1, first_seed=100))
    assert other.difference is not None
    assert (other.difference.is_paired, other.tendency) == (False, "unclear")


def test_a_run_without_partner_is_left_out_of_pairs() -> None:
    """A run with an error has no partner. All other runs of both sides are still pairs."""
    whole, cut = side(10, 20, 30, 1000), side(11, 21, 31.1)
    one = compared(whole, cut)
    assert one.difference is not None
    assert (one.difference.is_paired, one.tendency) == (True, "higher")
    assert (one.counts, one.left_out) == ((3, 3), (1, 0))
    # all reported values are of the pairs
    assert (one.first, one.second) == pytest.approx((20, 63.1 / 3))
    assert one.difference.mean == pytest.approx(63.1 / 3 - 20)
    assert "3 pairs; 1 of A without partner left out" in said(one)
    # one pair has no interval, two sides of two have one
    lone = compared(Side({}, {1: summary(10, 1), 2: summary(20, 2)}), Side({}, {1: summary(11, 1), 2: summary(21, 9)}))
    assert lone.difference is not None
    assert (lone.difference.is_paired, lone.left_out) == (False, (0, 0))


@pytest.mark.parametrize(
    ("first", "second", "verdict"),
    [
        ((10.0,), (10.0,), "same"),
        ((10.0,), (11.0,), "unknown"),
        ((10.0, 11, 12), (10.0, 11, 12), "same"),
        ((10.0, 11, 12), (20.0, 21, 22.5), "higher"),
        ((10.0, 11, 12), (1.0, 1.1, 1.2), "lower"),
    ],
)
def test_verdicts(first: tuple[float, ...], second: tuple[float, ...], verdict: str) -> None:
    assert compared(side(*first), side(*second)).tendency == verdict


def test_a_value_below_zero_rises_by_a_part_of_its_size() -> None:
    assert compared(side(-10), side(-5)).change == 0.5
    assert compared(side(10), side(5)).change == -0.5


def test_cells_of_one_side_are_named() -> None:
    first, second = [side(1, cc="cubic"), side(1, cc="reno")], [side(1, cc="cubic"), side(1, cc="bbr")]
    assert list(unmatched(first, second)) == [({"cc": "reno"}, 1), ({"cc": "bbr"}, 2)]
    assert [one.values for one in compare(first, second)] == [{"cc": "cubic"}]


def test_an_expectation_that_holds_less_often_is_worse() -> None:
    good = Side({}, {1: summary(2), 2: summary(2)})
    bad = Side({}, {1: summary(2), 2: summary(0, held=False)})
    runs, worse = compare_expectations([good], [bad])
    assert (runs.expectation["metric"], runs.first, runs.second, runs.is_worse) == ("runs", (2, 2), (2, 2), False)
    assert (worse.first, worse.second, worse.is_worse) == ((2, 2), (1, 2), True)
    assert not any(one.is_worse for one in compare_expectations([bad], [good]))


@pytest.mark.parametrize(
    ("broken", "counts"),
    [
        # a kernel on which no run completes, or one that falls back to TCP, is worse without any metric
        (Side({}, {}, errors=2), (0, 2)),
        (Side({}, {1: summary(2)}, errors=1), (1, 2)),
        (Side({}, {1: summary(2), 2: summary(2)._replace(failures=("bulk: asked for MPTCP and got TCP",))}), (1, 2)),
    ],
)
def test_runs_that_did_not_do_what_was_asked_are_worse(broken: Side, counts: tuple[int, int]) -> None:
    good = Side({}, {1: summary(2), 2: summary(2)})
    runs, *_ = compare_expectations([good], [broken])
    assert (runs.expectation["metric"], runs.first, runs.second, runs.is_worse) == ("runs", (2, 2), counts, True)
    assert not any(one.is_worse for one in compare_expectations([broken], [good]))


def test_what_one_side_alone_expects_is_told_and_decides_nothing() -> None:
    other = summary(2, held=False)
    other = other._replace(expectations=(other.expectations[0]._replace(minimum=9.0),))
    _, theirs, ours = compare_expectations([Side({}, {1: summary(2)})], [Side({}, {1: other})])
    assert (theirs.expectation["minimum"], theirs.first, theirs.second, theirs.is_worse) == (9.0, None, (0, 1), False)
    assert (ours.first, ours.second, ours.is_worse) == ((1, 1), None, False)


def test_statements_across_cells_are_compared() -> None:
    held: dict[str, bool | None] = {"a": True, "b": False, "c": True, "d": True}
    now: dict[str, bool | None] = {"a": True, "b": True, "c": None, "e": False}
    found = compare_statements(held, now)
    assert [(one.expectation["holds"], one.first, one.second) for one in found if not one.is_worse] == [
        ("a", (1, 1), (1, 1)), ("b", (0, 1), (1, 1)), ("d", (1, 1), None), ("e", None, (0, 1)),
    ]  # fmt: skip
    assert [one.expectation["holds"] for one in compare_statements(held, now) if one.is_worse] == ["c"]


def test_files_of_two_names_are_one_where_they_are_alike() -> None:
    first = {"topo.yaml": "a\nb", "xp.yaml": "c\nd\ne"}
    second = {"topo.yaml": "a\nb", "other.yaml": "c\nd\nf", "more.yaml": "g"}
    assert differing_lines(first, second) == [
        "xp.yaml and other.yaml: -e", "xp.yaml and other.yaml: +f", "more.yaml: +g",
    ]  # fmt: skip


CELLS = [make_cell(f"cc={cc}", cc=cc) for cc in ("cubic", "reno")]
ROWS = [CellRun(cell, n, f"runs/{cell}/{n}", summary(10.0 * (cell + 1) + n)) for cell in (0, 1) for n in (1, 2)]


SIZED = [make_cell(f"cc={cc}", cc=cc, size=size) for cc, size in (("cubic", "5mb"), ("reno", "10mb"))]


@pytest.mark.parametrize(
    ("text", "held", "found"),
    [
        ("cells[cc=reno].bulk.goodput >= 1.8 * cells[cc=cubic].bulk.goodput", True, "21.5 >= 20.7"),
        ("cells[cc=reno].bulk.goodput >= 2 * cells[cc=cubic].bulk.goodput", False, "21.5 >= 23"),
        ("max(cells.bulk.goodput) == 22bit", True, "22 == 22"),
        ("cells[cc=bbr].bulk.goodput > 1bit", None, "not judged: -p leaves out cells that it names"),
        ("max(cells[size=5mb..20mb].bulk.goodput) == 22bit", True, "22 == 22"),
        ("cells[size=5mb..10mb].bulk.goodput == 11.5bit", True, "11.5 == 11.5"),
        ("cells.bulk.goodput[cc=reno] > 1bit", None, "conditions in brackets follow 'cells'"),
        ("cells.bulk.subflows > 1", None, "no run of these cells measured it"),
    ],
)
def test_statements_across_cells(text: str, held: bool | None, found: str) -> None:
    (judged,) = judge_across([text], SIZED, ROWS)
    assert judged.held is held
    assert found in judged.found


def test_a_run_in_error_is_in_no_statistics() -> None:
    broken = CellRun(0, 3, "runs/0/3", summary(1e9)._replace(status="error"))
    (cell, _) = sum_up(CELLS, [*ROWS, broken], [3, 2])
    assert (cell.metrics["bulk.goodput"].count, cell.runs.error) == (2, 1)
    (judged,) = judge_across(["max(cells.bulk.goodput) == 22bit"], CELLS, [*ROWS, broken])
    assert judged.held


def test_the_expectations_of_a_cell_do_not_depend_on_its_first_run() -> None:
    """The worker of the first run died, and its summary has no verdicts."""
    rows = [CellRun(0, 1, "", PASSED._replace(status="error")), CellRun(0, 2, "", summary(0.5, held=False))]
    (cell,) = sum_up([make_cell()], rows, [2])
    assert [(one.metric, one.held, one.of) for one in cell.expectations] == [("bulk.goodput", 0, 2)]


def test_a_metric_that_some_runs_lack_says_so() -> None:
    """A mean of one hand-over in five runs looked like the mean of five."""
    rows = [*ROWS, CellRun(0, 3, "runs/0/3", PASSED), CellRun(0, 4, "runs/0/4", PASSED._replace(status="error"))]
    first, second = sum_up(CELLS, rows, [4, 2])
    table = table_of_sweep([first, second], ["bulk.goodput", "bulk.other"], 0.95)
    assert [str(cells[-2]).partition(" (")[2] for cells in table.rows] == ["2 of 3 runs)", ""]
    assert [cells[-1] for cells in table.rows] == [MISSING, MISSING]
    texts = ["max(cells.bulk.goodput) > cells[cc=reno].bulk.goodput", "cells[cc=cubic].bulk.goodput > 1bit"]
    assert list(find_lacking(texts, CELLS, rows)) == [
        "cells.bulk.goodput: 1 of 5 runs did not measure it, and are left out",
        "cells[cc=cubic].bulk.goodput: 1 of 3 runs did not measure it, and are left out",
    ]


def test_an_axis_keeps_its_values_beside_the_columns_of_runs() -> None:
    cells = [make_cell(f"seed={seed}", seed=seed, run="4mbit") for seed in (7, 8)]
    table = tabulate(cells, ROWS)
    assert (table["matrix.seed"], table["seed"]) == ([7, 7, 8, 8], [1, 1, 1, 1])
    assert (table["matrix.run"], table["run"]) == (["4mbit"] * 4, [1, 2, 1, 2])


def test_an_axis_keeps_its_values_beside_the_columns_of_statistics() -> None:
    metric = {"unit": "s", "count": 5, "mean": 0.1, "t95": [0.1, 0.2]}
    summary = {"cells": [{"values": {"count": 20, "cc": "reno"}, "metrics": {"up.rtt": metric}}]}
    (row,) = Sweep(Path(), summary, pl.DataFrame()).statistics.to_dicts()
    assert (row["matrix.count"], row["count"], row["cc"], row["t95_high"]) == (20, 5, "reno", 0.2)


def test_columns_tell_their_units() -> None:
    table = tabulate(CELLS, ROWS)
    assert list(table) == ["cc", "run", "seed", "status", "directory", "bulk.goodput_bit_per_s"]
    assert table["cc"] == ["cubic", "cubic", "reno", "reno"]
    names = [("bulk.bytes", "byte"), ("bulk.bytes.path0", "byte"), ("bulk.stalls", "s"), ("bulk.retransmits", "1")]
    columns = ["bulk.bytes", "bulk.bytes.path0_bytes", "bulk.stalls_s", "bulk.retransmits"]
    assert [column_of(*name) for name in names] == columns


def sweep_summary(held: bool | None) -> SweepSummary:
    cells = tuple(sum_up(CELLS, ROWS, [2, 2]))
    return SweepSummary(
        "failed", True, RunCounts(4, 0, 0), cells, (StatementResult("cells.a.b > 1", held, "1 > 1"),), ()
    )


def test_junit_counts_and_names() -> None:
    checks = [
        *checks_of_sweep(sweep_summary(False)),
        CheckedExpectation("x <y>", 'a "b"', False, "not told", is_error=True),
    ]
    root = ElementTree.fromstring(to_junit("title", checks))
    assert dict(root.attrib) | {"time": ""} == {
        "name": "title", "tests": "6", "failures": "1", "errors": "1", "skipped": "0", "time": "",
    }  # fmt: skip
    assert [suite.attrib["name"] for suite in root] == ["cc=cubic", "cc=reno", "across cells", "x <y>"]
    failure = root.find("testsuite[@name='across cells']/testcase/failure")
    assert failure is not None
    assert failure.attrib["message"] == "1 > 1"
    assert root.find("testsuite[@name='x <y>']/testcase/error") is not None


def test_junit_is_xml_whatever_programs_said() -> None:
    check = CheckedExpectation("a\x00b", "c", False, "\x1b[31mred\x1b[0m \ud800 \ufffe")
    root = ElementTree.fromstring(to_junit("t\x07", [check]))
    failure = root.find("testsuite/testcase/failure")
    assert failure is not None
    assert failure.text == "\ufffd[31mred\ufffd[0m \ufffd \ufffd"


def test_tap() -> None:
    text = to_tap([CheckedExpectation("a", "b # c", True), CheckedExpectation("a", "d", False, 'say "no"')])
    assert text.splitlines() == [
        "TAP version 14",
        "1..2",
        "ok 1 - a: b \\# c",
        "not ok 2 - a: d",
        "  ---",
        '  message: "say \\"no\\""',
        "  severity: fail",
        "  ...",
    ]


def test_a_run_in_error_is_a_check_that_did_not_hold() -> None:
    checks = list(checks_of_run("run", summary(None, held=False)._replace(errors=("bulk: never started",))))
    assert [(check.held, check.is_error) for check in checks] == [(False, True), (False, True)]


def change(
    metric: str, first: float, second: float, symbol: str = "s", cell: int = 1, spread: float = 0.0
) -> ComparedMetric:
    """Return a metric of a cell, clear if the spread is below the difference."""
    gap = second - first
    interval = Interval(gap - spread, gap + spread, 0.95, "t")
    return ComparedMetric(
        {"cell": cell}, metric, symbol, first, second, (3, 3), MeanDifference(gap, interval, None, True), None
    )


METRICS = {f"get.{name}": metric for name, metric in {**iperf3.METRICS, **reqres.METRICS}.items()} | {
    "get.share.path0": iperf3.METRICS["share"],
}


def said(one: ComparedMetric) -> str:
    return say_change(one, METRICS)


def test_equal_statistics_are_shown_once(capsys: pytest.CaptureFixture[str]) -> None:
    values = {"get.delay.mean": 4.0, "get.delay.median": 4.0, "get.delay.p95": 4.0, "get.delay.max": 5.0, "get.n": 4.0}
    compared = [change(name, value, value / 2) for name, value in values.items()]
    kept = ["get.delay.mean", "get.delay.max", "get.n"]
    assert [one.metric for one in leave_out_repeated(compared)] == kept
    assert sorted(line.partition(":")[0] for line in say_briefly(compared, [])) == sorted(kept)
    asked = Expected({}, {"metric": "get.delay.p95", "minimum": 1.0}, (1, 1), (1, 1))
    assert "get.delay.p95" in [line.partition(":")[0] for line in say_briefly(compared, [asked])]
    pair = SidePair(Operands(("a", "b"), ((), ()), {}, [], metrics=METRICS), compared, [])
    show_pair(pair, False)
    assert "  2 statistics equal another (--all shows them)\n" in capsys.readouterr().out
    show_pair(pair, True)
    assert "get.delay.median" in capsys.readouterr().out


def test_the_answer_comes_first() -> None:
    compared = [
        change("get.goodput", 10e6, 11.4e6, "bit/s", 1),
        change("get.goodput", 10e6, 12.4e6, "bit/s", 2),
        change("get.goodput", 10e6, 10.1e6, "bit/s", 3, spread=1e6),
        change("get.delay.p95", 0.01, 0.02, cell=1),
        change("get.share.path0", 0.5, 0.6, "share", 1),
        change("get.bytes", 1, 2, "byte", 1),
        change("get.mine", 1, 3, "1", 1),
        change("get.lost", 0.001, 5, "1", 1),
    ]
    assert list(say_briefly(compared, [])) == [
        "get.goodput: +14.00% to +24.00% in 2 of 3 cells",
        "get.share.path0: +10.0 points",
        "get.mine: +200.00%",
        "get.delay.p95: +100.00%",
    ]
    asked = Expected({}, {"metric": "get.delay.p95", "maximum": 0.015}, (1, 1), (0, 1))
    assert next(say_briefly(compared, [asked])) == "get.delay.p95: +100.00%"
    assert next(say_briefly(compared, [asked], ["get.mine"])) == "get.mine: +200.00%"
    assert [one.metric for one in order_by_effect(compared) if one.values["cell"] == 1] == [
        # the change from nearly nothing has no size, and does not come first
        *("get.mine", "get.delay.p95", "get.bytes", "get.goodput", "get.share.path0", "get.lost"),
    ]


def test_a_comparison_begins_with_what_the_files_show(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The head left out these metrics if five others differed, and the end named 0.0 differences by chance."""
    sweep = SweepDirectory(make_sweep(tmp_path))
    with sweep.held():
        sweep.change_record(sweep.record._replace(show=("get.mine",)))
    compared = [change("get.goodput", 10e6, 11.4e6, "bit/s", 1), change("get.mine", 1, 3, "1", 1)]
    show_pair(SidePair(read_operands(sweep, sweep), compared, []), show_all=False)
    printed = capsys.readouterr().out.splitlines()
    assert printed[2].strip() == "get.mine: +200.00%"
    assert "of 2 such comparisons 0.1 come out" in " ".join(map(str.strip, printed))
    # their number was less than that of the metrics above, without a reason
    equal = ComparedMetric({}, "get.n", "1", 2, 2, (1, 1), None, None)
    show_pair(SidePair(read_operands(sweep, sweep), [*compared, equal], []), show_all=False)
    told = "of 2 such comparisons (others, equal or without an interval: 1) 0.1 come out"
    assert told in " ".join(capsys.readouterr().out.split())


def test_better_and_worse_need_a_direction_and_a_clear_difference() -> None:
    assert said(change("get.goodput", 10e6, 12e6, "bit/s")).endswith("better")
    assert said(change("get.delay.mean", 0.01, 0.02)).endswith("worse")
    assert said(change("get.loss", 0.02, 0.01, "share")).endswith("better")
    assert not said(change("get.share.path0", 0.5, 0.6, "share")).endswith(("better", "worse"))
    assert not said(change("get.goodput", 10e6, 12e6, "bit/s", spread=1e7)).endswith(("better", "worse"))
    # a share changes by points, and from nearly nothing there is no ratio
    assert "+10.0 points" in said(change("get.share.path0", 0.5, 0.6, "share"))
    assert "  from nearly nothing  " in said(change("get.lost", 0.001, 5, "1"))


def test_a_change_has_the_same_words_on_the_page_and_in_the_terminal() -> None:
    """The terminal said `+0.00%` of equal values and nothing of others, and the page left out runs without partner."""
    same = ComparedMetric({}, "get.n", "1", 2, 2, (1, 1), None, None)
    assert (said(same), value_of(same, METRICS)) == ("2 -> 2", SideValue("2", "="))
    alone = replace(same, second=None)
    assert (said(alone), value_of(alone, METRICS)) == ("2 -> –", SideValue("–"))
    paired = replace(change("get.goodput", 10e6, 12e6, "bit/s"), left_out=(0, 2))
    left_out = "(3 pairs; 2 of B without partner left out)"
    value = value_of(paired, METRICS)
    assert (value.sign, value.effect, value.judgement, value.note) == ("▲", "+20.00%", "better", left_out)
    assert value_of(paired, METRICS, ("tcp", "mptcp")).note == "(3 pairs; 2 of mptcp without partner left out)"
    assert said(paired) == f"10.00 Mbit/s -> 12.00 Mbit/s  +20.00%  {value.interval}  better  {left_out}"


@pytest.mark.parametrize(
    ("first", "second", "text"),
    [
        (0.001, 0.004, "0.1 % -> 0.4 %  +0.3 points  worse"),
        (0.0, 0.0003, "0.0 % -> 0.03 %  +0.03 points  worse"),
        (0.504, 0.508, "50.4 % -> 50.8 %  equal"),
        (0.008, 0.006, "0.8 % -> 0.6 %  equal"),
    ],
)
def test_small_changes_of_a_share_between_single_runs(first: float, second: float, text: str) -> None:
    assert said(ComparedMetric({}, "get.loss", "share", first, second, (1, 1), None, None)) == text


def test_the_interval_of_a_share_is_in_points() -> None:
    """The interval was in percent, and the change in points."""
    gap = MeanDifference(-0.45, Interval(-0.5, -0.4, 0.95, "welch"), None, True)
    one = ComparedMetric({}, "rpc.share.wifi", "share", 1.0, 0.55, (3, 3), gap, None)
    assert said(one) == "100.0 % -> 55.0 %  -45.0 points  difference [-50.0, -40.0] points"


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (0.9816, 2.681, "difference [4.600 ms, 32.600 ms]"),
        (1.1, 2.3, "[+10.00%, +130.00%]"),
    ],
)
def test_the_interval_does_not_contradict_the_sign(low: float, high: float, text: str) -> None:
    """The sign is that of the difference, from 4.6 to 32.6 ms."""
    gap = MeanDifference(0.0186, Interval(0.0046, 0.0326, 0.95, "welch"), None, False)
    share = MeanRatio(1.6222, Interval(low, high, 0.95, "welch"))
    one = ComparedMetric({}, "get.delay.mean", "s", 0.029902, 0.048508, (3, 3), gap, share)
    assert said(one) == f"29.902 ms -> 48.508 ms  +62.22%  {text}  worse"


def test_a_side_that_measured_nothing_is_told() -> None:
    one = ComparedMetric({}, "get.goodput", "bit/s", 10e6, None, (1, 0), None, None)
    assert list(_find_alone([one])) == ["no result in B: its run ended with an error, or measured nothing"]
    assert list(_find_alone([replace(one, values={"cc": "reno"})])) == ["no run in B, of cells: cc=reno"]


@pytest.mark.parametrize(("second", "text"), [(10.014e6, "equal"), (10.2e6, "+2.00%  better")])
def test_single_runs_that_hardly_differ_are_equal(second: float, text: str) -> None:
    one = ComparedMetric({}, "get.goodput", "bit/s", 10e6, second, (1, 1), None, None)
    assert said(one).partition(" Mbit/s  ")[2] == text


def test_a_folded_description_is_one_line() -> None:
    first = {"xp.yaml": "version: 1\ndescription: one path\ntraffic: []\n"}
    second = {"xp.yaml": "version: 1\ndescription: two paths of a\n  round-trip time\n  of 40 ms\ntraffic: []\n"}
    assert differing_lines(first, second) == [
        "xp.yaml: -description: one path",
        "xp.yaml: +description: two paths of a round-trip time of 40 ms",
    ]


def test_the_inputs_that_differ_are_shown_before_the_cells(capsys: pytest.CaptureFixture[str]) -> None:
    sides = (side(1.0), side(2.0))
    operands = Operands(("a", "b"), ((sides[0],), (sides[1],)), {}, ["rr: rr.c differs"])
    show_pair(SidePair(operands, [compared(*sides)], []), show_all=False)
    text = capsys.readouterr().out
    assert text.index("rr.c differs") < text.index("▲" if "▲" in text else "bulk.goodput  ")


def test_verify_shows_the_change_of_a_share_in_points(capsys: pytest.CaptureFixture[str]) -> None:
    """The command showed 50 % of the share, where `compare` showed points."""
    one = ComparedMetric({}, "bulk.share.a", "share", 0.2, 0.3, (1, 1), None, None)
    show_metrics("then", [one])
    assert "+10.0 points" in capsys.readouterr().out


def test_a_comparison_has_one_empty_line_between_parts(capsys: pytest.CaptureFixture[str]) -> None:
    """Two empty lines stood before the files, and each expectation that failed came twice."""
    sides = (side(1.0), side(2.0))
    asked = Expected({}, {"metric": "bulk.goodput", "minimum": 3.0}, (1, 1), (0, 1))
    for lines in (["xp.yaml: +a"], []):
        operands = Operands(("a", "b"), ((sides[0],), (sides[1],)), {}, lines)
        show_pair(SidePair(operands, [compared(*sides)], [asked]), show_all=False)
        printed = capsys.readouterr().out
        assert "bulk.goodput: +100.00%\n\n  " in printed
        assert "\n\n\n" not in printed
        assert "in A, 0 of 1 in B" not in printed


def test_cells_whose_runs_are_all_equal_are_told() -> None:
    """With `vary: []` on links without loss, `± 0` looked like the best of all results."""
    varied = CELLS[1]._replace(repeat=CELLS[1].repeat._replace(vary=("start",)))
    same = [replace(row, summary=summary(5.0)) for row in ROWS]
    told = "all runs of {} are equal, as no seed changes them, so an interval of ± 0 says nothing: remove 'vary: []'"
    assert list(find_equal(CELLS, same)) == [told.format("each cell")]
    assert list(find_equal([CELLS[0], varied], same)) == [told.format("1 of 2 cells")]
    assert list(find_equal(CELLS, ROWS)) == []
    assert list(find_equal(CELLS, same[::2])) == []
