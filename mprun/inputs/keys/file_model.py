# SPDX-License-Identifier: Apache-2.0
"""The base of the models of files, and pydantic's errors in mprun's words.

`check` validates plain values with a model and records each problem at its path. The models are in `topology` and
`experiment`.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import fields
from functools import cache, partial
from itertools import pairwise
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Literal, Protocol, Self, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler, ValidationError, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, ErrorDetails, InitErrorDetails, PydanticCustomError

from mprun.inputs.keys.field import ADDRESS
from mprun.inputs.keys.shape import advise_list, advise_mapping, write_entry, write_expected, write_flow, write_out
from mprun.model.problem import Notes, ValuePath, find_nearest, list_names, name_nearest
from mprun.model.scalar import name_value, spell_scalar

ValueT = TypeVar("ValueT")
# A problem of a mapping: the key, or the path below the mapping, and the message.
KeyProblem = tuple[str | ValuePath, str]


class FileModel(BaseModel):
    """A mapping in a file: no other keys than the fields, and no conversions other than those of quantities.

    The model is built on first use, as most models are parts of another.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)

    # Keys that a person may look for here, and where they belong.
    ELSEWHERE: ClassVar[Mapping[str, str]] = {}
    # Keys of the file that are read before the model, which does not have them.
    READ_BEFORE: ClassVar[Sequence[str]] = ()

    def find_conflicts(self) -> Iterator[KeyProblem]:
        """Yield the problems of keys whose values do not fit together."""
        return iter(())

    @model_validator(mode="after")
    def _refuse_conflicts(self) -> Self:
        problems = {(key,) if isinstance(key, str) else key: message for key, message in self.find_conflicts()}
        if problems:
            raise refuse(problems, self)
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Return the JSON Schema, where the docstring below a field describes its key."""
        made = handler(schema)
        keys = handler.resolve_ref_schema(made)["properties"]
        for name, meaning in _docstrings_of(cls).items():
            keys[cls.model_fields[name].alias or name].setdefault("description", meaning)
        return made

    def fill(self, kind: type[ValueT], **others: Any) -> ValueT:
        """Return a value of a dataclass whose fields have the names of fields of this model.

        A list becomes a tuple, and a mapping becomes a tuple of its items. others: further fields.
        """
        own = {one.name for one in fields(kind)} & type(self).model_fields.keys() - others.keys()  # type: ignore[arg-type]
        return kind(**{name: _freeze(getattr(self, name)) for name in own}, **others)

    def plain(self) -> dict[str, Any]:
        """Return the mapping as plain values by key, without what is missing."""
        return self.model_dump(by_alias=True, exclude_none=True)


def _docstrings_of(model: type[FileModel]) -> dict[str, str]:
    """Return the docstrings of the fields of a model and of its bases, by field."""
    return {
        field: text
        for kind in reversed(model.__mro__)
        for field, text in _read_docstrings(kind.__module__).get(kind.__name__, {}).items()
    }


@cache
def _read_docstrings(module: str) -> dict[str, dict[str, str]]:
    """Return the docstrings below fields in the source of a module, by class and field.

    Only a schema needs them. Pydantic's `use_attribute_docstrings` would read the sources in every run.
    """
    tree = ast.parse(inspect.getsource(sys.modules[module])) if module.startswith("mprun.") else ast.Module([], [])
    found: dict[str, dict[str, str]] = {}
    for kind in (one for one in tree.body if isinstance(one, ast.ClassDef)):
        for field, below in pairwise(kind.body):
            match field, below:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    found.setdefault(kind.name, {})[name] = inspect.cleandoc(text).replace("\n", " ")
    return found


def _freeze(value: object) -> object:
    if isinstance(value, dict):
        return tuple(value.items())
    return tuple(value) if isinstance(value, list) else value


Model = TypeVar("Model", bound=FileModel)
# The keys of topologies and experiments that are read before their models.
PREPARED = ("params", "extends", "include")

# The text of a `KeyProblem` about a missing key. The message gets an example.
IS_MISSING = "is missing"
# A function that returns an example for the value at a path, made from the example of its model.
Suggest = Callable[[ValuePath, object], object]


class FilledNotes(Notes, Protocol):
    """Notes on a file that knows which values templates gave, and names that can be an example."""

    def is_filled(self, path: ValuePath) -> bool: ...

    def suggest(self, path: ValuePath, example: object) -> object: ...


def check(
    model: type[Model], values: Mapping[str, object], notes: FilledNotes, position: ValuePath = ()
) -> Model | None:
    """Return the values as a model; None after recording the problems.

    A number that a template gave becomes text where text is wanted. position: the path of the values in their file.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        if spelled := _spell_filled(model, values, error, notes, position):
            return check(model, spelled, notes, position)
        for path, text in explain(model, error, lambda path, example: notes.suggest((*position, *path), example)):
            notes.refuse((*position, *path), text)
        return None


def _spell_filled(
    model: type[Model], values: Mapping[str, object], error: ValidationError, notes: FilledNotes, position: ValuePath
) -> dict[str, object] | None:
    """Return the values with text in place of numbers that are refused as no text; None without such numbers."""
    texts = [_locate(model, one["loc"])[0] for one in error.errors(include_url=False) if one["type"] == "string_type"]
    filled = [path for path in texts if notes.is_filled((*position, *path))]
    spelled = deepcopy(dict(values)) if filled else {}
    found = False
    for path in filled:
        holder: Any = spelled
        for element in path[:-1]:
            holder = holder[element]
        if isinstance(value := holder[path[-1]], int | float) and math.isfinite(value):
            holder[path[-1]] = spell_scalar(value)
            found = True
    return spelled if found else None


def explain(
    model: type[FileModel], error: ValidationError, suggest: Suggest = lambda path, example: example
) -> Iterator[tuple[ValuePath, str]]:
    """Yield each problem that pydantic found in values for a model: its path and the message.

    suggest: return an example for a path of the model, such as a name that exists.
    """
    # a key that is missing may be there under another name
    for detail in sorted(error.errors(include_url=False), key=lambda one: one["type"] == "missing"):
        path, owner, wanted = _locate(model, detail["loc"])
        yield path, _say(detail, path, owner, wanted, suggest)


def salvage(model: type[Model], values: Mapping[str, object]) -> Model | None:
    """Return a model of the values without those that have problems. None if too few values are left."""
    rest = deepcopy(dict(values))
    former: list[ValuePath] = []
    for _ in range(6):
        try:
            return model.model_validate(rest)
        except ValidationError as error:
            paths = [_locate(model, detail["loc"])[0] for detail in error.errors(include_url=False)]
            for path in filter(None, paths):
                # what is refused again lacks a value
                _remove(rest, path[:1] if path in former else path)
            former = paths
    return None


def _remove(values: dict[str, object], path: ValuePath) -> None:
    """Remove a value. An item of a list becomes empty, so that the other items keep their places."""
    holder: Any = values
    for element in path[:-1]:
        try:
            holder = holder[element]
        except (KeyError, IndexError, TypeError):
            return
    if isinstance(holder, dict):
        holder.pop(path[-1], None)
    elif isinstance(holder, list) and isinstance(path[-1], int) and path[-1] < len(holder):
        holder[path[-1]] = {}


def refuse(problems: Mapping[ValuePath, str], value: object) -> ValidationError:
    """Return an error with several problems of one value, each at its path below the value."""
    return ValidationError.from_exception_data(
        "value",
        [
            InitErrorDetails(type=PydanticCustomError("mprun", "{text}", {"text": text}), loc=path, input=value)
            for path, text in problems.items()
        ],
    )


def read_fields(model: type[FileModel], value: Mapping[Any, object]) -> dict[str, Any]:
    """Return the fields of a model that a mapping sets, by their Python names.

    It is for the parser of a value that may be a mapping. Raises a ValidationError with every problem.
    """
    try:
        read = model.model_validate(value)
    except ValidationError as error:
        # in the order of the file, and what is missing last
        order = {name: n for n, name in enumerate(value)}
        problems = sorted(explain(model, error), key=lambda problem: order.get(problem[0][0], len(order)))
        raise refuse(dict(problems), value) from None
    return {name: getattr(read, name) for name in model.model_fields if name in read.model_fields_set}


def fields_of(model: type[BaseModel] | None) -> dict[str, FieldInfo]:
    """Return the fields of a model by their keys in a file; none without a model.

    Its own keys come before those that other models have too.
    """
    if model is None:
        return {}
    order = [name for part in model.__mro__ for name in vars(part).get("__annotations__", ())]
    names = sorted(model.model_fields, key=order.index)
    return {model.model_fields[name].alias or name: model.model_fields[name] for name in names}


def _locate(model: type[BaseModel], location: tuple[int | str, ...]) -> tuple[ValuePath, type[FileModel] | None, Any]:
    """The path in the file, the model of the mapping with its last element, and the type of the value.

    pydantic's location also names the key of a mapping.
    """
    path: ValuePath = ()
    kind: Any = model
    owner: type[FileModel] | None = None
    for element in location:
        kind = _bare(kind)
        if element == "[key]":
            continue
        owner = None
        path = (*path, element)
        if _is_model(kind):
            owner = kind
            field = fields_of(kind).get(str(element))
            kind = field and field.annotation
        else:
            kind = get_args(kind)[-1] if get_args(kind) else None
    return path, owner, _bare(kind)


def _bare(kind: Any) -> Any:
    """Return a type without its metadata and without None."""
    while True:
        if get_origin(kind) is Annotated:
            kind = get_args(kind)[0]
        elif get_origin(kind) in (Union, UnionType) and NoneType in get_args(kind):
            rest = tuple(k for k in get_args(kind) if k is not NoneType)
            kind = rest[0] if len(rest) == 1 else Union[rest]  # noqa: UP007
        else:
            return _mapping_of(kind) or kind


def _mapping_of(kind: Any) -> type[FileModel] | None:
    """The model among several types of which one is a mapping; None for other types."""
    models = [one for one in get_args(kind) if _is_model(one)]
    return models[0] if get_origin(kind) in (Union, UnionType) and len(models) == 1 else None


def _say(detail: ErrorDetails, path: ValuePath, owner: type[FileModel] | None, wanted: Any, suggest: Suggest) -> str:
    kind, value, context = detail["type"], detail["input"], detail.get("ctx", {})
    if kind == "mprun" and context["text"] != IS_MISSING:
        return str(context["text"])
    if kind == "value_error":
        return str(context["error"])
    if kind == "extra_forbidden":
        return _say_unknown(path, owner, value)
    if kind in ("missing", "mprun"):
        example = write_example(owner, str(path[-1]), partial(_fit, path=path, suggest=suggest))
        kinds = get_args(wanted) if get_origin(wanted) is Literal else ()
        others = ", ".join(one for one in kinds if not example.endswith(f": {one}"))
        return f"is missing: write '{example}'" + (f" (or {others})" if others else "")
    if kind in ("too_short", "too_long"):
        entries = "entry" if context["actual_length"] == 1 else "entries"
        return f"has {context['actual_length']} {entries}: write '{write_example(owner, str(path[-1]))}'"
    if kind == "string_too_short":
        least = context["min_length"]
        return "is empty: write a text" if not value else f"has {len(value)} characters: write {least} or more"
    if kind == "string_too_long":
        return f"has {len(value)} characters: write {context['max_length']} or fewer"
    if kind == "literal_error":
        known = [word.strip("'") for word in context["expected"].replace(" or ", ", ").split(", ")]
        if (meant := _SWITCHED.get(str(value).lower())) in known:
            return f"{name_value(value)} is not known here: did you mean '{meant}'?"
        if path[-1] == "protocol" and value in ("quic", "https") and "quic" not in known:
            tools = get_args(owner.model_fields["tool"].annotation) if owner and "tool" in owner.model_fields else ()
            transport = f"protocol: {'udp' if value == 'quic' else 'tcp'}"
            advice = f"{transport}' for a program that speaks it" if "exec" in tools else f"tool: {value}'"
            return f"'{value}' is a tool and no transport protocol here: write '{advice}"
        if isinstance(value, list) and owner is not None and "tool" in owner.model_fields:
            key, first = _key_of(path), value[0] if value else "..."
            axis = f"'params: {{{key}: {first}}}' and 'matrix: {{{key}: {write_flow(value)}}}' for several runs"
            return f"a list is not known here: write one value, or '\"{{{{ {key} }}}}\"' with {axis}"
        # p90 is no slip of p99
        is_of_form = any(re.sub("[0-9]+", "", str(value)) == re.sub("[0-9]+", "", one) for one in known)
        hint = f"; write one of: {', '.join(known)}" if is_of_form else name_nearest(value, known, "write one of")
        return f"{name_value(value)} is not known here{hint}"
    if kind in _WANTED:
        what, advice = _WANTED[kind]
        field = fields_of(owner).get(_key_of(path))
        if kind == "int_type" and field and type(example := [field.default, *(field.examples or ())][-1]) is int:
            advice = f"write one, as in '{example}'"
        if kind == "int_type" and isinstance(value, str):
            if _MANY_DIGITS.fullmatch(value):
                largest = _find_largest(owner, _key_of(path))
                return f"{value} is too large: write {'a smaller number' if largest is None else f'{largest} or less'}"
            single = _key_of(path).removesuffix("s")
            if single != _key_of(path) and single in fields_of(owner) and _COUNTED.fullmatch(value):
                return f"'{value}' is not a whole number: did you mean '{single}: {value}'?"
            number = _find_whole(value)
            advice = advice if number is None else f"write {number}"
        if path[-1:] == ("set",) and (state := _SWITCHED.get(str(value), value)) in ("up", "down"):
            return f"{name_value(value)} is a state: write 'state: {state}' in place of '{_key_of(path)}'"
        if _WANTED[kind] is _MAPPING or kind == "list_type":
            advice = _advise_shape(value, path, owner, wanted, suggest) or advice
        if kind == "string_type" and isinstance(value, dict) and list(value.values()) == [None]:
            return f"a name in braces is not in quotes: write '\"{{{next(iter(value))}}}\"'"
        if kind == "string_type" and isinstance(value, list | dict):
            advice = "write one value"
        if kind == "bool_type" and value in ("true", "false"):
            return f"'{value}' in quotes is text: remove the quotes"
        return f"{name_value(value)} is not {what}: {advice}"
    return detail["msg"].lower()


def _advise_shape(
    value: object, path: ValuePath, owner: type[FileModel] | None, wanted: Any, suggest: Suggest
) -> str | None:
    """Return the advice for a value in place of a list or a mapping; None without any."""
    key = _key_of(path)
    entry = write_expected(value, suggest(("holds",), None)) if key == "expect" and isinstance(value, str) else None
    if key == "plots" and isinstance(value, str) and "." in value and (axis := suggest(("over",), None)):
        entry = f"{{metric: {value}, over: {axis}}}"
    if entry:
        return f"write '{entry if path[-1] != key else f'[{entry}]'}'"
    field = fields_of(owner).get(key) if path and path[-1] == key else None
    example = _fit(field.examples[0] if field and field.examples else _example_of(wanted), path, suggest)
    below = _bare(get_args(wanted)[-1]) if get_args(wanted) else None
    if get_origin(wanted) is list:
        first = example[0] if isinstance(example, list) and example else None
        keys = fields_of(below) if _is_model(below) else first if isinstance(first, dict) else {}
        advice = advise_list(key, value, keys)
    else:
        is_of_flow = owner is not None and "tool" in owner.model_fields
        if key == "congestion" and isinstance(value, str):
            return f"write 'sysctl: {{net.ipv4.tcp_congestion_control: {value}}}' for all links"
        if whole := write_out("nodes" if path[:-1] == ("nodes",) else key, value, is_of_flow):
            return f"write '{whole}'"
        advice = advise_mapping(value, _example_of(below), bool(path) and isinstance(path[-1], int))
    if advice is None and value is False:
        return "remove it"
    written = f"{key}: {write_flow(example)}" if path and path[-1] == key else write_flow(example)
    return advice or (None if example is None else f"write '{written}'")


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, FileModel)


def _example_of(kind: Any) -> Any:
    """Return an example of a type of mappings or lists: of a model, its required keys or the first with an example."""
    if get_origin(kind) is list:
        inner = _example_of(_bare(get_args(kind)[0]))
        return None if inner is None else [inner]
    known = {key: field for key, field in fields_of(kind).items() if field.examples} if _is_model(kind) else {}
    needed = [key for key, field in known.items() if field.is_required()] or [*known][:1]
    return {key: (known[key].examples or [None])[0] for key in needed} or None


def _fit(example: Any, path: ValuePath, suggest: Suggest) -> Any:
    if isinstance(example, dict):
        return {key: _fit(value, (*path, key), suggest) for key, value in example.items()}
    if isinstance(example, list):
        return [_fit(value, (*path, n), suggest) for n, value in enumerate(example)]
    return suggest(path, example)


def _key_of(path: ValuePath) -> str:
    """Return the last key of a path, without the number of an entry."""
    return next((one for one in reversed(path) if isinstance(one, str)), "")


# The states of a link that people write with YAML's words for true and false.
_SWITCHED: Mapping[str, str] = dict.fromkeys(("off", "no", "false"), "down") | dict.fromkeys(
    ("on", "yes", "true"), "up"
)

# Words for which files have another key, or none that is spelled in a similar way.
_SYNONYMS: Mapping[str, Sequence[str]] = {
    "bandwidth": ("rate",), "bw": ("rate",), "latency": ("delay",), "buffer": ("queue",), "time": ("duration", "at"),
    "at": ("start",),
    "source": ("from",), "src": ("from",), "destination": ("to",), "dst": ("to",), "cc": ("congestion",),
    "after": ("start",), "parameters": ("params",), "flows": ("traffic",), "links": ("paths",), "vars": ("params",),
    "client": ("from",), "server": ("to",), "bytes": ("size",), "length": ("duration",), "type": ("tool", "kind"),
    "transport": ("protocol",), "connections": ("parallel",), "stop": ("duration", "until"),
    "count": (), "args": (), "streams": ("parallel",), "path": ("link", "paths"),
    "nodes": ("between", "hosts"), "ends": ("between",), "ip": ("addresses",),
}  # fmt: skip


def _say_unknown(path: ValuePath, owner: type[FileModel] | None, below: object) -> str:
    """Return the message of a key that a mapping does not have. below: the value of the key."""
    key, known = str(path[-1]), [*fields_of(owner), *(owner.READ_BEFORE if owner else ())]
    if key == "topology" and isinstance(below, str) and below.endswith((".yaml", ".yml")):
        return f"an experiment names no topology: write '-t {below}' in the command, and remove this line"
    of_path = owner.ELSEWHERE.get("path") if owner is not None else None
    if of_path and (key == "bind" or (key in ("source", "src") and ADDRESS.fullmatch(str(below)))):
        return f"'{key}' {of_path}"
    if owner is not None and (where := owner.ELSEWHERE.get(key)):
        given = below if isinstance(below, str | int) else "..."
        return f"'{key}' {where.replace('{value}', str(given))}"
    # a no-break space of a web page is no space of YAML
    name, value = (re.split("[:=]", key.replace("\u00a0", " "), maxsplit=1) + [""])[:2]
    name, value = name.strip(), value.strip()
    if value and name in known and f"{name}=" in key.replace(" ", ""):
        return f"'{key}' has '=' in place of a colon: write '{name}: {value}'"
    if value and name in known:
        return f"'{key}' has no space after its colon: write '{name}: {value}'"
    if key[:1].isdigit():
        return f"'{key}' is no key: write a decimal number with a point, as in '2.5ms'"
    if "metric" in known and "." in key:
        return f"'{key}' is a metric and no key: write '{{metric: {key}, min: ...}}'"
    is_near = find_nearest(key, known) is not None
    is_name = len(path) > 1 and isinstance(path[-2], int) and isinstance(below, dict) and not is_near
    if is_name and (entry := write_entry(_key_of(path[:-1]), key, below, known)):
        return f"'{key}' is a name and no key: write '- {entry}'"
    if len(path) == 1 and isinstance(below, dict) and below and not is_near:
        if "rate" in known and {*below} <= {*known} - {"description", "version"}:
            return f"'{key}' has keys of this level: write them without '{key}:' and without their indentation"
        models = {name: _bare(field.annotation) for name, field in fields_of(owner).items()}
        fitting = "' or '".join(
            name for name, one in models.items() if _is_model(one) and {*below} <= {*fields_of(one)}
        )
        if fitting:
            return f"unknown key '{key}': did you mean '{fitting}'?"
    if owner is not None and key not in _SYNONYMS and not is_near:
        for name, field in fields_of(owner).items():
            kind = _bare(field.annotation)
            entry_model = _bare(get_args(kind)[0]) if get_origin(kind) is list else None
            if _is_model(entry_model) and key in fields_of(entry_model):
                return f"'{key}' is a key of an entry of '{name}': write it there"
        if owner.READ_BEFORE and isinstance(below, dict | list):
            return f"unknown key '{key}'{list_names(known, 'keys here')}; a key of your own is 'x-{key}'"
    if len(path) == 3 and isinstance(below, dict) and below and {*below} <= {*known}:
        return f"'{key}' has keys of an entry of '{path[0]}': give it the indentation of '{path[1]}'"
    if key not in _SYNONYMS:
        return f"unknown key '{key}'{name_nearest(key, known, 'keys here')}"
    meant = next((one for one in _SYNONYMS[key] if one in known), None)
    return f"unknown key '{key}'" + (f": did you mean '{meant}'?" if meant else list_names(known, "keys here"))


# A whole number with a unit that is no multiple of another.
_COUNTED = re.compile("([0-9]+) *(?![kmgKMG]i?[bB])[A-Za-z%]+")
# A number of so many digits is read as text.
_MANY_DIGITS = re.compile("[1-9][0-9]{19,}")
_MAPPING = ("a mapping", "write 'key: value' pairs")
_WANTED = {
    "string_type": ("text", "put it in quotes"),
    "int_type": ("a whole number", "write one, as in '1'"),
    "float_type": ("a number", "write one, as in '4' or '2.5'"),
    "bool_type": ("true or false", "write one of the two"),
    "list_type": ("a list", "write [a, b], or '- ' before each entry"),
    "dict_type": _MAPPING,
    "model_type": _MAPPING,
    "model_attributes_type": _MAPPING,
}


def write_example(owner: type[FileModel] | None, key: str, fit: Callable[[Any], Any] = lambda example: example) -> str:
    """Return a key with an example of its value. fit: return the example with other names."""
    field = fields_of(owner).get(key)
    return f"{key}: {write_flow(fit(field.examples[0])) if field and field.examples else '...'}"


def _find_whole(text: str) -> int | None:
    """Return the whole number that a text means, as 010, 1_0, 0x5 and 5s do; None if it means none."""
    for base in (0, 10):
        with contextlib.suppress(ValueError):
            return int(text, base)
    match = _COUNTED.fullmatch(text)
    return int(match[1]) if match else None


def _find_largest(owner: type[FileModel] | None, key: str) -> int | None:
    """Return the largest whole number that a key may have; None if it is not known."""
    field = fields_of(owner).get(key)
    kinds = (field.annotation, *get_args(field.annotation)) if field else ()
    known = (*(field.metadata if field else ()), *(one for kind in kinds for one in get_args(kind)))
    return next((one.maximum for one in known if hasattr(one, "maximum")), None)
