# SPDX-License-Identifier: Apache-2.0
"""Search the conditions for the point at which a statement is violated most, and for its boundary on each axis.

All runs of a search are one sweep, to which each batch of points adds cells. The points follow from the files, the seed
and the outcomes, so the same search finds its runs again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Literal

from mprun.compile import allocate
from mprun.errors import refusing
from mprun.inputs.loading import Loaded
from mprun.inputs.matrix_cells import PLACES
from mprun.inputs.search_point import CASE, MAIN, control_values, is_of_control
from mprun.labs.steps import measured_by
from mprun.machine.scratch import scratch
from mprun.metrics.claim_check import MeasuredRun, find_value
from mprun.model.frozen import Frozen
from mprun.model.scalar import Scalar, spell_values
from mprun.model.search_space import Choice, Floors, Search
from mprun.model.spec import BUFFERS, Spec
from mprun.questions.minimise import read_with_seed
from mprun.questions.proposal import Boundary, Point, Stage, explore
from mprun.questions.reduction import ValueTree
from mprun.statements.evaluation import evaluate
from mprun.statements.expression import ExpressionError, Reference, Value, parse
from mprun.storage.run_directory import RunDirectory
from mprun.storage.sweep_directory import Kept
from mprun.sweeps.growth import RunCases
from mprun.sweeps.study import as_case
from mprun.workloads import tool

TABLE = "search"
# The margins of a point at which the run did not end, of one whose control fails too, and of one without a run.
BROKEN, UNSURE, NOT_RUN = -1.0, 1.0, 2.0

# holds; violated, and the controls pass; a control fails too; below a floor.
PointKind = Literal["holds", "violated", "control", "floor"]


class SearchedPoint(Frozen):
    """A point and its outcome.

    - margin: by how much the statement holds; a violation is negative.
    - figures: the values that the statement uses, by name.
    - reason: why the point does not count, or why its run failed.
    - run: the number of its run among the cells; None if it is below a floor.
    """

    stage: Stage
    values: Mapping[str, Scalar]
    kind: PointKind
    margin: float
    figures: Mapping[str, Value] = field(default_factory=dict)
    reason: str = ""
    run: int | None = None

    @property
    def rank(self) -> float:
        """The value that the search lowers."""
        return NOT_RUN if self.kind == "floor" else UNSURE if self.kind == "control" else self.margin


class SearchResult(Frozen):
    """The end of a search. edges: the boundaries around the worst point, for each axis."""

    tested: tuple[SearchedPoint, ...]
    edges: tuple[Boundary, ...]

    @property
    def worst(self) -> SearchedPoint | None:
        """The point that is violated most; None if none is."""
        return min((one for one in self.tested if one.kind == "violated"), key=lambda one: one.margin, default=None)

    def find_uncounted(self, axis: str, value: Scalar) -> str:
        """Return why the worst point with another value of an axis does not count; empty if the statement holds."""
        values = {} if self.worst is None else {**self.worst.values, axis: value}
        return next((one.reason for one in self.tested if one.values == values and one.kind != "holds"), "")

    def count(self, kind: PointKind) -> int:
        return sum(one.kind == kind for one in self.tested)


def find_violation(
    search: Search, budget: int, seed: int, load_at: Callable[[Mapping[str, Scalar]], Loaded], run_cases: RunCases
) -> SearchResult:
    """Test at most `budget` points. Raises SpecError for a statement without a value, InputError for faulty values."""
    tester = _Tester(search, load_at, run_cases)
    edges = explore(search.axes, budget, seed, tester.test)
    return SearchResult(tuple(tester.tested.values()), tuple(edges))


class _Tester:
    def __init__(self, search: Search, load_at: Callable[[Mapping[str, Scalar]], Loaded], run_cases: RunCases) -> None:
        self._search = search
        self._load_at = load_at
        self._run_cases = run_cases
        self._statement = parse(search.violate)
        self._names_controls = any(is_of_control(one, search.controls) for one in self._statement.references())
        self._cells = 0
        self.tested: dict[str, SearchedPoint] = {}

    def test(self, stage: Stage, points: Sequence[Point]) -> list[float]:
        """Return the rank of each point. Points with the same values are tested once."""
        all_values = [
            {axis.name: axis.value_at(share) for axis, share in zip(self._search.axes, point, strict=True)}
            for point in points
        ]
        new = {key: values for values in all_values if (key := spell_values(values)) not in self.tested}
        cases: dict[tuple[str, str], Loaded] = {}
        for key, values in new.items():
            loaded = self._load_at(values)
            low = find_below_floor(loaded.spec, self._search.floors)
            if low is not None:
                self.tested[key] = SearchedPoint(stage, values, "floor", 0.0, reason=low)
                continue
            cases[key, MAIN] = as_case(loaded, (*values.items(), (CASE, MAIN)))
            if self._names_controls:
                cases |= {(key, name): self._control(values, name) for name in self._search.controls}
        runs = self._run(cases)
        pending: dict[str, SearchedPoint] = {}
        for key, values in new.items():
            if (key, MAIN) in runs:
                pending[key] = self._judge(stage, values, _of_point(key, runs))
        if not self._names_controls:
            needed = {
                (key, name): self._control(new[key], name)
                for key, one in pending.items()
                if one.kind == "violated"
                for name in self._search.controls
            }
            controls = self._run(needed)
            pending = {key: self._hold_against(one, _of_point(key, controls)) for key, one in pending.items()}
        self.tested |= pending
        return [self.tested[spell_values(values)].rank for values in all_values]

    def _control(self, values: Mapping[str, Scalar], name: str) -> Loaded:
        changed = control_values(self._search, name, values)
        # the cell says on which kernel its run is made
        places = ((place, changed[place]) for place in PLACES if place in changed)
        return as_case(self._load_at(changed), (*values.items(), *places, (CASE, name)))

    def _run(self, cases: Mapping[tuple[str, str], Loaded]) -> dict[tuple[str, str], Kept]:
        if not cases:
            return {}
        runs = self._run_cases(list(cases.values()))
        first, self._cells = self._cells, self._cells + len(cases)
        by_cell = {kept.cell: kept for kept in runs}
        return {case: by_cell[first + n] for n, case in enumerate(cases)}

    def _judge(self, stage: Stage, values: Mapping[str, Scalar], runs: Mapping[str, Kept]) -> SearchedPoint:
        """Return the outcome of a point from its run, and those of its controls if the statement names them."""
        main = runs[MAIN]
        for name, kept in runs.items():
            if name != MAIN and (reason := find_trouble(kept)):
                return SearchedPoint(
                    stage, values, "control", UNSURE, reason=f"control {name}: {reason}", run=main.cell
                )
        if reason := find_trouble(main):
            return SearchedPoint(stage, values, "violated", BROKEN, reason=reason, run=main.cell)
        margin, figures = self._evaluate(runs)
        return SearchedPoint(stage, values, "holds" if margin >= 0 else "violated", margin, figures, run=main.cell)

    def _hold_against(self, one: SearchedPoint, controls: Mapping[str, Kept]) -> SearchedPoint:
        """Return a violation, or that it does not count because a control violates the statement too."""
        for name, kept in controls.items():
            reason = find_trouble(kept)
            if not reason and self._evaluate({MAIN: kept})[0] < 0:
                reason = "it violates the statement too"
            if reason:
                return replace(one, kind="control", reason=f"control {name}: {reason}")
        return one

    def _evaluate(self, runs: Mapping[str, Kept]) -> tuple[float, Mapping[str, Value]]:
        measured: dict[str, MeasuredRun] = {name: measured_by(kept.run) for name, kept in runs.items()}

        def find(reference: Reference) -> Value:
            of_run = reference if is_of_control(reference, measured) else reference.within(MAIN)
            return find_value(of_run, measured)

        with refusing("search.violate", ExpressionError):
            outcome = evaluate(self._statement, find)
        return outcome.margin, dict(outcome.measured)


def _of_point(point: str, runs: Mapping[tuple[str, str], Kept]) -> dict[str, Kept]:
    """Return the runs of a point by the name of their case."""
    return {name: run for (one, name), run in runs.items() if one == point}


def find_trouble(kept: Kept) -> str:
    """Return why a run did not come to its end as it should; empty if it did. Expectations do not matter."""
    causes = (*kept.summary.errors, *kept.summary.failures)
    return str(causes[0]) if causes else ""


def find_below_floor(spec: Spec, floors: Floors) -> str | None:
    """Return what is below its floor; None if nothing is."""
    for link in allocate(spec).links:
        for direction in (link.forward, link.reverse):
            queue = direction.queue
            if direction.rate_bit_per_s is None or queue is None:
                continue
            packets = queue.size_bytes(link.frame_bytes) / link.frame_bytes
            if packets < floors.queue_packets:
                return f"the queue of {link.name} holds {packets:.0f} packets"
    for host, settings in spec.experiment.hosts.items():
        for name, value in settings.sysctl:
            if name in BUFFERS and int(value.split()[-1]) < floors.buffer_bytes:
                return f"{name} of {host} is {value.split()[-1]} bytes"
    for flow in spec.experiment.traffic:
        if flow.duration_ns is not None and flow.duration_ns < floors.duration_ns:
            return f"flow {flow.name} lasts {flow.duration_ns / 1e9:g} s"
    return None


def read_case(run: RunDirectory) -> ValueTree:
    """Return the files of a run of a search, with all values filled in. Raises InputError."""
    with scratch("mprun-search-") as work:
        tree = read_with_seed(run, work)
    tree["experiment"] = {name: value for name, value in tree["experiment"].items() if name != "search"}
    return tree


def tabulate(search: Search, found: SearchResult, runs: Mapping[int, str]) -> dict[str, list[Any]]:
    """Return the columns of the table of a search, a row for each point. runs: the path of each cell's run."""
    axes = [axis.name for axis in search.axes]
    names = list(dict.fromkeys(name for one in found.tested for name in one.figures))
    rows = []
    for number, one in enumerate(found.tested, 1):
        values = [str(one.values[name]) for name in axes]
        figures = [one.figures[name].amount if name in one.figures else None for name in names]
        margin = None if one.kind == "floor" else one.margin
        run = runs.get(-1 if one.run is None else one.run, "")
        rows.append((number, one.stage, *values, one.kind, margin, *figures, one.reason, run))
    return tool.tabulate(("point", "stage", *axes, "verdict", "margin", *names, "reason", "run"), rows)


def spell_edges(search: Search, found: SearchResult) -> Iterator[tuple[str, str, str]]:
    """Yield each axis with its value at the worst point, and the part of it on which the statement is violated."""
    worst = found.worst
    if worst is None:
        return
    for n, axis in enumerate(search.axes):
        edges = {edge.is_upper: edge for edge in found.edges if edge.axis == n}
        told = "" if isinstance(axis, Choice) else "not searched with this budget"
        if len(edges) == 2:
            ends = [str(axis.value_at(edges[is_upper].violated)) for is_upper in (False, True)]
            beyond = [axis.value_at(edge.holds) for edge in edges.values() if edge.holds is not None]
            doubts = {str(value): found.find_uncounted(axis.name, value) for value in beyond}
            held = [value for value, doubt in doubts.items() if not doubt]
            told = f"violated from {ends[0]} to {ends[1]}" if beyond else f"violated at both ends, {' and '.join(ends)}"
            told += f", not at {' and '.join(held)}" if held else ""
            told += "".join(f"; {value} does not count: {doubt}" for value, doubt in doubts.items() if doubt)
        yield axis.name, str(worst.values[axis.name]), told
