# SPDX-License-Identifier: Apache-2.0
"""The file with which a user configures mprun, for all runs on a machine: `config.yaml`.

Where it lies is for `mprun.settings`. It is a user's own: no file of an experiment can name or replace it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from mprun.spec.document import Document
from mprun.spec.fault import InputError
from mprun.spec.field import Version
from mprun.spec.model import FileModel, check
from mprun.spec.parameter import Parameters
from mprun.spec.reader import read

FILE = "config.yaml"


class ConfigurationFile(FileModel):
    """What a user wants on a machine, whatever is run there."""

    version: Version = Field(description="The version of this format.", examples=[1])
    engine: Literal["virtual", "real"] = Field(
        "virtual", description="The engine of a run that names none: what `--engine auto` means.", examples=["real"]
    )


def read_configuration(path: Path) -> ConfigurationFile:
    """The configuration in a file. Raises InputError with every fault, each with the file and its line."""
    document = Document(read(path, "experiment"))
    values = document.plain(Parameters(document.parameters()))
    file = None if values is None else check(ConfigurationFile, values, document)
    if document.faults or file is None:
        raise InputError(document.faults)
    return file
