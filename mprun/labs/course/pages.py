# SPDX-License-Identifier: Apache-2.0
"""The pages of a course: the first page, and the hand-out for a browser, which prints on two pages A4. Pure.

The first page says what a student types, and how a teacher grades. So does the first page of the hand-out; its second
page describes the labs. The template `handout.html` has the texts and the look. Its script makes the letters of a
page smaller until the text fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap
from typing import ClassVar

from mprun.model.frozen import Frozen
from mprun.reports.page import render

# The address of mprun's sources is the teacher's choice: a class may use a copy in its own network.
INSTALL = (
    "git clone ADDRESS mprun",
    "cp {archive} mprun",
    "cd mprun",
    "TRUST={digest} make lab",
    ". .venv/bin/activate",
    "cd ..",
)
CHECK = ("sha256sum -c --quiet SHA256SUMS", "mprun kernel import {archive} --trust {digest}", "mprun doctor")
LOOK = (
    ("mprun show latest", "metrics, expectations and time lines in the terminal"),
    ("mprun report latest --open", "a page with the figures of the run"),
    ("mprun packets latest", "connections, subflows and packets of the captures"),
    ("mprun wireshark latest", "the captures in Wireshark, with the names of the hosts"),
    ("mprun verify latest", "the run again: it gives the same bytes"),
)
WORDS = (
    ("path", "a pair of addresses of two hosts, and the links between them"),
    ("subflow", "a TCP connection of an MPTCP connection, on one path"),
    ("scheduler", "the part of a sender that chooses the subflow for each packet"),
    ("path manager", "the part of a host that opens and closes subflows"),
    ("goodput", "the payload that arrives, divided by the time"),
    ("claim", "a statement of a lab about the measurements of its runs"),
)
GRADE = "mprun lab check {number} students/* --csv > grades.csv"
# The letters of a command in one line of the printed page.
LETTERS = 88


class LabFacts(Frozen):
    """A lab of a course.

    - folder: the name of its folder.
    - steps: the commands of its steps.
    - questions: the questions for students.
    - build: the command that builds its kernel; None if the lab needs no kernel of its own.
    """

    folder: str
    number: str
    title: str
    aim: str
    steps: tuple[str, ...]
    questions: tuple[str, ...]
    build: str | None


class Facts(Frozen):
    """The facts of a course.

    - version: of mprun.
    - kernel: the version of the experiment kernel.
    - archive, digest: the name of its archive, and the SHA-256 in hexadecimal.
    """

    version: str
    kernel: str
    archive: str
    digest: str
    labs: tuple[LabFacts, ...]

    @property
    def install(self) -> list[str]:
        """The commands that install mprun."""
        return self._fill(INSTALL)

    @property
    def check(self) -> list[str]:
        """The commands that check the course and this machine."""
        return self._fill(CHECK)

    def _fill(self, lines: Sequence[str]) -> list[str]:
        """Return commands with the archive and its digest in their places."""
        return [line.format(archive=self.archive, digest=self.digest) for line in lines]

    @property
    def first(self) -> LabFacts:
        """The lab to begin with: the first one for which no student builds a kernel, or else the first one."""
        return next((lab for lab in self.labs if lab.build is None), self.labs[0])

    @property
    def work(self) -> list[str]:
        """The commands for the lab to begin with."""
        first = self.first
        return [f"cd labs/{first.folder}", *([first.build] if first.build else []), *first.steps, "mprun lab check"]


class ReadmePage(Frozen):
    """The content of the first page, as Markdown. look: the rows of its list. grade: the command for the teacher."""

    TEMPLATE: ClassVar[str] = "course-readme.md"
    facts: Facts
    grade: str
    look: Sequence[tuple[str, str]] = LOOK


def write_readme(facts: Facts) -> str:
    """Return the text of the first page, as Markdown."""
    return render(ReadmePage(facts, GRADE.format(number=facts.first.number))) + "\n"


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


def break_command(command: str) -> list[str]:
    """Return the lines of a command, each but the last with a backslash at its end. All but the first are indented."""
    lines = wrap(command, LETTERS - 4, break_long_words=False, break_on_hyphens=False)
    return [("  " if n else "") + line + (" \\" if n < len(lines) - 1 else "") for n, line in enumerate(lines)]
