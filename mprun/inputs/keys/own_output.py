# SPDX-License-Identifier: Apache-2.0
"""The metrics and tables that an entry takes from the output of its own programs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Annotated, Literal

from pydantic import Field

from mprun.inputs.keys.field import Name, parsed, text_that
from mprun.inputs.keys.file_model import FileModel, KeyProblem
from mprun.model.metric import QUANTITIES, Better, Unit
from mprun.model.table_columns import TABLES

# The value of a metric that follows from several values of the output.
Take = Literal["last", "first", "sum", "count", "mean", "min", "max", "median", "p95", "p99"]
# The unit of a value in an output -> the kind of the metric, and base units in one unit.
OUTPUT_UNITS: dict[str, tuple[Unit, Decimal]] = {
    "count": ("count", Decimal(1)),
    **{
        unit: (kind, Decimal(size) / base)
        for kind, (known, base) in QUANTITIES.items()
        for unit, size in known.units.items()
    },
    "%": ("ratio", Decimal("0.01")),
    "share": ("ratio", Decimal(1)),
}
MOST_REGEX = 200
MOST_OWN = 50
_FILE_PATTERN = r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$"


def _parse_regex(value: object) -> str:
    """Return a regular expression that can be searched in linear time.

    Counted repetitions, which may be large, are refused.
    """
    if not isinstance(value, str) or not value:
        raise ValueError("is no text: write a regular expression, as in 'latency: ([0-9.]+) ms'")
    if len(value) > MOST_REGEX:
        raise ValueError(f"has {len(value)} characters, and {MOST_REGEX} are allowed: write a shorter one")
    if "{" in value.replace(r"\{", ""):
        raise ValueError(r"has a counted repetition or a bare '{': write '+' or '*', and '\{' for the character")
    import polars  # few files have a regular expression, and the import is expensive

    try:
        polars.Series([""]).str.extract(value, 0)
    except polars.exceptions.ComputeError as error:
        reasons = (line.removeprefix("error: ") for line in str(error).splitlines() if line.startswith("error: "))
        reason = next(reasons, "it is too large")
        if reason.startswith("look-around"):
            reason += ": write the value as a group, as in 'latency: ([0-9.]+) ms'"
        raise ValueError(f"is no regular expression that can be searched: {reason}") from None
    return value


_NO_UNIT = f"is no unit: write one of {', '.join(OUTPUT_UNITS)}"
OutputUnit = Annotated[str, *text_that(OUTPUT_UNITS.__contains__, _NO_UNIT, enum=list(OUTPUT_UNITS))]
Regex = Annotated[str, *parsed(_parse_regex, {"type": "string", "minLength": 1, "maxLength": MOST_REGEX})]
_NO_FILE = "is no plain file name: programs leave their files in the folder {files}, as in 'delays.csv'"
FileName = Annotated[str, *text_that(re.compile(_FILE_PATTERN).fullmatch, _NO_FILE, pattern=_FILE_PATTERN)]


class MetricEntry(FileModel):
    """A metric from the output of the entry's programs, or from a file that they leave."""

    name: Name = Field(examples=["latency"])
    """The name of the metric. It follows the flow's name."""
    regex: Regex | None = Field(None, examples=["latency: ([0-9.]+) ms"])
    """Each line in which this regular expression is found gives a value: the first group, or the whole match."""
    json_path: str | None = Field(None, alias="json", min_length=1, max_length=200, examples=["end.latency.p99"])
    """Each JSON object gives the value at this path, whose parts are separated by dots. An object is a line, or the
    whole text."""
    column: str | None = Field(None, min_length=1, max_length=100, examples=["delay"])
    """Each row gives the value in this column of a CSV text with a line of names."""
    file: FileName | None = Field(None, examples=["delays.csv"])
    """The file in `{files}` to read. Default: the output."""
    of: Literal["command", "server"] | None = None
    """The program whose output is read, standard output and error. Default: `command`, if `file` is missing."""
    unit: OutputUnit = Field("count", examples=["ms"])
    """The unit of the values in the output."""
    take: Take = "last"
    """The value of the metric if the output has several values."""
    better: Better | None = Field(None, examples=["lower"])
    """The direction of an improvement, which `mprun compare` shows. Default: none."""

    def find_conflicts(self) -> Iterator[KeyProblem]:
        ways = [way for way in (self.regex, self.json_path, self.column) if way is not None]
        if len(ways) != 1:
            what = "finds no value" if not ways else "finds its values in several ways"
            yield (), f"{what}: write one of 'regex', 'json' and 'column'"
        if self.file is not None and self.of is not None:
            yield "of", "conflicts with 'file': remove one of the two"
        if self.take == "count" and self.unit != "count":
            yield "unit", "is not the unit of a number of values: remove it"


class TableEntry(FileModel):
    """A table from a CSV file that the entry's programs leave."""

    name: Name = Field(examples=["delays"])
    """The name of the table."""
    file: FileName = Field(examples=["delays.csv"])
    """The CSV file in `{files}`, with a line of names."""
    time: str | None = Field(None, min_length=1, max_length=100, examples=["at"])
    """The column with the time of a row."""
    clock: Literal["start", "unix", "monotonic"] = "start"
    """The origin of these times. `start`: the start of the flow's command. `unix`: as in time(2). `monotonic`: as in
    CLOCK_MONOTONIC of clock_gettime(2)."""
    units: dict[str, OutputUnit] = Field({}, max_length=100, examples=[{"delay": "ms"}])
    """The units of columns by name. A time has the unit s if it is not named here. Default: a number without a unit, or
    a text."""

    def find_conflicts(self) -> Iterator[KeyProblem]:
        if self.name in TABLES:
            yield "name", f"'{self.name}' is a table that mprun makes: write another name"
        if self.time is None and self.clock != "start":
            yield "clock", "needs 'time': name the column with the times"
        if self.time is not None and OUTPUT_UNITS[self.units.get(self.time, "s")][0] != "time":
            yield "units", f"has no time for '{self.time}': write one, as in '{self.time}: ms'"
