# SPDX-License-Identifier: Apache-2.0
"""The page of link profiles, from the same values as `mprun topology profiles`."""

from __future__ import annotations

from docs.generate.markdown import LICENSE, code, table
from mprun.input.profile import columns, describe_profiles


def page() -> str:
    """Return a row for each profile and direction."""
    profiles = describe_profiles()
    names = columns(profiles)
    rows = [
        (code(one.name), one.meaning, direction, *(_cell(values.get(name)) for name in names))
        for one in profiles
        for direction, values in one.rows
    ]
    return "".join(
        [
            LICENSE,
            "# Link profiles\n\n"
            "`profile: NAME` gives a link the values of this table. Forward is the uplink, from the user to the "
            "network. Other keys of the link override the profile. `mprun topology profiles` prints the same table, "
            "and `--json` prints it for programs.\n\n",
            table(("profile", "stands for", "direction", *names), rows),
        ]
    )


def _cell(value: object) -> str:
    return "-" if value is None else code(str(value))
