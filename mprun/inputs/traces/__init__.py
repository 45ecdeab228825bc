# SPDX-License-Identifier: Apache-2.0
"""The traces of links that come with mprun, by the names that `trace` of an event takes.

Each is a CSV file in this folder, written by `mprun.inputs.traces.generate`. None was measured. This module reads
no file.
"""

from __future__ import annotations

from pathlib import Path

from mprun.model.frozen import Frozen

FOLDER = Path(__file__).parent


class ShippedTrace(Frozen):
    """A trace. meaning: the link that it imitates."""

    name: str
    meaning: str

    @property
    def file(self) -> Path:
        return FOLDER / f"{self.name}.csv"


TRACES = {
    one.name: one
    for one in (
        ShippedTrace("lte-drive", "an LTE link of a moving car, synthetic, 60 s"),
        ShippedTrace(
            "leo-handover", "a link over satellites in low orbit with a hand-over every 15 s, synthetic, 120 s"
        ),
    )
}
