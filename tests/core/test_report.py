# SPDX-License-Identifier: Apache-2.0
"""Figures of a run: computed from its tables, with their data, pictures and page."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import math
import re
import shutil
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import polars as pl
import pytest
from click.testing import CliRunner

from mprun.cli import group
from mprun.inputs.loading import load
from mprun.metrics.metric_table import table_of_sweep
from mprun.model.run_summary import ExpectationVerdict, MetricValue, Symbol
from mprun.model.spec import Plot, PlotForm
from mprun.model.sweep_files import RunCounts, Statistic
from mprun.model.units import format_measured
from mprun.model.wording import say_change
from mprun.reports import figure, palette
from mprun.reports.chart import COLUMN, WIDE, paint
from mprun.reports.figure import TIME, Chart, ChartAxis, ChartForm, Mark, Panel, Series, to_csv
from mprun.reports.gallery import Gallery
from mprun.reports.metrics import ExpectationRow, choose_main, find_repeated, format_judged
from mprun.reports.page import HistoryPage, Page, Picture, render
from mprun.reports.run_charts import link_rates_of, marks_of
from mprun.reports.run_data import AssociationFlow, RunData
from mprun.reports.run_figures import draw_run, lacking
from mprun.reports.text_chart import list_marks, to_text
from mprun.workloads.tool import summarize_delays
from tests.hostile import copy_run
from tests.summaries import CELL

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("painted_once")]

NAMES = ChartAxis("scheduler", categories=("default", "roundrobin"))
NUMBERS = Series("a", "p0", (0, 1), (1e6, 2e6), (0.5e6, 1.5e6), (1.5e6, 2.5e6))
CHARTS: dict[ChartForm, Chart] = {
    "line": Chart(
        "c", "t", "", "line", ChartAxis("rate", "bit/s", "log"), ChartAxis("goodput", "bit/s"), (Panel("", (NUMBERS,)),)
    ),
    "step": Chart(
        "c", "t", "", "step", ChartAxis("time", "s"), ChartAxis("goodput", "bit/s"), (Panel("", (NUMBERS,)),)
    ),
    "points": Chart("c", "t", "", "points", ChartAxis("time", "s"), ChartAxis("delay", "s"), (Panel("", (NUMBERS,)),)),
    "stack": Chart("c", "t", "", "stack", ChartAxis("time", "s"), ChartAxis("rate", "bit/s"), (Panel("", (NUMBERS,)),)),
    "cdf": Chart("c", "t", "", "cdf", ChartAxis("delay", "s"), ChartAxis("share", "share"), (Panel("", (NUMBERS,)),)),
    "bar": Chart(
        "c", "t", "", "bar", NAMES, ChartAxis("goodput", "bit/s"), (Panel("x", (NUMBERS,)), Panel("y", (NUMBERS,)))
    ),
    "box": Chart(
        "c",
        "t",
        "",
        "box",
        NAMES,
        ChartAxis("goodput", "bit/s"),
        (Panel("", (Series("a", "p0", (0, 1), samples=((1, 2, 3), (2,))),)),),
    ),
    "heat": Chart(
        "c",
        "t",
        "",
        "heat",
        NAMES,
        ChartAxis("loss", categories=("1 %",)),
        (Panel("", (NUMBERS,)),),
        value=ChartAxis("goodput", "bit/s"),
    ),
}


def test_thinning_keeps_the_outline() -> None:
    x = [float(n) for n in range(100_000)]
    y = [1e9 if n == 54_321 else -5.0 if n == 77_777 else math.sin(n) for n in range(100_000)]
    kept_x, kept_y = figure.thin(x, y)
    assert len(kept_x) <= figure.MOST_POINTS
    assert kept_x == sorted(kept_x)
    assert dict(zip(kept_x, kept_y, strict=True)).items() >= {54_321.0: 1e9, 77_777.0: -5.0}.items()


def test_thinning_keeps_gaps() -> None:
    y = [math.nan if 500 <= n < 600 else 1.0 for n in range(10_000)]
    _, kept = figure.thin([float(n) for n in range(10_000)], y)
    assert any(map(math.isnan, kept))


def test_averages_keep_the_area() -> None:
    values = [float(n % 7) for n in range(12_000)]
    assert sum(figure.average(values)) * 10 == pytest.approx(sum(values))


@pytest.mark.parametrize("form", CHARTS)
def test_every_form_is_painted_and_repeats(form: ChartForm) -> None:
    column = paint(CHARTS[form], COLUMN, ("svg", "pdf", "png"))
    assert column == paint(CHARTS[form], COLUMN, ("svg", "pdf", "png"))
    root = ElementTree.fromstring(column["svg"])
    # 85 mm are 240.9 points
    assert float(root.attrib["width"].removesuffix("pt")) == pytest.approx(85 / 25.4 * 72)
    assert b"CreationDate" not in column["pdf"]


def test_a_page_knows_the_values_under_the_pointer() -> None:
    values = paint(CHARTS["step"], WIDE, ("svg", "values"))["values"].decode()
    found = json.loads(values)
    (plot,) = found["plots"]
    left, top, right, bottom = plot["box"]
    # within the picture of 460.8 by 208.8 points
    assert 0 < left < right < 461
    assert 0 < top < bottom < 209
    assert (plot["lines"], found["units"], found["holds"]) == ([["a", [0, 1], [1, 2]]], ["s", "Mbit/s"], True)
    assert paint(CHARTS["bar"], WIDE, ("values",)) == {"values": b""}
    gallery = Gallery()
    gallery.add(replace(CHARTS["step"], panels=(Panel("", (replace(NUMBERS, label='"><script>'),)),)))
    listed = HistoryPage("t", "", gallery.pictures, [], [])
    page = render(listed)
    assert "<script>" not in re.sub(r"<script>\n\(function", "", page)
    for script in re.findall(r"<script>(.*?)</script>", page, re.DOTALL):
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"sha256-{digest}" in page


def test_every_colour_of_a_picture_is_themed() -> None:
    for form in CHARTS.keys() - {"heat"}:
        svg = paint(CHARTS[form], WIDE, ("svg",))["svg"].decode()
        assert not re.findall("#[0-9a-f]{6}", palette.themed(svg)), form


@pytest.mark.parametrize("colour", [tone for tones in (palette.TONES,) for tone in tones])
def test_tones_are_legible_on_either_page(colour: str) -> None:
    """WCAG 2.1, 1.4.11, requires 3:1 for graphics. The lightest of Okabe and Ito's tones are bounded by 2.2."""
    light = palette.TONES[colour]
    assert _contrast(palette.DARK[light], palette.DARK[palette.PAPER]) >= 3
    assert _contrast(light, palette.PAPER) >= 2.2


def _contrast(one: str, other: str) -> float:
    def luminance(colour: str) -> float:
        parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
        red, green, blue = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_data_as_csv() -> None:
    assert list(csv.reader(io.StringIO(to_csv(CHARTS["bar"])))) == [
        ["panel", "series", "scheduler", "goodput_bit_per_s", "low", "high"],
        ["x", "a", "default", "1000000", "500000", "1500000"],
        ["x", "a", "roundrobin", "2000000", "1500000", "2500000"],
        ["y", "a", "default", "1000000", "500000", "1500000"],
        ["y", "a", "roundrobin", "2000000", "1500000", "2500000"],
    ]
    assert to_csv(CHARTS["box"]).splitlines()[-1] == "a,roundrobin,2"


def sockets(*rows: tuple[int, str, str, int]) -> pl.LazyFrame:
    """Return a table of sockets from rows of (time_ms, host, path, bytes_acked)."""
    columns = {
        "time_ns": [ms * 1_000_000 for ms, *_ in rows],
        "host": [host for _, host, _, _ in rows],
        "flow": ["bulk"] * len(rows),
        "path": [path for _, _, path, _ in rows],
        "local": [path for _, _, path, _ in rows],
        "local_port": [1] * len(rows),
        "remote": ["r"] * len(rows),
        "remote_port": [2] * len(rows),
        "bytes_acked": [acked for *_, acked in rows],
        "rtt_us": [40_000] * len(rows),
    }
    return pl.LazyFrame(columns)


def evidence(**tables: pl.LazyFrame) -> RunData:
    return RunData(
        tables, ["bulk"], {"path0": ["path0"], "path1": ["path1"]}, (Mark(0.2, "path0 down"), Mark(9, "later"))
    )


def test_rates_are_those_of_the_samples() -> None:
    rows = [(ms, "client", "path0", ms * 2500) for ms in range(100, 600, 100)]
    # the second subflow joins between 200 ms and 300 ms, at half the rate, and ends after 300 ms
    rows += [(300, "client", "path1", 125_000)]
    rows += [(ms, "server", "path0", 1) for ms in range(100, 600, 100)]
    (chart, *_) = draw_run(evidence(sockets=sockets(*rows)), [Plot(series="rate")])
    first, second = chart.panels[0].series
    assert (first.label, first.tone, second.label, second.tone) == ("path0", "p0", "path1", "p1")
    assert list(first.x) == pytest.approx([0, 0.1, 0.2, 0.3, 0.4, 0.5])
    assert list(first.y) == pytest.approx([20e6] * 6)
    assert list(second.y) == pytest.approx([0, 0, 10e6, 0, 0, 0])
    assert [mark.text for mark in chart.marks] == ["path0 down"]


def test_a_rate_is_that_of_the_direction_with_more_payload() -> None:
    """The client sends over two paths and the server as much over one. The share of a path is that of the client."""
    for sent, sender, paths in ((2000, "client", ["path0", "path1"]), (2100, "server", ["path0"])):
        rows = [(ms, "client", f"path{n}", ms * 1000 + 2) for ms in range(100, 600, 100) for n in (0, 1)]
        rows += [(ms, "server", "path0", ms * sent + 4) for ms in range(100, 600, 100)]
        shown = replace(evidence(sockets=sockets(*rows)), clients={"bulk": "client"})
        (chart, *_) = draw_run(shown, [Plot(series="rate")])
        assert chart.caption.startswith(f"Payload of bulk from {sender}, acknowledged on each path")
        assert [series.label for series in chart.panels[0].series] == paths


def test_a_time_has_one_column_in_all_figures_of_a_terminal() -> None:
    rows = [(ms, "client", "path0", ms * 2500) for ms in range(0, 600, 100)]
    rates = replace(evidence(sockets=sockets(*rows)), ends={"bulk": 0.5})
    charts = list(draw_run(rates, [Plot(series="rate"), Plot(series="rtt"), Plot(series="rtt", form="points")]))
    assert len(charts) > 1
    lines = [next(line for line in to_text(chart, 80, charts) if line.strip() == "1") for chart in charts]
    assert len(set(lines)) == 1


def test_a_rate_has_the_payload_of_all_connections() -> None:
    """Ten short connections follow each other. The last two are seen only in a sample long after the flow."""
    rows = [(500 * (n // 2 + 1) if n < 8 else 4630, "server", "path0", 262_398) for n in range(10)]
    table = sockets(*rows).with_columns(remote_port=pl.Series(range(40_000, 40_010)))
    shown = replace(evidence(sockets=table), ends={"bulk": 2.25})
    (chart, *_) = draw_run(shown, [Plot(series="rate")])
    (series,) = chart.panels[0].series
    # the last payload is acknowledged half a round trip (40 ms) after it has come
    assert (series.label, list(series.x)) == ("path0", [0, 0.5, 1, 1.5, 2, 2.27])
    area = sum((x - w) * y for w, x, y in zip(series.x, series.x[1:], series.y, strict=False))
    assert area == pytest.approx(10 * 262_398 * 8)
    # a SYN and a FIN are no payload
    flags = table.with_columns(bytes_acked=pl.lit(2))
    (chart, *_) = draw_run(replace(shown, tables={"sockets": flags}), [Plot(series="rate")])
    assert set(chart.panels[0].series[0].y) == {0}
    # a sender may end before its data is acknowledged
    (chart, *_) = draw_run(replace(shown, clients={"bulk": "server"}), [Plot(series="rate")])
    assert chart.panels[0].series[0].x[-1] == 2
    # fewer connections are distinguished by the port that differs
    (chart, *_) = draw_run(
        evidence(sockets=table.head(2).with_columns(time_ns=pl.Series([1, 2]))), [Plot(series="rate")]
    )
    assert [one.label for one in chart.panels[0].series] == ["path0, port 40000", "path0, port 40001"]


def test_a_connection_after_a_gap_has_no_rate_in_it() -> None:
    """Samples without any connection have no rows. The last connection begins after 0.8 s, and the flow ends then."""
    rows = [(ms, "client", "path0", ms * 2500) for ms in range(100, 400, 100)] + [(900, "client", "path0", 250_000)]
    table = sockets(*rows).with_columns(local_port=pl.Series([1, 1, 1, 2]))
    shown = replace(evidence(sockets=table), ends={"bulk": 0.9}, clients={"bulk": "client"})
    (chart, *_) = draw_run(shown, [Plot(series="rate")])
    first, last = chart.panels[0].series
    assert list(first.x) == pytest.approx([0, 0.1, 0.2, 0.3, 0.4, 0.8, 0.9])
    assert list(first.y) == pytest.approx([20e6] * 3 + [0] * 4)
    assert list(last.y) == pytest.approx([0] * 5 + [20e6] * 2)


def test_the_last_state_of_a_queue_is_not_joined_to_its_samples() -> None:
    times = [*range(0, 1000, 100), 2900]
    rows = {"time_ns": [ms * 10**6 for ms in times], "backlog_packets": [50] * 10 + [0], "direction": ["forward"] * 11}
    queues = pl.LazyFrame({**rows, "link": ["path0"] * 11})
    (chart,) = draw_run(evidence(queues=queues), [Plot(series="queue")])
    assert (chart.until, set(chart.panels[0].series[0].y)) == (0.9, {50.0})
    empty = pl.LazyFrame({**rows, "link": ["path1"] * 11, "backlog_packets": [0] * 11})
    (chart,) = draw_run(evidence(queues=pl.concat([queues, empty])), [Plot(series="queue")])
    assert "1 queue was empty in every sample." in chart.caption


def test_a_trace_is_a_curve_and_a_failure_is_a_mark(tmp_path: Path) -> None:
    (tmp_path / "topo.yaml").write_text(
        "version: 1\ntopology: multi-path\npaths: [{profile: 4g-lte, loss: 0%}, {rate: 20mbit, delay: 5ms}]\n"
        "events:\n  - {link: path0, trace: lte-drive}\n  - {at: 5s, for: 2s, link: path0, state: down}\n"
        "  - {at: 6s, link: path1, set: {rate: 5mbit}}\n"
    )
    topology = load(tmp_path / "topo.yaml", None).spec.topology
    marks = ["path0 down", "path1 5 Mbit/s", "path0 up"]
    assert [mark.text for mark in marks_of(topology)] == marks
    shown = replace(evidence(), link_rates=link_rates_of(topology), ends={"bulk": 10.0})
    (chart,) = draw_run(shown, [])
    forward, _, other = chart.panels[0].series
    assert (forward.label, forward.y[0], forward.x[-1], chart.until) == ("path0 forward", 2.97e6, 10.0, 10.0)
    assert (other.label, list(other.x), list(other.y)) == ("path1", [0, 6, 10], [20e6, 5e6, 5e6])


def test_a_buffer_falls_while_its_video_plays() -> None:
    """Two chunks of 2 s come before playback, the third comes in time, and the fourth after a stall of 3 s."""
    ends_ns, buffers_ns = (1e9, 2e9, 4e9, 11e9), (2e9, 4e9, 4e9, 2e9)
    chunks = pl.LazyFrame(
        {
            "flow": ["film"] * 4,
            "start_ns": [500_000_000] * 4,
            "delay_ns": [int(end - 5e8) for end in ends_ns],
            "size_bytes": [250_000, 250_000, 500_000, 250_000],
            "quality_bit_per_s": [1_000_000, 1_000_000, 2_000_000, 1_000_000],
            "buffer_ns": list(map(int, buffers_ns)),
        }
    )
    shown = RunData({"chunks": chunks}, ["film"], {})
    buffer, quality = draw_run(shown, [Plot(series="buffer"), Plot(series="quality")])
    (line,) = buffer.panels[0].series
    corners = [(0.5, 0), (1, 0), (1, 2), (2, 2), (2, 4), (4, 2), (4, 4), (8, 0), (11, 0), (11, 2), (13, 0)]
    assert list(zip(line.x, line.y, strict=True)) == corners
    (steps,) = quality.panels[0].series
    assert list(steps.y) == [1e6, 1e6, 2e6, 1e6, 1e6]
    assert steps.x[-1] == 11


def test_a_sequence_is_that_of_the_senders_capture() -> None:
    """The figure shows the larger of two connections. Retransmissions have a mark of their own."""
    rows = [(1, "client", "path0", 3000), (1, "server", "path0", 10)]
    names = ("capture", "connection", "subflow", "path", "source", "source_port", "destination", "destination_port")
    subflows = [
        (capture, connection, connection, "path0", "path0", 1, "r", 2, payload, 0)
        for capture in ("server", "client")
        for connection, payload in ((0, 100), (1, 3000))
    ]
    packets = [
        ("client", 1, 1, "forward", 10**9, 1000, 1000, 0, None),
        ("client", 1, 1, "forward", 2 * 10**9, 1000, 0, 0, "reinjection"),
        ("client", 1, 1, "forward", 3 * 10**9, 0, None, None, None),
        ("client", 1, 1, "reverse", 3 * 10**9, 10, 10, 0, None),
        ("client", 0, 0, "forward", 3 * 10**9, 100, 100, 0, None),
        ("server", 1, 1, "forward", 3 * 10**9, 1000, 1000, 1000, None),
    ]
    carried = ("forward_payload_bytes", "reverse_payload_bytes")
    columns = ("time_ns", "payload_bytes", "new_bytes", "data_offset_bytes", "repeat")
    tables = {
        "sockets": sockets(*rows),
        "subflows": pl.LazyFrame(subflows, [*names, *carried], orient="row"),
        "packets": pl.LazyFrame(
            packets, ["capture", "connection", "subflow", "way", *columns], orient="row"
        ).with_columns(subflow_offset_bytes=pl.lit(7)),
    }
    shown = RunData(tables, ["bulk"], {"path0": ["path0"]}, captures={"client": "client", "server": "server"})
    (chart,) = draw_run(shown, [Plot(series="sequence")])
    first, again = chart.panels[0].series
    assert (first.label, list(first.x), list(first.y)) == ("path0", [1.0], [0.0])
    assert (again.label, list(again.x), again.dash) == ("path0, reinjected", [2.0], 2)
    assert "that client captured" in chart.caption
    assert "most, of 2." in chart.caption
    (hint,) = lacking(evidence(sockets=sockets(*rows)), [Plot(series="sequence")])
    assert "mprun packets" in hint


def test_one_way_delays_have_a_plot_for_each_direction() -> None:
    names = ("from", "to", "flow", "path", "link", "state", "sent_ns", "delay_ns")
    rows = [
        # the ping of an idle path, before time zero
        ("client", "server", None, "path0", "l0", "received", -(10**9), 9_000_000),
        ("client", "server", "bulk", "path0", "l0", "received", 10**9, 10_000_000),
        ("client", "server", "bulk", "path0", "l0", "duplicate", 10**9, 11_000_000),
        ("client", "server", "bulk", "path0", "l0", "lost", 2 * 10**9, None),
        ("client", "server", "bulk", "path0", "l0", "unknown", 2 * 10**9, None),
        ("server", "client", None, "path1", "l1", "received", 3 * 10**9, 30_000_000),
    ]
    shown = evidence(one_way_delays=pl.LazyFrame(rows, names, orient="row"))
    (chart,) = draw_run(shown, [Plot(series="one_way_delay")])
    there, back = chart.panels
    assert (there.title, back.title) == ("client → server", "server → client")
    arrived, lost = there.series
    assert (arrived.label, arrived.tone, list(arrived.x), list(arrived.y)) == ("path0", "p0", [1, 1], [0.01, 0.011])
    assert (lost.label, lost.tone, list(lost.x), list(lost.y)) == ("path0, lost", "p0", [2], [0])
    assert "The 1 lost packets are marked at 0. Without 1 packets that may have arrived or not." in chart.caption
    (chart,) = draw_run(shown, [Plot(series="one_way_delay", form="cdf", flow="bulk")])
    (panel,) = chart.panels
    assert [list(series.y) for series in panel.series] == [[0.01]]
    assert "Without the 1 lost packets. Without 1 packets that may have arrived or not." in chart.caption
    idle = evidence(one_way_delays=pl.LazyFrame(rows[:1], names, orient="row"))
    assert list(draw_run(idle, [Plot(series="one_way_delay")])) == []
    (hint,) = lacking(evidence(), [Plot(series="one_way_delay")])
    assert "mprun packets" in hint


def test_a_sequence_of_sctp_is_found_by_its_ports() -> None:
    """A connection of TCP has the same port. The server sends, so its capture is used."""
    names = ("capture", "connection", "subflow", "path", "source", "source_port", "destination", "destination_port")
    carried = ("forward_payload_bytes", "reverse_payload_bytes")
    subflows = [
        (capture, connection, connection, "path0", "c", 1, "s", port, 0, 3000)
        for capture in ("client", "server")
        for connection, port in ((0, 5201), (1, 5201), (2, 5202))
    ]
    connections = [
        (capture, n, protocol) for capture in ("client", "server") for n, protocol in enumerate(("tcp", "sctp", "sctp"))
    ]
    columns = ("time_ns", "payload_bytes", "new_bytes", "data_offset_bytes", "repeat")
    packets = [
        (capture, connection, connection, "reverse", at * 10**9, 1000, 1000, 0, None)
        for at, capture in enumerate(("client", "server"))
        for connection in range(3)
    ]
    tables = {
        "connections": pl.LazyFrame(connections, ["capture", "connection", "protocol"], orient="row"),
        "subflows": pl.LazyFrame(subflows, [*names, *carried], orient="row"),
        "packets": pl.LazyFrame(
            packets, ["capture", "connection", "subflow", "way", *columns], orient="row"
        ).with_columns(subflow_offset_bytes=pl.lit(7)),
    }
    bulk = AssociationFlow("client", "server", frozenset({("s", 5201)}))
    captures = {"client": "client", "server": "server"}
    shown = RunData(tables, ["bulk"], {"path0": ["path0"]}, captures=captures, associations={"bulk": bulk})
    (chart,) = draw_run(shown, [Plot(series="sequence")])
    (series,) = chart.panels[0].series
    assert (series.label, list(series.x)) == ("path0", [1.0])
    assert "that server captured, by path." in chart.caption


def test_figures_without_data_are_named() -> None:
    plots = [Plot(series="cwnd", flow="bulk"), Plot(series="queue")]
    assert list(draw_run(evidence(), plots)) == []
    assert list(lacking(evidence(), plots)) == [
        "no figure 'cwnd' of bulk: the run has no sockets nor qlog_recovery to show",
        "no figure 'queue': the run has no queues to show",
    ]


def test_a_note_on_a_figure_without_data_names_what_exists() -> None:
    own = pl.LazyFrame({"flow": ["bulk"], "time_s": [0.1], "delay_s": [0.2], "size_bytes": [3], "word": ["a"]})
    pings = pl.LazyFrame({"flow": ["bulk"], "start_ns": [1], "rtt_ms": [40.0]})
    # the first and the last state of the queues are no course over time
    queues = pl.LazyFrame(
        {"time_ns": [0, 1], "link": ["path0"] * 2, "direction": ["forward"] * 2, "backlog_packets": [0, 0]}
    )
    found = evidence(answers=own, pings=pings, queues=queues)
    plots = [Plot(table="answers", column="delays"), Plot(table="answers", column="none"), Plot(series="goodput")]
    assert list(lacking(found, plots)) == [
        "no figure of 'delays': table answers has no such numbers over time: did you mean 'delay'?",
        "no figure of 'none': table answers has no such numbers over time; it has: delay, size",
        "no figure 'goodput': the run has no goodput to show; series with data: delay",
    ]


def test_flows_without_figures_of_their_own_are_told_of() -> None:
    flows = [f"f{n}" for n in range(6)]
    told = "figures of single flows are those of the first 4 of 6 flows: f0, f1, f2 and f3; `plots` asks for others"
    assert list(lacking(RunData({}, flows, {}), [])) == [told]
    assert list(lacking(RunData({}, flows, {}, background=frozenset(flows[4:])), [])) == []


def test_usual_figures_are_those_with_data() -> None:
    goodput = pl.LazyFrame(
        {"flow": ["bulk"], "direction": ["forth"], "start_s": [0.0], "end_s": [1.0], "goodput_bit_per_s": [8e6]}
    )
    requests = pl.LazyFrame({"flow": ["bulk"] * 2, "start_ns": [0, 10**9], "delay_ns": [5_000_000, 3_000_000]})
    charts = list(draw_run(evidence(goodput=goodput, requests=requests), []))
    assert [(chart.name, chart.form) for chart in charts] == [("goodput", "step"), ("delay", "cdf")]
    assert "2 answered requests" in charts[1].caption
    one = evidence(goodput=goodput, requests=requests.head(1))
    assert [chart.name for chart in draw_run(one, [])] == ["goodput"]
    assert [chart.name for chart in draw_run(one, [Plot(series="delay")])] == ["delay"]


@pytest.mark.parametrize("form", ["cdf", "points"])
def test_flows_that_are_not_drawn_are_told_of(form: PlotForm) -> None:
    flows = [f"f{n}" for n in range(15)]
    columns = {"flow": flows * 2, "start_ns": [0] * 30, "completion_ns": [10**9] * 30}
    shown = RunData({"flows": pl.LazyFrame(columns)}, flows, {})
    (chart,) = draw_run(shown, [Plot(series="completion", form=form)])
    assert len(chart.panels[0].series) == 12
    assert "24 completed flows" in chart.caption
    assert "The first 12 of 15." in chart.caption


def test_goodputs_that_are_not_drawn_are_told_of() -> None:
    flows = [f"f{n}" for n in range(15)]
    columns = {"flow": flows, "direction": ["forth"] * 15, "start_s": [0.0] * 15, "end_s": [1.0] * 15}
    rates = {"goodput_bit_per_s": [1e6] * 15}
    shown = RunData({"goodput": pl.LazyFrame({**columns, **rates})}, flows, {})
    (chart,) = draw_run(shown, [Plot(series="goodput")])
    assert len(chart.panels[0].series) == 12
    assert chart.caption.endswith("The first 12 of 15.")


def test_the_distribution_of_a_figure_is_that_of_its_csv() -> None:
    requests = pl.LazyFrame({"flow": ["bulk"] * 2, "start_ns": [10**9, 2 * 10**9], "delay_ns": [5_000_000, 3_000_000]})
    (chart,) = draw_run(evidence(requests=requests), [Plot(series="delay")])
    assert to_csv(chart).split() == ["series,delay_s,share", "bulk,0.003,0.5", "bulk,0.005,1"]


def test_requests_whose_beginning_is_not_known_have_a_distribution_only() -> None:
    columns = {"flow": ["bulk"] * 2, "start_ns": [None, None], "delay_ns": [5_000_000, 3_000_000]}
    requests = pl.LazyFrame(columns, schema_overrides={"start_ns": pl.Int64})
    assert [chart.name for chart in draw_run(evidence(requests=requests), [Plot(series="delay")])] == ["delay"]
    assert list(draw_run(evidence(requests=requests), [Plot(series="delay", form="points")])) == []


def test_goodputs_of_streams_are_lines_of_their_own() -> None:
    """Each stream of a flow has a line of its own. Only SCTP has streams, so other tables have no such column."""
    table = {
        "flow": ["bulk", "bulk", "web"],
        "direction": ["forth", "forth", "back"],
        "stream": [0, 1, 0],
        "start_s": [0.0, 0.0, 1.0],
        "end_s": [1.0, 1.0, 2.0],
        "goodput_bit_per_s": [1e6, 2e6, 3e6],
    }
    shown = RunData({"goodput": pl.LazyFrame(table)}, ["bulk", "web"], {})
    (chart,) = draw_run(shown, [Plot(series="goodput")])
    assert [series.label for series in chart.panels[0].series] == ["bulk, stream 0", "bulk, stream 1", "web, back"]
    del table["stream"]
    shown = RunData({"goodput": pl.LazyFrame(table)}, ["bulk", "web"], {})
    (chart,) = draw_run(shown, [Plot(series="goodput")])
    assert [series.label for series in chart.panels[0].series] == ["bulk", "web, back"]


def test_the_rest_of_a_flows_time_is_no_interval_of_its_own() -> None:
    """35 ms with the end of a burst, after intervals of a second, would show as a rate that no link has."""
    table = {"flow": ["bulk"] * 3, "direction": ["forth"] * 3, "start_s": [0.0, 1.0, 2.0], "end_s": [1.0, 2.0, 2.1]}
    rates = {"goodput_bit_per_s": [10e6, 10e6, 21e6]}
    shown = RunData({"goodput": pl.LazyFrame({**table, **rates})}, ["bulk"], {})
    (chart,) = draw_run(shown, [Plot(series="goodput")])
    (line,) = chart.panels[0].series
    assert list(line.x) == [0, 1, 2.1]
    assert list(line.y) == pytest.approx([10e6, 11e6, 11e6])


def test_all_figures_over_time_have_one_range() -> None:
    """A flow that starts late is drawn late.

    A change after the last value of one figure is marked in that figure too.
    """
    goodput = pl.LazyFrame(
        {"flow": ["bulk"], "direction": ["forth"], "start_s": [3.0], "end_s": [4.0], "goodput_bit_per_s": [8e6]}
    )
    pings = pl.LazyFrame({"flow": ["web"], "start_ns": [9 * 10**9], "rtt_ms": [40.0]})
    marks = (Mark(5.0, "path0 down"), Mark(9.5, "path0 up"))
    shown = RunData({"goodput": goodput, "pings": pings}, ["bulk", "web"], {}, marks=marks)
    plots = [Plot(series="goodput"), Plot(series="delay", form="points"), Plot(series="delay")]
    charts = list(draw_run(shown, plots))
    assert [chart.until for chart in charts] == [9.0, 9.0, None]
    assert [[mark.at for mark in chart.marks] for chart in charts] == [[5.0], [5.0], []]
    assert list(charts[0].panels[0].series[0].x) == [3.0, 4.0]
    (title, caption, numbers, line) = to_text(charts[0], 100)
    assert caption == "  Payload that bulk received: mean of each interval of its program."
    assert numbers.strip() == "1"
    assert title == "Goodput, 0 to 9.000 s"
    # 3 to 4 of 9 s in 60 characters
    assert (len(line[8:68]) - len(line[8:68].lstrip()), len(line[8:68].rstrip())) == (20, 27)


def test_an_axis_of_time_ends_where_its_report_does() -> None:
    """Its tick labels are the only numbers up to 40. The values end at 1 s."""
    chart = replace(CHARTS["points"], x=TIME, until=40.0)
    svg = paint(chart, WIDE, ("svg",))["svg"].decode()
    assert ">40</text>" in svg
    assert ">time (s)</text>" in svg
    assert ">40</text>" not in paint(replace(chart, until=None), WIDE, ("svg",))["svg"].decode()


def test_pings_are_drawn_when_they_were_sent() -> None:
    pings = pl.LazyFrame(
        {"flow": ["bulk"] * 3, "sequence": [1, 2, 4], "start_ns": [0, 10**8, 3 * 10**8], "rtt_ms": [40.0, 41.0, 42.0]}
    )
    (chart,) = draw_run(evidence(pings=pings), [Plot(series="delay", form="points")])
    (series,) = chart.panels[0].series
    assert list(series.x) == [0, 0.1, 0.3]
    assert list(series.y) == pytest.approx([0.040, 0.041, 0.042])


def test_a_copy_of_a_packet_is_no_delay_of_its_own() -> None:
    """The metrics do the same. The second ping had two answers, and the third had none."""
    columns = {"flow": ["bulk"] * 3, "sequence": [1, 2, 2], "start_ns": [0, 10**8, 10**8], "rtt_ms": [40.0, 41.0, 99.0]}
    (chart,) = draw_run(evidence(pings=pl.LazyFrame(columns)), [Plot(series="delay")])
    assert list(chart.panels[0].series[0].y) == pytest.approx([0.040, 0.041])
    assert chart.caption.startswith("Share of the 2 answered pings whose delay")


def test_flows_that_did_not_complete_are_told_of() -> None:
    columns = {"flow": ["bulk"] * 3, "start_ns": [0, 1, 2], "completion_ns": [10**9, None, 2 * 10**9]}
    (chart,) = draw_run(evidence(flows=pl.LazyFrame(columns)), [Plot(series="completion")])
    told = "Share of the 2 completed flows whose completion time was no longer than that. Without 1 that did not end."
    assert chart.caption == told


def test_change_of_a_link_in_words(tmp_path: Path) -> None:
    (tmp_path / "topo.yaml").write_text(
        "version: 1\ntopology: multi-path\npaths: [{rate: 20mbit, delay: 5ms}]\n"
        "events:\n  - {at: 1s, link: path0, set: {loss: 100%, rate: {forward: 5mbit}}}\n"
        "  - {at: 2s, link: path0, set: {loss: 0%}}\n"
    )
    topology = load(tmp_path / "topo.yaml", None).spec.topology
    states = [(topology.links[0].forward, topology.links[0].reverse)]
    states += [(change.forward, change.reverse) for change in topology.changes]  # type: ignore[union-attr]
    assert say_change(states[0], states[1], True, True) == "loss 100 %, forward 5 Mbit/s"
    assert say_change(states[1], states[2], True, True) == "no loss"
    assert say_change(states[2], states[2], False, True) == "down"


def test_page_is_one_file_and_trusts_no_text() -> None:
    evil = "<script>alert(1)</script>"
    svg = paint(CHARTS["line"], WIDE, ("svg",))["svg"].decode()
    page = Page(
        title=evil,
        description=evil,
        status="failed",
        verdict=evil,
        verdicts=[ExpectationRow(evil, evil, evil, False)],
        tiles=[],
        problems=[("warning", evil)],
        pictures=[Picture("c", evil, evil, svg, svg, (evil,), (("SVG", "figures/c.svg"),))],
        notes=[evil],
        grids=[],
        facts=[("run", evil)],
        repeat=[(evil, evil)],
        inputs={evil: evil},
    )
    text = render(page)
    assert evil not in text
    # a narrow page breaks a name after its dot only
    named = replace(page, verdicts=[ExpectationRow("bulk.goodput", "1", "1", True)])
    assert "<td>bulk.<wbr>goodput</td>" in render(named)
    assert text == render(page)
    assert not re.findall(r'(?:src|href)="(?:https?:)?//', text)
    assert "var(--0072b2)" in text


def test_lost_packets_in_a_terminal_have_a_number_and_no_delay() -> None:
    lost = Series("wifi, lost", "p0", (0, 1, 2), (0, 0, 0), dash=2, is_lost=True)
    came = Series("wifi", "p0", (0, 1, 2), (0.02, 0.03, 0.02))
    chart = Chart("c", "Delay", "", "points", figure.TIME, ChartAxis("delay", "s"), (Panel("", (came, lost)),))
    assert [line.split("  ")[-1] for line in list(to_text(chart, 80))[1:]] == ["20.000 ms to 30.000 ms", "3 packets"]


def test_a_line_of_text_shows_the_last_value_until_the_next() -> None:
    """Both values fall into the first part of the time."""
    falls = Series("a", "p0", [0.0, 0.1, 10.0], [20e6, 5e6, 5e6])
    chart = Chart("rates", "Rates", "", "step", TIME, ChartAxis("rate", "packets"), (Panel("", (falls,)),))
    _, line = to_text(chart, 100)
    assert line.split()[1].startswith("▅▃▃")
    assert set(line.split()[1][1:]) == {"▃"}


def test_figures_in_a_terminal() -> None:
    steps = Series("path0", "p0", (0, 1, 2, 3), (0, 10e6, 20e6, 20e6))
    chart = Chart("c", "Rate", "", "step", figure.TIME, ChartAxis("rate", "bit/s"), (Panel("", (steps,)),))
    title, line = to_text(chart, 100)
    letters = line.split()[1]
    assert title == "Rate, 0 to 3.000 s"
    assert (letters[0], letters[-1], len(letters)) == ("▁", "█", 60)
    # a third of the time is zero, a third is half of the maximum (level 3.5 of 0 to 7), and a third is the maximum
    assert [letters.count(letter) for letter in "▁▅█"] == [20, 20, 20]
    assert line.endswith("0 bit/s to 20.00 Mbit/s")
    # unknown values are neither the minimum nor the maximum
    joined = replace(steps, y=(math.nan, 10e6, 20e6, 20e6))
    (line,) = list(to_text(replace(chart, panels=(Panel("", (joined,)),)), 100))[1:]
    assert line.endswith("10.00 Mbit/s to 20.00 Mbit/s")
    # a point applies to its moment only
    dots = replace(chart, form="points", panels=(Panel("", (replace(steps, x=(0, 1, 2, 30)),)),))
    (line,) = list(to_text(dots, 100))[1:]
    assert [line.count(letter) for letter in "▁▅█"] == [1, 1, 2]


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (36_930_000, "bit/s", "36.93 Mbit/s"),
        (-999, "bit/s", "-999 bit/s"),
        (99_999, "byte", "100.00 kB"),
        (5e9, "byte", "5.00 GB"),
        (-2_000_000, "byte", "-2.00 MB"),
        (0, "byte", "0 B"),
        (0.0004, "s", "0.400 ms"),
        (-1.5, "s", "-1.500 s"),
        (0.501, "share", "50.1 %"),
        (0, "share", "0.0 %"),
        (0.0005, "share", "0.1 %"),
        (0.0004, "share", "0.04 %"),
        (-2e-6, "share", "-0.0002 %"),
        (3e-8, "share", "0.0 %"),
        (0.9996, "share", "99.960 %"),
        (1, "share", "100.0 %"),
        (3, "1", "3"),
    ],
)
def test_values_as_people_say_them(value: float, unit: str, text: str) -> None:
    assert format_measured(value, unit) == text


@pytest.mark.parametrize(
    ("mean", "half", "unit", "text"),
    [
        (36.9e6, 123_456.0, "bit/s", "36.90 ± 0.12 Mbit/s"),
        (955_680.0, 0.34, "bit/s", "955.68000 ± 0.00034 kbit/s"),
        (8.6e6, 1.2e-7, "bit/s", "8.60 ± 0 Mbit/s"),
        (8.6e6, 0.0, "bit/s", "8.60 ± 0 Mbit/s"),
        (11.16e6, 50.0, "bit/s", "11.16 ± <0.0001 Mbit/s"),
        (0.04, 0.0015, "s", "40.0 ± 1.5 ms"),
        (0.5, 0.25, "share", "50 ± 25 %"),
        (3.0, 1.0, "1", "3.0 ± 1.0"),
        (36.9e6, 123e6, "bit/s", "37 ± 120 Mbit/s"),
        (4.538e6, 5e3, "bit/s", "4.5380 ± 0.0050 Mbit/s"),
        (0.02, 9.96e-3, "s", "20 ± 10 ms"),
        (0.0, 0.0, "bit/s", "0 ± 0 bit/s"),
    ],
)
def test_a_mean_with_its_interval(mean: float, half: float, unit: Symbol, text: str) -> None:
    metric = Statistic(unit, 2, mean, mean, t95=(mean - half, mean + half))
    metrics = {"a.b": metric, "a.c": replace(metric, t95=None)}
    # `format_measured` has 4.54 Mbit/s
    alone = {4.538e6: "4.538 Mbit/s"}.get(mean, format_measured(mean, unit))
    for name, shown in zip(metrics, (text, alone), strict=True):
        table = table_of_sweep([CELL._replace(runs=RunCounts(2, 0, 0), metrics=metrics)], [name], 0.95)
        number, _, said = shown.rpartition(" ") if unit != "1" else (shown, "", "")
        assert (table.head[-1], str(table.rows[0][-1])) == (f"{name} ({said})" if said else name, number)


def test_marks_in_a_terminal() -> None:
    steps = Series("path0", "p0", (0, 10), (1e6, 1e6))
    axes = (figure.TIME, ChartAxis("rate", "bit/s"))
    marks = (Mark(2.5, "path0 down"), Mark(2.6, "too near"), Mark(5, "path0 up"))
    chart = Chart("c", "Rate", "", "step", *axes, (Panel("", (steps,)),), marks)
    _, numbers, line = to_text(chart, 100)
    # a quarter and a half of 60 letters
    assert (numbers.index("1"), numbers.index("3"), "2" in numbers) == (
        line.index("█") + 15,
        line.index("█") + 30,
        False,
    )
    assert list(list_marks([chart])) == ["  1  2.5 s: path0 down", "  2  2.6 s: too near", "  3  5 s: path0 up"]


def test_distribution_in_a_terminal() -> None:
    delays = Series("web", "f0", range(100), [n / 1000 for n in range(1, 101)])
    chart = Chart(
        "c", "Delay", "", "cdf", ChartAxis("delay", "s"), ChartAxis("share", "share"), (Panel("", (delays,)),)
    )
    assert list(to_text(chart, 100))[1] == "  web  p50 50.500 ms  p90 90.100 ms  p99 99.010 ms"
    single = replace(chart, panels=(Panel("", (Series("web", "f0", [0], [14.551]),)),))
    assert list(to_text(single, 100))[1] == "  web  14.551 s"
    # the percentiles of the metrics of these delays
    metrics = summarize_delays("delay", [round(delay * 1e9) for delay in delays.y])
    assert [metrics["delay.median"], metrics["delay.p99"]] == pytest.approx([0.0505, 0.09901])


def test_bars_in_a_terminal() -> None:
    lines = list(to_text(CHARTS["bar"], 100))
    assert lines[2:5] == ["  a", f"    default     {'█' * 30} 1.00 Mbit/s", f"    roundrobin  {'█' * 60} 2.00 Mbit/s"]


def test_figures_of_one_name_do_not_replace_each_other() -> None:
    gallery = Gallery()
    for chart in (CHARTS["step"], CHARTS["stack"], CHARTS["line"]):
        gallery.add(chart)
    assert [picture.name for picture in gallery.pictures] == ["c", "c.2", "c.3"]
    assert len(gallery.files) == 12


def test_main_metrics_of_a_run() -> None:
    shares = ["bulk.share.path0", "bulk.share.path1", "bulk.share.stdev.path0"]
    names = [
        "path0.rtt",
        "path1.rtt",
        "bulk.goodput",
        "bulk.bytes",
        "bulk.subflows",
        *shares,
        "bulk.mine",
        "bulk.srtt.path0",
    ]
    assert choose_main(names, []) == ["bulk.goodput", "bulk.subflows", "bulk.share.path0", "bulk.share.path1"]
    assert choose_main(names, ["path0.rtt", "bulk.goodput"], ["bulk.mine"]) == [
        *(
            "path0.rtt",
            "path1.rtt",
            "bulk.goodput",
            "bulk.subflows",
            "bulk.share.path0",
            "bulk.share.path1",
            "bulk.mine",
        ),
    ]
    many = [f"flow{n}.goodput" for n in range(9)]
    assert choose_main([*many, "total.goodput"], []) == many[:5]
    assert choose_main(["a.odd", "b.odd"], []) == ["a.odd", "b.odd"]
    four = ["bulk.goodput", "bulk.subflows", *(f"bulk.share.path{n}" for n in range(4)), "path0.rtt"]
    assert choose_main(four, []) == four[:6]
    # the statistics of one value do not push it out
    pings = ["path0.rtt", "path1.rtt", "p.loss", "p.rtt", "p.rtt.min", "p.rtt.max", "p.rtt.mdev"]
    assert choose_main(pings, []) == pings[:4]


def test_a_single_request_has_one_delay() -> None:
    names = ("get.delay.mean", "get.delay.median", "get.delay.p95", "get.delay.max", "get.completion", "ask.rtt.max")
    metrics: dict[str, MetricValue] = {name: MetricValue(4.4, "s") for name in names}
    assert find_repeated({**metrics, "get.requests": MetricValue(2, "1")}) == set()
    assert find_repeated({**metrics, "get.requests": MetricValue(1, "1")}) == set(names[1:4])


def test_a_plot_has_titles_names_and_a_width() -> None:
    rows = [(ms, "client", path, ms * 2500) for ms in range(100, 600, 100) for path in ("path0", "path1")]
    plot = Plot(
        series="rate", x_title="since start", y_title="throughput", names=(("path0", "Wi-Fi"),), width_um=178_000
    )
    (chart,) = draw_run(evidence(sockets=sockets(*rows)), [plot])
    assert [series.label for series in chart.panels[0].series] == ["Wi-Fi", "path1"]
    assert [mark.text for mark in chart.marks] == ["Wi-Fi down"]
    # the time axis remains one, and the columns of the data keep their names
    assert (chart.is_over_time, chart.until) == (True, 0.5)
    assert to_csv(chart).splitlines()[0] == "series,time_s,rate_bit_per_s"
    svg = paint(chart, WIDE, ("svg",))["svg"].decode()
    assert "since start (ms)" in svg
    assert "throughput (Mbit/s)" in svg
    gallery = Gallery()
    gallery.add(chart)
    (box,) = re.findall(rb"/MediaBox \[ 0 0 ([0-9.]+) ", gallery.files["rate-bulk.pdf"])
    assert float(box) == pytest.approx(178 / 25.4 * 72, abs=0.1)


def test_only_whole_names_are_replaced() -> None:
    series = tuple(
        Series(label, "p0", (0, 1), (1, 2)) for label in ("cc", "cc cubic", "acc", "cc.x", "xp-cc", "b", "a")
    )
    chart = replace(CHARTS["line"], panels=(Panel("cc", series),), title="over cc, by cc.")
    shown = figure.dress(chart, Plot(metric="m", names=(("cc", "control"), ("a", "b"), ("b", "a"))))
    labels = [one.label for one in shown.panels[0].series]
    assert labels == ["control", "control cubic", "acc", "cc.x", "xp-cc", "a", "b"]
    assert (shown.panels[0].title, shown.title) == ("control", "over control, by control.")


def test_a_report_of_an_earlier_version_has_reading_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes of a flow came before its goodput, in the order of the alphabet."""
    monkeypatch.chdir(tmp_path)
    text = _report_of(copy_run(tmp_path / "runs"))
    assert re.findall("<td>(bytes|goodput|retransmits)<small>", text) == ["goodput", "bytes", "retransmits"]


def test_a_report_links_the_files_of_its_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = copy_run(tmp_path / "runs")
    for folder in ("files", "products", "pcap"):
        shutil.rmtree(run / folder, ignore_errors=True)
    assert "<h2>Files</h2>" not in _report_of(run)
    names = ("files/get/client.sqlog", "files/get/a b&<i>#.txt", "products/own/deep/down/program", "pcap/client.pcap")
    for name in names:
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_bytes(b"x" * 1500)
    text = _report_of(run)
    links = re.findall(r'<li><a href="([^"]*)">([^<]*)</a> <small>([^<]*)</small></li>', text)
    assert links == [
        ("pcap/client.pcap", "pcap/client.pcap", "1.50 kB"),
        ("files/get/a%20b%26%3Ci%3E%23.txt", "files/get/a b&amp;&lt;i&gt;#.txt", "1.50 kB"),
        ("files/get/client.sqlog", "files/get/client.sqlog", "1.50 kB"),
        ("products/own/deep/down/program", "products/own/deep/down/program", "1.50 kB"),
    ]
    assert _report_of(run) == text
    for number in range(28):
        (run / "files" / "get" / f"z{number:02}").write_bytes(b"")
    text = _report_of(run)
    assert text.count('<li><a href="') == 30
    assert "2 more files are in the run directory." in text
    (run / "files" / "get" / "z00").unlink()
    assert "1 more file is in the run directory." in _report_of(run)
    # a run that ended early says what it left
    (run / "summary.json").unlink()
    (run / "incomplete").touch()
    said = str(CliRunner().invoke(group, ["show", run.name]).exception)
    assert "did not get so far; it left pcap/client.pcap (1.50 kB), files/get/" in said


def _report_of(run: Path) -> str:
    made = CliRunner().invoke(group, ["report", run.name], catch_exceptions=False)
    assert made.exit_code == 0, made.output
    return (run / "report.html").read_text()


@pytest.mark.parametrize(
    ("value", "unit", "bound", "held", "text"),
    [
        (2.738995, "s", 2.739, False, "2.738995 s"),
        (0.0123454, "s", 0.012345, False, "12.3454 ms"),
        (36.0001e6, "bit/s", 36e6, False, "36.0001 Mbit/s"),
        (0.50002, "share", 0.5, False, "50.002 %"),
        (2.0000001, "1", 2.0, False, "2.0000001"),
        (2.738995, "s", 2.5, False, "2.739 s"),
        (2.739, "s", 2.739, True, "2.739 s"),
    ],
)
def test_a_value_that_misses_a_bound_does_not_look_like_it(
    value: float, unit: Symbol, bound: float, held: bool, text: str
) -> None:
    """`2.739 s  ✗ = 2.739 s`."""
    verdict = ExpectationVerdict("x", minimum=None, maximum=None, equals=bound, value=value, held=held)
    assert format_judged(MetricValue(value, unit), [verdict]) == text
