# SPDX-License-Identifier: Apache-2.0
"""The file of a lab: its steps, its claims, and its questions for students.

`read_lab` checks the file and reports all problems. Nothing is run here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from mprun.errors import SpecError
from mprun.inputs.document import Document
from mprun.inputs.files import name_givers
from mprun.inputs.keys.file_model import check
from mprun.inputs.keys.lab_definition import (
    PROFILES,
    LabFile,
    LabProfile,
    StepEntry,
    SweepEntry,
)
from mprun.inputs.loading import Loaded, load, load_cells
from mprun.inputs.named_file import spell, tell_outside
from mprun.inputs.parameter import FileParameters
from mprun.inputs.reader import read
from mprun.labs.published_values import read_published
from mprun.labs.study_figure import HERE, PUBLISHED, StudyFigure, make_figure
from mprun.model.frozen import Frozen
from mprun.model.problem import InputError, InputProblem, ValuePath, name_nearest, tell_unknown
from mprun.model.scalar import read_scalar, spell_scalar
from mprun.safety.folder import Folder
from mprun.statements.claim import Claim

FILE = "lab.yaml"


class _Files(Frozen):
    """The files of a run or a sweep of a lab. topology, experiment: as for `load`. parameters: as for -p."""

    name: str
    topology: Path
    experiment: Path
    parameters: Mapping[str, str]

    def _command(self, program: str, folder: Path) -> str:
        topology, experiment = (os.path.relpath(file, folder) for file in (self.topology, self.experiment))
        parameters = [f"-p {name}={value}" for name, value in self.parameters.items()]
        return " ".join([f"{program} -t {topology} -x {experiment}", *parameters])


class Step(_Files):
    """A run of a lab. kernel: the name of the kernel that the student builds; None for the kernel of mprun."""

    profile: LabProfile | None
    kernel: str | None = None

    def load(self, seed: int | None = None) -> Loaded:
        """Read and check the step's files. seed: instead of the file's. Raises InputError."""
        return load(self.topology, self.experiment, self.parameters, seed)

    def command(self, folder: Path) -> str:
        """Return the command that a student types in a folder, such as the lab's."""
        command = self._command("mprun", folder)
        return f"{command} --kernel {self.kernel}" if self.kernel else command


class LabSweep(_Files):
    """A sweep of a lab."""

    def load(self, seed: int | None = None) -> tuple[Loaded, ...]:
        """Read and check each cell. seed: instead of the file's. Raises InputError."""
        return load_cells(self.topology, self.experiment, self.parameters, seed)

    def command(self, folder: Path) -> str:
        """Return the command that runs the sweep in the lab's folder."""
        return self._command("mprun sweep", folder)


class Lab(Frozen):
    """A lab in its folder.

    - file: the content of its file, of which steps, sweeps, claims and figures are read further.
    - defaults: its parameters, which the files of its steps share.
    - sweeps, figures: of the profile `published`.
    """

    folder: Path
    file: LabFile
    steps: tuple[Step, ...]
    sweeps: tuple[LabSweep, ...]
    claims: tuple[Claim, ...]
    defaults: Mapping[str, str]
    figures: tuple[StudyFigure, ...] = ()

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def number(self) -> str:
        return self.name.split("_")[0]

    @property
    def names(self) -> set[str]:
        """The names of the steps and sweeps."""
        return {one.name for one in (*self.steps, *self.sweeps)}

    def in_profile(self, profile: LabProfile, figures: Sequence[str] = ()) -> Lab:
        """Return the lab with what a profile runs: its steps, sweeps and figures, and the claims about its steps.

        figures: the names of the only figures to make, without claims; empty for all. Raises SpecError for a name that
        the lab does not have.
        """
        known = [figure.name for figure in self.figures]
        for name in figures:
            if name not in known:
                raise SpecError(tell_unknown("figure", name, known))
        is_published = profile == "published"
        drawn = tuple(one for one in self.figures if is_published and (not figures or one.name in figures))

        def is_needed(name: str) -> bool:
            return not figures or any(name in figure.steps for figure in drawn)

        steps = tuple(one for one in self.steps if one.profile in (None, profile) and is_needed(one.name))
        sweeps = tuple(one for one in self.sweeps if is_published and is_needed(one.name))
        chosen = replace(self, steps=steps, sweeps=sweeps, figures=drawn)
        claims = () if figures else tuple(claim for claim in self.claims if chosen.names.issuperset(claim.steps))
        return replace(chosen, claims=claims)


def read_lab(folder: Path, parameters: Mapping[str, str] = {}) -> Lab:
    """Return the lab in a folder. Raises InputError with every problem of its file.

    parameters: values that replace those of the lab, as with -p, in claims and in all steps.
    """
    document = Document(read(folder / FILE, "experiment"))
    own = document.parameters()
    for name in sorted(parameters.keys() - own.keys()):
        message = f"no parameter '{name}' in lab {folder.name}{name_nearest(name, own, 'parameters')}"
        message += f"; for one of an experiment, write mprun -t TOPOLOGY -x EXPERIMENT -p {name}=..."
        document.add_problem(InputProblem(f"-p {name}", None, (), message))
    values = document.plain(FileParameters({**own, **{name: read_scalar(text) for name, text in parameters.items()}}))
    file = None if values is None else check(LabFile, values, document)
    defaults = {name: spell_scalar(value) for name, value in own.items()}
    lab = None if file is None else _lab(folder, file, defaults, parameters)
    if lab is not None:
        lab = _add_figures(lab, document)
        _check_folders(lab, document)
        _check_names(lab, document)
    if document.problems or lab is None:
        raise InputError(_blame(document, parameters))
    return lab


def _blame(document: Document, parameters: Mapping[str, str]) -> list[InputProblem]:
    """Return the problems of a lab's file. A problem of a value that -p gave is said once, at that option."""
    found: dict[tuple[str, int | None, ValuePath], InputProblem] = {}
    for problem in document.problems:
        given = name_givers(problem.path, document, parameters)
        one = InputProblem(given, None, (), problem.message) if given else problem
        found.setdefault((one.file, one.line, one.path), one)
    return list(found.values())


def _lab(folder: Path, file: LabFile, defaults: Mapping[str, str], given: Mapping[str, str]) -> Lab:
    kernel = file.kernel.name if file.kernel else None
    return Lab(
        folder,
        file,
        tuple(Step(*_files_of(folder, entry, given), entry.profile, kernel) for entry in file.steps),
        tuple(LabSweep(*_files_of(folder, entry, given)) for entry in file.sweeps),
        tuple(Claim(entry.says, entry.holds, entry.why.strip(), entry.tolerance.strip()) for entry in file.claims),
        defaults,
    )


def _add_figures(lab: Lab, document: Document) -> Lab:
    """Return the lab with its figures. Raises SpecError for a problem in the file of published values."""
    if not lab.file.figures:
        return lab
    rows = read_published(Folder(lab.folder))
    figures = []
    for n, entry in enumerate(lab.file.figures):

        def problem(path: ValuePath, message: str, n: int = n) -> None:
            document.refuse(("figures", n, *path), message)

        figures.append(make_figure(entry, rows, problem))
    return replace(lab, figures=tuple(figures))


def _files_of(
    folder: Path, entry: StepEntry | SweepEntry, given: Mapping[str, str]
) -> tuple[str, Path, Path, Mapping[str, str]]:
    parameters = {**given, **{name: spell_scalar(value) for name, value in entry.params.items()}}
    name = entry.name or Path(entry.experiment).stem
    return name, folder / entry.topology, folder / entry.experiment, parameters


def _check_folders(lab: Lab, document: Document) -> None:
    """Add a problem for each step whose files are outside the folder: a lab may come from a stranger."""
    lab_file = str(lab.folder / FILE)
    for position, one in _places_of(lab):
        for key, file in (("topology", one.topology), ("experiment", one.experiment)):
            if any(tell_outside(Path(one), lab_file) for one in spell(file)):
                document.refuse((*position, key), "lies outside the folder of the lab: copy the file there")


def _places_of(lab: Lab) -> list[tuple[ValuePath, _Files]]:
    """Return the steps and sweeps of a lab with their places in its file."""
    kinds: tuple[tuple[str, Sequence[_Files]], ...] = (("steps", lab.steps), ("sweeps", lab.sweeps))
    return [((kind, n), one) for kind, entries in kinds for n, one in enumerate(entries)]


def _check_names(lab: Lab, document: Document) -> None:
    """Add problems for steps with the same name, and for claims about steps that are missing or in no common
    profile.
    """
    first: dict[str, ValuePath] = {}
    for position, one in _places_of(lab):
        if one.name in first:
            line = document.position(first[one.name])[1]
            document.refuse(position, f"a second step '{one.name}', first on line {line}: give it a 'name'")
        first.setdefault(one.name, position)
    _check_figure_names(lab, first, document)
    together = [lab.in_profile(profile).names for profile in PROFILES]
    for n, claim in enumerate(lab.claims):
        position = ("claims", n, "holds")
        unknown = next((name for name in claim.steps if name not in first), None)
        if unknown is not None:
            document.refuse(position, f"no step '{unknown}'{name_nearest(unknown, first, 'steps')}")
        elif not claim.steps:
            document.refuse(position, "is about no step: name one, as in 'xp_tcp.bulk.goodput >= 18mbit'")
        elif not any(names.issuperset(claim.steps) for names in together):
            document.refuse(position, "is about steps that no profile runs together: split it")


def _check_figure_names(lab: Lab, known: Mapping[str, ValuePath], document: Document) -> None:
    """Add problems for figures with the same name, and for figures of steps that the profile `published` does not
    run.
    """
    published = lab.in_profile("published").names
    names: dict[str, int] = {}
    for n, figure in enumerate(lab.figures):
        if names.setdefault(figure.name, n) != n:
            document.refuse(("figures", n, "name"), f"a second figure '{figure.name}': give it another name")
        for step in figure.steps:
            if step not in known:
                document.refuse(("figures", n), f"no step '{step}'{name_nearest(step, known, 'steps')}")
            elif step not in published:
                message = f"the profile 'published' does not run step '{step}': remove its 'profile'"
                document.refuse(("figures", n), message)
        for name, step in figure.drawn_runs:
            if step in {sweep.name for sweep in lab.sweeps}:
                message = f"'{name}: {step}' names a sweep, not a run: write the name of a step"
                document.refuse(("figures", n), message)
    for name in (PUBLISHED, HERE) if lab.figures else ():
        if name in known:
            document.refuse(known[name], f"'{name}' names the values of figures: give it another name")
