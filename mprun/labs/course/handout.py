# SPDX-License-Identifier: Apache-2.0
"""The hand-out of a course: a page for a browser that prints on two pages A4.

The first page says what to type, the second describes the labs. The template `handout.html` has the texts and the
look. Its script makes the letters of a page smaller until the text fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap
from typing import ClassVar

from mprun.labs.course.first_page import LOOK, WORDS, Facts
from mprun.model.frozen import Frozen
from mprun.reports.page import render

# The letters of a command in one line of the printed page.
LETTERS = 88


class HandoutPage(Frozen):
    """The content of the hand-out. look, words: the rows of its two lists."""

    TEMPLATE: ClassVar[str] = "handout.html"
    facts: Facts
    title: str = "Labs with mprun"
    description: str = "Transport protocols on several paths, on the real Linux network stack"
    look: Sequence[tuple[str, str]] = LOOK
    words: Sequence[tuple[str, str]] = WORDS

    def lines(self, commands: Sequence[str]) -> list[str]:
        """Return the lines of commands, as the page shows them."""
        return [line for command in commands for line in break_command(command)]


def draw_handout(facts: Facts) -> str:
    """Return the hand-out as HTML. Equal facts give equal text."""
    return render(HandoutPage(facts))


def break_command(command: str, letters: int = LETTERS) -> list[str]:
    """Return the lines of a command, each but the last with a backslash at its end. All but the first are indented."""
    lines = wrap(command, letters - 4, break_long_words=False, break_on_hyphens=False)
    return [("  " if n else "") + line + (" \\" if n < len(lines) - 1 else "") for n, line in enumerate(lines)]
