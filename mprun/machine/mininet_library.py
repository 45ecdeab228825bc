# SPDX-License-Identifier: Apache-2.0
"""Make Mininet importable, from mprun's Python environment or from the distribution's package.

Mininet is pure Python, so the distribution's copy works with every interpreter. To compare versions of Open vSwitch,
its release 2.3 imports distutils, which Python 3.12 no longer has. Mininet in Debian 13 and Ubuntu 24.04 imports the
package packaging, which the interpreter may lack.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

DISTRIBUTION_FOLDER = "/usr/lib/python3/dist-packages"


def find() -> ModuleSpec | None:
    """Return the import specification of Mininet without importing it; None if it is not installed."""
    found = find_spec("mininet")
    if found is None:
        sys.path.append(DISTRIBUTION_FOLDER)
        found = find_spec("mininet")
    return found


def make_importable() -> None:
    """Let `import mininet` succeed from now on if Mininet is installed."""
    find()
    for package, name in (("distutils", "StrictVersion"), ("packaging", "Version")):
        if package not in sys.modules and find_spec(package) is None:
            version = ModuleType(f"{package}.version")
            setattr(version, name, str)
            sys.modules[package] = ModuleType(package)
            sys.modules[f"{package}.version"] = version
