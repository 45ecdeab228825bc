# SPDX-License-Identifier: Apache-2.0
"""Read the metrics and tables that an entry takes from the output of its own programs.

`mprun.inputs.keys.own_output` has their keys.
"""

from __future__ import annotations

import contextlib
import csv
import io
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from mprun.inputs.keys.own_output import OUTPUT_UNITS
from mprun.model.grouping import gather
from mprun.model.metric import SUFFIXES, SYMBOLS, Metric, Metrics
from mprun.model.problem import list_names
from mprun.model.spec import Flow
from mprun.model.units import NS_PER_S
from mprun.safety.folder import parse_json
from mprun.workloads.tool import Outputs, Table, percentile

MOST_FILE_BYTES = 64 << 20
MOST_CELLS = 5_000_000
# A server starts before its command, and a program may write a time to come.
BESIDE_S = 10
ResultEntry = Mapping[str, Any]

_TAKES: Mapping[str, Callable[[Sequence[float]], float]] = {
    "last": lambda values: values[-1],
    "first": lambda values: values[0],
    "sum": math.fsum,
    "mean": lambda values: math.fsum(values) / len(values),
    "min": min,
    "max": max,
    "median": lambda values: percentile(sorted(values), 0.5),
    "p95": lambda values: percentile(sorted(values), 0.95),
    "p99": lambda values: percentile(sorted(values), 0.99),
}
_SAID = {"count": "number of values", "median": "median", "p95": "95th percentile", "p99": "99th percentile"}


# A group of a regular expression that has a number.
_GROUP = re.compile(r"(?<!\\)\((?!\?(?!P?<))")
# The parts of a regular expression: an escape, a class of characters, or one character.
_PART = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|.", re.DOTALL)
_MORE_OF_NUMBER = re.compile(r"(?:[\d.]*\d)?(?:[eE][+-]?\d+)?")
# A unit behind a number. `min` is also the smallest value, and a word before '=' or ':' the name of the next value.
_PRINTED_UNITS = "|".join(sorted(map(re.escape, OUTPUT_UNITS.keys() - {"count", "share", "min"})))
_UNIT_BEHIND = re.compile(rf"[ \t]?({_PRINTED_UNITS})(?![\w/]|(?<=\w)[ \t]*[=:])")
# The beginning of the name of a program's output in messages.
OF_OUTPUT = "the output of the"
# A line that begins as a JSON object and is none.
_BROKEN = object()
FoundValue = tuple[int, object]


class _NotFound(Exception):
    """An output that does not have what an entry asks for. The message names the entry."""


class OwnResults(NamedTuple):
    """The metrics and tables that an entry takes from the output of its own programs.

    - values: by metric, in base units.
    - tables: by name, with times in s from time zero.
    - errors: why the other metrics and tables of the entry have no value.
    """

    values: dict[str, float]
    tables: dict[str, Table]
    warnings: list[str]
    errors: list[str]


def own_metrics(flow: Flow) -> Metrics:
    """Return the metrics that a flow's entry defines."""
    return {entry["name"]: _describe(entry) for entry in flow.options.get("metrics", ())}


def _describe(entry: ResultEntry) -> Metric:
    kind, _ = OUTPUT_UNITS[entry["unit"]]
    take = _SAID.get(entry["take"], entry["take"])
    is_sum = entry["take"] in ("sum", "count") and kind != "rate"
    meaning = f"{take} of {_name_values(entry)} in {_tell_position(entry)}"
    is_free = entry["take"] != "count"
    return Metric(kind, meaning, over="sum" if is_sum else None, better=entry.get("better"), is_free=is_free)


def _name_values(entry: ResultEntry) -> str:
    if "regex" in entry:
        return f"'{entry['regex']}'"
    return f"'{entry['json']}'" if "json" in entry else f"column '{entry['column']}'"


def read_own(flow: Flow, outputs: Outputs) -> OwnResults:
    """Return the metrics and tables that a flow's entry defines. An error takes no other metric or table with it."""
    results = OwnResults({}, {}, [], [])
    read: dict[str, Mapping[str, str]] = {}
    for entry in flow.options.get("metrics", ()):
        try:
            position = _tell_position(entry)
            if position not in read:
                read[position] = _texts_of(flow, entry, outputs)
            results.values[entry["name"]] = _read_value(entry, read[position], results.warnings)
        except _NotFound as error:
            results.errors.append(f"{error}{_look_elsewhere(flow, entry, outputs)}")
    span = outputs.span(flow.name)
    origins_ns = {
        "start": span[0] - outputs.zero_ns if span else 0,
        "monotonic": -outputs.zero_ns,
        "unix": -outputs.epoch_ns,
    }
    began_s, ended_s = ((at_ns - outputs.zero_ns) / NS_PER_S for at_ns in span) if span else (-math.inf, math.inf)
    allowed_s = (began_s - BESIDE_S, ended_s + BESIDE_S)
    for entry in flow.options.get("tables", ()):
        origin_s = origins_ns[entry["clock"]] / NS_PER_S
        try:
            table, problems = _read_table(entry, _file(entry, outputs), origin_s, allowed_s)
        except _NotFound as error:
            results.errors.append(str(error))
            continue
        results.tables[entry["name"]] = table
        for what, lines in problems.items():
            counted = f"; such lines: {len(lines)}" if len(lines) > 1 else ""
            told = f"table '{entry['name']}': line {lines[0]} of {_tell_position(entry)}: {what}{counted}"
            results.warnings.append(told)
    return results


def _read_value(entry: ResultEntry, texts: Mapping[str, str], warnings: list[str]) -> float:
    """Return the value of a metric in base units. Raises _NotFound, also if a value is no number.

    texts: what the entry reads, by what it is. warnings: to which this adds.
    """
    found = [(part, line, one) for part, text in texts.items() for line, one in _find(entry, text)]
    name = f"metric '{entry['name']}'"
    if broken := [f"line {line} of {part}" for part, line, one in found if one is _BROKEN]:
        warnings.append(f"{name}: {broken[0]} is no whole JSON object; such lines, which were skipped: {len(broken)}")
        found = [one for one in found if one[2] is not _BROKEN]
    if re.sub(r"\\.|\[[^]]*\]", "", entry.get("regex", "")).replace("(?", "").count("(") > 1:
        warnings.append(f"{name}: 'regex' has several ( ), and the first is the number: write (?: ) for the others")
    if entry["take"] == "count":
        return float(sum(one is not None for _, _, one in found))
    numbers = []
    for part, line, one in found:
        if (number := _number(one)) is None:
            said = "null" if one is None else str(one)[:40]
            groups = len(_GROUP.findall(entry["regex"])) if "regex" in entry else 1
            remedy = "" if groups else ": write ( ) around the number in 'regex'"
            if groups > 1:
                remedy = ": in 'regex', write ( ) around the number alone, and (?: ) around other parts"
            raise _NotFound(f"{name}: line {line} of {part}: '{said}' is no number that fits{remedy}")
        numbers.append(number)
    if "regex" in entry:
        for part, text in texts.items():
            warnings += [f"{name}: line {line} of {part}: {what}" for line, what in _doubt_numbers(entry, text)]
    if not numbers:
        heads = [next(_rows(text), (0, []))[1] for text in texts.values()] if "column" in entry else []
        known = list_names([one for one in heads[0] if one], "columns") if heads else ""
        lines = (line.lstrip() for text in texts.values() for line in text.splitlines())
        if "json" in entry and not any(line.startswith("{") for line in lines):
            known = ": no line is a JSON object, and 'json' is a path in one: write 'regex' for other text"
        raise _NotFound(f"{name}: no number for {_name_values(entry)} in {_tell_position(entry)}{known}")
    return _in_base_units(float(_TAKES[entry["take"]](numbers)), OUTPUT_UNITS[entry["unit"]][1])


def _read_table(
    entry: ResultEntry, text: str, origin_s: float, allowed_s: tuple[float, float]
) -> tuple[Table, Mapping[str, list[int]]]:
    """Return a table, and the lines with each problem.

    origin_s: the origin of its times, in s from time zero. allowed_s: the span in which they may be.
    """
    rows = _rows(text)
    head, names = next(rows, (0, []))
    named = [name for name in (entry.get("time"), *entry["units"]) if name is not None]
    if missing := next((name for name in named if name not in names), None):
        known = list_names([name for name in names if name], "columns")
        raise _NotFound(f"table '{entry['name']}': no column '{missing}' in {_tell_position(entry)}{known}")
    columns: list[list[str]] = [[] for _ in names]
    lines: list[int] = []
    problems: list[tuple[str, int]] = []
    for cells, (line, row) in enumerate(rows):
        if cells * len(names) > MOST_CELLS:
            raise _NotFound(f"table '{entry['name']}': more than {MOST_CELLS} values in {_tell_position(entry)}")
        lines.append(line)
        if len(row) != len(names):
            problems.append(("the number of cells differs from the header", line))
        for n, column in enumerate(columns):
            column.append(row[n] if n < len(row) else "")
    table: dict[str, Sequence[Any]] = {}
    # columns that the table has in any case
    taken = {"flow", *(["time_s"] if "time" in entry else [])}
    for name, column in zip(names, columns, strict=True):
        numbers = [_number(cell) for cell in column]
        if name == entry.get("time"):
            factor = OUTPUT_UNITS[entry["units"].get(name, "s")][1]
            times = [None if one is None else _in_base_units(one, factor) + origin_s for one in numbers]
            problems += _find_time_problems(name, lines, times, allowed_s)
            table["time_s"] = times
            continue
        if name in entry["units"]:
            kind, factor = OUTPUT_UNITS[entry["units"][name]]
            what = f"column '{name}' has a text and no number"
            problems += [(what, n) for n, one, cell in zip(lines, numbers, column, strict=True) if one is None and cell]
            title = f"{name}{SUFFIXES[SYMBOLS[kind]]}"
            values: Sequence[Any] = [None if one is None else _in_base_units(one, factor) for one in numbers]
        else:
            is_numeric = all(one is not None or not cell for one, cell in zip(numbers, column, strict=True))
            title, values = name, numbers if is_numeric else column
        if title in taken:
            problems.append((f"column '{name}' is left out, as the table has another '{title}': rename it", head))
        else:
            table[title] = values
            taken.add(title)
    return table, gather(problems)


def _find_time_problems(
    name: str, lines: Sequence[int], times: Sequence[float | None], allowed_s: tuple[float, float]
) -> Iterator[tuple[str, int]]:
    """Yield what is wrong with a row's time, and the row's line."""
    before = -math.inf
    for line, at_s in zip(lines, times, strict=True):
        if at_s is None:
            yield f"column '{name}' has no time", line
            continue
        if at_s < before:
            yield "its time is before the time of the row before: sort the rows", line
        if not allowed_s[0] <= at_s <= allowed_s[1]:
            yield f"its time is not in the time of the command: check 'clock' and the unit of '{name}'", line
        before = at_s


def _texts_of(flow: Flow, entry: ResultEntry, outputs: Outputs) -> Mapping[str, str]:
    """Return the texts that an entry reads, by what they are."""
    if "file" in entry:
        return {_tell_position(entry): _file(entry, outputs)}
    name = f"{flow.name}.server" if entry.get("of") == "server" else flow.name
    error = f"the standard error of the {entry.get('of', 'command')}"
    return {_tell_position(entry): outputs.log(name), error: outputs.log(name, "err")}


def _look_elsewhere(flow: Flow, entry: ResultEntry, outputs: Outputs) -> str:
    """Return that the output of the entry's other program has what an entry did not find; empty if it does not."""
    if "file" in entry or "server" not in flow.options:
        return ""
    other = "command" if entry.get("of") == "server" else "server"
    own, others = (_texts_of(flow, {**entry, "of": of}, outputs) for of in (entry.get("of"), other))
    with contextlib.suppress(_NotFound):
        has_own, has_other = (any(True for text in one.values() for _ in _find(entry, text)) for one in (own, others))
        if has_other and not has_own:
            remedy = "write 'of: server'" if other == "server" else "remove 'of: server'"
            return f": {OF_OUTPUT} {other} has it: {remedy}"
    return ""


def _file(entry: ResultEntry, outputs: Outputs) -> str:
    content = outputs.file(entry["file"])
    if content is None:
        raise _NotFound(f"'{entry['name']}': the programs left no file '{entry['file']}' in {{files}}")
    if len(content) > MOST_FILE_BYTES:
        raise _NotFound(f"'{entry['name']}': '{entry['file']}' has more than {MOST_FILE_BYTES >> 20} MiB")
    return content.decode(errors="replace")


def _tell_position(entry: ResultEntry) -> str:
    return f"'{entry['file']}'" if "file" in entry else f"{OF_OUTPUT} {entry.get('of', 'command')}"


def _find(entry: ResultEntry, text: str) -> Iterator[FoundValue]:
    """Yield the line and the value of what an entry finds in a text."""
    if "regex" in entry:
        return _search(entry["regex"], text)
    return _look_up(entry["json"], text) if "json" in entry else _column(entry["column"], text)


def _search(regex: str, text: str) -> Iterator[FoundValue]:
    """Yield the first group, or the whole match, of each line that matches. The time is linear in the text."""
    import polars  # the expression is a stranger's, and Python's own search may take exponential time

    lines = polars.Series(text.splitlines(), dtype=polars.String)
    found = lines.str.extract(regex, 1)
    if found.null_count() == len(found):
        found = lines.str.extract(regex, 0)
    yield from ((line, value) for line, value in enumerate(found, 1) if value is not None)


def _doubt_numbers(entry: ResultEntry, text: str) -> Iterator[tuple[int, str]]:
    """Yield the first line with a number that continues behind the match, and the first with another unit behind it."""
    import polars  # as in _search

    regex = _keep_rest(entry["regex"])
    if regex is None:
        return
    try:
        found = polars.Series(text.splitlines(), dtype=polars.String).str.extract_groups(regex).struct.unnest()
    except polars.exceptions.ComputeError:
        # an expression with comments, or a large one
        return
    unit, is_cut, is_other = entry["unit"], False, False
    found = found.select("mprun_number", "mprun_end", "mprun_rest").with_row_index("line", 1)
    for line, number, end, rest in found.drop_nulls().iter_rows():
        more = _MORE_OF_NUMBER.match(rest)
        # an address or a version, such as 10.1.0.1, is no number
        if more and more[0] and not (end or is_cut) and _number(number + more[0]) is not None:
            is_cut = True
            whole = f"{number}{more[0]}"[:40]
            yield line, f"'{number}' is a part of '{whole}': let ( ) in 'regex' hold all of it, as in ([0-9.]+)"
        behind = _UNIT_BEHIND.match(end + rest)
        if behind and unit != "count" and OUTPUT_UNITS[behind[1]] != OUTPUT_UNITS[unit] and not is_other:
            is_other = True
            yield line, f"'{behind[1]}' follows the number, and 'unit' is {unit}: write 'unit: {behind[1]}'"


def _keep_rest(regex: str) -> str | None:
    """Return an expression with three named groups: its first group or the whole match, and what follows that.

    What follows is in two groups: the end of the match, and the end of the line. None if the first group is a part of
    another one.
    """
    opened: list[int] = []
    first = None
    for part in _PART.finditer(regex):
        if part[0] == "(":
            opened.append(part.start())
            if first is None and _GROUP.match(regex, part.start()):
                first = part.start()
        elif part[0] == ")" and opened and opened.pop() == first:
            if opened:
                return None
            before, group, end = regex[:first], regex[first : part.end()], regex[part.end() :]
            return f"{before}(?P<mprun_number>{group})(?P<mprun_end>{end})(?P<mprun_rest>.*)"
    return f"(?P<mprun_number>{regex})(?P<mprun_end>)(?P<mprun_rest>.*)"


def _look_up(path: str, text: str) -> Iterator[FoundValue]:
    """Yield the value at a path of the JSON object that the text is, or else of each line that is one.

    An object without the path gives no value. A line that begins as an object and is none gives _BROKEN.
    """
    for line, part in enumerate((text, *text.splitlines())):
        if not part.lstrip().startswith("{"):
            continue
        try:
            value = parse_json(part.strip().encode())
        except ValueError:
            if line:
                yield line, _BROKEN
            continue
        for key in path.split("."):
            if isinstance(value, list) and key.isdecimal() and int(key) < len(value):
                value = value[int(key)]
            elif isinstance(value, dict) and key in value:
                value = value[key]
            else:
                break
        else:
            yield max(line, 1), value
        if not line:
            return


def _column(name: str, text: str) -> Iterator[FoundValue]:
    """Yield the cell of each row in a column. A row that is too short has an empty one."""
    rows = _rows(text)
    _, names = next(rows, (0, []))
    if name in names:
        position = names.index(name)
        yield from ((line, row[position] if position < len(row) else "") for line, row in rows)


def _rows(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the line and the cells of each row of a CSV text, whose separator is a comma, a semicolon or a tab.

    Raises _NotFound for a row that cannot be read, such as one with a quote that never ends.
    """
    head = text.partition("\n")[0]
    separator = max(",;\t", key=head.count)
    rows = csv.reader(io.StringIO(text), delimiter=separator, strict=True)
    try:
        for row in rows:
            cells = [cell.strip() for cell in row]
            if len(cells) > 1 or any(cells):
                yield rows.line_num, cells
    except csv.Error as error:
        raise _NotFound(f"line {rows.line_num} is no CSV: {error}") from None


def _in_base_units(number: float, factor: Decimal) -> float:
    """Return the float that is nearest to the product, so that 57 % equals the bound `57%`: 57 * 0.01 is a little more.

    factor: base units in the unit of the number, as in OUTPUT_UNITS.
    """
    return float(Decimal(repr(number)) * factor)


def _number(value: object) -> float | None:
    """Return a finite number, or a text of one, as a float; else None."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) and abs(number) < 1 << 63 else None
