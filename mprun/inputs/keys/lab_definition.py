# SPDX-License-Identifier: Apache-2.0
"""The model of the file of a lab: `lab.yaml`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field, PlainValidator, WithJsonSchema

from mprun.inputs.keys.field import FileVersion, Name, Time
from mprun.inputs.keys.file_model import FileModel, KeyProblem
from mprun.statements.expression import Expression, parse, parse_value

LabProfile = Literal["quick", "published"]


PROFILES: tuple[LabProfile, ...] = ("quick", "published")


def _parse_statement(value: object) -> Expression:
    if not isinstance(value, str):
        raise ValueError("must be a statement in quotes: write one as in 'xp_mptcp.bulk.goodput >= 36mbit'")
    return parse(value)


def _parse_value(value: object) -> Expression:
    if not isinstance(value, str):
        raise ValueError("must be a value in quotes: write one as in 'xp_mptcp.bulk.goodput'")
    return parse_value(value)


Statement = Annotated[Expression, PlainValidator(_parse_statement), WithJsonSchema({"type": "string"})]
MeasuredValue = Annotated[Expression, PlainValidator(_parse_value), WithJsonSchema({"type": "string"})]


class StepEntry(FileModel):
    """A run of a lab."""

    name: Name | None = Field(
        None, description="The name of the run in claims. Default: the name of the experiment's file."
    )
    topology: str = Field(description="The topology file, relative to the lab file.", examples=["topo"])
    experiment: str = Field(description="The experiment file, relative to the lab file.", examples=["xp_tcp"])
    params: dict[str, str | int | float | bool] = Field({}, description="Parameters of the run, as with the option -p.")
    profile: LabProfile | None = Field(
        None, description="The only profile in which the step runs. Default: both profiles."
    )


class ClaimEntry(FileModel):
    """An expected result of the steps."""

    says: str = Field(description="The expected result, in one sentence.", examples=["two paths carry nearly twice"])
    holds: Statement = Field(
        description="The statement about the runs, see docs/reference/statements.md.",
        examples=["xp_mptcp.bulk.goodput >= 1.8 * xp_tcp.bulk.goodput"],
    )
    why: str = Field(
        description="The arithmetic or the publication from which the claim follows.", examples=["two equal paths"]
    )
    tolerance: str = Field("", description="The reason for the width of the tolerance.")


class SweepEntry(FileModel):
    """A sweep of a lab. It runs only in the profile `published`."""

    name: Name = Field(description="The name of the sweep in claims and figures.", examples=["repeated"])
    topology: str = Field(description="The topology file, relative to the lab file.", examples=["topo"])
    experiment: str = Field(
        description="The experiment file with a `matrix` or `repeat`, relative to the lab file.", examples=["repeated"]
    )
    params: dict[str, str | int | float | bool] = Field({}, description="Parameters of the sweep, as with -p.")


class ValueEntry(FileModel):
    """A value of a figure: the published value, the measured value, or both."""

    name: Name = Field(
        description="The name of the value in `checks`: `published.NAME`, `here.NAME`.", examples=["tcp"]
    )
    label: str = Field("", description="The text of the value in the picture. Default: the name.")
    series: str | None = Field(
        None, description="The column `series` of the row of `published.csv` with the value.", examples=["TCP"]
    )
    x: str | None = Field(
        None, description="With `series`: the column `x` of the row. Default: any.", examples=["throughput"]
    )
    here: MeasuredValue | None = Field(
        None, description="The measured value, as in a statement.", examples=["xp_tcp.bulk.goodput"]
    )

    def find_conflicts(self) -> Iterator[KeyProblem]:
        if self.series is None and self.here is None:
            yield (), "has no value: write 'series' (of published.csv), 'here' (measured) or both"
        elif self.series is None and self.x is not None:
            yield (), "has 'x' and no 'series': write both"


class CheckEntry(FileModel):
    """A published result and the statement that tests it."""

    says: str = Field(description="The published result, in words.", examples=["two paths beat one"])
    holds: Statement = Field(
        description="The statement that is true if the result is also measured here. `published.NAME` and `here.NAME` "
        "are the values of the figure.",
        examples=["here.mptcp > here.tcp"],
    )
    why: str = Field(description="The reason for the tolerance of the statement.", examples=["seeds differ by 1 %"])
    differs: str = Field("", description="The reason why the measured result differs. Default: no difference is known.")


class TogetherEntry(FileModel):
    """A figure with the curves of several runs, as `mprun compare` draws it."""

    figure: str = Field(description="The name of the figure in the report of the comparison.", examples=["rate-by-run"])
    runs: dict[str, str] = Field(
        description="The names of the runs in the picture, each with the step.",
        examples=[{"TCP": "xp_tcp", "MPTCP": "xp_mptcp"}],
        min_length=2,
    )
    interval: Time | None = Field(
        None,
        description="The interval of means, for curves of steps. Default: that of each run's data.",
        examples=["1s"],
    )


class BinnedEntry(FileModel):
    """Means of a table's column in bins of another column, with intervals of 99 %, for several runs."""

    table: str = Field(description="The table of the runs.", examples=["flows"])
    over: str = Field(description="The column that is divided into bins of equal width.", examples=["size_bytes"])
    of: str = Field(description="The column whose mean is drawn.", examples=["completion_ns"])
    bins: int = Field(5, description="The number of bins.", ge=2, le=50)
    runs: dict[str, str] = Field(
        description="The names of the runs in the picture, each with the step.",
        examples=[{"TCP": "xp_tcp"}],
        min_length=1,
    )


class ClassesEntry(FileModel):
    """The packets over time of one short flow of each class, from a capture of its sender."""

    run: str = Field(description="The step whose run has the capture.", examples=["xp_tcp"])
    flow: Name = Field(description="The flow, as in table `flows`.", examples=["short-h1"])
    classes: list[str] = Field(
        description="The values of the column `class` of table `flows`, in order.",
        examples=[["full_window", "intensive"]],
        min_length=1,
        max_length=4,
    )


class FigureEntry(FileModel):
    """A published figure, table or text, and how it is measured here. It belongs to the profile `published`.

    Write `checks`, `not_comparable` or both, or else `not_measured`.
    """

    name: Name = Field(description="The name of the figure's picture, and for --figure.", examples=["figure-5"])
    published: str = Field(
        description="The figure, as in the column `figure` of `published.csv`.", examples=["Figure 5"]
    )
    title: str = Field(description="The title of the figure.", examples=["Throughput of one client"])
    quantity: str = Field("", description="The quantity of the values, for the axis of the picture.")
    values: list[ValueEntry] = Field([], description="The values to draw. All have one kind of unit.")
    picture: str | None = Field(
        None,
        description="A figure in the report of a run or sweep, to draw too: `STEP.FIGURE`.",
        examples=["xp_mptcp.rate"],
    )
    together: TogetherEntry | None = Field(None, description="A figure with the curves of several runs, to draw too.")
    binned: BinnedEntry | None = Field(
        None, description="A figure of a table's column by another column, to draw too, such as times by size."
    )
    sequence: ClassesEntry | None = Field(
        None, description="The packets of one short flow of each class over time, to draw too."
    )
    checks: list[CheckEntry] = Field([], description="The published results that are tested here.")
    not_comparable: str = Field("", description="The reason why the published numbers cannot be compared.")
    not_measured: str = Field("", description="The reason why the result is not measured.")
    command: str = Field(
        "",
        description="With `not_measured`: the command that measures the result, for a machine that can.",
        examples=["mprun sweep -t topo -x cpu --engine real"],
    )
    says: str = Field(
        "",
        description="With `not_comparable` or `not_measured`: the published result, in words. Default: the published "
        "values, or else the rows of `published.csv` with words.",
        examples=["MPTCP sends more packets"],
    )

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

    ask: str = Field(description="The question.", examples=["Why is it not 40 Mbit/s?"])
    hint: str = Field("", description="A hint to the answer.")


class KernelEntry(FileModel):
    """The kernel of a lab whose runs need a file of the student, such as a scheduler."""

    name: Name = Field(description="The name of the kernel, as with the option --kernel.", examples=["mine"])
    build: str = Field(
        description="The command that builds the kernel. It is shown, and never run.",
        examples=["mprun kernel build --name mine --with-scheduler own.c"],
    )


class LabFile(FileModel):
    """A lab: runs of experiments, their expected results, and questions."""

    version: FileVersion = Field(description="The version of this format.", examples=[1])
    title: str = Field(description="The title of the lab, in one line.", examples=["Two paths, twice the rate"])
    aim: str = Field(description="The aim: what a student knows after the lab.", examples=["What a second path gives"])
    kernel: KernelEntry | None = Field(
        None, description="The kernel that the student builds for the runs. Default: the kernel of mprun."
    )
    steps: list[StepEntry] = Field(
        description="The runs of the lab.", examples=[[{"topology": "topo", "experiment": "xp_tcp"}]], min_length=1
    )
    show: list[str] = Field([], description="The metrics to show for each step.")
    claims: list[ClaimEntry] = Field([], description="The claims that the runs must confirm.")
    questions: list[QuestionEntry] = Field([], description="The questions to the student.")
    sweeps: list[SweepEntry] = Field([], description="The sweeps of the profile `published`.")
    figures: list[FigureEntry] = Field(
        [], description="The published figures and tables. Their values are in the file `published.csv` of the lab."
    )
