# SPDX-License-Identifier: Apache-2.0
"""Quantities: parse texts into exact base units, and spell them in the style of files, of tc(8) or of people.

Base units: bit/s, ns, bytes, and probabilities 0..1. A quantity that would lose a digit on the way is refused, and so
is a number without a unit. Measured values, which are floats, have `format_measured`. Where a quantity may stand is
not decided here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from decimal import Decimal
from typing import Literal

from mprun.model.frozen import Frozen
from mprun.model.scalar import Product, read_product
from mprun.model.spec import Queue, QueueUnit

NS_PER_S = 1_000_000_000
NS_PER_MS = 1_000_000
DAY_NS = 86_400 * NS_PER_S
FRAME_BYTES = 1514

# file: as files have it. tc: as tc(8) reads it. people: with spaces, and the units that people say.
Style = Literal["file", "tc", "people"]

# Base unit of measured values -> (factor, name) of what people say, largest first.
PREFIXES: Mapping[str, Sequence[tuple[float, str]]] = {
    "bit/s": ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1, "bit/s")),
    "s": ((1, "s"), (1e-3, "ms"), (1e-6, "µs")),
    "byte": ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "B")),
    "share": ((0.01, "%"),),
    "1": ((1, ""),),
}
_LARGER = {"bit": "kbit", "kbit": "mbit", "mbit": "gbit", "ns": "us", "us": "ms", "ms": "s", "bytes": "kB", "kB": "MB"}
_SAID = {"bit": "bit/s", "kbit": "kbit/s", "mbit": "Mbit/s", "gbit": "Gbit/s", "us": "µs"}
_ONE = {"packets": "packet", "bytes": "byte"}
_RENDERED = re.compile(r"([0-9.]+)([a-zA-Z%]+)")

_QUANTITY = re.compile(r"([+-]?)([0-9]{1,20})(?:\.([0-9]{1,30}))?( *)([A-Za-z%][A-Za-z/%]*)?")


class QuantityError(ValueError):
    """A text that is no quantity of the wanted kind. The message says what to write."""


class Quantity(Frozen):
    """A kind of quantity: its units and its range.

    `units`: the number of base units in each unit, smallest first.
    `bare`: the units to suggest for a bare number.
    `minimum`, `maximum`: in base units, with the reason for refusing values outside.
    `mistaken`: units that people write by mistake, and the correction.
    `canonical`: the units that `render` uses (default: all), smallest first.
    """

    noun: str
    units: Mapping[str, int]
    example: str
    bare: tuple[str, ...]
    minimum: int = 0
    maximum: int | None = None
    too_small: str = ""
    too_large: str = ""
    mistaken: Mapping[str, str] = field(default_factory=dict)
    canonical: tuple[str, ...] = ()

    def parse(self, value: object) -> int:
        """Return base units as a whole number. Raises QuantityError."""
        return self.scale(value, *_split(self, value))

    def scale(self, value: object, numerator: int, denominator: int, unit: str) -> int:
        """Return the base units of a quantity that `_split` has read from `value`. Raises QuantityError."""
        amount, rest = divmod(numerator * self.units[unit], denominator)
        if rest:
            smallest = next(iter(self.units))
            raise QuantityError(f"'{value}' is finer than 1{smallest}, the smallest step: write whole {smallest}")
        if amount < self.minimum:
            least = self.render(self.minimum)
            raise QuantityError(f"'{value}' is below {least}, the smallest {self.noun}: {self.too_small}")
        if self.maximum is not None and amount > self.maximum:
            most = self.render(self.maximum)
            raise QuantityError(f"'{value}' is above {most}, the largest {self.noun}: {self.too_large}")
        return amount

    def render(self, amount: int, style: Style = "file") -> str:
        """Return an exact text of an amount.

        file: the shortest in one unit: `20mbit`, `1500us`.
        tc: the same without ns, which tc(8) does not take: `0.007us`.
        people: `1.5 ms`, `20 Mbit/s`.
        """
        units = self.canonical or tuple(self.units)
        if style == "tc" and self.units is _TIME_UNITS:
            units = tuple(unit for unit in units if unit != "ns")
            if amount % self.units["us"]:
                return f"{amount // 1000}.{amount % 1000:03d}us"
        fitting = [unit for unit in units if amount % self.units[unit] == 0]
        # nothing at all is 0s to tc, as it has always been, and 0ns in files
        unit = fitting[-1] if amount or style == "tc" else units[0]
        text = f"{amount // self.units[unit]}{unit}"
        return _say(text) if style == "people" else text

    def find_mistake(self, number: str, unit: str) -> str | None:
        """Return the problem of a number whose unit people write by mistake; None for another unit."""
        lower = unit.lower()
        if lower in self.mistaken:
            return f"'{unit}' {self.mistaken[lower]}".replace("{number}", number)
        is_upper = lower in self.units and lower != unit
        return f"units are in lower case: write '{number}{lower}'" if is_upper else None

    @property
    def pattern(self) -> str:
        """A regular expression (ECMA 262) for the JSON Schema."""
        return rf"^[0-9]+(\.[0-9]+)?({'|'.join(self.units)})$"


_THOUSANDS = re.compile("[0-9]{1,3},[0-9]{3}(?![0-9])")
_DECIMAL_COMMA = re.compile(r"[0-9]+,[0-9]+ *[A-Za-z%][A-Za-z/%]*")
# The signs of micro in Unicode, before the s of seconds.
_MICRO = re.compile("[\u00b5\u03bc]s")


def _split(kind: Quantity, value: object) -> tuple[int, int, str]:
    """Return numerator, denominator and unit of a quantity in a text. Raises QuantityError."""
    if isinstance(value, Product):
        # a problem is one of the quantity that a person wrote
        _split(kind, value.quantity)
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise QuantityError(_bare(kind, format(value, "f").rstrip("0").rstrip(".") if value % 1 else f"{value:.0f}"))
    if not isinstance(value, str):
        raise QuantityError(f"must be a {kind.noun}: write one as in '{kind.example}'")
    match = _QUANTITY.fullmatch(value)
    if match is None and _MICRO.search(value):
        raise QuantityError(f"'{value}' has a sign of its own for micro: write '{_MICRO.sub('us', value)}'")
    if match is None and _DECIMAL_COMMA.fullmatch(value):
        offers = [value.replace(",", "."), *([value.replace(",", "")] if _THOUSANDS.match(value) else [])]
        raise QuantityError(f"'{value}' has a comma: write {' or '.join(map(repr, offers))}")
    if match is None and (remedy := _compute(kind, value)):
        raise QuantityError(f"'{value}' {remedy}")
    if match is None:
        raise QuantityError(f"'{value}' is not a {kind.noun}: write one as in '{kind.example}'")
    sign, whole, decimals, space, unit = match.groups(default="")
    number = f"{whole}.{decimals}" if decimals else whole
    if sign:
        problem = f"a {kind.noun} cannot be negative" if sign == "-" else f"a {kind.noun} has no sign"
        raise QuantityError(f"{problem}: write '{number}{unit or kind.bare[0]}'")
    if not unit:
        raise QuantityError(_bare(kind, number))
    if unit in kind.units:
        if space:
            raise QuantityError(f"number and unit are one word: write '{number}{unit}'")
        return int(whole + decimals), int(10 ** len(decimals)), unit
    if mistake := kind.find_mistake(number, unit):
        raise QuantityError(mistake)
    raise QuantityError(
        f"no unit '{unit}' for a {kind.noun}: write one of {', '.join(kind.units)}, as in '{kind.example}'"
    )


def _compute(kind: Quantity, text: str) -> str:
    """Return the remedy for a product or a quotient, or for a delay with a jitter; empty for other texts."""
    several = text.split()
    if kind is DELAY and len(several) == 2 and all(one.endswith("s") and _QUANTITY.fullmatch(one) for one in several):
        return f"is two values: write '{several[0]}', and 'jitter: {several[1]}' beside 'delay'"
    found = read_product(text, "[0-9.]+[A-Za-z]+")
    if found is None:
        return ""
    quantity, sign, factor = found
    kind.parse(quantity)
    unit = quantity.lstrip(".0123456789")
    number = Decimal(quantity.removesuffix(unit))
    result = f"{(number / factor if sign == '/' else number * factor).normalize():f}{unit}"
    with suppress(QuantityError):
        (parse_queue if kind is _QUEUE else kind.parse)(result)
        return f"is not computed: write '{result}'"
    return f"is not computed: write one value, as in '{kind.example}'"


def _bare(kind: Quantity, number: str) -> str:
    number = number.lstrip("-")
    if "mbit" in kind.bare and number.isdigit() and int(number) <= (kind.maximum or 0) < int(number) * 1_000_000:
        # too large in Mbit/s, so it is in bit/s, as in 3e7
        return f"a bare number has no unit: write '{kind.render(int(number))}'"
    offers = [number + unit for unit in kind.bare] if float(number) or not kind.minimum else [kind.example]
    if kind.units == {"%": 1} and 0 < float(number) < (kind.maximum or 200) / 100:
        offers.append(f"{float(number) * 100:g}%")
    if "s" in kind.units and 0 < float(number) < 1:
        # seconds, as other programs count
        offers = [f"{number}s", *offers]
    return f"a bare number has no unit: write {' or '.join(map(repr, dict.fromkeys(offers)))}"


_TIME_UNITS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": NS_PER_S, "min": 60 * NS_PER_S}
_TIME_MISTAKEN = {
    **dict.fromkeys(("sec", "secs", "second", "seconds"), "is not a unit here: write '{number}s'"),
    "msec": "is not a unit here: write '{number}ms'",
    "usec": "is not a unit here: write '{number}us'",
    "m": "may be minutes or milliseconds: write '{number}ms' or '{number}min'",
    "h": "is not a unit here: write minutes, as in '60min'",
}
_RATE_UNITS = {
    "bit": 1, "kbit": 1_000, "kibit": 1 << 10, "mbit": 1_000_000, "mibit": 1 << 20, "gbit": 10**9, "gibit": 1 << 30,
}  # fmt: skip
_RATE_MISTAKEN = {
    **{unit: f"is no unit of bits: write '{{number}}{unit}bit'" for unit in "kmg"},
    "bps": "is bytes per second to tc: write '{number}bit' for bits per second",
    "kbps": "is kilobytes per second to tc: write '{number}kbit' for kilobits per second",
    "mbps": "is megabytes per second to tc: write '{number}mbit' for megabits per second",
    "gbps": "is gigabytes per second to tc: write '{number}gbit' for gigabits per second",
    "kbit/s": "is written '{number}kbit'",
    "mbit/s": "is written '{number}mbit'",
    "gbit/s": "is written '{number}gbit'",
}

RATE = Quantity(
    noun="rate",
    units=_RATE_UNITS,
    example="20mbit",
    bare=("mbit", "kbit"),
    minimum=8,
    maximum=100 * 10**9,
    too_small="a link carries at least a byte per second",
    too_large="no link of this kind carries more",
    mistaken=_RATE_MISTAKEN,
    canonical=("bit", "kbit", "mbit", "gbit"),
)
DELAY = Quantity(
    noun="delay",
    units=_TIME_UNITS,
    example="20ms",
    bare=("ms", "us"),
    maximum=60 * NS_PER_S,
    too_large="no connection would open over it",
    mistaken=_TIME_MISTAKEN,
    canonical=("ns", "us", "ms", "s"),
)
# A delay that has no jitter of its own.
JITTER = replace(DELAY, example="5ms")
RTT = replace(DELAY, noun="round-trip time", example="40ms", maximum=120 * NS_PER_S)
TIME = replace(
    DELAY, noun="time", example="10s", bare=("s", "ms"), maximum=DAY_NS, too_large="a run lasts a day at most"
)
INTERVAL = replace(
    DELAY,
    noun="interval",
    example="100ms",
    bare=("ms", "s"),
    minimum=1_000_000,
    maximum=3600 * NS_PER_S,
    too_small="samples would follow one another without a pause",
    too_large="hardly a run would have a second sample",
)
WIDTH = Quantity(
    noun="width",
    units={"um": 1, "mm": 1_000, "cm": 10_000, "in": 25_400},
    example="85mm",
    bare=("mm",),
    minimum=40_000,
    maximum=400_000,
    too_small="a figure has no room for its labels",
    too_large="no page is so wide",
    canonical=("um", "mm"),
)
SIZE = Quantity(
    noun="size",
    units={"byte": 1, "bytes": 1, "b": 1, "kb": 1 << 10, "kbyte": 1 << 10, "mb": 1 << 20, "mbyte": 1 << 20},
    example="1400bytes",
    bare=("bytes", "kb"),
    maximum=1 << 30,
    too_large="nothing here is larger than a gigabyte",
    mistaken={
        **{f"{unit}ib": f"is what tc calls {unit}b: write '{{number}}{unit}b'" for unit in "kmg"},
        **{unit: f"is no unit of bytes: write '{{number}}{unit}b'" for unit in "kmg"},
    },
    canonical=("bytes",),
)
# The total size of a flow.
VOLUME = replace(
    SIZE,
    units={**SIZE.units, "gb": 1 << 30, "gbyte": 1 << 30},
    maximum=1 << 40,
    too_large="no run would carry a terabyte",
)


# tc and the kernel count the rate of a link in whole bytes per second.
RATE_STEP = 8
LEAST_LINK_RATE = RATE.minimum

# The kernel holds the limit of a queue in bytes in 32 bits.
MOST_QUEUE_BYTES = 2**32 - 1


def hold_rate(rate: float) -> int:
    """Return the rate in bit/s that a link can have and that is nearest to a rate. It is no less than the least."""
    return max(LEAST_LINK_RATE, math.floor(rate / RATE_STEP + 0.5) * RATE_STEP)


_LINK_RATE = replace(RATE, too_small=f"{RATE.too_small}; to carry nothing, write an event with 'state: down'")


def parse_link_rate(value: object) -> int:
    """The rate of a link, rounded to one that it can have. Raises QuantityError."""
    is_zero = value in (0, "0") and value is not False
    return hold_rate(_LINK_RATE.scale(value, 0, 1, "bit") if is_zero else _LINK_RATE.parse(value))


def tell_rounding(value: object) -> str | None:
    """The warning about a rate of a link that is rounded. None if it is not, or if the value is no rate."""
    with suppress(QuantityError):
        asked = RATE.parse(value)
        if asked != hold_rate(asked):
            used = RATE.render(hold_rate(asked))
            return f"'{value}' cannot be set exactly, as tc counts whole bytes per second: {used} is used"
    return None


def hold_step(number: Decimal, unit: str) -> Decimal:
    """Return the number of a computed quantity, rounded to one that a file may have: of whole base units.

    A rate is rounded to one that a link can have.
    """
    kinds = (TIME, RATE, VOLUME, _QUEUES["packets"])
    size = next((kind.units[unit] for kind in kinds if unit in kind.units), NS_PER_S)
    parts = next(one for one in (NS_PER_S, NS_PER_MS, 1000, 1024, 1) if size % one == 0)
    step = RATE_STEP if unit in RATE.units else 1
    return Decimal(round(number * parts / step)) * step / parts


def convert(number: Decimal, unit: str, to: str) -> Decimal | None:
    """Return a number in another unit of its kind, as 1 s is 1000 ms; None if no kind of quantity has both units."""
    if unit == to:
        return number
    kinds = [kind.units for kind in (TIME, RATE, VOLUME) if {unit, to} <= kind.units.keys()]
    return number * kinds[0][unit] / kinds[0][to] if kinds else None


# netem draws a 32-bit number for each packet (tc-netem(8)): a smaller loss never happens.
_LEAST_LOSS = 2**-32
_PERCENT = Quantity(
    "percentage", {"%": 1}, "1%", ("%",), maximum=100, mistaken={"percent": "is not a unit here: write '{number}%'"}
)
# A share such as goodput divided by a rate, which may be above 100 %.
_SHARE = replace(_PERCENT, maximum=None)

_QUEUE = Quantity(
    noun="queue",
    units={
        "packets": 1, "packet": 1, **SIZE.units, "ns": 1, "us": 1, "ms": 1, "s": 1, "bdp": 1,
    },
    example="100packets",
    bare=("packets", "kb", "ms"),
    minimum=1,
    mistaken={
        **SIZE.mistaken, **dict.fromkeys(("p", "pkt", "pkts"), "is not a unit here: write '{number}packets'"),
    },
)  # fmt: skip
QUEUE_PATTERN = _QUEUE.pattern
PERCENT_PATTERN = _PERCENT.pattern

_QUEUES: Mapping[QueueUnit, Quantity] = {
    "packets": Quantity(
        noun="queue",
        units={"packets": 1, "packet": 1},
        example="100packets",
        bare=("packets",),
        minimum=1,
        maximum=1_000_000,
        too_small="no packet would pass",
        too_large="it would hold more than a gigabyte",
        canonical=("packets",),
    ),
    "bytes": replace(
        SIZE,
        noun="queue",
        minimum=FRAME_BYTES,
        too_small="no full frame would pass",
        too_large="it would hold more than a gigabyte",
    ),
    "time": replace(
        DELAY,
        noun="queue",
        minimum=1,
        too_small="no packet would pass",
        too_large="TCP would consider every packet lost",
    ),
}


def parse_ratio(value: object) -> float:
    """Parse a percentage into a fraction 0..1, correctly rounded. Raises QuantityError."""
    ratio = parse_share(value, _PERCENT)
    if ratio > 1:
        raise QuantityError(f"'{value}' is above 100%: a probability is at most 100%")
    return ratio


def parse_share(value: object, kind: Quantity = _SHARE) -> float:
    """Parse a percentage, which may be above 100 %, into a fraction. Raises QuantityError."""
    numerator, denominator, _ = _split(kind, value)
    return numerator / (denominator * 100)


def parse_loss(value: object) -> float:
    """Parse the probability of a loss. Raises QuantityError."""
    ratio = parse_ratio(value)
    if 0 < ratio < _LEAST_LOSS:
        raise QuantityError(f"'{value}' is below netem's smallest step, 2^-32: write '0%' or at least '0.00000003%'")
    return ratio


def render_ratio(ratio: float, style: Style = "file") -> str:
    """Return a fraction as a percentage, with no digit lost: `1%`, `0.25%`.

    tc reads ten digits; people read four: `0.25 %`.
    """
    if style == "tc":
        return f"{float(Decimal(str(ratio)) * 100):.10g}%"
    if style == "people":
        return f"{ratio * 100:.4g} %"
    texts = (format(ratio * 100, f".{digits}f") + "%" for digits in range(18))
    return next((text for text in texts if parse_share(text) == ratio), f"{Decimal(repr(ratio)) * 100:f}%")


def parse_queue(value: object) -> Queue:
    """Parse `80packets`, `64kb` (65536 bytes, as tc reads it), `50ms`, `1bdp`. Raises QuantityError."""
    numerator, denominator, unit = _split(_QUEUE, value)
    if unit == "bdp":
        amount = numerator / denominator
        if not 0.01 <= amount <= 1000:
            raise QuantityError(f"'{value}' is not between 0.01bdp and 1000bdp: write '1bdp' for the usual queue")
        return Queue(amount, "bdp")
    dimension = next(one for one, kind in _QUEUES.items() if unit in kind.units)
    return Queue(_QUEUES[dimension].scale(value, numerator, denominator, unit), dimension)


def tell_short_queue(value: object) -> str | None:
    """The warning about a queue of one packet. None for other queues, or if the value is no queue."""
    with suppress(QuantityError):
        if parse_queue(value) == Queue(1, "packets"):
            cost = "a burst loses its packets from the third on, and TCP gets about one hundredth of the rate"
            return f"'{value}' holds one packet: {cost}. Write more packets, or '1bdp'"
    return None


def render_queue(queue: Queue, style: Style = "file") -> str:
    """Return the canonical text: `80packets`, `65536bytes`, `50ms`, `1bdp`; for people `80 packets`."""
    if queue.unit == "bdp":
        text = f"{queue.amount:g}bdp"
        return _say(text) if style == "people" else text
    return _QUEUES[queue.unit].render(int(queue.amount), style)


def _say(text: str) -> str:
    """Return a quantity for people, no digit lost: `1500kbit` -> `1.5 Mbit/s`."""
    match = _RENDERED.fullmatch(text)
    assert match is not None, text
    number, unit = Decimal(match[1]), match[2]
    while number >= 1000 and unit in _LARGER:
        number, unit = number / 1000, _LARGER[unit]
    if number == 1:
        unit = _ONE.get(unit, unit)
    digits = f"{number:f}"
    return f"{digits.rstrip('0').rstrip('.') if '.' in digits else digits} {_SAID.get(unit, unit)}"


def find_prefix(size: float, unit: str) -> tuple[float, str]:
    """Return the factor and name of the largest prefix of a unit that is not above a size, else of the smallest prefix.

    A unit that is not in `PREFIXES` has no prefix.
    """
    known = PREFIXES.get(unit, ((1, unit),))
    return next((one for one in known if size >= one[0]), known[-1])


def factor_of(name: str) -> float:
    """Return the size in base units of a unit that `format_measured` writes."""
    return next(factor for known in PREFIXES.values() for factor, said in known if said == name)


def format_measured(value: float, unit: str) -> str:
    """Return a measured value for people: `36.90 Mbit/s`, `40.000 ms`, `50.1 %`. unit: a base unit of `PREFIXES`.

    Delays below a second are all in milliseconds, so that those of one column can be compared.
    """
    if unit in ("bit/s", "byte"):
        factor, name = find_prefix(abs(value), unit)
        return f"{value / factor:.{0 if factor == 1 else 2}f} {name}"
    if unit == "s":
        return f"{value * 1e3:.3f} ms" if abs(value) < 1 else f"{value:.3f} s"
    if unit == "share":
        text = f"{value * 100:.1f}"
        # a share near 0 or 100 % does not look like 0 or 100 %, unless it is less than a millionth away
        if text in ("0.0", "-0.0", "100.0") and min(abs(value), abs(1 - value)) >= 1e-6:
            text = f"{value * 100:.1g}" if abs(value) < 0.5 else f"{value * 100:.3f}"
        return f"{text} %"
    return f"{value:g}"
