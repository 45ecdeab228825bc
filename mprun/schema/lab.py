# SPDX-License-Identifier: Apache-2.0
"""The model of the file of a lab: `lab.yaml`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PlainValidator, WithJsonSchema

from mprun.schema.field import Name, Version
from mprun.schema.file_model import FileModel
from mprun.statement.expression import Expression, parse

Profile = Literal["quick", "published"]


PROFILES: tuple[Profile, ...] = ("quick", "published")


def _parse_statement(value: object) -> Expression:
    if not isinstance(value, str):
        raise ValueError("must be a statement in quotes: write one as in 'xp_mptcp.bulk.goodput >= 36mbit'")
    return parse(value)


Statement = Annotated[Expression, PlainValidator(_parse_statement), WithJsonSchema({"type": "string"})]


class StepEntry(FileModel):
    """A run of a lab."""

    name: Name | None = Field(
        None, description="The name of the run in claims. Default: the name of the experiment's file."
    )
    topology: str = Field(description="The topology file, relative to the lab file.", examples=["topo"])
    experiment: str = Field(description="The experiment file, relative to the lab file.", examples=["xp_tcp"])
    params: dict[str, str | int | float | bool] = Field({}, description="Parameters of the run, as with the option -p.")
    profile: Profile | None = Field(
        None, description="The only profile in which the step runs. Default: both profiles."
    )


class ClaimEntry(FileModel):
    """An expected result of the steps."""

    says: str = Field(description="The expected result, in one sentence.", examples=["two paths carry nearly twice"])
    holds: Statement = Field(
        description="The statement about the runs, see docs/statements.md.",
        examples=["xp_mptcp.bulk.goodput >= 1.8 * xp_tcp.bulk.goodput"],
    )
    why: str = Field(
        description="The arithmetic or the publication from which the claim follows.", examples=["two equal paths"]
    )
    tolerance: str = Field("", description="The reason for the width of the tolerance.")


class QuestionEntry(FileModel):
    """A question to the student. The answers are in ANSWERS.md."""

    ask: str = Field(description="The question.", examples=["Why is it not 40 Mbit/s?"])
    hint: str = Field("", description="A hint to the answer.")


class LabFile(FileModel):
    """A lab: runs of experiments, their expected results, and questions."""

    version: Version = Field(description="The version of this format.", examples=[1])
    title: str = Field(description="The title of the lab, in one line.", examples=["Two paths, twice the rate"])
    aim: str = Field(description="The aim: what a student knows after the lab.", examples=["What a second path gives"])
    steps: list[StepEntry] = Field(
        description="The runs of the lab.", examples=[[{"topology": "topo", "experiment": "xp_tcp"}]], min_length=1
    )
    show: list[str] = Field([], description="The metrics to show for each step.")
    claims: list[ClaimEntry] = Field([], description="The claims that the runs must confirm.")
    questions: list[QuestionEntry] = Field([], description="The questions to the student.")
