# SPDX-License-Identifier: Apache-2.0
"""Published values, the verdicts on them, and the page that shows both."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from pathlib import Path

import polars
import pytest

from docs.generate.studies import BEGIN, END, PAGES, insert
from docs.generate.study_values import STUDIES, read_parts
from mprun.errors import SpecError
from mprun.inputs.keys.lab_definition import BinnedEntry
from mprun.labs.definition import Lab, read_lab
from mprun.labs.published_figure import draw_binned, draw_classes, draw_pairs
from mprun.labs.published_values import COLUMNS, FILE, find_rows, read_published
from mprun.labs.study_figure import Drawn, JudgedFigure, judge_figure, say_sides
from mprun.labs.study_page import draw, list_reasons, name_folder, table, write_page
from mprun.metrics.claim_check import MeasuredRun, Swept
from mprun.metrics.readings import SummaryMetrics
from mprun.model.cell_run import CellRun
from mprun.model.run_summary import MetricValue, Summary
from mprun.reports.figure import to_csv
from mprun.safety.folder import Folder
from mprun.statements.evaluation import Comparison
from mprun.statements.expression import Value
from mprun.storage.index.listed import scan
from tests.labs import FOLDERS, ROOT
from tests.summaries import PASSED, make_cell

STUDIED = [folder for folder in FOLDERS if (folder / FILE).exists()]
WITH_FIGURES = [folder for folder in STUDIED if read_lab(folder).figures]
WITH_PAGE = [folder for folder in WITH_FIGURES if folder.name[:2] in PAGES]
HEAD = ",".join(COLUMNS)
PUBLISHED = f"""{HEAD}
Figure 1,TCP,rate,metric,19,Mbit/s (about),value,"a study, sec 1"
Figure 1,MPTCP,rate,metric,50 to 60,%,value,"a study, sec 1"
Figure 1,,,,MPTCP beats TCP,,statement,"a study, sec 1"
Figure 2,,,,A drawing,,statement,"a study, sec 2"
"""
FILES = "version: 1\ntitle: a | lab\naim: to see\nsteps: [{topology: topo, experiment: xp}]\n"
FIGURE = """\
figures:
  - name: rates
    published: Figure 1
    title: Rates
    quantity: goodput
    values:
      - {name: tcp, label: plain TCP, series: TCP, here: xp.tcp.goodput}
      - {name: mptcp, here: xp.mptcp.goodput}
    checks:
      - {says: MPTCP beats TCP, holds: here.mptcp > here.tcp, why: an order}
      - says: TCP gets 19 Mbit/s
        holds: abs(here.tcp - published.tcp) <= 5% * published.tcp
        why: seeds
        differs: DIFFERS
  - {name: drawing, published: Figure 2, title: A drawing, not_measured: It is a drawing.}
"""


# An empty text in YAML.
QUOTES = "''"


def lab_of(folder: Path, differs: str = QUOTES, more: str = "") -> Lab:
    (folder / "lab.yaml").write_text(FILES + FIGURE.replace("DIFFERS", differs) + more)
    (folder / FILE).write_text(PUBLISHED)
    return read_lab(folder)


def run_of(tcp: float, mptcp: float) -> MeasuredRun:
    metrics: SummaryMetrics = {
        "tcp.goodput": MetricValue(tcp, "bit/s"),
        "mptcp.goodput": MetricValue(mptcp, "bit/s"),
    }
    return MeasuredRun(metrics, lambda _: None)


def summary_of(rate: float) -> Summary:
    return PASSED._replace(metrics={"bulk.goodput": MetricValue(rate, "bit/s")})


def judged_of(lab: Lab, tcp: float, mptcp: float) -> list[JudgedFigure]:
    return [judge_figure(figure, {"xp": run_of(tcp, mptcp)}, {}) for figure in lab.figures]


@pytest.mark.parametrize("folder", STUDIED, ids=lambda folder: folder.name)
def test_each_published_value_has_a_source(folder: Path) -> None:
    rows = read_published(Folder(folder))
    assert len(rows) > (50 if folder in WITH_PAGE else 2)
    assert all(row.source.startswith(("study ", "tutorial, ")) and ", " in row.source for row in rows)
    # nothing was read from a picture
    assert all(row.y for row in rows if row.kind == "value")


@pytest.mark.parametrize("folder", WITH_FIGURES, ids=lambda folder: folder.name)
def test_each_published_figure_has_a_verdict(folder: Path) -> None:
    lab = read_lab(folder)
    published = {row.figure for row in read_published(Folder(folder))}
    assert published - {"text"} == {figure.entry.published for figure in lab.figures} - {"text"}


@pytest.mark.parametrize("folder", WITH_FIGURES, ids=lambda folder: folder.name)
def test_each_published_figure_has_its_section(folder: Path) -> None:
    assert [figure.entry.name for figure in read_lab(folder).figures if not figure.sections] == []


@pytest.mark.parametrize("folder", WITH_PAGE, ids=lambda folder: folder.name)
def test_the_page_of_a_study_has_each_figure(folder: Path) -> None:
    lab = read_lab(folder)
    page = (STUDIES / f"{PAGES[lab.number]}.md").read_text()
    shown = page.split(BEGIN)[1].split(END)[0]
    commands = [f"--figure {figure.name}`" for figure in lab.figures if figure.steps]
    assert [command for command in commands if command not in shown] == []
    pictures = STUDIES / name_folder(lab)
    # a figure whose runs were not recorded says so in its verdicts, and has no picture
    recorded = read_parts(lab.number)
    measured = [figure for figure in lab.figures if not recorded or all(step in recorded for step in figure.steps)]
    drawn = [figure.name for figure in measured if any(value.row and value.row.value for value in figure.values)]
    drawn += [f"{figure.name}-run" for figure in measured if figure.picture]
    drawn += [f"{figure.name}-runs" for figure in measured if figure.entry.together]
    drawn += [f"{figure.name}-bins" for figure in measured if figure.entry.binned]
    drawn += [f"{figure.name}-sequence" for figure in measured if figure.entry.sequence]
    assert [name for name in drawn if not (pictures / f"{name}.svg").exists()] == []
    text = (pictures / "README.md").read_text()
    assert [name for name in drawn if f"({name}.svg)" not in text] == []


def test_a_verdict_follows_from_the_run(tmp_path: Path) -> None:
    rates, drawing = judged_of(lab_of(tmp_path), 19.5e6, 38e6)
    assert [finding.verdict for finding in rates.findings] == ["agrees", "agrees"]
    assert rates.findings[0].measured == "mptcp: 38.00 Mbit/s; plain TCP: 19.50 Mbit/s"
    assert [(finding.verdict, finding.reason) for finding in drawing.findings] == [
        ("not measured here", "It is a drawing.")
    ]
    first = rates.values[0]
    assert first.published is not None
    assert first.here is not None
    assert (first.published.amount, first.here.amount) == (19e6, 19.5e6)


def test_a_difference_needs_a_reason(tmp_path: Path) -> None:
    unknown = judged_of(lab_of(tmp_path), 30e6, 20e6)[0].findings
    assert [(finding.verdict, finding.is_explained) for finding in unknown] == [("differs", False)] * 2
    assert unknown[1].reason == "no reason is known: 11.00 Mbit/s <= 950.00 kbit/s does not hold"
    known = judged_of(lab_of(tmp_path, "Other links."), 30e6, 40e6)[0].findings[1]
    assert (known.verdict, known.reason, known.is_explained) == ("differs", "Other links.", True)
    # a reason of a difference does not make one
    assert judged_of(lab_of(tmp_path, "Other links."), 19e6, 40e6)[0].findings[1].verdict == "agrees"


def test_each_result_that_does_not_agree_has_its_reason_in_a_list(tmp_path: Path) -> None:
    lab = lab_of(tmp_path, "Other links.")
    assert list(list_reasons(judged_of(lab, 30e6, 40e6))) == [
        "- Figure 1: Rates. “TCP gets 19 Mbit/s”: **differs**. Other links.",
        "- Figure 2: A drawing. “A drawing”: **not measured here**. It is a drawing.",
    ]
    # results with one reason share a line
    same = lab_of(
        tmp_path,
        "Other links.\n      - {says: TCP stops, holds: here.tcp == 0bit, why: a limit, differs: Other links.}",
    )
    first, _ = list_reasons(judged_of(same, 30e6, 40e6))
    assert "“TCP gets 19 Mbit/s”, “TCP stops”: **differs**. Other links." in " ".join(first.split())


@pytest.mark.parametrize(("tcp", "verdict"), [(19.5e6, "agrees"), (20.5e6, "undecided"), (22e6, "differs")])
def test_a_single_seed_does_not_decide_within_the_spread(tmp_path: Path, tcp: float, verdict: str) -> None:
    # the limit is 21 Mbit/s
    more = """\
  - name: spread
    published: Figure 1
    title: Rates with a spread
    quantity: goodput
    values: [{name: tcp, here: xp.tcp.goodput}]
    checks: [{says: at most 21 Mbit/s, holds: here.tcp <= 21mbit, why: a limit, differs: Other links., spread: 4%}]
"""
    (finding,) = judged_of(lab_of(tmp_path, more=more), tcp, 38e6)[-1].findings
    assert (finding.verdict, finding.seeds) == (verdict, 1)
    if verdict == "undecided":
        assert (
            finding.reason == "One seed was run, and a change of its values by 4% makes it true or false. Other links."
        )


def test_a_missing_run_is_no_verdict(tmp_path: Path) -> None:
    figure = lab_of(tmp_path).figures[0]
    findings = judge_figure(figure, {}, {"xp": "cannot run here"}).findings
    assert [(one.verdict, one.reason, one.is_explained) for one in findings] == [
        ("not measured here", "xp: cannot run here", False)
    ] * 2
    (other, _) = judge_figure(figure, {"xp": MeasuredRun({}, lambda _: None)}, {}).findings
    assert other.verdict == "not measured here"
    assert "measured no 'mptcp.goodput'" in other.reason


def test_cells_of_a_sweep_are_values(tmp_path: Path) -> None:
    lab = lab_of(
        tmp_path,
        more="""\
  - name: swept
    published: Figure 1
    title: Rates of cells
    quantity: goodput
    values: [{name: two, here: "swept[paths=2].bulk.goodput"}, {name: one, here: "swept[paths=1].bulk.goodput"}]
    checks: [{says: two paths beat one, holds: here.two > here.one, why: an order}]
sweeps: [{name: swept, topology: topo, experiment: sweep}]
""",
    )
    cells = [make_cell(paths=paths) for paths in (1, 2)]
    rows = [
        CellRun(cell, number, "", summary_of(rate))
        for cell, number, rate in ((0, 1, 1.9e6), (0, 2, 2.1e6), (1, 1, 5e6))
    ]
    judged = judge_figure(lab.figures[-1], {"swept": Swept(cells, rows)}, {})
    assert [value.here.amount for value in judged.values if value.here] == [5e6, 2e6]
    assert judged.findings[0].verdict == "agrees"
    # Student's t of 95 % with one degree of freedom is 12.71, and the standard error 0.1 Mbit/s
    assert judged.findings[0].measured == "two: 5.00 Mbit/s; one: 2.00 Mbit/s (729.38 kbit/s to 3.27 Mbit/s)"
    assert judged.findings[0].seeds == 1
    # the interval reaches beyond the other value
    near = judge_figure(lab.figures[-1], {"swept": Swept(cells, [*rows[:2], CellRun(1, 1, "", summary_of(3e6))])}, {})
    assert (near.findings[0].verdict, near.findings[0].is_explained) == ("undecided", True)
    # the intervals are those of the value with several seeds
    assert near.findings[0].reason == "Within the intervals of 95% over 2 seeds, the statement may be true or false."
    assert lab.in_profile("quick").names == {"xp"}
    assert lab.in_profile("published").names == {"xp", "swept"}


def sweep_of(tmp_path: Path, here: str, rows: Sequence[tuple[float, float]]) -> JudgedFigure:
    """Return a figure with the value `here` of a sweep whose seeds have the rates of two clients."""
    lab = lab_of(
        tmp_path,
        more=f"""\
  - name: swept
    published: Figure 1
    title: Rates of clients
    quantity: goodput
    values: [{{name: least, here: "{here}"}}]
    checks: [{{says: a client has less than 2 Mbit/s, holds: here.least < 2mbit, why: an order}}]
sweeps: [{{name: swept, topology: topo, experiment: sweep}}]
""",
    )
    runs = [
        CellRun(0, n, "", PASSED._replace(metrics={f"{name}.goodput": MetricValue(one, "bit/s") for name, one in pair}))
        for n, pair in enumerate([(("a", a), ("b", b)) for a, b in rows])
    ]
    return judge_figure(lab.figures[-1], {"swept": Swept([make_cell(paths=1)], runs)}, {})


def test_a_value_is_computed_for_each_seed(tmp_path: Path) -> None:
    # the mean of each client is 2 Mbit/s, and the slower client of each seed has 1 Mbit/s
    judged = sweep_of(
        tmp_path, "min(swept.a.goodput, swept.b.goodput)", [(1e6, 3e6), (3e6, 1e6), (1e6, 3e6), (3e6, 1e6)]
    )
    assert judged.values[0].here == Value((1e6,) * 4, "rate")
    assert (judged.values[0].low, judged.values[0].high) == (1e6, 1e6)
    assert (judged.findings[0].verdict, judged.findings[0].seeds) == ("agrees", 4)


def test_an_interval_is_that_of_the_value_and_not_of_its_parts(tmp_path: Path) -> None:
    # the clients differ from seed to seed, and their sum does not
    judged = sweep_of(tmp_path, "swept.a.goodput + swept.b.goodput", [(1e6, 0.5e6), (0.2e6, 1.3e6), (1.1e6, 0.4e6)])
    assert judged.findings[0].verdict == "agrees"
    assert judged.findings[0].measured == "least: 1.50 Mbit/s"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("figure,y\n", ":1: has other columns: write 'figure,series,"),
        (f"{HEAD}\nFigure 1,TCP\n", ":2: has 2 columns: write 8"),
        (f"{HEAD}\nFigure 1,TCP,rate,metric,1,s,guess,here\n", ":2: kind 'guess': allowed kinds: value, setting, "),
        (f"{HEAD}\nFigure 1,TCP,rate,metric,1,s,value,\n", ":2: has no source: name the section"),
        (None, " is missing: 'figures' needs the published values"),
    ],
)
def test_what_is_wrong_with_published_values(tmp_path: Path, text: str | None, fault: str) -> None:
    if text is not None:
        (tmp_path / FILE).write_text(text)
    with pytest.raises(SpecError) as error:
        read_published(Folder(tmp_path))
    assert f"{tmp_path / FILE}{fault}" in str(error.value)


def test_values_have_units_and_ranges_have_none(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(PUBLISHED)
    rows = read_published(Folder(tmp_path))
    (rate,) = find_rows(rows, "Figure 1", "TCP", "rate")
    (share,) = find_rows(rows, "Figure 1", "MPTCP", None)
    assert rate.value is not None
    assert (rate.value.amount, rate.value.unit, rate.text) == (19e6, "rate", "19 Mbit/s (about)")
    assert (share.value, share.text) == (None, "50 to 60 %")
    assert find_rows(rows, "Figure 1", "TCP", "time") == []


def test_a_picture_has_both_values() -> None:
    one, two, three = (Value((amount,), "rate") for amount in (1e6, 2e6, 3e6))
    pairs = [Drawn("plain TCP over one path", one, two), Drawn("b", None, three)]
    chart = draw_pairs("rates", "Rates", "goodput", pairs)
    assert chart is not None
    assert [series.label for series in chart.panels[0].series] == ["published", "here"]
    assert math.isnan(chart.panels[0].series[0].y[1])
    rows = list(csv.reader(io.StringIO(to_csv(chart))))
    assert rows[1:] == [
        ["published", "plain TCP over one path", "1000000"],
        ["published", "b", ""],
        ["here", "plain TCP over one path", "2000000"],
        ["here", "b", "3000000"],
    ]
    only = draw_pairs("rates", "Rates", "goodput", [Drawn("a", None, two)])
    assert only is not None
    assert [series.label for series in only.panels[0].series] == ["here"]
    assert draw_pairs("rates", "Rates", "goodput", [Drawn("a", None, None)]) is None


def test_means_in_bins_have_intervals() -> None:
    binned = BinnedEntry(table="flows", over="size_bytes", of="completion_ns", bins=2, runs={"TCP": "xp_tcp"})
    runs: dict[str, dict[str, Sequence[float | None]]] = {
        "TCP": {"size_bytes": [0, 10, 90, 100, 50], "completion_ns": [1e9, 3e9, 5e9, 7e9, None]},
        "MPTCP": {"size_bytes": [20, 30, 80], "completion_ns": [2e9, 2e9, 9e9]},
    }
    chart = draw_binned("sizes", "Times", binned, runs)
    assert chart is not None
    assert (chart.x.unit, chart.y.unit) == ("byte", "s")
    tcp, mptcp = chart.panels[0].series
    # the flow without a time does not count
    assert (tcp.x, tcp.y) == ([25.0, 75.0], [2.0, 6.0])
    # Student's t of 99 % with one degree of freedom is 63.66; the standard error is 1 s
    assert [round(value, 2) for value in (tcp.low[0], tcp.high[0])] == [-61.66, 65.66]
    # a bin with one flow has no interval
    assert (mptcp.x, mptcp.y, mptcp.low) == ([25.0], [2.0], [2.0])
    assert draw_binned("sizes", "Times", binned, {"TCP": {"size_bytes": [], "completion_ns": []}}) is None


def test_a_flow_of_each_class_has_its_packets() -> None:
    def flow(kind: str, start_ns: int, port: int) -> dict[str, object]:
        return {"flow": "short", "class": kind, "start_ns": start_ns, "completion_ns": 30e6, "local_port": port}

    def packet(
        connection: int, time_ns: int, offset: int, way: str = "forward", repeat: str | None = None
    ) -> dict[str, object]:
        place = {"capture": "h", "connection": connection, "way": way, "time_ns": time_ns, "repeat": repeat}
        return {**place, "payload_bytes": 100, "new_bytes": 100, "subflow_offset_bytes": offset}

    def opened(connection: int, port: int, opened_ns: int) -> dict[str, object]:
        return {"capture": "h", "connection": connection, "source_port": port, "opened_ns": opened_ns}

    # the last flow has the port of the first one again
    flows = [flow("full_window", 1_000, 40), flow("intensive", 2_000, 41), flow("intensive", 9_000_000_000, 40)]
    packets = [
        packet(0, 1_001_000, 0),
        packet(0, 2_001_000, 0, "reverse"),
        packet(1, 1_002_000, 0),
        packet(1, 4_002_000, 100),
        packet(1, 8_002_000, 0, repeat="retransmission"),
        packet(2, 9_000_000_500, 0),
    ]
    connections = [opened(0, 40, 1_500), opened(1, 41, 2_500), opened(2, 40, 9_000_000_000)]
    tables = {"flows": flows, "packets": packets, "connections": connections}
    frames = {name: polars.LazyFrame(rows, infer_schema_length=None) for name, rows in tables.items()}
    chart = draw_classes("kinds", "Kinds", frames, "short", ["intensive", "full_window", "extreme_delay"])
    assert chart is not None
    assert [panel.title for panel in chart.panels] == ["intensive: 30 ms", "full window: 30 ms"]
    found = [[(one.label, one.x, one.y) for one in panel.series] for panel in chart.panels]
    assert found == [
        [("sent", [0.001, 0.004], [0, 100]), ("sent again", [0.008], [0])],
        [("sent", [0.001], [0])],
    ]
    assert draw_classes("kinds", "Kinds", frames, "other", ["intensive"]) is None


def test_a_page_has_a_row_for_each_result(tmp_path: Path) -> None:
    lab = lab_of(tmp_path, "Other links.")
    judged = judged_of(lab, 30e6, 40e6)
    page = write_page(tmp_path / "runs", lab, judged, {}, {"xp": 2.4})
    assert page == tmp_path / "runs" / f"figures-{lab.name}" / "README.md"
    assert sorted(path.name for path in page.parent.iterdir()) == ["README.md", "rates.csv", "rates.svg"]
    text = page.read_text()
    command = f"`mprun lab run {lab.number} --profile published --figure rates` (2 s)"
    assert [line for line in text.splitlines() if line.startswith(("| Figure", "|  |"))] == [
        "| Figure 1: Rates (sec 1) | MPTCP beats TCP | mptcp: 40.00 Mbit/s; plain TCP: 30.00 Mbit/s | 1 | agrees | "
        f"{command} |",
        "|  | TCP gets 19 Mbit/s | plain TCP: 30.00 Mbit/s | 1 | differs |  |",
        "| Figure 2: A drawing (sec 2) | A drawing |  |  | not measured here |  |",
    ]
    assert "# a \\| lab: published and measured here" in text
    assert "| plain TCP | 19 Mbit/s (about) | 30.00 Mbit/s | a study, sec 1 |" in text
    assert "**differs**: Other links." in text
    # the same runs give the same bytes
    before = [path.read_bytes() for path in sorted(page.parent.iterdir())]
    write_page(tmp_path / "runs", lab, judged, {}, {"xp": 2.4})
    assert [path.read_bytes() for path in sorted(page.parent.iterdir())] == before


def test_a_result_that_is_not_measured_has_its_command(tmp_path: Path) -> None:
    text = f"{FILES}{FIGURE.replace('DIFFERS', QUOTES)}".replace("It is a drawing.}", "No., command: mprun run x}")
    (tmp_path / "lab.yaml").write_text(text)
    (tmp_path / FILE).write_text(PUBLISHED)
    lab = read_lab(tmp_path)
    lines = list(table(lab, judged_of(lab, 1.0, 2.0)[1:], {}))
    assert lines[2].endswith("| not measured here | `mprun run x` |")


def test_curves_need_two_runs(tmp_path: Path) -> None:
    together = "together: {figure: rate-by-run, runs: {one: xp, two: other}}"
    text = f"{FILES}{FIGURE.replace('DIFFERS', QUOTES)}".replace("quantity:", f"{together}\n    quantity:")
    (tmp_path / "lab.yaml").write_text(
        text.replace("experiment: xp}", "experiment: xp}, {name: other, topology: topo, experiment: xp}")
    )
    (tmp_path / FILE).write_text(PUBLISHED)
    lab = read_lab(tmp_path)
    assert lab.figures[0].steps == ("xp", "other")
    judged = judged_of(lab, 1.0, 2.0)[0]
    # without its second run, the figure has the verdicts that need the first run, and only the picture of the values
    assert [finding.verdict for finding in judged.findings] == ["agrees", "differs"]
    assert [chart.name for chart in draw(judged, {})] == ["rates"]


def test_a_page_beside_runs_is_no_strange_folder(tmp_path: Path) -> None:
    lab = lab_of(tmp_path)
    write_page(tmp_path / "runs", lab, judged_of(lab, 1.0, 2.0), {}, {})
    (tmp_path / "runs" / "other").mkdir()
    assert scan(tmp_path / "runs").strange == ("other",)


def test_the_table_of_a_study_is_replaced() -> None:
    page = f"# A\n\n{BEGIN}\nold\n{END}\n\nrest\n"
    once = insert(page, "| new \\1 |")
    assert once == f"# A\n\n{BEGIN}\n\n| new \\1 |\n\n{END}\n\nrest\n"
    assert insert(once, "| new \\1 |") == once
    with pytest.raises(ValueError, match="no place for the table"):
        insert("# A\n", "")


def test_a_link_in_place_of_the_page_is_refused(tmp_path: Path) -> None:
    lab = lab_of(tmp_path)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / f"figures-{lab.name}").symlink_to(ROOT)
    with pytest.raises(Exception, match="figures-"):
        write_page(tmp_path / "runs", lab, judged_of(lab, 1.0, 2.0), {}, {})
    assert not (ROOT / "rates.svg").exists()


def test_rows_without_a_command_have_none(tmp_path: Path) -> None:
    lab = lab_of(tmp_path)
    lines = list(table(lab, judged_of(lab, 1.0, 2.0)[1:], {}))
    assert lines[2].endswith("| not measured here |  |")


@pytest.mark.parametrize(
    ("operator", "is_true", "said"),
    [("<=", True, "1.00 Mbit/s, at most 2.00 Mbit/s"), (">", False, "1.00 Mbit/s, not more than 2.00 Mbit/s")],
)
def test_sides_of_a_comparison_are_said_in_words(operator: str, is_true: bool, said: str) -> None:
    assert say_sides(Comparison("a", operator, "b", 1e6, 2e6, "rate", is_true)) == said


def test_a_reason_quotes_measured_values(tmp_path: Path) -> None:
    (finding,) = judged_of(lab_of(tmp_path, "'TCP has {xp.tcp.goodput}, not {a} or {/}.'"), 30e6, 40e6)[0].findings[1:]
    assert finding.reason == "TCP has 30.00 Mbit/s, not {a} or {/}."
    (other,) = judged_of(lab_of(tmp_path, "'MPTCP has {here.mptcp / here.tcp}.'"), 30e6, 60e6)[0].findings[1:]
    assert other.reason == "MPTCP has 2."
