# SPDX-License-Identifier: Apache-2.0
"""The file with which a user configures mprun for all runs on a machine: `config.yaml`.

`mprun.inputs.settings` knows its place. It belongs to the user: no file of an experiment can name or replace it.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from mprun.inputs.document import Document
from mprun.inputs.keys.field import FileVersion
from mprun.inputs.keys.file_model import FileModel, check
from mprun.inputs.parameter import FileParameters
from mprun.inputs.reader import read
from mprun.model.engine_name import DEFAULT_ENGINE, EngineName
from mprun.model.problem import InputError


class ConfigurationFile(FileModel):
    """The user's settings for all runs on a machine."""

    version: FileVersion = Field(description="The version of this format.", examples=[1])
    engine: EngineName = Field(
        DEFAULT_ENGINE,
        description="The engine of a run that names none: what `--engine auto` means.",
        examples=["real"],
    )


def read_configuration(path: Path) -> ConfigurationFile:
    """Read the configuration in a file. Raises InputError with every problem, each with the file and its line."""
    document = Document(read(path, "experiment"))
    values = document.plain(FileParameters(document.parameters()))
    file = None if values is None else check(ConfigurationFile, values, document)
    if document.problems or file is None:
        raise InputError(document.problems)
    return file
