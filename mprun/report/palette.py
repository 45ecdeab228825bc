# SPDX-License-Identifier: Apache-2.0
"""How nodes and lines look in every language: by shape, width and dashes, and by colours on top.

The colours are those of Okabe and Ito, which differ to every eye, darkened where text needs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mprun.report.drawing import Edge

INK = "#1a1a1a"
GREY = "#4d5156"


@dataclass(frozen=True)
class Look:
    """How a kind of node looks: graphviz' name of its outline, Mermaid's brackets, a letter like it."""

    outline: str
    brackets: tuple[str, str]
    sign: str
    fill: str
    line: str


@dataclass(frozen=True)
class Line:
    """width: points."""

    colour: str
    width: int


NODES: Mapping[str | None, Look] = {
    "host": Look("box", ("(", ")"), "▢", "#dcebf7", "#0072b2"),
    "router": Look("ellipse", ("([", "])"), "◯", "#fdebd0", "#b35900"),
    "switch": Look("hexagon", ("{{", "}}"), "⬡", "#d9f0e7", "#00795a"),
    "openflow": Look("hexagon", ("[[", "]]"), "⬢", "#a5dac6", "#00795a"),
    "middlebox": Look("box", ("[[", "]]"), "□", "#fff6bf", "#7a6400"),
    None: Look("plaintext", ("[", "]"), "…", "#ffffff", "#ffffff"),
}
OTHER = Look("box", ("[", "]"), "□", "#f5e1ee", "#a3457e")

SHAPED = Line(INK, 2)
UNSHAPED = Line("#8a8f94", 1)
# One for each entry of the key.
STYLES = (Line("#0072b2", 2), Line("#d55e00", 3), Line("#009e73", 1), Line("#cc79a7", 4), Line("#56b4e9", 2))

# Kinds whose name in a drawing is not that in a file.
TITLES: Mapping[str, str] = {"openflow": "OpenFlow switch"}


def look_of(kind: str | None) -> Look:
    return NODES.get(kind, OTHER)


def line_of(edge: Edge) -> Line:
    if edge.style is not None:
        return STYLES[edge.style]
    return SHAPED if edge.is_shaped else UNSHAPED
