# SPDX-License-Identifier: Apache-2.0
"""The keys of a search in an experiment file: axes, statement, controls and floors."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, WithJsonSchema

from mprun.inputs.keys.field import NAME_PATTERN, Time, Volume, Whole
from mprun.inputs.keys.file_model import FileModel
from mprun.model import search_space, units
from mprun.model.scalar import Scalar, split_number
from mprun.model.search_space import Choice, NumberAxis, SearchAxis

BETWEEN = ".."
# Ends with at least this ratio make an axis of equal ratios.
LEAST_LOG_RATIO = 10
MOST_VALUES = 100

_RANGE = {"type": "string", "pattern": r"^-?[0-9.]+[A-Za-z%]*\.\.-?[0-9.]+[A-Za-z%]*$"}
_CHOICE = {"type": "array", "minItems": 2, "maxItems": MOST_VALUES}
_AXES = {
    "type": "object",
    "minProperties": 1,
    "maxProperties": 12,
    "additionalProperties": {"anyOf": [_RANGE, _CHOICE]},
}
SearchValues = Annotated[dict[str, Any], Field(min_length=1, max_length=12), WithJsonSchema(_AXES)]
Controls = Annotated[
    dict[Annotated[str, Field(pattern=NAME_PATTERN)], dict[str, str | int | float | bool]],
    Field(min_length=1, max_length=8),
]


class FloorsEntry(FileModel):
    """Conditions below which no run is made, because a violation there would say nothing."""

    queue_packets: Annotated[int, Whole(1, 1_000_000, "a queue holds one packet at least")] = Field(
        search_space.LEAST_QUEUE, alias="queue"
    )
    """The least queue of a link, in packets."""
    buffer_bytes: Volume = Field(search_space.LEAST_BUFFER, alias="buffer", examples=["65536bytes"])
    """The least limit of the send and receive buffers of hosts (`net.ipv4.tcp_wmem`, `tcp_rmem`)."""
    duration_ns: Time = Field(search_space.LEAST_DURATION_NS, alias="duration", examples=["1s"])
    """The least duration of a flow that has one."""


class SearchEntry(FileModel):
    """The conditions to vary, and the statement to violate."""

    vary: SearchValues = Field(
        examples=[{"path1.rate": "1mbit..50mbit", "path1.delay": "1ms..300ms", "cc": ["cubic", "bbr"]}]
    )
    """The axes: parameters and properties of links. A range `1mbit..50mbit` has equal ratios if its ends differ by a
    factor of 10 or more, and else equal differences. A list has values without an order."""
    violate: str = Field(examples=["bulk.goodput >= 0.9 * tcp.bulk.goodput"])
    """The statement that should hold at every point. `CONTROL.METRIC` is a metric of a control run."""
    control: Controls = Field(examples=[{"old": {"kernel": "default"}}])
    """Runs at the same point that show that the conditions are not the cause: by name, the parameters and properties of
    links that they change, or the kernel that runs them. The name of an axis as value stands for the value of this
    axis."""
    floors: FloorsEntry | None = None
    """Conditions below which no run is made."""


def read_axis(name: str, value: object) -> SearchAxis:
    """Return an axis. Raises ValueError."""
    if isinstance(value, list):
        known: list[Scalar] = [one for one in value if isinstance(one, str | int | float | bool)]
        if len(known) < len(value) or len({str(one) for one in known}) < 2 or len(value) > MOST_VALUES:
            raise ValueError(f"must be two to {MOST_VALUES} different values: write '[cubic, bbr]'")
        return Choice(name, tuple(dict.fromkeys(known)))
    first, dots, last = str(value).partition(BETWEEN)
    ends = split_number(first), split_number(last)
    if not dots or ends[0] is None or ends[1] is None:
        raise ValueError("must be a range or a list: write '1mbit..50mbit' or '[cubic, bbr]'")
    (low, unit), (given, other) = ends[0], ends[1]
    high = units.convert(given, other, unit)
    if high is None:
        raise ValueError(f"has ends in units of different kinds, '{unit}' and '{other}': give both the same")
    if low >= high:
        remedy = f"write '{last}{BETWEEN}{first}'" if low > high else "write a list, or another end"
        raise ValueError(f"must end above its beginning: {remedy}")
    return NumberAxis(name, low, high, unit, low > 0 and high / low >= LEAST_LOG_RATIO)
