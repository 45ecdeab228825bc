# SPDX-License-Identifier: Apache-2.0
"""`mprun reproduce`: repeat the runs of a bundle."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mprun.cli import options
from mprun.cli.output import emit
from mprun.machine import invoking_user
from mprun.machine.scratch import scratch
from mprun.model.engine_name import ENGINE_NAMES
from mprun.model.scalar import spell_scalar, spell_values
from mprun.safety.text import plain

if TYPE_CHECKING:
    from mprun.bundles.reproduction import ReproducedRun
    from mprun.metrics.comparison import ComparedMetric
    from mprun.model.engine_name import EngineName
    from mprun.model.permission import Consent

MOST_SHOWN = 20
_WORDS = {
    "identical": ("identical", "green"),
    "within": ("within intervals", "green"),
    "different": ("DIFFERENT", "red"),
}


@click.command("reproduce")
@click.argument("archive", metavar="BUNDLE", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--engine",
    type=click.Choice(ENGINE_NAMES),
    help="Choose where to run. `virtual`: simulated time. `real`: this machine's kernel. "
    "Default: virtual if the original ran there.",
)
@options.kernel_of_original
@options.parent
@options.consent
@click.option(
    "-j",
    "--jobs",
    type=click.IntRange(1, 1024),
    metavar="N",
    help="Run N runs of a sweep at once. Default: one for each CPU.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON.")
def command(
    archive: Path,
    engine: EngineName | None,
    kernel: str | None,
    parent: Path,
    consent: Consent,
    jobs: int | None,
    as_json: bool,
) -> None:
    """Repeat the runs of BUNDLE and compare the result: identical, within intervals, or different.

    Only the resolved inputs of the bundle are used, and they are compiled again. The exit status is 1 if the
    result differs.
    """
    from mprun.bundles.reproduction import choose_engine, open_bundle, reproduce
    from mprun.cli.progress import Bar

    with scratch("mprun-bundle-") as folder:
        bundle = open_bundle(archive, folder)
        chosen, reason = choose_engine(bundle, engine)
        if bundle.missing is not None:
            click.echo(
                f"warning: the sweep in the bundle is incomplete: {bundle.missing}; these runs are repeated", err=True
            )
        if not as_json:
            click.echo(f"engine: {chosen} ({reason})", err=True)
            options.note_unconfined()
        with Bar() as bar:
            reproduced = reproduce(bundle, parent, chosen, kernel, consent, bar.show, jobs)
    invoking_user.give(reproduced.path)
    if as_json:
        emit(_to_json(reproduced))
    else:
        _show(reproduced)
    sys.exit(1 if reproduced.closeness == "different" else 0)


def _to_json(reproduced: ReproducedRun) -> dict[str, Any]:
    return {
        "verdict": reproduced.closeness,
        "directory": str(reproduced.path),
        "identical": reproduced.identical,
        "runs": reproduced.runs,
        "artifacts": list(reproduced.differences),
        "facts": {name: list(pair) for name, pair in reproduced.facts.items()},
        "metrics": [one.to_json() for one in reproduced.compared],
        "main": [one.to_json() for one in reproduced.main],
        "failures": list(reproduced.failures),
        "unproven": list(reproduced.unproven),
    }


def _show(reproduced: ReproducedRun) -> None:
    for text in reproduced.failures:
        click.echo(f"  {click.style('error', fg='red')}: {plain(text)}")
    for name, (before, now) in reproduced.facts.items():
        click.echo(f"  {plain(name)}: {plain(before)} then, {plain(now)} now")
    for text in reproduced.differences[:MOST_SHOWN]:
        click.echo(f"  {plain(text)}")
    for one in reproduced.compared[:MOST_SHOWN]:
        click.echo(f"  {_say(one)}")
    hidden = max(0, len(reproduced.differences) - MOST_SHOWN) + max(0, len(reproduced.compared) - MOST_SHOWN)
    if hidden:
        click.echo(f"  and {hidden} more: --json has all")
    if reproduced.unproven:
        click.echo(f"  the repetition says nothing of {_list_members(reproduced.unproven)} in the bundle")
    _show_main(reproduced.main)
    word, colour = _WORDS[reproduced.closeness]
    many = reproduced.runs > 1
    how = {
        "identical": f"every artifact of {f'{reproduced.runs} runs' if many else 'the run'}, byte by byte",
        "within": f"{reproduced.identical} of {reproduced.runs} runs byte by byte; "
        "of the others no metric differs by more than chance",
        "different": f"{reproduced.runs - reproduced.identical} of {reproduced.runs} runs differ"
        if many
        else "the run differs",
    }[reproduced.closeness]
    click.echo(f"{click.style(word, fg=colour, bold=True)}  {how}  {reproduced.path}")


def _show_main(compared: Sequence[ComparedMetric]) -> None:
    """Print the metrics that the experiment shows or expects: in the bundle, here, and the difference."""
    from mprun.cli.terminal_table import show_table

    if not compared:
        return
    axes = list(dict.fromkeys(name for one in compared for name in one.values))
    first = [[*axes, "metric"]]
    first += [
        [*(plain(spell_scalar(one.values.get(name, ""))) for name in axes), plain(one.metric)] for one in compared
    ]
    columns = [
        ["in the bundle", *(_format(one.first, one.symbol) for one in compared)],
        ["here", *(_format(one.second, one.symbol) for one in compared)],
        ["change", *("same" if one.tendency == "same" else _say_change(one) for one in compared)],
    ]
    show_table(first, columns, len(axes) + 1)


def _say_change(one: ComparedMetric) -> str:
    return "" if one.change is None else f"{one.change:+.3%}"


def _format(value: float | None, symbol: str) -> str:
    from mprun.model.units import format_measured

    return "not measured" if value is None else format_measured(value, symbol)


def _list_members(names: Sequence[str]) -> str:
    """Return the files, and folders with the number of their files."""
    counts = Counter(name.partition("/")[0] for name in names)
    folders = {name.partition("/")[0] for name in names if "/" in name}
    return ", ".join(plain(f"{one}/ ({count} files)" if one in folders else one) for one, count in counts.items())


def _say(one: ComparedMetric) -> str:
    values: Mapping[str, Any] = one.values
    cell = spell_values(values)
    then, now = _format(one.first, one.symbol), _format(one.second, one.symbol)
    return plain(f"{cell} {one.metric}: {then} then, {now} now".strip())
