# SPDX-License-Identifier: Apache-2.0
"""The measured values of the studies' pages: `docs/measured/studies/values/LAB.json`, with what they were made of.

Each run or sweep of a lab has its values, its real time, the digest of its plan, and the digest of the kernel's recipe.
A page has no number that is not in these files. A value is stale if today's files of the lab give another plan, or if
the recipe of the experiment kernel is another one, and no sample of the lab was repeated with today's recipe.

`values/LAB-elsewhere.json` has values that `make studies` cannot renew, such as those of the real engine. Each part
has the command and the kernel that made it. It is stale if the files of its command give another plan today.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from mprun.kernel.recipe import recipe_digest
from mprun.labs.definition import Lab, LabSweep, Step
from mprun.labs.grade import digest_of_step
from mprun.model.metric import Unit
from mprun.statements.evaluation import compute
from mprun.statements.expression import Expression, Reference, UnknownName, Value, parse_value
from mprun.sweeps import study

STUDIES = Path(__file__).parents[1] / "measured" / "studies"
VALUES = STUDIES / "values"
KERNEL_VERSION = (6, 12)
# A number of a page, with its lab, its arithmetic and its format:
# `<!-- 01: xp_tcp.bulk.goodput / 1mbit; .1f -->18.9<!-- -->`.
NUMBER = re.compile(r"<!-- (?P<lab>\d\d): (?P<value>[^;>]+); (?P<format>\S+) -->(?P<shown>.*?)<!-- -->")
_DIGITS = 12


@dataclass(frozen=True)
class MeasuredPart:
    """The values of a run or sweep by the text of their names.

    - plan: the digest of its plan.
    - kernel: the digest of the kernel's recipe; the name of a kernel elsewhere.
    - wall_s: its real time; 0 elsewhere.
    - command: the command of a part that was measured elsewhere.
    - sampled: the digest of a later recipe with which other parts of the lab were measured again, and gave the same
      pages. This part was not.
    """

    plan: str
    kernel: str
    wall_s: float
    values: Mapping[str, Value]
    command: str | None = None
    sampled: str | None = None


Parts = Mapping[str, MeasuredPart]


def read_parts(number: str) -> dict[str, MeasuredPart]:
    """Return the runs and sweeps of a lab by name; none if the lab was not measured."""
    return _read(VALUES / f"{number}.json")


def read_elsewhere(number: str) -> dict[str, MeasuredPart]:
    """Return the parts of a lab that were measured elsewhere, by name."""
    return _read(VALUES / f"{number}-elsewhere.json")


def _read(path: Path) -> dict[str, MeasuredPart]:
    if not path.exists():
        return {}
    parts = {}
    for name, part in json.loads(path.read_text(encoding="utf-8")).items():
        values = {text: Value(tuple(value["amounts"]), _unit(value["unit"])) for text, value in part["values"].items()}
        command, sampled = part.get("command"), part.get("sampled")
        parts[name] = MeasuredPart(part["plan"], part["kernel"], part.get("wall_s", 0.0), values, command, sampled)
    return parts


def _unit(text: str) -> Unit:
    return next(unit for unit in get_args(Unit) if unit == text)


def write_parts(number: str, parts: Parts) -> Path:
    """Write the file of a lab and return its path. Amounts have twelve digits."""
    VALUES.mkdir(exist_ok=True)
    path = VALUES / f"{number}.json"
    content = {
        name: {
            "plan": part.plan,
            "kernel": part.kernel,
            **({} if part.sampled is None else {"sampled": part.sampled}),
            "wall_s": round(part.wall_s, 1),
            "values": {
                text: {"unit": value.unit, "amounts": [float(f"{one:.{_DIGITS}g}") for one in value.amounts]}
                for text, value in sorted(part.values.items())
            },
        }
        for name, part in sorted(parts.items())
    }
    lines = json.dumps(content, indent=1)
    # the amounts of a value are in one line
    lines = re.sub(r"\[[^\[\]{}]*\]", lambda match: " ".join(match[0].split()), lines)
    path.write_text(f"{lines}\n", encoding="utf-8")
    return path


def find_recorded(reference: Reference, parts: Mapping[str, MeasuredPart]) -> Value:
    """Return a recorded value. Raises UnknownName."""
    found = parts[reference.segments[0].name].values.get(reference.text)
    if found is None:
        raise UnknownName("was not recorded: run `make studies`")
    return found


def names_of(lab: Lab, pages: Iterable[Path]) -> dict[str, Reference]:
    """Return the names of measured values in a lab's figures and in the numbers of pages, by their text."""
    found: list[Reference] = []
    for figure in lab.figures:
        found += figure.references
    for match in numbers_in(pages):
        if match["lab"] == lab.number:
            found += read_number(match).references()
    return {reference.text: reference for reference in found}


def numbers_in(pages: Iterable[Path]) -> Iterator[re.Match[str]]:
    """Yield each number of pages, with its lab, arithmetic, format and text."""
    for page in pages:
        yield from NUMBER.finditer(page.read_text(encoding="utf-8"))


def read_number(match: re.Match[str]) -> Expression:
    """Return the arithmetic of a page's number. In the page, it may have a new line at each of its spaces."""
    return parse_value(" ".join(match["value"].split()))


def fill_numbers(text: str, parts: Mapping[str, Parts]) -> str:
    """Return a page with all its numbers as the recorded values have them. parts: by the number of the lab."""

    def number(match: re.Match[str]) -> str:
        own = parts.get(match["lab"], {})
        expression = read_number(match)
        missing = {reference.segments[0].name for reference in expression.references()} - own.keys()
        shown = "not measured"
        if not missing:
            shown = format(compute(expression, lambda reference: find_recorded(reference, own)).amount, match["format"])
        return f"<!-- {match['lab']}: {match['value']}; {match['format']} -->{shown}<!-- -->"

    return NUMBER.sub(number, text)


def plan_of(part: Step | LabSweep) -> str:
    """Return the digest of all that a step or a sweep will run, as the lab's files have it. Raises InputError."""
    if isinstance(part, Step):
        return digest_of_step(part)
    return study.identify(study.make_cells(part.load(), "virtual", "default"), ())


def sweep_of(lab: Lab, command: str) -> LabSweep:
    """Return the sweep of a command in the folder of a lab, such as `mprun sweep -t topo -x xp -p cc=reno`."""
    parser = argparse.ArgumentParser()
    for option in ("-t", "-x", "--engine"):
        parser.add_argument(option)
    parser.add_argument("-p", action="append", default=[])
    given, _ = parser.parse_known_args(shlex.split(command))
    parameters = dict(text.split("=", 1) for text in given.p)
    return LabSweep(command, lab.folder / f"{given.t}.yaml", lab.folder / f"{given.x}.yaml", parameters)


def kernel_of() -> str:
    """Return the digest of the recipe of the experiment kernel."""
    return recipe_digest(KERNEL_VERSION)


def find_stale(lab: Lab, parts: Parts) -> list[str]:
    """Return the names of recorded runs and sweeps whose plan is another one today, or whose kernel is.

    The kernel of a part that was measured elsewhere is only a name.
    """
    published = lab.in_profile("published")
    today: dict[str, Step | LabSweep] = {step.name: step for step in published.steps}
    today |= {sweep.name: sweep for sweep in published.sweeps}

    def is_current(name: str, part: MeasuredPart) -> bool:
        if part.command is not None:
            return part.plan == plan_of(sweep_of(lab, part.command))
        return name in today and part.plan == plan_of(today[name]) and kernel_of() in (part.kernel, part.sampled)

    return [name for name, part in parts.items() if not is_current(name, part)]
