# SPDX-License-Identifier: Apache-2.0
"""Every key of the schemas is used: some value of the key makes another Spec, and another plan unless no plan has it.

A key that is read and then dropped makes neither. The files are those of the golden plans, and a pair of this test.
Each key gets values where it may stand in them, until a value is accepted and makes a difference. A key is left out if
the files accept none of its values.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from mprun.compile import allocate, compile_plan
from mprun.inputs.loading import load_cells, read_plain
from mprun.model.plan import Plan
from mprun.model.problem import InputError
from mprun.model.spec import Spec

ROOT = Path(__file__).parents[2]
CASES = sorted(path.parent for path in ROOT.glob("tests/golden/plans/*/topo.yaml"))
SCHEMAS = {name: json.loads((ROOT / f"schemas/{name}.schema.json").read_text()) for name in ("topology", "experiment")}
GENERATORS = {one["then"]["$ref"].rpartition("/")[2] for one in SCHEMAS["topology"]["allOf"]}
TOOLS = {
    one["then"]["$ref"].rpartition("/")[2] for one in SCHEMAS["experiment"]["properties"]["traffic"]["items"]["allOf"]
}
# The place of a key in the schema, and the key. A key that all generators or all tools have has one place for all.
SchemaKey = tuple[str, str]
Place = tuple[str | int, ...]

# Keys that other tests cover: they name other files, or decide what keys exist.
ELSEWHERE = {"version", "extends", "include", "params", "description", "topology", "tool"}
# Keys of which a run makes the same plan, as they act before it, after it, or on several runs.
WITHOUT_PLAN = {"calibrate", "expect", "links", "matrix", "plots", "repeat", "search", "show"}
# A key of which the files refuse more values than these is left out.
MOST_REFUSED = 6
# Keys that cannot make a difference here, and why.
EXCEPTED: dict[SchemaKey, str] = {
    ("EventEntry", "format"): "other formats than the default need another file",
    ("two-level-tree", "ports"): "the file writes 'hosts_per_edge', so that ports only refuse what does not fit",
    ("video", "multipath"): "true needs QUIC, and false a video without a scheduler",
}
# Values where the schema has no example that fits the files.
VALUES: dict[str, list[Any]] = {
    "between": [["client", "server"]],
    "chunk": ["1s"],
    "client_subnets": ["10.5.0.0/16"],
    "server_subnets": ["10.6.0.0/16"],
    "congestion": ["reno", {"wifi": "reno"}],
    "filter": ["tcp"],
    "file": ["other.csv"],
    "inside": [["wifi"], ["dsl"], ["lan"]],
    "k": [6],
    "name": ["other"],
    "node": ["home", "server"],
    "openflow": [{"leaf0": {}}, {"edge0": {}}, {"s1": {}}, {"lan": {}}],
    "port": [8080],
    "scheduler": ["roundrobin"],
    "schedule": ["plan.csv"],
    "sysctl": [{"net.ipv4.tcp_sack": 0}],
    "title": ["a title"],
    "trace": ["leo-handover"],
}
EXTRA_TOPOLOGY = """
version: 1
nodes: {client: {kind: host}, home: {kind: router}, server: {kind: host}}
links:
  - {name: wifi, between: [client, home], rate: 20mbit, delay: 40ms}
  - name: lte
    between: [client, home]
    rate: {forward: 5mbit, reverse: 20mbit}
    delay: {forward: 40ms, reverse: 30ms}
    jitter: {forward: 1ms, reverse: 2ms}
    loss: {forward: 1%, reverse: 2%}
    duplicate: {forward: 1%, reverse: 2%}
    corrupt: {forward: 1%, reverse: 2%}
    reorder: {forward: 1%, reverse: 2%}
    queue: {forward: 50packets, reverse: 60packets}
  - {name: lan, between: [home, server]}
middleboxes:
  home: {nat: {inside: [wifi]}}
events:
  - {at: 1s, link: wifi, set: {rate: 10mbit}, over: 1s}
  - {at: 1s, link: lte, trace: cell.mahimahi, until: 3s}
"""
EXTRA_EXPERIMENT = """
version: 1
hosts:
  client: {mptcp: {endpoints: [{link: lte, flags: [subflow]}], limits: {subflows: 2}}}
traffic:
  - {name: bulk, tool: iperf3, from: client, to: server, protocol: mptcp, duration: 4s, omit: {start: 1s}}
  - name: own
    tool: exec
    from: client
    to: server
    command: [nc, "{destination}", "{port}"]
    duration: 4s
    metrics: [{name: rate, file: out.json, json: a.b, unit: bit}, {name: lines, regex: "x ([0-9]+)"}]
    tables: [{name: delays, file: delays.csv, time: t}]
capture: [{host: client, size: 10mb}]
faults:
  - {node: client, link: wifi, packet: 3, action: delay, by: 50ms}
  - {node: client, link: wifi, packet: 4, action: strip}
sample: {queues: 100ms}
expect: [{metric: bulk.goodput, min: 1mbit}]
plots: [{series: rate}, {table: delays, column: d}, {metric: bulk.goodput, over: wifi.delay}]
matrix: {wifi.delay: [40ms, 50ms], wifi.loss: [1%, 2%]}
repeat: {until: {metric: bulk.goodput, within: 5%}, reseed: {at: 1s, seed: 4}}
"""


def follow(schema: Any, where: str, root: Any, value: object) -> Iterator[tuple[str, Any]]:
    """Yield the schemas that hold for a value, each with its place in the whole schema."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        yield from follow(root["$defs"][name], name, root, value)
    yield where, schema
    for word in ("anyOf", "oneOf", "allOf"):
        for one in schema.get(word, ()):
            if "if" not in one:
                yield from follow(one, where, root, value)
            elif isinstance(value, dict) and is_chosen(one["if"], value):
                yield from follow(one["then"], where, root, value)


def is_chosen(condition: Any, value: dict[str, object]) -> bool:
    """Return True if a value has the generator or the tool that a condition names."""
    if "not" in condition:
        return "topology" not in value
    return all(value.get(key) == one["const"] for key, one in condition["properties"].items())


def identify(where: str, key: str, root: Any) -> SchemaKey:
    everywhere = [group for group in (GENERATORS, TOOLS) if where in group]
    shared = [all(key in root["$defs"][one]["properties"] for one in group) for group in everywhere]
    return ("*" if shared == [True] else where, key)


def walk(schema: Any, where: str, root: Any, value: Any, place: Place = ()) -> Iterator[tuple[Place, SchemaKey, Any]]:
    """Yield the place of each key that a file has or may have, with its schema."""
    for here, one in list(follow(schema, where, root, value)):
        if isinstance(value, dict):
            own = one.get("properties", {})
            for key, inner in own.items():
                yield (*place, key), identify(here, key, root), inner
            patterns = [inner for pattern, inner in one.get("patternProperties", {}).items() if pattern != "^x-"]
            inside = [(key, own[key]) for key in value if key in own]
            inside += [(key, inner) for key in value if key not in own for inner in patterns]
            for key, inner in inside:
                # both directions of a link have the same properties
                below = here if key in ("forward", "reverse") else f"{here}.{key}"
                if isinstance(inner, dict):
                    yield from walk(inner, below, root, value[key], (*place, key))
        elif isinstance(value, list) and "items" in one:
            for n, item in enumerate(value):
                yield from walk(one["items"], here, root, item, (*place, n))


def propose(key: str, schema: Any, root: Any, names: dict[str, list[str]], depth: int = 0) -> list[Any]:
    """Return values for a key: those that its schema shows, and names of the files."""
    found: list[Any] = list(VALUES.get(key, names.get(key, ())))
    for _, one in follow(schema, "", root, {}):
        found += one.get("examples", [one["const"]] if "const" in one else one.get("enum", ()))
        if one.get("type") == "boolean":
            found += [True, False]
        elif one.get("type") == "integer":
            found += [one.get("minimum", 1) + n for n in (1, 2, 3)]
        elif one.get("type") == "array" and depth < 3:
            found += [[value] for value in propose("", one["items"], root, names, depth + 1)]
        elif one.get("type") == "object" and depth < 3:
            own = {
                name: propose(name, inner, root, names, depth + 1)[:2]
                for name, inner in one.get("properties", {}).items()
            }
            least = {name: own[name][0] for name in one.get("required", ()) if own[name]}
            found += [least] * bool(least)
            found += [least | {name: value} for name, values in own.items() if name not in least for value in values]
    return found


def put(document: Any, place: Place, value: object) -> Any:
    """Return a document with a value at a place, without the key that conflicts with it."""
    changed = json.loads(json.dumps(document))
    entry = changed
    for step in place[:-1]:
        entry = entry[step]
    entry[place[-1]] = value
    if place[-1] in ("rtt", "delay"):
        entry.pop("delay" if place[-1] == "rtt" else "rtt", None)
    return changed


def find(document: Any, place: Place) -> object:
    """Return the value at a place; None if there is none."""
    for step in place:
        document = document.get(step) if isinstance(document, dict) else document[step]
    return document


def find_effects(kind: str, folder: Path) -> dict[SchemaKey, bool]:
    """Return the keys of a schema of which files accept a value, each with whether some value makes a difference."""
    root = SCHEMAS[kind]
    effects: dict[SchemaKey, bool] = {}
    refused = Counter[SchemaKey]()
    first = folder / "a"
    first.mkdir()
    shutil.copy(ROOT / "tests/golden/plans/events/cell.mahimahi", first)
    (first / "topo.yaml").write_text(EXTRA_TOPOLOGY)
    (first / "xp.yaml").write_text(EXTRA_EXPERIMENT)
    for case in CASES:
        shutil.copytree(case, folder / case.name)
    for own in sorted(folder.iterdir()):
        files = (own / "topo.yaml", own / "xp.yaml")
        file = files[kind == "experiment"]
        # without its parameters, a file would lose its matrix
        plain = yaml.safe_load(file.read_text()) if own == first else read_plain(*files)[kind]
        before = [cell.spec for cell in load_cells(*files)]
        hosts = [name for name, node in before[0].topology.nodes.items() if node == "host"]
        links = [link.name for link in before[0].topology.links]
        names = {"host": hosts, "node": hosts, "link": links, "address": links, "from": hosts[:1], "to": hosts[-1:]}
        names["flow"] = names["after"] = [flow.name for flow in before[0].experiment.traffic]
        planned = plan(before)
        for place, key, inner in walk(root, kind, root, plain):
            for value in () if key[1] in ELSEWHERE else propose(str(place[-1]), inner, root, names):
                if effects.get(key) or refused[key] > MOST_REFUSED or value == find(plain, place):
                    continue
                file.write_text(json.dumps(put(plain, place, value)))
                try:
                    after = [cell.spec for cell in load_cells(*files)]
                except InputError:
                    refused[key] += 1
                    continue
                effects[key] = after != before and (place[0] in WITHOUT_PLAN or plan(after) != planned)
        file.write_text(json.dumps(plain))
    return effects


def plan(cells: Sequence[Spec]) -> list[Plan]:
    return [compile_plan(spec, allocate(spec)) for spec in cells]


@pytest.mark.parametrize(("kind", "least"), [("topology", 190), ("experiment", 190)])
def test_no_key_is_dropped(kind: str, least: int, tmp_path: Path) -> None:
    effects = find_effects(kind, tmp_path)
    known = effects.keys() & EXCEPTED.keys()
    assert {key for key, has_effect in effects.items() if not has_effect} == known
    # the values of this test fit most keys
    assert sum(effects.values()) >= least
