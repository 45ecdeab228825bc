# SPDX-License-Identifier: Apache-2.0
"""Lines of prose in the terminal."""

from __future__ import annotations

import pytest

from mprun.cli import options


@pytest.mark.parametrize("value", ["61.124 ms", "5 Mbit/s", "3 %", "12 kB"])
def test_a_value_stays_on_the_line_of_its_unit(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    number = value.split()[0]
    text = f"{'x' * (40 - 2 - 1 - len(number))} {value} and more"
    assert options.wrap(text, "  ").splitlines()[1] == f"  {value} and more"


def test_a_number_and_a_word_may_be_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert options.wrap(f"{'x' * 35} 12 sent", "  ").splitlines() == [f"  {'x' * 35} 12", "  sent"]
