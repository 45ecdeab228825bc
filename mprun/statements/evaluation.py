# SPDX-License-Identifier: Apache-2.0
"""Compute the value of a statement over measured values, and check its dimensions. `expression` has the functions.

A rate times a time is a size. A comparison of a rate with a time is an error. This module does not know the meaning
of names: `evaluate` asks for it, by a `Reference`. A name may have several values (the runs of a cell, the rows of a
table). If one value is needed, it is their mean.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable
from itertools import pairwise

from mprun.model.frozen import Frozen
from mprun.model.metric import Metric, Unit
from mprun.statements import expression as syntax
from mprun.statements.expression import (
    Condition,
    Expression,
    ExpressionError,
    Reference,
    SyntaxNode,
    UnknownName,
    Value,
    parse,
    parse_amount,
)

Resolve = Callable[[Reference], Value]


# Powers of bit and of second.
_Dimension = tuple[int, int]
_DIMENSIONS: dict[Unit, _Dimension] = {
    "rate": (1, -1),
    "time": (0, 1),
    "size": (1, 0),
    "ratio": (0, 0),
    "count": (0, 0),
}
_NOUNS: dict[_Dimension, str] = {(1, -1): "a rate", (0, 1): "a time", (1, 0): "a size", (0, 0): "a number"}
_EXAMPLES: dict[_Dimension, str] = {(1, -1): "36mbit", (0, 1): "20ms", (1, 0): "10kb"}
# The operations that change a value by another one, each with its sign and its factor.
_CHANGES = {"added to": ("+", 1), "taken from": ("-", -1)}
_BITS_PER_BYTE = 8
# A minus that is read as a part of a name.
_MINUS = re.compile(r"-\d|\.\w+-\w+[.\[]")
# The margin of a comparison that fails by equality.
LEAST_MARGIN = 1e-12
# A bare number from this on is no share: 50 next to a share would be 5000 %. Next to a share of a whole, neither is 5.
LEAST_ODD = 10


class Comparison(Frozen):
    """The two sides of a comparison, as text and as values. unit is None for a dimension without a name."""

    left: str
    operator: str
    right: str
    left_amount: float
    right_amount: float
    unit: Unit | None
    is_true: bool


class Evaluation(Frozen):
    """The outcome of a statement.

    - margin: how clearly it holds, from -1 to 1; negative if it does not hold. Of a comparison, it is the difference of
      the sides as a share of the larger one. Of `and` it is the least margin, of `or` the largest. An equality holds
      with margin 0.
    - measured: each name of the statement in order, with its value.
    """

    is_true: bool
    margin: float
    comparisons: tuple[Comparison, ...]
    measured: tuple[tuple[str, Value], ...]


def evaluate(expression: Expression, resolve: Resolve) -> Evaluation:
    """Return the outcome of a statement. resolve: returns the values of a name; may raise UnknownName.

    Every part is evaluated, also if another part has decided already. Raises ExpressionError.
    """
    evaluation = _Evaluation(expression.text, resolve)
    return Evaluation(
        *evaluation.judge(expression.root), tuple(evaluation.comparisons), tuple(evaluation.measured.items())
    )


def compute(expression: Expression, resolve: Resolve) -> Value:
    """Return the value of the arithmetic of `parse_value`. resolve: as for `evaluate`. Raises ExpressionError."""
    number = _Evaluation(expression.text, resolve).number(expression.root)
    if number.unit is None:
        what = f"is {_say(number.dimension)}, which no unit has: write a rate, a time, a size or a number"
        raise ExpressionError(expression.text, 0, len(expression.text), what)
    return Value((number.amount / _scale(number.dimension),), number.unit)


def chooses(condition: Condition, text: str) -> bool:
    """Check whether a condition wants the value of an axis, as files spell it.

    Raises ExpressionError for a range of numbers of another kind, UnknownName for a range without an end.
    """
    if condition.until is None:
        return text == condition.value
    statement, value = parse(condition.spell()), parse_amount(text)
    try:
        return evaluate(statement, lambda _: value).is_true
    except ExpressionError as error:
        # the statement is none that a person wrote
        written = f"{condition.key}={condition.wanted}"
        raise ExpressionError(written, 0, len(written), error.reason.partition(": ")[2]) from None


def check(expression: Expression, find: Callable[[Reference], Metric | Value]) -> None:
    """Check names and dimensions against the quantities that will be measured, and that no comparison is idle.

    `find`: returns the metric that a name means, or a value of its kind; may raise UnknownName. Raises ExpressionError.
    """

    def to_value(reference: Reference) -> Value:
        found = find(reference)
        is_part = not (found.may_exceed or found.is_free) if isinstance(found, Metric) else found.is_part
        return Value((math.nan,), found.unit, is_part)

    evaluate(expression.refuse_idle(), to_value)


class _Number(Frozen):
    """Amounts in powers of bit and second. unit: the unit for people."""

    amounts: tuple[float, ...]
    dimension: _Dimension
    unit: Unit | None
    is_part: bool = False

    @property
    def amount(self) -> float:
        return statistics.fmean(self.amounts)


class _Evaluation:
    def __init__(self, text: str, resolve: Resolve) -> None:
        self._text = text
        self._resolve = resolve
        self.comparisons: list[Comparison] = []
        self.measured: dict[str, Value] = {}

    def judge(self, node: SyntaxNode) -> tuple[bool, float]:
        """Return whether a statement holds, and its margin."""
        if isinstance(node, syntax.Junction):
            truths, margins = zip(*map(self.judge, node.operands), strict=True)
            if node.word == "not":
                # what is true by equality has margin 0, and its opposite is false
                return not truths[0], -(margins[0] or LEAST_MARGIN)
            return (all(truths), min(margins)) if node.word == "and" else (any(truths), max(margins))
        if isinstance(node, syntax.ComparisonChain):
            sides = pairwise([(operand, self.number(operand)) for operand in node.operands])
            found = [self._compare(word, *pair) for word, pair in zip(node.operators, sides, strict=True)]
            return all(is_true for is_true, _ in found), min(margin for _, margin in found)
        raise self._error(node, "is a value, not a comparison: write as in 'a >= b'")

    def _error(self, node: SyntaxNode, message: str) -> ExpressionError:
        return ExpressionError(self._text, node.start, node.end, message)

    def _compare(
        self, word: str, left: tuple[SyntaxNode, _Number], right: tuple[SyntaxNode, _Number]
    ) -> tuple[bool, float]:
        (left_node, one), (right_node, other) = left, right
        self._agree(left, right, "compared with")
        for (node, bare), (_, share) in ((left, right), (right, left)):
            is_large = bare.amount >= LEAST_ODD or (share.is_part and bare.amount > 1)
            if is_large and bare.unit == "count" and share.unit == "ratio" and isinstance(node, syntax.Literal):
                raise self._error(node, f"would be {bare.amount * 100:g} %: write '{bare.amount:g}%'")
        amounts = one.amount, other.amount
        is_true = syntax.COMPARISONS[word](*amounts)
        unit = _shared_unit(one, other)
        texts = [self._text[node.start : node.end] for node in (left_node, right_node)]
        told = [amount / _scale(one.dimension) for amount in amounts]
        self.comparisons.append(Comparison(texts[0], word, texts[1], told[0], told[1], unit, is_true))
        return is_true, _margin_of(word, *amounts)

    def _agree(self, left: tuple[SyntaxNode, _Number], right: tuple[SyntaxNode, _Number], what: str) -> None:
        (_, one), (node, other) = left, right
        if one.dimension == other.dimension:
            return
        message = f"{_say(one.dimension)} cannot be {what} {_say(other.dimension)}"
        (bare_node, bare), (sized_node, sized) = (right, left) if other.dimension == (0, 0) else (left, right)
        is_written = not syntax.references_of(bare_node)
        if what in _CHANGES and node is bare_node and isinstance(node, syntax.Literal) and bare.unit == "ratio":
            sign, change = _CHANGES[what]
            if (factor := 1 + change * bare.amount) > 0:
                is_sum = isinstance(sized_node, syntax.Operation) and sized_node.operator in "+-"
                first = "put what stands before it in brackets, and " if is_sum else ""
                message += f": {first}write '* {factor:g}' in place of '{sign} {self._text[node.start : node.end]}'"
        elif bare.dimension == (0, 0) and is_written and sized.dimension in _EXAMPLES:
            message += f": give the number a unit, as in '{_EXAMPLES[sized.dimension]}'"
        elif bare.dimension == (0, 0) and isinstance(sized_node, syntax.Literal):
            message += ", as a ratio or a count has no unit: write a bare number"
        raise self._error(node, message)

    def number(self, node: SyntaxNode) -> _Number:
        """Return the value of a node. Raises ExpressionError."""
        if isinstance(node, syntax.Literal):
            return _number_of(Value((node.amount,), node.unit))
        if isinstance(node, syntax.NameNode):
            return self._ask(node)
        if isinstance(node, syntax.Negation):
            number = self.number(node.operand)
            return _Number(tuple(-amount for amount in number.amounts), number.dimension, number.unit)
        if isinstance(node, syntax.Operation):
            return self._operate(node)
        if isinstance(node, syntax.Call):
            return self._call(node)
        raise self._error(node, "is true or false, not a value: join it with 'and' or 'or'")

    def _ask(self, node: syntax.NameNode) -> _Number:
        try:
            value = self._resolve(node.reference)
        except (UnknownName, ExpressionError) as error:
            spaces = " (a minus needs spaces around it)" if _MINUS.search(node.reference.text) else ""
            raise self._error(node, f"{error}{spaces}") from None
        if not value.amounts:
            raise self._error(node, "has no value")
        self.measured[node.reference.text] = value
        return _number_of(value)

    def _operate(self, node: syntax.Operation) -> _Number:
        left, right = self.number(node.left), self.number(node.right)
        a, b = left.amount, right.amount
        if node.operator in "+-":
            self._agree((node.left, left), (node.right, right), "added to" if node.operator == "+" else "taken from")
            return _Number((a + b if node.operator == "+" else a - b,), left.dimension, _shared_unit(left, right))
        sign = 1 if node.operator == "*" else -1
        if sign < 0 and b == 0:
            raise self._error(node.right, "is 0: a division by zero has no value")
        bits, seconds = (x + sign * y for x, y in zip(left.dimension, right.dimension, strict=True))
        is_share = "ratio" in (left.unit, right.unit) and sign > 0
        return _Number((a * b if sign > 0 else a / b,), (bits, seconds), _unit_of((bits, seconds), is_share))

    def _call(self, node: syntax.Call) -> _Number:
        numbers = [self.number(argument) for argument in node.arguments]
        for argument, number in zip(node.arguments[1:], numbers[1:], strict=True):
            self._agree((node.arguments[0], numbers[0]), (argument, number), "put beside")
        amounts = [amount for number in numbers for amount in number.amounts]
        return _Number((syntax.FUNCTIONS[node.function](amounts),), numbers[0].dimension, numbers[0].unit)


def _margin_of(operator: str, left: float, right: float) -> float:
    """Return the margin of a comparison. It is not 0 if a strict comparison fails by equality."""
    largest = max(abs(left), abs(right))
    difference = (left - right) / largest if largest else 0.0
    if operator in ("<", "<="):
        difference = -difference
    elif operator not in (">", ">="):
        is_far = abs(difference)
        difference = -is_far if operator == "==" else is_far
    margin = max(-1.0, min(1.0, difference))
    if margin == 0 and not syntax.COMPARISONS[operator](left, right):
        return -LEAST_MARGIN
    return margin


def _scale(dimension: _Dimension) -> int:
    """The factor to the unit for people: sizes are shown in bytes, not in bits."""
    return _BITS_PER_BYTE if dimension == _DIMENSIONS["size"] else 1


def _number_of(value: Value) -> _Number:
    dimension = _DIMENSIONS[value.unit]
    amounts = tuple(amount * _scale(dimension) for amount in value.amounts)
    return _Number(amounts, dimension, value.unit, value.is_part)


def _unit_of(dimension: _Dimension, is_share: bool) -> Unit | None:
    if dimension == (0, 0):
        return "ratio" if is_share else "count"
    return next((unit for unit, one in _DIMENSIONS.items() if one == dimension), None)


def _shared_unit(one: _Number, other: _Number) -> Unit | None:
    """The unit of two values of one dimension. A share next to a bare number makes both shares."""
    return "ratio" if "ratio" in (one.unit, other.unit) else one.unit


def _say(dimension: _Dimension) -> str:
    bits, seconds = dimension
    return _NOUNS.get(dimension, f"bit^{bits} s^{seconds}")
