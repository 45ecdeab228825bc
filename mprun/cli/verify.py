# SPDX-License-Identifier: Apache-2.0
"""`mprun verify`: run a run, a sweep or a bundle again, and compare the results."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mprun.cli import options, prose
from mprun.cli.completion import complete_files, complete_runs
from mprun.cli.operand import find_either
from mprun.cli.output import emit, show_table
from mprun.cli.progress import Bar, passing
from mprun.errors import RunError, SpecError
from mprun.machine import invoking_user
from mprun.machine.scratch import scratch
from mprun.model.scalar import spell_scalar, spell_values
from mprun.model.units import format_measured
from mprun.safety.text import plain
from mprun.storage.run_directory import RunDirectory

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from mprun.bundles.reproduction import Original, ReproducedRun
    from mprun.metrics.comparison import ComparedMetric
    from mprun.questions.divergence import Divergence

MOST_SHOWN = 20
_WORDS = {
    "identical": ("identical", "green"),
    "within": ("within intervals", "green"),
    "different": ("DIFFERENT", "red"),
}


def _complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return runs, or let the shell complete the file of a bundle if no run fits."""
    return complete_runs(context, parameter, incomplete) or complete_files(context, parameter, incomplete)


@click.command("verify")
@click.argument("name", metavar="[RUN|SWEEP|BUNDLE]", default="latest", shell_complete=_complete)
@click.option("--keep", "is_kept", is_flag=True, help="Keep the new runs of a run or a sweep. Those of a bundle stay.")
@options.runs("engine.original kernel.original parent consent jobs")
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON.")
def command(name: str, is_kept: bool, runs: options.RunOptions, as_json: bool) -> None:
    """Run again and compare the results: identical, within intervals, or different.

    The results are compared byte by byte. If a run differs, the first artifact and byte that differ are printed, with
    the first packet and trace event, and the counters. If runs of a sweep differ, their metrics decide. Only the
    resolved inputs are used, and they are compiled again. The exit status is 1 if the results differ.
    """
    done = verify(name, runs, is_kept, as_json)
    sys.exit(1 if done.closeness == "different" else 0)


def verify(name: str, runs: options.RunOptions, is_kept: bool, as_json: bool) -> ReproducedRun:
    """Run again, and print the verdict. is_kept: keep the new runs of a run or a sweep. Raises MprunError."""
    from mprun.bundles import reproduction
    from mprun.cli.compare import find_divergence

    with scratch("mprun-verify-") as folder:
        original = _open(name, runs.parent, folder)
        # the runs of a bundle are kept: its reader has no other
        is_kept = is_kept or original.is_bundle
        is_alone = isinstance(original.source, RunDirectory) and not original.is_bundle
        if isinstance(original.source, RunDirectory):
            if not original.source.is_complete:
                reason = "has not ended, so it has no results to compare: name another run"
                raise SpecError(f"{original.source.name} {reason}")
            # a damaged file is named before the run is repeated
            original.source.summary()
            # of a run in real time, only the new run would be of use
            if not is_kept and (before := original.source.environment()).real_time:
                name = original.source.name
                raise RunError(f"{name} ran in real time ({before.engine} engine): no two such runs are equal")
        engine, reason = reproduction.choose_engine(original, None if runs.engine == "auto" else runs.engine)
        if original.missing is not None:
            where = " in the bundle" if original.is_bundle else ""
            click.echo(
                f"warning: the sweep{where} is incomplete: {original.missing}; these runs are repeated", err=True
            )
        if not as_json and not is_alone:
            click.echo(f"engine: {engine} ({reason})", err=True)
        prose.note_unconfined()
        place = runs.parent if is_kept else folder
        with Bar() as bar:
            how = reproduction.Reproduction(place, engine, runs.kernel, runs.consent, bar.show, runs.jobs)
            done = reproduction.reproduce(original, how)
        if is_kept:
            invoking_user.give(done.path)
        divergence = None
        if is_alone and done.closeness == "different":
            assert isinstance(original.source, RunDirectory)
            divergence = find_divergence(original.source, RunDirectory(done.path))
        if as_json:
            emit({**_to_json(original, done, is_alone, is_kept), "divergence": divergence})
        elif is_alone:
            _show_run(original, done, divergence, is_kept)
        else:
            _show(done, original.is_bundle, is_kept)
    return done


def _open(name: str, parent: Path, folder: Path) -> Original:
    """Return a run, a sweep or the content of a bundle, which is unpacked below a folder. Raises SpecError."""
    from mprun.bundles.reproduction import open_bundle, open_original

    if not Path(name).is_file():
        return open_original(find_either(parent, name))
    with passing(f"checking {name}"):
        return open_bundle(Path(name), folder)


def _to_json(original: Original, done: ReproducedRun, is_alone: bool, is_kept: bool) -> dict[str, Any]:
    """Return the verdict for programs. `identical`: of a run, whether it is; of others, the number of such runs."""
    return {
        "run": original.source.name,
        "verdict": done.closeness,
        "directory": str(done.path) if is_kept else None,
        "identical": done.identical == 1 if is_alone else done.identical,
        "runs": done.runs,
        "difference": next(iter(done.differences), None),
        "artifacts": done.differences,
        "facts": done.facts,
        "metrics": [one.to_json() for one in done.compared],
        "main": [one.to_json() for one in done.main],
        "failures": done.failures,
        "unproven": done.unproven,
        "written": {"lines": done.written.lines, "notes": done.written.notes},
    }


def _show_run(original: Original, done: ReproducedRun, divergence: Divergence | None, is_kept: bool) -> None:
    """Print the verdict on a run, and where it diverges. A run that is kept is shown first."""
    from mprun.cli.compare import show_divergence
    from mprun.cli.show_run import show_summary

    for fact, (then, now) in done.facts.items():
        click.echo(f"note: {plain(fact)}: {plain(then)} then, {plain(now)} now", err=True)
    again = RunDirectory(done.path)
    if is_kept:
        show_summary(again.summary(), again)
    if done.closeness == "identical":
        assert isinstance(original.source, RunDirectory)
        count = len(list(original.source.artifacts()))
        without = (
            ""
            if again.captures().keys() == original.source.captures().keys()
            else "; captures that it does not keep were not compared"
        )
        click.echo(f"identical: {count} artifacts of {original.source.name}, byte by byte{without}")
    else:
        click.echo(f"different: {done.differences[0]}")
        if divergence is not None:
            show_divergence(divergence, original.source.name, done.compared)
        _show_metrics("then", done.main)


def _show(done: ReproducedRun, is_bundle: bool, is_kept: bool) -> None:
    from mprun.cli.compare import show_lines

    for text in done.failures:
        click.echo(f"  {click.style('error', fg='red')}: {plain(text)}")
    for name, (before, now) in done.facts.items():
        click.echo(f"  {plain(name)}: {plain(before)} then, {plain(now)} now")
    for text in done.differences[:MOST_SHOWN]:
        click.echo(f"  {plain(text)}")
    for one in done.compared[:MOST_SHOWN]:
        click.echo(f"  {_say(one)}")
    hidden = max(0, len(done.differences) - MOST_SHOWN) + max(0, len(done.compared) - MOST_SHOWN)
    if hidden:
        click.echo(f"  and {hidden} more: --json has all")
    if done.unproven:
        click.echo(f"  the repetition says nothing of {_list_members(done.unproven)} in the bundle")
    for text in done.written.notes[:MOST_SHOWN]:
        click.echo(prose.wrap(plain(text), "  note: ", "    "))
    if done.written.lines:
        here = ", with this version of mprun" if "mprun" in done.facts else ""
        click.echo(f"  the files in inputs/ give other runs{here} (-: what ran, +: what they give)")
        show_lines(done.written.lines, False)
    _show_metrics("in the bundle" if is_bundle else "then", done.main)
    word, colour = _WORDS[done.closeness]
    many = done.runs > 1
    how = {
        "identical": f"every artifact of {f'{done.runs} runs' if many else 'the run'}, byte by byte",
        "within": f"{done.identical} of {done.runs} runs byte by byte; "
        "of the others no metric differs by more than chance",
        "different": f"{done.runs - done.identical} of {done.runs} runs differ" if many else "the run differs",
    }[done.closeness]
    if done.written.lines and done.identical == done.runs and done.closeness == "different":
        how = f"the files in inputs/ give other runs, though {'all runs are' if many else 'the run is'} repeated"
    click.echo(f"{click.style(word, fg=colour, bold=True)}  {how}{f'  {done.path}' if is_kept else ''}")


def _show_metrics(before: str, compared: Sequence[ComparedMetric]) -> None:
    """Print the metrics that the experiment shows or expects: before, here, and the difference."""
    from mprun.reports.effect import say_effect

    if not compared:
        return
    axes = list(dict.fromkeys(name for one in compared for name in one.values))
    rows = [[*axes, "metric", before, "here", "change"]]
    for one in compared:
        cell = (plain(spell_scalar(one.values.get(name, ""))) for name in axes)
        sides = (_format(value, one.symbol) for value in (one.first, one.second))
        change = "same" if one.tendency == "same" else say_effect(one)
        rows.append([*cell, plain(one.metric), *sides, change])
    show_table(rows, len(axes) + 1)


def _format(value: float | None, symbol: str) -> str:
    return "not measured" if value is None else format_measured(value, symbol)


def _list_members(names: Sequence[str]) -> str:
    """Return the files, and folders with the number of their files."""
    counts = Counter(name.partition("/")[0] for name in names)
    folders = {name.partition("/")[0] for name in names if "/" in name}
    return ", ".join(plain(f"{one}/ ({count} files)" if one in folders else one) for one, count in counts.items())


def _say(one: ComparedMetric) -> str:
    then, now = _format(one.first, one.symbol), _format(one.second, one.symbol)
    return plain(f"{spell_values(one.values)} {one.metric}: {then} then, {now} now".strip())
