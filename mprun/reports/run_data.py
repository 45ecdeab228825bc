# SPDX-License-Identifier: Apache-2.0
"""The data of a run for its figures, and the common form of a figure over time. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

import polars as pl

from mprun.errors import MprunError
from mprun.model.frozen import Frozen
from mprun.model.units import NS_PER_S
from mprun.reports.figure import MOST_POINTS, TIME, Chart, ChartAxis, ChartForm, Mark, Panel, Series
from mprun.reports.palette import FLOW_TONES, PATH_TONES

NS = float(NS_PER_S)
# The most lines that a reader can distinguish in a figure.
MOST_LINES = 12


# The name and the title of a figure, the quantity, and the unit of the quantity.
FigureWords = tuple[str, str, str, str]


class AssociationFlow(Frozen):
    """A flow over SCTP, whose sockets the kernel does not report: its nodes, and its server's addresses and ports."""

    source: str
    destination: str
    servers: frozenset[tuple[str, int]]


class RunData(Frozen):
    """The data of a run for its figures.

    - tables: by name, not yet read.
    - flows: those in the foreground first.
    - paths: of all flows in the order of the network, each with its links.
    - marks: changes of links and addresses.
    - groups: the group of each flow that has one.
    - captures: the node of each capture.
    - associations: the flows over SCTP.
    - ends: the time at which the programs of each flow had ended, in s.
    - clients: the host of the program of each flow.
    - link_rates: of each link and direction whose rate changes, the rate in bit/s from each time in s on. The direction
      is empty if both are the same.
    """

    tables: Mapping[str, pl.LazyFrame]
    flows: Sequence[str]
    paths: Mapping[str, Sequence[str]]
    marks: tuple[Mark, ...] = ()
    background: frozenset[str] = frozenset()
    groups: Mapping[str, str] = field(default_factory=dict)
    captures: Mapping[str, str] = field(default_factory=dict)
    associations: Mapping[str, AssociationFlow] = field(default_factory=dict)
    ends: Mapping[str, float] = field(default_factory=dict)
    clients: Mapping[str, str] = field(default_factory=dict)
    link_rates: Mapping[tuple[str, str], Sequence[tuple[float, float]]] = field(default_factory=dict)
    tones: Mapping[str, str] = field(init=False)

    def __post_init__(self) -> None:
        found = {path: PATH_TONES[n % len(PATH_TONES)] for n, path in enumerate(self.paths)}
        named = dict.fromkeys([*(self.groups.get(flow, flow) for flow in self.flows), *self.flows])
        found |= {flow: FLOW_TONES[n % len(FLOW_TONES)] for n, flow in enumerate(named)}
        object.__setattr__(self, "tones", found)

    def tone_of_link(self, link: str) -> str | None:
        """Return the colour of the only path with this link; None if there is none or more than one."""
        having = [path for path, links in self.paths.items() if link in links]
        return self.tones[having[0]] if len(having) == 1 else None

    def members(self, name: str) -> list[str]:
        """Return the flows of a group, or the flow itself."""
        return [flow for flow in self.flows if self.groups.get(flow) == name] or [name]

    def by_group(self, rows: pl.DataFrame) -> Iterator[tuple[tuple[object, ...], pl.DataFrame]]:
        """Return rows by flow; flows of a group are together."""
        named = rows.with_columns(pl.col("flow").cast(pl.String).replace(self.groups)) if self.groups else rows
        yield from named.group_by("flow", maintain_order=True)

    def has(self, table: str, column: str) -> bool:
        frame = self.tables.get(table)
        return frame is not None and column in frame.collect_schema()

    def read(self, table: str, *columns: str, flow: str | None = None) -> pl.DataFrame:
        """Read columns of a table, for one flow, one group or all. A missing table has no rows. Raises MprunError."""
        frame = self.tables.get(table)
        if frame is None:
            return pl.DataFrame(schema=columns)
        if flow is not None:
            frame = frame.filter(pl.col("flow").is_in(self.members(flow)))
        found = frame.select(columns).collect()
        known = {None, *self.flows, *self.groups.values()}
        if "flow" in columns and (odd := [name for name in found["flow"].unique().to_list() if name not in known]):
            raise MprunError(
                f"tables/{table}.parquet: damaged: names a flow '{odd[0]}', which the run does not have: remove "
                "its folder 'tables': `mprun show` makes again what it held"
            )
        return found


def over_time(
    evidence: RunData, words: FigureWords, caption: str, series: Sequence[Series], form: ChartForm
) -> Chart | None:
    """Return a figure over time; None without series. form: line, step, stack or points.

    The figure has all marks of the run. `draw_run` removes those after the end of its figures.
    """
    if not series:
        return None
    if any(len(each.x) > MOST_POINTS for each in series):
        what = "a mean" if form == "stack" else "the lowest and the highest"
        caption += f" Of many samples each part of the figure shows {what}; all are in the CSV file."
    name, title, label, unit = words
    return Chart(name, title, caption, form, TIME, ChartAxis(label, unit), (Panel("", tuple(series)),), evidence.marks)


def over_time_of(
    evidence: RunData, flow: str | None, words: FigureWords, caption: str, series: Sequence[Series], form: ChartForm
) -> Chart | None:
    """Return a figure over time of one flow, or of all. It has the first series, if there are many."""
    name, title, label, unit = words
    if flow is not None:
        name, title = f"{name}-{flow}", f"{title} of {flow}"
    shown = series[:MOST_LINES]
    return over_time(evidence, (name, title, label, unit), caption + say_dropped(shown, series), shown, form)


def say_dropped(shown: Sequence[Series], series: Sequence[Series]) -> str:
    """Return the addition to a caption if not all series are shown."""
    return f" The first {len(shown)} of {len(series)}." if len(series) > len(shown) else ""
