# SPDX-License-Identifier: Apache-2.0
"""JSON Schemas (draft 2020-12) of the files, generated from the models, for editors.

A file may have less than a model needs, as other files can complete it. It may also have more: any scalar may be a
template, and keys that begin with `x-` belong to the user. The schemas allow both.
"""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Callable, Iterable
from typing import cast

from pydantic import BaseModel

from mprun.inputs.generator import load_own
from mprun.inputs.generators import GENERATORS
from mprun.inputs.keys.configuration import ConfigurationFile
from mprun.inputs.keys.experiment import ExperimentFile
from mprun.inputs.keys.field import JsonSchema
from mprun.inputs.keys.lab_definition import LabFile
from mprun.inputs.keys.matrix import EXCLUDE, ZIP, RangeEntry
from mprun.inputs.keys.topology import WrittenTopology
from mprun.model import units
from mprun.model.scalar import PRIVATE
from mprun.workloads import TOOLS
from mprun.workloads.tool import Tool, load

# Kinds of quantity by their pattern. Kinds with the same pattern have the same text.
_QUANTITIES = {kind.pattern: kind for kind in (units.TIME, units.RATE, units.SIZE, units.VOLUME)}
# A property with more characters is written only once, even if several mappings have it.
LONG_SCHEMA = 200

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_TEMPLATE_PATTERN = r"\{\{"
_OR_TEMPLATE = f"|{_TEMPLATE_PATTERN}"
_TEMPLATE: JsonSchema = {
    "type": "string",
    "pattern": _TEMPLATE_PATTERN,
    "description": "A template: {{ name }} stands for a parameter.",
}
_FILE_KEYS: JsonSchema = {
    "extends": {
        "type": "string",
        "description": "A base file, relative to this file. Keys of this file override its keys.",
    },
    "include": {
        "type": ["string", "array"],
        "items": {"type": "string"},
        "description": "Base files, relative to this file. Later files override earlier files, and this file "
        "overrides all.",
    },
    "params": {
        "type": "object",
        "additionalProperties": {"type": ["string", "number", "boolean"]},
        "description": "Parameters and their defaults. `{{ name }}` in a value of either file stands for the "
        "parameter. The option -p name=value overrides it.",
    },
}


def experiment_schema() -> JsonSchema:
    root, definitions = _generate(ExperimentFile)
    cases = []
    for name in TOOLS:
        entry, more = _generate(cast(Tool, load(name)).Entry)
        definitions |= more
        definitions[name] = entry
        cases.append(_case("tool", name))
    root["properties"]["traffic"]["items"] = {
        "type": "object",
        "properties": {"tool": _one_of(TOOLS, "The tool.")},
        "required": ["tool"],
        "allOf": cases,
    }
    root["properties"]["matrix"], definitions["Range"] = _matrix_schema()
    return _document("mprun experiment", _open(root), definitions)


def _matrix_schema() -> tuple[JsonSchema, JsonSchema]:
    """The schema of a matrix, and the schema of a range in it."""
    values = {"type": "array", "items": {"type": ["string", "number", "boolean"]}, "minItems": 1}
    axis = {"anyOf": [values, {"$ref": "#/$defs/Range"}]}
    zipped = {"type": "array", "items": {"type": "object", "additionalProperties": axis}}
    excluded = {"type": "array", "items": {"type": "object"}}
    matrix = {
        "type": "object",
        "description": "The axes that a sweep varies: parameters, link properties (path0.rate), 'kernel' or 'engine'.",
        "properties": {
            ZIP: {**zipped, "description": "Axes that vary together. Their lists have equal length."},
            EXCLUDE: {**excluded, "description": "Values of axes. Cells with these values are left out."},
        },
        "additionalProperties": axis,
    }
    return matrix, _generate(RangeEntry)[0]


def topology_schema() -> JsonSchema:
    """The schema of topology files. `topology` chooses the generator's keys. Without it the file lists nodes and
    links.
    """
    definitions: JsonSchema = {}
    cases = []
    for name in GENERATORS:
        root, more = _generate(load_own(name).Parameters)
        definitions |= more
        definitions[name] = _open(root)
        cases.append(_case("topology", name))
    written, more = _generate(WrittenTopology)
    definitions |= more
    definitions["written"] = _open(written)
    builds_on = [{"required": [key]} for key in ("topology", "extends", "include")]
    cases.append({"if": {"not": {"anyOf": builds_on}}, "then": {"$ref": "#/$defs/written"}})
    top: JsonSchema = {
        "description": "A network, made by a generator or written as nodes and links.",
        "type": "object",
        "properties": {
            "topology": _one_of(GENERATORS, "The generator. Without it the file lists nodes and links."),
        },
        "allOf": cases,
    }
    return _document("mprun topology", top, definitions)


def lab_schema() -> JsonSchema:
    root, definitions = _generate(LabFile)
    root["properties"]["params"] = {
        **_FILE_KEYS["params"],
        "description": "Parameters of all steps and their defaults. `{{ name }}` in a claim stands for the "
        "parameter. The option -p name=value overrides it.",
    }
    return _document("mprun lab", root, definitions)


SCHEMAS: dict[str, Callable[[], JsonSchema]] = {
    "topology": topology_schema,
    "experiment": experiment_schema,
    "lab": lab_schema,
    "config": lambda: _document("mprun configuration", *_generate(ConfigurationFile)),
}


@functools.cache
def render(name: str) -> str:
    """The text of a schema, as it stands in `schemas/`."""
    return json.dumps(SCHEMAS[name](), indent=2, ensure_ascii=False) + "\n"


def _case(key: str, name: str) -> JsonSchema:
    """Return the rule that a file with this value of a key fits the definition of the same name."""
    return {"if": {"required": [key], "properties": {key: {"const": name}}}, "then": {"$ref": f"#/$defs/{name}"}}


def _one_of(names: Iterable[str], description: str) -> JsonSchema:
    """Return the schema of a name that editors complete. Other names are allowed, as installed packages add names."""
    return {"anyOf": [{"enum": list(names)}, {"type": "string"}], "description": description}


def _document(title: str, root: JsonSchema, definitions: JsonSchema) -> JsonSchema:
    shared = _share_properties({"Template": _TEMPLATE, **definitions})
    return {"$schema": _DRAFT, "title": title, **root, "$defs": dict(sorted(shared.items()))}


def _share_properties(definitions: JsonSchema) -> JsonSchema:
    """Write each long property that several definitions have only once."""
    positions = [
        (properties, name, (name, json.dumps(schema, sort_keys=True)))
        for definition in definitions.values()
        for properties in [definition.get("properties", {})]
        for name, schema in properties.items()
    ]
    seen = Counter(key for _, _, key in positions)
    shared = dict(definitions)
    for properties, name, key in positions:
        if seen[key] == 1 or len(key[1]) < LONG_SCHEMA:
            continue
        first = shared.setdefault(f".{name}", properties[name])
        if json.dumps(first, sort_keys=True) == key[1]:
            properties[name] = {"$ref": f"#/$defs/.{name}"}
    return shared


def _open(root: JsonSchema) -> JsonSchema:
    """Return the schema of a file with the keys that join files. It requires no key that other files may have."""
    required = root.pop("required", [])
    root["properties"] = {**root["properties"], **_FILE_KEYS}
    builds_on = {"anyOf": [{"required": ["extends"]}, {"required": ["include"]}]}
    return {**root, "if": {"not": builds_on}, "then": {"required": required}}


def _generate(model: type[BaseModel]) -> tuple[JsonSchema, JsonSchema]:
    """The schema of a model and the definitions that it refers to."""
    schema = model.model_json_schema(by_alias=True)
    definitions = {name: _tidy(definition) for name, definition in schema.pop("$defs", {}).items()}
    return _tidy(schema), definitions


def _tidy(schema: JsonSchema) -> JsonSchema:
    """Return a schema without pydantic's titles and nulls. Scalars may be templates, and mappings may have x- keys."""
    tidied: JsonSchema = {}
    for key, value in schema.items():
        if key == "title" and isinstance(value, str):
            continue
        if key in ("properties", "patternProperties"):
            tidied[key] = {name: _tidy(inner) for name, inner in value.items()}
        elif key in ("items", "additionalProperties", "propertyNames") and isinstance(value, dict):
            tidied[key] = value if key == "propertyNames" else _tidy(value)
        elif key in ("anyOf", "oneOf", "allOf"):
            tidied[key] = [_tidy(inner) for inner in value if inner != {"type": "null"}]
        elif key != "discriminator":
            tidied[key] = value
    if len(tidied.get("anyOf", ())) == 1:
        tidied |= tidied.pop("anyOf")[0] | {k: v for k, v in tidied.items() if k != "anyOf"}
    if "default" in tidied:
        tidied |= _write_default(tidied.pop("default"), tidied)
    if tidied.get("type") == "object":
        if "patternProperties" in tidied:
            tidied["additionalProperties"] = False
        tidied["patternProperties"] = {f"^{PRIVATE}": True, **tidied.get("patternProperties", {})}
    return _or_template(tidied)


def _write_default(value: object, schema: JsonSchema) -> JsonSchema:
    """Return a default as a file would have it. A default that no file can express is left to the description."""
    if value in (None, [], {}, "") or isinstance(value, dict):
        return {}
    kind = _QUANTITIES.get(schema.get("pattern", "").removesuffix(_OR_TEMPLATE))
    if kind is not None and isinstance(value, int):
        return {"default": kind.render(value) if value else f"0{kind.bare[0]}"}
    if isinstance(value, float) and schema.get("type") != "number":
        return {"default": units.render_ratio(value)}
    return {"default": value}


def _or_template(schema: JsonSchema) -> JsonSchema:
    """Allow a template instead of a scalar that is not free text."""
    if schema.get("type") == "string" and "pattern" in schema:
        return {**schema, "pattern": schema["pattern"].removesuffix(_OR_TEMPLATE) + _OR_TEMPLATE}
    if not (schema.get("type") in ("integer", "number", "boolean") or schema.keys() & {"const", "enum"}):
        return schema
    outer: JsonSchema = {key: schema[key] for key in ("description", "default", "examples") if key in schema}
    inner = {key: value for key, value in schema.items() if key not in outer}
    return {**outer, "anyOf": [inner, {"$ref": "#/$defs/Template"}]}
