# SPDX-License-Identifier: Apache-2.0
"""What the user of this machine has configured; the one place that reads it.

The file is `mprun/config.yaml` in $XDG_CONFIG_HOME, by default `~/.config` (XDG Base Directory Specification).
"""

from __future__ import annotations

from pathlib import Path

from mprun.cache import find_base
from mprun.errors import HostError
from mprun.model.engine import EngineName


def configuration_path() -> Path | None:
    """Where the configuration is, or would be; None for a user without a home directory."""
    try:
        # its format is imported only where the file exists
        return find_base("XDG_CONFIG_HOME", ".config") / "mprun" / "config.yaml"
    except HostError:
        return None


def configured_engine() -> EngineName | None:
    """The engine that the configuration names; None without a configuration. Raises SpecError for a faulty one."""
    path = configuration_path()
    if path is None or not path.exists():
        return None
    from mprun.input.configuration import read_configuration

    return read_configuration(path).engine
