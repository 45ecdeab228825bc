# SPDX-License-Identifier: Apache-2.0
"""The user's configuration, which only this module reads.

The file is `mprun/config.yaml` in $XDG_CONFIG_HOME, by default `~/.config` (XDG Base Directory Specification).
"""

from __future__ import annotations

from pathlib import Path

from mprun.errors import MachineError
from mprun.machine.cache import find_base
from mprun.model.engine_name import EngineName


def configuration_path() -> Path | None:
    """Return the path of the configuration, which need not exist; None for a user without a home directory."""
    try:
        return find_base("XDG_CONFIG_HOME", ".config") / "mprun" / "config.yaml"
    except MachineError:
        return None


def configured_engine() -> EngineName | None:
    """Return the engine in the configuration; None without a configuration. Raises SpecError for a faulty one."""
    path = configuration_path()
    if path is None or not path.exists():
        return None
    # the import takes time, so it happens only if the file exists
    from mprun.inputs.user_configuration import read_configuration

    return read_configuration(path).engine
