# SPDX-License-Identifier: Apache-2.0
"""Read the two sides of a comparison: two runs, two sweeps, or two halves of a sweep by an axis."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from itertools import chain
from typing import Any

from mprun.errors import MprunError, SpecError
from mprun.metrics.cells import judge_across
from mprun.metrics.comparison import (
    ComparedMetric,
    Expected,
    Side,
    compare,
    compare_expectations,
    compare_statements,
    differing_lines,
    differing_values,
    unmatched,
)
from mprun.model.frozen import Frozen
from mprun.model.metric import Metric, find_owned
from mprun.model.problem import name_nearest
from mprun.model.run_summary import Summary
from mprun.model.scalar import spell_scalar
from mprun.runs.provenance import list_makers
from mprun.storage.run_directory import RunDirectory
from mprun.storage.sweep_directory import Kept, ResultDirectory, SweepDirectory
from mprun.sweeps.sweep_summary import find_missing, list_versions
from mprun.workloads.tool import OwnedMetrics

# The line of a resolved experiment with the archive of an attached file.
_ARCHIVE = re.compile(r"^ *archive: files/[0-9a-f]{16}\.tar\n", re.MULTILINE)


class Operands(Frozen):
    """The cells of both sides, and the differences that are known without measuring.

    - facts: values that differ: parameters first, then kernel, versions and others.
    - lines: different lines of the inputs.
    - statements: the statements across the cells of each side, and whether they held.
    - incomplete: the progress of a sweep that lacks runs.
    - metrics: the definitions of the metrics by name, as far as the inputs of the runs have them.
    - sources: the directories of the sides; the same sweep twice for its halves. Those of bundles are gone once the
      files are closed, so all that is shown is read before.
    - shown: the metrics that the files of sweeps ask to show.
    """

    names: tuple[str, str]
    cells: tuple[tuple[Side, ...], tuple[Side, ...]]
    facts: Mapping[str, tuple[Any, Any]]
    lines: list[str]
    statements: tuple[Mapping[str, bool | None], Mapping[str, bool | None]] = ({}, {})
    incomplete: tuple[str | None, str | None] = (None, None)
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    sources: tuple[ResultDirectory, ...] = ()
    shown: tuple[str, ...] = ()

    @property
    def unmatched(self) -> list[tuple[Mapping[str, Any], int]]:
        """The cells that only one side has, each with the number of the side."""
        return list(unmatched(*self.cells))


class SidePair(Frozen):
    """A side of a comparison against the first side, measured."""

    operands: Operands
    compared: Sequence[ComparedMetric]
    expected: Sequence[Expected]


def measure_operands(operands: Operands, confidence: float) -> SidePair:
    """Compare all metrics, expectations and statements of two sides."""
    may_come = (operands.incomplete[0] is not None, operands.incomplete[1] is not None)
    expected = [*compare_expectations(*operands.cells), *compare_statements(*operands.statements, may_come)]
    return SidePair(operands, list(compare(*operands.cells, confidence)), expected)


def read_operands(one: ResultDirectory, other: ResultDirectory, first: str = "", second: str = "") -> Operands:
    """Return the sides A and B. first, second: their names for people; empty for their paths. Raises SpecError."""
    names = (first or str(one.path), second or str(other.path))
    if isinstance(one, SweepDirectory) and isinstance(other, SweepDirectory):
        return _of_sweeps(one, other, names)
    if isinstance(one, RunDirectory) and isinstance(other, RunDirectory):
        return _of_runs(one, other, names)
    raise SpecError("one is a run and the other a sweep: compare two of a kind; the runs of a sweep are in its 'runs'")


def read_halves(source: ResultDirectory, axis: str, name: str) -> Operands:
    """Return two parts of a sweep. axis: as in --by. name: of the sweep, for people. Raises SpecError."""
    if not isinstance(source, SweepDirectory):
        raise SpecError(f"{source.name}: a run has no axes: name a sweep")
    return _take_apart(source, axis, name)


def _of_runs(one: RunDirectory, other: RunDirectory, names: tuple[str, str]) -> Operands:
    summaries = [run.summary() for run in (one, other)]
    sides = [Side({}, {}, errors=1) if one.status == "error" else Side({}, {1: one}) for one in summaries]
    facts = differing_values(*(_facts(run) for run in (one, other)))
    # a removed file is no difference of the experiments
    has_both = one.has_resolved_inputs and other.has_resolved_inputs
    lines = differing_lines(*(_resolved(run) if has_both else {} for run in (one, other)))
    lines += _name_attached([one], [other])
    metrics = _define(zip((one, other), summaries, strict=True))
    return Operands(names, ((sides[0],), (sides[1],)), facts, lines, metrics=metrics, sources=(one, other))


def _facts(run: RunDirectory) -> dict[str, Any]:
    environment = run.environment()
    inputs = "complete" if run.has_resolved_inputs else "missing"
    return {"inputs": inputs, **environment.parameters, **list_makers(environment), "seed": run.summary().seed}


def _resolved(run: RunDirectory) -> dict[str, str]:
    texts = run.inputs().items()
    # the names of archives are digests: `_name_attached` names the files that differ
    return {
        name.removeprefix("resolved-"): _ARCHIVE.sub("", text) for name, text in texts if name.startswith("resolved-")
    }


def _name_attached(first: Sequence[RunDirectory], second: Sequence[RunDirectory]) -> list[str]:
    """Return a line for each file that flows of both sides take with them, and that differs: `rr: rr.c differs`."""
    kept = [[run.folder.find("inputs/files/*") for run in runs] for runs in (first, second)]
    # most comparisons read no plan
    if set(chain(*kept[0])) == set(chain(*kept[1])):
        return []
    one, other = map(_list_attached, (first, second))
    return [
        f"{flow}: {name} differs"
        for (flow, name), digests in one.items()
        if other.get((flow, name), digests) != digests
    ]


def _list_attached(runs: Iterable[RunDirectory]) -> dict[tuple[str, str], set[str]]:
    """Return the digests of the files that flows take with them, by the names of the flow and the file."""
    found: dict[tuple[str, str], set[str]] = {}
    for run in runs:
        # as in `_define`
        with contextlib.suppress(MprunError):
            for flow in run.plan().intent.traffic:
                attached: Any = flow.options.get("attachments", ())
                for one in attached:
                    found.setdefault((flow.name, one["name"]), set()).add(one["sha256"])
    return found


def _of_sweeps(one: SweepDirectory, other: SweepDirectory, names: tuple[str, str]) -> Operands:
    made = [list(sweep.runs()) for sweep in (one, other)]
    first, second = (_cells(sweep, kept) for sweep, kept in zip((one, other), made, strict=True))
    # an interrupted sweep has fewer runs than requested
    told = (
        _find_parameters(sweep, kept)
        | {f"kernel {name}": kernel.label for name, kernel in sweep.record.kernels.items()}
        | {name: ", ".join(versions) for name, versions in list_versions(kept).items()}
        | {"runs": len(kept)}
        for sweep, kept in zip((one, other), made, strict=True)
    )
    facts = differing_values(*told)
    lines = differing_lines(*(sweep.inputs() for sweep in (one, other)))
    # all runs of a cell have the same files
    lines += _name_attached(*([*{kept.cell: kept.run for kept in runs}.values()] for runs in made))
    statements = (_statements(one, made[0]), _statements(other, made[1]))
    incomplete = (find_missing(one.record, made[0]), find_missing(other.record, made[1]))
    metrics = _define((kept.run, kept.summary) for kept in (*made[0], *made[1]))
    shown = tuple(dict.fromkeys((*one.record.show, *other.record.show)))
    return Operands(names, (first, second), facts, lines, statements, incomplete, metrics, (one, other), shown)


def _find_parameters(sweep: SweepDirectory, runs: Iterable[Kept]) -> dict[str, Any]:
    """Return the parameters that are not axes: all runs have the same, but those with an error may lack the file."""
    for kept in runs:
        with contextlib.suppress(MprunError, OSError):
            found = kept.run.environment().parameters
            return {name: found[name] for name in found if name not in sweep.record.axes}
    return {}


def _define(runs: Iterable[tuple[RunDirectory, Summary]]) -> dict[str, Metric]:
    """Return the definitions of the metrics of runs by name. Runs without new metrics are not read."""
    found: dict[str, Metric] = {}
    seen: set[str] = set()
    for run, summary in runs:
        names = summary.metrics.keys() - seen
        if names:
            seen |= names
            # a run of another version may have inputs that this one cannot read: its metrics have no definition then
            with contextlib.suppress(MprunError):
                owned = OwnedMetrics(run.plan().intent.traffic)
                found |= {name: definition[0] for name in names if (definition := find_owned(name, owned))}
    return found


def _statements(sweep: SweepDirectory, made: Sequence[Kept]) -> dict[str, bool | None]:
    record = sweep.record
    judged = judge_across(record.across, record.cells, made)
    return {one.holds: one.held for one in judged if not one.left_out}


def _cells(sweep: SweepDirectory, made: Iterable[Kept]) -> tuple[Side, ...]:
    runs: dict[int, dict[int, Summary]] = {}
    errors: Counter[int] = Counter()
    for kept in made:
        if kept.summary.status == "error":
            errors[kept.cell] += 1
        else:
            runs.setdefault(kept.cell, {})[kept.number] = kept.summary
    return tuple(Side(cell.values, runs.get(n, {}), errors[n]) for n, cell in enumerate(sweep.record.cells))


def _take_apart(sweep: SweepDirectory, words: str, name: str) -> Operands:
    axis, _, chosen = words.partition("=")
    made = list(sweep.runs())
    cells = _cells(sweep, made)
    known = list(dict.fromkeys(name for side in cells for name in side.values))
    if axis not in known:
        raise SpecError(f"{sweep.name} has no axis '{axis}'{name_nearest(axis, known, 'axes')}")
    values = list(dict.fromkeys(spell_scalar(side.values[axis]) for side in cells))
    halves = chosen.split(",") if chosen else values
    if len({*halves}) != 2 or len(halves) != 2 or not set(halves) <= set(values):
        example = f"--by {axis}={','.join(values[:2])}"
        raise SpecError(f"--by {words}: name two of its values, as in {example}; it has: {', '.join(values)}")
    rest = [{name: value for name, value in side.values.items() if name != axis} for side in cells]
    parts = [(spell_scalar(side.values[axis]), replace(side, values=of)) for side, of in zip(cells, rest, strict=True)]
    first, second = (tuple(side for half, side in parts if half == value) for value in halves)
    names = (f"{name} {axis}={halves[0]}", f"{name} {axis}={halves[1]}")
    kernels = sweep.record.kernels
    facts = {}
    if axis == "kernel" and kernels.keys() >= set(halves):
        facts["kernel"] = (kernels[halves[0]].label, kernels[halves[1]].label)
    missing = find_missing(sweep.record, made)
    metrics = _define((kept.run, kept.summary) for kept in made)
    sides = (first, second)
    return Operands(names, sides, facts, [], ({}, {}), (missing, missing), metrics, (sweep, sweep), sweep.record.show)
