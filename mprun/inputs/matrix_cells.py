# SPDX-License-Identifier: Apache-2.0
"""The matrix of an experiment: its axes, the cells that they make, and the plots over them.

An axis is a parameter of the files, a property of a link (`path0.rate`), `kernel` or `engine`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import replace
from itertools import product
from typing import Any

from pydantic import ValidationError

from mprun.inputs.document import Document
from mprun.inputs.keys.event import PROPERTIES
from mprun.inputs.keys.experiment import ExperimentFile
from mprun.inputs.keys.file_model import PREPARED, check, explain, fields_of
from mprun.inputs.keys.link import DirectionProperties, LinkProperties, find_disagreements
from mprun.inputs.keys.matrix import EXCLUDE, MOST_CELLS, ZIP, RangeEntry
from mprun.inputs.parameter import tell_no_parameter
from mprun.model.axis import read_axis, read_number
from mprun.model.engine_name import ENGINE_NAMES
from mprun.model.frozen import Frozen
from mprun.model.problem import ValuePath, find_nearest, list_names, name_nearest, tell_unknown
from mprun.model.scalar import Scalar, name_value, spell_scalar
from mprun.model.spec import HEADER_BYTES, LinkSpec, Plot
from mprun.model.units import tell_rounding
from mprun.statements.evaluation import chooses
from mprun.statements.expression import Condition

# Axes that are neither a parameter nor a property of a link. They say where a cell runs.
PLACES = ("kernel", "engine")
# The largest number of cells before `exclude` is applied. 100,000 cells take 0.3 s.
MOST_COMBINATIONS = 100_000
# The largest number of axes and of entries of `exclude`, as each is compared with each cell.
MOST_AXES = MOST_EXCLUDED = 100

CellValues = tuple[tuple[str, Scalar], ...]
# Axes by name, with their values in order.
_Axes = Mapping[str, tuple[Scalar, ...]]
# Values for an example of an axis, by the property of a link. Default: shares of the packets.
_EXAMPLES = {
    **{"rate": "5mbit, 10mbit", "queue": "50packets, 100packets"},
    **dict.fromkeys(("delay", "rtt", "jitter"), "10ms, 50ms"),
}


class Matrix(Frozen):
    """Groups of axes. Axes of one group vary together. Each group varies with each other group."""

    groups: tuple[_Axes, ...] = ()
    excluded: tuple[Mapping[str, Scalar], ...] = ()

    @property
    def axes(self) -> _Axes:
        return {name: values for group in self.groups for name, values in group.items()}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for group in self.groups for name in group)

    def values(self, fixed: Mapping[str, Scalar]) -> dict[str, list[Scalar]]:
        """The possible values of each axis: its own values, and a given value."""
        return {name: [*values, *([fixed[name]] if name in fixed else [])] for name, values in self.axes.items()}

    def find_open(self, fixed: Collection[str]) -> tuple[str, ...]:
        """Return the axes without a given value that do not vary together with an axis that has one."""
        return tuple(name for group in self.groups if not {*group} & {*fixed} for name in group)

    def find_lost(self, fixed: Mapping[str, Scalar]) -> Iterator[tuple[str, str]]:
        """Yield each axis whose given value does not fit the values of the others, with the message."""
        for group in self.groups:
            given = [name for name in group if name in fixed]
            if given and not _rows(group, fixed):
                others = " and ".join(name for name in group if name not in fixed)
                values = ", ".join(dict.fromkeys(map(spell_scalar, group[given[-1]][:8])))
                remedy = f"write one of {values}, or give {others} too"
                yield given[-1], f"{others} has no value together with '{spell_scalar(fixed[given[-1]])}': {remedy}"

    def find_lists(self, given: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """Yield each axis for which several of its values are given in one text, with the message."""
        for name, values in self.axes.items():
            text = given.get(name, "")
            parts, known = {*text.split(",")}, {*map(spell_scalar, values)}
            if len(parts) > 1 and parts <= known and text not in known:
                remedy = "give one, or remove the others from 'matrix'"
                yield name, f"'{text}' is several values of this axis: {remedy}"

    def find_cells(self, conditions: Sequence[Condition], among: Sequence[CellValues]) -> str | None:
        """Return the reason why no cell has these values; None if one has. Raises ExpressionError for no number."""
        if any(all(chooses(one, spell_scalar(dict(row)[one.key])) for one in conditions) for row in among):
            return None
        for one in conditions:
            known = dict.fromkeys(spell_scalar(dict(row)[one.key]) for row in among)
            if not any(chooses(one, text) for text in known):
                return f"axis '{one.key}' has no value '{one.wanted}'{name_nearest(one.wanted, list(known), 'it has')}"
        return "no cell has all of these values"

    @property
    def count(self) -> int:
        """The number of cells before equal and excluded cells are left out, known without making the cells."""
        return math.prod(len(next(iter(group.values()))) for group in self.groups)

    def cells(self, fixed: Mapping[str, Scalar]) -> tuple[CellValues, ...]:
        """The values of each cell in the order of the axes.

        `fixed`: axes with one value. A fixed axis that varies together with others chooses among their rows.
        """
        choices = [_rows(group, fixed) for group in self.groups]
        rows = (tuple(value for values in choice for value in values) for choice in product(*choices))
        # compare texts, as 0 and false, and 1 and 1.0, are equal in Python
        different = {_texts(row): row for row in rows}
        excluded = [_texts(one.items()) for one in self.excluded]
        return tuple(row for texts, row in different.items() if not any(one <= texts for one in excluded))


def _texts(row: Iterable[tuple[str, Scalar]]) -> frozenset[tuple[str, str]]:
    return frozenset((name, str(value)) for name, value in row)


def _rows(group: _Axes, fixed: Mapping[str, Scalar]) -> list[CellValues]:
    given = {name: fixed[name] for name in group if name in fixed}
    if len(given) == len(group):
        return [tuple(given.items())]
    rows = [tuple(zip(group, row, strict=True)) for row in zip(*group.values(), strict=True)]
    return [row for row in rows if all(str(dict(row)[name]) == str(value) for name, value in given.items())]


def list_axes(matrix: object) -> list[str]:
    """Return the names of the axes of a matrix that was not checked: its own, and those of its zips."""
    if not isinstance(matrix, dict):
        return []
    zips = matrix.get(ZIP)
    zipped = (name for one in zips if isinstance(one, dict) for name in one) if isinstance(zips, list) else ()
    return [name for name in (*matrix, *zipped) if name not in (ZIP, EXCLUDE)]


def read_matrix(value: object, parameters: Collection[str], document: Document) -> Matrix:
    """Return the matrix from plain values. Problems go to the document, and axes with a problem are left out.

    `parameters`: the names of the parameters of the files.
    """
    if value is None:
        return Matrix()
    if not isinstance(value, dict):
        document.refuse(("matrix",), "must be names with values: write 'matrix: {cc: [cubic, reno]}'")
        return Matrix()
    if _is_too_long(value, MOST_AXES, ("matrix",), document):
        return Matrix()
    groups: list[_Axes] = []
    # in {transport: tcp, mptcp} the second text is a key without a value
    blank = [str(name) for name, entry in value.items() if entry is None]
    for name, entry in value.items():
        position = ("matrix", name)
        if blank and isinstance(entry, str):
            document.refuse(position, f"is one text: write '{name}: [{', '.join([entry, *blank])}]'")
            return Matrix()
        values = None if name in (ZIP, EXCLUDE) else _read_axis(name, entry, position, parameters, document)
        if values is not None and not _is_twice([values], position, document):
            groups.append({name: values})
    matrix = Matrix((*groups, *_read_zips(value.get(ZIP), parameters, document)))
    names = list(matrix.names)
    for name in {name for name in names if names.count(name) > 1}:
        document.refuse(("matrix", name), "is both inside and outside 'zip': remove one of the two")
    if matrix.count > MOST_COMBINATIONS:
        document.refuse(("matrix",), f"has {matrix.count} cells: at most {MOST_CELLS} are allowed")
        return Matrix()
    matrix = Matrix(matrix.groups, tuple(_read_excluded(value.get(EXCLUDE), matrix, document)))
    if not document.problems and (count := len(matrix.cells({}))) > MOST_CELLS:
        document.refuse(("matrix",), f"has {count} cells: at most {MOST_CELLS} are allowed")
    return matrix


def _is_too_long(value: Sized, most: int, position: ValuePath, document: Document) -> bool:
    if len(value) > most:
        document.refuse(position, f"has {len(value)} entries: at most {most} are allowed")
    return len(value) > most


def _read_zips(value: object, parameters: Collection[str], document: Document) -> Iterator[_Axes]:
    example = "{rate: [1mbit, 2mbit], delay: [10ms, 20ms]}"
    for position, entry in _list_mappings(value, ZIP, "names with values", example, document):
        if _is_too_long(entry, MOST_AXES, position, document):
            continue
        read = {name: _read_axis(name, one, (*position, name), parameters, document) for name, one in entry.items()}
        axes = {name: values for name, values in read.items() if values is not None}
        if len({*map(len, axes.values())}) > 1:
            lengths = ", ".join(f"{name} {len(values)}" for name, values in axes.items())
            document.refuse(position, f"has lists of different lengths ({lengths}): give all the same length")
        elif axes and not _is_twice(axes.values(), position, document):
            yield axes


def _read_excluded(value: object, matrix: Matrix, document: Document) -> Iterator[Mapping[str, Scalar]]:
    known = matrix.axes
    for position, entry in _list_mappings(value, EXCLUDE, "values of axes", "{cc: reno, rate: 1mbit}", document):
        for name, one in entry.items():
            if name not in known:
                document.refuse((*position, name), f"no axis '{name}'{name_nearest(name, known, 'axes')}")
            elif str(one) not in map(str, known[name]):
                values = ", ".join(map(str, known[name][:8]))
                document.refuse((*position, name), f"{name_value(one)} is no value of this axis; it has: {values}")
        if entry.keys() <= known.keys():
            yield entry


def _list_mappings(
    value: object, key: str, what: str, example: str, document: Document
) -> Iterator[tuple[ValuePath, Mapping[str, Any]]]:
    """Yield the entries of a list below a key of the matrix, with their places. what, example: what an entry is."""
    position: ValuePath = ("matrix", key)
    if value is not None and not isinstance(value, list):
        document.refuse(position, f"must be a list: write '{key}: [{example}]'")
    elif value and not _is_too_long(value, MOST_EXCLUDED, position, document):
        for n, entry in enumerate(value):
            if isinstance(entry, dict) and entry:
                yield (*position, n), entry
            else:
                document.refuse((*position, n), f"must be {what}: write {example}")


def _is_twice(axes: Iterable[tuple[Scalar, ...]], position: ValuePath, document: Document) -> bool:
    """Return True if axes that vary together have the same values twice, which is a problem."""
    seen: dict[tuple[object, ...], str] = {}
    for row in zip(*axes, strict=True):
        # 1mbit and 1000kbit are equal; 1 and 1.0 are other texts
        said = ", ".join(map(str, row))
        value = tuple(found if (found := read_number(one)) and found[1] != "1" else str(one) for one in row)
        if value in seen:
            again = "" if seen[value] == said else f", also as '{seen[value]}'"
            document.refuse(position, f"has '{said}' twice{again}: a cell runs again by 'repeat: {{runs: 5}}'")
            return True
        seen[value] = said
    return False


def _read_axis(
    name: str, value: object, position: ValuePath, parameters: Collection[str], document: Document
) -> tuple[Scalar, ...] | None:
    """Return the values of an axis; None after a problem."""
    before = len(document.problems)
    prop = name.rpartition(".")[2]
    example = _EXAMPLES.get(prop, "0.1%, 1%") if prop in PROPERTIES and name not in parameters else "1, 2"
    if isinstance(value, dict) and {*value} & {*PROPERTIES}:
        lines = " and ".join(f"'{name}.{prop}: ...'" for prop in value)
        document.refuse(position, f"has properties of a link below it: write {lines}")
        return None
    if problem := _find_name_problem(name, value, parameters, document):
        document.refuse(position, problem)
    values: tuple[Scalar, ...] = ()
    if isinstance(value, dict):
        entry = check(RangeEntry, value, document, position)
        try:
            values = entry.values() if entry else ()
        except ValidationError as error:
            for path, text in explain(RangeEntry, error):
                document.refuse((*position, *path), text)
    elif isinstance(value, list) and value and all(isinstance(one, str | int | float) for one in value):
        values = tuple(value)
    elif value == []:
        document.refuse(
            position, f"is an empty list, so that no cell is left: write '{name}: [{example}]', or remove it"
        )
    else:
        # a space may be before a unit
        between = r"\.\." if re.match("[0-9]", str(value)) else r"\.\.|[ ,]+"
        given = value if isinstance(value, list) else re.split(between, str(value or ""))
        listed = ", ".join(str(one) for one in given if one and isinstance(one, str | int | float)) or example
        what = "must be a list of texts and numbers, or a range"
        document.refuse(position, f"{what}: write '{name}: [{listed}]' or {{from, to, steps}}")
    if any("{{" in str(one) for one in values):
        document.refuse(position, "holds a template: write the values")
    for place_problem in filter(None, (check_place(name, one) for one in values)):
        document.refuse(position, place_problem)
    return values if len(document.problems) == before else None


def check_place(name: str, value: Scalar) -> str | None:
    """The problem in the name of a kernel or an engine. The run finds out if it exists."""
    if name == "engine" and value not in ENGINE_NAMES:
        return f"no engine '{spell_scalar(value)}'{name_nearest(str(value), ENGINE_NAMES, 'engines')}"
    if name == "kernel" and not isinstance(value, str):
        return f"'{spell_scalar(value)}' is no name of a kernel: write it in quotes, or one as in 'default'"
    return None


def _find_name_problem(name: str, value: object, parameters: Collection[str], document: Document) -> str | None:
    """Return the problem of an axis that names nothing; None if there is none.

    The topology shows later if its link exists, or which links have one.
    """
    owner, dot, prop = name.rpartition(".")
    traffic, delay = document.part("traffic"), f"{owner}{dot}delay"
    flows = [one.get("name") for one in traffic if isinstance(one, dict)] if isinstance(traffic, list) else []
    settings, place = document.part("hosts"), "in the flow" if owner in flows else "at its place"
    use = f'{prop}: "{{{{ {prop} }}}}"'
    if prop == "congestion" and owner not in flows:
        # that of a host is a mapping by link
        use = f'sysctl: {{net.ipv4.tcp_congestion_control: "{{{{ {prop} }}}}"}}'
    how = f"'params: {{{prop}: ...}}', '{use}' {place}, and '{prop}: [...]' here"
    if dot and (owner in flows or (isinstance(settings, dict) and owner in settings)):
        what = "flow" if owner in flows else "host"
        return f"'{owner}' is a {what}, and an axis is a parameter or a property of a link: write {how}"
    if prop == "rtt" and name not in parameters and delay in list_axes(document.part("matrix")):
        return f"conflicts with '{delay}': remove one of the two"
    if dot and prop in fields_of(LinkProperties) and prop not in PROPERTIES:
        return f"'{prop}' of a link is no axis by itself: write {how}"
    if "." in owner:
        return f"'{owner}' is no link, and an axis is a parameter or a property of a link: write {how}"
    if dot and prop not in PROPERTIES:
        return f"a link has no '{prop}'{name_nearest(prop, PROPERTIES, 'it has')}"
    if name in PLACES and name in parameters:
        return f"is a parameter of the files and where a cell runs: give parameter '{name}' another name"
    if not dot and name not in (*PLACES, *PROPERTIES, *parameters):
        if name.startswith("{{"):
            return f"is a name, which stands without braces here: write '{name.strip('{} ')}'"
        said = tell_no_parameter(name, parameters)
        if "did you mean" in said:
            return said
        if name in (*fields_of(ExperimentFile), *PREPARED):
            return "is a key of the experiment: write it outside of 'matrix'"
        if name in ("topology", "experiment"):
            return f"no axis is a file: run `mprun sweep` with each {name}, or vary what differs by a parameter"
        if meant := find_nearest(name, (EXCLUDE, ZIP)):
            return f"no parameter '{name}': did you mean '{meant}'?"
        if name in ("seed", "seeds", "run", "runs"):
            said = f"no parameter '{name}': for runs with other seeds write 'repeat: {{runs: 3}}', and remove this axis"
        numbers = [read_number(str(one)) for one in value] if isinstance(value, list) else []
        is_rate = any(number is not None and number[1] == "bit/s" for number in numbers)
        return f"{said}; if '{name}' is a link, write '{name}.rate'" if is_rate else said
    return None


def lay_over(
    values: Mapping[str, Scalar], document: Document, position: ValuePath, links: tuple[LinkSpec, ...]
) -> tuple[LinkSpec, ...]:
    """Return links with the properties that a cell sets, by axis. Problems go to the document, below `position`."""
    for axis, value in values.items():
        name, _, prop = axis.rpartition(".")
        if not name:
            known = list_names([f"{link.name}.{prop}" for link in links], "names")
            document.refuse((*position, axis), f"is a property of a link: name the link too{known}")
        elif name not in {link.name for link in links}:
            document.refuse((*position, axis), tell_unknown("link", name, [link.name for link in links]))
        links = tuple(
            _set(link, prop, value, document, (*position, axis)) if link.name == name else link for link in links
        )
    return links


def _set(link: LinkSpec, prop: str, value: Scalar, document: Document, position: ValuePath) -> LinkSpec:
    try:
        given = DirectionProperties.model_validate({prop: value})
    except ValidationError as error:
        for _, text in explain(DirectionProperties, error):
            document.refuse(position, text)
        return link
    if prop == "rate" and (message := tell_rounding(value)):
        document.warn(position, message)
    forward, reverse = given.over((link.forward, link.reverse))
    for path, text in find_disagreements(forward, reverse, link.mtu + HEADER_BYTES).items():
        document.refuse(position, f"{'.'.join(map(str, path))} {text}")
    return replace(link, forward=forward, reverse=reverse)


def check_axes(plots: Collection[Plot], axes: Mapping[str, Sequence[Scalar]], document: Document) -> None:
    """Record problems of plots over an axis that the matrix does not have, or whose values do not fit.

    `axes`: the axes of the experiment's matrix, with their values.
    """
    for n, plot in enumerate(plots):
        named = {key: getattr(plot, key) for key in ("over", "by", "facet")}
        for key, axis in named.items():
            if axis is None:
                continue
            if axis not in axes:
                hint = name_nearest(axis, axes, "axes") if axes else ": write one, as in 'matrix: {cc: [cubic, reno]}'"
                document.refuse(("plots", n, key), f"the matrix has no axis '{axis}'{hint}")
            elif list(named.values()).count(axis) > 1:
                document.refuse(("plots", n, key), f"'{axis}' is used twice in this figure: remove one")
        if plot.over is not None and plot.over in axes and "x" in plot.log:
            reason = _refuse_log(plot.over, axes[plot.over])
            if reason is not None:
                document.refuse(("plots", n, "log"), f"{reason}: remove 'x'")


def _refuse_log(axis: str, values: Sequence[Scalar]) -> str | None:
    """The reason why a logarithmic axis cannot show these values. None if it can."""
    numbers = read_axis(values)
    if numbers is None:
        name = next((value for value in values if read_number(value) is None), None)
        what = "has numbers of several kinds" if name is None else f"has {name_value(name)}, which is no number"
        return f"axis '{axis}' {what}"
    low = next((text for text, number in numbers[0].items() if number <= 0), None)
    return None if low is None else f"axis '{axis}' has '{low}', which a logarithmic axis has no place for"
