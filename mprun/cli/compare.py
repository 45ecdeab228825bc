# SPDX-License-Identifier: Apache-2.0
"""`mprun compare`: two runs, two sweeps, or two parts of one sweep."""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mprun.cli import operand, options, output, prose
from mprun.cli.completion import complete_axes, complete_runs
from mprun.cli.operand import Operand, find_either, open_operands
from mprun.cli.output import emit, mark
from mprun.cli.progress import Bar
from mprun.errors import MprunError, SpecError
from mprun.metrics.comparison import ComparedMetric
from mprun.metrics.statistics import CONFIDENCE
from mprun.model.grouping import gather
from mprun.model.problem import name_nearest
from mprun.model.units import QuantityError, parse_ratio
from mprun.reports import effect
from mprun.safety.text import plain
from mprun.storage.run_directory import RunDirectory, list_runs
from mprun.storage.sweep_directory import LATEST, ResultDirectory, SweepDirectory

if TYPE_CHECKING:
    from mprun.questions.divergence import Divergence
    from mprun.sweeps.operands import Operands, SidePair

# What a caller refuses, by the names of the sides.
SayReasons = Callable[[Sequence[str]], Sequence[str]]
# The lines that differ in a file, without --all.
MOST_LINES = 12


@click.command("compare")
@click.argument("first", metavar="[A]", required=False, shell_complete=complete_runs)
@click.argument("second", metavar="[B]", required=False, shell_complete=complete_runs)
@options.parent
@options.text(
    "--by axis", "AXIS", "Compare two parts of sweep A: AXIS or AXIS=one,other.", shell_complete=complete_axes
)
@options.metrics(help="Compare only this metric. Can be repeated.")
@click.option("--all", "show_all", is_flag=True, help="Also show metrics that do not differ.")
@options.choice(
    "--sort",
    ("metric", "effect"),
    "Choose the order of the metrics of a cell. `effect`: the largest change first.",
    "metric",
)
@click.option("--within", metavar="SHARE", help="Fail if a metric clearly differs by more than SHARE, such as 2%.")
@options.confidence
@options.verdicts
@click.option("--report", "is_reported", is_flag=True, help="Also write the comparison as an HTML page with figures.")
@click.option("--open", "is_shown", is_flag=True, help="Write the page, and open it in a browser.")
@click.option("--json", "as_json", is_flag=True, help="Print the comparison as JSON.")
def command(
    first: str | None,
    second: str | None,
    parent: Path,
    axis: str | None,
    metrics: tuple[str, ...],
    show_all: bool,
    sort: str,
    within: str | None,
    confidence: float | None,
    verdicts: options.VerdictOptions,
    is_reported: bool,
    is_shown: bool,
    as_json: bool,
) -> None:
    """Compare runs, sweeps or bundles A and B: their inputs, metrics and expectations.

    Without A and B, the last two runs are compared. LAB/STEP, such as 01/xp_tcp, is the newest run of a lab's step, and
    NAME=VALUE,... the newest run with these values of parameters.

    Differences have confidence intervals if each side has more than one run. If two runs of equal inputs differ in
    simulated time, the first packet and trace event that differ are named, and the counters. The exit status is 1 if an
    expectation holds less often in B than in A, if a metric is outside --within, or if a sweep lacks runs; it is 2 if
    nothing is on both sides.
    """
    from mprun.sweeps.operands import measure_operands, read_halves, read_operands

    if first is None:
        first, second = _find_last(parent) if axis is None else (LATEST, None)
    if second is not None and axis is not None:
        raise click.UsageError("--by compares two parts of one sweep: leave out B, or --by")
    if (second is None) == (axis is None):
        raise click.UsageError(f"give A and B, or a sweep A and --by AXIS{_tell_axes(parent, first)}")
    try:
        bound = None if within is None else parse_ratio(within)
    except QuantityError as error:
        raise click.UsageError(f"--within: {error}") from None
    with open_operands(parent, [first] if second is None else [first, second]) as named:
        sides = [one.source for one in named]
        one, other = named[0], named[-1]
        if axis is None:
            note_same(sides, "A and B")
            operands = read_operands(one.source, other.source, one.name, other.name)
        else:
            operands = read_halves(one.source, axis, one.name)
        known = {name for half in operands.cells for side in half for name in side.metrics()}
        for name in metrics:
            if name not in known:
                raise SpecError(f"neither has metric '{name}'{name_nearest(name, sorted(known), 'metrics')}")
        pair = measure_operands(operands, confidence or CONFIDENCE)
        if metrics:
            pair = replace(pair, compared=[one for one in pair.compared if one.metric in metrics])
        outside = [one for one in pair.compared if bound is not None and _is_outside(one, bound)]
        say_reasons = partial(_reasons, pair, outside, within)
        reasons = say_reasons("AB")
        nothing = _say_nothing(pair, is_of_metrics=bound is not None or bool(metrics))
        page = write_comparison(parent, [pair], named, say_reasons) if is_reported or is_shown else None
        divergence = _find_divergence(sides)
    cases = (("failed", 1, reasons), ("not compared", 2, nothing), ("incomplete", 1, any(operands.incomplete)))
    status, code = next(((word, code) for word, code, is_met in cases if is_met), ("passed", 0))
    if as_json:
        found = _to_json(pair, status)
        if divergence is not None:
            found["divergence"] = divergence
        emit(found if page is None else {**found, "report": str(page)})
    else:
        compared = effect.order_by_effect(pair.compared) if sort == "effect" else pair.compared
        _show(replace(pair, compared=compared), show_all)
        if divergence is not None:
            show_divergence(divergence, prose.spell_path(sides[0].path), pair.compared)
        for text in reasons:
            click.echo(f"{click.style('FAILED', fg='red', bold=True)}  {text}")
        for text in nothing:
            click.echo(f"{click.style('NOT COMPARED', fg='red', bold=True)}  {text}")
        for text in _say_incomplete(operands):
            click.echo(f"{click.style('INCOMPLETE', fg='yellow', bold=True)}  {text}")
        if page is not None:
            click.echo(page)
    if is_shown and page is not None:
        output.launch(page)
    if verdicts.is_wanted:
        verdicts.write(f"{operands.names[0]} against {operands.names[1]}", _checks(pair, bound, nothing))
    sys.exit(code)


def write_comparison(
    parent: Path, pairs: Sequence[SidePair], named: Sequence[Operand], say_reasons: SayReasons = lambda _: ()
) -> Path:
    """Write the page of a comparison. Return its path. named: the sides; a single sweep for its halves."""
    from mprun.reports.comparison_page import make_comparison
    from mprun.reports.distinct_names import name_sides

    if len(named) == 1:
        names = [name.rpartition(" ")[2] for name in pairs[0].operands.names]
    else:
        names = name_sides([one.source for one in named], [one.title for one in named])
    for one in named:
        if isinstance(one.source, RunDirectory):
            operand.restore_tables(one.source)
    with Bar() as bar:
        return make_comparison(parent, pairs, names, say_reasons(names), bar.show)


def note_same(sides: Sequence[ResultDirectory], who: str) -> None:
    """Print a note if a run or a sweep is compared with itself. who: the sides, in words."""
    if same := next((one for n, one in enumerate(sides) if one.path in [other.path for other in sides[:n]]), None):
        click.echo(f"note: {who} are the same: {prose.spell_path(same.path)}", err=True)


def _find_last(parent: Path) -> tuple[str, str]:
    """Return the last two runs that have results. Raises UsageError if there are fewer."""
    runs = [run for run in list_runs(parent) if run.has("summary.json")]
    if len(runs) < 2:
        ended = f"{len(runs)} run{'' if len(runs) == 1 else 's'}"
        remedy = _tell_axes(parent, LATEST) or ": make another"
        raise click.UsageError(f"give A and B: {parent} has {ended} with results{remedy}")
    return str(runs[-2].path), str(runs[-1].path)


def _tell_axes(parent: Path, name: str) -> str:
    """Return the commands that compare the parts of a sweep; empty without a sweep of this name or without axes."""
    with contextlib.suppress(MprunError):
        found = find_either(parent, name)
        if isinstance(found, SweepDirectory):
            axes = found.record.axes
            where = "" if parent.name == "runs" else f" -o {parent}"
            return f": the parts of a sweep with `mprun compare {name} --by {axes[0]}{where}`" if axes else ""
    return ""


def show_divergence(divergence: Divergence, run: str, compared: Sequence[ComparedMetric]) -> None:
    """Print where two runs diverge. run: the name of the first one."""
    for line in divergence.tell(run, compared):
        click.echo(prose.wrap(line, "  ", "    "))


def _find_divergence(sides: Sequence[ResultDirectory]) -> Divergence | None:
    """Return where two runs of equal inputs diverge; None for other sides, and for equal runs."""
    from mprun.questions.divergence import are_equal_inputs
    from mprun.runs.difference import first_difference

    match sides:
        case [RunDirectory() as one, RunDirectory() as other] if are_equal_inputs(one, other):
            return None if first_difference(one, other) is None else find_divergence(one, other)
    return None


def find_divergence(one: RunDirectory, other: RunDirectory) -> Divergence | None:
    """Return where two runs diverge. None, with a note, if a capture or a table of them cannot be read."""
    from mprun.questions import divergence

    try:
        return divergence.find_divergence(one, other)
    except MprunError as error:
        click.echo(f"note: the first packet that differs is not known: {plain(str(error))}", err=True)
        return None


def _is_outside(one: ComparedMetric, bound: float) -> bool:
    """Return True if the values clearly differ by more than the bound. Without an interval the values alone decide."""
    if one.first is None or one.second is None or abs(one.second - one.first) <= bound * abs(one.first):
        return False
    return one.difference is None or one.difference.is_clear


def _checks(pair: SidePair, bound: float | None, nothing: Sequence[str]) -> list[Any]:
    from mprun.reports.test_results import CheckedExpectation, say_expectation

    checks, names = [], pair.operands.names
    for each in pair.expected:
        if each.first is not None and each.second is not None:
            label = "across cells" if "holds" in each.expectation else effect.label_of(each.values)
            told = effect.say_held(each, names)
            checks.append(CheckedExpectation(label, say_expectation(each.expectation), not each.is_worse, told))
    if bound is not None:
        for one in pair.compared:
            label, text = effect.label_of(one.values), f"{one.metric} within {bound:g}"
            told = effect.say_change(one, pair.operands.metrics, names)
            checks.append(CheckedExpectation(label, text, not _is_outside(one, bound), told))
    for what, texts in (("both sides can be compared", nothing), ("all runs exist", _say_incomplete(pair.operands))):
        checks += [CheckedExpectation("sweeps", what, False, text, is_error=True) for text in texts]
    return checks


def _to_json(pair: SidePair, status: str) -> dict[str, Any]:
    operands = pair.operands
    return {
        "first": operands.names[0],
        "second": operands.names[1],
        "status": status,
        "inputs": operands.lines,
        "facts": operands.facts,
        "incomplete": operands.incomplete,
        "unmatched": [{"values": values, "only_in": which} for values, which in operands.unmatched],
        "metrics": [one.to_json() for one in pair.compared],
        "expectations": [
            {"values": one.values, **one.expectation, "first": one.first, "second": one.second, "worse": one.is_worse}
            for one in pair.expected
        ],
    }


def _show(pair: SidePair, show_all: bool) -> None:
    operands, compared = pair.operands, pair.compared
    for letter, name in zip("AB", operands.names, strict=True):
        click.echo(f"{letter}  {prose.spell_path(Path(name))}")
    brief = list(effect.say_briefly(compared, pair.expected, operands.shown))
    for line in brief:
        click.echo(click.style(f"  {line}", bold=True))
    own_values = compared if show_all else effect.leave_out_repeated(compared)
    shared = [one for one in own_values if None not in (one.first, one.second)]
    shown = compared if show_all else [one for one in shared if not effect.is_dull(one)]
    # files and cells begin with an empty line
    if brief and (operands.facts or operands.unmatched or not (operands.lines or shown[0].values)):
        click.echo()
    for name, (one, other) in operands.facts.items():
        click.echo(f"  {plain(name)}: {plain(effect.say_fact(one))} -> {plain(effect.say_fact(other))}")
    for values, which in operands.unmatched:
        click.echo(f"  only in {'AB'[which - 1]}: {effect.label_of(values)}")
    show_lines(operands.lines, show_all)
    width = max((len(one.metric) for one in shown), default=0)
    last = None
    for one in shown:
        label = effect.label_of(one.values)
        if label != last and one.values:
            click.echo(f"\n {label}")
        last = label
        colour = {"higher": "cyan", "lower": "magenta"}.get(one.tendency)
        line = f"{effect.MARKS[one.tendency]:1} {plain(one.metric):{width}}  {effect.say_change(one, operands.metrics)}"
        click.echo(click.style(prose.wrap(line, "  ", "      "), fg=colour))
    dull = 0 if show_all else len(shared) - len(shown)
    if dull:
        click.echo(f"\n  {dull} metric{'s do' if dull > 1 else ' does'} not clearly differ (--all shows them)")
    if repeated := len(compared) - len(own_values):
        click.echo(f"  {repeated} statistic{'s equal' if repeated > 1 else ' equals'} another (--all shows them)")
    for text in () if show_all else _find_alone(own_values):
        click.echo(prose.wrap(text, "  ", "    "))
    if text := effect.say_certainty(compared):
        click.echo("\n" + prose.wrap(text, "  "))
    units = _units(compared)
    for one in pair.expected:
        # the reasons of the failure follow
        if effect.is_news(one) and not one.is_worse:
            click.echo(f"  {mark(one.is_held)} {effect.say_expected(one, units)}: {effect.say_held(one)}")


def show_lines(lines: Sequence[str], show_all: bool) -> None:
    """Print the lines that only one side's files have, below the name of their file; few of them without --all."""
    for file, group in groupby((line.partition(": ") for line in lines), key=lambda parts: parts[0]):
        changes = [change for _, _, change in group]
        click.echo(f"\n  {plain(file)}")
        for change in changes if show_all or len(changes) <= MOST_LINES else changes[: MOST_LINES - 1]:
            colour = "green" if change.startswith("+") else "red"
            click.echo(click.style(prose.wrap(change, "    ", "      "), fg=colour))
        if not show_all and len(changes) > MOST_LINES:
            click.echo(f"    {len(changes) - MOST_LINES + 1} more lines differ (--all shows them)")


def _find_alone(compared: Sequence[ComparedMetric]) -> Iterator[str]:
    """Return lines about cells and metrics that only one side has."""
    cells = gather((effect.label_of(one.values), one) for one in compared)
    for side, other, value in (("A", "B", attrgetter("second")), ("B", "A", attrgetter("first"))):
        empty = [label for label, own in cells.items() if all(value(one) is None for one in own)]
        if empty and not any(one.values for one in compared):
            yield f"no result in {other}: its run ended with an error, or measured nothing"
        elif empty:
            yield f"no run in {other}, of cells: {'; '.join(empty)}"
        there = [one for label, own in cells.items() if label not in empty for one in own]
        alone, of = Counter(one.metric for one in there if value(one) is None), Counter(one.metric for one in there)
        told = [
            plain(name) if count == of[name] else f"{plain(name)} ({count} of {of[name]} cells)"
            for name, count in alone.items()
        ]
        if told:
            yield f"measured in {side} alone (--all shows the values): {', '.join(told)}"


def _say_nothing(pair: SidePair, is_of_metrics: bool) -> list[str]:
    """Return that nothing was compared, if so. is_of_metrics: the command line asks for a comparison of metrics."""
    # runs that measure nothing are compared by what was expected of them
    asked = () if is_of_metrics or pair.compared else pair.expected
    if any(None not in (one.first, one.second) for found in (pair.compared, asked) for one in found):
        return []
    is_apart = len(pair.operands.unmatched) == sum(map(len, pair.operands.cells))
    return [f"no {'cell is' if is_apart else 'metric is measured'} on both sides"]


def _say_incomplete(operands: Operands) -> list[str]:
    told = {
        text: [name for name, other in zip("AB", operands.incomplete, strict=True) if other == text]
        for text in operands.incomplete
    }
    return [f"{' and '.join(names)}: {text}: the existing runs were compared" for text, names in told.items() if text]


def _units(compared: Sequence[ComparedMetric]) -> dict[str, str]:
    return {one.metric: one.symbol for one in compared}


def _reasons(pair: SidePair, outside: list[ComparedMetric], within: str | None, sides: Sequence[str]) -> list[str]:
    units, metrics = _units(pair.compared), pair.operands.metrics
    texts = [
        f"{effect.label_of(one.values)}: {one.metric} is not within {within}: {effect.say_change(one, metrics, sides)}"
        # shares are shown in points, and judged as all metrics
        + (f" ({one.change * 100:+.1f} % of {sides[0]})" if one.symbol == "share" and one.change is not None else "")
        for one in outside
    ]
    worse = (one for one in pair.expected if one.is_worse)
    return [*texts, *(f"{effect.say_expected(one, units)}: {effect.say_held(one, sides)}" for one in worse)]
