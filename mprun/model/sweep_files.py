# SPDX-License-Identifier: Apache-2.0
"""The content of a sweep's `sweep.json`, `summary.json` and `wall.json`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from mprun.model.codec import Codec
from mprun.model.engine_name import EngineName
from mprun.model.frozen import Frozen
from mprun.model.run_files import Build
from mprun.model.run_summary import Kind, Symbol
from mprun.model.scalar import Scalar
from mprun.model.spec import Plot, Until

FORMAT = 1
# `incomplete`: the sweep does not have all its runs.
SweepStatus = Literal["passed", "failed", "error", "incomplete"]


class CellRepeat(NamedTuple):
    """The repetitions of a cell.

    `seed`: the base seed. `least`, `most`, `until`: as in `mprun.model.spec.Repeat`.
    `vary`: the variations that follow from the seed of each repetition.
    """

    seed: int
    least: int
    most: int
    vary: tuple[str, ...]
    until: Until | None


class SweepCell(NamedTuple):
    """A cell: the values of its axes, the folder of its runs, and where they run."""

    values: Mapping[str, Scalar]
    folder: str
    engine: EngineName
    kernel: str
    repeat: CellRepeat


class SweepRecord(NamedTuple):
    """The request of a sweep.

    `digest`: of all that determines the results. `axes`: names of axes in the order of the files.
    `across`: statements across cells. `show`: the metrics to show. `kernels`: by name.
    """

    format: int
    title: str
    digest: str
    cells: tuple[SweepCell, ...]
    across: tuple[str, ...]
    kernels: Mapping[str, Build]
    axes: tuple[str, ...] = ()
    plots: tuple[Plot, ...] = ()
    show: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the record as JSON values."""
        return _CODEC.write(self)

    def in_order(self) -> SweepRecord:
        """Return the record with the values of cells in the order of the axes."""
        return self._replace(
            cells=tuple(cell._replace(values=order_values(cell.values, self.axes)) for cell in self.cells)
        )


class RunCounts(NamedTuple):
    """The number of runs by their status."""

    passed: int
    failed: int
    error: int

    @property
    def total(self) -> int:
        """The number of all runs."""
        return sum(self)


class Statistic(Frozen):
    """The statistics of a metric over the runs of a cell.

    `stdev`: of the sample; None for one run. `p5` to `p95`: quantiles.
    `t95` to `bootstrap99`: intervals of the mean; None for one run.
    """

    unit: Symbol
    count: int
    mean: float
    median: float
    stdev: float | None = None
    min: float | None = None
    max: float | None = None
    p5: float | None = None
    p25: float | None = None
    p75: float | None = None
    p95: float | None = None
    t95: tuple[float, float] | None = None
    t99: tuple[float, float] | None = None
    bootstrap95: tuple[float, float] | None = None
    bootstrap99: tuple[float, float] | None = None


class CellVerdict(NamedTuple):
    """An expectation of a cell, and the number of runs in which it held."""

    metric: str
    minimum: float | None
    maximum: float | None
    equals: float | None
    held: int
    of: int

    @property
    def bounds(self) -> dict[str, Any]:
        """The expectation without its outcome."""
        return {"metric": self.metric, "minimum": self.minimum, "maximum": self.maximum, "equals": self.equals}


class Messages(NamedTuple):
    """The messages of a cell's runs, each with the number of runs that have it."""

    warnings: Mapping[str, int]
    errors: Mapping[str, int] = {}
    failures: Mapping[str, int] = {}

    def of(self, kind: Kind) -> Mapping[str, int]:
        """Return the messages of one kind."""
        return {"errors": self.errors, "failures": self.failures, "warnings": self.warnings}[kind]


class CellSummary(NamedTuple):
    """The results of a cell. `runs`: of its runs that ended. `needed`: the number of runs that it needs."""

    values: Mapping[str, Scalar]
    runs: RunCounts
    needed: int
    metrics: Mapping[str, Statistic]
    told: Messages
    folder: str = ""
    expectations: tuple[CellVerdict, ...] = ()


class Sides(NamedTuple):
    """Both sides of a comparison, in the base unit of their symbol."""

    left: float
    operator: str
    right: float
    unit: str


class StatementResult(NamedTuple):
    """A statement across cells.

    `held`: None if that is not known. `found`: the measured values as text. `left_out`: it names cells that -p leaves
    out of the sweep, so it is not judged.
    """

    holds: str
    held: bool | None
    found: str = ""
    comparisons: tuple[Sides, ...] = ()
    left_out: bool = False

    def is_true(self, may_come: bool) -> bool | None:
        """Return `held`, False if it lacks a metric. None if it is left out, or if missing runs may still come."""
        return None if self.held is None and (self.left_out or may_come) else bool(self.held)


class SweepSummary(NamedTuple):
    """The summary of a sweep. `complete`: all runs were made, and none ended with an error."""

    status: SweepStatus
    complete: bool
    runs: RunCounts
    cells: tuple[CellSummary, ...]
    statements: tuple[StatementResult, ...]
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the summary as JSON values."""
        return _CODEC.write(self)

    def in_order(self, axes: tuple[str, ...]) -> SweepSummary:
        """Return the summary with the values of cells in the order of the axes."""
        return self._replace(cells=tuple(cell._replace(values=order_values(cell.values, axes)) for cell in self.cells))


class Session(NamedTuple):
    """The real times of one call that worked on a sweep.

    `runs`: the runs that it made. `places`: the number of concurrent runs. `wall_s`: of the whole call.
    `runs_wall_s`: of all its runs. `simulation_s`: the engine's part of this time.
    """

    wall_s: float
    runs: int = 0
    places: int = 1
    runs_wall_s: float = 0.0
    simulation_s: float = 0.0


def order_values(values: Mapping[str, Scalar], axes: tuple[str, ...]) -> dict[str, Scalar]:
    """Return the values of a cell in the order of the axes. Folders have this order; JSON files sort their keys."""
    return {**{name: values[name] for name in axes if name in values}, **values}


def _say_build(_: Build, plain: dict[str, Any]) -> dict[str, Any]:
    return {name: one for name, one in plain.items() if one}


def _say_statistic(_: Statistic, plain: dict[str, Any]) -> dict[str, Any]:
    """Return the statistics without the intervals that they do not have."""
    return {name: one for name, one in plain.items() if one is not None or name == "stdev"}


_CODEC = Codec({Build: _say_build, Statistic: _say_statistic})
