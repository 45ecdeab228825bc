# SPDX-License-Identifier: Apache-2.0
"""`mprun validate`: the input stage, and what an experiment kernel says of the names that only a kernel knows.

No network is built and nothing is written.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from mprun.cli import options, prose
from mprun.cli.output import emit
from mprun.errors import MachineError
from mprun.model.problem import InputError, InputProblem, render_path
from mprun.model.scalar import spell_scalar

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
    try:
        try:
            cells = files.load_cells()
        except InputError as error:
            # a kernel that does not start hides no problem of the files
            with contextlib.suppress(MachineError):
                _ask((error.loaded,) if error.loaded else (), files, runs, error.found)
            raise
        asked = _ask((*cells, *cells[0].ends), files, runs)
    except InputError as error:
        if as_json:
            _print_json(error.found)
        raise
    from mprun.inputs.loading import join_warnings

    prose.warn((*join_warnings(cells), *asked))
    if as_json:
        _print_json(())
    else:
        told = f", in {len(cells)} cells" if len(cells) > 1 else ""
        if told and cells[0].spec.experiment.search:
            given = " ".join(f"-p {name}={spell_scalar(value)}" for name, value in cells[0].values)
            told += f", of which `mprun search` takes one, as with {given}"
        click.echo(f"ok: {describe(cells[0].spec)}{told}")


def _ask(
    cells: Sequence[Loaded], files: options.FileOptions, runs: options.RunOptions, found: Sequence[InputProblem] = ()
) -> list[str]:
    """Return warnings of what the kernel may lack. Raise InputError for what it refuses, after the problems found."""
    # after the line that says that the files are read
    from mprun.engines.trial import refuse_unknown

    try:
        return refuse_unknown(cells, runs.engine, runs.kernel, strict=files.strict, for_run=False)
    except InputError as error:
        known = {(one.file, one.path) for one in found}
        raise InputError([*found, *(one for one in error.found if (one.file, one.path) not in known)]) from None


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
