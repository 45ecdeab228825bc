# SPDX-License-Identifier: Apache-2.0
"""Pages of every key of the files, with its type, default and an example, from the JSON Schemas of the models.

Each kind of file has a page with a section for each mapping. The quantities have a page of their own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from jsonschema import Draft202012Validator

from docs.generate.markdown import LICENSE, anchor, code, table, words
from mprun.inputs.json_schema import SCHEMAS
from mprun.inputs.keys.field import NAME_PATTERN
from mprun.model import units

Schema = Mapping[str, Any]

_KINDS = {
    "Time": (units.TIME, "A time, a delay or a round-trip time."),
    "Rate": (
        units.RATE,
        "Bits per second. Rates of links count Ethernet frames without preamble and checksum. Rates of flows count "
        "payload.",
    ),
    "Size": (units.SIZE, "A number of bytes. As in tc(8), `kb` is 1024 bytes and `mb` is 1024 `kb`."),
    "Volume": (units.VOLUME, "The total size of a flow, up to a terabyte. `kb` is 1024 bytes, `mb` is 1024 `kb`."),
    "Width": (units.WIDTH, "The width of a figure on paper, from 40mm to 400mm."),
}
_PATTERNS = {
    **{kind.pattern: name for name, (kind, _) in _KINDS.items()},
    units.PERCENT_PATTERN: "Percentage",
    units.QUEUE_PATTERN: "Queue",
}
_WORDS = {"string": "text", "integer": "whole number", "array": "list"}
_DEFAULT = re.compile(r"\s*\bDefault: ((?:(?!\. ).)+)\.$")
_TEMPLATE = {"$ref": "#/$defs/Template"}
_OR_TEMPLATE = "|\\{\\{"
_TITLES = {"topology": "Topology files", "experiment": "Experiment files", "config": "Your configuration"}


def pages() -> Iterator[tuple[str, str]]:
    """Return name and text of each page."""
    for name in SCHEMAS:
        yield name, _Page(name, SCHEMAS[name]()).text()
    yield "quantities", _quantities()


def _quantities() -> str:
    parts = [
        LICENSE,
        "# Quantities\n\nEvery quantity has a unit, spelled as in tc(8). A number without a unit is an error.\n",
    ]
    for name, (kind, text) in _KINDS.items():
        parts.append(f"\n## {name}\n\n{text} Units: {words(kind.units)}. Example: `{kind.example}`.\n")
    parts.append("\n## Percentage\n\nA share or a probability, from `0%` to `100%`. Example: `0.5%`.\n")
    parts.append(
        "\n## Queue\n\nThe capacity of a queue. It is a number of packets (`80packets`), a number of bytes (`64kb`), "
        "a time at the link's rate (`50ms`), or a multiple of the bandwidth-delay product of the paths over the link "
        "(`1bdp`).\n"
    )
    parts.append(
        "\n## Both directions\n\nA property of a link applies to both directions, or each direction has its own value: "
        "`{forward: 5mbit, reverse: 20mbit}`. Forward is from the first end of the link to the second.\n"
    )
    parts.append(
        "\n## Name\n\nThe name of a node, link or flow. It has at most 32 characters: a letter, then letters, digits, "
        "`-` and `_`.\n"
    )
    parts.append(
        "\n## Templates\n\nAny value may be a template: `{{ name }}` stands for a parameter of `params`. "
        "The option `-p name=value` overrides the parameter. mprun does not read keys that begin with `x-`.\n"
    )
    return "".join(parts)


@dataclass
class _Page:
    """The page of a kind of file. sections: heading -> the mapping in it, in the order of their first use."""

    name: str
    schema: Schema
    sections: dict[str, Schema] = field(default_factory=dict)

    def text(self) -> str:
        title = _TITLES.get(self.name, f"{self.name.capitalize()} files")
        parts = [LICENSE, f"# {title}\n\n{self.schema.get('description', '')}\n"]
        parts.append("\nThe page [quantities](quantities.md) explains units, names and templates.\n")
        if len(self.schema["properties"]) > 1:
            parts.append(f"\n## The file\n\n{self._table(self.schema)}")
        parts += self._cases()
        done: set[str] = set()
        while waiting := [heading for heading in self.sections if heading not in done]:
            done.add(waiting[0])
            parts.append(self._section(waiting[0], self.sections[waiting[0]]))
        return "".join(parts)

    def _cases(self) -> Iterator[str]:
        """Return the sections of mappings that a key (`topology`, `tool`) chooses. Common keys are listed once."""
        entries = self.schema["properties"].get("traffic", {}).get("items", {})
        names = [
            case["then"]["$ref"].rpartition("/")[2]
            for case in (*self.schema.get("allOf", ()), *entries.get("allOf", ()))
        ]
        cases = {name: self.schema["$defs"][name] for name in names}
        shared = _shared(cases.values())
        if not shared:
            return
        first = next(iter(cases.values()))
        heading = "Every flow" if entries else "Every topology"
        common = {**first, "properties": {key: first["properties"][key] for key in shared}, "description": ""}
        yield self._section(heading, common)
        for name, case in cases.items():
            own = {key: value for key, value in case["properties"].items() if key not in shared}
            text = f"{case.get('description', '')} It also has the keys of [{heading.lower()}](#{anchor(heading)})."
            yield self._section(_NAMED.get(name, name), {**case, "properties": own, "description": text})

    def _section(self, heading: str, mapping: Schema) -> str:
        """Return a heading, the description of a mapping, and its keys. The properties of a link are listed once."""
        properties, text = mapping["properties"], mapping.get("description", "")
        links = self.schema["$defs"].get("LinkProperties", {}).get("properties", {}).keys() - {"addressing"}
        if links and heading != _heading("LinkProperties") and links < properties.keys():
            properties = {key: value for key, value in properties.items() if key not in {*links, "addressing"}}
            self.sections.setdefault(_heading("LinkProperties"), self.schema["$defs"]["LinkProperties"])
            text = f"{text} It also has all [link properties](#link-properties).".lstrip()
        return f"\n## {heading}\n\n{text}\n\n{self._table({**mapping, 'properties': properties})}".replace(
            "\n\n\n\n", "\n\n"
        )

    def _table(self, mapping: Schema) -> str:
        required = {*mapping.get("required", ()), *mapping.get("then", {}).get("required", ())}
        rows = []
        for key, value in mapping["properties"].items():
            schema = self._resolve(value)
            meaning, default = self._default(schema, key in required)
            rows.append((code(key), self._kind(schema, key), default, code(_yaml(self.example(schema, key))), meaning))
        return table(("key", "is", "default", "example", "meaning"), rows)

    def _resolve(self, schema: Schema) -> dict[str, Any]:
        """Return a schema with shared definitions filled in, and without the template that every scalar may be."""
        reference = schema.get("$ref", "")
        if reference.startswith("#/$defs/."):
            schema = {**self.schema["$defs"][reference.rpartition("/")[2]], **_without(schema, "$ref")}
        for union in ("anyOf", "oneOf"):
            kinds = [kind for kind in schema.get(union, ()) if kind != _TEMPLATE]
            if len(kinds) == 1:
                schema = {**kinds[0], **_without(schema, union)}
        return dict(schema)

    def _default(self, schema: Schema, is_required: bool) -> tuple[str, str]:
        """Return the meaning without the default at its end, and the default."""
        meaning = schema.get("description", "")
        if is_required:
            return meaning, "required"
        said = _DEFAULT.search(meaning)
        if said:
            return meaning[: said.start()].rstrip(";,"), said[1]
        return meaning, code(_yaml(schema["default"])) if "default" in schema else "none"

    def _kind(self, schema: Schema, key: str) -> str:
        """Return the type of a value in words."""
        schema = self._resolve(schema)
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            heading = _heading(name)
            self.sections.setdefault(heading, self.schema["$defs"][name])
            return f"[{heading[0].lower()}{heading[1:]}](#{anchor(heading)})"
        if "const" in schema:
            return code(_yaml(schema["const"]))
        if "enum" in schema:
            return words(map(str, schema["enum"]))
        kinds = [*schema.get("oneOf", ()), *schema.get("anyOf", ())]
        if kinds and any(kind.get("properties", {}).keys() == {"forward", "reverse"} for kind in kinds):
            return f"{self._kind(kinds[0], key)}; [by direction](quantities.md#both-directions)"
        if kinds:
            return " or ".join(dict.fromkeys(self._kind(kind, key) for kind in kinds))
        return self._plain(schema, key)

    def _plain(self, schema: Schema, key: str) -> str:
        kind = schema.get("type")
        if isinstance(kind, list):
            return " or ".join(_WORDS.get(str(one), str(one)) for one in kind)
        if kind == "string":
            pattern = schema.get("pattern", "").removesuffix(_OR_TEMPLATE)
            name = "Name" if pattern == NAME_PATTERN else _PATTERNS.get(pattern)
            return f"[{name.lower()}](quantities.md#{name.lower()})" if name else "text"
        if kind in ("integer", "number"):
            return ("whole number" if kind == "integer" else "number") + _bounds(schema)
        if kind == "boolean":
            return "`true` or `false`"
        if kind == "array":
            items = schema.get("items", {})
            if "allOf" in items:
                return "list of [entries by tool](#" + anchor(items["properties"]["tool"]["anyOf"][0]["enum"][0]) + ")"
            return f"list: {self._kind(items, key)}" if items else "list"
        if kind == "object":
            return self._mapping(schema, key)
        return "nothing" if kind == "null" else "any value"

    def _mapping(self, schema: Schema, key: str) -> str:
        if schema.get("properties"):
            heading = next((name for name, known in self.sections.items() if known == schema), f"{key} as a mapping")
            if self.sections.setdefault(heading, schema) != schema:
                heading = f"{key} as a mapping of {', '.join(schema['properties'])}"
                self.sections.setdefault(heading, schema)
            return f"[`{_brace(schema['properties'])}`](#{anchor(heading)})"
        inner = [value for key, value in schema.get("patternProperties", {}).items() if key != "^x-"]
        inner += [schema["additionalProperties"]] if isinstance(schema.get("additionalProperties"), dict) else []
        return f"by name: {self._kind(inner[0], key)}" if inner else "mapping"

    def example(self, schema: Schema, key: str, depth: int = 0) -> object:
        """Return the first example of a value, or its smallest form."""
        schema = self._resolve(schema)
        if key in _EXAMPLES and self._admits(schema, _EXAMPLES[key]):
            return _EXAMPLES[key]
        if schema.get("examples"):
            return schema["examples"][0]
        if "$ref" in schema:
            return self.example(self.schema["$defs"][schema["$ref"].rpartition("/")[2]], key, depth)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return schema["enum"][-1] if schema.get("default") == schema["enum"][0] else schema["enum"][0]
        kinds = [*schema.get("oneOf", ()), *schema.get("anyOf", ())]
        return self.example(kinds[0], key, depth) if kinds else self._least(schema, key, depth)

    def _admits(self, schema: Schema, value: object) -> bool:
        return bool(Draft202012Validator({**schema, "$defs": self.schema["$defs"]}).is_valid(value))

    def _least(self, schema: Schema, key: str, depth: int) -> object:
        kind = schema.get("type")
        if kind == "boolean":
            return schema.get("default") is not True
        if kind in ("integer", "number"):
            return schema.get("default") or max(1, schema.get("minimum", 1))
        if kind == "array":
            items = schema.get("items", {})
            if "allOf" in items:
                return [{"tool": "iperf3", "from": "client", "to": "server", "duration": "10s"}]
            return [self.example(items, key, depth + 1)]
        if kind == "object":
            return self._least_mapping(schema, key, depth)
        pattern = schema.get("pattern", "").removesuffix(_OR_TEMPLATE)
        return "path0" if pattern == NAME_PATTERN else "text"

    def _least_mapping(self, schema: Schema, key: str, depth: int) -> object:
        properties = schema.get("properties", {})
        if properties:
            keys = schema.get("required") or [key for key in properties if key not in ("name", "description")][:1]
            return {key: self.example(properties[key], key, depth + 1) for key in keys}
        inner = [value for name, value in schema.get("patternProperties", {}).items() if name != "^x-"]
        inner += [schema["additionalProperties"]] if isinstance(schema.get("additionalProperties"), dict) else []
        return {_NAMES.get(key, "path0"): self.example(inner[0], key, depth + 1)} if inner else {}


# Examples for keys whose model has no example of its own, as no error message needs one.
_EXAMPLES: Mapping[str, object] = {
    "description": "two paths to one server",
    "extends": "base.yaml",
    "include": ["hosts.yaml"],
    "params": {"cc": "cubic"},
    "hosts": {"client": {"mptcp": {"path_manager": "fullmesh"}}},
    "sysctl": {"net.ipv4.tcp_congestion_control": "cubic"},
    "path_manager": "fullmesh",
    "scheduler": "roundrobin",
    "expect": [{"metric": "bulk.goodput", "min": "36mbit"}],
    "matrix": {"cc": ["cubic", "reno"]},
    "zip": [{"rate": ["10mbit", "100mbit"], "duration": ["30s", "10s"]}],
    "exclude": [{"cc": "reno", "path0.delay": "100ms"}],
    "filter": "tcp port 5201",
    "congestion": "reno",
    "after": "bulk",
    "schedule": "schedule.csv",
    "trace": "cellular.trace",
    "file": "sizes.csv",
    "sizes": ["10kb", "1mb"],
    "shares": ["0%", "100%"],
    "host": "client",
    "address": "path0",
    "server": ["nc", "-lN", "{port}"],
    "snaplen": "100bytes",
    "name": "bulk",
    "port": 8080,
    "count": 20,
    "timeout": "60s",
    "think": "250ms",
    "server_think": "5ms",
    "offset": "500ms",
    "omit": {"start": "5s"},
    "end": "1s",
    "pause": "500ms",
    "deadline": "100ms",
    "step": "10mbit",
    "over": "2s",
    "every": "10s",
    "controller": {"delay": "5ms"},
    "request": "10kb",
    "response": "1mb",
    "send_buffer": "1mb",
    "receive_buffer": "1mb",
    "requests": 20,
    "parallel": 4,
    "concurrency": 4,
    "max": "38mbit",
    "pings": 10,
    "server_subnets": "10.2.0.0/16",
    "client_subnets": "192.168.0.0/16",
}
_NAMES = {"openflow": "s0"}
_NAMED = {"written": "Nodes and links"}


def _shared(cases: Iterable[Schema]) -> list[str]:
    """Return the keys that all of several mappings have with the same meaning."""
    properties = [case["properties"] for case in cases]
    return (
        [key for key, value in properties[0].items() if all(one.get(key) == value for one in properties)]
        if properties
        else []
    )


def _heading(name: str) -> str:
    """Return a heading: `Link` for `LinkEntry`, `Direction properties` for `DirectionProperties`."""
    found = re.sub(r"(?<=[a-z])([A-Z])", r" \1", name.removesuffix("Entry"))
    return found if found == name else found[0] + found[1:].lower()


def _brace(names: Iterable[str]) -> str:
    """Return `{min, max}`. A long list is cut after three names."""
    listed = list(names)
    return "{" + ", ".join(listed[:3] + ["..."] * (len(listed) > 3)) + "}"


def _bounds(schema: Schema) -> str:
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is None or most is None:
        return ""
    return f", {least} to {most}" if most < 10**12 else f", {least} or more"


def _without(schema: Schema, key: str) -> dict[str, Any]:
    return {name: value for name, value in schema.items() if name != key}


def _yaml(value: object) -> str:
    """Return a value as YAML on one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_yaml(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_yaml, value)) + "]"
    return value if isinstance(value, str) else json.dumps(value)
