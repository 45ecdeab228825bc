# SPDX-License-Identifier: Apache-2.0
"""Baselines: the values of a run in a small sorted text file, to see later whether anything has changed.

Each line is `NAME = VALUE`. The values have all their digits, since a run repeats exactly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from mprun.errors import SpecError
from mprun.model.frozen import Frozen
from mprun.model.metric import relative_change
from mprun.model.run_files import RunEnvironment
from mprun.model.run_summary import Summary
from mprun.model.units import format_measured
from mprun.runs.provenance import list_makers
from mprun.safety.cell import write_cell
from mprun.safety.folder import open_regular

SUFFIX = ".baseline"
MOST_BYTES = 4 << 20
HEAD = "# Values of a run. `mprun baseline check` compares them, `mprun baseline write` writes them again.\n"
# Names of lines: a value, a parameter, and a program that made the run.
VALUE, PARAMETER, PROGRAM = "value ", "parameter ", "program "
_REQUIRED = ("topology", "experiment", "seed", "plan", "status")

LineKind = Literal["value", "maker", "plan"]


class BaselineDifference(Frozen):
    """A line that is not the same. base, now: None if the line is missing.

    kind: a value of the run, what made it (kernel, program, mprun), or the meaning of its files.
    """

    name: str
    base: str | None
    now: str | None
    kind: LineKind


def write_baseline(
    topology: str,
    experiment: str,
    parameters: Mapping[str, str],
    digest: str,
    summary: Summary,
    environment: RunEnvironment,
    metrics: Sequence[str],
) -> dict[str, str]:
    """Return the lines of a baseline by name. Raises SpecError if the run lacks one of the metrics.

    The files are named as seen from the folder of the baseline. digest: of the plan.
    """
    known = summary.metrics
    if missing := [name for name in metrics if name not in known]:
        raise SpecError(f"the run has no metric '{missing[0]}'; it has: {', '.join(sorted(known)[:8])}")
    makers = list_makers(environment)
    own = {name: makers.pop(name) for name in ("engine", "kernel", "mprun")}
    return {
        "topology": topology,
        "experiment": experiment,
        "seed": str(summary.seed),
        "plan": digest[:16],
        "status": summary.status,
        **own,
        **{PARAMETER + name: value for name, value in parameters.items()},
        **{PROGRAM + name: version for name, version in makers.items()},
        **{VALUE + name: f"{known[name].value!r} {known[name].unit}" for name in metrics},
    }


def choose_metrics(summary: Summary, shown: Sequence[str], asked: Sequence[str]) -> list[str]:
    """Return the metrics of a baseline: the user's choice, or those of `expect` and `show`, or all."""
    wanted = [*(one.metric for one in summary.expectations), *shown]
    found = [name for name in wanted if name in summary.metrics]
    return list(dict.fromkeys(asked or found)) or list(summary.metrics)


def spell(lines: Mapping[str, str]) -> str:
    """Return the text of a baseline, sorted by name."""
    return HEAD + "".join(f"{name} = {' '.join(lines[name].split())}\n" for name in sorted(lines))


def find(places: Sequence[Path]) -> list[Path]:
    """Return baselines, and those below folders, sorted. Raises SpecError if there are none."""
    below = (sorted(path.rglob(f"*{SUFFIX}")) if path.is_dir() else [path] for path in places)
    found = list(dict.fromkeys(path for paths in below for path in paths))
    if not found:
        where = "here" if [*places] == [Path()] else f"below {', '.join(map(str, places))}"
        raise SpecError(f"no baseline {where}: write one with `mprun baseline write -t TOPOLOGY -x EXPERIMENT`")
    return found


def read(path: Path) -> dict[str, str]:
    """Return the lines of a baseline. Raises SpecError."""
    with open_regular(path, path) as file:
        return parse(file.read(MOST_BYTES).decode(errors="replace"), str(path))


def parse(text: str, name: str) -> dict[str, str]:
    """Return the lines of a baseline. name: of its file, for errors. Raises SpecError."""
    lines: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        key, equals, value = line.partition(" = ")
        if not equals or key in lines:
            told = "is there twice" if equals else "is no line as in 'value bulk.goodput = 36921000.0 bit/s'"
            raise SpecError(f"{name}:{number}: '{key}' {told}: write the baseline again")
        lines[key] = value
    if missing := [one for one in _REQUIRED if one not in lines]:
        raise SpecError(f"{name}: has no line '{missing[0]}': write the baseline again")
    return lines


def compare(base: Mapping[str, str], now: Mapping[str, str]) -> list[BaselineDifference]:
    """Return the lines that differ, sorted by name."""
    found = []
    for name in sorted({*base, *now}):
        if base.get(name) != now.get(name):
            is_value = name.startswith(VALUE) or name == "status"
            kind: LineKind = "value" if is_value else "plan" if name in ("plan", "seed") else "maker"
            found.append(BaselineDifference(name, base.get(name), now.get(name), kind))
    return found


def explain(differences: Sequence[BaselineDifference]) -> list[str]:
    """Return what differs from the baseline apart from the values, such as `other kernel`."""
    told = []
    for one in differences:
        if one.kind == "plan":
            told.append("other files")
        elif one.kind == "maker":
            program = one.name.removeprefix(PROGRAM)
            said = program if program in ("kernel", "mprun", "engine", "Python") else f"version of {program}"
            told.append(f"other {said}")
    return list(dict.fromkeys(told))


def tell(differences: Sequence[BaselineDifference]) -> Iterator[tuple[str, str, str, str]]:
    """Yield a row for each difference: the name, the values before and now, and the relative change."""
    for one in differences:
        yield one.name.removeprefix(VALUE), _say(one, one.base), _say(one, one.now), _change(one)


def _say(one: BaselineDifference, text: str | None) -> str:
    if text is None:
        return "-"
    if not one.name.startswith(VALUE):
        return text
    number, _, unit = text.partition(" ")
    amount = float(number)
    # more digits if those for people do not show the difference
    short = [format_measured(float(each.partition(" ")[0]), unit) for each in (one.base, one.now) if each]
    return format_measured(amount, unit) if len(short) == 1 or short[0] != short[1] else f"{amount:.12g} {unit}"


def _change(one: BaselineDifference) -> str:
    if one.base is None or one.now is None or not one.name.startswith(VALUE):
        return ""
    change = relative_change(*(float(text.partition(" ")[0]) for text in (one.base, one.now)))
    return "" if change is None else f"{change:+.3%}"


def to_markdown(checked: Mapping[str, Sequence[BaselineDifference]]) -> str:
    """Return a table of all differences as Markdown: base, now, change. checked: the differences by baseline."""
    parts = ["| baseline | value | base | now | change |", "| --- | --- | --- | --- | --- |"]
    for name, differences in checked.items():
        rows = list(tell(differences))
        parts += [f"| {' | '.join(write_cell(text, 'markdown') for text in (name, *row))} |" for row in rows]
        if not rows:
            parts.append(f"| {write_cell(name, 'markdown')} | no difference | | | |")
    return "\n".join(parts) + "\n"
