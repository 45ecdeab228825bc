# SPDX-License-Identifier: Apache-2.0
"""`mprun bisect`: find the commit that changed a result."""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mprun.cli import options
from mprun.cli.output import emit, show_table
from mprun.cli.progress import Bar
from mprun.errors import MprunError
from mprun.model.metric import SYMBOLS, relative_change
from mprun.model.units import find_prefix
from mprun.safety.text import plain

if TYPE_CHECKING:
    from mprun.questions.bisect import Answer, Bisected
    from mprun.questions.built_version import BuildSubject
    from mprun.questions.repository import History
    from mprun.statements.expression import Value

# The exit status of each verdict, as `git bisect run` expects it. From 128 on, it ends the search.
STATUS = {"good": 0, "bad": 1, "skip": 125}
ABORT = 128


@click.command("bisect")
@options.files("topology experiment params seed outside")
@options.runs("engine parent consent")
@options.folder(
    "--tree",
    required=True,
    help="Read this git repository: a kernel tree, or with --build your own program. It is not changed.",
)
@click.option("--good", metavar="REV", help="Name a revision with the earlier result.")
@click.option("--bad", metavar="REV", help="Name a later revision with the changed result.")
@options.fail_if(
    help="Treat a revision as bad if this is true: 'bulk.goodput < 36.9mbit'. Default: bad if the run fails."
)
@options.text(
    "--build command_line",
    "COMMAND",
    "Build each version of your program with COMMAND. The parameter `tree` is the program's folder.",
)
@options.jobs("compilers")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(
    files: options.FileOptions,
    runs: options.RunOptions,
    tree: Path,
    good: str | None,
    bad: str | None,
    fail_if: str | None,
    command_line: str | None,
    jobs: int,
    as_json: bool,
) -> None:
    """Find the commit that changed a result, by one build and one run for each tested commit.

    A commit that does not build, or into which mprun's hooks do not fit, is skipped. A build runs the tree's
    Makefiles, or COMMAND, with all your rights.

    Without --good and --bad, only the tree as it is now is tested. The exit status is then 0 (good), 1 (bad)
    or 125 (skip), as `git bisect run` expects. Errors have the status 128, which ends the search.
    """
    from mprun.inputs.loading import load
    from mprun.questions import bisect as question
    from mprun.questions.bisect import Experiment, test
    from mprun.questions.built_version import KernelTree, OwnProgram
    from mprun.questions.repository import read_history

    if (good is None) != (bad is None):
        raise click.UsageError("name both --good and --bad, or neither")
    if command_line is None and runs.engine not in ("auto", "virtual"):
        raise click.UsageError(f"--engine {runs.engine} does not boot the kernels of the tree: use the virtual engine")
    statement = question.read_statement(fail_if)
    subject: BuildSubject = OwnProgram(command_line) if command_line else KernelTree(jobs)
    read = partial(load, files.topology, files.experiment, seed=files.seed, allowed=files.permissions(runs.consent))
    own = files.parameters
    asked = Experiment(lambda more: read({**own, **more}), runs.engine, runs.parent, runs.consent)
    if good is None or bad is None:
        try:
            with Bar() as bar:
                answer = test(asked, subject, tree.absolute(), statement, bar.show)
        except MprunError as error:
            click.echo(str(error), err=True)
            sys.exit(ABORT)
        if as_json:
            emit(_to_json(answer))
        else:
            click.echo(f"{answer.term}{_tell(answer)}")
        sys.exit(STATUS[answer.term])
    history = read_history(tree, good, bad)
    repository = history.repository
    started = time.monotonic()
    kernels: dict[str, str] = {}

    def test_commit(commit: str) -> Answer:
        with Bar() as bar:
            bar.show("checking out", 0)
            repository.take(commit)
            answer = test(asked, subject, repository.own, statement, bar.show)
        kernels[commit] = subject.kernel
        return answer

    def tell(commit: str, answer: Answer) -> None:
        click.echo(f"{answer.term:4} {plain(history.describe(commit))}{_tell(answer)}", err=True)

    try:
        done = question.bisect(history, test_commit, tell)
        subject.keep_only({kernels[done.before], kernels[done.after]})
        if as_json:
            emit(_report(history, done))
        else:
            skipped = f", {done.skipped} skipped" if done.skipped else ""
            builds, took_s = f"{done.builds} builds between the ends{skipped}", time.monotonic() - started
            click.echo(f"\n{len(history.commits)} commits, {builds}, {took_s:.0f} s")
            # this reads the repository too
            _tell_end(history, done, fail_if)
    finally:
        if not subject.KEEPS_CHECKOUT:
            repository.remove()
    sys.exit(0 if len(done.found.suspects) == 1 else 1)


def _tell(answer: Answer) -> str:
    """Return the figures of an answer, and the reason of a commit that was skipped or has no figures."""
    parts = [f"{name} {_format(value)}" for name, value in answer.figures.items()]
    if answer.reason and (answer.term == "skip" or not parts):
        parts.append(answer.reason)
    return f": {plain(', '.join(parts))}" if parts else ""


def _format(value: Value) -> str:
    """Return a value with six digits, because a difference may be small."""
    amount, symbol = value.amount, SYMBOLS[value.unit]
    if symbol in ("bit/s", "byte"):
        factor, name = find_prefix(abs(amount), symbol)
        return f"{amount / factor:.6g} {name}"
    if symbol == "s":
        return f"{amount * 1e3:.6g} ms" if abs(amount) < 1 else f"{amount:.6g} s"
    return f"{amount:.4%}".replace("%", " %") if symbol == "share" else f"{amount:,.12g}"


def _tell_end(history: History, done: Bisected, fail_if: str | None) -> None:
    suspects = done.found.suspects
    if len(suspects) == 1:
        click.echo(f"first bad commit: {plain(history.describe(suspects[0]))}")
    else:
        click.echo(f"the first bad commit is one of these {len(suspects)}, because the others cannot be tested:")
        for commit in suspects:
            click.echo(f"  {plain(history.describe(commit))}")
    if fail_if is not None:
        click.echo(f"bad if: {plain(fail_if)}")
    before, after = done.answers[done.before], done.answers[done.after]
    rows = [("", "before", "after", "change")]
    for name in before.figures.keys() & after.figures.keys():
        old, new = before.figures[name], after.figures[name]
        change = relative_change(old.amount, new.amount)
        rows.append((name, _format(old), _format(new), "" if change is None else f"{change:+.3%}".replace("%", " %")))
    rows = [rows[0], *sorted(rows[1:])]
    if len(rows) > 1:
        show_table(rows, 1)
    if before.run and after.run:
        click.echo(f"compare: mprun compare {before.run.name} {after.run.name}")


def _to_json(answer: Answer) -> dict[str, Any]:
    figures = {name: {"value": value.amount, "unit": SYMBOLS[value.unit]} for name, value in answer.figures.items()}
    directory = str(answer.run) if answer.run else None
    return {"verdict": answer.term, "figures": figures, "directory": directory, "reason": answer.reason}


def _report(history: History, done: Bisected) -> dict[str, Any]:
    return {
        "first_bad": list(done.found.suspects),
        "before": {"commit": done.before, **_to_json(done.answers[done.before])},
        "after": {"commit": done.after, **_to_json(done.answers[done.after])},
        "commits": len(history.commits),
        "builds": done.builds,
        "skipped": done.skipped,
        "tested": {commit: _to_json(answer) for commit, answer in done.answers.items()},
    }
