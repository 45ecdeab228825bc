# SPDX-License-Identifier: Apache-2.0
"""The folders that come with mprun's code: `labs`, `schemas`, a Wireshark profile, and what another package has built.

In a checkout, the first two are at its top. Building a package copies them into its folder `shipped` (`setup.py`). This
module does not read labs, so that the completion of names in a shell is quick; `mprun.labs.definition` reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from mprun.errors import SpecError

_PACKAGE = Path(__file__).parents[1]
# Columns, colours and buttons for MPTCP (wireshark(1), configuration profiles).
PROFILE = _PACKAGE / "captures" / "wireshark" / "mptcp"
# The module of the package mprun-kernel, which `make dist` makes: an experiment kernel and traffic tools for Linux on
# x86-64.
BUILT = "mprun_kernel"


def find_built(kind: str) -> Path | None:
    """Return a folder of the installed package mprun-kernel, `kernel` or `tools`; None without the package.

    The package is not imported. It has data only.
    """
    found = find_spec(BUILT)
    places = (found.submodule_search_locations if found else None) or ()
    return next((Path(place) / kind for place in places), None)


def find_labs() -> Mapping[str, Path]:
    """Return the folders of labs by their numbers, from `labs` in the current directory or else from mprun.

    Raises SpecError if there are none.
    """
    for folder in (Path("labs"), _PACKAGE / "shipped" / "labs", _PACKAGE.parent / "labs"):
        labs = {path.parent.name.split("_")[0]: path.parent for path in sorted(folder.glob("*/lab.yaml"))}
        if labs:
            return labs
    raise SpecError("no labs here: change into a checkout of mprun")
