# SPDX-License-Identifier: Apache-2.0
"""`mprun validate`: the input stage, and what an experiment kernel says of the names that only a kernel knows.

No network is built and nothing is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from mprun.cli import options
from mprun.cli.output import emit
from mprun.errors import MachineError
from mprun.model.engine_name import DEFAULT_ENGINE, EngineChoice
from mprun.model.problem import InputError, InputProblem, render_path

if TYPE_CHECKING:
    from mprun.inputs.loading import Loaded
    from mprun.model.spec import Spec


@click.command("validate")
@options.files("topology experiment.optional params strict python outside")
@options.runs("engine kernel")
@click.option("--json", "as_json", is_flag=True, help="Print the errors as JSON.")
def command(files: options.FileOptions, runs: options.RunOptions, as_json: bool) -> None:
    """Check a topology and an experiment in every cell of its matrix, and print all errors.

    If the experiment kernel of a run is built, it is asked for the sysctls, congestion controls, schedulers and trace
    events that the experiment names, and tcpdump for its filters.
    """
    from mprun.inputs.loading import load_cells

    try:
        experiment = files.experiment or None
        cells = load_cells(files.topology, experiment, files.parameters, None, files.strict, files.permissions())
        asked = _ask_kernel(cells, runs.engine, runs.kernel, files.strict)
    except InputError as error:
        if as_json:
            _print_json(error.found)
        raise
    options.warn((*(warning for cell in cells for warning in cell.warnings), *asked))
    if as_json:
        _print_json(())
    else:
        click.echo(f"ok: {describe(cells[0].spec)}{f', in {len(cells)} cells' if len(cells) > 1 else ''}")


def _ask_kernel(cells: Sequence[Loaded], engine: EngineChoice, name: str, strict: bool) -> list[str]:
    """Return warnings of what the kernel of a run may lack in the real engine.

    engine, name: of the cells whose values name no engine and no kernel. Raises InputError for what a run on an
    experiment kernel would refuse, and for filters that tcpdump refuses.
    """
    from mprun.engines.trial import find_refusals
    from mprun.inputs.user_configuration import configured_engine
    from mprun.kernel.store import DEFAULT_NAME

    usual = (configured_engine() or DEFAULT_ENGINE) if engine == "auto" else engine
    places: dict[tuple[str, bool], list[Loaded]] = {}
    for cell in cells:
        values = dict(cell.values)
        place = (str(values.get("kernel", name)), values.get("engine", usual) == "virtual")
        places.setdefault(place, []).append(cell)
    problems: dict[InputProblem, None] = {}
    warnings: dict[str, None] = {}
    for (kernel, is_virtual), own in places.items():
        try:
            refused, lacking = find_refusals([cell.spec for cell in own], kernel)
        except MachineError as error:
            if kernel == name != DEFAULT_NAME:
                raise
            warnings[f"names that only a kernel knows were not checked: {error}"] = None
            continue
        found = [(position, text, True) for position, text in refused.items()]
        for position, text in lacking.items():
            advice = "; for a run on another kernel add --kernel NAME" if "; it has: " in text else ""
            found.append((position, text + advice, strict or is_virtual))
        for position, text, is_certain in found:
            problem = InputProblem(*own[0].locate(position), position, text)
            if is_certain:
                problems[problem] = None
            else:
                warnings[str(problem)] = None
    if problems:
        raise InputError(list(problems))
    return list(warnings)


def _print_json(problems: Sequence[InputProblem]) -> None:
    entries = [{"file": f.file, "line": f.line, "path": render_path(f.path), "message": f.message} for f in problems]
    emit(entries)


def describe(spec: Spec) -> str:
    """Return `3 nodes, 3 links, 1 flow, 2 captures, 5 expectations`, without empty kinds."""
    counts = {
        "node": len(spec.topology.nodes),
        "link": len(spec.topology.links),
        "flow": len(spec.experiment.traffic),
        "capture": len(spec.experiment.captures),
        "expectation": len(spec.experiment.expectations) + len(spec.experiment.across),
    }
    return ", ".join(f"{count} {noun}{'' if count == 1 else 's'}" for noun, count in counts.items() if count)
