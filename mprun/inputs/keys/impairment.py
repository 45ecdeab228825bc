# SPDX-License-Identifier: Apache-2.0
"""The properties of a direction of a link, as in a file (tc-netem(8)).

Each property is one value (`1%`, `5ms`, `80packets`) or a mapping with options. A mapping with `forward` and `reverse`
has a value for each direction. Parsers return values of `spec`. `link` checks that they fit together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import Annotated, Any, TypeVar, get_args

from pydantic import Field, GetJsonSchemaHandler, PlainValidator, WithJsonSchema, create_model
from pydantic_core import CoreSchema

from mprun.inputs.keys.field import JsonSchema, checked, parsed, quantity, text_schema
from mprun.inputs.keys.file_model import FileModel, read_fields, refuse
from mprun.model import units
from mprun.model.discipline import DISCIPLINES, LOSS_MODELS, OPTIONS, Discipline, DisciplineName, Option, OptionKind
from mprun.model.frozen import Frozen
from mprun.model.problem import ValuePath, name_nearest
from mprun.model.scalar import name_value
from mprun.model.spec import ONE_BDP, Chance, Distribution, FourState, GilbertElliott, Jitter, Loss, Queue, Reorder

FieldT = TypeVar("FieldT")
# A value for each direction: forward and reverse.
Both = tuple[FieldT | None, FieldT | None]


def _count(least: int, most: int, reason: str, *examples: int) -> tuple[PlainValidator, WithJsonSchema]:
    """The metadata of a whole number between two bounds."""

    def parse(value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise ValueError(f"{name_value(value)} is not a whole number from {least} to {most}: {reason}")
        return value

    schema: JsonSchema = {"type": "integer", "minimum": least, "maximum": most}
    return parsed(parse, schema | ({"examples": list(examples)} if examples else {}))


PERCENT = text_schema(units.PERCENT_PATTERN, "1%", "25%")
DELAY = text_schema(units.DELAY.pattern, "5ms")
QUEUE = text_schema(units.QUEUE_PATTERN, "80packets", "1bdp")

_Delay = Annotated[int, *quantity(units.JITTER, "5ms")]
_Share = Annotated[float, *parsed(units.parse_ratio, PERCENT)]
_Chance = Annotated[float, *parsed(units.parse_loss, PERCENT)]
_ALL_ALIKE = "'{given}' would give every packet the fate of the first: write less, such as '25%'"
_Correlation = Annotated[float, *checked(units.parse_ratio, PERCENT, lambda share: share < 1, _ALL_ALIKE)]
_require: Callable[..., Any] = partial(Field, examples=PERCENT["examples"])


class SchemaOnDemand(Frozen):
    """Metadata of a type: the function that returns its JSON Schema. Only an editor's schema needs the schema."""

    make: Callable[[], JsonSchema]

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchema:
        return self.make()


def mapping_schema(model: type[FileModel]) -> JsonSchema:
    """The JSON Schema of a mapping that is one of several forms of a value."""
    schema = model.model_json_schema()
    properties = {
        name: {key: one for key, one in inner.items() if key not in ("title", "default")}
        for name, inner in schema["properties"].items()
    }
    required = schema.get("required", [])
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


class JitterEntry(FileModel):
    """The variation of the delay."""

    amount_ns: _Delay = Field(alias="amount", examples=["5ms"])
    """The size of the variation. For `uniform` it is half the width of the distribution, so the standard deviation is
    0.577 of the amount. For `normal` it is the standard deviation. For `pareto` and `paretonormal` it is the scale of
    tc's tables, whose standard deviations are 0.820 and 0.834 of the amount."""
    correlation: _Correlation = 0.0
    """The correlation with the delay of the previous packet."""
    distribution: Annotated[Distribution, WithJsonSchema({"enum": list(get_args(Distribution))})] = "uniform"
    """The distribution of the delays. Default: uniform."""


class RandomEntry(FileModel):
    """Independent losses, or losses that depend on the previous packet."""

    probability: _Chance = _require(alias="random")
    """The share of lost packets."""
    correlation: _Correlation = 0.0
    """The correlation with the loss of the previous packet."""


class ReorderEntry(FileModel):
    """Packets that are sent immediately while others wait for the delay."""

    probability: _Chance = _require()
    """The probability p that a packet is sent immediately. With `gap`, it counts only for packets that may be."""
    gap: Annotated[int, *_count(1, 10_000, "N - 1 packets follow each one that is sent immediately")] = 1
    """The number N: after a packet that was sent immediately, N - 1 packets are delayed. Each further packet has the
    probability p again. The share of packets that are sent immediately is p / (1 + (N - 1) p): 16.7 % for p = 50% and N
    = 5. Default: 1."""


def _value_or_entry(
    kind: Callable[..., FieldT], parse: Callable[[object], object], entry: type[FileModel]
) -> Callable[[object], FieldT]:
    """Return a parser of one value, such as `5ms`, or of a mapping with the same value and its options."""
    return lambda value: kind(**read_fields(entry, value)) if isinstance(value, dict) else kind(parse(value))


def _make_states(model: str) -> type[FileModel]:
    """Return the model of the probabilities of a loss model. The first is required."""
    first, *others = LOSS_MODELS[model].items()
    fields: dict[str, Any] = {first[0]: (_Chance, _require(description=first[1]))}
    fields |= {name: (_Share, Field(None, description=meaning)) for name, meaning in others}
    return create_model(f"_{model}", __base__=FileModel, **fields)


_STATES = {model: _make_states(model) for model in LOSS_MODELS}


def _parse_states(model: str, value: object) -> dict[str, float]:
    if not isinstance(value, dict):
        raise ValueError(f"must be a mapping: write its keys, as in '{{{next(iter(LOSS_MODELS[model]))}: 1%}}'")
    return read_fields(_STATES[model], value)


def _make_loss(model: str, description: str) -> type[FileModel]:
    """Return the model of the mapping that names a loss model."""
    inner = PlainValidator(partial(_parse_states, model)), SchemaOnDemand(partial(mapping_schema, _STATES[model]))
    fields: dict[str, Any] = {model: (Annotated[dict[str, float], *inner], Field(description=description))}
    return create_model("_Loss", __base__=FileModel, **fields)


LOSS_ENTRIES: Mapping[str, type[FileModel]] = {
    "random": RandomEntry,
    "gemodel": _make_loss("gemodel", "The Gilbert-Elliott model with a good and a bad state."),
    "state": _make_loss("state", "The model of four states of tc-netem(8)."),
}


def parse_loss_model(value: object) -> Loss:
    """Parse `1%`, `{random: 1%, correlation: 25%}`, `{gemodel: {p: 1%, r: 10%}}` or `{state: {p13: 1%}}`."""
    model, *given = str(value).split() or [""]
    if given and model in LOSS_MODELS:
        inner = ", ".join(f"{key}: {one}" for key, one in zip(LOSS_MODELS[model], given, strict=False))
        raise ValueError(f"'{value}' is tc's spelling: write '{{{model}: {{{inner}}}}}'")
    if not isinstance(value, dict):
        return Chance(units.parse_loss(value))
    models = [name for name in LOSS_ENTRIES if name in value]
    if len(models) != 1:
        raise ValueError("must name one loss model: write 'random: 1%', 'gemodel: {p: 1%}' or 'state: {p13: 1%}'")
    read = read_fields(LOSS_ENTRIES[models[0]], value)
    if models[0] == "random":
        return Chance(**read)
    given = read[models[0]]
    if models[0] == "gemodel":
        return GilbertElliott(given["p"], given.get("r", 1 - given["p"]), given.get("1-h", 1.0), given.get("1-k", 0.0))
    chain = FourState(**{"p31": 1 - given["p13"], "p32": 0.0, "p23": 1.0, "p14": 0.0} | given)
    if chain.p13 + chain.p14 > 1 or chain.p31 + chain.p32 > 1:
        raise refuse({("state",): "has probabilities above 100%: p13 + p14 and p31 + p32 are at most 100%"}, 0)
    return chain


# The types of options of queueing disciplines; a count has its own bounds.
_TYPES: Mapping[OptionKind, Any] = {
    "flag": bool,
    "ns": _Delay,
    "bytes": Annotated[int, *quantity(units.SIZE, "15kb")],
    "share": _Share,
}


def _option_field(option: Option) -> Any:
    count = Annotated[int, *_count(option.least, option.most, option.reason, *option.examples)]
    return _TYPES.get(option.kind, count), Field(None, description=option.meaning)


class _AnyQueueEntry(FileModel):
    """The keys of a queue besides the options of its discipline."""

    limit: Annotated[Queue, *parsed(units.parse_queue, QUEUE)] = ONE_BDP
    """The capacity of the queue. Default: 1bdp."""
    discipline: Annotated[DisciplineName, WithJsonSchema({"enum": list(DISCIPLINES)})] = "fifo"
    """The queueing discipline. Default: fifo."""


_FIELDS: dict[str, Any] = {name: _option_field(option) for name, option in OPTIONS.items()}
QueueEntry = create_model("QueueEntry", __base__=_AnyQueueEntry, **_FIELDS)


def _advise_option(key: str, known: Discipline) -> str:
    """Return the remedy for an option that a queue does not have. known: its discipline."""
    owners = [name for name, one in DISCIPLINES.items() if key in one.options]
    if owners and not known.options:
        return f": write 'discipline: {owners[0]}' too"
    return name_nearest(key, known.options, "its options")


def parse_queue(value: object) -> Queue:
    """Parse `80packets` or `{limit: 80packets, discipline: codel, target: 5ms, ecn: true}`.

    Without a limit the queue is one BDP.
    """
    if isinstance(value, str) and value in DISCIPLINES:
        raise ValueError(f"'{value}' is a discipline: write '{{discipline: {value}}}'")
    if not isinstance(value, dict):
        return units.parse_queue(value)
    options = read_fields(QueueEntry, value)
    limit, name = options.pop("limit", ONE_BDP), options.pop("discipline", "fifo")
    known = DISCIPLINES[name]
    problems: dict[ValuePath, str] = {
        (key,): f"is no option of {name}{_advise_option(key, known)}"
        for key in value
        if key in options and key not in known.options
    }
    if known.counts and {known.counts, limit.unit} == {"packets", "bytes"}:
        problems[("limit",)] = (
            f"is in {limit.unit}, and {name} counts {known.counts}: write {known.counts}, a time or BDPs"
        )
    if "min" in options and options.get("max", options["min"] + 1) <= options["min"]:
        problems[("max",)] = "is not above 'min', where dropping begins: raise it"
    if problems:
        raise refuse(problems, value)
    return Queue(limit.amount, limit.unit, name, dict(sorted(options.items())))


# Words for the directions that people write. A link has two ends, and none of them is up or down.
_OTHER_DIRECTIONS = frozenset("up down upload download uplink downlink in out there back tx rx".split())


def _by_direction(parse: Callable[[object], FieldT]) -> Callable[[object], Both[FieldT]]:
    """Return a parser of one value for both directions, or of a mapping with `forward`, `reverse` or both."""

    @cache
    def entry() -> type[FileModel]:
        """Return the model of the mapping, which few files need."""
        one: Any = Annotated[Any, PlainValidator(parse)]
        return create_model("DirectionsEntry", __base__=FileModel, forward=(one, None), reverse=(one, None))

    def read(value: object) -> Both[FieldT]:
        words = value.keys() if isinstance(value, dict) else set()
        if isinstance(value, list) or (words & _OTHER_DIRECTIONS and not words & {"forward", "reverse"}):
            raise ValueError("has no value for both directions: write one, or {forward: ..., reverse: ...}")
        if not isinstance(value, dict) or (value and not value.keys() & {"forward", "reverse"}):
            both = parse(value)
            return both, both
        parsed = read_fields(entry(), value)
        if not parsed:
            raise ValueError("is empty: write 'forward', 'reverse' or both")
        return parsed.get("forward"), parsed.get("reverse")

    return read


def spread_directions(position: ValuePath, value: object) -> Iterator[tuple[ValuePath, object]]:
    """Yield a written value with its place, or the value of each direction with the place of the direction."""
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield (*position, key), one
    elif value is not None:
        yield position, value


def _both(
    parse: Callable[[object], Any], one: dict[str, Any], *models: type[FileModel]
) -> tuple[PlainValidator, SchemaOnDemand]:
    """The metadata of a property: the parser and the schema of its value, and the models of its mappings."""

    def make() -> JsonSchema:
        way: JsonSchema = {"oneOf": [one, *map(mapping_schema, models)]} if models else one
        directions = {
            "forward": {**way, "description": "The direction from the first end to the second."},
            "reverse": {**way, "description": "The direction from the second end to the first."},
        }
        each = {"type": "object", "properties": directions, "additionalProperties": False, "minProperties": 1}
        return {"oneOf": [way, each]}

    return PlainValidator(_by_direction(parse)), SchemaOnDemand(make)


_RATE = text_schema(units.RATE.pattern, "20mbit", "500kbit", "1gbit")
RateBoth = Annotated[Both[int], *_both(units.parse_link_rate, _RATE)]
DelayBoth = Annotated[Both[int], *_both(units.DELAY.parse, text_schema(units.DELAY.pattern, "20ms", "500us"))]
JitterBoth = Annotated[
    Both[Jitter], *_both(_value_or_entry(Jitter, units.JITTER.parse, JitterEntry), DELAY, JitterEntry)
]
LossBoth = Annotated[Both[Loss], *_both(parse_loss_model, PERCENT, *LOSS_ENTRIES.values())]
# without a correlation, as netem's reduces the share far below the given one
ChanceBoth = Annotated[Both[Chance], *_both(lambda value: Chance(units.parse_loss(value)), PERCENT)]
_reorder = _value_or_entry(Reorder, units.parse_loss, ReorderEntry)
ReorderBoth = Annotated[Both[Reorder], *_both(_reorder, PERCENT, ReorderEntry)]
QueueBoth = Annotated[Both[Queue], *_both(parse_queue, QUEUE, QueueEntry)]
