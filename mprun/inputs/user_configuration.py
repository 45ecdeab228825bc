# SPDX-License-Identifier: Apache-2.0
"""The file with which a user configures mprun for all runs on a machine: `config.yaml`.

`mprun.inputs.settings` knows its place. It belongs to the user: no file of an experiment can name or replace it.
"""

from __future__ import annotations

from pathlib import Path

from mprun.inputs.document import Document
from mprun.inputs.keys.configuration import ConfigurationFile
from mprun.inputs.keys.file_model import check
from mprun.inputs.parameter import Parameters
from mprun.inputs.reader import read
from mprun.model.fault import InputError

FILE = "config.yaml"


def read_configuration(path: Path) -> ConfigurationFile:
    """Read the configuration in a file. Raises InputError with every fault, each with the file and its line."""
    document = Document(read(path, "experiment"))
    values = document.plain(Parameters(document.parameters()))
    file = None if values is None else check(ConfigurationFile, values, document)
    if document.faults or file is None:
        raise InputError(document.faults)
    return file
