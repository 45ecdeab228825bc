# SPDX-License-Identifier: Apache-2.0
"""Statements over measured values: their results, and errors in bad statements."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from mprun.model.metric import Metric
from mprun.statements.evaluation import check, evaluate
from mprun.statements.expression import (
    Condition,
    ExpressionError,
    Reference,
    UnknownName,
    Value,
    parse,
    parse_amount,
    parse_condition,
)

MEASURED = {
    "tcp.bulk.goodput": Value((19e6,), "rate"),
    "mptcp.bulk.goodput": Value((37e6,), "rate"),
    "mptcp.bulk.bytes": Value((46_250_000.0,), "size"),
    "mptcp.bulk.subflows": Value((2.0,), "count"),
    "mptcp.bulk.share.path0": Value((0.494,), "ratio"),
    "mptcp.path0.rtt": Value((0.040,), "time"),
    "mptcp.client-r1.rtt": Value((0.030,), "time"),
    "cells.delay.median": Value((0.081, 0.083, 0.080), "time"),
    "mptcp.nothing": Value((), "time"),
}


def resolve(reference: Reference) -> Value:
    if reference.name not in MEASURED:
        raise UnknownName(f"no metric '{reference.name}'")
    return MEASURED[reference.name]


@pytest.mark.parametrize(
    ("text", "is_true"),
    [
        ("mptcp.bulk.goodput >= 1.8 * tcp.bulk.goodput", True),
        ("mptcp.bulk.goodput >= 1.95 * tcp.bulk.goodput", False),
        ("36mbit <= mptcp.bulk.goodput < 37.1mbit", True),
        ("36mbit <= mptcp.bulk.goodput < 37mbit", False),
        ("mptcp.bulk.subflows == 2 and mptcp.bulk.share.path0 >= 47%", True),
        ("mptcp.bulk.subflows == 1 or not mptcp.bulk.share.path0 >= 50%", True),
        ("not (mptcp.bulk.subflows == 1 or mptcp.bulk.share.path0 < 50%)", False),
        # 20 Mbit/s for 40 ms are 100 kB: 100 packets of 1000 bytes
        ("20mbit * mptcp.path0.rtt == 100000bytes", True),
        ("mptcp.bulk.bytes / 10s == mptcp.bulk.goodput", True),
        ("mptcp.path0.rtt - mptcp.client-r1.rtt == 10ms", False),
        ("abs(mptcp.path0.rtt - mptcp.client-r1.rtt - 10ms) < 1ns", True),
        ("1 - mptcp.bulk.share.path0 > 50%", True),
        ("-mptcp.path0.rtt < -0.03s", True),
        ("10kb == 10240bytes and 1min == 60s and 80packets == 80", True),
        ("2 + 3 * 4 == 14 and (2 + 3) * 4 == 20 and 8 / 4 / 2 == 1 and 5 - 3 - 1 == 1", True),
        ("cells[scheduler=roundrobin].delay.median > 81ms", True),
        ("median(cells.delay.median) > 81ms", False),
        ("max(cells.delay.median) == 83ms and min(cells.delay.median, 1ms) == 1ms", True),
        ("abs(sum(cells.delay.median) - 3 * mean(cells.delay.median)) < 1ns", True),
    ],
)
def test_statement(text: str, is_true: bool) -> None:
    assert evaluate(parse(text), resolve).is_true == is_true


def test_both_sides_are_told() -> None:
    outcome = evaluate(parse("mptcp.bulk.goodput >= 1.8 * tcp.bulk.goodput and mptcp.bulk.bytes > 1mb"), resolve)
    first, second = outcome.comparisons
    assert (first.left, first.operator, first.right) == ("mptcp.bulk.goodput", ">=", "1.8 * tcp.bulk.goodput")
    assert [first.left_amount, first.right_amount] == pytest.approx([37e6, 34.2e6])
    assert [second.left_amount, second.right_amount] == [46_250_000, 1 << 20]
    assert [first.unit, second.unit] == ["rate", "size"]
    assert [name for name, _ in outcome.measured] == ["mptcp.bulk.goodput", "tcp.bulk.goodput", "mptcp.bulk.bytes"]


def test_a_share_is_told_as_one_and_a_quotient_as_a_number() -> None:
    outcome = evaluate(parse("mptcp.bulk.share.path0 * 2 > 50% and mptcp.path0.rtt / 10ms > 3"), resolve)
    assert [one.unit for one in outcome.comparisons] == ["ratio", "count"]


def test_references() -> None:
    text = "cells[scheduler=roundrobin, rate='20mbit'].delay.median > xp.requests[flow=msg, start=10s..20s].delay_s"
    first, second = parse(text).references()
    assert first.name == "cells.delay.median"
    assert first.segments[0].conditions == (Condition("scheduler", "roundrobin"), Condition("rate", "20mbit"))
    assert second.segments[1].conditions == (Condition("flow", "msg"), Condition("start", "10s", "20s"))
    assert second.text == "xp.requests[flow=msg, start=10s..20s].delay_s"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("scheduler=roundrobin", (Condition("scheduler", "roundrobin"), True)),
        (" path0.rate == 20mbit ", (Condition("path0.rate", "20mbit"), True)),
        ("scheduler!=roundrobin", (Condition("scheduler", "roundrobin"), False)),
        ("start=10s..20s", (Condition("start", "10s", "20s"), True)),
        ("title='a, b..c]'", (Condition("title", "a, b..c]"), True)),
        ("bulk.goodput > 10mbit", None),
        ("bulk.goodput >= 10mbit", None),
        ("a=b, c=d", None),
        ("a=b] and c", None),
        ("a=b c", None),
        ("a=", None),
        ("=b", None),
    ],
)
def test_a_condition_without_brackets(text: str, found: tuple[Condition, bool] | None) -> None:
    assert parse_condition(text) == found


def test_amount() -> None:
    assert parse_amount("20ms") == Value((0.02,), "time")
    assert parse_amount("1.5mbit") == Value((1.5e6,), "rate")
    with pytest.raises(ExpressionError, match="is no number"):
        parse_amount("20ms + 1ms")


@pytest.mark.parametrize(
    ("text", "at", "message"),
    [
        ("", "the end (character 1)", "a value is missing: write a number with its unit, or a name as in *"),
        ("a.b", "'a.b' (character 1)", "is a value and nothing that may be true or false: compare it, *"),
        ("a.b >= 3 c.d", "'c' (character 10)", "an operator is missing: write '3 * c...' for a product"),
        ("(a >= 3", "the end (character 8)", "')' is missing to end what begins at character 1"),
        ("a = 3", "'=' (character 3)", "write '==' to compare"),
        ("a >= 3mbps", "'3mbps' (character 6)", "'mbps' is megabytes per second to tc: write '3mbit' for *"),
        ("a >= 3parsec", "'3parsec' (character 6)", "no unit 'parsec'; units: bit, kbit, *"),
        ("a[b] >= 3", "'[b' (character 2)", "write conditions as in '[scheduler=roundrobin]' or *"),
        ("a[b=1, c=2, b=3] >= 3", "'b' (character 13)", "is named twice: keep one value for it"),
        ("open(a) >= 3", "'open' (character 1)", "no function of this name; functions: min, max, sum, *"),
        ("a. >= 3", "'>=' (character 4)", "a name belongs after the dot"),
        ("a >= ;", "';' (character 6)", "is unexpected here: remove it"),
        ("and >= 3", "'and' (character 1)", "a value belongs here: a number with its unit, or a name *"),
        ("abs(a, b) >= 3", "'abs' (character 1)", "is of one value"),
    ],
)
def test_what_cannot_be_read(text: str, at: str, message: str) -> None:
    with pytest.raises(ExpressionError) as error:
        parse(text)
    assert_says(error.value, text, at, message)


def assert_says(error: ExpressionError, text: str, at: str, message: str) -> None:
    """message: the whole message, or its beginning followed by a star."""
    whole = f"'{text}': at {at}: {message}"
    assert str(error).startswith(whole[:-1]) if whole.endswith("*") else str(error) == whole


BARE = "give the number a unit, as in"


@pytest.mark.parametrize(
    ("text", "at", "message"),
    [
        ("tcp.bulk.goodput >= mptcp.path0.rtt", "'mptcp.path0.rtt' (character 21)",
         "a rate cannot be compared with a time"),
        ("tcp.bulk.goodput >= 36", "'36' (character 21)", f"a rate cannot be compared with a number: {BARE} '36mbit'"),
        ("mptcp.path0.rtt + 1 >= 36ms", "'1' (character 19)", f"a time cannot be added to a number: {BARE} '20ms'"),
        ("tcp.bulk.goodput * 36mbit >= 1", "'1' (character 30)", "bit^2 s^-2 cannot be compared with a number"),
        ("tcp.goodput >= 36mbit", "'tcp.goodput' (character 1)", "no metric 'tcp.goodput'"),
        ("mptcp.nothing >= 3ms", "'mptcp.nothing' (character 1)", "has no value"),
        ("1 / (2 - 2) >= 3", "'2 - 2' (character 6)", "is 0: a division by zero has no value"),
        ("(1 < 2) + 3 > 2", "'1 < 2' (character 2)", "is true or false, not a value: join it with 'and' or 'or'"),
        ("1 < 2 and 3", "'3' (character 11)", "is a value, not a comparison: write as in 'a >= b'"),
        ("min(3ms, 2) > 1ms", "'2' (character 10)", f"a time cannot be put beside a number: {BARE} '20ms'"),
    ],
)  # fmt: skip
def test_what_has_no_value(text: str, at: str, message: str) -> None:
    with pytest.raises(ExpressionError) as error:
        evaluate(parse(text), resolve)
    assert_says(error.value, text, at, message)


def test_dimensions_are_checked_before_anything_is_measured() -> None:
    check(parse("mptcp.bulk.goodput / (tcp.bulk.goodput - tcp.bulk.goodput) > 2"), lambda _: Value((), "rate"))
    with pytest.raises(ExpressionError, match="a rate cannot be compared with a time"):
        check(parse("a.b >= 3ms"), lambda _: Value((), "rate"))


@pytest.mark.parametrize(
    ("metric", "bound", "is_odd"),
    [
        (Metric("ratio", ""), "5", True),
        (Metric("ratio", ""), "50", True),
        (Metric("ratio", ""), "1", False),
        (Metric("ratio", ""), "5%", False),
        (Metric("ratio", "", may_exceed=True), "1.5", False),
        (Metric("ratio", "", is_free=True), "5", False),
        (Metric("ratio", "", is_free=True), "50", True),
        (Metric("count", ""), "5", False),
    ],
)
def test_a_bare_number_beside_a_share(metric: Metric, bound: str, is_odd: bool) -> None:
    """`loss < 5` was always true."""
    with pytest.raises(ExpressionError, match="would be") if is_odd else nullcontext():
        check(parse(f"a.loss < {bound}"), lambda _: metric)


@pytest.mark.parametrize("text", ["(" * 1000 + "1", "not " * 400 + "1 < 2", "-" * 1000 + "1 < 2", "1" * 3000])
def test_no_text_is_too_deep(text: str) -> None:
    with pytest.raises(ExpressionError):
        parse(text)
