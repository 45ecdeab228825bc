# SPDX-License-Identifier: Apache-2.0
"""The model of the file of a lab: `lab.yaml`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Literal

from pydantic import Field, PlainValidator, WithJsonSchema

from mprun.inputs.keys.experiment import Within
from mprun.inputs.keys.field import FileVersion, Name, Time, parsed
from mprun.inputs.keys.file_model import FileModel, KeyProblem
from mprun.statements.expression import Expression, parse, parse_value

LabProfile = Literal["quick", "published"]

PROFILES: tuple[LabProfile, ...] = ("quick", "published")


def _quoted(parse_text: Callable[[str], Expression], what: str) -> tuple[PlainValidator, WithJsonSchema]:
    """The metadata of an expression in quotes. what: its noun, and an example."""

    def read(value: object) -> Expression:
        if not isinstance(value, str):
            raise ValueError(f"must be a {what}")
        return parse_text(value)

    return parsed(read, {"type": "string"})


_STATEMENT = "statement in quotes: write one as in 'xp_mptcp.bulk.goodput >= 36mbit'"
Statement = Annotated[Expression, *_quoted(lambda text: parse(text).refuse_idle(), _STATEMENT)]
MeasuredValue = Annotated[Expression, *_quoted(parse_value, "value in quotes: write one as in 'xp_mptcp.bulk.goodput'")]


class StepEntry(FileModel):
    """A run of a lab."""

    name: Name | None = None
    """The name of the run in claims. Default: the name of the experiment's file."""
    topology: str = Field(examples=["topo"])
    """The topology file, relative to the lab file."""
    experiment: str = Field(examples=["xp_tcp"])
    """The experiment file, relative to the lab file."""
    params: dict[str, str | int | float | bool] = Field({})
    """Parameters of the run, as with the option -p."""
    profile: LabProfile | None = None
    """The only profile in which the step runs. Default: both profiles."""


class ClaimEntry(FileModel):
    """An expected result of the steps."""

    says: str = Field(examples=["two paths carry nearly twice"])
    """The expected result, in one sentence."""
    holds: Statement = Field(examples=["xp_mptcp.bulk.goodput >= 1.8 * xp_tcp.bulk.goodput"])
    """The statement about the runs, see docs/reference/statements.md."""
    why: str = Field(examples=["two equal paths"])
    """The arithmetic or the publication from which the claim follows."""
    tolerance: str = ""
    """The reason for the width of the tolerance."""


class SweepEntry(FileModel):
    """A sweep of a lab. It runs only in the profile `published`."""

    name: Name = Field(examples=["repeated"])
    """The name of the sweep in claims and figures."""
    topology: str = Field(examples=["topo"])
    """The topology file, relative to the lab file."""
    experiment: str = Field(examples=["repeated"])
    """The experiment file with a `matrix` or `repeat`, relative to the lab file."""
    params: dict[str, str | int | float | bool] = Field({})
    """Parameters of the sweep, as with -p."""


class ValueEntry(FileModel):
    """A value of a figure: the published value, the measured value, or both."""

    name: Name = Field(examples=["tcp"])
    """The name of the value in `checks`: `published.NAME`, `here.NAME`."""
    label: str = ""
    """The text of the value in the picture. Default: the name."""
    series: str | None = Field(None, examples=["TCP"])
    """The column `series` of the row of `published.csv` with the value."""
    x: str | None = Field(None, examples=["throughput"])
    """With `series`: the column `x` of the row. Default: any."""
    here: MeasuredValue | None = Field(None, examples=["xp_tcp.bulk.goodput"])
    """The measured value, as in a statement."""

    def find_conflicts(self) -> Iterator[KeyProblem]:
        if self.series is None and self.here is None:
            yield (), "has no value: write 'series' (of published.csv), 'here' (measured) or both"
        elif self.series is None and self.x is not None:
            yield (), "has 'x' and no 'series': write both"


class CheckEntry(FileModel):
    """A published result and the statement that tests it."""

    says: str = Field(examples=["two paths beat one"])
    """The published result, in words."""
    holds: Statement = Field(examples=["here.mptcp > here.tcp"])
    """The statement that is true if the result is also measured here. `published.NAME` and `here.NAME` are the values
    of the figure."""
    why: str = Field(examples=["seeds differ by 1 %"])
    """The reason for the tolerance of the statement."""
    spread: Within | None = Field(None, examples=["5%"])
    """The part by which a value of a single seed may change with the seed. The verdict is undecided if such changes
    alter it. Default: a single seed decides."""
    differs: str = ""
    """The reason why the measured result differs. `{...}` stands for a measured value, as in `here`. Default: no
    difference is known."""


class TogetherEntry(FileModel):
    """A figure with the curves of several runs, as `mprun compare` draws it."""

    figure: str = Field(examples=["rate-by-run"])
    """The name of the figure in the report of the comparison."""
    runs: dict[str, str] = Field(examples=[{"TCP": "xp_tcp", "MPTCP": "xp_mptcp"}], min_length=2)
    """The names of the runs in the picture, each with the step."""
    interval: Time | None = Field(None, examples=["1s"])
    """The interval of means, for curves of steps. Default: that of each run's data."""


class BinnedEntry(FileModel):
    """Means of a table's column in bins of another column, with intervals of 99 %, for several runs."""

    table: str = Field(examples=["flows"])
    """The table of the runs."""
    over: str = Field(examples=["size_bytes"])
    """The column that is divided into bins of equal width."""
    of: str = Field(examples=["completion_ns"])
    """The column whose mean is drawn."""
    bins: int = Field(5, ge=2, le=50)
    """The number of bins."""
    runs: dict[str, str] = Field(examples=[{"TCP": "xp_tcp"}], min_length=1)
    """The names of the runs in the picture, each with the step."""


class ClassesEntry(FileModel):
    """The packets over time of one short flow of each class, from a capture of its sender."""

    run: str = Field(examples=["xp_tcp"])
    """The step whose run has the capture."""
    flow: Name = Field(examples=["short-h1"])
    """The flow, as in table `flows`."""
    classes: list[str] = Field(examples=[["full_window", "intensive"]], min_length=1, max_length=4)
    """The values of the column `class` of table `flows`, in order."""


class FigureEntry(FileModel):
    """A published figure, table or text, and how it is measured here. It belongs to the profile `published`.

    Write `checks`, `not_comparable` or both, or else `not_measured`.
    """

    name: Name = Field(examples=["figure-5"])
    """The name of the figure's picture, and for --figure."""
    published: str = Field(examples=["Figure 5"])
    """The figure, as in the column `figure` of `published.csv`."""
    title: str = Field(examples=["Throughput of one client"])
    """The title of the figure."""
    section: str = Field("", examples=["sec 3.2"])
    """The section of the publication. Default: the sections in the rows of `published.csv`."""
    quantity: str = ""
    """The quantity of the values, for the axis of the picture."""
    values: list[ValueEntry] = Field([])
    """The values to draw. All have one kind of unit."""
    picture: str | None = Field(None, examples=["xp_mptcp.rate"])
    """A figure in the report of a run or sweep, to draw too: `STEP.FIGURE`."""
    together: TogetherEntry | None = None
    """A figure with the curves of several runs, to draw too."""
    binned: BinnedEntry | None = None
    """A figure of a table's column by another column, to draw too, such as times by size."""
    sequence: ClassesEntry | None = None
    """The packets of one short flow of each class over time, to draw too."""
    checks: list[CheckEntry] = Field([])
    """The published results that are tested here."""
    not_comparable: str = ""
    """The reason why the published numbers cannot be compared."""
    not_measured: str = ""
    """The reason why the result is not measured."""
    command: str = Field("", examples=["mprun sweep -t topo -x cpu --engine real"])
    """With `not_measured`: the command that measures the result, for a machine that can."""
    says: str = Field("", examples=["MPTCP sends more packets"])
    """With `not_comparable` or `not_measured`: the published result, in words. Default: the published values, or else
    the rows of `published.csv` with words."""

    def find_conflicts(self) -> Iterator[KeyProblem]:
        compared = bool(self.checks or self.not_comparable)
        if compared == bool(self.not_measured):
            what = "is both compared and not measured" if compared else "has no verdict"
            yield (), f"{what}: write 'checks', 'not_comparable' or both, or else 'not_measured'"
        elif self.command and not self.not_measured:
            yield (), "has 'command' and no 'not_measured': remove 'command'"
        elif self.values and not self.quantity:
            yield (), "has values of no quantity: write 'quantity', as in 'quantity: goodput'"


class QuestionEntry(FileModel):
    """A question to the student. The answers are in ANSWERS.md."""

    ask: str = Field(examples=["Why is it not 40 Mbit/s?"])
    """The question."""
    hint: str = ""
    """A hint to the answer."""


class KernelEntry(FileModel):
    """The kernel of a lab whose runs need a file of the student, such as a scheduler."""

    name: Name = Field(examples=["mine"])
    """The name of the kernel, as with the option --kernel."""
    build: str = Field(examples=["mprun kernel build --name mine --with-scheduler own.c"])
    """The command that builds the kernel. It is shown, and never run."""


class LabFile(FileModel):
    """A lab: runs of experiments, their expected results, and questions."""

    version: FileVersion = Field(examples=[1])
    """The version of this format."""
    title: str = Field(examples=["Two paths, twice the rate"])
    """The title of the lab, in one line."""
    aim: str = Field(examples=["What a second path gives"])
    """The aim: what a student knows after the lab."""
    publication: str = ""
    """The publication of the figures: authors, title, year and address. It heads their page."""
    kernel: KernelEntry | None = None
    """The kernel that the student builds for the runs. Default: the kernel of mprun."""
    steps: list[StepEntry] = Field(examples=[[{"topology": "topo", "experiment": "xp_tcp"}]], min_length=1)
    """The runs of the lab."""
    show: list[str] = Field([])
    """The metrics to show for each step."""
    claims: list[ClaimEntry] = Field([])
    """The claims that the runs must confirm."""
    questions: list[QuestionEntry] = Field([])
    """The questions to the student."""
    sweeps: list[SweepEntry] = Field([])
    """The sweeps of the profile `published`."""
    figures: list[FigureEntry] = Field([])
    """The published figures and tables. Their values are in the file `published.csv` of the lab."""
