# SPDX-License-Identifier: Apache-2.0
"""Write a Drawing as a Mermaid flowchart (mermaid.js.org/syntax/flowchart).

GitHub and GitLab draw such a flowchart inside a Markdown file. Nodes have numbers as ids, because names of hosts such
as `end` and `graph` are keywords of Mermaid.
"""

from __future__ import annotations

from collections.abc import Iterator

from mprun.report import palette
from mprun.report.drawing import Drawing, Edge, Vertex
from mprun.report.palette import INK


def to_mermaid(drawing: Drawing) -> str:
    """Return the whole flowchart as text. Equal drawings give equal text."""
    return "\n".join(_write(drawing)) + "\n"


def _write(drawing: Drawing) -> Iterator[str]:
    yield f"flowchart {'LR' if drawing.reading == 'right' else 'TB'}"
    ids = {vertex.name: f"n{number}" for number, vertex in enumerate(drawing.vertices)}
    for vertex in drawing.vertices:
        yield f"  {ids[vertex.name]}{_node(vertex)}"
    for edge in drawing.edges:
        tail, head = (ids[end] for end in edge.ends)
        yield f"  {tail} {_line(edge)} {head}"
    caption = [f"{_sample(line.style)} {_escape(line.text)}" for line in drawing.key]
    caption += map(_escape, drawing.notes)
    if caption:
        yield f'  caption["{"<br/>".join(caption)}"]'
        yield "  style caption fill:none,stroke:none"
    yield from _styles(drawing)


def _node(vertex: Vertex) -> str:
    left, right = palette.look_of(vertex.kind).brackets
    lines = [_escape(vertex.name), *map(_escape, vertex.lines)]
    return f'{left}"{"<br/>".join(lines)}"{right}:::{vertex.kind or "several"}'


def _line(edge: Edge) -> str:
    stroke = "-.-" if edge.is_backup else "---"
    text = "<br/>".join(map(_escape, filter(None, (edge.name, *edge.lines))))
    return f'{stroke}|"{text}"|' if text else stroke


def _sample(style: int) -> str:
    return f"<span style='color:{palette.STYLES[style].colour}'>━━━</span>"


def _styles(drawing: Drawing) -> Iterator[str]:
    """Write the styles of kinds, and of links by their numbers."""
    for kind in dict.fromkeys(vertex.kind for vertex in drawing.vertices):
        look = palette.look_of(kind)
        yield f"  classDef {kind or 'several'} fill:{look.fill},stroke:{look.line},color:{INK}"
    numbers: dict[str, list[str]] = {}
    for number, edge in enumerate(drawing.edges):
        line = palette.line_of(edge)
        # Only colours that are also visible on a dark page are set. The theme decides the others.
        colour = "" if edge.style is None else f"stroke:{line.colour},"
        numbers.setdefault(f"{colour}stroke-width:{line.width}px", []).append(str(number))
    for stroke, these in numbers.items():
        yield f"  linkStyle {','.join(these)} {stroke}"


def _escape(text: str) -> str:
    """Escape a text with Mermaid's entity codes: #quot; and numbers."""
    return "".join(f"#{ord(letter)};" if letter in '"#<>&`\\' else letter for letter in text)
