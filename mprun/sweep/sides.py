# SPDX-License-Identifier: Apache-2.0
"""What is compared, read from directories: two runs, two sweeps, or one sweep taken apart by an axis."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mprun.analysis.across import judge_across
from mprun.analysis.cells import Row
from mprun.analysis.comparison import Side, differing_lines, differing_values, unmatched
from mprun.errors import SpecError
from mprun.model.fault import name_nearest
from mprun.model.scalar import spell_scalar
from mprun.rundir import RunDirectory
from mprun.sweep import directory
from mprun.sweep.directory import Kept, SweepDirectory
from mprun.sweep.summary import find_missing
from mprun.version import code_of

if TYPE_CHECKING:
    from mprun.analysis.summary import RunSummary


@dataclass(frozen=True)
class Sides:
    """Two sides by cells, and what is known to differ before anything is measured: facts (kernel, versions ...),
    lines of the inputs, cells that one alone has. statements: those across the cells of each side, and whether they
    held. incomplete: of a sweep that has not all its runs, how far it is."""

    names: tuple[str, str]
    cells: tuple[tuple[Side, ...], tuple[Side, ...]]
    facts: Mapping[str, tuple[Any, Any]]
    lines: list[str]
    unmatched: list[tuple[Mapping[str, Any], int]]
    statements: tuple[Mapping[str, bool | None], Mapping[str, bool | None]] = ({}, {})
    incomplete: tuple[str | None, str | None] = (None, None)


def sides_of(parent: Path, first: str, second: str | None, axis: str | None) -> Sides:
    """A and B, or the halves of sweep A. Raises SpecError."""
    one = directory.find_either(parent, first)
    if axis is not None:
        if not isinstance(one, SweepDirectory):
            raise SpecError(f"{first}: a run has no axes: name a sweep")
        return _take_apart(one, axis)
    other = directory.find_either(parent, second or "")
    if isinstance(one, SweepDirectory) and isinstance(other, SweepDirectory):
        return _of_sweeps(one, other)
    if isinstance(one, RunDirectory) and isinstance(other, RunDirectory):
        return _of_runs(one, other)
    raise SpecError("one is a run and the other a sweep: compare two of a kind; the runs of a sweep are in its 'runs'")


def _of_runs(one: RunDirectory, other: RunDirectory) -> Sides:
    cells = tuple((_of_run(run.read("summary.json")),) for run in (one, other))
    facts = differing_values(*(_facts(run) for run in (one, other)))
    lines = differing_lines(*(_resolved(run) for run in (one, other)))
    return Sides((str(one.path), str(other.path)), (cells[0], cells[1]), facts, lines, [])


def _of_run(summary: RunSummary) -> Side:
    return Side({}, {}, errors=1) if summary["status"] == "error" else Side({}, {1: summary})


def _facts(run: RunDirectory) -> dict[str, Any]:
    environment = run.read("environment.json")
    told = {"engine": environment["engine"], "kernel": _name_build(environment["kernel"])}
    return {**told, **_programs(environment), "seed": run.read("summary.json")["seed"]}


def _programs(environment: Mapping[str, Any]) -> dict[str, str]:
    """What a run was made with, beside its kernel."""
    return {"mprun": code_of(environment), **environment["versions"]}


def _resolved(run: RunDirectory) -> dict[str, str]:
    texts = run.inputs().items()
    return {name.removeprefix("resolved-"): text for name, text in texts if name.startswith("resolved-")}


def _of_sweeps(one: SweepDirectory, other: SweepDirectory) -> Sides:
    made = [list(sweep.runs()) for sweep in (one, other)]
    first, second = (_cells(sweep, kept) for sweep, kept in zip((one, other), made, strict=True))
    # one that was interrupted has fewer runs than were asked for
    told = (
        _kernels(sweep) | _programs_of_all(sweep) | {"runs": len(kept)}
        for sweep, kept in zip((one, other), made, strict=True)
    )
    facts = differing_values(*told)
    texts = [sweep.inputs() for sweep in (one, other)]
    alone = [(values, int(which)) for values, which in unmatched(first, second)]
    names, lines = (str(one.path), str(other.path)), differing_lines(*texts)
    statements = (_statements(one, made[0]), _statements(other, made[1]))
    incomplete = (find_missing(one.record, made[0]), find_missing(other.record, made[1]))
    return Sides(names, (first, second), facts, lines, alone, statements, incomplete)


def _statements(sweep: SweepDirectory, made: Sequence[Kept]) -> dict[str, bool | None]:
    record = sweep.record
    rows = [Row(kept.cell, kept.number, kept.run.name, kept.summary) for kept in made]
    return {one["holds"]: one["held"] for one in judge_across(record["across"], record["cells"], rows)}


def _kernels(sweep: SweepDirectory) -> dict[str, str]:
    kernels = sweep.record["kernels"]
    return {f"kernel {name}": _name_build(kernel) for name, kernel in kernels.items()}


def _name_build(kernel: Mapping[str, str]) -> str:
    """Of a kernel: two of one name may be two builds, and of one version two trees."""
    return f"{kernel['version']} {kernel.get('digest', '')[:12]}".strip()


def _programs_of_all(sweep: SweepDirectory) -> dict[str, str]:
    """By name; one that changed while the sweep was made by all that it was."""
    told: dict[str, dict[str, None]] = {}
    for kept in sweep.runs():
        # one that ended with an error may have no environment
        if kept.run.has("environment.json"):
            for name, version in _programs(kept.run.read("environment.json")).items():
                told.setdefault(name, {})[version] = None
    return {name: ", ".join(versions) for name, versions in told.items()}


def _cells(sweep: SweepDirectory, made: Iterable[Kept]) -> tuple[Side, ...]:
    runs: dict[int, dict[int, RunSummary]] = {}
    errors: Counter[int] = Counter()
    for kept in made:
        if kept.summary["status"] == "error":
            errors[kept.cell] += 1
        else:
            runs.setdefault(kept.cell, {})[kept.number] = kept.summary
    return tuple(Side(cell["values"], runs.get(n, {}), errors[n]) for n, cell in enumerate(sweep.record["cells"]))


def _take_apart(sweep: SweepDirectory, words: str) -> Sides:
    axis, _, chosen = words.partition("=")
    made = list(sweep.runs())
    cells = _cells(sweep, made)
    known = list(dict.fromkeys(name for side in cells for name in side.values))
    if axis not in known:
        raise SpecError(f"{sweep.name} has no axis '{axis}'{name_nearest(axis, known, 'axes')}")
    values = list(dict.fromkeys(spell_scalar(side.values[axis]) for side in cells))
    halves = chosen.split(",") if chosen else values
    if len(halves) != 2 or not set(halves) <= set(values):
        example = f"--by {axis}={','.join(values[:2])}"
        raise SpecError(f"--by {words}: name two of its values, as in {example}; it has: {', '.join(values)}")
    first, second = (
        tuple(
            replace(side, values={name: value for name, value in side.values.items() if name != axis})
            for side in cells
            if spell_scalar(side.values[axis]) == half
        )
        for half in halves
    )
    names = (f"{sweep.path} {axis}={halves[0]}", f"{sweep.path} {axis}={halves[1]}")
    alone = [(one, int(which)) for one, which in unmatched(first, second)]
    kernels = sweep.record["kernels"]
    facts = {}
    if axis == "kernel" and kernels.keys() >= set(halves):
        facts["kernel"] = (_name_build(kernels[halves[0]]), _name_build(kernels[halves[1]]))
    missing = find_missing(sweep.record, made)
    return Sides(names, (first, second), facts, [], alone, incomplete=(missing, missing))
