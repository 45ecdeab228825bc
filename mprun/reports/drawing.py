# SPDX-License-Identifier: Apache-2.0
"""The content of a network drawing: nodes, links, labels, a key, notes. Other modules write it in a language.

A link has its values as its label, unless many links have the same values. Then the key has these values once, and the
style of a link's line shows its entry in the key.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Literal

from mprun.model.frozen import Frozen
from mprun.model.spec import Addressing, Direction, Flow, Forwarding, LinkSpec, Middlebox, NodeKind, TopologySpec
from mprun.model.units import TIME
from mprun.model.wording import describe, say_changes
from mprun.reports import layout
from mprun.reports.layout import Layout
from mprun.safety.text import name_some
from mprun.workloads.tool import receiver_of

# If more links than this have the same values, they share an entry. There are as many entries as line styles.
MOST_LABELS = 4
STYLES = 5


class CommonValues(Frozen):
    """The common values of links. `ahead` is the direction from the first to the second end as drawn.

    is_sideways: the directions differ, and the arrows of other links do not fit. addressing: None if it is the
    topology's.
    """

    ahead: Direction
    back: Direction
    is_backup: bool
    is_sideways: bool
    addressing: Addressing | None

    @property
    def is_shaped(self) -> bool:
        return self.ahead.is_shaped or self.back.is_shaped


def values_of(link: LinkSpec, layout: Layout) -> CommonValues:
    ahead, back = (link.reverse, link.forward) if link.name in layout.turned else (link.forward, link.reverse)
    is_sideways = link.name in layout.level and ahead != back
    return CommonValues(ahead, back, link.backup, is_sideways, link.addressing)


def count_common(topology: TopologySpec, layout: Layout) -> dict[CommonValues, int]:
    """Return the values that many shaped links share, in the order of the file, with the number of these links."""
    found = (values_of(link, layout) for link in topology.links)
    counts = Counter(values for values in found if values.is_shaped and not values.is_sideways)
    chosen = {values for values, count in counts.most_common(STYLES) if count > MOST_LABELS}
    return {values: count for values, count in counts.items() if values in chosen}


Reading = Literal["right", "down"]
VertexKind = NodeKind | Literal["middlebox", "openflow"]

# In a network with more links than this, links without a label of values have no name either.
MOST_NAMES = 24
MOST_FLOWS = 8
MOST_LETTERS = 80

# Points: the page (960 pixels), a letter, the space around a node, and the space around a label.
PAGE_WIDTH = 720.0
LETTER_WIDTH = 4.4
NAME_LETTER_WIDTH = 6.1
NODE_MARGIN = 13.0
LEAST_NODE_WIDTH = 29.0
LABEL_MARGIN = 43.0

# The text below the name of an OpenFlow switch.
_MODES: Mapping[Forwarding, str] = {
    "learning": "learning",
    "flows": "static flows",
    "multipath": "multipath",
    "reactive": "controller",
}

FAMILIES: Mapping[Addressing, str] = {"ipv4": "IPv4", "ipv6": "IPv6", "both": "IPv4 and IPv6"}
ARROWS: Mapping[Reading, tuple[str, str]] = {"right": ("→", "←"), "down": ("↓", "↑")}


class Vertex(Frozen):
    """A node. kind: None if it stands for several nodes, as `name` says. lines: the text below the name."""

    name: str
    kind: VertexKind | None
    lines: tuple[str, ...] = ()


class Edge(Frozen):
    """A link, from the end that comes first in the picture. name and lines are its label.

    style: the style of its entry in the key. full: all its properties as text.
    """

    ends: layout.EdgeEnds
    name: str
    lines: tuple[str, ...]
    full: str
    is_shaped: bool
    is_backup: bool
    is_level: bool
    style: int | None


class KeyLine(Frozen):
    """An entry of the key, in words."""

    style: int
    is_backup: bool
    text: str


class Drawing(Frozen):
    """A drawing of a network.

    - reading: the direction from an edge's first end to its second.
    - layers: nodes in the order in which they must be side by side.
    - notes: the text below the picture, by lines.
    """

    name: str
    reading: Reading
    vertices: tuple[Vertex, ...]
    edges: tuple[Edge, ...]
    layers: tuple[tuple[str, ...], ...]
    key: tuple[KeyLine, ...]
    notes: tuple[str, ...]


def draw(topology: TopologySpec, traffic: Sequence[Flow] = (), with_addresses: bool = False) -> Drawing:
    """Decide what to show of a resolved topology, and of the traffic of an experiment."""
    sketch = _Sketch(topology, with_addresses)
    # A tree is read downwards and other networks to the right, unless this is too wide.
    reading: Reading = "down" if sketch.is_tree == sketch.fits_page() else "right"
    vertices, edges, layers = tuple(sketch.vertices()), tuple(sketch.edges(reading)), tuple(sketch.layers())
    key, notes = tuple(sketch.key_lines(reading)), tuple(_notes(topology, traffic))
    return Drawing(topology.name, reading, vertices, edges, layers, key, notes)


class _Sketch:
    """A topology with its layout and key."""

    def __init__(self, topology: TopologySpec, with_addresses: bool) -> None:
        self._topology = topology
        self._with_addresses = with_addresses
        self._layout = layout.lay_out(topology)
        self._key = count_common(topology, self._layout)
        self._styles = {values: style for style, values in enumerate(self._key)}
        runs = [] if with_addresses or self.is_tree else layout.find_runs(topology, self._layout, self._are_alike)
        self._runs = {f"{run[0]} … {run[-1]}": run for run in runs}
        self._stand_ins = {node: name for name, run in self._runs.items() for node in run}

    @property
    def is_tree(self) -> bool:
        return self._layout.is_tree

    def fits_page(self) -> bool:
        """Return True if the picture is narrow enough: the longest way to the right, or the widest layer of a tree."""
        widths = {vertex.name: node_width(vertex) for vertex in self.vertices()}
        if self.is_tree:
            return max(sum(widths[node] + layout.GAP for node in layer) for layer in self.layers()) <= PAGE_WIDTH
        edges = [edge for edge in self.edges("right") if not edge.is_level]
        labels = [max(map(len, (edge.name, *edge.lines))) * LETTER_WIDTH + LABEL_MARGIN for edge in edges]
        lengths = [(edge.ends, label + widths[edge.ends[1]]) for edge, label in zip(edges, labels, strict=True)]
        return layout.longest_way(lengths) <= PAGE_WIDTH

    def vertices(self) -> Iterator[Vertex]:
        for name, kind in self._topology.nodes.items():
            stand_in = self._stand_ins.get(name)
            box = self._topology.middleboxes.get(name)
            switch = self._topology.switches.get(name)
            if box is not None:
                yield Vertex(name, "middlebox", (*_describe_middlebox(box), *self._addresses_of(name)))
            elif switch is not None and stand_in is None:
                yield Vertex(name, "openflow", (_MODES[switch.mode],))
            elif stand_in is None:
                yield Vertex(name, kind, tuple(self._addresses_of(name)))
            elif name == self._runs[stand_in][0]:
                yield Vertex(stand_in, None, (f"{len(self._runs[stand_in])} more {kind}s",))

    def edges(self, reading: Reading) -> Iterator[Edge]:
        for link in self._topology.links:
            tail, head = (self._stand_ins.get(end, end) for end in self._layout.ends(link))
            if tail != head:
                yield self._edge(link, (tail, head), reading)

    def layers(self) -> list[tuple[str, ...]]:
        if not self.is_tree:
            return []
        return layout.order_layers(self._topology.nodes, [self._layout.ends(link) for link in self._topology.links])

    def key_lines(self, reading: Reading) -> Iterator[KeyLine]:
        total = len(self._topology.links)
        for values, links in self._key.items():
            texts = describe(values.ahead, values.back, *ARROWS[reading])
            who = "every link" if links == total else f"{links} links"
            yield KeyLine(self._styles[values], values.is_backup, f"{who}: {', '.join([*texts, *_remarks(values)])}")

    def _edge(self, link: LinkSpec, ends: layout.EdgeEnds, reading: Reading) -> Edge:
        values = values_of(link, self._layout)
        style = self._styles.get(values)
        is_level = link.name in self._layout.level
        signs = (f"{ends[0]} →", f"{ends[1]} →") if values.is_sideways else ARROWS[reading]
        changes = say_changes([change.at_ns for change in self._topology.changes if change.link == link.name])
        lines = [*describe(values.ahead, values.back, *signs), *_remarks(values), *changes]
        full = f"{link.name}: {', '.join(lines) or 'as fast as the machine'}"
        if style is not None:
            lines = changes
        elif self._with_addresses:
            lines += self._addresses_on(link)
        name = link.name if lines or self._needs_name(link) else ""
        return Edge(ends, name, tuple(lines), full, values.is_shaped, link.backup, is_level, style)

    def _needs_name(self, link: LinkSpec) -> bool:
        """Return True if the name is new information. A name made of the link's ends is not."""
        is_known = link.name in link.ends or all(end in link.name for end in link.ends)
        return len(self._topology.links) <= MOST_NAMES and not is_known

    def _addresses_on(self, link: LinkSpec) -> Iterator[str]:
        """Return the addresses of a link's ends in drawing order, a line for each family, if both ends have one."""
        ends = link.addresses[::-1] if link.name in self._layout.turned else link.addresses
        for first, second in zip(*ends, strict=False):
            yield f"{first.split('/')[0]} – {second}"

    def _addresses_of(self, node: str) -> Iterator[str]:
        """Return the addresses of a node that no link shows."""
        if self._with_addresses:
            for link in self._topology.links:
                carried = all(link.addresses) and values_of(link, self._layout) not in self._key
                for end, addresses in zip(link.ends, link.addresses, strict=True):
                    if end == node and not carried:
                        yield from addresses

    def _are_alike(self, one: LinkSpec, other: LinkSpec) -> bool:
        return values_of(one, self._layout) == values_of(other, self._layout)


def _remarks(values: CommonValues) -> Iterator[str]:
    """Yield the remarks about links that do not depend on the direction."""
    if values.addressing is not None:
        yield FAMILIES[values.addressing]
    if values.is_backup:
        yield "backup"


def node_width(vertex: Vertex) -> float:
    """Return the approximate width of a node in points."""
    widest = max([len(vertex.name) * NAME_LETTER_WIDTH, *(len(line) * LETTER_WIDTH for line in vertex.lines)])
    return max(LEAST_NODE_WIDTH, widest + NODE_MARGIN)


def _notes(topology: TopologySpec, traffic: Sequence[Flow]) -> Iterator[str]:
    yield from wrap(topology.description, MOST_LETTERS)
    for flow in traffic[:MOST_FLOWS]:
        yield from wrap(_say(flow), MOST_LETTERS)
    if len(traffic) > MOST_FLOWS:
        yield f"and {len(traffic) - MOST_FLOWS} more flows"


def _say(flow: Flow) -> str:
    """Return a text such as `bulk: iperf3 over MPTCP, client → server, from 0 s for 10 s`, or `2 s after web`.

    The protocol is left out if the tool has only one. The arrow is the direction of the data.
    """
    says_protocol = flow.tool in ("ping", flow.protocol)
    tool = flow.tool if says_protocol else f"{flow.tool} over {flow.protocol.upper()}"
    start = TIME.render(flow.start_ns, "people") if flow.start_ns else ""
    when = f"from {start or '0 s'}"
    if flow.after is not None:
        moment = "the start of " if flow.after.of == "start" else ""
        when = f"{start} after {moment}{flow.after.flow}".lstrip()
    length = "" if flow.duration_ns is None else f" for {TIME.render(flow.duration_ns, 'people')}"
    family = "" if flow.family is None else f" over {FAMILIES[flow.family]}"
    arrow = "←" if receiver_of(flow) == flow.source else "↔" if flow.options.get("bidirectional") else "→"
    return f"{flow.name}: {tool}, {flow.source} {arrow} {flow.destination}{family}, {when}{length}"


MOST_INSIDE = 3


def _describe_middlebox(box: Middlebox) -> Iterator[str]:
    """Yield a line for each behaviour of a middlebox, for the text below its name."""
    if box.nat:
        yield f"NAT, inside: {name_some(box.nat.inside, MOST_INSIDE)}"
    if box.firewall:
        yield f"firewall, inside: {name_some(box.firewall.inside, MOST_INSIDE)}"
    if box.strip:
        yield f"strips {', '.join(option.upper() for option in box.strip)}"
    if box.alter:
        yield f"alters {', '.join(option.upper() for option in box.alter)}"
    if box.rewrite_sequence:
        yield "rewrites sequence numbers" + ("" if box.rewrite_sequence.sack else ", not SACK")
    if box.proxy:
        ports = ", ".join(map(str, box.proxy.ports))
        yield f"TCP proxy, port {ports}" if ports else "TCP proxy"
