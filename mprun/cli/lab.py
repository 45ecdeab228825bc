# SPDX-License-Identifier: Apache-2.0
"""`mprun lab list|show|start|run|check`: the labs of mprun."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mprun.cli import options, prose
from mprun.cli.completion import complete_labs
from mprun.cli.output import emit, emit_csv
from mprun.cli.progress import Bar
from mprun.cli.show_lab import (
    claims_to_json,
    lab_to_json,
    show_figures,
    show_judgements,
    show_lab,
    show_left,
    show_total,
)
from mprun.errors import Interrupted, MachineError, SpecError
from mprun.machine import invoking_user
from mprun.machine.packaged import find_labs

if TYPE_CHECKING:
    from mprun.inputs.keys.lab_definition import LabProfile
    from mprun.labs.definition import Lab
    from mprun.labs.grade import Grade
    from mprun.labs.steps import Done, LabRun
    from mprun.sweeps.execution import SweepProgress


_profile = options.choice(
    "--profile",
    ("quick", "published"),
    "Choose the size of the runs. `quick` shows every effect in short runs. `published` uses the durations and "
    "parameter values of the publication.",
    "quick",
)


class _LabGroup(click.Group):
    """The commands of labs. The name of a lab in the place of a command is a lab to run."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in self.commands and not ctx.resilient_parsing:
            labs = find_labs()
            if name.zfill(2) in {*labs, *(folder.name for folder in labs.values())}:
                raise click.UsageError(f"no command '{name}': to run the lab, write `mprun lab run {name}`", ctx)
        return super().resolve_command(ctx, args)


@click.group("lab", cls=_LabGroup, context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """List, show, copy, run and grade the labs of mprun.

    LAB is a lab's number, a lab's name, or a folder that contains a lab. In a copy that `lab start` made, `show`,
    `run` and `check` need no LAB.
    """


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print the labs as JSON.")
def list_(as_json: bool) -> None:
    """List the labs."""
    from mprun.labs.catalog import open_lab

    labs = [open_lab(str(folder)) for folder in find_labs().values()]
    if as_json:
        emit([{"name": lab.name, "title": lab.file.title, "folder": str(lab.folder)} for lab in labs])
        return
    for lab in labs:
        line = f"{lab.name:26} {lab.file.title}"
        # a program that reads the list expects a lab on each line
        click.echo(prose.wrap(lab.file.title, f"{lab.name:26} ", " " * 27) if sys.stdout.isatty() else line)


@command.command()
@click.argument("name", metavar="[LAB]", required=False, shell_complete=complete_labs)
@_profile
def show(name: str | None, profile: LabProfile) -> None:
    """Show a lab: its aim, commands, expected results and questions.

    The default is the lab of the current directory.
    """
    from mprun.labs.catalog import open_here, open_lab

    lab = (open_here() if name is None else open_lab(name)).in_profile(profile)
    click.echo(f"{click.style(lab.file.title, bold=True)}  ({lab.folder})\n")
    click.echo(f"{prose.wrap(lab.file.aim.strip(), '  ')}\n")
    click.echo("in its folder, or in a copy that `mprun lab start` makes:")
    if lab.file.kernel is not None:
        click.echo(f"  {lab.file.kernel.build}")
    for step in lab.steps:
        click.echo(f"  {step.command(lab.folder)}")
    click.echo("\nwhat should be seen:")
    for claim in lab.claims:
        click.echo(prose.wrap(claim.says, "  - ", "    "))
        click.echo(click.style(prose.wrap(claim.holds.text, "    "), dim=True))
        click.echo(prose.wrap(" ".join((claim.why, claim.tolerance)).strip(), "    "))
    click.echo("\nquestions:")
    for question in lab.file.questions:
        click.echo(prose.wrap(question.ask.strip(), "  - ", "    "))
        if question.hint:
            click.echo(prose.wrap(f"hint: {question.hint.strip()}", "    "))


@command.command()
@click.argument("name", metavar="LAB", shell_complete=complete_labs)
@click.argument("directory", metavar="[DIRECTORY]", required=False, type=options.Target(is_file=False))
def start(name: str, directory: Path | None) -> None:
    """Copy a lab to DIRECTORY, to work on it.

    The default for DIRECTORY is the lab's name, in the current directory.
    """
    from mprun.labs.catalog import copy_lab, open_lab

    lab = open_lab(name)
    text = str(directory or "")
    if text.zfill(2) in find_labs() and text.isdigit():
        said = f"'{text}' is the number of a lab, and would be the name of the copy: copy each lab by its own command"
        raise SpecError(f"{said}, or name another directory")
    target = directory or options.Target(is_file=False).convert(lab.name, None, None)
    copy_lab(lab, target)
    click.echo(prose.wrap(f"created {target}, a copy of lab {lab.name}: {lab.file.title}", "", "  "))
    parts = (*lab.steps, *lab.sweeps)
    found = {
        "text": [file.relative_to(target) for file in sorted(target.rglob("*.md"))],
        "topologies": [part.topology.relative_to(lab.folder) for part in parts],
        "experiments": [part.experiment.relative_to(lab.folder) for part in parts],
    }
    known = {Path("lab"), *found["topologies"], *found["experiments"]}
    others = (file.relative_to(target).with_suffix("") for file in sorted(target.rglob("*.yaml")))
    found["more files"] = [file for file in others if file not in known]
    for kind, files in found.items():
        if files:
            click.echo(prose.wrap(", ".join(dict.fromkeys(map(str, files))), f"  {kind:11}  ", " " * 15))
    click.echo("next:")
    click.echo(f"  cd {shlex.quote(str(target))}")
    click.echo("  read README.md and type its commands")
    click.echo("  mprun lab check      (reports the steps that are left)")


@command.command()
@click.argument("names", metavar="LAB...", nargs=-1, shell_complete=complete_labs)
@click.option("--all", "all_", is_flag=True, help="Run all labs.")
@_profile
@options.text(
    "--figure figures",
    "NAME",
    "Run only what this published figure of the lab needs. Needs --profile published. Can be repeated.",
    multiple=True,
)
@click.option("--new", "anew", is_flag=True, help="Run all steps again, also steps with earlier runs.")
@options.files("params seed")
@options.runs("engine kernel.lab parent consent")
@click.option("--dry-run", is_flag=True, help="List the steps and sweeps with their numbers of runs; run none.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def run(
    names: tuple[str, ...],
    all_: bool,
    profile: LabProfile,
    figures: tuple[str, ...],
    anew: bool,
    files: options.FileOptions,
    runs: options.RunOptions,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Run all steps of labs, and compare their claims with the measurements.

    The default is the lab of the current directory. A lab by its number or name has the files of mprun, also in a
    copy.

    With --profile published, also run the sweeps of the labs, and write a page that compares each published figure
    with the measurements. Runs that exist already are not repeated, so the same command resumes a lab. In real time,
    only --profile published resumes a lab.
    """
    from mprun.labs.catalog import open_here, open_lab
    from mprun.labs.steps import LabSettings, link_runs, run_labs
    from mprun.runs.place import choose_place

    if names and all_:
        raise click.UsageError("name the labs to run, or write --all, not both")
    if figures and profile != "published":
        raise click.UsageError("figures belong to the publication: add --profile published to --figure")
    if names == ("all",):
        raise click.UsageError("no lab 'all': to run all labs, write mprun lab run --all")
    wanted = [str(folder) for folder in find_labs().values()] if all_ else names
    labs = [open_lab(name, files.parameters) for name in wanted] or [open_here(files.parameters)]
    if all_ and not runs.kernel:
        labs = _leave_out_own_kernels(labs)
    labs = [lab.in_profile(profile, figures) for lab in labs]
    for step in (one for lab in labs if files.params for one in lab.steps):
        # a fault of -p is the same in all steps
        step.load(files.seed)
    if dry_run:
        _show_work(labs, as_json)
        return
    place = choose_place(runs.engine, runs.kernel or _choose_kernel(labs))
    if not as_json:
        click.echo(f"engine: {place.name} ({place.reason})", err=True)
    # in real time, runs of the same files differ
    keeps = not anew and (profile == "published" or place.engine.IS_SIMULATED)
    settings = LabSettings(place, runs.parent, runs.consent, files.seed, keeps)
    began = time.monotonic()
    count = sum(len(lab.steps) for lab in labs)
    over: list[Done] = []
    results: list[LabRun] = []
    with Bar() as bar:

        def report(done: Done) -> None:
            over.append(done)
            look()
            if done.directory is not None:
                invoking_user.give(done.directory)

        def look() -> None:
            bar.show("running", len(over) / max(count, 1), f"{len(over)} of {count} runs")

        def tell(state: SweepProgress) -> None:
            bar.show("running a sweep", state.done / max(state.total, 1), f"{state.done} of {state.total} runs")

        say = partial(click.echo, err=True)
        try:
            for result in run_labs(labs, settings, report, look, tell, say):
                results.append(result)
                for text in link_runs(result.done):
                    click.echo(f"warning: {text}", err=True)
                page = _write_page(runs.parent, result)
                if not as_json:
                    show_lab(result)
                    show_figures(result, page)
        except KeyboardInterrupt:
            next_time = "runs the others" if keeps else "runs all of them again"
            done = f"{len(over)} of {count} runs are done"
            raise Interrupted(f"interrupted: {done}; the same command {next_time}") from None
    if as_json:
        emit([lab_to_json(result) for result in results])
    else:
        show_total(results, time.monotonic() - began)
    sys.exit(_status(results))


def _show_work(labs: Sequence[Lab], as_json: bool) -> None:
    """Print the steps and sweeps of labs, with the command and the number of runs of each."""
    from mprun.labs.steps import work_of

    work = {lab.name: work_of(lab) for lab in labs}
    if as_json:
        emit([{"lab": name, "steps": parts} for name, parts in work.items()])
        return
    for lab, parts in work.items():
        click.echo(lab)
        width = max((len(part.name) for part in parts), default=0)
        for part in parts:
            first = f"  {part.name:{width}}  {_say_runs(part.runs):>8}  "
            click.echo(prose.wrap(part.command, first, " " * len(first)))
        click.echo(f"  {_say_runs(sum(part.runs for part in parts))} in all")


def _say_runs(count: int) -> str:
    return f"{count} run{'' if count == 1 else 's'}"


def _leave_out_own_kernels(labs: Sequence[Lab]) -> list[Lab]:
    """Return the labs without those for which the student builds a kernel, and say which are left out."""
    for lab in labs:
        if lab.file.kernel is not None:
            text = f"left out: {lab.name}, which runs on a kernel that you build: mprun lab run {lab.number}"
            click.echo(text, err=True)
    return [lab for lab in labs if lab.file.kernel is None]


def _choose_kernel(labs: Sequence[Lab]) -> str:
    """Return the kernel that labs run on. Raises MachineError if it is not built, SpecError if labs need several."""
    from mprun.kernel.store import DEFAULT_NAME, list_kernels

    own = [(lab, lab.file.kernel) for lab in labs if lab.file.kernel is not None]
    if not own:
        return DEFAULT_NAME
    names = {lab.file.kernel.name if lab.file.kernel else DEFAULT_NAME for lab in labs}
    if len(names) > 1:
        raise SpecError(f"these labs run on different kernels ({', '.join(sorted(names))}): run each lab alone")
    lab, kernel = own[0]
    if kernel.name not in {built.name for built in list_kernels()}:
        raise MachineError(
            f"lab {lab.name} runs on a kernel that you build, and no kernel '{kernel.name}' exists: {kernel.build}; "
            f"README.md of the lab says what to write first"
        )
    return kernel.name


def _write_page(parent: Path, result: LabRun) -> Path | None:
    """Write the page of the published figures. Return None if the lab or its profile has no figures."""
    from mprun.labs.study_page import write_page

    if not result.figures:
        return None
    page = write_page(parent, result.lab, result.figures, result.results, result.walls_s)
    invoking_user.give(page.parent)
    for sweep in result.lab.sweeps:
        if sweep.name in result.results:
            invoking_user.give(result.results[sweep.name].path)
    return page


@command.command()
@click.argument("name", metavar="[LAB]", required=False, shell_complete=complete_labs)
@click.argument("folders", metavar="[DIRECTORY]...", nargs=-1, type=click.Path(path_type=Path))
@_profile
@click.option("--json", "as_json", is_flag=True, help="Print the grades as JSON.")
@click.option("--csv", "as_csv", is_flag=True, help="Print a row for each directory as CSV (RFC 4180).")
def check(name: str | None, folders: tuple[Path, ...], profile: LabProfile, as_json: bool, as_csv: bool) -> None:
    """Grade the runs of each DIRECTORY, such as one directory for each student.

    The default is the current directory. Without LAB, it is the copy of a lab that contains the current
    directory. A run counts as a step of the lab if it was made from the lab's own files and parameters. In a
    copy, these are the files of mprun, not the changed files of the copy.
    """
    from mprun.labs.catalog import find_origin, find_original, open_here, open_lab
    from mprun.labs.grade import digests_of, grade

    if as_json and as_csv:
        raise click.UsageError("use --json or --csv, not both")
    if name is None:
        here = open_here()
        lab, folders = find_original(here), (here.folder,)
    else:
        lab = open_lab(name)
    if len(folders) == 1 and (origin := find_origin(folders[0])) not in (None, lab.name):
        said = f"{folders[0]} is a copy of lab {origin}, not of {lab.name}"
        raise SpecError(f"{said}: to grade it, write mprun lab check {origin} {folders[0]}")
    lab = lab.in_profile(profile)
    digests = digests_of(lab)
    grades = [grade(lab, digests, folder) for folder in folders or (Path(),)]
    if as_json:
        emit([_tell_held(lab, one) | _tell_details(lab, one) for one in grades])
    elif as_csv:
        says = [claim.says for claim in lab.claims]
        verdicts = [[judgement.verdict for judgement in one.judgements] for one in grades]
        emit_csv([_tell_held(lab, grades[n]) | dict(zip(says, row, strict=True)) for n, row in enumerate(verdicts)])
    else:
        for one in grades:
            click.echo(f"\n{click.style(lab.name, bold=True)} in {one.folder.resolve()}")
            show_judgements(one.judgements)
            click.echo(f"\n  {one.held} of {len(one.judgements)} claims hold")
            for step, reason in one.passed_over:
                click.echo(prose.wrap(f"a newer run does not count: it {reason}", f"  {step.name}: ", "    "))
            show_left(lab, one)
    sys.exit(0 if all(one.held == len(one.judgements) for one in grades) else 1)


def _tell_held(lab: Lab, one: Grade) -> dict[str, Any]:
    return {"directory": str(one.folder), "lab": lab.name, "held": one.held, "of": len(one.judgements)}


def _tell_details(lab: Lab, one: Grade) -> dict[str, Any]:
    runs = {step: str(run.path) for step, run in one.runs.items()}
    left = [{"step": step.name, "reason": reason, "command": step.command(lab.folder)} for step, reason in one.left]
    return {"runs": runs, "left": left, "claims": claims_to_json(one.judgements)}


def _status(results: Sequence[LabRun]) -> int:
    """Return 1 if a step or a claim failed, and 3 if only this machine lacks something."""
    states = {done.state for result in results for done in result.done}
    statuses = {done.summary.status for result in results for done in result.done if done.summary}
    verdicts = {judgement.verdict for result in results for judgement in result.judgements}
    findings = [finding for result in results for judged in result.figures for finding in judged.findings]
    if "broken" in states or statuses - {"passed"} or "failed" in verdicts:
        return 1
    if any(finding.verdict == "differs" and not finding.is_explained for finding in findings):
        return 1
    if "impossible" in states:
        return 3
    return 1 if "open" in verdicts or not all(finding.is_explained for finding in findings) else 0
