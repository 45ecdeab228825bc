# SPDX-License-Identifier: Apache-2.0
"""`mprun minimise`: find the smallest files with the failure of a run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mprun.cli import options, output, prose
from mprun.cli.completion import complete_runs
from mprun.cli.output import emit
from mprun.cli.progress import Bar
from mprun.machine import invoking_user
from mprun.safety.text import plain

if TYPE_CHECKING:
    from mprun.questions.minimise import RunFailure

DEFAULT_BUDGET = 500


@click.command("minimise")
@click.argument("name", metavar="RUN", shell_complete=complete_runs)
@options.to_folder("Write topo.yaml and xp.yaml to DIRECTORY.", default=Path("minimal"))
@options.fail_if(
    help="Keep this true: 'bulk.goodput < 20mbit'. Default: the run's first unmet expectation, failure or error."
)
@options.control(help="Keep only what does not fail on this kernel.")
@options.number("--budget", 1, 100_000, "Make at most N runs.", DEFAULT_BUDGET)
@options.runs("kernel.original parent consent")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(
    name: str,
    target: Path,
    fail_if: str | None,
    control: str | None,
    budget: int,
    runs: options.RunOptions,
    as_json: bool,
) -> None:
    """Find the smallest topology and experiment that fail in the same way as a run.

    Hosts, links, flows, events and settings are removed, durations are cut, and numbers are rounded. One run decides
    each step. The same statement must fail, and by half to twice as much. With --control, the files must not fail on
    that kernel, which a second run decides.
    """
    from mprun.cli.operand import find_exact_run
    from mprun.questions.bisect import read_true_statement
    from mprun.questions.minimise import minimise, write_files
    from mprun.runs.place import choose_control, choose_place, find_kernel

    run = find_exact_run(runs.parent, name)
    output.refuse_existing(target)
    statement = read_true_statement(fail_if, run, run.summary())
    kernel = runs.kernel or find_kernel(run.environment())
    place = choose_place("virtual", kernel)
    passes_on = None if control is None else choose_control(control, kernel)

    def tell(failure: RunFailure | None) -> None:
        click.echo(f"keeps: {plain(failure.text if failure else fail_if)}", err=True)

    with Bar() as bar:
        done = minimise(run, place, statement, runs.consent, budget, bar.show, tell, passes_on)
    invoking_user.make_folder(target)
    head = f"# Smallest case of: {plain(run.title)}\n"
    paths = write_files(done.tree, target, head)
    invoking_user.give(target)
    if as_json:
        emit(
            {
                **{"files": [str(path) for path in paths], "lines_before": done.lines[0], "lines": done.lines[1]},
                **{"runs": done.runs, "tested": done.tested, "complete": done.is_whole},
            }
        )
    else:
        click.echo(f"{done.lines[0]} lines became {done.lines[1]}, {done.runs} runs for {done.tested} candidates")
        for path in paths:
            click.echo(f"\n{path}")
            click.echo("".join(f"  {plain(line)}\n" for line in path.read_text().splitlines()), nl=False)
        files = f"mprun -t {paths[0].with_suffix('')} -x {paths[1].with_suffix('')}"
        click.echo(f"\nagain: {files}{prose.spell_kernel(kernel)}")
        if control is not None:
            click.echo(f"control, which passes: {files}{prose.spell_kernel(control)}")
    if not done.is_whole:
        click.echo(f"stopped after {budget} runs: the files may become smaller with a larger --budget", err=True)
    sys.exit(0 if done.is_whole else 1)
