# SPDX-License-Identifier: Apache-2.0
"""Runs and sweeps as polars tables, for notebooks and programs."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import field
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import polars

from mprun.engines.trial import refuse_unknown
from mprun.errors import MprunError, SpecError
from mprun.inputs.loading import load as read_files
from mprun.kernel.store import DEFAULT_NAME
from mprun.machine import invoking_user
from mprun.metrics.cells import INCOMPLETE, column_of_axis
from mprun.model.engine_name import ENGINE_CHOICES, EngineChoice
from mprun.model.frozen import Frozen
from mprun.model.metric import SUFFIXES
from mprun.model.permission import Consent, Permissions
from mprun.model.problem import list_names, name_nearest, tell_unknown
from mprun.model.scalar import spell_scalar
from mprun.runs.place import choose_place_of
from mprun.runs.runner import make_request, read_inputs, run_request
from mprun.safety.folder import Folder
from mprun.storage.look_up import find_either
from mprun.storage.run_directory import FROM_CAPTURES, RunDirectory
from mprun.storage.sweep_directory import SweepDirectory
from mprun.sweeps.sweep_summary import read_summary, read_table, tell_progress

if TYPE_CHECKING:
    from mprun.reports.figure import Chart


# Options of the command line, and the arguments of Python that stand for them, as messages name them.
_ARGUMENTS: Sequence[tuple[str, str]] = (
    (r"-p ([\w.]+)=([^\s)]+)", r"parameters={'\1': '\2'}"),
    # several options are one argument
    (r"(?<=')\} parameters=\{(?=')", ", "),
    (r"-p ([\w.]+)", r"parameters['\1']"),
    (r"'?--seed (\d+)'?", r"seed=\1"),
    (r"--seed", "seed"),
    (r"--(engine|kernel) (\w+)", r"\1='\2'"),
    (r"--allow-exec-as-root", "as_root=True"),
    (r"--allow-exec", "allow_exec=True"),
    (r"--unconfined", "unconfined=True"),
    (r"name it after -t", "give it as 'topology'"),
    (r"name it after -x", "give it as 'experiment'"),
    (r"`mprun sweep`", "mprun.sweep"),
    (r"--new starts", "another parent starts"),
    (r"give another with -o|(use|add) -o( \S+)?", "give 'parent'"),
)
# What to write for an argument that must be a path.
_PATHS = {
    **dict.fromkeys(("topology", "experiment"), "write a file, and give its path"),
    "parent": "write parent='runs'",
    "path": "write mprun.load('latest')",
}
_FILES_DECIDE = ". Write a parameter of the files as parameters={'NAME': VALUE}, and all else in the files"
CalledT = TypeVar("CalledT", bound=Callable[..., Any])


def _in_python(function: CalledT) -> CalledT:
    """Return a function whose errors name arguments of Python in place of options of the command line."""
    known = tuple(signature(function).parameters)

    @wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        if unknown := next((name for name in named if name not in known), None):
            takes = f"{function.__name__}() has no argument '{unknown}': it takes {', '.join(known)}"
            raise TypeError(f"{takes}{_FILES_DECIDE if 'parameters' in known else ''}")
        try:
            return function(*given, **named)
        except MprunError as error:
            error.args = tuple(map(_spell, error.args))
            if isinstance(error, SpecError):
                error.problems = tuple(map(_spell, error.problems))
            raise

    return cast(CalledT, call)


def _spell(message: object) -> str:
    text = str(message)
    for option, argument in _ARGUMENTS:
        text = re.sub(rf"(?<![\w-]){option}(?![\w-])" if option.startswith(("-", "'")) else option, argument, text)
    return text


class Figure(Frozen):
    """A figure of a report, which notebooks can display. data: the values shown, with units in the column names."""

    title: str
    caption: str
    svg: str = field(repr=False)
    data: polars.DataFrame

    def _repr_svg_(self) -> str:
        return self.svg


class MetricFrame(polars.DataFrame):
    """A table in which an unknown column that is a metric has an error with the way to its values."""

    def __getitem__(self, key: Any) -> Any:
        try:
            return super().__getitem__(key)
        except polars.exceptions.ColumnNotFoundError:
            if isinstance(key, str) and "metric" in self.columns and key in self.get_column("metric"):
                way = f"a row has each metric: write metrics.filter(metric='{key}')['value'].item()"
            else:
                own = [name for name in self.columns for unit in SUFFIXES.values() if unit and name == f"{key}{unit}"]
                way = f"write '{own[0]}', with the unit" if own else list_names(self.columns, "columns")[2:]
            raise polars.exceptions.ColumnNotFoundError(f"no column '{key}': {way}") from None


class _Result(Frozen):
    """A run or a sweep."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """Raise AttributeError with the attributes that there are."""
            known = ", ".join(sorted(one for one in {*dir(type(self)), *vars(self)} if not one.startswith("_")))
            raise AttributeError(f"a {type(self).__name__} has no '{name}': it has {known}")


class Run(_Result):
    """A run.

    - summary: the content of `summary.json`, as a mapping for notebooks.
    - metrics: a table with the columns metric, value and unit (bit/s, s, share, byte, 1).
    """

    path: Path
    summary: Mapping[str, Any]
    folder: Folder | None = field(default=None, repr=False, compare=False)

    def __repr__(self) -> str:
        told = "; ".join((f"{len(self.summary['metrics'])} metrics", *self.summary["errors"]))
        return f"<Run {self.path.name}: {self.summary['status']}, {told}>"

    @property
    def metrics(self) -> polars.DataFrame:
        rows = [(name, float(m["value"]), m["unit"]) for name, m in self.summary["metrics"].items()]
        return MetricFrame(rows, schema=["metric", "value", "unit"], orient="row")

    @property
    def tables(self) -> dict[str, polars.LazyFrame]:
        """Return all tables of the run by their names, not yet read."""
        return dict(RunDirectory(self.folder or self.path).tables())

    def table(self, name: str) -> polars.LazyFrame:
        """Return a table of the run. Raises SpecError if the run does not have it."""
        tables = self.tables
        if name not in tables:
            made = name in FROM_CAPTURES and RunDirectory(self.folder or self.path).captures()
            hint = f": `mprun packets {self.path}` makes it" if made else name_nearest(name, tables, "tables")
            raise SpecError(f"{self.path}: no table '{name}'{hint}")
        return tables[name]

    def figures(self) -> list[Figure]:
        """Return the figures of the report without the network: those in `plots`, or else all for which data exists."""
        from mprun.reports.run_charts import charts_of

        return [_paint(chart) for chart in charts_of(RunDirectory(self.folder or self.path))]


class Sweep(_Result):
    """A sweep.

    cells: a table with a row for each run: the values of its cell, its seed, its status, and its metrics, with units in
    the column names, as in `bulk.goodput_bit_per_s`.
    """

    path: Path
    summary: Mapping[str, Any]
    cells: polars.DataFrame

    def __repr__(self) -> str:
        runs = sum(self.summary["runs"].values())
        return f"<Sweep {self.path.name}: {self.summary['status']}, {runs} runs of {len(self.summary['cells'])} cells>"

    @property
    def statistics(self) -> polars.DataFrame:
        """Return a row for each cell and metric: the cell's values and the statistics.

        The statistics are count, mean, stdev, median, quantiles and intervals.
        """
        rows = []
        for cell in self.summary["cells"]:
            for name, metric in cell["metrics"].items():
                told = {
                    "metric": name,
                    **{key: value for key, value in metric.items() if not isinstance(value, list)},
                    **{
                        f"{key}_{end}": value[n]
                        for key, value in metric.items()
                        if isinstance(value, list)
                        for n, end in enumerate(("low", "high"))
                    },
                }
                axes = {column_of_axis(axis, told): value for axis, value in cell["values"].items()}
                rows.append({**axes, **told})
        return polars.DataFrame(rows, infer_schema_length=None, strict=False)

    def runs(self) -> Iterator[Run]:
        """Yield the runs in the order of `cells`."""
        for name in self.cells["directory"]:
            yield _run(RunDirectory(Folder(self.path).below(str(name))))

    @property
    def tables(self) -> dict[str, polars.LazyFrame]:
        """Return all tables of the runs by their names, as `table` gives them."""
        return {name: self.table(name) for name in dict.fromkeys(name for run in self.runs() for name in run.tables)}

    def table(self, name: str) -> polars.LazyFrame:
        """Return a table of all runs as one, after the columns of `cells` before `status`.

        Such a column has `matrix.` before its name if the table has this name too. Raises SpecError if no run has the
        table.
        """
        keys = self.cells.columns[: self.cells.columns.index("status")]
        parts = []
        for run, row in zip(self.runs(), self.cells.select(keys).iter_rows(), strict=True):
            if (table := run.tables.get(name)) is not None:
                own = table.collect_schema().names()
                told = zip(keys, row, strict=True)
                axes = (polars.lit(value).alias(column_of_axis(key, own)) for key, value in told)
                parts.append(table.select(*axes, polars.all()))
        if not parts:
            known = dict.fromkeys(name for run in self.runs() for name in run.tables)
            raise SpecError(f"{self.path}: no run has a table '{name}'{name_nearest(name, known, 'tables')}")
        return polars.concat(parts, how="diagonal_relaxed")

    def figures(self) -> list[Figure]:
        """Return the figures of the report without the network: those in `plots`, or else the main metrics by cell."""
        from mprun.reports.sweep_page import charts_of

        return [_paint(chart) for chart in charts_of(SweepDirectory(self.path))]


@_in_python
def run(
    topology: Path | str,
    experiment: Path | str,
    parameters: Mapping[str, object] = {},
    seed: int | None = None,
    engine: EngineChoice = "auto",
    kernel: str = DEFAULT_NAME,
    parent: Path | str = "runs",
    allow_exec: bool = False,
    unconfined: bool = False,
    as_root: bool = False,
) -> Run:
    """Run an experiment, as `mprun -t TOPOLOGY -x EXPERIMENT` does, and return the run, whether it passed or not.

    - parameters: values in place of those of the files, as `-p` gives them.
    - seed: in place of the experiment's.
    - parent: the directory for the run's directory.
    - allow_exec: run the commands of the files (`tool: exec`), as `--allow-exec` does. unconfined, as_root: also do so
      where `--unconfined` and `--allow-exec-as-root` are needed.

    A run that ends with an error, such as a flow whose program fails, has the status `error`, and gives a UserWarning
    with the error. Raises SpecError for a problem in the files or parameters, MachineError if this machine cannot run
    them, and RunError if the run leaves no results.
    """
    texts = _check(topology, experiment, parameters, seed, engine, parent)
    consent = _consent(allow_exec=allow_exec, unconfined=unconfined, as_root=as_root)
    loaded = read_files(topology, experiment, texts, seed, allowed=Permissions(consent.commands))
    place = choose_place_of(loaded.values, engine, kernel)
    refuse_unknown([loaded], place.name, kernel)
    made = _run(run_request(make_request(loaded, place, consent), Path(parent).absolute(), lambda *_: None)[0])
    for error in made.summary["errors"]:
        warnings.warn(_spell(f"{made.path}: {error}"), stacklevel=3)
    return made


@_in_python
def sweep(
    topology: Path | str,
    experiment: Path | str,
    parameters: Mapping[str, object] = {},
    seed: int | None = None,
    engine: EngineChoice = "auto",
    kernel: str = DEFAULT_NAME,
    parent: Path | str = "runs",
    allow_exec: bool = False,
    unconfined: bool = False,
    as_root: bool = False,
    jobs: int | None = None,
) -> Sweep:
    """Run all cells of an experiment's matrix, as `mprun sweep` does, and return the sweep, whether it passed or not.

    An unfinished sweep of the same files is resumed. A UserWarning tells how many runs existed, and names those that
    somebody else made, and each run that ends with an error. jobs: the number of runs at once; None for one for each
    CPU. The other parameters and errors are those of `run`.
    """
    from mprun.inputs.loading import load_cells
    from mprun.sweeps import execution, study
    from mprun.sweeps.local import LocalExecutor

    texts = _check(topology, experiment, parameters, seed, engine, parent)
    consent = _consent(allow_exec=allow_exec, unconfined=unconfined, as_root=as_root)
    if jobs is not None and not _is_whole(jobs, 1):
        raise SpecError(f"jobs: {jobs!r} is no number of runs: write jobs=2, or None for one for each CPU")
    loaded = load_cells(topology, experiment, texts, seed, allowed=Permissions(consent.commands))
    placed = execution.place_cells(study.make_cells(loaded, engine, kernel), engine, consent)
    refuse_unknown(loaded, engine, kernel)
    inputs = read_inputs(loaded[0].sources)
    with closing(LocalExecutor(placed.slots(jobs))) as executor:
        made, _ = execution.find_or_create(Path(parent).absolute(), placed, inputs, False)
        with made.held():
            execution.Execution(made, placed.cells, consent=consent).run(executor, lambda _: None, _warn)
    invoking_user.give(made.path)
    return read_sweep(made)


def _warn(text: str) -> None:
    warnings.warn(_spell(text), stacklevel=2)


def _check(
    topology: object, experiment: object, parameters: object, seed: object, engine: str, parent: object
) -> dict[str, str]:
    """Return the parameters as texts. Raises SpecError for arguments that a command line cannot have."""
    _check_paths(topology=topology, experiment=experiment, parent=parent)
    if not isinstance(parameters, Mapping):
        raise SpecError(f"parameters: a {type(parameters).__name__} has no names: write {{'cc': 'reno'}}")
    if seed is not None and not _is_whole(seed, 0):
        meant = int(seed) if isinstance(seed, str) and seed.isdecimal() else 1
        raise SpecError(f"seed: {seed!r} is no whole number from 0 on: write seed={meant}")
    if engine not in ENGINE_CHOICES:
        raise SpecError(tell_unknown("engine", engine, ENGINE_CHOICES))
    for name, value in parameters.items():
        if not isinstance(name, str):
            raise SpecError(f"parameters: {name!r} is no name: write {{'cc': 'reno'}}")
        if value is None or (isinstance(value, Collection) and not isinstance(value, str)):
            what = f"parameters[{name!r}]: a {type(value).__name__} is no value: write a text or a number"
            raise SpecError(f"{what}; for several values write a 'matrix' in the experiment, and call mprun.sweep")
    return {name: spell_scalar(value) for name, value in parameters.items()}


def _check_paths(**given: object) -> None:
    """Raise SpecError if an argument is no path."""
    for name, path in given.items():
        if not isinstance(path, (str, os.PathLike)):
            raise SpecError(f"{name}: a {type(path).__name__} is no path: {_PATHS[name]}")


def _is_whole(value: object, least: int) -> bool:
    """Return whether a value is a whole number from `least` on. True and False are none."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _consent(**given: object) -> Consent:
    """Return the consent of the arguments. Raises SpecError if one is not True or False."""
    for name, value in given.items():
        if not isinstance(value, bool):
            raise SpecError(f"{name}: {value!r} is no consent: write {name}=True or {name}=False")
    return Consent(*map(bool, given.values()))


@_in_python
def load(path: Path | str, parent: Path | str = "runs") -> Run | Sweep:
    """Return a run or a sweep.

    path: its directory, its name, the beginning of its name, `latest` for the newest of all, or `latest-sweep`. A sweep
    without all its runs is returned as far as it is complete, with a UserWarning.

    Raises SpecError if there is no such run or sweep, and MprunError if a run ended before its results were written.
    """
    _check_paths(path=path, parent=parent)
    found = find_either(Path(parent), str(path))
    if isinstance(found, RunDirectory):
        return _run(found)
    sweep = read_sweep(found)
    if sweep.summary["status"] == INCOMPLETE:
        warnings.warn(found.tell_incomplete(found.path, tell_progress(read_summary(found))), stacklevel=3)
    return sweep


def _paint(chart: Chart) -> Figure:
    from mprun.reports.chart import WIDE, paint
    from mprun.reports.figure import to_csv

    svg = paint(chart, WIDE, ("svg",))["svg"].decode()
    data = polars.read_csv(to_csv(chart).encode(), infer_schema_length=None)
    return Figure(chart.title, chart.caption, svg, data)


def _run(run: RunDirectory) -> Run:
    return Run(run.path, run.summary().to_json(), run.folder)


def read_sweep(sweep: SweepDirectory) -> Sweep:
    """Return a sweep as far as it is complete. Raises MprunError."""
    return Sweep(sweep.path, read_summary(sweep).to_json(), MetricFrame(read_table(sweep)))
