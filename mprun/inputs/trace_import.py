# SPDX-License-Identifier: Apache-2.0
"""Traces of other tools as schedules of mprun: mahimahi's deliveries, lists of rates, and CSV with columns over time.

Nothing is guessed: the columns of a CSV file and their units are named by the user. Pure.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation

from mprun.inputs.keys.trace_file import RateTrace, TraceError, keep_changes
from mprun.model.frozen import Frozen
from mprun.model.problem import tell_unknown
from mprun.model.units import DAY_NS, DELAY, LEAST_LINK_RATE, NS_PER_S, RATE, TIME, hold_rate, parse_loss, render_ratio

# Two directions of a link change at most this often.
MOST_ROWS = 50_000
_TIMES = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": NS_PER_S}
_UNITS: Mapping[str, Mapping[str, int]] = {
    "time": _TIMES,
    "rate": {"bit": 1, "kbit": 1_000, "mbit": 1_000_000, "gbit": 10**9},
    "delay": _TIMES,
    "rtt": _TIMES,
    "loss": {"%": 1, "share": 100},
}
KEYS = ("time", "rate", "rate.forward", "rate.reverse", "delay", "delay.forward", "delay.reverse", "rtt", "loss")
_COLUMN = re.compile(r"([a-z.]+)=([^:]+):(.+)")
_LONGEST_NUMBER = 40


class Column(Frozen):
    """A column of a CSV file. header: its name in the header. factor: base units in its unit, for loss percents."""

    key: str
    header: str
    factor: int


class ImportedTrace(Frozen):
    """A schedule as text.

    - rows: the number of rows without the last row, which is the end.
    - raised: the number of rates below the smallest rate of a link, which replaces them.
    - ranges: the smallest and the largest value of each column, as text.
    """

    text: str
    rows: int
    lasts_ns: int
    raised: int = 0
    ranges: tuple[str, ...] = ()


def parse_column(text: str) -> Column:
    """Return a column of `KEY=COLUMN:UNIT`. Raises ValueError."""
    match = _COLUMN.fullmatch(text)
    if match is None:
        raise ValueError(f"'{text[:60]}' is no column: write KEY=COLUMN:UNIT, as in 'rate=downlink:kbit'")
    key, header, unit = match.groups()
    if key not in KEYS:
        raise ValueError(tell_unknown("key", key, KEYS))
    units = _UNITS[key.partition(".")[0]]
    if unit not in units:
        raise ValueError(f"'{unit}' is no unit of {key}: write one of {', '.join(units)}")
    return Column(key, header.strip(), units[unit])


def import_rates(trace: RateTrace) -> ImportedTrace:
    """Return the schedule of a trace of rates, without the rows that change nothing."""
    rows = [(at_ns, [RATE.render(rate)]) for at_ns, rate in keep_changes(trace.rates)]
    return _write(["rate"], rows, trace.period_ns, sum(rate == LEAST_LINK_RATE for _, rate in trace.rates))


def import_csv(text: str, columns: Sequence[Column]) -> ImportedTrace:
    """Return the schedule of a CSV file with a header. Times count from the first row. Raises TraceError.

    The last row lasts as long as the row before it.
    """
    keys = [column.key for column in columns]
    if keys.count("time") != 1 or len(keys) < 2 or len(set(keys)) < len(keys):
        raise TraceError(1, "needs one column 'time' and others, each once: write --column time=COLUMN:s")
    if clash := [key for key in keys if key.partition(".")[0] in keys and "." in key]:
        raise TraceError(1, f"column '{clash[0]}' conflicts with '{clash[0].partition('.')[0]}': remove one of the two")
    if "rtt" in keys and any(key.startswith("delay") for key in keys):
        raise TraceError(1, "column 'rtt' conflicts with 'delay': remove one of the two")
    if len(bounded := text.splitlines()) > MOST_ROWS + 1:
        message = f"is more than the {MOST_ROWS} rows that a schedule may have: thin the file out"
        raise TraceError(MOST_ROWS + 2, message)
    lines = csv.reader(bounded)
    try:
        header = [cell.strip() for cell in next(lines, [])]
        for column in columns:
            if header.count(column.header) != 1:
                raise TraceError(1, f"no column '{column.header[:40]}'; columns: {', '.join(header)[:200]}")
        indices = [header.index(column.header) for column in columns]
        numbered = ((lines.line_num, cells) for cells in lines)
        rows, raised = _read_rows(numbered, columns, indices, len(header))
    except csv.Error as error:
        raise TraceError(lines.line_num, f"is no CSV: {error}") from None
    names = [column.key for column in columns if column.key != "time"]
    lasts_ns = rows[-1][0] + (rows[-1][0] - rows[-2][0])
    if lasts_ns > DAY_NS:
        raise TraceError(lines.line_num, f"lasts longer than {TIME.render(DAY_NS)}: cut the file")
    return _write(names, rows, lasts_ns, raised)


def _read_rows(
    numbered: Iterator[tuple[int, list[str]]], columns: Sequence[Column], indices: Sequence[int], width: int
) -> tuple[list[tuple[int, list[str]]], int]:
    """Return the time and the spelled values of each row, and the number of rates that were raised.

    numbered: the cells of each row with its line.
    """
    rows: list[tuple[int, list[str]]] = []
    begin_ns, raised = None, 0
    for number, cells in numbered:
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) != width:
            raise TraceError(number, f"has {len(cells)} cells and the header {width}")
        values = []
        at_ns = 0
        for column, index in zip(columns, indices, strict=True):
            amount = _number(cells[index].strip(), column.key, number) * column.factor
            if column.key == "time":
                begin_ns = round(amount) if begin_ns is None else begin_ns
                at_ns = round(amount) - begin_ns
            else:
                raised += column.key.startswith("rate") and amount < LEAST_LINK_RATE
                values.append(_spell(column.key, amount, number))
        if rows and at_ns <= rows[-1][0]:
            raise TraceError(number, "its time is not after the row before: sort the file")
        rows.append((at_ns, values))
    if len(rows) < 2:
        raise TraceError(1, "has fewer than two rows, so nothing changes")
    return rows, raised


def _number(text: str, key: str, line: int) -> Decimal:
    """Return a finite number that is not negative. Raises TraceError."""
    try:
        if len(text) > _LONGEST_NUMBER or not text.isascii() or "_" in text:
            raise InvalidOperation
        number = Decimal(text)
    except InvalidOperation:
        raise TraceError(line, f"{key}: '{text[:40]}' is no number") from None
    # a large exponent would make a whole number of many digits
    if not number.is_finite() or number.adjusted() > 20 or (number and number.adjusted() < -20):
        raise TraceError(line, f"{key}: '{text}' is not a finite number that fits")
    if number < 0:
        raise TraceError(line, f"{key}: {text} is negative: remove the row")
    return number


def _spell(key: str, amount: Decimal, line: int) -> str:
    """Return a value as a schedule has it. A rate below the smallest becomes the smallest. Raises TraceError."""
    try:
        if key.startswith("rate"):
            text = RATE.render(hold_rate(float(amount)))
            RATE.parse(text)
        elif key == "loss":
            text = render_ratio(float(amount) / 100)
            parse_loss(text)
        else:
            # rtt and delay in whole microseconds, the step of tc(8)
            text = DELAY.render(round(amount / 1000) * 1000)
            DELAY.parse(text)
    except ValueError as error:
        raise TraceError(line, f"{key}: {error}") from None
    return text


def _write(names: Sequence[str], rows: Sequence[tuple[int, list[str]]], lasts_ns: int, raised: int) -> ImportedTrace:
    """Return the schedule of rows. Its last row is the end."""
    lines = [",".join(("at", *names))]
    lines += [",".join((TIME.render(at_ns), *values)) for at_ns, values in rows]
    if len(lines) - 1 > MOST_ROWS:
        raise TraceError(1, f"makes more than the {MOST_ROWS} rows that a schedule may have: use a longer --interval")
    lines.append(TIME.render(lasts_ns) + "," * len(names))
    ranges = (_range_of(name, [values[n] for _, values in rows]) for n, name in enumerate(names))
    return ImportedTrace("\n".join(lines) + "\n", len(lines) - 2, lasts_ns, raised, tuple(ranges))


def _range_of(key: str, texts: Sequence[str]) -> str:
    parse = RATE.parse if key.startswith("rate") else parse_loss if key == "loss" else DELAY.parse
    least, most = min(texts, key=parse), max(texts, key=parse)
    return f"{key} {least}" if least == most else f"{key} {least} to {most}"
