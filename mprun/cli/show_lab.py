# SPDX-License-Identifier: Apache-2.0
"""The outcome of a lab in the terminal and as JSON: its steps, claims and published figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mprun.cli import prose
from mprun.cli.output import show_table
from mprun.model.grouping import gather
from mprun.model.units import format_measured

if TYPE_CHECKING:
    from mprun.labs.definition import Lab
    from mprun.labs.grade import Grade
    from mprun.labs.steps import Done, LabRun
    from mprun.metrics.claim_check import JudgedClaim
    from mprun.statements.evaluation import Comparison

# The sign and its colour for each verdict on a claim or a published result, and for each state of a step.
_SIGNS = {
    **dict.fromkeys(("held", "agrees", "ran"), ("✓", "green")),
    **dict.fromkeys(("failed", "broken"), ("✗", "red")),
    **dict.fromkeys(("open", "not measured here"), ("?", "yellow")),
    **dict.fromkeys(("not comparable", "impossible"), ("-", "yellow")),
    "differs": ("≠", "yellow"),
    "undecided": ("~", "yellow"),
}


def show_lab(result: LabRun) -> None:
    """Print the outcome of each step with the lab's metrics and the name of the run, complaints, and the claims."""

    lab = result.lab
    click.echo(f"\n{click.style(f'{lab.name}: {lab.file.title}', bold=True)}")
    click.echo("\n".join(f"  {line}" for line in _say_files(lab)) + "\n")
    earlier = sum(done.is_earlier for done in result.done)
    if earlier:
        said = f"{earlier} of {len(result.done)} runs existed already; to run all steps again: add --new"
        click.echo(prose.wrap(said, "  ", "  ") + "\n")
    for name, reason in result.missing.items():
        if name not in {done.step.name for done in result.done}:
            click.echo(prose.wrap(f"sweep {name}: {reason}", "  ", "    "))
    for names, steps in _group_steps(result):
        owners = {name.partition(".")[0] for name in names}
        owner = f"{min(owners)}." if len(owners) == 1 else ""
        rows = [[owner.rstrip("."), *(name.removeprefix(owner) for name in names), "run"]]
        for done in steps:
            digest = done.directory.name.rsplit("-", 1)[-1] if done.directory else ""
            rows.append([f"{_SIGNS[_state(done)][0]} {done.step.name}", *(_cell(done, name) for name in names), digest])
        show_table(rows, 1)
        click.echo()
    grouped = _group_complaints(result.done)
    for (state, alike), complaints in grouped.items():
        click.echo(f"  {_sign(state)} {prose.wrap(', '.join(alike), '    ')[4:]}")
        for line in (line for text in complaints for line in text.splitlines()):
            click.echo(prose.wrap(line, "      ", "        "))
    if result.judgements and grouped:
        click.echo()
    show_judgements(result.judgements)


def _say_files(lab: Lab) -> list[str]:
    """Return lines that say whose files a lab has: the files of mprun or of the user."""
    from mprun.labs.catalog import is_shipped
    from mprun.labs.definition import FILE

    here = Path.cwd()
    if not is_shipped(lab):
        return [f"your files in {lab.folder.resolve()}"]
    said = [f"mprun's own files in {lab.folder.resolve()}"]
    if (here / FILE).is_file() and here != lab.folder.resolve():
        said.append("not the files of this directory; to run those: mprun lab run")
    return said


def _group_steps(result: LabRun) -> Iterator[tuple[list[str], list[Done]]]:
    """Yield the steps that measured the same flows, with the lab's metrics of these flows.

    A step without any of the metrics comes with the step before it.
    """
    groups: dict[tuple[str, ...], list[Done]] = {}
    last: tuple[str, ...] = ()
    for done in result.done:
        measured = [name for name in result.lab.file.show if done.summary is not None and name in done.summary.metrics]
        last = tuple(dict.fromkeys(name.partition(".")[0] for name in measured)) or last
        groups.setdefault(last, []).append(done)
    if first := groups.pop((), []):
        key = next(iter(groups), tuple(dict.fromkeys(name.partition(".")[0] for name in result.lab.file.show)))
        groups = {key: [*first, *groups.pop(key, [])], **groups}
    for owners, steps in groups.items():
        yield [name for name in result.lab.file.show if name.partition(".")[0] in owners], steps


def _cell(done: Done, name: str) -> str:
    metric = done.summary.metrics.get(name) if done.summary is not None else None
    return format_measured(*metric) if metric is not None else "-"


def _state(done: Done) -> str:
    """Return the state of a step. A step that has not passed is broken, too."""
    is_broken = done.summary is not None and done.summary.status != "passed"
    return "broken" if is_broken else done.state


def _sign(word: str) -> str:
    text, colour = _SIGNS[word]
    return click.style(text, fg=colour)


def _group_complaints(over: Sequence[Done]) -> dict[tuple[str, tuple[str, ...]], list[str]]:
    """Return what is wrong with steps, each fault once: by the state and the names of the steps that have it."""
    steps = gather(((_state(done), text), done.step.name) for done in over for text in _say_complaints(done))
    return gather(((state, tuple(names)), text) for (state, text), names in steps.items())


def _say_complaints(done: Done) -> Iterator[str]:
    """Yield what is wrong with a step: its error, or the failures and warnings of its run."""
    from mprun.reports.metrics import format_bound, format_judged

    if done.summary is None:
        lines = done.error.splitlines()
        # a line that ends in a colon announces the lines after it
        first = next((n for n, line in enumerate(lines) if line.endswith(":")), len(lines))
        yield from lines[:first]
        if first < len(lines):
            yield "\n".join(lines[first:])
        return
    for kind in ("failures", "warnings"):
        for text in done.summary.messages(kind):
            yield f"{kind[:-1]}: {text}"
    for verdict in done.summary.expectations:
        metric = done.summary.metrics.get(verdict.metric)
        if not verdict.held and metric is not None:
            wanted = format_bound(verdict.bounds, metric.unit)
            yield f"failure: {verdict.metric} is {format_judged(metric, [verdict])}; expected: {wanted}"
        elif not verdict.held:
            yield f"failure: {verdict.metric} was not measured"


def show_judgements(judgements: Sequence[JudgedClaim]) -> None:
    for judgement in judgements:
        said = prose.wrap(judgement.claim.says, "    ")[4:]
        click.echo(f"  {_sign(judgement.verdict)} {said}")
        for comparison in judgement.evaluation.comparisons if judgement.evaluation else ():
            click.echo(prose.wrap(say_comparison(comparison), "      ", "        "))
        if judgement.reason:
            click.echo(prose.wrap(judgement.reason, "      "))


def say_comparison(comparison: Comparison) -> str:
    """Return `xp.bulk.goodput = 36.93 Mbit/s >= 34.02 Mbit/s = 1.8 * tcp.bulk.goodput`. A number stands for itself."""
    from mprun.labs.study_figure import format_sides

    left, operator, right = format_sides(comparison)
    if not comparison.left[0].isdigit() or " " in comparison.left:
        left = f"{comparison.left} = {left}"
    if not comparison.right[0].isdigit() or " " in comparison.right:
        right = f"{right} = {comparison.right}"
    return f"{left} {operator} {right}"


def show_figures(result: LabRun, page: Path | None) -> None:
    """Print the verdict on each published result, and the place of the page with the pictures."""
    if page is None:
        return
    click.echo("\n  published figures:")
    for judged in result.figures:
        for finding in judged.findings:
            said = f"{judged.figure.source}: {finding.said or judged.figure.entry.title}"
            click.echo(f"  {_sign(finding.verdict)} {prose.wrap(said, '    ')[4:]}")
            click.echo(prose.wrap(f"{finding.verdict}: {finding.reason}", "      "))
        if judged.figure.entry.command:
            click.echo(prose.wrap(f"command: {judged.figure.entry.command}", "      "))
    click.echo(f"\n  figures: {page}")


def show_total(results: Sequence[LabRun], wall_s: float) -> None:
    judgements = [judgement for result in results for judgement in result.judgements]
    counts = Counter[str](judgement.verdict for judgement in judgements)
    # a step whose files cannot be read makes no run
    runs = sum(done.summary is not None for result in results for done in result.done)
    said = [f"{counts['held']} of {len(judgements)} claims hold"] if judgements else []
    said += [
        f"{counts[verdict]} {one if counts[verdict] == 1 else more}"
        for verdict, one, more in (("failed", "does not", "do not"), ("open", "is open", "are open"))
        if counts[verdict]
    ]
    verdicts = [finding.verdict for result in results for judged in result.figures for finding in judged.findings]
    said += [f"{verdicts.count('agrees')} of {len(verdicts)} published results agree"] if verdicts else []
    ran = f"{runs} run{'s' * (runs != 1)} in {wall_s:.1f} s"
    click.echo(f"\n{click.style(', '.join(said), bold=True)}; {ran}")


def show_left(lab: Lab, grade: Grade) -> None:
    """Print the steps without a run, with the command of each. Print nothing if every step was run."""
    from mprun.labs.definition import FILE
    from mprun.labs.grade import NOT_RUN

    if not grade.left:
        return
    count = len(grade.left)
    place = "" if grade.folder.resolve() == Path.cwd() else f" in {grade.folder.resolve()}"
    needless = ", which no claim needs" if grade.judgements and grade.held == len(grade.judgements) else ""
    click.echo(f"\n  {count} step{'s' * (count > 1)} left{needless}; type{place}:")
    is_plain = all(reason == NOT_RUN for _, reason in grade.left)
    for step, reason in grade.left:
        click.echo(f"    {step.command(lab.folder)}")
        if not is_plain:
            click.echo(prose.wrap(f"{step.name} {reason}", "      "))
    if not (grade.folder / FILE).is_file():
        click.echo(f"  in a copy of the lab, which `mprun lab start {lab.number}` makes")


def lab_to_json(result: LabRun) -> dict[str, Any]:
    steps = [
        {
            **vars(done),
            "step": done.step.name,
            "directory": str(done.directory or ""),
            "summary": done.summary and done.summary.to_json(),
        }
        for done in result.done
    ]
    figures = [
        {"figure": judged.figure.name, "published": judged.figure.entry.published, **vars(finding)}
        for judged in result.figures
        for finding in judged.findings
    ]
    return {
        "lab": result.lab.name,
        "steps": steps,
        "claims": claims_to_json(result.judgements),
        "figures": figures,
        "missing": result.missing,
    }


def claims_to_json(judgements: Sequence[JudgedClaim]) -> list[dict[str, Any]]:
    return [
        {
            "says": judgement.claim.says,
            "holds": judgement.claim.holds.text,
            "verdict": judgement.verdict,
            "comparisons": judgement.evaluation.comparisons if judgement.evaluation else (),
            "reason": judgement.reason,
        }
        for judgement in judgements
    ]
