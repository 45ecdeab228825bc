# SPDX-License-Identifier: Apache-2.0
"""Templates in scalars: `{{ rate * 2 }}mbit`.

Jinja2 parses the text and does nothing else. A short list of its nodes is accepted and evaluated here, with a bound on
the size of every value, as files come from strangers: names, numbers, texts, arithmetic, comparisons, `A if B else C`,
FILTERS, and a choice among values, `{'wifi': 2, 'lte': 30}[access]`. There are no statements, calls, attributes or
lists.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from mprun.model.frozen import Frozen
from mprun.model.problem import list_names
from mprun.model.scalar import Product, Scalar, read_product

if TYPE_CHECKING:
    from jinja2 import Environment, nodes

# The largest number of characters of a template, and of its result.
MOST_CHARACTERS = 10_000
# The largest number of characters of all different templates in a pair of files. A character takes at most 10 us, so
# all take at most 2 s.
MOST_IN_ALL = 200_000
MOST_BITS = 4096
MOST_LEVELS = 50

_QUANTITY = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,15})?)( ?[A-Za-z%][A-Za-z/%]*)?")
# The inside of a template in braces, and what stands before and behind them.
_BRACED = re.compile(r"([^{}]*)\{\{([^{}]*[A-Za-z_][^{}]*)\}\}([^{}]*)")


class TemplateProblem(ValueError):
    """A scalar that cannot be rendered; the message says why."""


def multiply(quantity: object, factor: object) -> str:
    """Multiply a quantity by a number and keep its unit: `20mbit`, 1.8 -> `36mbit`. Raises TemplateProblem."""
    match = _QUANTITY.fullmatch(str(quantity))
    if match is None or isinstance(factor, bool) or not isinstance(factor, int | float):
        raise TemplateProblem(f"'{quantity}' times '{factor}': write a quantity and a number, as in '20mbit' times 1.8")
    number = Decimal(match[1]) * Decimal(str(factor))
    product = Product(f"{number.normalize():f}{match[2] or ''}")
    product.quantity = quantity
    return product


def advise_product(text: object) -> str | None:
    """Return the template that people mean by `{{ rate * 0.9 }}` and `{{ rate }} / 2`; None for another text."""
    braced = _BRACED.fullmatch(str(text))
    found = read_product("".join(braced.groups()).strip(), r"[A-Za-z_]\w*") if braced else None
    if found is None:
        return None
    name, sign, number = found
    factor = 1 / number if sign == "/" else number
    # a third has no decimal number that is exact
    return f"{{{{ {name} | times({factor:f}) }}}}" if factor == Decimal(str(float(factor))) else None


# Each filter has one value. `round` also has a number of digits, and `times` has a factor.
FILTERS: Mapping[str, Callable[..., Any]] = {
    "abs": abs, "float": float, "int": int, "lower": str.lower, "round": round, "upper": str.upper,
    "times": multiply,
}  # fmt: skip
_NUMBERS: Mapping[str, Callable[[Any, Any], Any]] = {
    "Sub": operator.sub, "Mul": operator.mul, "Div": operator.truediv, "FloorDiv": operator.floordiv,
    "Mod": operator.mod,
}  # fmt: skip
_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "lteq": operator.le, "gt": operator.gt,
    "gteq": operator.ge,
}  # fmt: skip
_ACCEPTED = (
    *("Template", "Output", "TemplateData", "Name", "Const", "Add", *_NUMBERS, "Pow", "Neg", "Pos", "Concat"),
    *("Compare", "Operand", "And", "Or", "Not", "CondExpr", "Filter", "Pair"),
)


class Template(Frozen):
    """A checked template. parts: nodes of Jinja2 in order; is_value: it is one expression, which keeps its type."""

    parts: tuple[nodes.Expr, ...]
    names: frozenset[str]
    is_value: bool

    def render(self, values: Mapping[str, Scalar]) -> Scalar:
        """Return its text, or the value of its one expression. Raises TemplateProblem."""
        try:
            found = [_evaluate(part, values) for part in self.parts]
            if self.is_value:
                value: Scalar = found[0]
                return value
            return _join(found)
        except TemplateProblem:
            raise
        except (ArithmeticError, TypeError, ValueError) as error:
            raise _broken(str(error)) from None


@lru_cache(maxsize=1024)
def parse(text: str) -> Template:
    """Parse and check a scalar that holds `{{`. Raises TemplateProblem."""
    from jinja2 import TemplateSyntaxError, nodes

    if len(text) > MOST_CHARACTERS:
        raise too_long()
    stripped = text.strip()
    # blanks around a single expression do not belong to its value
    is_single = stripped.startswith("{{") and stripped.endswith("}}") and stripped.count("{{") == 1
    try:
        tree = _environment().parse(stripped if is_single else text)
        names = _check(tree)
    except TemplateSyntaxError as error:
        raise _broken(str(error)) from None
    except RecursionError:
        raise TemplateProblem(f"is nested more than {MOST_LEVELS} levels deep: write it simpler") from None
    parts = tuple(part for output in tree.body if isinstance(output, nodes.Output) for part in output.nodes)
    is_value = len(parts) == 1 and not isinstance(parts[0], nodes.TemplateData)
    return Template(parts, names, is_value)


def too_long() -> TemplateProblem:
    return TemplateProblem(
        f"amounts to more than {MOST_CHARACTERS} characters: check what stands between {{{{ and }}}}"
    )


@cache
def _environment() -> Environment:
    from jinja2 import Environment

    return Environment(keep_trailing_newline=True, autoescape=False)


def _check(tree: nodes.Template) -> frozenset[str]:
    """Return the names of a template. Raises TemplateProblem for what is not accepted."""
    from jinja2 import nodes

    names = set()
    waiting: list[tuple[nodes.Node, int]] = [(tree, 0)]
    while waiting:
        node, level = waiting.pop()
        kind = type(node).__name__
        if isinstance(node, nodes.Getitem) and isinstance(node.node, nodes.Dict):
            waiting += [(node.arg, level + 1), *((pair, level + 1) for pair in node.node.items)]
            continue
        if kind not in _ACCEPTED:
            what = "a statement" if isinstance(node, nodes.Stmt) else _NOUNS.get(kind, f"'{kind.lower()}'")
            raise _refuse(what)
        if level > MOST_LEVELS:
            raise TemplateProblem(f"is nested more than {MOST_LEVELS} levels deep: write it simpler")
        if isinstance(node, nodes.Filter):
            _check_filter(node)
        if isinstance(node, nodes.Operand) and node.op not in _COMPARISONS:
            raise _refuse(f"'{node.op}'")
        if isinstance(node, nodes.CondExpr) and node.expr2 is None:
            raise TemplateProblem("holds an 'if' without 'else': write 'A if B else C'")
        if isinstance(node, nodes.Name):
            names.add(node.name)
        waiting += [(child, level + 1) for child in node.iter_child_nodes()]
    return frozenset(names)


_NOUNS = {"Call": "a call", "Getattr": "an attribute", "Getitem": "an index", "List": "a list", "Tuple": "a list"}
_NOUNS |= {"Dict": "a mapping", "Test": "a test"}


def _check_filter(node: nodes.Filter) -> None:
    if node.name not in FILTERS:
        raise TemplateProblem(f"no filter '{node.name}'; filters: {', '.join(FILTERS)}")
    if node.node is None or node.kwargs or node.dyn_args or node.dyn_kwargs:
        raise TemplateProblem(f"filter '{node.name}' is written without names: as in 'x|round(2)'")
    if node.name == "times" and len(node.args) != 1:
        raise TemplateProblem("filter 'times' takes a number: as in 'rate|times(1.8)'")
    if len(node.args) > (1 if node.name in ("round", "times") else 0):
        raise TemplateProblem(f"filter '{node.name}' has too many arguments: write 'x|{node.name}'")


def _refuse(what: str) -> TemplateProblem:
    read = "names, numbers, texts, arithmetic, comparisons, 'A if B else C', {'a': 1, 'b': 2}[name] and the filters "
    return TemplateProblem(f"holds {what}: only {read}{', '.join(FILTERS)} are read")


def _broken(reason: str) -> TemplateProblem:
    return TemplateProblem(f"cannot be rendered: {reason}: check what stands between {{{{ and }}}}")


def _evaluate(node: nodes.Node, values: Mapping[str, Scalar]) -> Any:
    """Return a value, bounded in size."""
    from jinja2 import nodes

    match node:
        case nodes.TemplateData():
            return node.data
        case nodes.Const():
            return _bounded(node.value)
        case nodes.Name():
            return _bounded(values[node.name])
        case nodes.CondExpr():
            chosen = node.expr1 if _evaluate(node.test, values) else node.expr2
            assert chosen is not None
            return _evaluate(chosen, values)
        case nodes.And():
            return _evaluate(node.left, values) and _evaluate(node.right, values)
        case nodes.Or():
            return _evaluate(node.left, values) or _evaluate(node.right, values)
        case nodes.Not():
            return not _evaluate(node.node, values)
        case nodes.Compare():
            return _compare(node, values)
        case nodes.Concat():
            return _join([_evaluate(one, values) for one in node.nodes])
        case nodes.Filter():
            given = [_evaluate(one, values) for one in (node.node, *node.args) if one is not None]
            return _filter(node.name, given)
        case nodes.Getitem(node=nodes.Dict(items=pairs)):
            return _choose(pairs, _evaluate(node.arg, values), values)
        case nodes.UnaryExpr():
            value = _number(_evaluate(node.node, values))
            return -value if isinstance(node, nodes.Neg) else value
        case nodes.BinExpr():
            return _bounded(_calculate(node, _evaluate(node.left, values), _evaluate(node.right, values)))
    raise AssertionError(node)


def _compare(node: nodes.Compare, values: Mapping[str, Scalar]) -> bool:
    left = _evaluate(node.expr, values)
    for operand in node.ops:
        right = _evaluate(operand.expr, values)
        if not _COMPARISONS[operand.op](left, right):
            return False
        left = right
    return True


def _choose(pairs: list[nodes.Pair], wanted: Any, values: Mapping[str, Scalar]) -> Any:
    keys = [_evaluate(pair.key, values) for pair in pairs]
    if wanted not in keys:
        raise TemplateProblem(f"no value for {wanted!r}{list_names([str(key) for key in keys], 'there are')}")
    return _evaluate(pairs[keys.index(wanted)].value, values)


def _calculate(node: nodes.BinExpr, left: Any, right: Any) -> Any:
    kind = type(node).__name__
    if kind == "Add" and isinstance(left, str) and isinstance(right, str):
        return left + right
    one, other = _number(left), _number(right)
    if kind == "Add":
        return one + other
    if kind == "Pow":
        if isinstance(one, int) and isinstance(other, int) and one.bit_length() * other > MOST_BITS:
            raise too_long()
        return one**other
    return _NUMBERS[kind](one, other)


def _filter(name: str, given: list[Any]) -> Any:
    value, *rest = given
    if name in ("lower", "upper"):
        return _bounded(FILTERS[name](str(value)))
    if name == "times":
        return _bounded(multiply(value, *rest))
    if name in ("int", "float") and isinstance(value, str):
        return _bounded(FILTERS[name](value))
    if rest and not (isinstance(rest[0], int) and abs(rest[0]) <= MOST_LEVELS):
        raise ValueError(f"'{rest[0]}' is no number of digits")
    return _bounded(FILTERS[name](_number(value), *rest))


def _number(value: Any) -> int | float:
    if isinstance(value, int | float):
        return value
    raise TypeError(f"'{value}' is no number" if isinstance(value, str) else f"{value} is no number")


def _join(values: list[Any]) -> str:
    texts = [str(value) for value in values]
    if sum(map(len, texts)) > MOST_CHARACTERS:
        raise too_long()
    return "".join(texts)


def _bounded(value: Any) -> Any:
    if isinstance(value, str):
        is_large = len(value) > MOST_CHARACTERS
    elif isinstance(value, int):
        is_large = value.bit_length() > MOST_BITS
    elif value is None or isinstance(value, float):
        is_large = False
    else:
        raise TypeError(f"{type(value).__name__} is no value here")
    if is_large:
        raise too_long()
    return value
