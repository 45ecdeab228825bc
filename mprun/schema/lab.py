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
    """One run of a lab."""

    name: Name | None = Field(None, description="What claims call the run. Default: the name of the experiment's file.")
    topology: str = Field(description="The topology file, relative to this one.", examples=["topo"])
    experiment: str = Field(description="The experiment file, relative to this one.", examples=["xp_tcp"])
    params: dict[str, str | int | float | bool] = Field({}, description="Parameters, as -p sets them.")
    profile: Profile | None = Field(None, description="Run in this profile only. Default: in both.")


class ClaimEntry(FileModel):
    """Something that the steps must show."""

    says: str = Field(description="What should be seen, in a sentence.", examples=["two paths carry nearly twice"])
    holds: Statement = Field(
        description="The statement over the runs, see docs/statements.md.",
        examples=["xp_mptcp.bulk.goodput >= 1.8 * xp_tcp.bulk.goodput"],
    )
    why: str = Field(description="From which arithmetic or publication it follows.", examples=["two equal paths"])
    tolerance: str = Field("", description="Why it is as wide as it is.")


class QuestionEntry(FileModel):
    """A question to the student; answers stand in ANSWERS.md."""

    ask: str = Field(description="The question.", examples=["Why is it not 40 Mbit/s?"])
    hint: str = Field("", description="Where to look.")


class LabFile(FileModel):
    """A lab: experiments to run, what they should show, and questions."""

    version: Version = Field(description="The version of this format.", examples=[1])
    title: str = Field(description="What it shows, in a line.", examples=["Two paths, twice the rate"])
    aim: str = Field(description="What a student knows after it.", examples=["What a second path gives"])
    steps: list[StepEntry] = Field(
        description="What is run.", examples=[[{"topology": "topo", "experiment": "xp_tcp"}]], min_length=1
    )
    show: list[str] = Field([], description="Metrics to show of each step, beside its outcome.")
    claims: list[ClaimEntry] = Field([], description="What the steps must show.")
    questions: list[QuestionEntry] = Field([], description="What a student is asked.")
