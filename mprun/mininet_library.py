# SPDX-License-Identifier: Apache-2.0
"""Make Mininet importable where it is installed: beside us, or as the distribution's package.

Mininet is pure Python, so the distribution's copy serves every interpreter. Its release 2.3 asks for distutils, which
Python 3.12 no longer has, to compare versions of Open vSwitch; those of Debian 13 and Ubuntu 24.04 ask for the package
packaging, which is not the interpreter's own.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

DISTRIBUTION_FOLDER = "/usr/lib/python3/dist-packages"


def find() -> ModuleSpec | None:
    """Where Mininet is, without importing anything; None if it is not installed."""
    found = find_spec("mininet")
    if found is None:
        sys.path.append(DISTRIBUTION_FOLDER)
        found = find_spec("mininet")
    return found


def make_importable() -> None:
    """After this `import mininet` finds it if it is installed at all."""
    find()
    for package, name in (("distutils", "StrictVersion"), ("packaging", "Version")):
        if package not in sys.modules and find_spec(package) is None:
            version = ModuleType(f"{package}.version")
            setattr(version, name, str)
            sys.modules[package] = ModuleType(package)
            sys.modules[f"{package}.version"] = version
