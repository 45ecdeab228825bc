# SPDX-License-Identifier: Apache-2.0
"""The impairments of a direction of a link besides rate and delay, as in a file (tc-netem(8)).

Each kind is one value (`1%`, `5ms`, `80packets`) or a mapping with options. Parsers return values of `spec`. `link`
checks that they agree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mprun.inputs.keys.file_model import faults_at, refuse
from mprun.model import units
from mprun.model.fault import Path, name_nearest
from mprun.model.scalar import name_value
from mprun.model.spec import IN_BYTES, IN_PACKETS, Chance, FourState, GilbertElliott, Jitter, Loss, Queue, Reorder

Schema = dict[str, Any]


@dataclass(frozen=True)
class Key:
    """A key of a mapping: the parser of its value, the JSON Schema of the value, and its description."""

    parse: Callable[[object], Any]
    schema: Schema
    description: str
    required: bool = False


def text_schema(pattern: str, *examples: str) -> Schema:
    """The JSON Schema of a quantity."""
    return {"type": "string", "pattern": pattern, "examples": list(examples)}


def read_mapping(value: Mapping[Any, object], keys: Mapping[str, Key]) -> dict[str, Any]:
    """Parse the values of a mapping with these keys. Raises a ValidationError with every fault."""
    faults: dict[Path, str] = {}
    parsed: dict[str, Any] = {}
    for name, one in value.items():
        if name not in keys:
            faults[(name,)] = f"unknown key '{name}'{name_nearest(str(name), list(keys), 'keys here')}"
            continue
        try:
            parsed[name] = keys[name].parse(one)
        except ValueError as error:
            faults |= faults_at((name,), error)
    for name, key in keys.items():
        if key.required and name not in value:
            faults[(name,)] = f"is missing: write '{name}: {key.schema['examples'][0]}'"
    if faults:
        raise refuse(faults, value)
    return parsed


def mapping_schema(keys: Mapping[str, Key]) -> Schema:
    """The JSON Schema of a mapping with these keys."""
    return {
        "type": "object",
        "properties": {name: {**key.schema, "description": key.description} for name, key in keys.items()},
        "required": [name for name, key in keys.items() if key.required],
        "additionalProperties": False,
    }


def _one_of(words: tuple[str, ...]) -> Callable[[object], str]:
    def parse(value: object) -> str:
        if value not in words:
            raise ValueError(f"{name_value(value)} is not known here{name_nearest(value, words, 'write one of')}")
        return str(value)

    return parse


def _yes_or_no(value: object) -> float:
    if not isinstance(value, bool):
        raise ValueError(f"{name_value(value)} is not true or false: write one of the two")
    return float(value)


def _whole(minimum: int, maximum: int, reason: str) -> Callable[[object], int]:
    def parse(value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not minimum <= value <= maximum:
            raise ValueError(f"{name_value(value)} is not a whole number from {minimum} to {maximum}: {reason}")
        return value

    return parse


_PERCENT = text_schema(units.PERCENT_PATTERN, "1%", "25%")
_TIME = text_schema(units.DELAY.pattern, "5ms")
_SIZE = text_schema(units.SIZE.pattern, "15kb")


def _share(description: str) -> Key:
    return Key(units.parse_ratio, _PERCENT, description)


def _probability(description: str) -> Key:
    return Key(units.parse_loss, _PERCENT, description, required=True)


def _correlation(description: str) -> Key:
    return Key(_parse_correlation, _PERCENT, description)


def _parse_correlation(value: object) -> float:
    ratio = units.parse_ratio(value)
    if ratio == 1:
        raise ValueError(f"'{value}' would give every packet the fate of the first: write less, such as '25%'")
    return ratio


_CORRELATION = _correlation("The correlation with the loss of the previous packet.")
_DISTRIBUTIONS = ("uniform", "normal", "pareto", "paretonormal")
_JITTER = {
    "amount": Key(
        units.DELAY.parse,
        _TIME,
        "The size of the variation. For `uniform` it is half the width of the distribution, so the "
        "standard deviation is 0.577 of the amount. For `normal` it is the standard deviation. For "
        "`pareto` and `paretonormal` it is the scale of tc's tables, whose standard deviations are "
        "0.820 and 0.834 of the amount.",
        required=True,
    ),
    "correlation": _correlation("The correlation with the delay of the previous packet."),
    "distribution": Key(
        _one_of(_DISTRIBUTIONS), {"enum": list(_DISTRIBUTIONS)}, "The distribution of the delays. Default: uniform."
    ),
}
_RANDOM = {"random": _probability("The share of lost packets."), "correlation": _CORRELATION}
_GEMODEL = {
    "p": _probability("The probability to change from the good state to the bad state."),
    "r": _share("The probability to change from the bad state to the good state. Default: 1 - p."),
    "1-h": _share("The probability of loss in the bad state. Default: 100%."),
    "1-k": _share("The probability of loss in the good state. Default: 0%."),
}
_STATE = {
    "p13": _probability("The probability to change from received to lost within a burst."),
    "p31": _share("The probability to change from lost within a burst to received. Default: 1 - p13."),
    "p32": _share("The probability to change from lost to received within a burst. Default: 0%."),
    "p23": _share("The probability to change from received within a burst to lost. Default: 100%."),
    "p14": _share("The probability to change from received to a single isolated loss. Default: 0%."),
}
_REORDER = {
    "probability": _probability(
        "The probability p that a packet is sent immediately. With `gap`, it counts only for packets that may be."
    ),
    "gap": Key(
        _whole(1, 10_000, "N - 1 packets follow each one that is sent immediately"),
        {"type": "integer", "minimum": 1, "maximum": 10_000},
        "The number N: after a packet that was sent immediately, N - 1 packets are delayed. Each further packet has "
        "the probability p again. The share of packets that are sent immediately is p / (1 + (N - 1) p): 16.7 % for "
        "p = 50% and N = 5. Default: 1.",
    ),
}


def parse_jitter(value: object) -> Jitter:
    """`5ms` or `{amount: 5ms, correlation: 25%, distribution: normal}`."""
    if not isinstance(value, dict):
        return Jitter(units.DELAY.parse(value))
    parsed = read_mapping(value, _JITTER)
    return Jitter(parsed.pop("amount"), **parsed)


def parse_chance(value: object) -> Chance:
    """Parse `1%`. There is no correlation, as netem's reduces the share far below the given one."""
    return Chance(units.parse_loss(value))


def parse_loss_model(value: object) -> Loss:
    """`1%`, `{random: 1%, correlation: 25%}`, `{gemodel: {p: 1%, r: 10%}}` or `{state: {p13: 1%}}`."""
    if not isinstance(value, dict):
        return Chance(units.parse_loss(value))
    models = [name for name in ("random", "gemodel", "state") if name in value]
    if len(models) != 1:
        raise ValueError("must name one loss model: write 'random: 1%', 'gemodel: {p: 1%}' or 'state: {p13: 1%}'")
    if models[0] == "random":
        parsed = read_mapping(value, _RANDOM)
        return Chance(parsed["random"], parsed.get("correlation", 0.0))
    keys = _GEMODEL if models[0] == "gemodel" else _STATE
    read: Callable[[object], dict[str, Any]] = lambda inner: _read_inner(inner, keys)  # noqa: E731
    inner = read_mapping(value, {models[0]: Key(read, {}, "")})[models[0]]
    if models[0] == "gemodel":
        p = inner["p"]
        return GilbertElliott(p, inner.get("r", 1 - p), inner.get("1-h", 1.0), inner.get("1-k", 0.0))
    p13 = inner["p13"]
    rest = {"p31": 1 - p13, "p32": 0.0, "p23": 1.0, "p14": 0.0} | {k: v for k, v in inner.items() if k != "p13"}
    chain = FourState(p13, **rest)
    if chain.p13 + chain.p14 > 1 or chain.p31 + chain.p32 > 1:
        raise refuse({("state",): "has probabilities above 100%: p13 + p14 and p31 + p32 are at most 100%"}, 0)
    return chain


def _read_inner(value: object, keys: Mapping[str, Key]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"must be a mapping: write its keys, as in '{{{next(iter(keys))}: 1%}}'")
    return read_mapping(value, keys)


def parse_reorder(value: object) -> Reorder:
    """`25%` or `{probability: 25%, gap: 5}`."""
    if not isinstance(value, dict):
        return Reorder(units.parse_loss(value))
    return Reorder(**read_mapping(value, _REORDER))


_ECN = Key(_yes_or_no, {"type": "boolean"}, "Mark packets of flows with ECN instead of dropping them.")
_TARGET = Key(units.DELAY.parse, _TIME, "The target of the waiting time.")
_INTERVAL = Key(units.DELAY.parse, _TIME, "The time that the waiting time may exceed the target.")
_SIZES = {
    "min": Key(units.SIZE.parse, _SIZE, "The average queue at which dropping begins. Default: limit/6."),
    "max": Key(units.SIZE.parse, _SIZE, "The average queue at which the drop probability is largest. Default: 3 min."),
}
_FLOWS = Key(_whole(1, 65_536, "fq_codel has 1 to 65536 queues"), {"type": "integer"}, "The number of queues.")
_MARKING = _share("The drop probability when the average queue is `max`. Default: 2%.")
_RTT = Key(units.DELAY.parse, _TIME, "The expected round-trip time.")
_CE_THRESHOLD = Key(
    units.DELAY.parse,
    _TIME,
    "Mark every ECN-capable packet that waited longer, as DCTCP and L4S need it. Default: no such threshold.",
)
_STEP = Key(
    units.DELAY.parse, _TIME, "The waiting time in the L4S queue from which every packet is marked. Default: 1ms."
)
_COUPLING = Key(
    _whole(1, 255, "the kernel has 8 bits for it"),
    {"type": "integer", "minimum": 1, "maximum": 255, "examples": [2]},
    "The ratio of the marking probability of the L4S queue to the root of the drop probability of the classic queue. "
    "Default: 2 (RFC 9332).",
)
# The options of each discipline that a file may set.
_OPTIONS: dict[str, dict[str, Key]] = {
    "fifo": {},
    "red": {**_SIZES, "probability": _MARKING, "ecn": _ECN},
    "codel": {"target": _TARGET, "interval": _INTERVAL, "ce_threshold": _CE_THRESHOLD, "ecn": _ECN},
    "fq_codel": {
        "target": _TARGET,
        "interval": _INTERVAL,
        "flows": _FLOWS,
        "ce_threshold": _CE_THRESHOLD,
        "ecn": _ECN,
    },
    "pie": {"target": _TARGET, "ecn": _ECN},
    "cake": {"rtt": _RTT},
    "dualpi2": {"target": _TARGET, "step_thresh": _STEP, "coupling_factor": _COUPLING},
}
_ALL_OPTIONS = {name: key for options in _OPTIONS.values() for name, key in options.items()}
_QUEUE = {
    "limit": Key(
        units.parse_queue,
        text_schema(units.QUEUE_PATTERN, "80packets", "1bdp"),
        "The capacity of the queue. Default: 1bdp.",
    ),
    "discipline": Key(_one_of(tuple(_OPTIONS)), {"enum": list(_OPTIONS)}, "The queueing discipline. Default: fifo."),
    **_ALL_OPTIONS,
}


def parse_discipline(value: object) -> Queue:
    """`80packets` or `{limit: 80packets, discipline: codel, target: 5ms, ecn: true}`.

    Without a limit it is one BDP.
    """
    if not isinstance(value, dict):
        return units.parse_queue(value)
    parsed = read_mapping(value, _QUEUE)
    name = parsed.get("discipline", "fifo")
    limit: Queue = parsed.get("limit", Queue(1.0, "bdp"))
    faults: dict[Path, str] = {}
    for key in parsed:
        if key in _ALL_OPTIONS and key not in _OPTIONS[name]:
            faults[(key,)] = f"is no option of {name}{name_nearest(key, list(_OPTIONS[name]), 'its options')}"
    counted = "bytes" if name in IN_BYTES else "packets"
    if (name in IN_BYTES and limit.unit == "packets") or (name in IN_PACKETS and limit.unit == "bytes"):
        faults[("limit",)] = f"is in {limit.unit}, and {name} counts {counted}: write {counted}, a time or BDPs"
    if "min" in parsed and parsed.get("max", parsed["min"] + 1) <= parsed["min"]:
        faults[("max",)] = "is not above 'min', where dropping begins: raise it"
    if faults:
        raise refuse(faults, value)
    options = tuple((key, float(parsed[key])) for key in sorted(parsed) if key in _ALL_OPTIONS)
    return Queue(limit.amount, limit.unit, name, options)


def _either(*schemas: Schema) -> Schema:
    return {"oneOf": list(schemas)}


JITTER_SCHEMA = _either(_TIME, mapping_schema(_JITTER))
CHANCE_SCHEMA = _PERCENT
REORDER_SCHEMA = _either(_PERCENT, mapping_schema(_REORDER))
LOSS_SCHEMA = _either(
    _PERCENT,
    mapping_schema(_RANDOM),
    mapping_schema(
        {
            "gemodel": Key(
                parse_loss_model,
                mapping_schema(_GEMODEL),
                "The Gilbert-Elliott model with a good and a bad state.",
                required=True,
            )
        }
    ),
    mapping_schema(
        {
            "state": Key(
                parse_loss_model, mapping_schema(_STATE), "The model of four states of tc-netem(8).", required=True
            )
        }
    ),
)
QUEUE_SCHEMA = _either(_QUEUE["limit"].schema, mapping_schema(_QUEUE))
