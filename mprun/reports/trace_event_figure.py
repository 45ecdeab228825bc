# SPDX-License-Identifier: Apache-2.0
"""The figure of a field of a trace event over a run's time. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from mprun.inputs.keys.plot import TABLE_FORMS
from mprun.kernel.trace_event_format import ENDS, HOST, TIME
from mprun.model.spec import Plot
from mprun.model.trace_event_name import event_of
from mprun.reports.figure import Chart, Series
from mprun.reports.palette import FLOW_TONES
from mprun.reports.run_data import MOST_LINES, NS, RunData, over_time, say_dropped

_OF_LINE = (HOST, *(name for end in ENDS for name in end))


def draw_event(evidence: RunData, plot: Plot) -> Chart | None:
    """Return the figure of a field: a line for each connection at each host, as far as the events name both.

    None if the run has no such numbers.
    """
    table, column = plot.table or "", plot.column or ""
    event = event_of(table)
    if event is None or not evidence.has(table, column):
        return None
    if not evidence.tables[table].collect_schema()[column].is_numeric():
        return None
    names = [name for name in _OF_LINE if evidence.has(table, name) and name != column]
    rows = evidence.read(table, *names, TIME, column)
    if rows is None:
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
    return over_time(evidence, f"{table}-{column}", f"{event}: {column}", caption, column, "1", shown, form)


def _name_line(values: Mapping[str, object]) -> str:
    """Return the host and the ends of a line, as far as it has them."""
    found = []
    for address, port in ENDS:
        if values.get(address) is not None:
            found.append(f"{values[address]}" + (f":{values[port]}" if values.get(port) is not None else ""))
    host = values.get(HOST)
    return " ".join([*([str(host)] if host is not None else []), " > ".join(found)]).strip()
