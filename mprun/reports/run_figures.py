# SPDX-License-Identifier: Apache-2.0
"""Make each kind of figure of a run: rates, queues, windows, sequences, trace events, distributions of delays. Pure.

Each kind of figure is a `FigureKind`, under the name in `plots` of an experiment.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import polars as pl

from mprun.kernel.trace_event_format import ENDS, HOST, TIME
from mprun.metrics.connection import FLAG_BYTES
from mprun.model.frozen import Frozen
from mprun.model.grouping import gather
from mprun.model.metric import SUFFIXES
from mprun.model.plot_form import SERIES, TABLE_FORMS
from mprun.model.problem import list_names, name_nearest
from mprun.model.spec import Plot, SeriesName
from mprun.model.trace_event_name import event_of
from mprun.reports import qlog_figures
from mprun.reports.figure import Chart, ChartAxis, ChartForm, Panel, Series, dress
from mprun.reports.palette import FLOW_TONES
from mprun.reports.playback import draw_buffer, draw_quality
from mprun.reports.run_data import MOST_LINES, NS, FigureWords, RunData, over_time, over_time_of, say_dropped
from mprun.reports.time_sequence import draw_one_way_delay, draw_sequence

_OF_LINE = (HOST, *(name for end in ENDS for name in end))


def draw_event(evidence: RunData, plot: Plot) -> Chart | None:
    """Return the figure of a field of events, a line for each connection and host; None without such numbers."""
    table, column = plot.table or "", plot.column or ""
    event = event_of(table)
    if event is None or not evidence.has(table, column):
        return None
    if not evidence.tables[table].collect_schema()[column].is_numeric():
        return None
    names = [name for name in _OF_LINE if evidence.has(table, name) and name != column]
    rows = evidence.read(table, *names, TIME, column)
    if rows.is_empty():
        return None
    parts = rows.group_by(names, maintain_order=True) if names else [((), rows)]
    series = []
    for n, (values, part) in enumerate(parts):
        title = _name_line(dict(zip(names, values, strict=True))) or event
        tone = FLOW_TONES[n % len(FLOW_TONES)]
        series.append(Series(title, tone, (part[TIME] / NS).to_list(), part[column].to_list()))
    shown = series[:MOST_LINES]
    caption = f"Field '{column}' of the kernel's event {event}." + say_dropped(shown, series)
    form = plot.form or TABLE_FORMS[0]
    return over_time(evidence, (f"{table}-{column}", f"{event}: {column}", column, "1"), caption, shown, form)


def _name_line(values: Mapping[str, object]) -> str:
    """Return the host and the ends of a line, as far as it has them."""
    found = []
    for address, port in ENDS:
        if values.get(address) is not None:
            found.append(f"{values[address]}" + (f":{values[port]}" if values.get(port) is not None else ""))
    host = values.get(HOST)
    return " ".join([*([str(host)] if host is not None else []), " > ".join(found)]).strip()


# The series that the tables of captures have, which may be large.
OF_PACKETS: Sequence[SeriesName] = ("sequence", "one_way_delay")
# By default, this number of flows get figures of their own.
MOST_FLOWS = 4
# The axis of a distribution is logarithmic if its largest value is more than this many times its median.
FAR = 10
# Every run has the first and the last state of its interfaces and queues. These two do not show a course over time.
LEAST_SAMPLES = 3
# The column with the times of a table of a user's own program (`mprun.workloads.own_result`).
OWN_TIME = "time_s"
# The number of subflows on one path that a figure of areas can distinguish.
MOST_ALIKE = 4
# The name for traffic on no named path.
OTHER = "other ways"


# Makes the figure of a flow. A kind that is not by flow also makes that of the whole run, for None. It returns None if
# there is nothing to show.
Draw = Callable[[RunData, Any, ChartForm], Chart | None]
# A table with durations, the columns of their starts and of the durations, their seconds, and the noun of a row.
DurationSource = tuple[str, str, str, Callable[[float], float], str]


class FigureKind(Frozen):
    """A kind of figure.

    - tables: the tables that it may be made from.
    """

    tables: tuple[str, ...]
    draw: Draw
    by_flow: bool


def draw_run(evidence: RunData, plots: Sequence[Plot]) -> Iterator[Chart]:
    """Yield the requested figures that have data, or else the usual ones. All over time have the same end."""
    drawn = _draw(evidence, plots or list(_usual(evidence)))
    # a distribution of a single value is no usual figure
    charts = [one for one in drawn if plots or one.form != "cdf" or sum(len(each.y) for each in one.series) > 1]
    until = max((chart.end for chart in charts if chart.is_over_time), default=0.0)
    for chart in charts:
        if chart.is_over_time:
            marks = tuple(mark for mark in chart.marks if 0 < mark.at < until)
            yield replace(chart, marks=marks, until=until)
        else:
            yield chart


def _draw(evidence: RunData, plots: Sequence[Plot]) -> Iterator[Chart]:
    for plot in plots:
        if plot.table is not None:
            chart = draw_event(evidence, plot) if event_of(plot.table) else _draw_column(evidence, plot)
            if chart is not None:
                yield dress(chart, plot)
        if plot.series is None:
            continue
        source = FIGURES[plot.series]
        form = plot.form or SERIES[plot.series].forms[0]
        flows: Sequence[str | None] = [plot.flow]
        if source.by_flow:
            flows = evidence.members(plot.flow) if plot.flow else list(evidence.flows)
        for flow in flows:
            chart = source.draw(evidence, flow, form)
            if chart is not None:
                yield dress(chart, plot)


def lacking(evidence: RunData, plots: Sequence[Plot]) -> Iterator[str]:
    """Yield a note for each requested plot that cannot be drawn, or on flows that the usual figures leave out."""
    shown = _choose_flows(evidence)
    if not plots and len(shown) > MOST_FLOWS:
        some = f"{MOST_FLOWS} of {len(shown)} flows: {_join(shown[:MOST_FLOWS])}"
        yield f"figures of single flows are those of the first {some}; `plots` asks for others"
    for plot in plots:
        if not plot.is_over_time or any(draw_run(evidence, [plot])):
            continue
        if plot.table is not None:
            units = [suffix for suffix in SUFFIXES.values() if suffix]
            columns = _numbers(evidence, plot.table) if plot.table in evidence.tables else []
            known = [next((one.removesuffix(unit) for unit in units if one.endswith(unit)), one) for one in columns]
            hint = name_nearest(plot.column or "", known, "it has") if known else ""
            yield f"no figure of '{plot.column}': table {plot.table} has no such numbers over time{hint}"
        elif plot.series is not None:
            of = f" of {plot.flow}" if plot.flow else ""
            tables = " nor ".join(FIGURES[plot.series].tables)
            is_captured = plot.series in OF_PACKETS
            hint = " (`mprun packets` makes them of its captures)"
            if not is_captured:
                others = [
                    name for name in FIGURES if name not in OF_PACKETS and any(_draw(evidence, [Plot(series=name)]))
                ]
                hint = list_names(others, "series with data") if others else ""
            yield f"no figure '{plot.series}'{of}: the run has no {tables} to show{hint}"


def _choose_flows(evidence: RunData) -> list[str]:
    """Return the flows in the foreground, or else all."""
    return [flow for flow in evidence.flows if flow not in evidence.background] or list(evidence.flows)


def _usual(evidence: RunData) -> Iterator[Plot]:
    """Yield a plot of each kind that has data, for the first flows."""
    shown = _choose_flows(evidence)
    for name, source in FIGURES.items():
        if name == "goodput" and len(shown) == 1 and FIGURES["rate"].draw(evidence, shown[0], "stack"):
            continue
        for flow in shown[:MOST_FLOWS] if source.by_flow else [None]:
            yield Plot(series=name, flow=flow)


def _numbers(evidence: RunData, table: str) -> list[str]:
    """Return the columns of a table with numbers, apart from the time."""
    schema = evidence.tables[table].collect_schema()
    return [name for name, kind in schema.items() if kind.is_numeric() and name != OWN_TIME]


def _draw_column(evidence: RunData, plot: Plot) -> Chart | None:
    """Return the figure of a column of a user's own table: a line for each flow."""
    table, wanted = plot.table or "", plot.column or ""
    if not evidence.has(table, OWN_TIME):
        return None
    # the table's names end in the unit, those of the user's file need not
    names = {wanted, *(wanted + suffix for suffix in SUFFIXES.values())}
    column = next((name for name in _numbers(evidence, table) if name in names), None)
    if column is None:
        return None
    rows = evidence.read(table, "flow", OWN_TIME, column, flow=plot.flow)
    series = [
        Series(str(name), evidence.tones[str(name)], part[OWN_TIME].to_list(), part[column].to_list())
        for (name,), part in evidence.by_group(rows.drop_nulls())
    ]
    shown = series[:MOST_LINES]
    unit = next((symbol for symbol, suffix in SUFFIXES.items() if suffix and column.endswith(suffix)), "1")
    label = column.removesuffix(SUFFIXES[unit])
    caption = f"Column '{label}' of table {table}." + say_dropped(shown, series)
    of = f"-{plot.flow}" if plot.flow else ""
    title = f"{plot.flow or table}: {label}"
    return over_time(
        evidence, (f"{table}-{label}{of}", title, label, unit), caption, shown, plot.form or TABLE_FORMS[0]
    )


def _draw_goodput(evidence: RunData, flow: str | None, form: ChartForm) -> Chart | None:
    """Return the figure of all flows at once: the payload that their receivers got, as the tools report it."""
    series = find_goodput(evidence, flow)
    who = _join([each.label for each in series[:MOST_LINES]])
    caption = f"Payload that {who} received: mean of each interval of its program."
    return over_time_of(evidence, flow, ("goodput", "Goodput", "goodput", "bit/s"), caption, series, form)


def find_goodput(evidence: RunData, flow: str | None) -> list[Series]:
    """Return the goodput of each direction and stream of a flow, or of all flows. That to a flow's source is dashed."""
    # only tools whose flows may have several streams have this column
    stream = ["stream"] if evidence.has("goodput", "stream") else []
    columns = ("flow", "direction", *stream, "start_s", "end_s", "goodput_bit_per_s")
    rows = evidence.read("goodput", *columns, flow=flow)
    series = []
    for (name, direction, *number), part in rows.group_by("flow", "direction", *stream, maintain_order=True):
        label = str(name) if direction in (None, "forth") else f"{name}, {direction}"
        if number and rows.filter(flow=name)["stream"].n_unique() > 1:
            label += f", stream {number[0]}"
        values = part["goodput_bit_per_s"].to_list()
        moments = [*part["start_s"].to_list(), part["end_s"][-1]]
        if len(values) > 1 and (last := moments[-1] - moments[-2]) < (before := moments[-2] - moments[-3]) / 2:
            # the rest of a program's time: the end of a burst would show as a rate
            values[-2:] = [(values[-2] * before + values[-1] * last) / (before + last)]
            del moments[-2]
        back = direction not in (None, "forth")
        series.append(Series(label, evidence.tones[str(name)], moments, [*values, values[-1]], dash=int(back)))
    return series


def _draw_rate(evidence: RunData, flow: str, form: ChartForm) -> Chart | None:
    """Return the figure of the acknowledged payload of each subflow, from samples of the sender's sockets.

    If the flow's own program is the receiver, its end is the end of the last interval, and the last payload is
    acknowledged half a round trip later. A sender may end before, and then the figure ends with its regular samples.
    """
    rows = _sender(evidence, flow, "rtt_us")
    if rows["path"].null_count() == rows.height:
        return None
    end_ns = round(evidence.ends.get(flow, 0.0) * NS)
    begins = rows.group_by("local", "local_port", "remote", "remote_port").agg(pl.col("time_ns").min())["time_ns"]
    regular = _regular(rows["time_ns"].unique().sort().to_list(), {at for at in begins if at <= end_ns})
    if len(regular) < 2:
        return None
    moments = _fill_gaps(regular)
    if end_ns > moments[-1] and rows["host"][0] != evidence.clients.get(flow):
        shortest_us = rows.group_by("path").agg(pl.col("rtt_us").min())["rtt_us"].drop_nulls()
        moments.append(end_ns + 500 * max(shortest_us, default=0))
    else:
        rows = rows.filter(pl.col("time_ns") <= moments[-1])
    subflows = list(_subflows(rows, evidence))
    series = []
    for label, tone, dash, part in subflows:
        rates = [0.0] * len(moments)
        # sockets that have closed are in the next sample, and the last ones in a sample long after the flow
        held = {
            min(bisect_left(moments, time_ns), len(moments) - 1): acked
            for time_ns, acked in zip(part["time_ns"], part["bytes_acked"], strict=True)
        }
        # a subflow that was missing in the sample before began at 0 bytes
        before, acked_before = max(min(held) - 1, 0), 0
        for index, acked in held.items():
            if index > before and acked >= acked_before:
                # SYN and FIN are acknowledged too, and are no payload
                payload = acked - acked_before if acked - acked_before > FLAG_BYTES else 0
                rate = payload * 8 * NS / (moments[index] - moments[before])
                rates[before:index] = [rate] * (index - before)
            before, acked_before = index, acked
        rates[-1] = rates[-2]
        series.append(Series(label, tone, [moment / NS for moment in moments], rates, dash=dash))
    noun = "subflow" if any(each.dash for each in series) else "path"
    if len(series) > MOST_LINES or any(each.dash >= MOST_ALIKE for each in series):
        series, noun = _sum_by_path(series, [part["path"][0] for *_, part in subflows], evidence), "path"
    sent = f"Payload of {flow} from {rows['host'][0]}, acknowledged on each {noun} in each sampling interval"
    caption = f"{sent}. After a gap, it may exceed the link's rate."
    title = f"Rate of {flow} by {noun}"
    return over_time(evidence, (f"rate-{flow}", title, "rate", "bit/s"), caption, series, form)


def _sum_by_path(series: Sequence[Series], paths: Sequence[str | None], evidence: RunData) -> list[Series]:
    """Return one series for all subflows of a path. paths: the path of each series."""
    found = gather((path or OTHER, each) for each, path in zip(series, paths, strict=True))
    sums = {path: [sum(y) for y in zip(*(each.y for each in some), strict=True)] for path, some in found.items()}
    tones = {path: evidence.tones.get(path, FLOW_TONES[0]) for path in found}
    return [Series(path, tones[path], some[0].x, sums[path]) for path, some in found.items()]


def _draw_rtt(evidence: RunData, flow: str, form: ChartForm) -> Chart | None:
    caption = f"Smoothed round-trip time that the sender of {flow} has of each subflow, sampled."
    words = ("rtt", "Round-trip time", "round-trip time", "s")
    return _draw_sampled(evidence, flow, ("rtt_us", 1e-6), words, caption, form)


def _draw_cwnd(evidence: RunData, flow: str, form: ChartForm) -> Chart | None:
    caption = f"Congestion window of each subflow at the sender of {flow}, sampled."
    words = ("cwnd", "Congestion window", "congestion window", "packets")
    return _draw_sampled(evidence, flow, ("snd_cwnd_packets", 1.0), words, caption, form)


def _draw_sampled(
    evidence: RunData, flow: str, column: tuple[str, float], words: FigureWords, caption: str, form: ChartForm
) -> Chart | None:
    """Return the figure of a state of the sender's sockets. column: its name, and the factor to base units."""
    name, factor = column
    series = []
    subflows = list(_subflows(_only_regular(_sender(evidence, flow, name)), evidence))
    for label, tone, dash, part in subflows[:MOST_LINES]:
        times = [time_ns / NS for time_ns in part["time_ns"]]
        values = [math.nan if value is None else value * factor for value in part[name]]
        series.append(Series(label, tone, times, values, dash=dash))
    if len(subflows) > MOST_LINES:
        caption += f" The first {MOST_LINES} of {len(subflows)} subflows."
    return over_time_of(evidence, flow, words, caption, series, form)


def _draw_queue(evidence: RunData, flow: str | None, form: ChartForm) -> Chart | None:
    rows = _only_regular(evidence.read("queues", "time_ns", "link", "direction", "backlog_packets"))
    if rows["time_ns"].n_unique() < LEAST_SAMPLES:
        return None
    found: list[tuple[float, Series]] = []
    empty = 0
    for (link, direction), part in rows.group_by("link", "direction", maintain_order=True):
        values = [math.nan if value is None else float(value) for value in part["backlog_packets"]]
        most = max((value for value in values if not math.isnan(value)), default=0.0)
        if not most:
            empty += 1
            continue
        tone = evidence.tone_of_link(str(link)) or FLOW_TONES[len(found) % len(FLOW_TONES)]
        times = [time_ns / NS for time_ns in part["time_ns"]]
        label = f"{link} {direction}"
        found.append((most, Series(label, tone, times, values, dash=int(direction == "reverse"))))
    series, dropped = _choose(found, "fullest")
    caption = f"Packets that wait in the queues of the links, sampled.{dropped}"
    if empty:
        caption += f" {empty} {'queues were' if empty > 1 else 'queue was'} empty in every sample."
    return over_time(evidence, ("queue", "Queues", "backlog", "packets"), caption, series, form)


def _draw_interfaces(evidence: RunData, flow: str | None, form: ChartForm) -> Chart | None:
    rows = _only_regular(evidence.read("interfaces", "time_ns", "node", "interface", "link", "tx_bytes"))
    if rows["time_ns"].n_unique() < LEAST_SAMPLES:
        return None
    found: list[tuple[float, Series]] = []
    for (node, interface), part in rows.group_by("node", "interface", maintain_order=True):
        times, sent = part["time_ns"].to_list(), part["tx_bytes"].to_list()
        if len(times) < 2 or sent[-1] == sent[0]:
            continue
        pairs = list(zip(times, sent, strict=True))
        rates = [(b - a) * 8 * NS / (t - s) for (s, a), (t, b) in pairwise(pairs)]
        link = part["link"][0]
        tone = evidence.tone_of_link(str(link)) or FLOW_TONES[len(found) % len(FLOW_TONES)]
        label = f"{node} → {link}" if link else str(interface)
        moments = [time_ns / NS for time_ns in times]
        dash = sum(series.tone == tone for _, series in found)
        found.append((float(sent[-1]), Series(label, tone, moments, [*rates, rates[-1]], dash=dash)))
    series, dropped = _choose(found, "busiest")
    caption = "Bytes with headers that interfaces sent in each sampling interval, before the link's queue and rate."
    caption += dropped
    return over_time(evidence, ("interfaces", "Interfaces", "rate", "bit/s"), caption, series, form)


def _draw_link_rate(evidence: RunData, flow: str | None, form: ChartForm) -> Chart | None:
    """Return the figure of the rates that events and traces give to links, up to the end of the last flow."""
    end = max(evidence.ends.values(), default=math.inf)
    found: list[tuple[float, Series]] = []
    for (link, direction), course in evidence.link_rates.items():
        steps = [(at, rate) for at, rate in course if at < end]
        steps.append((end if math.isfinite(end) else steps[-1][0], steps[-1][1]))
        tone = evidence.tone_of_link(link) or FLOW_TONES[len(found) % len(FLOW_TONES)]
        times, rates = zip(*steps, strict=True)
        label = f"{link} {direction}".strip()
        found.append((float(len(steps)), Series(label, tone, times, rates, dash=int(direction == "reverse"))))
    series, dropped = _choose(found, "most changeable")
    caption = f"The rate of each link whose rate changes, as the topology gives it.{dropped}"
    return over_time(evidence, ("link-rate", "Rates of links", "rate", "bit/s"), caption, series, form)


def _choose(found: Sequence[tuple[float, Series]], which: str) -> tuple[list[Series], str]:
    """Return the series with the largest weights, up to MOST_LINES, in their order; and an addition to the caption.

    which: the adjective of the shown series in the caption.
    """
    greatest = sorted(range(len(found)), key=lambda n: -found[n][0])[:MOST_LINES]
    shown = [found[n][1] for n in sorted(greatest)]
    return shown, f" The {len(shown)} {which} of {len(found)}." if len(found) > len(shown) else ""


def _draw_durations(
    name: str, title: str, sources: Sequence[DurationSource], evidence: RunData, flow: str | None, form: ChartForm
) -> Chart | None:
    """Return the figure of durations over time, or of their distribution, as far as the run has them.

    name, title: of the figure. The title in small letters is the quantity.
    """
    series = []
    nouns = []
    endless = 0
    for table, when, what, seconds, noun in sources:
        number = ("sequence",) if table in _COPIED and evidence.has(table, "sequence") else ()
        rows = evidence.read(table, "flow", when, what, *number, flow=flow)
        if rows.is_empty():
            continue
        if number:
            rows = rows.unique(("flow", *number), keep="first", maintain_order=True)
        nouns.append(noun)
        endless += rows[what].null_count()
        # curl does not report the start of concurrent requests
        known = rows.drop_nulls(what if form == "cdf" else [what, when])
        for (owner,), part in evidence.by_group(known):
            values = [seconds(value) for value in part[what]]
            moments = [] if form == "cdf" else [moment / NS for moment in part[when]]
            if values:
                series.append(Series(str(owner), evidence.tones[str(owner)], moments, values))
    if not series:
        return None
    label, noun = title.lower(), _join(nouns)
    stem = name if flow is None else f"{name}-{flow}"
    shown = tuple(series[:MOST_LINES])
    count = sum(len(each.y) for each in shown)
    dropped = (f" Without {endless} that did not end." if endless else "") + say_dropped(shown, series)
    if form == "cdf":
        counted = f"{count} {noun if count > 1 else noun.removesuffix('s')}"
        caption = f"Share of the {counted} whose {label} was no longer than that.{dropped}"
        values = sorted(y for each in shown for y in each.y)
        is_wide = 0 < FAR * values[len(values) // 2] < values[-1] and values[0] > 0
        if is_wide:
            caption += " The axis of times is logarithmic."
        along = ChartAxis(label, "s", "log" if is_wide else "linear")
        return Chart(stem, title, caption, form, along, ChartAxis("share", "share"), (Panel("", shown),))
    items = f"each of {count} {noun}" if count > 1 else f"the one {noun.removesuffix('s')}"
    caption = f"The {label} of {items}, at the moment when it began.{dropped}"
    return over_time(evidence, (f"{stem}-time", f"{title} over time", label, "s"), caption, shown, form)


def _sender(evidence: RunData, flow: str, column: str) -> pl.DataFrame:
    """Return the samples of a flow's sockets at the end that sent more; at the client if both sent the same."""
    columns = dict.fromkeys(
        ("time_ns", "host", "path", "local", "local_port", "remote", "remote_port", "bytes_acked", column)
    )
    rows = evidence.read("sockets", *columns, flow=flow)
    if rows.is_empty():
        return rows
    of_sockets = rows.group_by("host", "local", "local_port", "remote", "remote_port").agg(pl.col("bytes_acked").max())
    totals = of_sockets.group_by("host").agg(pl.col("bytes_acked").sum(), pl.len()).sort("host").rows()
    # ends that differ by the bytes of SYN and FIN only have sent the same
    sent = {host: total + FLAG_BYTES * count * (host == evidence.clients.get(flow)) for host, total, count in totals}
    sender = max(sent, key=sent.__getitem__)
    return rows.filter(pl.col("host") == sender).sort("time_ns", maintain_order=True)


def _only_regular(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of regular samples. The last state of a run would be joined to them over a time without any."""
    return rows.filter(pl.col("time_ns").is_in(_regular(rows["time_ns"].unique().sort().to_list())))


def _regular(moments: Sequence[int], begins: Collection[int] = ()) -> list[int]:
    """Return the times of regular samples.

    Other samples are taken just before a flow ends, and when a socket is closed, long after. begins: the times of the
    first samples of sockets.
    """
    if len(moments) < 3:
        return list(moments)
    interval = _usual_interval(moments)
    kept = [moments[0]]
    for moment in moments[1:]:
        if moment - kept[-1] >= interval / 2:
            kept.append(moment)
    while len(kept) > 2 and kept[-1] - kept[-2] > 1.5 * interval and kept[-1] not in begins:
        kept.pop()
    return kept


def _fill_gaps(moments: Sequence[int]) -> list[int]:
    """Return the times of samples with those before the first one and at the ends of gaps, which had no sockets."""
    interval = _usual_interval(moments)
    found = [max(0, moments[0] - interval), moments[0]]
    for before, moment in pairwise(moments):
        ends = {before + interval, moment - interval} if moment - before > 1.5 * interval else ()
        found += [*sorted(one for one in ends if before < one < moment), moment]
    return found


def _usual_interval(moments: Sequence[int]) -> int:
    intervals = sorted(b - a for a, b in pairwise(moments))
    return intervals[len(intervals) // 2]


def _subflows(rows: pl.DataFrame, evidence: RunData) -> Iterator[tuple[str, str, int, pl.DataFrame]]:
    """Yield label, tone, dash and samples of each subflow, by path. Subflows of one path have different dashes."""
    ends = ("path", "local", "local_port", "remote", "remote_port")
    groups = [(key, part) for key, part in rows.group_by(*ends, maintain_order=True)]
    order = list(evidence.paths)
    groups.sort(key=lambda one: order.index(one[0][0]) if one[0][0] in order else len(order))
    counts: dict[Any, int] = {}
    ports = gather((path, port) for (path, _, port, *_), _ in groups)
    for key, part in groups:
        path = key[0]
        number = counts[path] = counts.get(path, 0) + 1
        name = str(path) if path is not None else f"{key[1]} to {key[3]}"
        # a server has one port for all of its connections
        port = key[2] if len(set(ports[path])) > 1 else key[4]
        label = name if len(ports[path]) == 1 else f"{name}, port {port}"
        yield label, evidence.tones.get(name, FLOW_TONES[0]), number - 1, part


def _join(words: Sequence[str]) -> str:
    unique = list(dict.fromkeys(words))
    if len(unique) > MOST_FLOWS:
        return f"{', '.join(unique[: MOST_FLOWS - 1])} and {len(unique) - MOST_FLOWS + 1} more"
    return " and ".join([", ".join(unique[:-1]), unique[-1]] if len(unique) > 1 else unique)


def _either(one: Draw, other: Draw) -> Draw:
    """Return what makes one figure, or else the other."""
    return lambda evidence, flow, form: one(evidence, flow, form) or other(evidence, flow, form)


# Tables that have a row for each copy of a packet. As in the metrics, the first copy counts.
_COPIED = ("datagrams", "pings")
_DELAYS: Sequence[DurationSource] = (
    ("requests", "start_ns", "delay_ns", lambda ns: ns * (1 / NS), "answered requests"),
    ("datagrams", "sent_ns", "delay_ns", lambda ns: ns * (1 / NS), "arrived datagrams"),
    ("pings", "start_ns", "rtt_ms", lambda ms: ms * 1e-3, "answered pings"),
)
# a quotient has other last digits than the product above, and the figures of earlier runs have them
_COMPLETIONS: Sequence[DurationSource] = (
    ("flows", "start_ns", "completion_ns", lambda ns: ns / NS, "completed flows"),
)
_draw_delay = partial(_draw_durations, "delay", "Delay", _DELAYS)
_draw_completion = partial(_draw_durations, "completion", "Completion time", _COMPLETIONS)

FIGURES: Mapping[SeriesName, FigureKind] = {
    "rate": FigureKind(("sockets", "qlog_packets"), _either(_draw_rate, qlog_figures.draw_rate), True),
    "goodput": FigureKind(("goodput",), _draw_goodput, False),
    "rtt": FigureKind(("sockets", "qlog_recovery"), _either(_draw_rtt, qlog_figures.draw_rtt), True),
    "cwnd": FigureKind(("sockets", "qlog_recovery"), _either(_draw_cwnd, qlog_figures.draw_cwnd), True),
    "in_flight": FigureKind(("qlog_recovery",), qlog_figures.draw_in_flight, True),
    "queue": FigureKind(("queues",), _draw_queue, False),
    "interfaces": FigureKind(("interfaces",), _draw_interfaces, False),
    "link_rate": FigureKind(("changes of a link's rate",), _draw_link_rate, False),
    "delay": FigureKind(("requests", "datagrams", "pings"), _draw_delay, False),
    "completion": FigureKind(("flows",), _draw_completion, False),
    "buffer": FigureKind(("chunks",), draw_buffer, False),
    "quality": FigureKind(("chunks",), draw_quality, False),
    "sequence": FigureKind(("packets", "qlog_frames"), _either(draw_sequence, qlog_figures.draw_offsets), True),
    "one_way_delay": FigureKind(("one_way_delays",), draw_one_way_delay, False),
}
