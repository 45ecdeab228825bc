# SPDX-License-Identifier: Apache-2.0
"""The page of a comparison: several runs in common figures over time, and the effect of each metric.

`mprun report A B` and `mprun compare A B --report` write the same page. A page is made only from the files of its runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from mprun.errors import MprunError
from mprun.machine import invoking_user
from mprun.metrics.comparison import ComparedMetric
from mprun.model.grouping import gather
from mprun.model.metric import Metric
from mprun.reports import effect
from mprun.reports.effect import SideValue
from mprun.reports.gallery import Gallery, PageProgress
from mprun.reports.metrics import ExpectationRow
from mprun.reports.overlay import OverlaidRun, overlay
from mprun.reports.page import ComparisonPage, EffectRow, SideRow, Tile, render
from mprun.reports.run_charts import read_data
from mprun.reports.run_page import WORDS
from mprun.safety.cell import MISSING
from mprun.safety.folder import Folder
from mprun.safety.text import slug
from mprun.storage.output_directory import write_page
from mprun.storage.run_directory import COMPARISON_PREFIX, RunDirectory
from mprun.sweeps.operands import SidePair

# The most rows of a table. A sweep may have many thousands, which `mprun compare --json` prints.
MOST_ROWS = 400
MOST_LINES = 200
MOST_NAME = 60


def make_comparison(
    parent: Path, pairs: Sequence[SidePair], names: Sequence[str], reasons: Sequence[str], progress: PageProgress
) -> Path:
    """Write the page and its figures into a folder of `parent`. Return the path of the page.

    - pairs: each other side against the first.
    - names: of all sides, the first included. They are the legend of the figures.
    - reasons: what a caller refuses, such as a metric outside of its bound.

    The folder has the names and a digest of the directories, so that the same comparison has the same folder. Raises
    MprunError if a run is incomplete, and SpecError if this mprun cannot read its inputs.
    """
    progress("reading the runs", 0.0)
    metrics = {name: metric for pair in reversed(pairs) for name, metric in pair.operands.metrics.items()}
    sources = [pairs[0].operands.sources[0], *(pair.operands.sources[1] for pair in pairs)]
    runs = [(name, one) for name, one in zip(names, sources, strict=True) if isinstance(one, RunDirectory)]
    effects = [(name, pair.compared) for name, pair in zip(names[1:], pairs, strict=True)]
    over_time = overlay(read_subjects(runs)) if runs else ()
    charts = [*over_time, *effect.draw_effects(effects, names[0], metrics)]
    notes = [] if runs else ["A sweep has no figures over time. Name two of its runs for these figures."]
    gallery = Gallery()
    gallery.add_all(charts, progress)
    rows = list(_rows(pairs, metrics, names))
    differing, alike, alone = ([row for kind, row in rows if kind == wanted] for wanted in ("differs", "same", "alone"))
    incomplete = dict.fromkeys(text for pair in pairs for text in pair.operands.incomplete if text)
    page = ComparisonPage(
        title=_join(names),
        description=_describe(pairs),
        status="failed" if reasons else "incomplete" if incomplete else "",
        verdict="; ".join(reasons or [f"{text}: the existing runs were compared" for text in incomplete]),
        tiles=[
            tile
            for name, pair in zip(names[1:], pairs, strict=True)
            for tile in _tiles(pair, metrics, f", {name}" if len(pairs) > 1 else "")
        ],
        problems=list(_problems(runs)),
        pictures=gallery.pictures,
        notes=notes,
        sides=list(_sides(pairs, names)),
        differing=differing[:MOST_ROWS],
        alike=alike[:MOST_ROWS],
        alone=alone[:MOST_ROWS],
        remarks=list(_remark(pairs, max(len(differing), len(alike), len(alone)))),
        verdicts=list(_verdicts(pairs, names)),
        inputs=list(_inputs(pairs, names)),
        repeat=[("The same differences in the terminal:", _command(pairs))] if len(pairs) == 1 else [],
    )
    invoking_user.make_folder(parent)
    folder = Folder(parent).make(_name_folder(pairs, names))
    path = write_page(folder, render(page), gallery.files)
    invoking_user.give(path.parent)
    return path


def _join(names: Sequence[str]) -> str:
    """Return the title of a page. A name before the settings, which all sides have, stands once."""
    common = f"{names[0].partition(', ')[0]}, "
    is_common = all(name.startswith(common) for name in names)
    *before, last = (name.removeprefix(common) if is_common else name for name in names)
    title = " and ".join(filter(None, [", ".join(before), last]))
    return f"{common[:-2]}: {title}" if is_common else title


def read_subjects(runs: Sequence[tuple[str, RunDirectory]]) -> list[OverlaidRun]:
    """Return the data of named runs for figures with the curves of all. Raises MprunError."""
    return [OverlaidRun(name, read_data(run)) for name, run in runs]


def _name_folder(pairs: Sequence[SidePair], names: Sequence[str]) -> str:
    operand_names = [pairs[0].operands.names[0], *(pair.operands.names[1] for pair in pairs)]
    digest = sha256("\n".join(operand_names).encode()).hexdigest()[:8]
    return f"{COMPARISON_PREFIX}{slug('-'.join(names), MOST_NAME)}-{digest}"


def _describe(pairs: Sequence[SidePair]) -> str:
    cells = len({effect.label_of(one.values) for one in pairs[0].compared})
    return f"{cells} cells that both have" if cells > 1 else ""


def _tiles(pair: SidePair, metrics: Mapping[str, Metric], side: str) -> Iterator[Tile]:
    """Yield the main differences of two sides. side: follows the name of a metric."""
    for metric, changes, total in effect.choose_changed(pair.compared, pair.expected, pair.operands.shown):
        change, note = effect.say_range(changes, total)
        if note:
            yield Tile(metric + side, change, note)
        else:
            (one,) = changes
            values = " → ".join(effect.say_value(value, one.symbol) for value in (one.first, one.second))
            shown = f"{effect.MARKS[one.tendency]} {change}".strip()
            yield Tile(metric + side, shown, ", ".join(filter(None, [effect.judge(one, metrics), values])))


def _rows(
    pairs: Sequence[SidePair], metrics: Mapping[str, Metric], names: Sequence[str]
) -> Iterator[tuple[str, EffectRow]]:
    """Yield each metric of each cell with its kind: differs, same or alone."""
    found: dict[tuple[str, str], dict[int, ComparedMetric]] = {}
    for n, pair in enumerate(pairs):
        for one in effect.order_by_effect(pair.compared):
            found.setdefault((effect.label_of(one.values) if one.values else "", one.metric), {})[n] = one
    cells = list(dict.fromkeys(cell for cell, _ in found))
    for (cell, metric), own in sorted(found.items(), key=lambda item: cells.index(item[0][0])):
        sides = [own.get(n) for n in range(len(pairs))]
        first = next((one.first for one in own.values() if one.first is not None), None)
        symbol = next(iter(own.values())).symbol
        values = [SideValue(effect.say_value(first, symbol))]
        for name, side in zip(names[1:], sides, strict=True):
            values.append(effect.value_of(side, metrics, (names[0], name)) if side else SideValue(MISSING))
        meaning = metrics[metric].meaning if metric in metrics else ""
        known = [one for one in sides if one is not None and None not in (one.first, one.second)]
        kind = "alone" if not known else "differs" if any(not effect.is_dull(one) for one in known) else "same"
        yield kind, EffectRow(cell, metric, meaning, tuple(values))


def _remark(pairs: Sequence[SidePair], rows: int) -> Iterator[str]:
    """Yield how certain the differences are, and what the tables leave out."""
    yield from filter(None, [effect.say_certainty([one for pair in pairs for one in pair.compared])])
    if rows > MOST_ROWS:
        yield f"A table has its first {MOST_ROWS} rows of up to {rows}. `mprun compare --json` prints all of them."


def _problems(runs: Sequence[tuple[str, RunDirectory]]) -> Iterator[tuple[str, str]]:
    """Yield the errors, failures and warnings of runs, each with the names of the runs."""
    for kind, word in WORDS.items():
        told = gather((text, name) for name, run in runs for text in run.summary().messages(kind))
        for text, owners in told.items():
            yield word, f"{', '.join(owners)}: {text}"


def _sides(pairs: Sequence[SidePair], names: Sequence[str]) -> Iterator[SideRow]:
    sides = [(pairs[0].operands, 0), *((pair.operands, 1) for pair in pairs)]
    for (operands, side), name in zip(sides, names, strict=True):
        source = operands.sources[side]
        try:
            status = source.summary().status
        except (MprunError, KeyError):
            status = "incomplete"
        yield SideRow(name, status, operands.names[side])


def _verdicts(pairs: Sequence[SidePair], names: Sequence[str]) -> Iterator[ExpectationRow]:
    """Yield the expectations that do not hold in all runs of a side."""
    seen = set()
    for name, pair in zip(names[1:], pairs, strict=True):
        units = {one.metric: one.symbol for one in pair.compared}
        for one in pair.expected:
            if effect.is_news(one):
                told = effect.say_held(one, (names[0], name))
                if (row := (effect.say_expected(one, units), told)) not in seen:
                    seen.add(row)
                    yield ExpectationRow("", row[0], told, one.is_held)


def _inputs(pairs: Sequence[SidePair], names: Sequence[str]) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield the different versions and lines of the inputs of each side against the first."""
    for name, pair in zip(names[1:], pairs, strict=True):
        facts = [
            f"{key}: {effect.say_fact(one)} -> {effect.say_fact(other)}"
            for key, (one, other) in pair.operands.facts.items()
        ]
        alone = [
            f"only in {names[0] if which == 1 else name}: {effect.label_of(v)}" for v, which in pair.operands.unmatched
        ]
        lines = [*facts, *alone, *pair.operands.lines]
        if len(lines) > MOST_LINES:
            lines = [*lines[:MOST_LINES], f"and {len(lines) - MOST_LINES} more lines"]
        if lines:
            yield f"Inputs of {name} (+) against {names[0]} (-)", lines


def _command(pairs: Sequence[SidePair]) -> str:
    first, second = (Path(name.partition(" ")[0]).name for name in pairs[0].operands.names)
    axis = pairs[0].operands.names[0].partition(" ")[2].partition("=")[0]
    return f"mprun compare {first} --by {axis} --all" if axis else f"mprun compare {first} {second} --all"
