# SPDX-License-Identifier: Apache-2.0
"""Figures of videos, from their tables of chunks: the playback buffer and the quality. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from mprun.reports.figure import Chart, ChartForm, Series
from mprun.reports.run_data import NS, RunData, over_time_of

# A buffer with less counts as empty. A frame of a film lasts 40 ms.
EMPTY_S = 0.001


def draw_buffer(evidence: RunData, flow: str | None, form: ChartForm) -> Chart | None:
    """Return the figure of the video buffer, which grows by a chunk at once and falls by one second per second."""
    columns = ("flow", "start_ns", "delay_ns", "size_bytes", "quality_bit_per_s", "buffer_ns")
    rows = evidence.read("chunks", *columns, flow=flow)
    series = []
    for (name,), part in rows.group_by("flow", maintain_order=True):
        arrivals = [
            ((start_ns + delay_ns) / NS, size * 8 / quality, buffer_ns / NS)
            for start_ns, delay_ns, size, quality, buffer_ns in part.select(columns[1:]).iter_rows()
        ]
        x, y = _trace(part["start_ns"][0] / NS, arrivals)
        series.append(Series(str(name), evidence.tones[str(name)], x, y))
    caption = "Video that has been fetched and not yet played. At zero it stalls."
    return over_time_of(evidence, flow, ("buffer", "Playback buffer", "buffer", "s"), caption, series, form)


def _trace(begin_s: float, arrivals: Sequence[tuple[float, float, float]]) -> tuple[list[float], list[float]]:
    """Return the corners of the line. arrivals: (arrival of a chunk, its playing time, the buffer then), in s."""
    x, y = [begin_s], [0.0]
    for at_s, chunk_s, after_s in arrivals:
        before_s = max(0.0, after_s - chunk_s)
        empty_s = x[-1] + y[-1]
        if before_s < EMPTY_S and y[-1] and empty_s < at_s:
            x.append(empty_s)
            y.append(0.0)
        x += [at_s, at_s]
        y += [before_s, after_s]
    return [*x, x[-1] + y[-1]], [*y, 0.0]


def draw_quality(evidence: RunData, flow: str | None, form: ChartForm) -> Chart | None:
    rows = evidence.read("chunks", "flow", "start_ns", "delay_ns", "quality_bit_per_s", flow=flow)
    series = []
    for (name,), part in rows.group_by("flow", maintain_order=True):
        last = part.row(-1, named=True)
        moments = [*part["start_ns"], last["start_ns"] + last["delay_ns"]]
        values = [float(value) for value in (*part["quality_bit_per_s"], last["quality_bit_per_s"])]
        series.append(Series(str(name), evidence.tones[str(name)], [at / NS for at in moments], values))
    caption = "Bit rate of the video in each chunk, from the moment when it was asked for."
    return over_time_of(evidence, flow, ("quality", "Video quality", "quality", "bit/s"), caption, series, form)
