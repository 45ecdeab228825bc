# SPDX-License-Identifier: Apache-2.0
"""The look of nodes and lines in all drawing languages: shapes, widths and dashes, with colours in addition.

The colours are those of Okabe and Ito, which people with colour-blindness can distinguish, darkened if text needs it.
Pictures are made in the colours of a light page. `themed` lets a page choose.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from mprun.model.frozen import Frozen
from mprun.reports.drawing import Edge

INK = "#1a1a1a"
GREY = "#4d5156"


class Look(Frozen):
    """The look of a kind of node: graphviz' name of its outline, and a similar letter."""

    outline: str
    sign: str
    fill: str
    line: str


class LineStyle(Frozen):
    """The look of a line. width: in points."""

    colour: str
    width: int


NODES: Mapping[str | None, Look] = {
    "host": Look("box", "▢", "#dcebf7", "#0072b2"),
    "router": Look("ellipse", "◯", "#fdebd0", "#b35900"),
    "switch": Look("hexagon", "⬡", "#d9f0e7", "#00795a"),
    "openflow": Look("hexagon", "⬢", "#a5dac6", "#00795a"),
    "middlebox": Look("box", "□", "#fff6bf", "#7a6400"),
    None: Look("plaintext", "…", "#ffffff", "#ffffff"),
}
OTHER = Look("box", "□", "#f5e1ee", "#a3457e")

SHAPED = LineStyle(INK, 2)
UNSHAPED = LineStyle("#8a8f94", 1)
# A style for each entry of the key.
STYLES = (
    LineStyle("#0072b2", 2),
    LineStyle("#d55e00", 3),
    LineStyle("#009e73", 1),
    LineStyle("#cc79a7", 4),
    LineStyle("#56b4e9", 2),
)

# Kinds that have another name in a drawing than in a file.
TITLES: Mapping[str, str] = {"openflow": "OpenFlow switch"}

PAPER, GRID = "#ffffff", "#d9dcdf"
# Colours of data. p0, p1 ... are for paths, in the order of the network. f0, f1 ... are for flows and everything else;
# they are Paul Tol's "muted", so that no flow looks like a path. n is for data without a side.
TONES: Mapping[str, str] = {
    "p0": "#0072b2",
    "p1": "#d55e00",
    "p2": "#009e73",
    "p3": "#cc79a7",
    "p4": "#56b4e9",
    "p5": "#c98a00",
    "f0": "#332288",
    "f1": "#882255",
    "f2": "#44aa99",
    "f3": "#999933",
    "f4": "#cc6677",
    "f5": "#117733",
    "n": GREY,
}
PATH_TONES = tuple(tone for tone in TONES if tone.startswith("p"))
FLOW_TONES = tuple(tone for tone in TONES if tone.startswith("f"))

# Every colour of a picture, and its replacement on a dark page.
DARK: Mapping[str, str] = {
    PAPER: "#15181c",
    INK: "#e9ebee",
    GREY: "#a9b0b8",
    GRID: "#343a41",
    UNSHAPED.colour: "#7d848b",
    "#0072b2": "#5cb3ee",
    "#d55e00": "#ff8f45",
    "#009e73": "#35c69b",
    "#cc79a7": "#e49cc6",
    "#56b4e9": "#a5d9fb",
    "#c98a00": "#f0c14d",
    "#332288": "#a9a0f5",
    "#882255": "#e57fb2",
    "#44aa99": "#6fd3c3",
    "#999933": "#cbcb62",
    "#cc6677": "#f09aa7",
    "#117733": "#63c483",
    "#dcebf7": "#16324a",
    "#fdebd0": "#4a3316",
    "#b35900": "#f0a35c",
    "#d9f0e7": "#12382c",
    "#a5dac6": "#1d5a46",
    "#00795a": "#43c39c",
    "#fff6bf": "#413a12",
    "#7a6400": "#d9c04d",
    "#f5e1ee": "#45203a",
    "#a3457e": "#e291c3",
}
# A colour in a tag; a text between tags may look like a colour.
_COLOUR = re.compile("#[0-9a-f]{6}(?=[^<>]*>)")


def themed(svg: str) -> str:
    """Return the picture with CSS variables as colours. `variables` has their values."""
    return _COLOUR.sub(lambda found: f"var(--{found[0][1:]})" if found[0] in DARK else found[0], svg)


def variables(is_dark: bool) -> str:
    """Return the colours of a theme as CSS custom properties."""
    return " ".join(f"--{colour[1:]}: {dark if is_dark else colour};" for colour, dark in DARK.items())


def look_of(kind: str | None) -> Look:
    return NODES.get(kind, OTHER)


def line_of(edge: Edge) -> LineStyle:
    if edge.style is not None:
        return STYLES[edge.style]
    return SHAPED if edge.is_shaped else UNSHAPED
