# SPDX-License-Identifier: Apache-2.0
"""Write a Drawing in the DOT language (graphviz.org/doc/info/lang.html), and let graphviz' `dot` paint it.

A label is a node in the middle of its link: a table through which the line passes. So it is never beside the wrong one
of two parallel lines, and `dot` keeps it clear of everything else. If the links of a tree need no labels, `layout`
computes the places of its nodes.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Iterator
from typing import Literal

from mprun.errors import MachineError, RunError
from mprun.reports import layout, palette
from mprun.reports.drawing import Drawing, Edge, Vertex, node_width
from mprun.reports.palette import GREY, INK, LineStyle

FONT = "Helvetica,Arial,sans-serif"
SMALL = 9

# Points: the height of a node, of each line below its name, and the distances of layers (downwards, and to the right).
NODE_HEIGHT = 26.0
LINE_HEIGHT = 14.0
LAYER_HEIGHT = 34.0
LAYER_WIDTH = 180.0

# An image as wide as a page then has 900 pixels.
PIXELS_PER_INCH = 192

# The time of creation in a PDF. Its length must not change, because the PDF stores offsets.
_DATE = re.compile(rb"(?<=/CreationDate \(D:)\d{14}")


def to_dot(drawing: Drawing) -> str:
    """Return the whole graph as text. Equal drawings give equal text."""
    return "\n".join(_write(drawing)) + "\n"


def render(dot: str, image: Literal["svg", "png", "pdf"]) -> bytes:
    """Return the image, the same bytes for the same text on this machine. Raises MachineError without graphviz."""
    argv = ["dot", f"-T{image}", *([f"-Gdpi={PIXELS_PER_INCH}"] if image == "png" else [])]
    try:
        done = subprocess.run(argv, input=dot.encode(), capture_output=True, check=False)
    except FileNotFoundError as error:
        raise MachineError(
            f"graphviz, which draws {image}, is not installed: apt-get install graphviz (--format dot needs nothing)"
        ) from error
    if done.returncode:
        raise RunError(f"{' '.join(argv)}: status {done.returncode}: {done.stderr.decode(errors='replace').strip()}")
    return _DATE.sub(b"20000101000000", done.stdout) if image == "pdf" else done.stdout


def _write(drawing: Drawing) -> Iterator[str]:
    is_across = drawing.reading == "right"
    yield f"graph {_quote(drawing.name)} {{"
    yield f"  graph [{_engine(drawing)}]"
    yield f'  graph [pad=0.15 bgcolor="white" labelloc=b labeljust=l fontname="{FONT}" fontsize={SMALL}]'
    yield f'  node [fontname="{FONT}" fontsize=11 fontcolor="{INK}" height=0.34 width=0.4 margin="0.09,0.04"]'
    # A label makes its link two ranks long. The other links must be as long, so that their ends are in line.
    yield f"  edge [minlen={_ranks(drawing)}]"
    positions = _positions(drawing) if _is_plain_tree(drawing) else {}
    for vertex in drawing.vertices:
        yield f"  {_quote(vertex.name)} [{_look(vertex)}{positions.get(vertex.name, '')}]"
    if not positions:
        for layer in drawing.layers:
            yield f"  {{rank=same; edge [style=invis minlen=0]; {' -- '.join(map(_quote, layer))}}}"
    for number, edge in enumerate(drawing.edges):
        yield from _edge(edge, f"link {number}", is_across != edge.is_level)
    yield from _caption(drawing)
    yield "}"


def _engine(drawing: Drawing) -> str:
    if _is_plain_tree(drawing):
        pairs = [edge.ends for edge in drawing.edges]
        lines = "line" if len(set(pairs)) == len(pairs) else "spline"  # straight lines would hide each other
        return f"layout=neato inputscale=72 splines={lines}"
    if drawing.reading == "right":
        # Lines that fan out need room.
        return f"rankdir=LR nodesep=0.16 ranksep={min(1.2, 0.3 + len(drawing.key) * len(drawing.vertices) / 100):g}"
    return f"rankdir=TB nodesep=0.1 ranksep={0.42 / _ranks(drawing):g}"


def _ranks(drawing: Drawing) -> int:
    return 2 if any(edge.name for edge in drawing.edges) else 1


def _is_plain_tree(drawing: Drawing) -> bool:
    return bool(drawing.layers) and _ranks(drawing) == 1


def _positions(drawing: Drawing) -> dict[str, str]:
    """Return fixed places for graphviz (`!`), in points."""
    across = drawing.reading == "right"
    heights = {vertex.name: NODE_HEIGHT + LINE_HEIGHT * len(vertex.lines) for vertex in drawing.vertices}
    sizes = heights if across else {vertex.name: node_width(vertex) for vertex in drawing.vertices}
    centres = layout.lay_out_tree(drawing.layers, [edge.ends for edge in drawing.edges], sizes)
    depth = 0.0
    positions = {}
    for layer in drawing.layers:
        for name in layer:
            x, y = (-depth, -centres[name]) if across else (centres[name], depth)
            positions[name] = f' pos="{x:.1f},{y:.1f}!"'
        depth += LAYER_WIDTH if across else LAYER_HEIGHT + max(heights.values())
    return positions


def _look(vertex: Vertex) -> str:
    shape = palette.look_of(vertex.kind)
    name = f"<b>{_escape(vertex.name)}</b>" if vertex.kind else _escape(vertex.name)
    style = "rounded,filled" if vertex.kind == "host" else "filled"
    look = f'shape={shape.outline} style="{style}" fillcolor="{shape.fill}" color="{shape.line}"'
    return f"{look} label=<{'<br/>'.join([name, *map(_small, vertex.lines)])}>"


def _edge(edge: Edge, label: str, is_across: bool) -> Iterator[str]:
    """Write one line, or a line on each side of the label. is_across: the line goes from left to right."""
    tail, head = map(_quote, edge.ends)
    line = palette.line_of(edge)
    look = f'color="{line.colour}" penwidth={line.width}'
    if edge.style is not None or not edge.name:
        look += f" tooltip={_quote(edge.full)}"
    if edge.is_backup:
        look += " style=dashed"
    if not edge.name:
        yield f"  {tail} -- {head} [{look}{' minlen=0' if edge.is_level else ''}]"
        return
    label = _quote(label)
    yield f"  {label} [shape=plaintext margin=0 height=0 width=0 label=<{_label(edge, line, is_across)}>]"
    if edge.is_level:
        yield f"  {{rank=same; {tail}; {label}; {head}}}"
    if edge.is_level and not is_across:
        yield f"  {tail} -- {label} -- {head} [{look} minlen=1]"
        return
    before, after = ("w", "e") if is_across else ("n", "s")
    yield f"  {tail} -- {label}:line:{before} [{look} minlen=1 headclip=false]"
    yield f"  {label}:line:{after} -- {head} [{look} minlen=1 tailclip=false]"


def _label(edge: Edge, line: LineStyle, is_across: bool) -> str:
    """Return the label: name, line and values from top to bottom. The line is at the left if it goes downwards.

    `dot` does not draw a straight line downwards within a rank and through the middle of a label. Such a line is
    interrupted at the label.
    """
    name = f"<b>{_escape(edge.name)}</b>" if edge.is_shaped else _small(edge.name)
    if edge.is_level and not is_across:
        return "<br/>".join([name, *map(_small, edge.lines)])
    values = "<br/>".join(map(_small, edge.lines))
    cell = _line(line, edge.is_backup, is_across, 'port="line"')
    if is_across:
        rows = [f"<td>{name}</td>", cell, *([f"<td>{values}</td>"] if values else [])]
        cells = "".join(f"<tr>{row}</tr>" for row in rows)
    else:
        text = '<br align="left"/>'.join([name, *map(_small, edge.lines)]) + '<br align="left"/>'
        cells = f"<tr>{cell}<td>{text}</td></tr>"
    return f'<table border="0" cellspacing="0" cellpadding="1">{cells}</table>'


def _line(line: LineStyle, is_dashed: bool, is_across: bool, more: str) -> str:
    """Return a cell that looks like a line. A dashed line is one side of a cell, because a filling cannot be dashed."""
    if is_dashed:
        look = f'border="{line.width}" sides="{"b" if is_across else "l"}" style="dashed"'
    else:
        look = f'{"height" if is_across else "width"}="{line.width}" bgcolor="{line.colour}"'
        if line.width > 1:  # the fill ends half a point too early
            look += f' border="1" sides="{"lr" if is_across else "tb"}"'
    return f'<td {more} cellpadding="0" color="{line.colour}" {look}></td>'


def _caption(drawing: Drawing) -> Iterator[str]:
    """Write what is below the picture: kinds of nodes, key, notes."""
    rows = []
    for entry in drawing.key:
        more = 'width="30"' if entry.is_backup else 'width="30" fixedsize="true"'
        sample = _line(palette.STYLES[entry.style], entry.is_backup, True, more)
        sample = f'<td><table border="0" cellspacing="0" cellpadding="0"><tr>{sample}</tr></table></td>'
        rows.append(f'{sample}<td align="left">{_escape(entry.text)}</td>')
    kinds = dict.fromkeys(vertex.kind for vertex in drawing.vertices if vertex.kind)
    if len(kinds) > 1:
        rows.append(f'<td colspan="2" align="left">{_signs(kinds)}</td>')
    rows += [f'<td colspan="2" align="left">{_small(note)}</td>' for note in drawing.notes]
    if rows:
        cells = "".join(f"<tr>{row}</tr>" for row in rows)
        yield f'  label=<<table border="0" cellspacing="2" cellpadding="1">{cells}</table>>'


def _signs(kinds: Iterable[str]) -> str:
    """Return the meaning of the nodes' shapes."""
    shapes = ((kind, palette.look_of(kind)) for kind in kinds)
    return "&nbsp;&nbsp; ".join(
        f'<font color="{shape.line}">{shape.sign}</font> {_small(palette.TITLES.get(kind, kind))}'
        for kind, shape in shapes
    )


def _small(text: str) -> str:
    return f'<font point-size="{SMALL}" color="{GREY}">{_escape(text)}</font>'


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _quote(text: str) -> str:
    """Return a quoted ID. A backslash is doubled, because `dot` would take it for an escape."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
