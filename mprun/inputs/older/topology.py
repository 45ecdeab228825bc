# SPDX-License-Identifier: Apache-2.0
"""An older topology as the tree of a topology file. `MultiIf` is `multi-path`, and `MultiIfMultiClient` is
`multi-client`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from fractions import Fraction

from yaml.nodes import MappingNode, Node

from mprun.inputs.older import netem
from mprun.inputs.older.lines import OlderEntry
from mprun.inputs.older.older_file import NodeValue, OlderFile, with_unit
from mprun.model.frozen import Frozen

_GENERATORS = {"MultiIf": "multi-path", "MultiIfMultiClient": "multi-client"}
_CANNOT = {"ECMPLike": "write its nodes and links as a YAML topology, see 'mprun new --topology graph'"}

_LINK = re.compile(r"path_(c2r|r2s)_(0|[1-9][0-9]{0,5})")
_EVENT = re.compile(r"netemAt_(c2r|r2s)_(0|[1-9][0-9]{0,5})")
_LINK_LIKE = re.compile(r"(path|netemAt)_.*")
_PREFIX = re.compile(r"([0-9]{1,3}\.[0-9]{1,3})\.")


class _Side(Frozen):
    """A side of the router.

    `links`, `subnets`: our keys.
    `name`: the beginning of link names.
    `usual`: the generator's own subnets.
    `prefix_key`, `prefix`: the older key of the subnets and its default.
    """

    links: str
    subnets: str
    name: str
    usual: str
    prefix_key: str
    prefix: str


_SIDES = {
    "c2r": _Side("paths", "client_subnets", "path", "10.0.0.0/16", "leftSubnet", "10.1."),
    "r2s": _Side("server_paths", "server_subnets", "server", "10.1.0.0/16", "rightSubnet", "10.2."),
}
_WANTED = {
    "delay": "the one-way delay in ms, as in '20'",
    "queue": "the queue in packets, as in '80'",
    "rate": "the rate in Mbit/s, as in '20'",
    "loss": "the loss in percent, as in '0.5'",
}
_KNOWN = ("topoType", "leftSubnet", "rightSubnet", "changeNetem", "path_c2r_0", "path_r2s_0", "netemAt_c2r_0")
_PACKET_BYTES = 1500


def build(source: OlderFile, kind: OlderEntry | None, legacy_queue: bool) -> MappingNode:
    """Return the tree. Problems and warnings go to the source. kind: the entry `topoType`."""
    line = kind.line if kind else 1
    items: dict[str, NodeValue] = {"version": 1, "topology": _generator(source, kind)}
    links = {side: _links(source, side, legacy_queue) for side in _SIDES}
    for name, side in _SIDES.items():
        network = _subnets(source, side, line)
        if network is not None:
            items[side.subnets] = network
        if links[name]:
            items[side.links] = list(links[name].values())
    if not links["c2r"]:
        items["paths"] = None
    events = _events(source, links)
    if events:
        items["events"] = source.node(events)
    for entry, _ in source.take_all(_LINK_LIKE):
        if not _LINK.fullmatch(entry.key) and not _EVENT.fullmatch(entry.key):
            word = entry.key.split("_")[0]
            source.refuse(entry, f"names no link: write '{word}_c2r_0' (client) or '{word}_r2s_0' (server)")
    source.warn_unread(_KNOWN)
    return source.mapping(items, line)


def _generator(source: OlderFile, kind: OlderEntry | None) -> Node:
    if kind is None:
        if not source.has("topoType"):
            source.refuse_file("has no 'topoType': write 'topoType:MultiIf'")
        return source.node("multi-path", 1)
    if kind.value in _GENERATORS:
        return source.node(_GENERATORS[kind.value], kind.line)
    nearest = _CANNOT.get(kind.value, f"write one of {', '.join(_GENERATORS)}")
    source.refuse(kind, f"'{kind.value}' is not supported: {nearest}")
    return source.node(None, kind.line)


def _links(source: OlderFile, side: str, legacy_queue: bool) -> dict[int, Node]:
    """The links of one side of the router by number, without gaps."""
    found = {int(match[2]): entry for entry, match in source.take_all(_LINK) if match[1] == side}
    gap = next((n for n in range(len(found)) if not source.has(f"path_{side}_{n}")), None)
    if gap is not None:
        first = found[min(n for n in found if n > gap)]
        source.refuse(first, f"there is no 'path_{side}_{gap}': number the links from 0 on, without gaps")
    links = {n: _link(source, found[n], legacy_queue) for n in sorted(found)}
    if side == "c2r" and not found and not source.has("path_c2r_0"):
        source.refuse_file("has no link: write 'path_c2r_0:delay,queue,rate', as in 'path_c2r_0:20,80,20'")
    return links


def _link(source: OlderFile, entry: OlderEntry, legacy_queue: bool) -> Node:
    values = [value.strip(" \t") for value in entry.value.split(",")]
    if not 2 <= len(values) <= 5:
        count = f"{len(values)} value{'' if len(values) == 1 else 's'}"
        source.refuse(entry, f"has {count}: write 'delay,rate' or 'delay,queue,rate[,loss[,backup]]'")
        return source.node(None, entry.line)
    names = ("delay", "rate") if len(values) == 2 else ("delay", "queue", "rate", "loss")
    given = {name: source.number(entry, text, _WANTED[name]) for name, text in zip(names, values, strict=False)}
    properties: dict[str, NodeValue] = {
        "rate": with_unit(given["rate"], "mbit"),
        "delay": with_unit(given["delay"], "ms"),
        "queue": _queue(given, legacy_queue),
    }
    if given.get("loss", "0") != "0":
        properties["loss"] = with_unit(given["loss"], "%")
    if len(values) == 5:
        if values[4] not in ("0", "1"):
            source.refuse(entry, f"'{values[4]}' as backup is neither '0' nor '1': write one of the two")
        elif values[4] == "1":
            properties["backup"] = True
    return source.node(properties, entry.line)


def _queue(given: Mapping[str, str | None], legacy_queue: bool) -> str | None:
    """The queue in the file, or one bandwidth-delay product. None after a problem."""
    rate, delay, asked = given["rate"], given["delay"], given.get("queue")
    if "queue" in given and not legacy_queue:
        return with_unit(asked, "packets")
    if rate is None or delay is None or ("queue" in given and asked is None) or Fraction(rate) == 0:
        return None
    bdp_packets = math.ceil(Fraction(rate) * 125_000 * 2 * Fraction(delay) / 1000 / _PACKET_BYTES)
    packets = str(max(1, bdp_packets)) if asked is None else asked
    if not legacy_queue:
        return f"{packets}packets"
    # The older tool's tbf has this limit: a BDP, plus the queue as a time at a rate in Mibit/s.
    queue_ms = max(1, int(Fraction(packets) * 12_000_000 / (Fraction(rate) * 1024**2)))
    return f"{bdp_packets * _PACKET_BYTES + int(Fraction(rate) * 1000 * queue_ms / 8)}bytes"


def _subnets(source: OlderFile, side: _Side, line: int) -> Node | None:
    """The network of a side. None if it is the generator's default."""
    entry = source.take_or(side.prefix_key, side.prefix, line)
    match = _PREFIX.fullmatch(entry.value)
    if match is None:
        source.refuse(entry, f"'{entry.value}' is no prefix of two numbers, each with its dot: write '10.0.'")
        return source.node(None, entry.line)
    network = f"{match[1]}.0.0/16"
    return None if network == side.usual else source.node(network, entry.line)


def _events(source: OlderFile, links: dict[str, dict[int, Node]]) -> list[Node]:
    """The changes during a run, in the order of time."""
    found = source.take_all(_EVENT)
    switch = source.take("changeNetem")
    if switch is not None and switch.value not in ("yes", "no"):
        source.refuse(switch, f"'{switch.value}' is neither 'yes' nor 'no': write one of the two")
    elif switch is None and source.has("changeNetem"):
        return []
    elif switch is None or switch.value == "no":
        source.drop((entry.key for entry, _ in found), "only with 'changeNetem:yes' do links change")
        return []
    elif not found:
        source.warn(switch, "has no effect: no 'netemAt_c2r_0:T,COMMAND' says what changes")
    events = []
    for entry, match in found:
        side, n = match[1], int(match[2])
        if n not in links[side] and not source.has(f"path_{side}_{n}"):
            names = [f"path_{s}_{m}" for s in links for m in links[s]]
            known = f"; links: {', '.join(names)}" if names else ""
            source.refuse(entry, f"there is no link 'path_{side}_{n}'{known}")
            continue
        event = _event(source, entry, f"{_SIDES[side].name}{n}", links[side].get(n))
        if event is not None:
            events.append(event)
    if events:
        first = found[0][0]
        source.warn(first, "times count from the first flow here; in the older tool from 2 to 3 s before it")
    return [node for _, node in sorted(events, key=lambda event: event[0])]


def _event(source: OlderFile, entry: OlderEntry, link: str, node: Node | None) -> tuple[float, Node] | None:
    time, comma, command = entry.value.partition(",")
    if not comma:
        source.refuse(entry, "has no command: write 'T,COMMAND', as in '5,loss 100%'")
        return None
    at = source.number(entry, time.strip(" \t"), "the time in seconds, as in '5'")
    try:
        properties, ignored = netem.parse(command)
    except netem.NetemError as error:
        source.refuse(entry, str(error))
        return None
    if at is None:
        return None
    for words in ignored:
        source.warn(entry, f"'{words}' has no effect: the delay stage here is never too short")
    had = {key.value for key, _ in node.value} if isinstance(node, MappingNode) else set()
    kept = [name for name in ("delay", "loss") if name in had and name not in properties]
    if kept:
        zero = {"delay": "delay 0ms", "loss": "loss 0%"}[kept[0]]
        source.warn(
            entry,
            f"names no {' and no '.join(kept)}, which stays as it is; the older tool's change took it away:"
            f" add '{zero}' if that is meant",
        )
    return float(Fraction(at)), source.node({"at": f"{at}s", "link": link, "set": properties}, entry.line)
