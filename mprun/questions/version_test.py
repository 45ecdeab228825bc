# SPDX-License-Identifier: Apache-2.0
"""Test a version: build it, run an experiment on it once, and judge the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mprun.engines.agent_process import RunProgress
from mprun.inputs import load
from mprun.model.engine_name import EngineChoice
from mprun.model.permission import Consent, Permissions
from mprun.questions.bisect import Answer, attempt, judge_run
from mprun.questions.built_version import BuildSubject
from mprun.runs import runner
from mprun.runs.place import choose_place_of
from mprun.statements.expression import Expression


@dataclass(frozen=True)
class Experiment:
    """The files of an experiment, and how each version runs it. parent: the folder of the runs."""

    topology: str
    experiment: str
    parameters: Mapping[str, str]
    seed: int | None
    engine: EngineChoice
    parent: Path
    consent: Consent
    allow_outside: bool


def test(
    asked: Experiment, subject: BuildSubject, tree: Path, fail_if: Expression | None, progress: RunProgress
) -> Answer:
    """Build the version in `tree` and run the experiment on it. Return the answer.

    Raises SpecError or MachineError for a problem that each version would have.
    """

    def run() -> Answer:
        allowed = Permissions(asked.consent.commands, asked.allow_outside)
        parameters = {**asked.parameters, **subject.parameters}
        loaded = load(asked.topology, asked.experiment, parameters, asked.seed, allowed=allowed)
        place = choose_place_of(loaded.values, asked.engine, subject.kernel)
        inputs = runner.read_inputs(loaded.sources)
        request = runner.RunRequest(
            loaded.spec, place, loaded.warnings, inputs, consent=asked.consent, parameters=loaded.parameters
        )
        directory, summary = runner.run_request(request, asked.parent, progress)
        return judge_run(directory, summary, fail_if)

    return attempt(lambda: subject.build(tree, lambda text, done: progress(text, done, "")), run, fail_if)
