# SPDX-License-Identifier: Apache-2.0
"""Paint the figures of a report, and collect their pictures and files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from mprun.errors import MachineError
from mprun.model.spec import Spec, TopologySpec
from mprun.reports.chart import COLUMN, WIDE, lay_out, paint
from mprun.reports.dot import render, to_dot
from mprun.reports.drawing import draw
from mprun.reports.figure import Chart, to_csv
from mprun.reports.page import Picture
from mprun.safety.cell import write_rows
from mprun.safety.text import untaken
from mprun.storage.output_directory import FIGURES

_WIDTH = re.compile(r'<svg width="([0-9.]+)pt"')
# A drawing up to this width leaves room for a figure beside it, on a page of 1100 pixels or more.
COLUMN_PT = 410

PageProgress = Callable[[str, float], None]


class Gallery:
    """The figures of a page, and their files."""

    def __init__(self) -> None:
        self.pictures: list[Picture] = []
        self.files: dict[str, bytes] = {}

    def add(self, chart: Chart) -> None:
        """Paint a figure. If its name is taken, as by the same figure in another form, it gets a number."""
        chart = replace(chart, name=untaken(chart.name, [picture.name for picture in self.pictures]))
        wide, column = paint(chart, WIDE, ("svg", "png", "values")), paint(chart, COLUMN, ("svg", "pdf"))
        on_paper = column if chart.width_um is None else paint(chart, lay_out(chart.width_um), ("pdf",))
        files = {"svg": wide["svg"], "pdf": on_paper["pdf"], "png": wide["png"], "csv": to_csv(chart).encode()}
        marks = tuple(f"{mark.at:g} s: {mark.text}" for mark in chart.marks)
        words = (chart.name, chart.title, chart.caption)
        picture = Picture(*words, wide["svg"].decode(), column["svg"].decode(), marks, values=wide["values"].decode())
        self._hang(picture, files)

    def add_all(self, charts: Sequence[Chart], progress: PageProgress) -> None:
        """Paint figures. progress: gets the title of each, and the share of the page that is done before it."""
        for number, chart in enumerate(charts):
            progress(f"drawing {chart.title}", (number + 1) / (len(charts) + 1))
            self.add(chart)

    def add_drawing(self, title: str, caption: str, files: Mapping[str, bytes]) -> None:
        svg = files["svg"].decode()
        width = _WIDTH.search(svg)
        fits_column = width is not None and float(width[1]) <= COLUMN_PT
        self._hang(Picture("topology", title, caption, svg, is_broad=True, fits_column=fits_column), files)

    def _hang(self, picture: Picture, files: Mapping[str, bytes]) -> None:
        self.files |= {f"{picture.name}.{kind}": content for kind, content in files.items()}
        links = tuple((kind.upper(), f"{FIGURES}/{picture.name}.{kind}") for kind in files)
        self.pictures.append(replace(picture, files=links))


def draw_topology(spec: Spec, gallery: Gallery, caption: str) -> Iterator[str]:
    """Add the picture of the network. Yield a note if it cannot be drawn."""
    drawing = draw(spec.topology, spec.experiment.traffic)
    dot = to_dot(drawing)
    try:
        files = {kind: render(dot, kind) for kind in ("svg", "pdf", "png")}
    except MachineError as error:
        yield f"The network is not drawn: {error}"
        return
    files["csv"] = _links_csv(spec.topology).encode()
    gallery.add_drawing("Network", caption, files)


def _links_csv(topology: TopologySpec) -> str:
    rows: list[list[object]] = [
        ["link", "from", "to", "rate_bit_per_s", "delay_ns", "loss_share", "queue", "queue_unit"]
    ]
    for link in topology.links:
        for ends, way in ((link.ends, link.forward), (link.ends[::-1], link.reverse)):
            loss = way.loss.mean if way.loss else 0
            queue = (way.queue.amount, way.queue.unit) if way.queue else (None, None)
            rows.append([link.name, *ends, way.rate_bit_per_s or None, way.delay_ns, loss, *queue])
    return write_rows(rows)
