# SPDX-License-Identifier: Apache-2.0
"""`mprun baseline write|check`: guard the values of experiments."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from mprun.cli import options
from mprun.cli.output import emit, show_table
from mprun.cli.progress import Bar
from mprun.errors import SpecError
from mprun.machine import invoking_user
from mprun.questions import baseline
from mprun.safety.text import plain

# The lines of a baseline with the names of its files.
FILES = ("topology", "experiment")


@click.group("baseline")
def command() -> None:
    """Check that values of experiments have not changed, with a small text file beside each experiment."""


@command.command("write")
@options.files("topology experiment params seed")
@options.runs("kernel parent consent")
@options.metrics(
    help="Write this metric. Can be repeated. Default: the metrics in `expect` and `show`, or all if there are none."
)
@options.to(
    "Write to FILE. Default: TOPOLOGY-EXPERIMENT.baseline beside the experiment.",
    type=options.Target(b"#"),
)
def write(files: options.FileOptions, runs: options.RunOptions, metrics: tuple[str, ...], target: Path | None) -> None:
    """Run an experiment once, and write its values to a file."""
    beside, stem = Path(files.experiment).parent, f"{Path(files.topology).stem}-{Path(files.experiment).stem}"
    path = target or beside / f"{stem}{baseline.SUFFIX}"
    lines = _measure(path, files, runs, metrics)
    path.write_text(baseline.spell(lines))
    invoking_user.give(path)
    click.echo(f"{path}: {sum(name.startswith('value ') for name in lines)} values")


@command.command("check")
@click.argument("places", nargs=-1, type=click.Path(exists=True, path_type=Path), metavar="[FILE]...")
@options.runs("kernel parent consent")
@options.text("--markdown", "FILE", "Add a table of base, now and change to FILE.", type=options.Target())
@click.option("--json", "as_json", is_flag=True, help="Print the differences as JSON.")
def check(places: tuple[Path, ...], runs: options.RunOptions, markdown: Path | None, as_json: bool) -> None:
    """Run the experiment of each baseline again, and show every difference.

    FILE is a baseline or a folder. Default: all baselines below this folder. The exit status is 1 if a value differs.
    """
    checked: dict[str, list[baseline.BaselineDifference]] = {}
    for path in baseline.find(places or (Path(),)):
        base = baseline.read(path)
        given = tuple(
            f"{name.removeprefix(baseline.PARAMETER)}={value}"
            for name, value in base.items()
            if name.startswith(baseline.PARAMETER)
        )
        topology, experiment = (str(path.parent / base[name]) for name in FILES)
        metrics = [name.removeprefix(baseline.VALUE) for name in base if name.startswith(baseline.VALUE)]
        try:
            files = options.FileOptions(topology, experiment, given, int(base["seed"]))
            # the names of the files as the baseline spells them
            now = {**_measure(path, files, runs, metrics, is_check=True), **{name: base[name] for name in FILES}}
        except ValueError:
            raise SpecError(f"{path}: seed '{base['seed']}' is no number: write the baseline again") from None
        checked[str(path)] = baseline.compare(base, now)
        if not as_json:
            _show(str(path), checked[str(path)])
    if markdown is not None:
        with markdown.open("a") as file:
            file.write(baseline.to_markdown(checked))
    if as_json:
        emit({path: {"because": baseline.explain(found), "differences": found} for path, found in checked.items()})
    sys.exit(int(any(one.kind == "value" for found in checked.values() for one in found)))


def _measure(
    path: Path, files: options.FileOptions, runs: options.RunOptions, asked: Sequence[str], is_check: bool = False
) -> dict[str, str]:
    """Run once, and return the lines of the baseline at a path."""
    from mprun.inputs.experiment import refuse_unknown_metrics
    from mprun.inputs.loading import load
    from mprun.runs import runner
    from mprun.runs.place import choose_place_of

    allowed = files.permissions(runs.consent)
    loaded = load(files.topology, files.experiment, files.parameters, files.seed, allowed=allowed)
    if not is_check:
        refuse_unknown_metrics(asked, [loaded.spec.experiment])
    # only simulated time repeats exactly
    place = choose_place_of(loaded.values, "virtual", runs.kernel)
    request = runner.make_request(loaded, place, runs.consent)
    with Bar() as bar:
        run, summary = runner.run_request(request, runs.parent, bar.show)
    metrics = baseline.choose_metrics(summary, loaded.spec.experiment.show, asked)
    if is_check:
        # a value that is gone is a difference
        metrics = [name for name in metrics if name in summary.metrics]
    topology, experiment = (os.path.relpath(name, path.parent) for name in (files.topology, files.experiment))
    return baseline.write_baseline(
        topology, experiment, files.parameters, run.digest, summary, run.environment(), metrics
    )


def _show(name: str, differences: Sequence[baseline.BaselineDifference]) -> None:
    because = baseline.explain(differences)
    values = [one for one in differences if one.kind == "value"]
    if not values:
        with_other = f", with {' and '.join(because)}" if because else ""
        click.echo(f"same     {plain(name)}{plain(with_other)}")
        return
    click.echo(
        f"{'changed' if not because else 'differs'}  {plain(name)}{plain(': ' + ', '.join(because)) if because else ''}"
    )
    rows = [("", "base", "now", "change"), *((f"  {row[0]}", *row[1:]) for row in baseline.tell(differences))]
    show_table(rows, 1)
