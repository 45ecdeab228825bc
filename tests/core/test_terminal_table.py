# SPDX-License-Identifier: Apache-2.0
"""Tables in a terminal: what is too wide for it."""

from __future__ import annotations

import pytest

from mprun.cli.output import cut_middle


@pytest.mark.parametrize(
    ("text", "most", "shown"),
    [("short", 5, "short"), ("20261125-topo-xp.1", 11, "20261…-xp.1"), ("abcdef", 4, "a…ef")],
)
def test_a_long_text_loses_its_middle(text: str, most: int, shown: str) -> None:
    assert cut_middle(text, most) == shown
    assert len(cut_middle(text, most)) <= most
