# SPDX-License-Identifier: Apache-2.0
"""Paint a `Chart` with matplotlib: as wide as a page, or as a column of a paper. Not pure: it loads fonts.

With the same matplotlib, equal charts give equal bytes: there are no dates, and names of elements come from the chart.
"""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import matplotlib as mpl
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator

from mprun.model.frozen import Frozen
from mprun.model.units import find_prefix
from mprun.reports import figure
from mprun.reports.figure import Chart, ChartAxis, Panel, Series
from mprun.reports.palette import GREY, GRID, INK, PAPER, TONES
from mprun.safety.folder import Folder

# values: JSON for the pointer on a page, with the places of the plots in the SVG and the values of their lines.
Image = Literal["svg", "pdf", "png", "values"]


class ChartSize(Frozen):
    """The size of a figure.

    - width, height: inches, of a figure with one panel.
    - across: the number of panels side by side.
    - letters: the number of letters in a line of the legend.
    """

    width: float
    height: float
    font_points: float
    across: int
    letters: int


# 614 pixels on a screen, and the 85 mm of a column.
WIDE = ChartSize(6.4, 2.9, 9.5, 3, 88)
COLUMN = ChartSize(85 / 25.4, 2.35, 7.5, 2, 52)

# The height of a wider figure, and the width of a letter of its legend, as in a column.
MOST_HEIGHT = 3.0
PNG_DPI = 200
DASHES: Sequence[Any] = ("-", (0, (4, 1.5)), (0, (1, 1)), (0, (5, 1, 1, 1)))
MARKERS = ("o", "s", "^", "D")
# Marks of a change: better, worse, and neither.
EFFECT_MARKS = ("o", "X", "d")
# A change that is more than this many times the value needs a logarithmic axis.
MOST_LINEAR = 3
# The share of a time axis that stays free at its right end.
TIME_MARGIN = 0.01
# A logarithmic axis whose ends have a smaller ratio than this has ticks at 1, 2 and 5.
MOST_SHORT = 500
# Up to this number, points are drawn large.
MOST_LARGE = 200
# Points of a figure with more of them are this much larger in its legend.
LEGEND_SCALE = 2.5
# The values of a line that a page shows under the pointer.
MOST_VALUES = 600
# Up to this number of cells, a heat map shows their values.
MOST_WRITTEN = 120
_FONTS = "'DejaVu Sans', Verdana, sans-serif"
_TAG = re.compile("<[^>]*>")
_NAMED = re.compile(r'(\bid="|url\(#|href="#)')

# Metadata of images about the time and the program that made them.
_NOTHING: Mapping[str, dict[str, Any]] = {
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Producer": None, "Creator": None},
    "png": {"Software": None},
}


def lay_out(width_um: int | None) -> ChartSize:
    """Return the layout of a figure of this width on paper; of a paper's column for None."""
    if width_um is None:
        return COLUMN
    width = width_um / 25_400
    height = min(MOST_HEIGHT, max(0.8, width / COLUMN.width) * COLUMN.height)
    across = max(1, min(WIDE.across, round(width / COLUMN.width * COLUMN.across)))
    return ChartSize(width, height, COLUMN.font_points, across, round(COLUMN.letters * width / COLUMN.width))


def paint(chart: Chart, layout: ChartSize, images: Sequence[Image]) -> dict[str, bytes]:
    """Return the picture by the kind of image. svg: a document with text as text, in colours for `palette.themed`."""
    painted: dict[str, bytes] = {}
    with mpl.rc_context(_settings(layout, chart.name)):  # type: ignore[arg-type]
        painting = _Painting(chart, layout)
        whole = painting.figure
        whole.draw_without_rendering()
        whole.set_layout_engine("none")
        for image in images:
            if image == "values":
                painted[image] = painting.locate_values()
                continue
            target = io.BytesIO()
            whole.savefig(target, format=image, dpi=PNG_DPI, metadata=_NOTHING[image])
            painted[image] = target.getvalue()
    if "svg" in painted:
        # names of elements must be unique, because a page may contain several pictures; a slug has no colon
        prefix = f"{chart.name}:{'w' if layout is WIDE else 'c'}:"
        painted["svg"] = _TAG.sub(lambda tag: _adapt(tag[0], prefix), painted["svg"].decode()).encode()
    return painted


def write_svg(folder: Folder, chart: Chart) -> None:
    """Write a chart, as wide as a page, to NAME.svg."""
    folder.write_bytes(f"{chart.name}.svg", paint(chart, WIDE, ("svg",))["svg"])


def _adapt(tag: str, prefix: str) -> str:
    """Return a tag with our fonts and ink, and with a prefix before the names of elements."""
    tag = tag.replace("'DejaVu Sans'", _FONTS).replace("#000000", INK)
    return _NAMED.sub(lambda found: found[0] + prefix, tag)


def _settings(layout: ChartSize, salt: str) -> dict[str, Any]:
    size = layout.font_points
    return {
        "svg.fonttype": "none",
        "svg.hashsalt": salt,
        "pdf.fonttype": 42,
        # a text with two dollar signs is a text, not a formula
        "text.parse_math": False,
        "font.family": "DejaVu Sans",
        **dict.fromkeys(("font.size", "axes.titlesize", "axes.labelsize"), size),
        **dict.fromkeys(("xtick.labelsize", "ytick.labelsize", "legend.fontsize"), size * 0.92),
        **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.labelcolor", "ytick.labelcolor"), INK),
        **dict.fromkeys(("axes.edgecolor", "xtick.color", "ytick.color"), GREY),
        **dict.fromkeys(("figure.facecolor", "savefig.facecolor"), PAPER),
        **dict.fromkeys(("axes.spines.top", "axes.spines.right"), False),
        **dict.fromkeys(("axes.grid", "axes.axisbelow"), True),
        "axes.prop_cycle": cycler(color=[INK]),
        "axes.facecolor": "none",
        "axes.linewidth": 0.7,
        "grid.color": GRID,
        "grid.linewidth": 0.6,
        "lines.linewidth": size / 6.8,
        "hatch.linewidth": 0.5,
    }


class _Painting:
    """A chart on matplotlib's axes."""

    def __init__(self, chart: Chart, layout: ChartSize) -> None:
        if chart.form == "effect" and layout.width < WIDE.width:
            # names of metrics take half of a column
            layout = replace(layout, across=1)
        self._chart = chart
        self._layout = layout
        self._colours: tuple[Any, str] | None = None
        along = [x for series in chart.series for x in series.along(chart.form)]
        self._x = _scale(chart.x, along if chart.until is None else [*along, chart.until])
        self._y = _scale(chart.y, _extent(chart))
        rows = math.ceil(len(chart.panels) / layout.across)
        across = min(len(chart.panels), layout.across)
        height = self._height(rows)
        self.figure = Figure(figsize=(layout.width, height), layout="constrained")
        FigureCanvasAgg(self.figure)
        grid = self.figure.subplots(rows, across, sharex=True, sharey=True, squeeze=False)
        every = list(grid.flat)
        self._shown = shown = every[: len(chart.panels)]
        for axes, panel in zip(shown, chart.panels, strict=True):
            self._paint(axes, panel)
        # only after all panels are painted, because they share their axes
        for axes in shown:
            self._set_axes(axes)
            self._add_marks(axes)
        for axes in every[len(shown) :]:
            axes.remove()
        if self._colours is not None:
            # one bar for all panels, which share the scale; the figure's title names the quantity
            mesh, unit = self._colours
            bar = self.figure.colorbar(mesh, ax=shown, pad=0.02)
            bar.set_label(unit)
            bar.outline.set_visible(False)
        for n, axes in enumerate(shown):
            below = n + across < len(chart.panels)
            if not below:
                bend = f"±{self._x([1.0])[0]:g} {self._x.unit}"
                bent = f"\nlinear up to {bend}, then logarithmic" if axes.get_xscale() == "symlog" else ""
                axes.set_xlabel(self._x.title + bent)
                axes.xaxis.set_tick_params(labelbottom=True)
            if n % across == 0 and chart.form != "effect":
                axes.set_ylabel(self._y.title)
        self._add_legend(every[0])

    def locate_values(self) -> bytes:
        """Return the places of plots in the SVG, the ends of their x axes, and their lines in the shown units, as JSON.

        Places are in points from the left and the top. Only figures with numbers on a linear axis have values.
        """
        chart = self._chart
        if chart.form not in ("line", "step", "stack", "points") or chart.x.categories or chart.x.scale == "log":
            return b""
        height = self.figure.get_figheight()
        plots = []
        for axes, panel in zip(self._shown, chart.panels, strict=True):
            ends = axes.get_window_extent().transformed(self.figure.dpi_scale_trans.inverted()).extents
            left, bottom, right, top = (float(inches) for inches in ends)
            lines = []
            for one in panel.series:
                x, y = figure.thin(one.x, one.y, MOST_VALUES)
                values = [None if math.isnan(v) else float(f"{v:.4g}") for v in self._y(y)]
                lines.append([one.label, [float(f"{v:.6g}") for v in self._x(x)], values])
            box = [round(72 * inches, 1) for inches in (left, height - top, right, height - bottom)]
            plots.append({"box": box, "ends": [float(end) for end in axes.get_xlim()], "lines": lines})
        found = {"plots": plots, "units": [self._x.unit, self._y.unit], "holds": chart.form in ("step", "stack")}
        return json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode()

    def _height(self, rows: int) -> float:
        one = self._layout.height
        if self._chart.form == "effect":
            # a row has the height of two lines of text, and the axis and the legend have room of their own
            return 0.95 + rows * (0.3 + len(self._chart.y.categories) * self._layout.font_points / 72 * 1.9)
        if self._chart.form == "heat":
            categories = len(self._chart.y.categories)
            one = max(one * 0.6, 0.9 + categories * self._layout.font_points / 72 * 2.2)
        return one if rows == 1 else 0.35 + rows * one * 0.72

    def _paint(self, axes: Axes, panel: Panel) -> None:
        chart = self._chart
        if len(chart.panels) > 1:
            axes.set_title(panel.title, loc="left")
        painters: Mapping[str, Callable[[Axes, Panel], None]] = {
            **dict.fromkeys(("line", "step", "points", "cdf"), self._lines),
            "stack": self._stack,
            "bar": self._bars,
            "box": self._boxes,
            "heat": self._heat,
            "effect": self._effects,
        }
        painters[chart.form](axes, panel)

    def _lines(self, axes: Axes, panel: Panel) -> None:
        form = self._chart.form
        for series in panel.series:
            # a dashed line lies on a solid line of the same values, so that both are visible
            order = 2 + (series.dash % len(DASHES)) / len(DASHES)
            look: dict[str, Any] = {"color": TONES[series.tone], "zorder": order, "label": series.label}
            dash, marker = DASHES[series.dash % len(DASHES)], MARKERS[series.dash % len(MARKERS)]
            x, y = series.x, series.y
            if form == "cdf":
                x, y = figure.cumulate(y)
                x, y = [x[0], *x], [0.0, *y]
            x, y = figure.thin(x, y)
            shown = self._x(x), self._y(y)
            if form in ("step", "cdf"):
                axes.step(*shown, where="post", linestyle=dash, **look)
            elif form == "points":
                # a few points must be visible, and many must not hide each other
                larger = 2 if series.dash or len(x) <= MOST_LARGE else 1
                size = self._layout.font_points / 4.5 * larger
                # a point at the end of an axis is drawn whole
                axes.plot(*shown, marker, markersize=size, mew=0, clip_on=False, **look)
            else:
                axes.plot(*shown, linestyle=dash, marker=marker if len(x) <= 40 else "", markersize=3, **look)
                if series.low:
                    low, high = self._y(series.low), self._y(series.high)
                    axes.fill_between(self._x(series.x), low, high, color=look["color"], alpha=0.2, linewidth=0)

    def _stack(self, axes: Axes, panel: Panel) -> None:
        below: Sequence[float] = ()
        for series in panel.series:
            moments, row = (figure.average(values) for values in (series.x, series.y))
            below = below or [0.0] * len(row)
            top = [low + value for low, value in zip(below, self._y(row), strict=True)]
            hatch = ("", "////", "....", "xxxx")[series.dash % 4]
            look: dict[str, Any] = {"facecolor": TONES[series.tone], "hatch": hatch, "edgecolor": PAPER}
            axes.fill_between(self._x(moments), below, top, step="post", linewidth=0.4, label=series.label, **look)
            below = top

    def _bars(self, axes: Axes, panel: Panel) -> None:
        for series, centres, width in _place_beside(panel):
            bars = self._y(series.y)
            axes.bar(centres, bars, width * 0.9, color=TONES[series.tone], label=series.label, linewidth=0)
            if series.low:
                errors = _errors(bars, self._y(series.low), self._y(series.high))
                axes.errorbar(centres, bars, errors, fmt="none", ecolor=INK, elinewidth=0.9, capsize=2)

    def _boxes(self, axes: Axes, panel: Panel) -> None:
        for series, centres, width in _place_beside(panel):
            colour = TONES[series.tone]
            line = {"color": colour, "linewidth": 1}
            boxes = axes.boxplot(
                [self._y(samples) for samples in series.samples],
                positions=centres,
                widths=width * 0.75,
                manage_ticks=False,
                patch_artist=True,
                boxprops={"facecolor": colour, "edgecolor": colour, "alpha": 0.45},
                whiskerprops=line,
                capprops=line,
                medianprops={"color": INK, "linewidth": 1.2},
                flierprops={"marker": "o", "markersize": 2, "markerfacecolor": colour, "markeredgewidth": 0},
            )
            boxes["boxes"][0].set_label(series.label)

    def _heat(self, axes: Axes, panel: Panel) -> None:
        value = self._chart.value
        assert value is not None
        every = [y for series in self._chart.series for y in series.y]
        scale = _scale(value, every)
        known = [y for y in scale(every) if not math.isnan(y)] or [0.0]
        low, high = min(0.0, *known), max(known)
        colours = LinearSegmentedColormap.from_list("values", ["#f3f7fb", "#7fb3d9", "#0072b2", "#0b2f52"])
        rows = [scale(series.y) for series in panel.series]
        mesh = axes.pcolormesh(rows, cmap=colours, vmin=low, vmax=high, edgecolors=PAPER, linewidth=0.8)
        axes.grid(False)
        if sum(map(len, rows)) <= MOST_WRITTEN:
            for n, row in enumerate(rows):
                for m, number in enumerate(row):
                    # white on the dark half of the colours; a theme does not replace this white
                    ink = "#fefefe" if high > low and (number - low) / (high - low) > 0.5 else "#101010"
                    said = "–" if math.isnan(number) else f"{number:.3g}"
                    axes.text(m + 0.5, n + 0.5, said, ha="center", va="center", color=ink, fontsize="small")
        self._colours = mesh, scale.unit

    def _effects(self, axes: Axes, panel: Panel) -> None:
        size = self._layout.font_points
        axes.axvline(0, color=GREY, linewidth=0.8)
        for series in panel.series:
            colour, shown = TONES[series.tone], self._x(series.x)
            axes.hlines(series.y, 0, shown, color=colour, linewidth=size / 4, alpha=0.35)
            if series.low:
                errors = _errors(shown, self._x(series.low), self._x(series.high))
                axes.errorbar(shown, series.y, xerr=errors, fmt="none", ecolor=INK, elinewidth=0.9, capsize=2)
            mark = EFFECT_MARKS[series.dash % len(EFFECT_MARKS)]
            axes.plot(shown, series.y, mark, color=colour, markersize=size / 1.6, mew=0, label=series.label)
            for n, (x, y, base) in enumerate(zip(shown, series.y, series.x, strict=True)):
                # beside the mark, or beside the end of its interval
                ends = [x, *(self._x([series.low[n], series.high[n]]) if series.low else ())]
                known = [end for end in ends if not math.isnan(end)]
                amount = base * 100 if self._chart.x.unit == "share" else base
                axes.annotate(
                    f"{amount:+.1f}" if abs(amount) < 100 else f"{amount:+.0f}",
                    (max(known) if x >= 0 else min(known), y),
                    (size * 0.7 if x >= 0 else -size * 0.7, 0),
                    textcoords="offset points",
                    ha="left" if x >= 0 else "right",
                    va="center",
                    fontsize="small",
                )

    def _set_effects(self, axes: Axes) -> None:
        """Set the axes of changes: rows from the top, room for the texts, and a scale that also shows large changes."""
        axes.set_ylim(len(self._chart.y.categories) - 0.5, -0.5)
        axes.grid(True, axis="x")
        every = [x for one in self._chart.series for x in (*one.x, *one.low, *one.high)]
        known = [x for x in self._x(every) if not math.isnan(x)]
        low, high = min(0.0, *known), max(0.0, *known)
        bend = self._x([1.0])[0]
        if self._chart.x.unit == "share" and max(-low, high) > MOST_LINEAR * bend:
            axes.set_xscale("symlog", linthresh=bend, linscale=0.8)
            axes.xaxis.set_major_locator(FixedLocator([-bend, 0, *(bend * 10**n for n in range(6))]))
            axes.xaxis.set_minor_locator(NullLocator())
            axes.set_xlim(-3.5 * bend if low < 0 else -0.15 * bend, high * 6)
        else:
            # the texts have the same size in a narrow plot, and need a larger share of it
            plots = min(len(self._chart.panels), self._layout.across)
            room = (high - low or 1.0) * 0.2 * plots * WIDE.width / self._layout.width
            axes.set_xlim(low - room if low < 0 else -0.04 * high, high + room if high > 0 else -0.04 * low)
            axes.xaxis.set_major_locator(MaxNLocator(6 if len(self._chart.panels) == 1 else 3))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:+g}" if value else "0"))

    def _set_axes(self, axes: Axes) -> None:
        chart = self._chart
        middle = 0.5 if chart.form == "heat" else 0.0
        for axis, limits, kind in (
            (axes.xaxis, axes.set_xlim, chart.x),
            (axes.yaxis, axes.set_ylim, chart.y),
        ):
            if not kind.categories:
                continue
            positions = [n + middle for n in range(len(kind.categories))]
            axis.set_major_locator(FixedLocator(positions))
            axis.set_ticklabels(kind.categories)
            axis.grid(False)
            limits(middle - 0.5, len(kind.categories) - 0.5 + middle)
        if chart.form == "effect":
            self._set_effects(axes)
            return
        if chart.x.categories:
            letters = sum(max(map(len, name.split("\n"))) + 2 for name in chart.x.categories)
            room = 0.8 if chart.form == "heat" else 1
            if letters > room * self._layout.letters / min(len(chart.panels), self._layout.across):
                axes.tick_params("x", rotation=35)
                for label in axes.get_xticklabels():
                    label.set_horizontalalignment("right")
                    label.set_rotation_mode("anchor")
        if chart.x.scale == "log" and not chart.x.categories:
            axes.set_xscale("log")
            _spell_powers(axes.xaxis, (x for one in chart.series for x in one.along(chart.form)))
        elif not chart.x.categories and chart.form != "cdf":
            axes.margins(x=TIME_MARGIN if chart.is_over_time else 0.04)
            axes.xaxis.set_major_locator(MaxNLocator(7 if len(chart.panels) == 1 else 4, steps=[1, 2, 2.5, 5, 10]))
            if chart.is_over_time:
                axes.set_xlim(0, None if chart.until is None else self._x([chart.until * (1 + TIME_MARGIN)])[0])
        if chart.form == "cdf":
            axes.set_ylim(0, self._y([1.02])[0])
            if chart.x.scale != "log":
                axes.set_xlim(left=0)
        elif chart.y.scale == "log":
            axes.set_yscale("log")
            _spell_powers(axes.yaxis, _extent(chart))
        elif not chart.y.categories:
            # an interval may reach below zero, where its metric has no values
            values = (y for one in chart.series for own in (one.y, *one.samples) for y in own)
            if min((y for y in values if not math.isnan(y)), default=0.0) >= 0:
                axes.set_ylim(bottom=0)
            axes.yaxis.set_major_locator(
                MaxNLocator(5, steps=[1, 2, 2.5, 5, 10], integer=chart.y.unit in ("1", "packets"))
            )

    def _add_marks(self, axes: Axes) -> None:
        marks = self._chart.marks
        if len(marks) > figure.MOST_NUMBERS:
            axes.vlines(
                self._x([mark.at for mark in marks]), 0.97, 1, GREY, lw=0.6, transform=axes.get_xaxis_transform()
            )
            return
        for number, mark in enumerate(marks, 1):
            (at,) = self._x([mark.at])
            axes.axvline(at, color=GREY, linewidth=0.9, linestyle=(0, (2, 2)))
            axes.text(
                at,
                1.0,
                str(number),
                transform=axes.get_xaxis_transform(),
                ha="center",
                va="center",
                fontsize="small",
                color=INK,
                bbox={"boxstyle": "circle,pad=0.18", "facecolor": PAPER, "edgecolor": GREY, "linewidth": 0.7},
            )

    def _add_legend(self, axes: Axes) -> None:
        entries: dict[str, Any] = {}
        for one in self.figure.axes:
            for handle, label in zip(*one.get_legend_handles_labels(), strict=True):
                entries.setdefault(label, handle)
        for patch in axes.patches if self._chart.form == "box" else ():
            # only the first box of each series has a name
            if not str(patch.get_label() or "_").startswith("_"):
                entries.setdefault(str(patch.get_label()), patch)
        is_told = len(entries) == 1 and next(iter(entries)) in self._chart.title
        if not entries or is_told or self._chart.form == "heat":
            return
        longest = max(len(str(label)) for label in entries) + 6
        columns = max(1, min(len(entries), self._layout.letters // longest))
        has_small = self._chart.form == "points" and any(len(series.x) > MOST_LARGE for series in self._chart.series)
        self.figure.legend(
            list(entries.values()),
            list(entries),
            loc="outside upper left",
            ncols=columns,
            frameon=False,
            handlelength=1.6,
            columnspacing=1.2,
            borderpad=0.1,
            markerscale=LEGEND_SCALE if has_small else 1,
        )


class _Scale(Frozen):
    """A conversion from base units to the units that an axis shows."""

    title: str
    factor: float
    unit: str = ""

    def __call__(self, values: Iterable[float]) -> list[float]:
        return [value / self.factor for value in values]


def _scale(axis: ChartAxis, values: Iterable[float]) -> _Scale:
    """Return the scale whose prefix gives the largest value few digits.

    On a logarithmic axis, it is the prefix for the geometric mean of the smallest and the largest value.
    """
    sizes = [abs(value) for value in values if value and not math.isnan(value)]
    typical = max(sizes, default=0.0)
    title = axis.title or axis.label
    if axis.categories:
        return _Scale(title, 1)
    if axis.scale == "log" and sizes:
        typical = math.sqrt(min(sizes) * typical)
    factor, name = find_prefix(typical, axis.unit)
    return _Scale(f"{title} ({name})" if name else title, factor, name)


def _place_beside(panel: Panel) -> Iterator[tuple[Series, list[float], float]]:
    """Yield each series with the middles and the width of its bars. Bars of one category stand side by side."""
    width = 0.8 / max(len(panel.series), 1)
    for n, series in enumerate(panel.series):
        yield series, [x - 0.4 + width * (n + 0.5) for x in series.x], width


def _extent(chart: Chart) -> list[float]:
    """Return all values on the y axis, with the ends of intervals."""
    return [y for one in chart.series for own in (one.y, one.high, one.low, *one.samples) for y in own]


def _errors(values: Sequence[float], low: Sequence[float], high: Sequence[float]) -> list[list[float]]:
    """Return the distances to both ends of intervals, as errorbar needs them; 0 if an end is not known."""
    below = [0.0 if math.isnan(end) else max(0.0, value - end) for value, end in zip(values, low, strict=True)]
    above = [0.0 if math.isnan(end) else max(0.0, end - value) for value, end in zip(values, high, strict=True)]
    return [below, above]


def _spell_powers(axis: Any, values: Iterable[float]) -> None:
    """Label an axis with plain numbers instead of powers of ten. With few decades, also label 2 and 5 of each."""
    known = [value for value in values if value > 0]
    is_short = bool(known) and max(known) / min(known) < MOST_SHORT
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if is_short else (1,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())
