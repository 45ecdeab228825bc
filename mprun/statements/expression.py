# SPDX-License-Identifier: Apache-2.0
"""The grammar and the functions of statements: `xp_mptcp.bulk.goodput >= 1.8 * mean(xp_tcp.bulk.goodput)`.

Numbers carry the units of the files (`36mbit`, `20ms`, `50%`, `10kb`; counts are bare). The operators are `+ - * /`,
comparisons, which may be chained, `and`, `or` and `not`. Parentheses and FUNCTIONS are allowed. Names may contain
`-`, so a minus needs spaces around it. Conditions in brackets choose among cells, runs or rows. `evaluation` computes
the value.
"""

from __future__ import annotations

import contextlib
import math
import operator
import re
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from itertools import pairwise
from typing import TypeVar

from mprun.model import units
from mprun.model.frozen import Frozen
from mprun.model.metric import QUANTITIES, Unit

MOST_CHARACTERS = 2000
MOST_LEVELS = 50

_TOKEN = re.compile(
    r"\s*(?:(?P<number>[0-9]+(?:\.[0-9]+)?(?P<unit>[A-Za-z%][A-Za-z/%]*)?)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*(?:-[A-Za-z0-9_]+)*)"
    r"|(?P<sign><=|>=|==|!=|[-+*/<>()\[\],.=]))"
)
_CONDITION = re.compile(
    r"\s*(?P<key>[A-Za-z_][A-Za-z0-9_.-]*)\s*=\s*(?:'(?P<quoted>[^']*)'|(?P<plain>[^,\]'\s]+))\s*(?P<end>[,\]])"
)
# A condition without brackets.
_ALONE = re.compile(r"\s*(?P<key>[A-Za-z_][A-Za-z0-9_.-]*)\s*(?P<sign>!=|==?)(?P<value>[^=<>].*)")
_WORDS = ("and", "or", "not")
# The letter that people write for a product.
_TIMES = "x"
_CONDITIONAL = re.compile(r"(?<![\w.])(?:if|then|when|implies)(?![\w.=(-])")
_UNIT = re.compile("[A-Za-z%][A-Za-z/%]*")
_NUMBER_BEFORE = re.compile(r"(?<![\w.])([0-9.]+) +\Z")
_COMPARE = "write '==' to compare"
# A text in quotes, or space outside it, which has no meaning.
_OUTSIDE = re.compile(r"('[^']*')|\s+")
# Signs of other languages, and what stands for them here.
_OTHER_SIGNS = {"&": "and", "|": "or", "!": "not", "≥": ">=", "≤": "<=", "≠": "!=", "×": "*"}
COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
# Each function works on all values of all its arguments. `abs` has one argument.
FUNCTIONS: dict[str, Callable[[Sequence[float]], float]] = {
    "min": min, "max": max, "sum": math.fsum, "mean": statistics.fmean, "median": statistics.median,
    "abs": lambda amounts: abs(statistics.fmean(amounts)),
}  # fmt: skip


class ExpressionError(ValueError):
    """A text that is no expression or has no value. The message says where, and what is allowed.

    `reason`: the same message, to show below the text.
    """

    def __init__(self, text: str, start: int, end: int, message: str) -> None:
        self.start = start
        self.end = end
        what = f"'{text[start:end]}'" if text[start:end].strip() else "the end"
        self.reason = f"{what}: {message}"
        super().__init__(f"'{text}': at {what} (character {start + 1}): {message}")


class UnknownName(LookupError):
    """A name without a meaning. The message lists the known names, or says why nothing was measured."""


class Condition(Frozen):
    """`key=value` or `key=value..until` in brackets, as in the text. The value `until` itself is excluded."""

    key: str
    value: str
    until: str | None = None

    @property
    def wanted(self) -> str:
        """The value or the range, as in the text."""
        return self.value if self.until is None else f"{self.value}..{self.until}"

    def spell(self) -> str:
        """Return the condition on a number as a statement. Raises UnknownName for a range without an end."""
        key, value, until = self.key, self.value, self.until
        if "" in (value, until):
            raise UnknownName("the range lacks an end: write both")
        with contextlib.suppress(ExpressionError):
            first, last = parse_amount(value), parse_amount(until or value)
            if first.unit == last.unit and first.amount > last.amount:
                raise UnknownName(f"the range ends before it begins: write {key}={until}..{value}")
        if until is not None and value == "0":
            # zero is the same in every unit
            value += until.lstrip("0123456789.")
        return f"{key} == {value}" if until is None else f"{value} <= {key} and {key} < {until}"


class Segment(Frozen):
    """A part of a name between dots, and the conditions in brackets after it."""

    name: str
    conditions: tuple[Condition, ...] = ()


class Reference(Frozen):
    """The name of a measured value: `xp_tcp.bulk.goodput`, `cells[scheduler=roundrobin].delay.median`."""

    segments: tuple[Segment, ...]
    text: str

    @property
    def name(self) -> str:
        """The name without its conditions."""
        return ".".join(segment.name for segment in self.segments)

    def within(self, owner: str) -> Reference:
        """Return the reference with the name of its run before it, which a statement about a single run leaves out."""
        return Reference((Segment(owner), *self.segments), self.text)


def refuse_conditions(segments: Iterable[Segment]) -> None:
    """Raise UnknownName if a part of a metric's name has conditions, which would choose nothing."""
    if any(segment.conditions for segment in segments):
        example = "cells[cc=reno].bulk.goodput' or 'requests[flow=msg].delay_ns"
        raise UnknownName(f"conditions in brackets follow 'cells', or the name of a table: write as in '{example}'")


class Value(Frozen):
    """A measured value in the base unit of its kind: bit/s, s, bytes, or plain. Several amounts belong to several
    runs or rows.

    `is_part`: a share of a whole, which is never above 100 %.
    """

    amounts: tuple[float, ...]
    unit: Unit
    is_part: bool = False

    @property
    def amount(self) -> float:
        """The single amount: the mean of all amounts."""
        return statistics.fmean(self.amounts)


class Expression(Frozen):
    """A statement that can be true or false, or the arithmetic of one value."""

    text: str
    root: SyntaxNode

    def references(self) -> tuple[Reference, ...]:
        """The references of the statement, in order."""
        return tuple(references_of(self.root))

    def refuse_idle(self) -> Expression:
        """Return the statement. Raises ExpressionError if a comparison has the same text on both sides."""
        for chain in nodes_of(self.root, ComparisonChain):
            texts = [_OUTSIDE.sub(r"\1", self.text[one.start : one.end]) for one in chain.operands]
            for node, pair in zip(chain.operands[1:], pairwise(texts), strict=True):
                if len({*pair}) == 1 and references_of(node):
                    message = "is on both sides, so the statement says nothing: compare it with another value"
                    raise ExpressionError(self.text, node.start, node.end, message)
        return self


def parse(text: str) -> Expression:
    """Parse a statement. Raises ExpressionError."""
    root = _parse(text)
    if isinstance(root, Arithmetic):
        message = "is a value and nothing that may be true or false: compare it, as in 'a >= b'"
        raise ExpressionError(text, root.start, root.end, message)
    return Expression(text, root)


def parse_value(text: str) -> Expression:
    """Parse the arithmetic of one value, such as `2gb / xp.bulk.goodput`. Raises ExpressionError."""
    root = _parse(text)
    if not isinstance(root, Arithmetic):
        raise ExpressionError(text, root.start, root.end, "is true or false: write a value, as in 'xp.bulk.goodput'")
    return Expression(text, root)


def _parse(text: str) -> SyntaxNode:
    """Parse a statement or the arithmetic of a value. Raises ExpressionError."""
    if len(text) > MOST_CHARACTERS:
        raise ExpressionError(text[:40], 0, 40, f"has more than {MOST_CHARACTERS} characters: split it")
    return _Parser(text).parse()


def parse_amount(text: str) -> Value:
    """Parse a number with its unit, such as `20ms`. Raises ExpressionError."""
    parser = _Parser(text)
    node = parser.unary(0)
    if not isinstance(node, Literal) or parser.peek() is not None:
        raise ExpressionError(text, 0, len(text), "is no number: write one as in '20ms'")
    return Value((node.amount,), node.unit)


def parse_condition(text: str) -> tuple[Condition, bool] | None:
    """Parse `NAME=VALUE` or `NAME!=VALUE` as in brackets, and return whether the value is wanted; None for another
    text.
    """
    match = _ALONE.fullmatch(text)
    found = _CONDITION.fullmatch(f"{match['key']}={match['value']}]") if match else None
    if match is None or found is None or found["end"] != "]":
        return None
    return _condition(found), match["sign"] != "!="


def _condition(match: re.Match[str]) -> Condition:
    """Return the condition of a match of _CONDITION."""
    if match["quoted"] is not None:
        return Condition(match["key"], match["quoted"])
    value, dots, rest = match["plain"].partition("..")
    return Condition(match["key"], value, rest if dots else None)


class SyntaxNode(Frozen):
    """A part of a statement, and where in its text it stands."""

    start: int
    end: int


class Arithmetic(SyntaxNode):
    """A part of a statement with a value."""


class Literal(Arithmetic):
    amount: float
    unit: Unit


class NameNode(Arithmetic):
    reference: Reference


class Negation(Arithmetic):
    operand: SyntaxNode


class Operation(Arithmetic):
    operator: str
    left: SyntaxNode
    right: SyntaxNode


class Call(Arithmetic):
    function: str
    arguments: tuple[SyntaxNode, ...]


class ComparisonChain(SyntaxNode):
    """A chain of comparisons: operands, and an operator between each two of them."""

    operands: tuple[SyntaxNode, ...]
    operators: tuple[str, ...]


class Junction(SyntaxNode):
    """A logical operation. word: and, or, not."""

    word: str
    operands: tuple[SyntaxNode, ...]


KindT = TypeVar("KindT", bound=SyntaxNode)


def nodes_of(node: SyntaxNode, kind: type[KindT]) -> Iterator[KindT]:
    """Yield a node and the nodes below it, in order, if they are of a kind."""
    if isinstance(node, kind):
        yield node
    for member in (getattr(node, field.name) for field in fields(node)):
        for inner in member if isinstance(member, tuple) else (member,):
            if isinstance(inner, SyntaxNode):
                yield from nodes_of(inner, kind)


def references_of(node: SyntaxNode) -> list[Reference]:
    """Return the references below a node, in order."""
    return [name.reference for name in nodes_of(node, NameNode)]


class _Token(Frozen):
    """A number, name or sign, and its place in the text. unit: of a number; empty without one."""

    kind: str
    text: str
    start: int
    end: int
    unit: str


def _find_mistake(number: str, unit: str) -> str | None:
    """Return the problem of a number whose unit people write by mistake; None for another unit."""
    exact = [kind for kind, _ in QUANTITIES.values() if unit in kind.mistaken]
    found = (kind.find_mistake(number, unit) for kind in (*exact, units.RATE, units.TIME))
    return next(filter(None, found), None)


class _Parser:
    """A recursive descent parser with a method for each level of precedence."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def parse(self) -> SyntaxNode:
        node = self._junction("or", 0)
        token = self.peek()
        if token is not None:
            is_name = self._text[token.end : token.end + 1] in (".", "[", "(")
            number = _NUMBER_BEFORE.search(self._text, 0, token.start) if token.text.isalpha() else None
            if number and is_name:
                raise self._error(token, f"an operator is missing: write '{number[1]} * {token.text}...' for a product")
            if token.text == _TIMES and not re.match(r" *[\w(]", self._text[token.end :]):
                number = None
            if number and token.text == _TIMES:
                raise self._error(token, f"is no sign of a statement: write '{number[1]} *' for a product")
            if number:
                unit = _UNIT.findall(self._text, token.start)[0]
                message = f"number and unit are one word: write '{number[1]}{unit}'"
                raise self._error(token, _find_mistake(number[1], unit) or message)
            if found := _CONDITIONAL.search(self._text):
                advice = "is no word of a statement: write 'not A or B' for 'if A then B'"
                raise ExpressionError(self._text, *found.span(), advice)
            raise self._error(token, "the statement could end here: write an operator, 'and' or 'or' before it")
        return node

    def peek(self) -> _Token | None:
        """The next token. None at the end."""
        match = _TOKEN.match(self._text, self._at)
        if match is None:
            rest = self._text[self._at :]
            if rest.strip():
                start = self._at + len(rest) - len(rest.lstrip())
                meant = next((word for sign, word in _OTHER_SIGNS.items() if self._text.startswith(sign, start)), "")
                advice = f"is no sign of a statement: write '{meant}'" if meant else "is unexpected here: remove it"
                raise ExpressionError(self._text, start, start + 1, advice)
            return None
        kind = "number" if match["number"] else "name" if match["name"] else "sign"
        return _Token(kind, match[kind], match.start(kind), match.end(kind), match["unit"] or "")

    def _error(self, token: _Token | None, message: str) -> ExpressionError:
        start, end = (len(self._text),) * 2 if token is None else (token.start, token.end)
        return ExpressionError(self._text, start, end, message)

    def _take(self, *texts: str) -> _Token | None:
        """Take the next token if it is one of the given tokens."""
        token = self.peek()
        if token is None or token.kind == "number" or token.text not in texts:
            return None
        self._at = token.end
        return token

    def _expect(self, text: str, what: str) -> _Token:
        token = self._take(text)
        if token is None:
            raise self._error(self.peek(), f"'{text}' is missing {what}")
        return token

    def _limit(self, level: int) -> None:
        if level > MOST_LEVELS:
            raise self._error(self.peek(), f"is nested more than {MOST_LEVELS} levels deep: split it")

    def _junction(self, word: str, level: int) -> SyntaxNode:
        self._limit(level)

        def inner() -> SyntaxNode:
            return self._junction("and", level) if word == "or" else self._negated(level)

        operands = [inner()]
        while self._take(word):
            operands.append(inner())
        if len(operands) == 1:
            return operands[0]
        return Junction(operands[0].start, operands[-1].end, word, tuple(operands))

    def _negated(self, level: int) -> SyntaxNode:
        token = self._take("not")
        if token is None:
            return self._compared(level)
        operand = self._negated(level + 1)
        return Junction(token.start, operand.end, "not", (operand,))

    def _compared(self, level: int) -> SyntaxNode:
        operands = [self._sum(level)]
        operators = []
        while token := self._take(*COMPARISONS, "="):
            if token.text == "=":
                mark = self._text[token.end : token.end + 1]
                raise self._error(token, f"write '{mark}=' to compare" if mark in "<>" and mark else _COMPARE)
            operators.append(token.text)
            operands.append(self._sum(level))
        if not operators:
            return operands[0]
        return ComparisonChain(operands[0].start, operands[-1].end, tuple(operands), tuple(operators))

    def _sum(self, level: int) -> SyntaxNode:
        return self._chain("+-", self._product, level)

    def _product(self, level: int) -> SyntaxNode:
        return self._chain("*/", self.unary, level)

    def _chain(self, operators: str, part: Callable[[int], SyntaxNode], level: int) -> SyntaxNode:
        """Return operations of one precedence, which are carried out from left to right."""
        node = part(level)
        while token := self._take(*operators):
            right = part(level)
            node = Operation(node.start, right.end, token.text, node, right)
        return node

    def unary(self, level: int) -> SyntaxNode:
        """Parse a value with or without a sign."""
        self._limit(level)
        token = self._take("-")
        if token is not None:
            operand = self.unary(level + 1)
            return Negation(token.start, operand.end, operand)
        return self._atom(level)

    def _atom(self, level: int) -> SyntaxNode:
        token = self.peek()
        if token is None:
            message = "a value is missing: write a number with its unit, or a name as in 'xp.bulk.goodput'"
            raise self._error(token, message)
        if token.kind == "number":
            self._at = token.end
            return self._literal(token)
        if token.text == "(":
            self._at = token.end
            node = self._junction("or", level + 1)
            self._expect(")", f"to end what begins at character {token.start + 1}")
            return node
        if token.text == "[":
            raise self._error(token, "conditions follow a name: write as in 'cells[cc=reno].bulk.goodput'")
        if token.kind != "name" or token.text in _WORDS:
            raise self._error(token, "a value belongs here: a number with its unit, or a name as in 'xp.bulk.goodput'")
        self._at = token.end
        if self._take("("):
            return self._call(token, level + 1)
        return self._name(token)

    def _call(self, token: _Token, level: int) -> SyntaxNode:
        if token.text not in FUNCTIONS:
            raise self._error(token, f"no function of this name; functions: {', '.join(FUNCTIONS)}")
        arguments = [self._sum(level)]
        while self._take(","):
            arguments.append(self._sum(level))
        end = self._expect(")", f"to end what begins at character {token.end + 1}")
        if token.text == "abs" and len(arguments) > 1:
            raise self._error(token, "is of one value")
        return Call(token.start, end.end, token.text, tuple(arguments))

    def _name(self, token: _Token) -> SyntaxNode:
        segments = [Segment(token.text, self._conditions())]
        while self._take("."):
            part = self.peek()
            if part is None or part.kind != "name":
                raise self._error(part, "a name belongs after the dot")
            self._at = part.end
            segments.append(Segment(part.text, self._conditions()))
        text = self._text[token.start : self._at]
        return NameNode(token.start, self._at, Reference(tuple(segments), text))

    def _conditions(self) -> tuple[Condition, ...]:
        opening = self._take("[")
        conditions: list[Condition] = []
        while opening is not None:
            match = _CONDITION.match(self._text, self._at)
            if match is None:
                message = "write conditions as in '[scheduler=roundrobin]' or '[flow=bulk, start=10s..20s]'"
                raise ExpressionError(self._text, opening.start, self._at + 1, message)
            self._at = match.end()
            conditions.append(_condition(match))
            if any(one.key == match["key"] for one in conditions[:-1]):
                raise ExpressionError(self._text, *match.span("key"), "is named twice: keep one value for it")
            if match["end"] == "]":
                break
        return tuple(conditions)

    def _literal(self, token: _Token) -> Literal:
        unit = token.unit
        number = float(token.text.removesuffix(unit))
        if not unit or unit in ("packets", "packet"):
            return Literal(token.start, token.end, number, "count")
        if unit == "%":
            return Literal(token.start, token.end, number / 100, "ratio")
        for kind, (base, size) in QUANTITIES.items():
            if unit in base.units:
                return Literal(token.start, token.end, number * base.units[unit] / size, kind)
        if problem := _find_mistake(token.text.removesuffix(unit), unit):
            raise self._error(token, problem)
        if unit == _TIMES and re.match(r" +[\w(]", self._text[token.end :]):
            raise self._error(token, f"is no product: write '{token.text.removesuffix(unit)} *'")
        known = ", ".join([*units.RATE.units, *units.TIME.units, *units.VOLUME.units, "%", "packets"])
        raise self._error(token, f"no unit '{unit}'; units: {known}")
