# SPDX-License-Identifier: Apache-2.0
"""Files of values over time: traces of a link's rate, and schedules of its properties. Pure.

A mahimahi trace has one line for each opportunity to deliver a packet, in ms, not decreasing. It repeats after its
last line. A rate trace has one rate on each line. A schedule is CSV with a header: `at` and names of properties. Its
cells are written as in a topology file, and an empty cell changes nothing. A column `rate.forward` holds for one
direction. Lines that begin with `#` before the header and between rows are comments. If a schedule is a trace, its last
row is the time at which it repeats, and changes nothing.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

from mprun.model.frozen import Frozen
from mprun.model.units import NS_PER_MS, NS_PER_S, TIME, QuantityError, hold_rate, parse_link_rate

# More rates than a run may have changes.
MOST_INTERVALS = 1_000_000
MOST_ROWS = 100_000

# The line of a row, its time in ns, and its non-empty cells.
ReadRow = tuple[int, int, Mapping[str, str | dict[str, str]]]


class TraceError(ValueError):
    """A faulty line. line: from 1."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


_IMPORT = "write `mprun trace import --format csv`, which makes a schedule of a table"


class RateTrace(Frozen):
    """Rates in bit/s from each time on, in ns from the trace's start. Each is one that a link can have.

    period_ns: the time after which it repeats.
    """

    rates: tuple[tuple[int, int], ...]
    period_ns: int


def read_mahimahi(text: str, interval_ns: int, frame_bytes: int) -> RateTrace:
    """Read a mahimahi trace. One opportunity carries one full frame. The rate of each interval follows from its
    opportunities.

    An interval without opportunities has the smallest rate, a byte per second, so that no packet leaves
    within 42 s. Raises TraceError.
    """
    moments: list[int] = []
    for number, line in number_lines(text):
        if not line.isascii() or not line.isdigit() or len(line) > 18:
            remedy = _IMPORT if "," in line else "write times in ms, or for rates the format 'rates'"
            raise TraceError(number, f"'{line[:40]}' is no whole number of ms: {remedy}")
        moment = int(line)
        if moments and moment < moments[-1]:
            raise TraceError(number, f"{moment} ms comes after {moments[-1]} ms: sort the trace")
        moments.append(moment)
    if moments[-1] == 0:
        raise TraceError(1, "lasts 0 ms: a mahimahi trace ends with the ms at which it is repeated")
    period_ns = moments[-1] * NS_PER_MS
    if period_ns > MOST_INTERVALS * interval_ns:
        raise TraceError(len(moments), f"lasts {moments[-1]} ms, more than {MOST_INTERVALS} intervals: use longer ones")
    counts = [0] * -(-period_ns // interval_ns)
    for moment in moments:
        # an opportunity at the end of an interval belongs to it
        counts[max(0, (moment * NS_PER_MS - 1) // interval_ns)] += 1
    rates = []
    for n, count in enumerate(counts):
        length_ns = min(interval_ns, period_ns - n * interval_ns)
        rates.append((n * interval_ns, hold_rate(count * frame_bytes * 8 * NS_PER_S / length_ns)))
    return RateTrace(tuple(rates), period_ns)


def read_rates(text: str, interval_ns: int) -> RateTrace:
    """Read a rate trace: one rate on each line, for one interval. Raises TraceError."""
    rates = []
    lines = text.splitlines()
    last = None
    for number, line in number_lines(text):
        empty = [n for n in range(last or number, number) if not lines[n].strip()]
        if empty:
            raise TraceError(empty[0] + 1, "is empty: write the rate of this interval, such as the one before it")
        last = number
        try:
            rates.append(parse_link_rate(line))
        except QuantityError as error:
            if "," in line:
                raise TraceError(number, f"'{line[:40]}' is no rate: {_IMPORT}") from None
            remedy = ", or for times in ms the format 'mahimahi'" if line.isdigit() and not rates else ""
            raise TraceError(number, f"{error}{remedy}") from None
    return RateTrace(tuple((n * interval_ns, rate) for n, rate in enumerate(rates)), len(rates) * interval_ns)


def keep_changes(rates: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return times and rates without those that repeat the rate before."""
    return [next(same) for _, same in groupby(rates, lambda moment: moment[1])]


def read_schedule(text: str, properties: tuple[str, ...]) -> list[ReadRow]:
    """Return the rows of a schedule. A cell for one direction is a mapping. Raises TraceError."""
    rows = read_cells(text)
    line, header = next(rows, (1, [""]))
    for sign, name in ((";", "';'"), ("\t", "tabs")):
        if sign in header[0]:
            raise TraceError(line, f"separates its cells by {name}: write commas, as in 'at,rate,delay'")
    if len(header) == 1 and header[0][:1].isdigit():
        told = f"'{header[0][:40]}' is no header, so this is a trace"
        raise TraceError(line, f"{told}: write 'trace: FILE', and for rates 'format: rates' too")
    if len(header) > 1 and "at" not in header and {name.partition(".")[0] for name in header[1:]} <= {*properties}:
        raise TraceError(line, f"has times in a column '{header[0]}': write 'at' in its place")
    if header[:1] != ["at"] or len(header) < 2:
        other = "" if len(header) < 2 or header[0][:1].isdigit() else f"; for a table with other names, {_IMPORT}"
        raise TraceError(1, f"has no header: write 'at' and names of properties, as in 'at,rate,delay'{other}")
    for name in header[1:]:
        if message := _find_column_problem(name, header, properties):
            raise TraceError(line, message)
    found: list[ReadRow] = []
    before = -1
    for line, cells in rows:
        if len(cells) != len(header):
            raise TraceError(line, f"has {len(cells)} cells and the header {len(header)}")
        try:
            at_ns = TIME.parse(cells[0])
        except QuantityError as error:
            raise TraceError(line, f"at: {error}") from None
        if at_ns == before:
            raise TraceError(line, f"{cells[0]} is the time of the row before too: keep one of the two rows")
        if at_ns < before:
            raise TraceError(line, f"{cells[0]} is before the time of the row before: sort the schedule")
        if len(found) == MOST_ROWS:
            raise TraceError(line, f"is more than the {MOST_ROWS} rows that a schedule may have: thin the file out")
        before = at_ns
        found.append((line, at_ns, _by_property(header[1:], cells[1:])))
    if not found:
        raise TraceError(1, "holds no row")
    if not any(cells for _, _, cells in found):
        raise TraceError(found[0][0], "has no value, and no other row has one: write one, as in '1s,5mbit'")
    return found


def read_cells(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the line and the cells of each row of a CSV file, without empty rows and comments."""
    rows = csv.reader(text.splitlines())
    for row in rows:
        cells = [cell.strip() for cell in row]
        if any(cells) and not cells[0].startswith("#"):
            yield rows.line_num, cells


def _find_column_problem(name: str, header: list[str], properties: tuple[str, ...]) -> str | None:
    """Return the problem of a column's name; None if there is none."""
    key, _, way = name.partition(".")
    if header.count(name) > 1 or (way and key in header):
        return f"has the property '{key}' twice: keep one column"
    if key not in properties:
        return f"no property '{key}'; properties: {', '.join(properties)}"
    if name != key and (way not in ("forward", "reverse") or key == "rtt"):
        return f"no column '{name}': write '{key}'" + ("" if key == "rtt" else f", '{key}.forward' or '{key}.reverse'")
    return None


def _by_property(names: list[str], cells: list[str]) -> dict[str, str | dict[str, str]]:
    """Return the non-empty cells by property: a text for both directions, or a mapping."""
    found: dict[str, str | dict[str, str]] = {}
    for name, cell in zip(names, cells, strict=True):
        key, _, way = name.partition(".")
        if cell and not way:
            found[key] = cell
        elif cell:
            sides = found.setdefault(key, {})
            assert isinstance(sides, dict)
            sides[way] = cell
    return found


def number_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that are not empty with their numbers. Raises TraceError if there are none."""
    found = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            if not found and line.partition(",")[0].strip() == "at":
                raise TraceError(number, "is the header of a schedule: write 'schedule: FILE', or 'format: schedule'")
            found = True
            yield number, line.strip()
    if not found:
        raise TraceError(1, "is empty")
