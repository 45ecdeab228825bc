# SPDX-License-Identifier: Apache-2.0
"""The model of the file with which a user configures mprun: `config.yaml`."""

from __future__ import annotations

from pydantic import Field

from mprun.model.engine import DEFAULT_ENGINE, EngineName
from mprun.schema.field import Version
from mprun.schema.file_model import FileModel


class ConfigurationFile(FileModel):
    """The user's settings for all runs on a machine."""

    version: Version = Field(description="The version of this format.", examples=[1])
    engine: EngineName = Field(
        DEFAULT_ENGINE,
        description="The engine of a run that names none: what `--engine auto` means.",
        examples=["real"],
    )
