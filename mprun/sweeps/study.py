# SPDX-License-Identifier: Apache-2.0
"""The runs of a sweep: cells, their repetitions, the seed of each run, and the order. Pure.

A seed follows from the base seed, the cell's values and the number of the repetition. An additional cell therefore
changes no other cell. The place of a cell (`kernel`, `engine`) does not affect its seed, so two kernels run under the
same conditions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

from mprun.compile.variation import derive_seed, draw
from mprun.engines.registry import ENGINES
from mprun.inputs.loading import Loaded
from mprun.inputs.matrix_cells import PLACES, CellValues
from mprun.inputs.writer import write_experiment, write_topology
from mprun.kernel.store import DEFAULT_NAME
from mprun.model.codec import PLAIN, canonical_json
from mprun.model.engine_name import EngineChoice, EngineName
from mprun.model.frozen import Frozen
from mprun.model.scalar import spell_scalar, spell_values
from mprun.model.spec import Repeat, Spec
from mprun.safety.text import slug
from mprun.sweeps.cell_progress import describe_repeat

MOST_FOLDER = 80
# The folder of the only cell of a sweep without axes.
ONLY = "only"


class Cell(Loaded):
    """A combination of values: the checked files with it, and where they run.

    - folder: the folder of its runs, below the sweep's runs.
    """

    folder: str
    engine: EngineChoice
    kernel: str

    @property
    def runs_in(self) -> EngineName:
        """The engine, once the cell has been placed."""
        assert self.engine != "auto", "a cell that has been placed"
        return self.engine

    @property
    def label(self) -> str:
        """A text for people, such as `cc=cubic path0.rate=5mbit`."""
        return spell_values(dict(self.values)) or ONLY


class Task(Frozen):
    """A run of a cell. number: of the repetition, from 1."""

    cell: Cell
    number: int
    spec: Spec

    @property
    def name(self) -> str:
        """The path of the run below the runs of the sweep."""
        return f"{self.cell.folder}/{self.number}"

    @property
    def seed(self) -> int:
        return self.spec.experiment.seed


def as_case(loaded: Loaded, values: CellValues, **changes: Any) -> Loaded:
    """Return what one run of a question reads: the files with values and changes, neither repeated nor a search."""
    own = loaded.spec.experiment
    experiment = replace(own, repeat=Repeat(vary=own.vary), across=(), search=None, **changes)
    spec = replace(loaded.spec, experiment=experiment)

    def reseed(seed: int) -> Spec:
        return replace(spec, experiment=replace(experiment, seed=seed))

    return replace(loaded, spec=spec, values=values, reseed=reseed)


def make_cells(inputs: Iterable[Loaded], engine: EngineChoice, kernel: str) -> tuple[Cell, ...]:
    """Return a cell for each input. engine, kernel: for cells whose values do not name them."""
    cells = []
    for one in inputs:
        chosen = dict(one.values)
        # the matrix has been held against the names of engines
        named = cast(EngineChoice, chosen.get("engine", engine))
        # an axis may hold an engine that boots no kernel beside one that boots the kernel that was asked for
        is_unbooted = "engine" in chosen and ENGINES[cast(EngineName, named)].IS_ON_MACHINE_KERNEL
        on = str(chosen.get("kernel", DEFAULT_NAME if is_unbooted else kernel))
        cells.append(Cell(**vars(one), folder=name_folder(one.values), engine=named, kernel=on))
    return tuple(cells)


def name_folder(values: CellValues) -> str:
    """Return a file name that contains the values. If it cannot contain all of them, it ends in a digest."""
    whole = spell_values(dict(values), ",") or ONLY
    plain = slug(whole, MOST_FOLDER, "=,%+")
    if plain == whole:
        return plain
    return f"{plain}-{hashlib.sha256(whole.encode()).hexdigest()[:8]}"


def make_task(cell: Cell, number: int) -> Task:
    """Return the run of a cell with this number. Without repetitions, it is the same run that `mprun run` makes."""
    experiment = cell.spec.experiment
    repeat = experiment.repeat
    if repeat.most == 1:
        return Task(cell, number, cell.spec)
    world = sorted(f"{name}={spell_scalar(value)}" for name, value in cell.values if name not in PLACES)
    seed = derive_seed(experiment.seed, [*world, number])
    spec = cell.reseed(seed)
    return Task(cell, number, replace(spec, experiment=replace(spec.experiment, vary=repeat.vary)))


def order(cells: Sequence[Cell], number: int) -> Iterator[Task]:
    """Yield this repetition of each cell. The seed gives the order, so that no cell always runs first."""

    def rank(cell: Cell) -> int:
        return draw(cell.spec.experiment.seed, f"order of {cell.folder} {number}", 2**63)

    return (make_task(cell, number) for cell in sorted(cells, key=rank))


def identify(cells: Sequence[Cell], kernels: Sequence[str]) -> str:
    """Return the SHA-256 of all that determines the results: cells, repetitions, places and digests of the kernels."""
    parts = [
        [
            list(map(list, cell.values)),
            write_topology(cell.spec.topology),
            write_experiment(replace(cell.spec.experiment, plots=(), show=())),
            PLAIN.encode(describe_repeat(cell.spec.experiment)),
            list(cell.spec.experiment.across),
            cell.engine,
            cell.kernel,
        ]
        for cell in cells
    ]
    return hashlib.sha256(canonical_json([parts, sorted(set(kernels))]).encode()).hexdigest()
