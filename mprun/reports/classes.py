# SPDX-License-Identifier: Apache-2.0
"""The time-sequence graphs of one short flow of each class. Pure.

The classes are those of table `flows`. The packets are those of the sender's capture.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from mprun.reports.figure import Chart, ChartAxis, Panel, Series
from mprun.reports.palette import FLOW_TONES
from mprun.reports.run_data import NS

# The words of a series, for data that is sent for the first time and data that is sent again.
_FIRST, _AGAIN = "sent", "sent again"
# The program's time is from before its call, and the capture's from the packet. A flow takes much longer.
_SAME_NS = 1_000_000


def draw_classes(
    name: str, title: str, tables: Mapping[str, pl.LazyFrame], flow: str, classes: Sequence[str]
) -> Chart | None:
    """Return a plot for each class: the first flow of the class, from its first packet. None if no class has a flow.

    - tables: `flows`, and `connections` and `packets` of the captures.
    - flow: its name in table `flows`.
    """
    flows = tables["flows"].filter(flow=flow).sort("start_ns").collect()
    panels = []
    for kind in classes:
        for row in flows.filter(pl.col("class") == kind).iter_rows(named=True):
            series = _draw_flow(tables, row["local_port"], row["start_ns"])
            if series:
                panels.append(Panel(_say(kind, row["completion_ns"]), series))
                break
    if not panels:
        return None
    caption = "Place of each packet with payload in the data of its flow, from the start of the flow."
    return Chart(name, title, caption, "points", ChartAxis("time", "s"), ChartAxis("data", "byte"), tuple(panels))


def _draw_flow(tables: Mapping[str, pl.LazyFrame], port: int, start_ns: int) -> tuple[Series, ...]:
    """Return the packets of a flow; none if the captures do not have its connection."""
    opened = tables["connections"].filter(
        pl.col("source_port") == port, (pl.col("opened_ns") - start_ns).abs() <= _SAME_NS
    )
    mine = tables["packets"].join(opened, on=("capture", "connection"), how="semi")
    rows = mine.filter(pl.col("way") == "forward", pl.col("payload_bytes") > 0, pl.col("new_bytes").is_not_null())
    found = rows.select("time_ns", "repeat", "subflow_offset_bytes").drop_nulls("subflow_offset_bytes").collect()
    parts = ((_FIRST, found.filter(pl.col("repeat").is_null())), (_AGAIN, found.filter(pl.col("repeat").is_not_null())))
    return tuple(
        Series(
            label,
            FLOW_TONES[n],
            ((part["time_ns"] - start_ns) / NS).to_list(),
            part["subflow_offset_bytes"].to_list(),
            dash=n,
        )
        for n, (label, part) in enumerate(parts)
        if part.height
    )


def _say(kind: str, completion_ns: int | None) -> str:
    time = "not complete" if completion_ns is None else f"{completion_ns / 1e6:.0f} ms"
    return f"{kind.replace('_', ' ')}: {time}"
