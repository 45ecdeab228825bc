# SPDX-License-Identifier: Apache-2.0
"""Find and read the user's configuration. It belongs to the user: no file of an experiment can name or replace it.

The file is `mprun/config.yaml` in $XDG_CONFIG_HOME, by default `~/.config` (XDG Base Directory Specification).
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from mprun.errors import MachineError
from mprun.machine.cache import find_base
from mprun.model.engine_name import EngineName

if TYPE_CHECKING:
    from mprun.inputs.keys.configuration import ConfigurationFile


def configuration_path() -> Path | None:
    """Return the path of the configuration, which need not exist; None for a user without a home directory."""
    with suppress(MachineError):
        return find_base("XDG_CONFIG_HOME", ".config") / "mprun" / "config.yaml"
    return None


def configured_engine() -> EngineName | None:
    """Return the engine in the configuration; None without a configuration. Raises SpecError for a faulty one."""
    path = configuration_path()
    return None if path is None or not path.exists() else read_configuration(path).engine


def read_configuration(path: Path) -> ConfigurationFile:
    """Read the configuration in a file. Raises InputError with every problem, each with the file and its line."""
    # these imports take time, and few users have a configuration
    from mprun.inputs.document import Document
    from mprun.inputs.keys.configuration import ConfigurationFile
    from mprun.inputs.keys.file_model import check
    from mprun.inputs.parameter import FileParameters
    from mprun.inputs.reader import read
    from mprun.model.problem import InputError

    document = Document(read(path, "experiment"))
    values = document.plain(FileParameters(document.parameters()))
    file = None if values is None else check(ConfigurationFile, values, document)
    if document.problems or file is None:
        raise InputError(document.problems)
    return file
