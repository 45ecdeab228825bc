# SPDX-License-Identifier: Apache-2.0
"""`mprun compare`: two runs, two sweeps, or two parts of one sweep."""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mprun.cli import options
from mprun.cli.completion import complete_axes, complete_metrics
from mprun.cli.output import emit
from mprun.model.scalar import spell_values
from mprun.report.metrics import MOST_MAIN, choose_main, direction_of, is_secondary
from mprun.scratch import scratch
from mprun.text import plain

if TYPE_CHECKING:
    from mprun.analysis.comparison import Compared, Expected
    from mprun.report.verdict import Check
    from mprun.sweepdir.operands import Operands

# A change below this share of the value is not shown.
LEAST_CHANGE = 0.0005
# A ratio over less than this share of the other side is not shown.
NEARLY_NOTHING = 0.01
MARKS = {"higher": "▲", "lower": "▼", "same": "=", "unclear": "~", "unknown": " "}


@click.command("compare")
@click.argument("first", metavar="[A]", required=False)
@click.argument("second", metavar="[B]", required=False)
@options.parent
@click.option(
    "--by",
    "axis",
    metavar="AXIS",
    shell_complete=complete_axes,
    help="Compare two parts of sweep A: AXIS or AXIS=one,other.",
)
@click.option(
    "--metric",
    "wanted",
    multiple=True,
    metavar="NAME",
    shell_complete=complete_metrics,
    help="Compare only this metric. Can be repeated.",
)
@click.option("--all", "show_all", is_flag=True, help="Also show metrics that do not differ.")
@click.option(
    "--sort",
    type=click.Choice(["metric", "effect"]),
    default="metric",
    show_default=True,
    help="Choose the order of the metrics of a cell. `effect`: the largest change first.",
)
@click.option("--within", metavar="SHARE", help="Fail if a metric clearly differs by more than SHARE, such as 2%.")
@options.confidence
@options.verdicts
@click.option("--json", "as_json", is_flag=True, help="Print the comparison as JSON.")
def command(
    first: str | None,
    second: str | None,
    parent: Path,
    axis: str | None,
    wanted: tuple[str, ...],
    show_all: bool,
    sort: str,
    within: str | None,
    confidence: float | None,
    junit: Path | None,
    tap: Path | None,
    as_json: bool,
) -> None:
    """Compare runs, sweeps or bundles A and B: their inputs, metrics and expectations.

    Without A and B, the last two runs are compared.
    Differences have confidence intervals if each side has more than one run. The exit status is 1 if an
    expectation holds less often in B than in A, if a metric is outside --within, or if a sweep lacks runs.
    """
    from mprun.analysis.comparison import compare, compare_expectations, compare_statements
    from mprun.analysis.statistics import CONFIDENCE
    from mprun.model.units import QuantityError, parse_ratio
    from mprun.sweepdir.directory import LATEST
    from mprun.sweepdir.operands import read_operands

    if first is None:
        first, second = _find_last(parent) if axis is None else (LATEST, None)
    if (second is None) == (axis is None):
        raise click.UsageError("give A and B, or a sweep A and --by AXIS")
    try:
        bound = None if within is None else parse_ratio(within)
    except QuantityError as error:
        raise click.UsageError(f"--within: {error}") from None
    with contextlib.ExitStack() as opened:
        places = [None if name is None else _open(name, opened) for name in (first, second)]
        operands = _name_archives(
            read_operands(parent, str(places[0]), places[1], axis), (first, second or first), places
        )
    level = confidence or CONFIDENCE
    compared = [one for one in compare(*operands.cells, level) if not wanted or one.metric in wanted]
    _refuse_unknown(wanted, operands)
    may_come = (operands.incomplete[0] is not None, operands.incomplete[1] is not None)
    expected = [*compare_expectations(*operands.cells), *compare_statements(*operands.statements, may_come)]
    outside = [one for one in compared if bound is not None and _is_outside(one, bound)]
    worse = [one for one in expected if one.is_worse]
    status = "failed" if outside or worse else "incomplete" if any(may_come) else "passed"
    if as_json:
        emit(_to_json(operands, compared, expected, status))
    else:
        if sort == "effect":
            compared = _by_effect(compared)
        _show(operands, compared, expected, show_all, level)
        for text in _faults(compared, outside, worse, within):
            click.echo(f"{click.style('FAILED', fg='red', bold=True)}  {text}")
        for text in _say_incomplete(operands):
            click.echo(f"{click.style('INCOMPLETE', fg='yellow', bold=True)}  {text}")
    checks = [*_checks(compared, expected, bound), *(_refuse_incomplete(text) for text in _say_incomplete(operands))]
    options.write_verdicts(f"{operands.names[0]} against {operands.names[1]}", checks, junit, tap)
    sys.exit(0 if status == "passed" else 1)


def _find_last(parent: Path) -> tuple[str, str]:
    """Return the last two runs. Raises UsageError if there are fewer."""
    from mprun.rundir import list_runs

    runs = list_runs(parent)
    if len(runs) < 2:
        raise click.UsageError(f"give A and B: {parent} has {len(runs)} run{'' if len(runs) == 1 else 's'}")
    return str(runs[-2].path), str(runs[-1].path)


def _by_effect(compared: Sequence[Compared]) -> list[Compared]:
    """Return the metrics of each cell with the largest change first; metrics without a change are last."""
    cells: dict[str, list[Compared]] = {}
    for one in compared:
        cells.setdefault(_label(one.values), []).append(one)
    return [
        one
        for own in cells.values()
        for one in sorted(own, key=lambda one: -abs(one.change) if one.change is not None else 0.0)
    ]


def _open(name: str, opened: contextlib.ExitStack) -> str:
    """Return the path of a name. An archive is unpacked until the end of the comparison."""
    if not Path(name).is_file():
        return name
    from mprun.bundle.reproduce import open_bundle

    folder = opened.enter_context(scratch("mprun-bundle-"))
    return str(open_bundle(Path(name), folder).source.path)


def _name_archives(operands: Operands, given: tuple[str, str], places: list[str | None]) -> Operands:
    """Name a bundle by its own name, not by the folder that it was unpacked to."""
    from dataclasses import replace

    opened = [place or places[0] for place in places]
    names = [
        told if place == name else told.replace(str(place), name)
        for told, name, place in zip(operands.names, given, opened, strict=True)
    ]
    return replace(operands, names=(names[0], names[1]))


def _refuse_unknown(wanted: tuple[str, ...], operands: Operands) -> None:
    from mprun.errors import SpecError
    from mprun.model.fault import name_nearest

    known = {name for half in operands.cells for side in half for name in side.metrics()}
    for name in wanted:
        if name not in known:
            raise SpecError(f"neither has metric '{name}'{name_nearest(name, sorted(known), 'metrics')}")


def _is_outside(one: Compared, bound: float) -> bool:
    """Return True if the values clearly differ by more than the bound. Without an interval the values alone decide."""
    if one.change is None or abs(one.change) <= bound:
        return False
    return one.difference is None or one.difference.is_clear


def _checks(compared: list[Compared], expected: list[Expected], bound: float | None) -> list[Any]:
    from mprun.report.verdict import Check, say_expectation

    checks = [
        Check(_label_of(one), say_expectation(one.expectation), not one.is_worse, _say_held(one))
        for one in expected
        if one.first is not None and one.second is not None
    ]
    if bound is not None:
        checks += [
            Check(_label(one.values), f"{one.metric} within {bound:g}", not _is_outside(one, bound), _say_change(one))
            for one in compared
        ]
    return checks


def _to_json(operands: Operands, compared: list[Compared], expected: list[Expected], status: str) -> dict[str, Any]:
    return {
        "first": operands.names[0],
        "second": operands.names[1],
        "status": status,
        "inputs": operands.lines,
        "facts": {name: list(pair) for name, pair in operands.facts.items()},
        "incomplete": list(operands.incomplete),
        "unmatched": [{"values": dict(values), "only_in": which} for values, which in operands.unmatched],
        "metrics": [one.to_json() for one in compared],
        "expectations": [
            {
                "values": dict(one.values),
                **one.expectation,
                "first": one.first and list(one.first),
                "second": one.second and list(one.second),
                "worse": one.is_worse,
            }
            for one in expected
        ],
    }


def _show(
    operands: Operands, compared: list[Compared], expected: list[Expected], show_all: bool, confidence: float
) -> None:
    click.echo(f"A  {operands.names[0]}\nB  {operands.names[1]}")
    brief = list(_say_briefly(compared))
    for line in brief:
        click.echo(click.style(f"  {line}", bold=True))
    if brief:
        click.echo()
    for name, (one, other) in operands.facts.items():
        click.echo(f"  {plain(name)}: {plain(one)} -> {plain(other)}")
    for line in operands.lines:
        click.echo("  " + click.style(plain(line), fg="green" if ": +" in line else "red"))
    for values, which in operands.unmatched:
        click.echo(f"  only in {'AB'[which - 1]}: {_label(values)}")
    shared = [one for one in compared if None not in (one.first, one.second)]
    shown = compared if show_all else [one for one in shared if not _is_dull(one)]
    width = max((len(one.metric) for one in shown), default=0)
    last = None
    for one in shown:
        label = _label(one.values)
        if label != last and one.values:
            click.echo(f"\n {label}")
        last = label
        colour = {"higher": "cyan", "lower": "magenta"}.get(one.verdict)
        click.echo(click.style(f"  {MARKS[one.verdict]} {plain(one.metric):{width}}  {_say_change(one)}", fg=colour))
    dull = 0 if show_all else len(shared) - len(shown)
    if dull:
        click.echo(f"\n  {dull} metric{'s do' if dull > 1 else ' does'} not clearly differ (--all shows them)")
    for text in () if show_all else _find_alone(compared):
        click.echo(options.wrap(text, "  ", "    "))
    intervals = [one for one in compared if one.difference is not None and one.verdict != "same"]
    if intervals:
        click.echo(
            f"\n  ▲ ▼ the interval of {confidence * 100:.0f} % leaves zero out, ~ it does not; of {len(intervals)} "
            f"such comparisons {len(intervals) * (1 - confidence):.1f} come out ▲ or ▼ by chance alone"
        )
    elif any(one.verdict == "unknown" and None not in (one.first, one.second) for one in compared):
        click.echo("\n  one run on each side: the effect of another seed is not known; `repeat: {runs: 5}` measures it")
    units = _units(compared)
    for expectation in expected:
        if _is_news(expectation):
            counts = expectation.second or expectation.first
            is_held = counts is not None and counts[0] == counts[1]
            mark = click.style("✓", fg="green") if is_held else click.style("✗", fg="red")
            if counts == (0, 0):
                mark = click.style("?", fg="yellow")
            click.echo(f"  {mark} {_say_expected(expectation, units)}: {_say_held(expectation)}")


def _say_briefly(compared: Sequence[Compared]) -> Iterator[str]:
    """Yield a line for each of the main metrics that clearly differ: by how much, and in how many cells."""
    by_metric: dict[str, list[Compared]] = {}
    for one in compared:
        if None not in (one.first, one.second):
            by_metric.setdefault(one.metric, []).append(one)
    changed = {metric: _find_changes(own) for metric, own in by_metric.items()}
    changed = {metric: changes for metric, changes in changed.items() if changes}
    main = [name for name in choose_main(list(changed), ()) if not is_secondary(name)]
    others = [name for name in changed if name not in main and not is_secondary(name)]
    others.sort(key=lambda name: -max(abs(_effect(one) or 0.0) for one in changed[name]))
    for metric in [*main, *others][:MOST_MAIN]:
        changes = sorted(changed[metric], key=lambda one: _effect(one) or 0.0)
        least, most = _say_effect(changes[0]), _say_effect(changes[-1])
        total = len(by_metric[metric])
        count = "all" if len(changes) == total else f"{len(changes)} of"
        cells = f" in {count} {total} cells" if total > 1 else ""
        yield plain(f"{metric}: {least if least == most else f'{least} to {most}'}{cells}")


def _find_changes(own: Sequence[Compared]) -> list[Compared]:
    """Return the cells in which a metric clearly differs, and not from nearly nothing."""
    return [one for one in own if not _is_dull(one) and _effect(one) is not None]


def _effect(one: Compared) -> float | None:
    """Return the change of a metric: the difference of two shares, or else the relative change.

    None for a change from nearly nothing.
    """
    if one.first is None or one.second is None:
        return None
    if one.symbol == "share":
        return one.second - one.first
    return None if abs(one.first) < NEARLY_NOTHING * abs(one.second) else one.change


def _say_effect(one: Compared) -> str:
    """Return a change as text; empty for a change from nearly nothing."""
    effect = _effect(one)
    if effect is None:
        return ""
    return f"{effect * 100:+.1f} points" if one.symbol == "share" else f"{effect:+.2%}"


def _find_alone(compared: list[Compared]) -> Iterator[str]:
    """Return lines about cells and metrics that only one side has."""
    cells: dict[str, list[Compared]] = {}
    for one in compared:
        cells.setdefault(_label(one.values), []).append(one)
    for side, other, lacks in (("A", "B", _lacks_second), ("B", "A", _lacks_first)):
        empty = [label for label, own in cells.items() if all(map(lacks, own))]
        if empty:
            yield f"no run in {other}, of cells: {'; '.join(empty)}"
        there = [one for label, own in cells.items() if label not in empty for one in own]
        alone, of = Counter(one.metric for one in there if lacks(one)), Counter(one.metric for one in there)
        told = [
            plain(name) if count == of[name] else f"{plain(name)} ({count} of {of[name]} cells)"
            for name, count in alone.items()
        ]
        if told:
            yield f"measured in {side} alone (--all shows the values): {', '.join(told)}"


def _lacks_first(one: Compared) -> bool:
    return one.first is None


def _lacks_second(one: Compared) -> bool:
    return one.second is None


def _is_news(one: Expected) -> bool:
    """Return True if an expectation does not hold in all runs of a side, or a statement cannot be judged yet."""
    counts = [side for side in (one.first, one.second) if side is not None]
    return any(held < of for held, of in counts) or ("holds" in one.expectation and (0, 0) in counts)


def _say_expected(one: Expected, units: Mapping[str, str]) -> str:
    from mprun.analysis.comparison import RUNS
    from mprun.report.metrics import format_bound

    where = f"{_label(one.values)}: " if one.values else ""
    if "holds" in one.expectation:
        return plain(one.expectation["holds"])
    metric = str(one.expectation["metric"])
    if metric == RUNS:
        return f"{where}runs did what was asked"
    return f"{where}{plain(metric)} {format_bound(one.expectation, units.get(metric, '1'))}"


def _say_held(one: Expected) -> str:
    """Return if a statement holds on each side, or in how many runs an expectation holds."""
    told = []
    for side, counts in zip("AB", (one.first, one.second), strict=True):
        if counts is not None:
            what = f"{counts[0]} of {counts[1]}"
            if "holds" in one.expectation:
                what = "holds" if counts[0] else "does not hold" if counts[1] else "is not known yet"
            told.append(f"{what} in {side}")
    if len(told) < 2:
        told.append(f"not expected in {'A' if one.first is None else 'B'}")
    return ", ".join(told)


def _is_dull(one: Compared) -> bool:
    if one.verdict in ("same", "unclear"):
        return True
    return one.verdict == "unknown" and one.change is not None and abs(one.change) < LEAST_CHANGE


def _say_change(one: Compared) -> str:
    from mprun.model.units import format_measured

    first, second = ("-" if v is None else format_measured(v, one.symbol) for v in (one.first, one.second))
    text = f"{first} -> {second}"
    if effect := _say_effect(one):
        text += f"  {effect}"
    if one.ratio is not None and one.first and effect and one.symbol != "share":
        low, high = one.ratio.interval.low - 1, one.ratio.interval.high - 1
        text += f" [{low:+.2%}, {high:+.2%}]" if high > low else ""
    elif one.difference is not None:
        ends = (format_measured(end, one.symbol) for end in (one.difference.interval.low, one.difference.interval.high))
        text += f"  difference [{', '.join(ends)}]"
    if one.verdict in ("higher", "lower") and (direction := direction_of(one.metric)):
        text += "  better" if (one.verdict == "higher") == (direction > 0) else "  worse"
    if any(one.left_out):
        left = " and ".join(f"{count} of {side}" for side, count in zip("AB", one.left_out, strict=True) if count)
        text += f"  ({one.counts[0]} pairs; {left} without partner left out)"
    return text


def _say_incomplete(operands: Operands) -> list[str]:
    """Return a line for each incomplete sweep."""
    told = {
        text: [name for name, other in zip("AB", operands.incomplete, strict=True) if other == text]
        for text in operands.incomplete
    }
    return [f"{' and '.join(names)}: {text}: the existing runs were compared" for text, names in told.items() if text]


def _refuse_incomplete(text: str) -> Check:
    from mprun.report.verdict import Check

    return Check("sweeps", "all runs exist", False, text, is_error=True)


def _label(values: Any) -> str:
    return plain(spell_values(values) or "run")


def _label_of(one: Expected) -> str:
    return "across cells" if "holds" in one.expectation else _label(one.values)


def _units(compared: list[Compared]) -> dict[str, str]:
    return {one.metric: one.symbol for one in compared}


def _faults(compared: list[Compared], outside: list[Compared], worse: list[Expected], within: str | None) -> list[str]:
    units = _units(compared)
    texts = [f"{_label(one.values)}: {one.metric} is not within {within}: {_say_change(one)}" for one in outside]
    return texts + [f"{_say_expected(one, units)}: {_say_held(one)}" for one in worse]
