# SPDX-License-Identifier: Apache-2.0
"""Quantities: the meaning of tc's spelling, and that no digit is lost in either direction."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import get_args

import pytest

from mprun.agent import readback
from mprun.model import units
from mprun.model.spec import Queue
from mprun.model.units import RATE, TIME, Quantity, QuantityError, Style, parse_ratio, render_queue, render_ratio


@pytest.mark.parametrize(
    ("kind", "text", "amount"),
    [
        (units.RATE, "100bit", 100),
        (units.RATE, "20kbit", 20_000),
        (units.RATE, "20mbit", 20_000_000),
        (units.RATE, "0.5mbit", 500_000),
        (units.RATE, "1.000001mbit", 1_000_001),
        (units.RATE, "100gbit", 10**11),
        (units.RATE, "1mibit", 1 << 20),
        (units.DELAY, "0ms", 0),
        (units.DELAY, "1ns", 1),
        (units.DELAY, "0.001us", 1),
        (units.DELAY, "20ms", 20_000_000),
        (units.DELAY, "0.1s", 100_000_000),
        (units.TIME, "2min", 120 * 10**9),
        (units.SIZE, "64kb", 65_536),
        (units.SIZE, "1500bytes", 1500),
        (units.SIZE, "0.5kb", 512),
    ],
)
def test_parse(kind: Quantity, text: str, amount: int) -> None:
    assert kind.parse(text) == amount
    assert re.search(kind.pattern, text)


@pytest.mark.parametrize("kind", [units.RATE, units.DELAY, units.TIME, units.SIZE], ids=lambda k: k.noun)
def test_render_and_parse_are_inverse(kind: Quantity) -> None:
    # Every power of ten and its neighbours, a product of many primes, and every limit of the kind.
    amounts = {10**n + step for n in range(12) for step in (-1, 0, 1)} | {720_720, 1_048_576, 999_999_999}
    within = [a for a in amounts | {kind.minimum} if kind.minimum <= a <= (kind.maximum or a)]
    assert len(within) > 20
    for amount in within:
        assert kind.parse(kind.render(amount)) == amount


@pytest.mark.parametrize("kind", [units.RATE, units.DELAY, units.TIME, units.SIZE], ids=lambda k: k.noun)
def test_bounds_are_where_they_are_said_to_be(kind: Quantity) -> None:
    assert kind.maximum is not None
    base = next(iter(kind.units))
    assert kind.parse(f"{kind.maximum}{base}") == kind.maximum
    with pytest.raises(QuantityError, match="is above"):
        kind.parse(f"{kind.maximum + 1}{base}")
    if kind.minimum:
        with pytest.raises(QuantityError, match="is below"):
            kind.parse(f"{kind.minimum - 1}{base}")


def test_finer_than_the_base_unit_is_refused() -> None:
    assert units.RATE.parse("1.5kbit") == 1500
    for kind, text in ((units.DELAY, "0.5ns"), (units.DELAY, "1.0000001us"), (units.RATE, "100.5bit")):
        with pytest.raises(QuantityError, match="is finer than"):
            kind.parse(text)


@pytest.mark.parametrize(
    ("text", "amount", "unit", "canonical"),
    [
        ("80packets", 80, "packets", "80packets"),
        ("1packet", 1, "packets", "1packets"),
        ("64kb", 65_536, "bytes", "65536bytes"),
        ("2000bytes", 2000, "bytes", "2000bytes"),
        ("50ms", 50_000_000, "time", "50ms"),
        ("1bdp", 1, "bdp", "1bdp"),
        ("0.25bdp", 0.25, "bdp", "0.25bdp"),
    ],
)
def test_queue(text: str, amount: float, unit: str, canonical: str) -> None:
    queue = units.parse_queue(text)
    assert (queue.amount, queue.unit) == (amount, unit)
    assert units.render_queue(queue) == canonical
    assert units.parse_queue(canonical) == queue
    assert isinstance(queue, Queue)


def test_loss_is_rounded_correctly_and_comes_back() -> None:
    for text, ratio in (("0%", 0.0), ("1%", 0.01), ("0.1%", 0.001), ("33.3%", 0.333), ("100%", 1.0)):
        assert units.parse_loss(text) == ratio
        assert units.render_ratio(ratio) == text
    for percent in range(1, 10_000, 7):
        ratio = percent / 10_000
        assert units.parse_ratio(units.render_ratio(ratio)) == ratio


@pytest.mark.parametrize(
    "value", ["", "mbit", "1e6bit", "1,5mbit", "0x10mbit", "1__0mbit", "٣mbit", "9" * 5000 + "bit"]
)
def test_what_is_no_quantity_is_refused(value: str) -> None:
    with pytest.raises(QuantityError):
        units.RATE.parse(value)


@pytest.mark.parametrize("value", [True, None, [], {}, object()])
def test_what_is_no_text_is_refused(value: object) -> None:
    with pytest.raises(QuantityError, match="must be a rate: write one as in '20mbit'"):
        units.RATE.parse(value)


@pytest.mark.parametrize(
    ("value", "written"), [(20, "20"), (1.5, "1.5"), (-3, "3"), (1e21, "1000000000000000000000"), (float("inf"), "inf")]
)
def test_bare_number_says_what_to_write(value: float, written: str) -> None:
    with pytest.raises(QuantityError, match=f"write '{written}mbit' or '{written}kbit'"):
        units.RATE.parse(value)


ALL_STYLES: tuple[Style, ...] = get_args(Style)
# A quantity, in base units, and its text in each style: of files, of tc(8), of people.
STYLES = [
    (RATE, 20_000_000, "20mbit", "20mbit", "20 Mbit/s"),
    (RATE, 1_500_000, "1500kbit", "1500kbit", "1.5 Mbit/s"),
    (RATE, 1_000_000_000, "1gbit", "1gbit", "1 Gbit/s"),
    (RATE, 12_345_678, "12345678bit", "12345678bit", "12.345678 Mbit/s"),
    (TIME, 0, "0ns", "0s", "0 ns"),
    (TIME, 7, "7ns", "0.007us", "7 ns"),
    (TIME, 100_000, "100us", "100us", "100 µs"),
    (TIME, 1_500_007, "1500007ns", "1500.007us", "1.500007 ms"),
    (TIME, 300_000_000, "300ms", "300ms", "300 ms"),
    (TIME, 2_000_000_000, "2s", "2s", "2 s"),
]
SHARES = [
    (0.0025, "0.25%", "0.25%", "0.25 %"),
    (1.0, "100%", "100%", "100 %"),
    (1 / 3, "33.33333333333333%", "33.33333333%", "33.33 %"),
]


@pytest.mark.parametrize(("kind", "amount", "file", "tc", "people"), STYLES)
def test_a_quantity_has_a_text_in_each_style(kind: Quantity, amount: int, file: str, tc: str, people: str) -> None:
    assert [kind.render(amount, style) for style in ALL_STYLES] == [file, tc, people]
    assert kind.parse(file) == amount


@pytest.mark.parametrize(("share", "file", "tc", "people"), SHARES)
def test_a_share_has_a_text_in_each_style(share: float, file: str, tc: str, people: str) -> None:
    assert [render_ratio(share, style) for style in ALL_STYLES] == [file, tc, people]
    assert parse_ratio(file) == share


def test_the_agent_reads_the_texts_for_tc_as_the_same_amounts() -> None:
    """The agent has a reader of its own, as it may import little; both are held against one table."""
    for kind, amount, _, tc, _ in STYLES:
        form, size = (readback.RATE, 1) if kind is RATE else (readback.TIME, 1e9)
        assert readback.read_value(form, tc) * size == pytest.approx(amount, rel=1e-12, abs=1e-6)
    for share, _, tc, _ in SHARES:
        assert readback.read_value(readback.RATIO, tc) == pytest.approx(share, rel=1e-9)


@pytest.mark.parametrize(
    ("queue", "read"),
    [(Queue(1, "packets"), "1 packet"), (Queue(65536, "bytes"), "65.536 kB"), (Queue(100, "packets"), "100 packets")],
)
def test_a_queue_has_a_text_for_people(queue: Queue, read: str) -> None:
    assert render_queue(queue, "people") == read


@pytest.mark.parametrize(
    ("number", "unit", "held"),
    [
        ("23.3333333333", "ms", "23.333333"), ("13.3333333", "kb", "13.3330078125"), ("21.5", "packets", "22"),
        ("11.4285714", "mbit", "11.428568"), ("1.333333333333", "min", "1.333333333"),
        ("0.333333333333", "%", "0.333333333"),
        ("1.33333333333", "", "1.333333333"), ("1.25", "mb", "1.25"),
    ],
)  # fmt: skip
def test_a_computed_quantity_is_one_of_a_file(number: str, unit: str, held: str) -> None:
    assert units.hold_step(Decimal(number), unit) == Decimal(held)
