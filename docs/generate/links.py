# SPDX-License-Identifier: Apache-2.0
"""The page of link profiles and traces, from the same values as `mprun topology profiles` and `mprun trace list`."""

from __future__ import annotations

import inspect

from docs.generate.markdown import LICENSE, code, table
from mprun.inputs.profile_list import columns, describe_profiles
from mprun.inputs.traces import TRACES, generate


def page() -> str:
    """Return a row for each profile and direction, a row for each trace, and the models of the traces."""
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
            "# Link profiles and traces\n\n## Profiles\n\n"
            "`profile: NAME` gives a link the values of this table. Forward is the uplink, from the user to the "
            "network. Other keys of the link override the profile. `mprun topology profiles` prints the same table, "
            "and `--json` prints it for programs.\n\n",
            table(("profile", "stands for", "direction", *names), rows),
            "\nSources of the values:\n\n"
            "- `ethernet`, `wifi-802.11g`, `3g-hspa+`, `4g-lte`: all values come from a comparison of CMT-SCTP and "
            "MPTCP over emulated wireless links (2011).\n"
            "- `satellite-geo`: the delay is the way of 2 x 35,786 km at the speed of light (239 ms), and some "
            "processing.\n"
            "- `satellite-leo`: the delay is the delay that users of such a constellation measure.\n\n"
            "Assumptions without a source: the rates, the jitter and the losses of both satellites. All values are "
            "constant. For a link that changes over time, use a trace.\n",
            "\n## Traces\n\n"
            "`trace: NAME` of an event gives a link the values of one of these traces over time. `mprun trace list` "
            "prints the list. The traces are synthetic: they were computed, not measured.\n\n",
            table(("trace", "imitates"), [(code(one.name), one.meaning) for one in TRACES.values()]),
            "\n" + "\n\n".join(_models()) + "\n",
        ]
    )


def _models() -> list[str]:
    """Return the paragraphs about models in the docstring of the generator."""
    paragraphs = inspect.cleandoc(generate.__doc__ or "").split("\n\n")
    return [" ".join(paragraph.split()) for paragraph in paragraphs[1:]]


def _cell(value: object) -> str:
    return "-" if value is None else code(str(value))
