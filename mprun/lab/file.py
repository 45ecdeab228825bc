# SPDX-License-Identifier: Apache-2.0
"""The file of a lab: its steps, its claims, and its questions for students.

`read_lab` checks the file and reports all faults. `check_claims` also reads the files of the steps, and checks that
they will measure what the claims name, in the same units. Nothing is run here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from mprun.input import Loaded, load
from mprun.input.document import Document
from mprun.input.parameter import Parameters
from mprun.input.reader import SUFFIXES, is_outside, read
from mprun.input.traffic import owned_metrics
from mprun.model import metric
from mprun.model.fault import Fault, InputError, name_nearest
from mprun.model.metric import Metric, Metrics, Unit
from mprun.model.scalar import read_scalar, spell_scalar
from mprun.schema.file_model import check
from mprun.schema.lab import PROFILES, LabFile, Profile, StepEntry
from mprun.statement.claim import Claim, column_unit, split_table
from mprun.statement.evaluation import check as check_units
from mprun.statement.expression import ExpressionError, Reference, UnknownName

FILE = "lab.yaml"


@dataclass(frozen=True)
class Step:
    """A run of a lab. topology, experiment: files as for `load`. parameters: as for -p."""

    name: str
    topology: Path
    experiment: Path
    parameters: Mapping[str, str]
    profile: Profile | None

    def load(self, seed: int | None = None) -> Loaded:
        """Read and check the step's files. seed: instead of the file's. Raises InputError."""
        return load(self.topology, self.experiment, self.parameters, seed)

    def command(self, folder: Path) -> str:
        """Return the command that a student types in the lab's folder."""
        topology, experiment = (file.relative_to(folder) for file in (self.topology, self.experiment))
        parameters = [f"-p {name}={value}" for name, value in self.parameters.items()]
        return " ".join([f"mprun -t {topology} -x {experiment}", *parameters])


@dataclass(frozen=True)
class Question:
    """A question for a student, with a hint where to look."""

    ask: str
    hint: str


@dataclass(frozen=True)
class Lab:
    """A lab in its folder. defaults: its parameters, which the files of its steps share."""

    folder: Path
    title: str
    aim: str
    steps: tuple[Step, ...]
    show: tuple[str, ...]
    claims: tuple[Claim, ...]
    questions: tuple[Question, ...]
    defaults: Mapping[str, str]

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def number(self) -> str:
        return self.name.split("_")[0]

    def steps_of(self, profile: Profile) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if step.profile in (None, profile))

    def claims_of(self, profile: Profile) -> tuple[Claim, ...]:
        """Return the claims that need only steps of this profile."""
        names = {step.name for step in self.steps_of(profile)}
        return tuple(claim for claim in self.claims if names.issuperset(claim.steps))


def read_lab(folder: Path, parameters: Mapping[str, str] = {}) -> Lab:
    """Return the lab in a folder. Raises InputError with every fault of its file.

    parameters: values that replace those of the lab, as with -p, in claims and in all steps.
    """
    document = Document(read(folder / FILE, "experiment"))
    own = document.parameters()
    for name in sorted(parameters.keys() - own.keys()):
        message = f"no parameter '{name}' in {folder.name}{name_nearest(name, own, 'parameters')}"
        document.faults.append(Fault(f"-p {name}", None, (), message))
    values = document.plain(Parameters({**own, **{name: read_scalar(text) for name, text in parameters.items()}}))
    file = None if values is None else check(LabFile, values, document)
    defaults = {name: spell_scalar(value) for name, value in own.items()}
    lab = None if file is None else _lab(folder, file, defaults, parameters)
    if lab is not None:
        _check_places(lab, document)
        _check_names(lab, document)
    if document.faults or lab is None:
        raise InputError(document.faults)
    return lab


def _lab(folder: Path, file: LabFile, defaults: Mapping[str, str], given: Mapping[str, str]) -> Lab:
    return Lab(
        folder,
        file.title,
        file.aim.strip(),
        tuple(_step(folder, entry, given) for entry in file.steps),
        tuple(file.show),
        tuple(Claim(entry.says, entry.holds, entry.why.strip(), entry.tolerance.strip()) for entry in file.claims),
        tuple(Question(entry.ask.strip(), entry.hint.strip()) for entry in file.questions),
        defaults,
    )


def _step(folder: Path, entry: StepEntry, given: Mapping[str, str]) -> Step:
    parameters = {**given, **{name: spell_scalar(value) for name, value in entry.params.items()}}
    name = entry.name or Path(entry.experiment).stem
    return Step(name, folder / entry.topology, folder / entry.experiment, parameters, entry.profile)


def _check_places(lab: Lab, document: Document) -> None:
    """Add a fault for each step whose files are outside the folder: a lab may come from a stranger."""
    lab_file = str(lab.folder / FILE)
    for n, step in enumerate(lab.steps):
        for key, file in (("topology", step.topology), ("experiment", step.experiment)):
            if any(is_outside(file.with_name(f"{file.name}{suffix}"), lab_file) for suffix in ("", *SUFFIXES)):
                document.fault(("steps", n, key), "lies outside the folder of the lab: copy the file there")


def _check_names(lab: Lab, document: Document) -> None:
    """Add faults for steps with the same name, and for claims about steps that are missing or in no common profile."""
    first: dict[str, int] = {}
    for n, step in enumerate(lab.steps):
        if step.name in first:
            line = document.place(("steps", first[step.name]))[1]
            document.fault(("steps", n), f"a second step '{step.name}', first on line {line}: give it a 'name'")
        first.setdefault(step.name, n)
    together = [{step.name for step in lab.steps_of(profile)} for profile in PROFILES]
    for n, claim in enumerate(lab.claims):
        place = ("claims", n, "holds")
        unknown = next((name for name in claim.steps if name not in first), None)
        if unknown is not None:
            document.fault(place, f"no step '{unknown}'{name_nearest(unknown, first, 'steps')}")
        elif not claim.steps:
            document.fault(place, "is about no step: name one, as in 'xp_tcp.bulk.goodput >= 18mbit'")
        elif not any(names.issuperset(claim.steps) for names in together):
            document.fault(place, "is about steps that no profile runs together: split it")


def check_claims(lab: Lab) -> None:
    """Check claims against what the steps will measure. Raises InputError."""
    document = Document(read(lab.folder / FILE, "experiment"))
    loaded = {step.name: step.load() for step in lab.steps}
    for n, claim in enumerate(lab.claims):
        try:
            check_units(claim.holds, lambda reference: _unit_of(reference, loaded))
        except ExpressionError as error:
            document.fault(("claims", n, "holds"), str(error))
    for n, step in enumerate(lab.steps):
        explicit = replace(step, parameters={**lab.defaults, **step.parameters})
        if explicit.load().spec != loaded[step.name].spec:
            document.fault(("steps", n), "has another default for a parameter of the lab: give both the same")
    measured = [_owned(one) for one in loaded.values()]
    for n, name in enumerate(lab.show):
        if not any(_find_metric(name, owned) for owned in measured):
            document.fault(("show", n), f"no step has a metric '{name}'")
    if document.faults:
        raise InputError(document.faults)


def _owned(loaded: Loaded) -> Mapping[str, Metrics]:
    return owned_metrics(loaded.spec.experiment.traffic)


def _find_metric(name: str, owned: Mapping[str, Metrics]) -> Metric | None:
    owner, _, what = name.partition(".")
    found = metric.find_metric(metric.metrics_of(owner, owned), what)
    return None if found is None else found[0]


def _unit_of(reference: Reference, loaded: Mapping[str, Loaded]) -> Unit:
    """Return the unit of a name in a claim. Raises UnknownName."""
    table = split_table(reference)
    if table is not None:
        return column_unit(table[1])[0]
    if any(segment.conditions for segment in reference.segments):
        raise UnknownName("conditions are for the rows of a table: write 'RUN.TABLE[flow=NAME].COLUMN'")
    step, _, name = reference.name.partition(".")
    owned = _owned(loaded[step])
    found = _find_metric(name, owned)
    if found is None:
        known = [f"{owner}.{metric}" for owner, metrics in owned.items() for metric in metrics]
        raise UnknownName(f"step '{step}' has no metric '{name}'{name_nearest(name, known, 'it has')}")
    return found.unit
