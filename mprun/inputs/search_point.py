# SPDX-License-Identifier: Apache-2.0
"""Read the conditions of a search, and compute the values of its control runs at a point."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

from mprun.inputs.document import Document
from mprun.inputs.keys.event import PROPERTIES
from mprun.inputs.keys.search import SearchEntry, read_axis
from mprun.inputs.matrix_cells import PLACES
from mprun.inputs.parameter import tell_no_parameter
from mprun.model.metric import Metric
from mprun.model.problem import name_nearest, tell_unknown
from mprun.model.scalar import Scalar
from mprun.model.search_space import Choice, Floors, Search, SearchAxis
from mprun.model.spec import Repeat
from mprun.statements.evaluation import check
from mprun.statements.expression import ExpressionError, Reference, UnknownName, parse

# The axis of a search's table with the names of controls.
CASE = "case"
# The case that is not a control.
MAIN = "main"


def read_search(entry: SearchEntry, metric_of: Callable[[str], Metric], document: Document) -> Search:
    """Return the conditions of a search. Problems go to the document, and axes with a problem are left out.

    metric_of: returns a metric of a run; may raise UnknownName.
    """
    axes: list[SearchAxis] = []
    for name, value in entry.vary.items():
        try:
            axes.append(read_axis(name, value))
        except ValueError as error:
            document.refuse(("search", "vary", name), str(error))
    for name in {CASE, MAIN} & {*entry.control, *entry.vary}:
        position = "control" if name in entry.control else "vary"
        message = f"'{name}' has a meaning in the table of a search: take another name"
        document.refuse(("search", position, name), message)

    def is_metric(name: str) -> bool:
        try:
            return bool(metric_of(name))
        except UnknownName:
            return False

    def find(reference: Reference) -> Metric:
        first, _, rest = reference.name.partition(".")
        is_known = is_of_control(reference, entry.control)
        if not is_known and first != "cells" and is_metric(rest) and not is_metric(reference.name):
            raise UnknownName(tell_unknown("control", first, entry.control))
        return metric_of(rest if is_known else reference.name)

    try:
        check(parse(entry.violate), find)
    except ExpressionError as error:
        document.refuse(("search", "violate"), str(error))
    floors = Floors() if entry.floors is None else entry.floors.fill(Floors)
    return Search(tuple(axes), entry.violate, entry.control, floors)


def is_of_control(reference: Reference, controls: Collection[str]) -> bool:
    """Return whether a name in the statement is a metric of a control run."""
    return len(reference.segments) > 1 and reference.segments[0].name in controls


def check_names(search: Search, parameters: Collection[str], links: Collection[str] | None, document: Document) -> None:
    """Record the names that are neither a parameter nor a property of a link. links: None if they are not known."""
    names: list[tuple[str, ...]] = [("search", "vary", axis.name) for axis in search.axes]
    names += [("search", "control", control, name) for control, changes in search.controls.items() for name in changes]
    for *path, name in names:
        if path[1] == "control" and name == "kernel":
            continue
        if message := _find_name_problem(name, parameters, links):
            document.refuse((*path, name), message)


def _find_name_problem(name: str, parameters: Collection[str], links: Collection[str] | None) -> str | None:
    link, dot, prop = name.rpartition(".")
    if name in PLACES:
        return f"a search does not vary the {name}: give it on the command line, or a kernel to a control"
    if not dot:
        return None if name in parameters else tell_no_parameter(name, parameters)
    if prop not in PROPERTIES:
        return f"a link has no '{prop}'{name_nearest(prop, PROPERTIES, 'it has')}"
    if links is not None and link not in links:
        return tell_unknown("link", link, links)
    return None


def check_repeat(repeat: Repeat, document: Document) -> None:
    if repeat.most > 1:
        message = (
            "conflicts with 'search', which makes one run at each point: remove 'repeat', or keep only 'seed' in it"
        )
        document.refuse(("repeat",), message)


def list_ends(search: Search) -> Iterator[Mapping[str, Scalar]]:
    """Yield points that have each value of each list and both ends of each range."""
    values = {
        axis.name: axis.values if isinstance(axis, Choice) else [axis.value_at(share) for share in (0, 1)]
        for axis in search.axes
    }
    for n in range(max(map(len, values.values()))):
        yield {name: some[n % len(some)] for name, some in values.items()}


def control_values(search: Search, control: str, point: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Return the values of a control run at a point: those of the point, and its own changes."""
    changes = {
        name: point.get(value, value) if isinstance(value, str) else value
        for name, value in search.controls[control].items()
    }
    return {**point, **changes}
