# SPDX-License-Identifier: Apache-2.0
"""Several runs in one page: common figures over time, the effects of metrics, names of runs, and steps of labs."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import polars as pl
import pytest
from click.testing import CliRunner, Result

from mprun.api import load
from mprun.cli import group
from mprun.errors import SpecError
from mprun.labs.catalog import open_lab
from mprun.labs.grade import digest_of_step
from mprun.metrics.comparison import ComparedMetric
from mprun.model.metric import Metric
from mprun.reports.chart import COLUMN, WIDE, paint
from mprun.reports.distinct_names import name_sides
from mprun.reports.effect import draw_effects, judge
from mprun.reports.figure import Mark, Series, to_csv
from mprun.reports.overlay import OverlaidRun, average_steps, overlay, sum_steps
from mprun.reports.run_data import RunData
from mprun.storage.run_directory import RunDirectory
from mprun.storage.sweep_directory import SweepDirectory
from mprun.sweeps.operands import read_operands
from mprun.sweeps.sweep_summary import write_summary
from tests.hostile import make_sweep

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("painted_once")]

MADE = Path(__file__).parents[1] / "outputs" / "run"
FIRST, SECOND = "20260101-000000-two-fetch-05497f2a", "20260101-000001-two-fetch-05497f2a"


def subject(name: str, *paths: str, scale: int = 1, **more: Any) -> OverlaidRun:
    """Return a run of one flow that sends 20 Mbit/s times the scale on each path for half a second."""
    rows = [(ms, path) for ms in range(100, 600, 100) for path in paths]
    table = {
        "time_ns": [ms * 1_000_000 for ms, _ in rows],
        "host": ["client"] * len(rows),
        "flow": ["bulk"] * len(rows),
        "path": [path for _, path in rows],
        "local": [path for _, path in rows],
        "local_port": [1] * len(rows),
        "remote": ["r"] * len(rows),
        "remote_port": [2] * len(rows),
        "bytes_acked": [ms * 2500 * scale for ms, _ in rows],
        "rtt_us": [40_000 * scale] * len(rows),
        "snd_cwnd_packets": [10 * scale] * len(rows),
    }
    data = RunData({"sockets": pl.LazyFrame(table)}, ["bulk"], {path: [path] for path in paths}, **more)
    return OverlaidRun(name, data)


def test_the_first_figure_has_the_whole_rate_of_each_run() -> None:
    """The rate of a run is the sum over its paths. Its curve has its own colour, dashes and name."""
    total, by_path, *_ = overlay([subject("tcp", "path0"), subject("mptcp", "path0", "path1")])
    tcp, mptcp = total.panels[0].series
    assert (total.title, tcp.label, mptcp.label) == ("Rate of bulk", "tcp", "mptcp")
    assert list(tcp.y) == pytest.approx([20e6] * 6)
    assert list(mptcp.y) == pytest.approx([40e6] * 6)
    assert tcp.tone != mptcp.tone
    assert tcp.dash != mptcp.dash
    assert [panel.title for panel in by_path.panels] == ["path0", "path1"]
    assert [[one.label for one in panel.series] for panel in by_path.panels] == [["tcp", "mptcp"], ["mptcp"]]


def test_a_flow_on_one_path_has_no_second_figure_of_its_rate() -> None:
    charts = list(overlay([subject("one", "path0"), subject("two", "path0", scale=2)]))
    assert [chart.title for chart in charts] == [
        *("Rate of bulk", "Round-trip time of bulk", "Congestion window of bulk"),
    ]
    assert [series.y[0] for series in charts[1].panels[0].series] == [0.04, 0.08]


def test_a_run_without_data_is_told_of() -> None:
    empty = OverlaidRun("quic", RunData({}, ["bulk"], {}))
    total = next(iter(overlay([subject("one", "path0"), subject("two", "path0"), empty])))
    assert "Without such data: quic." in total.caption
    assert [series.label for series in total.panels[0].series] == ["one", "two"]
    # a figure of one run alone compares nothing
    assert list(overlay([subject("one", "path0"), empty])) == []


def test_windows_in_packets_and_in_bytes_are_no_common_figure() -> None:
    row = {"flow": ["bulk"], "time_ns": [10**8], "end": ["client"], "path": ["path0"]}
    recovery = {**row, "cwnd_bytes": [14_720], "srtt_ns": [10**7]}
    packets = {**row, "event": ["sent"], "payload_bytes": [1200]}
    frames = {"frame": ["stream"], "about": [None]}
    tables = {
        "qlog_recovery": pl.LazyFrame(recovery),
        "qlog_packets": pl.LazyFrame(packets),
        "qlog_frames": pl.LazyFrame({**packets, **frames}),
    }
    quic = OverlaidRun("quic", RunData(tables, ["bulk"], {"path0": ["path0"]}))
    charts = {chart.name: chart for chart in overlay([subject("one", "path0"), subject("two", "path0"), quic])}
    assert [series.label for series in charts["cwnd-bulk-by-run"].series] == ["one", "two"]
    assert charts["cwnd-bulk-by-run"].caption.endswith("In another unit, and not drawn: quic.")
    charts = {chart.name: chart for chart in overlay([quic, subject("one", "path0"), subject("two", "path0")])}
    assert [series.label for series in charts["cwnd-bulk-by-run"].series] == ["one", "two"]


def test_changes_of_links_name_their_runs_unless_all_have_them() -> None:
    both, one = Mark(0.2, "path0 down"), Mark(0.3, "path1 loss 1 %")
    total = next(iter(overlay([subject("a", "path0", marks=(both,)), subject("b", "path0", marks=(both, one))])))
    assert [mark.text for mark in total.marks] == ["path0 down", "b: path1 loss 1 %"]


def test_the_rate_of_a_run_has_every_stream_and_every_reversed_flow() -> None:
    """The rate has what the client of a bidirectional flow sends, as `total.goodput` does."""
    streams = [("many", "forth", n) for n in range(15)]
    rows = [*streams, ("up", "forth", 0), ("down", "back", 0), ("both", "forth", 0), ("both", "back", 0)]
    columns = [list(column) for column in zip(*rows, strict=True)]
    table = dict(zip(("flow", "direction", "stream"), columns, strict=True))
    times = {"start_s": [0.0] * len(rows), "end_s": [1.0] * len(rows), "goodput_bit_per_s": [1e6] * len(rows)}
    data = RunData({"goodput": pl.LazyFrame({**table, **times})}, ["many", "up", "down", "both"], {})
    total, by_flow = overlay([OverlaidRun("a", data), OverlaidRun("b", data)])
    assert total.panels[0].series[0].y[0] == 18e6
    assert {panel.title: panel.series[0].y[0] for panel in by_flow.panels} == {
        "many": 15e6, "up": 1e6, "down": 1e6, "both": 1e6,
    }  # fmt: skip


def test_steps_are_added_where_they_overlap() -> None:
    one, other = Series("a", "p0", (0, 1, 2), (5, 3, 3)), Series("b", "p1", (1, 1.5, 4), (10, 20, 20))
    summed = sum_steps([one, other])
    assert list(zip(summed.x, summed.y, strict=True)) == [(0, 5), (1, 13), (1.5, 23), (2, 20), (4, 20)]


def change(metric: str, first: float, second: float, symbol: str = "1") -> ComparedMetric:
    return ComparedMetric({}, metric, symbol, first, second, (1, 1), None, None)


CHANGES = [
    change("f.goodput", 10e6, 15e6, "bit/s"),
    change("f.delay", 0.02, 0.03, "s"),
    change("f.bytes", 4, 1),
    change("f.loss", 0.02, 0.01, "share"),
    change("f.new", 0, 7),
    change("f.same", 5, 5),
]
METRICS = {
    "f.goodput": Metric("rate", "", better="higher"),
    "f.delay": Metric("time", "", better="lower"),
    "f.bytes": Metric("size", ""),
    "f.loss": Metric("ratio", "", better="lower"),
}


def test_means_of_steps_keep_the_sum() -> None:
    tenths = Series("SCTP", "f0", [0.0, 0.5, 1.0, 1.5, 3.0, 3.2], [8.0, 0.0, 2.0, 4.0, 6.0, 6.0])
    means = average_steps(tenths, 1.0)
    assert (means.x, means.y) == ([0.0, 1.0, 2.0, 3.0], [4.0, 3.0, 4.0, 4.0])
    # the first whole interval begins after the curve
    assert average_steps(replace(tenths, x=[0.5, 1.0, 1.5, 2.0, 3.0, 3.2]), 1.0).x == [1.0, 2.0, 3.0]
    short = Series("TCP", "f1", [0.0, 0.4], [1.0, 1.0])
    assert average_steps(short, 1.0) is short
    unknown = Series("TCP", "f1", [0.0, 2.0, 4.0], [1.0, float("nan"), 1.0])
    assert average_steps(unknown, 1.0) is unknown


def test_effects_say_better_and_worse_in_words() -> None:
    assert [judge(one, METRICS) for one in CHANGES] == ["better", "worse", None, "better", None, None]
    relative, points = draw_effects([("B", CHANGES)], "A", METRICS)
    assert relative.y.categories == ("f.bytes", "f.goodput", "f.delay")
    assert [(one.label, one.dash) for one in relative.panels[0].series] == [("better", 0), ("worse", 1), ("neither", 2)]
    assert list(csv.reader(io.StringIO(to_csv(relative)))) == [
        ["series", "change", "metric"],
        ["better", "0.5", "f.goodput"],
        ["worse", "0.5", "f.delay"],
        ["neither", "-0.75", "f.bytes"],
    ]
    (loss,) = points.panels[0].series
    assert (points.y.categories, points.x.unit) == (("f.loss",), "points")
    assert list(loss.x) == pytest.approx([-1.0])


@pytest.mark.parametrize("layout", [WIDE, COLUMN])
def test_effects_are_painted_with_their_numbers(layout: Any) -> None:
    chart, _ = draw_effects([("B", CHANGES), ("C", [change("f.delay", 0.02, 4, "s")])], "A", METRICS)
    svg = paint(chart, layout, ("svg",))["svg"]
    assert svg == paint(chart, layout, ("svg",))["svg"]
    words = {text for node in ElementTree.fromstring(svg).iter() if (text := (node.text or "").strip())}
    assert {"f.delay", "+50.0", "-75.0", "better", "worse", "neither", "B", "C"} <= words


@pytest.mark.parametrize(("after", "is_bent"), [(4, False), (40, True)])
def test_the_axis_of_large_effects_says_where_it_bends(after: float, is_bent: bool) -> None:
    chart, *_ = draw_effects([("B", [change("f.delay", 2 if after == 4 else 0.5, after, "s")])], "A", METRICS)
    svg = paint(chart, WIDE, ("svg",))["svg"].decode()
    assert ("linear up to ±100 %, then logarithmic" in svg) == is_bent


def call(*words: str) -> Result:
    return CliRunner().invoke(group, [*words], prog_name="mprun")


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with two runs of the same files. The second has half the goodput."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "runs"
    for name in (FIRST, SECOND):
        shutil.copytree(MADE, folder / name)
    path = folder / SECOND / "summary.json"
    summary = json.loads(path.read_text())
    summary["metrics"]["bulk.goodput"]["value"] /= 2
    summary["warnings"].append("the sky was cloudy")
    path.write_text(json.dumps(summary))
    return folder


def test_report_and_compare_write_one_page(runs: Path) -> None:
    made = call("report", FIRST, SECOND)
    assert made.exit_code == 0, made.output
    page = Path(made.stdout.strip())
    text = page.read_text()
    files = {path.name: path.read_bytes() for path in (page.parent / "figures").iterdir()}
    assert "<h3>Rate of " in text
    # single runs have no sign, as in the terminal
    assert re.search(r'class="change worse">-50\.00% worse', text)
    assert not re.search("[▲▼]", text)
    assert "of each metric that differs, " in text
    assert "fetch, 00:00:01: the sky was cloudy" in text
    assert {"rate-by-run.svg", "rate-by-run.pdf", "rate-by-run.csv", "effects.png"} <= files.keys()
    assert "fetch, 00:00:00" in (page.parent / "figures" / "rate-by-run.csv").read_text()
    again = call("compare", FIRST, SECOND, "--report", "--json")
    assert json.loads(again.stdout)["report"] == str(page)
    assert page.read_text() == text
    assert {path.name: path.read_bytes() for path in (page.parent / "figures").iterdir()} == files
    # the folder of a comparison is no run
    assert [row["name"] for row in json.loads(call("runs", "list", "--json").stdout)] == [FIRST, SECOND]


def test_a_page_of_a_run_and_itself_has_a_note(runs: Path) -> None:
    made = call("report", FIRST, SECOND, FIRST)
    assert made.stderr.startswith(f"note: two of the names are the same: runs/{FIRST}\n")


def test_the_beginning_of_several_names_is_refused(runs: Path) -> None:
    """Runs and sweeps have one namespace."""
    sweep = make_sweep(runs)
    for word, what, names in (
        (FIRST[:11], "run or sweep", [FIRST, SECOND, sweep.name]),
        (FIRST[:15], "run or sweep", [FIRST, sweep.name]),
        (FIRST[:20], "run or sweep", [FIRST, sweep.name]),
    ):
        made = call("show", word)
        assert str(made.exception) == f"'{word}' means more than one {what}: write one of {', '.join(names)}"
    for name in (FIRST, sweep.name, SECOND[:15]):
        assert call("show", name).exit_code == 0


def test_options_without_effect_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    sweep = make_sweep(tmp_path / "runs")
    halves = call("compare", sweep.name, "--by", "cc=cubic,cubic")
    assert "--by cc=cubic,cubic: name two of its values, as in --by cc=cubic,reno" in str(halves.exception)
    for kind in ("--csv", "--sqlite"):
        table = call("export", sweep.name, kind, "--metric", "bulk.goodput")
        assert table.exit_code == 2
        assert "--metric is for --markdown and --latex" in table.stderr


def test_shares_outside_of_a_bound_are_told_as_they_are_judged(runs: Path) -> None:
    for name, share in ((FIRST, 0.1), (SECOND, 0.14)):
        path = runs / name / "summary.json"
        summary = json.loads(path.read_text())
        summary["metrics"] = {"bulk.share.path0": {"value": share, "unit": "share"}}
        path.write_text(json.dumps(summary))
    made = call("compare", FIRST, SECOND, "--within", "20%")
    assert "bulk.share.path0 is not within 20%: 10.0 % -> 14.0 %  +4.0 points (+40.0 % of A)" in made.stdout
    # no share of 0 is a bound that another value keeps
    first = runs / FIRST / "summary.json"
    first.write_text(first.read_text().replace('"value": 0.1,', '"value": 0.0,'))
    made = call("compare", FIRST, SECOND, "--within", "20%")
    assert (made.exit_code, "bulk.share.path0 is not within 20%: 0.0 % -> 14.0 %" in made.stdout) == (1, True)
    unknown = call("compare", FIRST, SECOND, "--metric", "bulk.shr")
    assert str(unknown.exception) == "neither has metric 'bulk.shr'; metrics: bulk.share.path0"
    near = call("compare", FIRST, SECOND, "--metric", "bulk.share.path")
    assert str(near.exception) == "neither has metric 'bulk.share.path': did you mean 'bulk.share.path0'?"


def test_a_comparison_fits_the_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    sweep = make_sweep(tmp_path / "runs")
    for n, first in enumerate(sorted(sweep.glob("runs/*/1"))):
        shutil.copytree(first, first.parent / "2")
        for number in (1, 2):
            path = first.parent / str(number) / "summary.json"
            summary = json.loads(path.read_text())
            summary["metrics"]["bulk.goodput"]["value"] = 1e7 * (1 + n) + number * 1e5
            path.write_text(json.dumps(summary))
    lines = call("compare", sweep.name, "--by", "cc").stdout.splitlines()
    assert any("bulk.goodput" in one for one in lines)
    assert any("▲ ▼ the interval of 95 %" in one for one in lines)
    assert [one for one in lines if len(one) > 80 and not one.startswith(("A  ", "B  "))] == []


def test_sides_without_anything_in_common_are_not_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The terminal said nothing, and the status was that of success."""
    monkeypatch.chdir(tmp_path)
    first, second = (make_sweep(tmp_path / "runs" / name) for name in ("a", "b"))
    record = json.loads((second / "sweep.json").read_text())
    for cell in record["cells"]:
        cell["values"] = {**cell["values"], "rate": "5mbit"}
    (second / "sweep.json").write_text(json.dumps({**record, "axes": ["cc", "rate"]}))
    made = call("compare", str(first), str(second), "--within", "2%", "--junit", "tests.xml")
    assert (made.exit_code, made.stdout.splitlines()[-1]) == (2, "NOT COMPARED  no cell is on both sides")
    assert 'errors="1"' in Path("tests.xml").read_text()
    assert json.loads(call("compare", str(first), str(second), "--json").stdout)["status"] == "not compared"
    # sweeps with a common cell are compared, also if other cells are on one side only
    record["cells"][0]["values"] = {"cc": "cubic"}
    (second / "sweep.json").write_text(json.dumps(record))
    assert call("compare", str(first), str(second), "--within", "2%").exit_code == 0


def test_a_metric_of_one_side_alone_is_not_compared(runs: Path) -> None:
    path = runs / SECOND / "summary.json"
    summary = json.loads(path.read_text())
    metrics = summary["metrics"]
    path.write_text(json.dumps({**summary, "metrics": {k: v for k, v in metrics.items() if k != "bulk.goodput"}}))
    made = call("compare", FIRST, SECOND, "--metric", "bulk.goodput")
    assert (made.exit_code, made.stdout.splitlines()[-1]) == (2, "NOT COMPARED  no metric is measured on both sides")
    path.write_text(json.dumps({**summary, "metrics": {}}))
    assert call("compare", FIRST, SECOND).exit_code == 2
    # both runs ended and did what was asked, and nothing was measured
    first = runs / FIRST / "summary.json"
    first.write_text(json.dumps({**json.loads(first.read_text()), "metrics": {}}))
    assert call("compare", FIRST, SECOND).exit_code == 0


def test_a_parameter_of_one_side_alone_has_a_dash(runs: Path) -> None:
    path = runs / SECOND / "environment.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "parameters": {"label": "slow"}}))
    assert "  label: - -> slow\n" in call("compare", FIRST, SECOND).stdout
    assert "label: - -&gt; slow" in Path(call("report", FIRST, SECOND).stdout.strip()).read_text()


def test_a_page_of_two_sweeps_names_them_and_their_parameters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its verdict had `in A` and `in B`, which the page does not define, and no line had the parameters."""
    monkeypatch.chdir(tmp_path)
    first, second = (make_sweep(tmp_path / name) for name in ("a", "b"))
    for sweep, title, queue in ((first, "one", "80packets"), (second, "two", "20packets")):
        record = json.loads((sweep / "sweep.json").read_text())
        (sweep / "sweep.json").write_text(json.dumps({**record, "title": title}))
        for path in sweep.glob("runs/*/1/environment.json"):
            parameters = {"queue": queue, "cc": path.parents[1].name.partition("=")[2], "loss": "0%"}
            path.write_text(json.dumps({**json.loads(path.read_text()), "parameters": parameters}))
    for path in second.glob("runs/*/1/summary.json"):
        path.write_text(path.read_text().replace('"held": true', '"held": false'))
    for path in second.glob("runs/*/1/summary.json"):
        summary = json.loads(path.read_text())
        summary["metrics"]["bulk.share.path0"]["value"] += 0.2
        path.write_text(json.dumps(summary))
    files = ("--report", "--tap", "tests.tap", "--within", "5%")
    made = call("compare", str(first), str(second), *files)
    assert "  queue: 80packets -> 20packets\n" in made.stdout
    assert "  cc: " not in made.stdout
    assert "1 of 1 in A, 0 of 1 in B" in made.stdout
    assert " % of A)" in made.stdout
    page = Path(made.stdout.splitlines()[-1]).read_text()
    assert "1 of 1 in one, 0 of 1 in two" in page
    assert " % of one)" in page
    assert "queue: 80packets -&gt; 20packets" in page
    assert re.findall("(?:in|of) [AB]\\b", page) == []
    told = Path("tests.tap").read_text()
    assert f"1 of 1 in {first}, 0 of 1 in {second}" in told


def test_removed_runs_of_a_sweep_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    sweep = make_sweep(tmp_path / "runs")
    write_summary(SweepDirectory(sweep))
    assert "incomplete" not in call("show", sweep.name).stderr
    shutil.rmtree(sweep / "runs" / "cc=reno")
    assert "is incomplete: 1 of 2 runs" in call("show", sweep.name).stderr


def test_no_bundle_takes_the_place_of_another(runs: Path) -> None:
    assert call("bundle", FIRST, "--to", "it.zip").exit_code == 0
    first = Path("it.zip").read_bytes()
    refused = call("bundle", SECOND, "--to", "it.zip")
    assert refused.exit_code == 2
    assert "'it.zip' exists: remove it, or name a new file" in refused.output
    assert Path("it.zip").read_bytes() == first


def test_bundles_are_compared_as_what_they_hold(runs: Path) -> None:
    """The metrics that a sweep shows were read from its unpacked bundle after it was removed."""
    sweep = make_sweep(runs).name
    for source, name in ((FIRST, "run.zip"), (sweep, "sweep.zip")):
        assert call("bundle", source, "--to", name).exit_code == 0
        for sides in ((name, source), (source, name)):
            made = call("compare", *sides)
            assert (made.exit_code, made.exception) == (0, None)
            assert "do not clearly differ" in made.stdout
    assert call("compare", "sweep.zip", "--by", "cc").exit_code == 0


def test_figures_are_printed_without_their_pictures(runs: Path) -> None:
    figures = load(FIRST, runs).figures()
    assert figures[0].svg.startswith("<")
    assert "<svg" not in repr(figures)


def test_a_page_of_runs_without_common_metrics_says_so(runs: Path) -> None:
    for name in (FIRST, SECOND):
        path = runs / name / "summary.json"
        summary = json.loads(path.read_text())
        summary["metrics"] = {f"f{name[14]}.loss": {"value": 0.1, "unit": "share"}}
        path.write_text(json.dumps(summary))
        shutil.rmtree(runs / name / "tables", ignore_errors=True)
    text = Path(call("report", FIRST, SECOND).stdout.strip()).read_text()
    assert "No metric is measured on both sides." in text
    assert "No metric clearly differs." not in text


def test_an_expectation_that_no_run_measured_has_its_unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    sweep = make_sweep(tmp_path / "runs")
    for path in sweep.glob("runs/*/1/summary.json"):
        summary = json.loads(path.read_text())
        bounds = {"metric": "bulk.goodput", "minimum": 2e6, "maximum": None, "equals": None}
        expectations = [{**bounds, "value": None, "held": False}]
        path.write_text(json.dumps({**summary, "status": "error", "metrics": {}, "expectations": expectations}))
    assert "bulk.goodput ≥ 2.00 Mbit/s: held in 0 of 2 runs" in call("show", sweep.name).stdout


def test_a_page_of_three_runs_compares_each_with_the_first(runs: Path) -> None:
    third = "20260101-000002-two-fetch-05497f2a"
    shutil.copytree(runs / SECOND, runs / third)
    text = Path(call("report", FIRST, SECOND, third).stdout.strip()).read_text()
    assert text.count("against fetch, 00:00:00</th>") >= 2
    # the main differences of each come first
    for name in ("00:00:01", "00:00:02"):
        assert f'<div class="tile"><span>bulk.goodput, fetch, {name}</span>' in text
    assert "fetch, 00:00:01, fetch, 00:00:02: the sky was cloudy" in text


def test_sweeps_have_a_page_without_figures_over_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    sweep = make_sweep(tmp_path / "runs")
    path = sweep / "runs" / "cc=reno" / "1" / "summary.json"
    summary = json.loads(path.read_text())
    summary["metrics"]["bulk.goodput"]["value"] *= 2
    path.write_text(json.dumps(summary))
    made = call("compare", sweep.name, "--by", "cc", "--report")
    page = Path(made.stdout.splitlines()[-1])
    text = page.read_text()
    assert "<h1>cc=cubic and cc=reno</h1>" in text
    assert "+100.00% better" in text
    assert {file.stem for file in (page.parent / "figures").iterdir()} == {"effects"}
    # two sweeps of the same name are distinguished too
    twin = shutil.copytree(sweep, sweep.with_name(sweep.name.replace("000000", "000001")))
    both = call("report", sweep.name, twin.name)
    assert "<h1>fetch: 00:00:00 and 00:00:01</h1>" in Path(both.stdout.strip()).read_text()


def test_a_page_of_two_sweeps_marks_the_clear_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = []
    for n, factor in enumerate((1, 2)):
        made = make_sweep(tmp_path / "runs")
        sweep = made.rename(made.with_name(made.name.replace("000000", f"00000{n + 1}")))
        names.append(sweep.name)
        record = json.loads((sweep / "sweep.json").read_text())
        for cell in record["cells"]:
            cell["repeat"] |= {"least": 4, "most": 4}
        (sweep / "sweep.json").write_text(json.dumps(record))
        for first in sweep.glob("runs/*/1"):
            for number in range(1, 5):
                run = first.with_name(str(number))
                if number > 1:
                    shutil.copytree(first, run)
                summary = json.loads((run / "summary.json").read_text())
                # only cc=reno differs between the sweeps, by far more than its four runs do
                own = factor if "reno" in run.parent.name else 1
                summary["metrics"]["bulk.goodput"]["value"] = 1e6 * own * (1 + number / 1000)
                summary["metrics"]["asks.delay.mean"]["value"] = 0.04 / own * (1 + number / 1000)
                (run / "summary.json").write_text(json.dumps(summary))
    text = Path(call("compare", *names, "--report").stdout.splitlines()[-1]).read_text()
    rows = [" ".join(re.sub("<[^>]*>", " ", row).split()) for row in re.findall("<tr.*?</tr>", text, re.DOTALL)]
    marked = [row for row in rows if "▲" in row or "▼" in row]
    assert len(marked) == 2
    assert any(row.startswith("bulk. goodput") and "1.00 Mbit/s 2.00 Mbit/s ▲ +100.00% better" in row for row in marked)
    assert any(row.startswith("asks. delay") and "▼ -50.00% better" in row for row in marked)
    assert "▲ ▼ the interval of 95 % leaves zero out, ~ it does not; of " in text


def test_a_run_and_a_missing_run_are_refused(runs: Path) -> None:
    assert "no run 'nothing'" in str(call("report", FIRST, "nothing").exception)
    assert "--ci is for sweeps" in call("report", FIRST, SECOND, "--ci", "99%").output


def test_names_are_what_distinguishes_runs(tmp_path: Path) -> None:
    for name in ("20260101-000000-topo-xp_tcp-0123abcd", "20260101-000001-topo-xp_mptcp-0123abcd"):
        shutil.copytree(MADE, tmp_path / name)
    alike = tmp_path / "20260101-000002-topo-xp_tcp-0123abcd"
    shutil.copytree(MADE, alike)
    path = alike / "inputs" / "resolved-experiment.yaml"
    text = path.read_text()
    assert "scheduler: " in text
    path.write_text(re.sub("scheduler: .*", "scheduler: roundrobin", text))
    first, second, third = (RunDirectory(folder) for folder in sorted(tmp_path.iterdir()))
    assert name_sides([first, second], ["", ""]) == ["xp_tcp", "xp_mptcp"]
    assert name_sides([first, second], ["mine", ""]) == ["mine", "xp_mptcp"]
    names = name_sides([first, second, third], ["", "", ""])
    assert names[0].startswith("xp_tcp, scheduler ")
    assert (names[1], names[2]) == ("xp_mptcp", "xp_tcp, scheduler roundrobin")
    for run, parameters in ((first, {"cc": "cubic"}), (third, {"cc": "bbr"})):
        environment = json.loads((run.path / "environment.json").read_text())
        (run.path / "environment.json").write_text(json.dumps({**environment, "parameters": parameters}))
    assert name_sides([first, third], ["", ""]) == ["xp_tcp, cc=cubic", "xp_tcp, cc=bbr"]
    path.write_text(text)
    for run, parameters in (
        (first, {"least": "2mbit", "choice": "default"}),
        (third, {"least": "4mbit", "choice": "roundrobin"}),
    ):
        file = run.path / "inputs" / "resolved-experiment.yaml"
        file.write_text(re.sub("scheduler: .*", f"scheduler: {parameters['choice']}", text))
        (run.path / "environment.json").write_text(json.dumps({**environment, "parameters": parameters}))
    # `least` is in no key but that of an expectation
    assert name_sides([first, third], ["", ""]) == ["xp_tcp, choice=default", "xp_tcp, choice=roundrobin"]
    for run, parameters in ((first, {"cc": "cubic"}), (third, {"cc": "bbr"})):
        (run.path / "environment.json").write_text(json.dumps({**environment, "parameters": parameters}))
    facts = read_operands(first, third).facts
    assert next(iter(facts.items())) == ("cc", ("cubic", "bbr"))
    path.write_text(re.sub("scheduler: .*", "scheduler: default", text))
    for run, delay in ((first, "10ms"), (third, "20ms")):
        (run.path / "environment.json").write_text(json.dumps({**environment, "parameters": {}}))
        file = run.path / "inputs" / "resolved-topology.yaml"
        file.write_text(re.sub("delay: [0-9.]+m?s", f"delay: {delay}", file.read_text(), count=1))
    shutil.copy(path, first.path / "inputs" / path.name)
    assert name_sides([first, third], ["", ""]) == ["xp_tcp, delay 10ms", "xp_tcp, delay 20ms"]
    assert name_sides([first, first], ["", ""]) == ["xp_tcp, 00:00:00 (1)", "xp_tcp, 00:00:00 (2)"]


def test_a_step_of_a_lab_names_its_newest_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lab = open_lab("01")
    digest = digest_of_step(lab.steps[0])
    refused = str(call("show", "01/xp_tcp").exception)
    assert refused.endswith("run it with `mprun lab run 01`, or name another directory with -o")
    monkeypatch.setattr(RunDirectory, "digest", property(lambda run: digest))
    older, newer = (f"20260101-00000{n}-topo-xp_tcp-{digest[:8]}" for n in (1, 2))
    for name in (older, newer):
        shutil.copytree(MADE, tmp_path / "runs" / name)
    for word in ("01/xp_tcp", "01/tcp", "01_multipath/xp_tcp", f"{lab.folder}/tcp"):
        assert json.loads(call("show", word, "--json").stdout)["directory"].endswith(newer)
    assert "no step 'udp'; steps: xp_tcp, xp_mptcp" in str(call("show", "01/udp").exception)
    assert "no run '99/tcp'" in str(call("show", "99/tcp").exception)
    # in the folder of a lab, the name of the step suffices; the name of a run comes first
    monkeypatch.chdir(lab.folder)
    told = call("show", "tcp", "-o", str(tmp_path / "runs"), "--json")
    assert json.loads(told.stdout)["directory"].endswith(newer)
    shutil.copytree(MADE, tmp_path / "runs" / "tcp")
    told = call("show", "tcp", "-o", str(tmp_path / "runs"), "--json")
    assert json.loads(told.stdout)["directory"].endswith("/tcp")
    # below it too, and the command is one to type there
    monkeypatch.chdir(open_lab("02").folder / "reqres")
    assert "run it with `mprun -t topo -x reqres_rtt`" in str(call("show", "reqres_rtt").exception)


def test_a_comparison_of_marks_keeps_its_end() -> None:
    """Marks after the end of all curves are left out, and all figures end together."""
    late = replace(subject("a", "path0").evidence, marks=(Mark(9, "late"),))
    charts = list(overlay([OverlaidRun("a", late), subject("b", "path0")]))
    assert {chart.until for chart in charts} == {0.5}
    assert all(chart.marks == () for chart in charts)


def test_an_unknown_table_of_a_sweep_names_the_known_ones(tmp_path: Path) -> None:
    sweep = load(make_sweep(tmp_path))
    known = sorted(sweep.tables)
    with pytest.raises(SpecError, match=f"no run has a table '{known[0]}x': did you mean '{known[0]}'"):
        sweep.table(f"{known[0]}x")
