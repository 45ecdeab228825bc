# SPDX-License-Identifier: Apache-2.0
"""What a run has to show, and a figure of it over time. Pure.

What is drawn of it is for `timeline` and those that it names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from mprun.errors import MprunError
from mprun.model.units import NS_PER_S
from mprun.report.figure import MOST_POINTS, TIME, Axis, Chart, Form, Mark, Panel, Series
from mprun.report.palette import FLOW_TONES, PATH_TONES

NS = float(NS_PER_S)
# So many lines are told apart in one figure.
MOST_LINES = 12


@dataclass(frozen=True)
class Association:
    """A flow over SCTP, of whose sockets no kernel tells: between which nodes it goes, and to which addresses and
    ports its packets."""

    source: str
    destination: str
    servers: frozenset[tuple[str, int]]


@dataclass(frozen=True)
class Evidence:
    """What a run has to show. tables: by name, not yet read. flows: those in the foreground first.

    paths: of all flows in the order of the network, each with its links. marks: changes of links and addresses.
    groups: of the flows that are in one. captures: the node of each. associations: of the flows over SCTP.
    """

    tables: Mapping[str, pl.LazyFrame]
    flows: Sequence[str]
    paths: Mapping[str, Sequence[str]]
    marks: tuple[Mark, ...] = ()
    background: frozenset[str] = frozenset()
    groups: Mapping[str, str] = field(default_factory=dict)
    captures: Mapping[str, str] = field(default_factory=dict)
    associations: Mapping[str, Association] = field(default_factory=dict)
    tones: Mapping[str, str] = field(init=False)

    def __post_init__(self) -> None:
        found = {path: PATH_TONES[n % len(PATH_TONES)] for n, path in enumerate(self.paths)}
        named = dict.fromkeys([*(self.groups.get(flow, flow) for flow in self.flows), *self.flows])
        found |= {flow: FLOW_TONES[n % len(FLOW_TONES)] for n, flow in enumerate(named)}
        object.__setattr__(self, "tones", found)

    def tone_of_link(self, link: str) -> str | None:
        """That of the only path with this link."""
        having = [path for path, links in self.paths.items() if link in links]
        return self.tones[having[0]] if len(having) == 1 else None

    def members(self, name: str) -> list[str]:
        """The flows of a group; of a flow itself."""
        return [flow for flow in self.flows if self.groups.get(flow) == name] or [name]

    def by_group(self, rows: pl.DataFrame) -> Iterator[tuple[tuple[object, ...], pl.DataFrame]]:
        """Rows by their flow, those of a group together."""
        named = rows.with_columns(pl.col("flow").replace(self.groups)) if self.groups else rows
        yield from named.group_by("flow", maintain_order=True)

    def has(self, table: str, column: str) -> bool:
        frame = self.tables.get(table)
        return frame is not None and column in frame.collect_schema()

    def read(self, table: str, *columns: str, flow: str | None = None) -> pl.DataFrame | None:
        """Some columns of a table, of one flow or group or of all; None where the run has no such rows."""
        frame = self.tables.get(table)
        if frame is None:
            return None
        if flow is not None:
            frame = frame.filter(pl.col("flow").is_in(self.members(flow)))
        found = frame.select(columns).collect()
        if "flow" in columns:
            self._check_flows(table, found["flow"].unique().to_list())
        return found if found.height else None

    def _check_flows(self, table: str, names: Sequence[str | None]) -> None:
        """Raise MprunError for the name of a flow that the run does not have."""
        known = {None, *self.flows, *self.groups.values()}
        if odd := [name for name in names if name not in known]:
            raise MprunError(
                f"tables/{table}.parquet: damaged: names a flow '{odd[0]}', which the run does not have: remove "
                "its folder 'tables': `mprun show` makes again what it held"
            )


def over_time(
    evidence: Evidence,
    name: str,
    title: str,
    caption: str,
    label: str,
    unit: str,
    series: Sequence[Series],
    form: Form,
) -> Chart | None:
    """None where there is nothing to show. form: of lines, steps, stacks and points. The marks are all those
    of the run; `draw_run` takes out those behind the end of its figures."""
    if not series:
        return None
    if any(len(each.x) > MOST_POINTS for each in series):
        what = "a mean" if form == "stack" else "the lowest and the highest"
        caption += f" Of many samples each part of the figure shows {what}; all are in the CSV file."
    return Chart(name, title, caption, form, TIME, Axis(label, unit), (Panel("", tuple(series)),), evidence.marks)


def say_dropped(shown: Sequence[Series], series: Sequence[Series]) -> str:
    """What a caption says where not all are shown."""
    return f" The first {len(shown)} of {len(series)}." if len(series) > len(shown) else ""
