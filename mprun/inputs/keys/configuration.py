# SPDX-License-Identifier: Apache-2.0
"""The keys of the file with which a user configures mprun for all runs on a machine: `config.yaml`."""

from __future__ import annotations

from pydantic import Field

from mprun.inputs.keys.field import FileVersion
from mprun.inputs.keys.file_model import FileModel
from mprun.model.engine_name import DEFAULT_ENGINE, EngineName


class ConfigurationFile(FileModel):
    """The user's settings for all runs on a machine."""

    version: FileVersion = Field(examples=[1])
    """The version of this format."""
    engine: EngineName = Field(DEFAULT_ENGINE, examples=["real"])
    """The engine of a run that names none: what `--engine auto` means."""
