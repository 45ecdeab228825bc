# SPDX-License-Identifier: Apache-2.0
"""The hand-out of a course: two pages A4 as PDF. The first page says what to type, the second describes the labs.

matplotlib writes it, so no other program is needed. With the same matplotlib, equal facts give equal bytes. A page
whose text does not fit is set in smaller letters.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from functools import cache

import matplotlib as mpl
from matplotlib.backends.backend_pdf import PdfPages
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import FancyBboxPatch, Rectangle
from matplotlib.textpath import text_to_path

from mprun.labs.course.first_page import CHECK, INSTALL, LOOK, WORDS, Facts, LabFacts
from mprun.reports.palette import GREY, GRID, INK, PAPER, TONES

# A4 in points (1/72 inch), and its margins.
WIDTH, HEIGHT = 210 / 25.4 * 72, 297 / 25.4 * 72
MARGIN, FOOT = 48.0, 46.0
BAND = 78.0
BLUE = TONES["p0"]
SHADE = "#f2f5f8"
SANS, MONO = "DejaVu Sans", "DejaVu Sans Mono"
_SETTINGS = {"pdf.fonttype": 42, "font.family": SANS, "text.parse_math": False}
_METADATA = {"CreationDate": None, "Producer": None, "Creator": None, "Title": "Labs with mprun"}
# Steps by which letters shrink until a page fits.
SHRINK = 0.95

Fill = Callable[["Sheet"], None]


class Sheet:
    """A page that is filled from top to bottom. scale: the size of letters and gaps; 1 is the intended size."""

    def __init__(self, scale: float) -> None:
        self.scale = scale
        self.figure = Figure(figsize=(WIDTH / 72, HEIGHT / 72), facecolor=PAPER)
        self.y = HEIGHT - MARGIN

    @property
    def is_over(self) -> bool:
        """Return whether the text reaches into the foot of the page."""
        return self.y < FOOT

    def write(
        self,
        x: float,
        text: str,
        points: float,
        *,
        font: str = SANS,
        weight: str = "normal",
        colour: str = INK,
        right: bool = False,
    ) -> None:
        """Write a line at the current height, from x points on, or up to x."""
        self.figure.text(
            x / WIDTH,
            self.y / HEIGHT,
            text,
            fontsize=points,
            family=font,
            weight=weight,
            color=colour,
            ha="right" if right else "left",
            va="baseline",
        )

    def band(self, title: str, subtitle: str) -> None:
        """Draw the coloured head of a page."""
        self.figure.add_artist(Rectangle((0, 1 - BAND / HEIGHT), 1, BAND / HEIGHT, color=BLUE, linewidth=0))
        self.y = HEIGHT - 42
        self.write(MARGIN, title, 23, weight="bold", colour=PAPER)
        self.y = HEIGHT - 62
        self.write(MARGIN, subtitle, 9.5, colour=PAPER)
        self.y = HEIGHT - BAND - 8

    def head(self, text: str) -> None:
        """Write the heading of a section."""
        self.y -= 24 * self.scale
        self.write(MARGIN, text, 13 * self.scale, weight="bold", colour=BLUE)
        self.y -= 4 * self.scale

    def paragraph(self, text: str, x: float = MARGIN, points: float = 9.5, colour: str = INK) -> None:
        """Write a paragraph over the width of the page from x points on."""
        size = points * self.scale
        for line in wrap(text, size, WIDTH - MARGIN - x):
            self.y -= 1.45 * size
            self.write(x, line, size, colour=colour)
        self.y -= 3 * self.scale

    def commands(self, lines: Sequence[str]) -> None:
        """Write commands in a shaded box. A line that is too long is continued as the shell allows."""
        size = 8.6 * self.scale
        room = WIDTH - 2 * MARGIN - 20
        broken = [part for line in lines for part in break_command(line, size, room)]
        height = (len(broken) * 1.5 + 0.9) * size
        self.y -= 4 * self.scale
        self.figure.add_artist(
            FancyBboxPatch(
                (MARGIN / WIDTH, (self.y - height) / HEIGHT),
                1 - 2 * MARGIN / WIDTH,
                height / HEIGHT,
                boxstyle="square,pad=0",
                facecolor=SHADE,
                edgecolor=GRID,
                linewidth=0.6,
            )
        )
        self.y -= 0.25 * size
        for part in broken:
            self.y -= 1.5 * size
            self.write(MARGIN + 10, part, size, font=MONO)
        self.y -= 0.65 * size + 3 * self.scale

    def pair(self, name: str, what: str, font: str = MONO) -> None:
        """Write a command or a word, and its meaning, in two columns."""
        size = 8.6 * self.scale
        self.y -= 1.6 * size
        self.write(MARGIN + 10, name, size, font=font)
        self.write(MARGIN + 180 * self.scale, what, 9.2 * self.scale, colour=GREY)

    def lab(self, lab: LabFacts) -> None:
        """Write a lab: its number in the margin, its title, and its aim."""
        size = 10.2 * self.scale
        left = MARGIN + 30 * self.scale
        label, small = f"labs/{lab.folder}", 7.6 * self.scale
        room = WIDTH - MARGIN - left - width_of(label, small, MONO) - 12
        self.y -= 19 * self.scale
        self.write(MARGIN, lab.number, size * 1.15, weight="bold", colour=BLUE)
        self.write(WIDTH - MARGIN, label, small, font=MONO, colour=GREY, right=True)
        for n, line in enumerate(wrap(lab.title, size, room, weight="bold")):
            self.y -= 1.35 * size if n else 0
            self.write(left, line, size, weight="bold")
        self.paragraph(lab.aim, left, 8.8)
        self.y += 1.5 * self.scale

    def questions(self, lab: LabFacts) -> None:
        """Write the questions of a lab."""
        left = MARGIN + 30 * self.scale
        for text in lab.questions:
            self.y -= 2 * self.scale
            before = self.y
            self.paragraph(text, left + 12 * self.scale, 8.8)
            after, self.y = self.y, before - 1.45 * 8.8 * self.scale
            self.write(left, "?", 8.8 * self.scale, weight="bold", colour=BLUE)
            self.y = after

    def rules(self, title: str, gap: float = 22.0, least: int = 3) -> None:
        """Draw lines to write on down to the foot of the page, if it has room for at least `least` of them."""
        if self.y - 40 - FOOT < least * gap:
            return
        self.head(title)
        self.y -= 4
        while self.y - gap > FOOT:
            self.y -= gap
            self.rule()

    def rule(self) -> None:
        """Draw a line across the page at the current height."""
        corner = (MARGIN / WIDTH, self.y / HEIGHT)
        self.figure.add_artist(Rectangle(corner, 1 - 2 * MARGIN / WIDTH, 0.6 / HEIGHT, color=GRID, linewidth=0))

    def foot(self, text: str, number: int) -> None:
        """Write the foot of the page."""
        self.y = 36
        self.rule()
        self.y = 24
        self.write(MARGIN, text, 7.6, colour=GREY)
        self.write(WIDTH - MARGIN, f"{number} / 2", 7.6, colour=GREY, right=True)


def draw_handout(facts: Facts) -> bytes:
    """Return the hand-out as PDF. The questions of the labs are in it if they fit without smaller letters."""
    target = io.BytesIO()
    foot = f"mprun {facts.version}, experiment kernel Linux {facts.kernel}"
    with mpl.rc_context(_SETTINGS), PdfPages(target, metadata=_METADATA) as pages:  # type: ignore[arg-type]
        second = Sheet(1.0)
        _fill_second(second, facts, with_questions=True)
        if second.is_over:
            second = _fit(lambda sheet: _fill_second(sheet, facts, with_questions=False))
        second.rules("Notes")
        for number, sheet in enumerate((_fit(lambda sheet: _fill_first(sheet, facts)), second), 1):
            sheet.foot(foot, number)
            pages.savefig(sheet.figure)
    return target.getvalue()


def _fit(fill: Fill) -> Sheet:
    """Return a page in the largest letters with which it fits."""
    scale = 1.0
    while True:
        sheet = Sheet(scale)
        fill(sheet)
        if not sheet.is_over:
            return sheet
        scale *= SHRINK


def _fill_first(sheet: Sheet, facts: Facts) -> None:
    first = facts.first
    sheet.band("Labs with mprun", "Transport protocols on several paths, on the real Linux network stack")
    sheet.head("Get ready")
    sheet.paragraph(
        "You need Linux on x86-64, or one of the ways that mprun's page on machines has for Windows and macOS. "
        "If mprun is not installed, type this in the folder of the course. ADDRESS is where your teacher keeps mprun."
    )
    sheet.commands([facts.fill(line) for line in INSTALL])
    sheet.paragraph(f"If mprun {facts.version} is installed, type this in the folder of the course:")
    sheet.commands([facts.fill(line) for line in CHECK])
    sheet.paragraph(
        "The kernel runs with your rights. So the digest must be the one that your teacher shows or prints. The last "
        "command says whether this machine can run the labs, and what to do if it cannot."
    )
    sheet.head("Work in a lab")
    build = [first.build] if first.build else []
    sheet.commands([f"cd labs/{first.folder}", *build, *first.steps, "mprun lab check"])
    sheet.paragraph(
        "README.md in the folder of a lab has its network, its commands and its questions. The last command says which "
        "steps are left and which claims hold. A run takes seconds and needs no root. All see the same packets."
    )
    sheet.head("Look at a run")
    for command, what in LOOK:
        sheet.pair(command, what)
    sheet.y -= 4 * sheet.scale
    sheet.head("Hand in")
    sheet.paragraph("Hand in the whole folder of the lab, with its folder runs: the runs are graded.")
    sheet.head("Words")
    for word, meaning in WORDS:
        sheet.pair(word, meaning, SANS)


def _fill_second(sheet: Sheet, facts: Facts, with_questions: bool) -> None:
    sheet.y = HEIGHT - MARGIN + 14
    sheet.head("The labs")
    for lab in facts.labs:
        sheet.lab(lab)
        if with_questions:
            sheet.questions(lab)


def wrap(text: str, points: float, width: float, font: str = SANS, weight: str = "normal") -> list[str]:
    """Return lines of words, none wider than `width` points unless it is one word."""
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and width_of(longer, points, font, weight) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def break_command(command: str, points: float, width: float) -> list[str]:
    """Return the lines of a command, each but the last with a backslash at its end. All but the first are indented."""
    lines = wrap(command, points, width - width_of("   \\", points, MONO), MONO)
    return [("  " if n else "") + line + (" \\" if n < len(lines) - 1 else "") for n, line in enumerate(lines)]


def width_of(text: str, points: float, font: str, weight: str = "normal") -> float:
    """Return the width of a text in points."""
    return _width_at_10(text, font, weight) * points / 10


@cache
def _width_at_10(text: str, font: str, weight: str) -> float:
    letters = FontProperties(family=font, weight=weight, size=10)
    width, _, _ = text_to_path.get_text_width_height_descent(text, letters, ismath=False)
    return float(width)
