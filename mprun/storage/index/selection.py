# SPDX-License-Identifier: Apache-2.0
"""The selection of runs for a list: which runs it shows, with which columns, in which order.

A name is a field of each run (FIELDS), a parameter, or a metric. Of equal names, the first of these counts.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

from mprun.errors import SpecError, refusing
from mprun.model.frozen import Frozen
from mprun.model.metric import UNITS
from mprun.model.problem import list_names, name_nearest
from mprun.model.run_files import LABEL
from mprun.model.run_summary import MetricValue
from mprun.model.scalar import Scalar, spell_scalar
from mprun.model.units import format_measured
from mprun.statements.evaluation import check, evaluate
from mprun.statements.expression import (
    Condition,
    Expression,
    ExpressionError,
    Reference,
    UnknownName,
    Value,
    parse,
    parse_amount,
    parse_condition,
)
from mprun.storage.index.listed import ListedEntry

if TYPE_CHECKING:
    from mprun.storage.index.database import Index

# A value in a list: a scalar of a parameter or a field, or a measured value.
ListCell = Scalar | MetricValue
ColumnValues = Mapping[int, ListCell]

# The most parameters that a list shows if nobody has chosen columns.
MOST_DIFFERING = 4

FIELDS: Mapping[str, Callable[[ListedEntry], Scalar]] = {
    "name": lambda entry: entry.name,
    "status": lambda entry: entry.status,
    "engine": lambda entry: entry.engine or None,
    "seed": lambda entry: entry.seed,
}


class ListRequest(Frozen):
    """The statements, columns and order of a list.

    - where: statements, all of which must hold. A run without a value of a statement is left out.
    - columns: names whose values are shown.
    - sort: the name whose value orders the runs, smallest first; empty: by age. Runs without a value are last.
    - is_reversed: the other order. Runs without a value are still last.
    """

    where: Sequence[str] = ()
    columns: Sequence[str] = ()
    sort: str = ""
    is_reversed: bool = False


class ListedRow(Frozen):
    """A run or a sweep with its values, in the order of the columns; None: it has no such value."""

    entry: ListedEntry
    values: Mapping[str, ListCell]


class Listing(Frozen):
    """A list.

    - notes: what a reader must know of the statements.
    - total: the number of all runs and sweeps.
    - damage: why files could not be read, of all runs and sweeps.
    """

    rows: tuple[ListedRow, ...]
    columns: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    total: int = 0
    damage: tuple[str, ...] = ()


@dataclasses.dataclass
class _Listed:
    """The values of all runs by name. `lacking`: what to add to a message about an unknown name."""

    index: Index
    entries: Mapping[int, ListedEntry]
    lacking: str = ""
    _read: dict[str, ColumnValues] = field(default_factory=dict)

    @cached_property
    def names(self) -> tuple[list[str], list[str]]:
        """The names of parameters and of metrics."""
        return self.index.names("parameters"), self.index.names("metrics")

    def values(self, name: str) -> ColumnValues:
        """Return the values of a name by the number of the run, of the oldest run first. Raises UnknownName."""
        if name not in self._read:
            self._read[name] = self._find(name)
        return self._read[name]

    def _find(self, name: str) -> ColumnValues:
        if name in FIELDS:
            found = {number: FIELDS[name](entry) for number, entry in self.entries.items()}
            return {number: value for number, value in found.items() if value is not None}
        parameters, metrics = self.names
        if name in parameters or name in metrics:
            of_all: ColumnValues = self.index.parameter(name) if name in parameters else self.index.metric(name)
            return {number: of_all[number] for number in self.entries if number in of_all}
        known = [*FIELDS, *parameters, *metrics]
        if name == LABEL:
            raise UnknownName(f"no run has a label: `mprun run --label TEXT` gives one{self.lacking}")
        hint = name_nearest(name, known, "names")
        if not hint.startswith(":"):
            own = f"{list_names(parameters, 'parameters')}{list_names(metrics, 'metrics')}"
            hint = f"; fields: {', '.join(FIELDS)}{own}"
        raise UnknownName(f"no run has a parameter or metric '{name}'{hint}{self.lacking}")


def select(index: Index, request: ListRequest, lacking: str = "") -> Listing:
    """Return the list that a request asks for. lacking: ends messages about unknown names. Raises SpecError."""
    source = _Listed(index, index.entries(), lacking)
    chosen, notes = list(source.entries), []
    conditions = [_quote_label(text) for text in request.where]
    for text in conditions:
        with _named(text):
            # a fault is a fault without any run, too
            if parse_condition(text) is None:
                parse(text)
    if chosen:
        for text in conditions:
            chosen, note = _filter(text, chosen, source)
            notes += [note] if note else []
        if request.sort:
            sorting = _values(request.sort, "--sort", source)
            having = [number for number in chosen if number in sorting]
            having.sort(key=lambda number: sort_key(sorting[number]), reverse=request.is_reversed)
            chosen = [*having, *(number for number in chosen if number not in sorting)]
        elif request.is_reversed:
            chosen.reverse()
    columns = tuple(dict.fromkeys(request.columns))
    values = {name: _values(name, "--columns", source) if source.entries else {} for name in columns}
    rows = tuple(
        ListedRow(source.entries[number], {name: found.get(number) for name, found in values.items()})
        for number in chosen
    )
    problems = tuple(entry.damage for entry in source.entries.values() if entry.damage)
    return Listing(rows, columns, tuple(notes), len(source.entries), problems)


def find_differing(index: Index) -> tuple[str, ...]:
    """Return the parameters with several values among the runs of an index, and the label, at most MOST_DIFFERING."""
    entries = index.entries()
    differing = []
    for name in index.names("parameters"):
        of_all = index.parameter(name)
        if name == LABEL or len({of_all[number] for number in entries if number in of_all}) > 1:
            differing.append(name)
    return tuple(differing[:MOST_DIFFERING])


def _values(name: str, option: str, source: _Listed) -> ColumnValues:
    with refusing(f"{option} {name}", UnknownName):
        return source.values(name)


def _filter(text: str, chosen: Sequence[int], source: _Listed) -> tuple[list[int], str]:
    """Return the runs for which a statement holds, and a note if it fits none of them or has no value for some."""
    condition = parse_condition(text)
    with _named(text):
        # some values are no numbers, with or without a unit
        if condition is not None and None in map(to_value, source.values(condition[0].key).values()):
            return _compare(text, *condition, chosen, source)
        if condition is not None:
            one, is_wanted = condition
            if "" in (one.value, one.until):
                bound = f"{one.key} >= {one.value}" if one.value else f"{one.key} < {one.until}"
                raise UnknownName(f"the range lacks an end: write it, or compare, as in '{bound}'")
            text = one.spell() if is_wanted else f"not ({one.spell()})"
        return _evaluate(parse(text), chosen, source)


def _quote_label(text: str) -> str:
    """Return a condition on the label, which may be any text, with quotes around the label."""
    name, _, label = text.partition("=")
    return f"{name}='{label}'" if name == LABEL and not {"'", "="} & {*label} else text


@contextlib.contextmanager
def _named(text: str) -> Iterator[None]:
    """Turn a problem of a statement in the block into a SpecError that names the statement."""
    try:
        yield
    except (ExpressionError, UnknownName) as error:
        if found := re.fullmatch(r"\s*([\w.]+)\s*:\s*([^\s=<>]+)\s*", text):
            raise SpecError(f"--where '{text}': write '{found[1]}={found[2]}'") from None
        parts = [part.strip() for part in text.split(" and ")] if "(" not in text and " or " not in text else []
        # a statement compares no texts
        if len(parts) > 1 and any((one := parse_condition(part)) and to_value(one[0].value) is None for part in parts):
            remedy = " ".join(f"--where {shlex.quote(part)}" for part in parts)
            raise SpecError(f"--where '{text}': write {remedy}") from None
        advice = ""
        if not set("<>=") & {*text} and " " not in text:
            advice = "; if you wrote '<' or '>', which a shell takes, put the whole condition in quotes"
        if not advice and {"<", ">"}.isdisjoint(text) and " " in text.partition("=")[2].strip():
            advice = ", and a text of several words in single quotes"
        named = f"--where {error}" if str(error).startswith("'") else f"--where {text}: {error}"
        raise SpecError(named + advice) from None


def _compare(
    text: str, condition: Condition, is_wanted: bool, chosen: Sequence[int], source: _Listed
) -> tuple[list[int], str]:
    """Return the runs whose value is a text, or is another one."""
    values = source.values(condition.key)
    if condition.until is not None:
        raise UnknownName(f"'{condition.key}' has texts: name one of them")
    spelled = {number: _spell_cell(value) for number, value in values.items()}
    if condition.value not in spelled.values():
        known = sorted(set(spelled.values()))
        return [number for number in chosen if not is_wanted and number in spelled], (
            f"--where {text}: no run has this value{name_nearest(condition.value, known, 'values')}{source.lacking}"
        )
    return [n for n in chosen if n in spelled and (spelled[n] == condition.value) == is_wanted], ""


def _evaluate(statement: Expression, chosen: Sequence[int], source: _Listed) -> tuple[list[int], str]:
    """Return the runs for which a statement holds, and a note on runs for which it cannot be computed."""
    check(statement, lambda reference: _find_value(reference, source))
    needed = [source.values(reference.name) for reference in statement.references()]
    kept: list[int] = []
    problems: list[str] = []
    for number in chosen:
        if all(number in values for values in needed):
            try:
                if evaluate(statement, partial(_value, number, source)).is_true:
                    kept.append(number)
            except ExpressionError as error:
                problems.append(f"{source.entries[number].name}: {error.reason}")
    if not problems:
        return kept, ""
    more = f", and for {len(problems) - 1} more" if len(problems) > 1 else ""
    return kept, f"--where {statement.text}: has no value for {problems[0]}{more}"


def _find_value(reference: Reference, source: _Listed) -> Value:
    """Return the value of the first run that has one. No run has a share above the whole. Raises UnknownName."""
    if any(segment.conditions for segment in reference.segments):
        raise UnknownName("conditions in brackets choose no runs: write each as a --where of its own")
    values = source.values(reference.name)
    known = [value for cell in values.values() if (value := to_value(cell)) is not None]
    if not known:
        example = _spell_cell(next(iter(values.values()), "VALUE"))
        raise UnknownName(f"is a text: compare it as in '{reference.name}={example}'")
    return replace(known[0], is_part=all(value.amount <= 1 for value in known))


def _value(number: int, source: _Listed, reference: Reference) -> Value:
    found = to_value(source.values(reference.name)[number])
    if found is None:
        raise UnknownName("is a text here")
    return found


def to_value(cell: ListCell) -> Value | None:
    """Return a value with its unit; None for a text without a number."""
    if isinstance(cell, MetricValue):
        return Value((float(cell.value),), UNITS[cell.unit])
    if isinstance(cell, bool) or cell is None:
        return None
    if isinstance(cell, int | float):
        return Value((float(cell),), "count")
    try:
        return parse_amount(cell)
    except ExpressionError:
        return None


def sort_key(cell: ListCell) -> tuple[bool, float, str]:
    """Return the key that orders values: numbers by their amount, then texts."""
    value = to_value(cell)
    return (True, 0.0, _spell_cell(cell)) if value is None else (False, value.amount, "")


def _spell_cell(cell: ListCell) -> str:
    return str(cell.value) if isinstance(cell, MetricValue) else spell_scalar(cell)


def spell(cell: ListCell) -> str:
    """Return a value as text for people; `-` if there is none."""
    if cell is None:
        return "-"
    return format_measured(cell.value, cell.unit) if isinstance(cell, MetricValue) else spell_scalar(cell)
