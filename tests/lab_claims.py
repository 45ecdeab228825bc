# SPDX-License-Identifier: Apache-2.0
"""Check the claims and figures of a lab against its steps: they measure what the claims name, in the same units."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from mprun.inputs.document import Document
from mprun.inputs.loading import Loaded
from mprun.inputs.reader import read
from mprun.labs.definition import FILE, Lab
from mprun.labs.study_figure import HERE, PUBLISHED, QUOTED, StudyFigure
from mprun.model import metric
from mprun.model.metric import Metric, Metrics, Unit
from mprun.model.problem import InputError, ValuePath, name_nearest
from mprun.statements.claim import column_unit, split_table
from mprun.statements.evaluation import check as check_units
from mprun.statements.evaluation import compute
from mprun.statements.expression import ExpressionError, Reference, UnknownName, Value, parse_value
from mprun.workloads.tool import OwnedMetrics


def check_claims(lab: Lab) -> None:
    """Check claims and figures against what the steps and sweeps will measure. Raises InputError."""
    document = Document(read(lab.folder / FILE, "experiment"))
    loaded = {step.name: step.load() for step in lab.steps}
    swept = {sweep.name: sweep.load()[0] for sweep in lab.sweeps}
    for n, claim in enumerate(lab.claims):
        try:
            check_units(claim.holds, lambda reference: Value((), _unit_of(reference, loaded, swept)))
        except ExpressionError as error:
            document.refuse(("claims", n, "holds"), str(error))
    for n, figure in enumerate(lab.figures):
        for path, message in check_figure(figure, lambda reference: _unit_of(reference, loaded, swept)):
            document.refuse(("figures", n, *path), message)
    for n, step in enumerate(lab.steps):
        explicit = replace(step, parameters={**lab.defaults, **step.parameters})
        if explicit.load().spec != loaded[step.name].spec:
            document.refuse(("steps", n), "has another default for a parameter of the lab: give both the same")
    measured = [_owned(one) for one in loaded.values()]
    for n, name in enumerate(lab.file.show):
        if not any(_find_metric(name, owned) for owned in measured):
            document.refuse(("show", n), f"no step has a metric '{name}'")
    if document.problems:
        raise InputError(document.problems)


def _owned(loaded: Loaded) -> Mapping[str, Metrics]:
    return OwnedMetrics(loaded.spec.experiment.traffic)


def _find_metric(name: str, owned: Mapping[str, Metrics]) -> Metric | None:
    found = metric.find_owned(name, owned)
    return None if found is None else found[0]


def _unit_of(reference: Reference, loaded: Mapping[str, Loaded], swept: Mapping[str, Loaded]) -> Unit:
    """Return the unit of a name in a claim. Raises UnknownName. swept: a cell of each sweep."""
    step, _, name = reference.name.partition(".")
    table = split_table(reference) if step in loaded else None
    if table is not None:
        return column_unit(table[1])[0]
    if any(segment.conditions for segment in reference.segments[step in swept :]):
        raise UnknownName("conditions are for the rows of a table: write 'RUN.TABLE[flow=NAME].COLUMN'")
    owned = _owned(loaded[step] if step in loaded else swept[step])
    found = _find_metric(name, owned)
    if found is None:
        known = [f"{owner}.{metric}" for owner, metrics in owned.items() for metric in metrics]
        raise UnknownName(f"step '{step}' has no metric '{name}'{name_nearest(name, known, 'it has')}")
    return found.unit


def check_figure(figure: StudyFigure, unit_of: Callable[[Reference], Unit]) -> Iterator[tuple[ValuePath, str]]:
    """Yield a problem for each value or check whose names or units are wrong. unit_of: may raise UnknownName."""
    units: dict[str, Unit] = {}
    for n, value in enumerate(figure.values):
        of_row = value.row.value if value.row else None
        if of_row is not None:
            units.setdefault(f"{PUBLISHED}.{value.name}", of_row.unit)
        if value.here is None:
            continue
        try:
            found = compute(value.here, lambda reference: Value((1.0,), unit_of(reference)))
            units[f"{HERE}.{value.name}"] = found.unit
        except ExpressionError as error:
            yield ("values", n, "here"), str(error)
    kinds = {"ratio" if unit == "count" else unit for unit in units.values()}
    if len(kinds) > 1:
        yield ("values",), f"have several kinds of unit ({', '.join(sorted(kinds))}): draw them in figures of their own"

    def unit(reference: Reference) -> Unit:
        if reference.segments[0].name not in (PUBLISHED, HERE):
            return unit_of(reference)
        if reference.name not in units:
            known = name_nearest(reference.name, units, "it has")
            raise UnknownName(f"the figure has no value '{reference.name}'{known}")
        return units[reference.name]

    for n, one in enumerate(figure.entry.checks):
        try:
            check_units(one.holds, lambda reference: Value((), unit(reference)))
        except ExpressionError as error:
            yield ("checks", n, "holds"), str(error)
    for text in figure.reasons:
        for quoted in QUOTED.findall(text):
            try:
                compute(parse_value(quoted), lambda reference: Value((1.0,), unit(reference)))
            except ExpressionError as error:
                yield ("checks",), f"'{{{quoted}}}' in a reason: {error}"
