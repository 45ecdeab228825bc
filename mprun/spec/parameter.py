# SPDX-License-Identifier: Apache-2.0
"""Parameters: `{{ name }}` in a scalar, rendered with Jinja2 in a sandbox, undefined names refused.

Jinja2 is imported when the first scalar needs it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sized
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mprun.spec.fault import name_nearest
from mprun.spec.scalar import Scalar

if TYPE_CHECKING:
    from jinja2.runtime import Context
    from jinja2.sandbox import SandboxedEnvironment

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Characters of a rendered scalar, and of what an expression multiplies on the way; digits of a power, in bits.
MOST_RENDERED = 10_000
_ONE_EXPRESSION = re.compile(r"\{\{((?:(?!\}\}|\{\{).)*)\}\}", re.DOTALL)


class TemplateFault(ValueError):
    """A scalar that cannot be rendered; the message says why."""


@dataclass
class Parameters:
    """The parameters of both files; `used` collects the names that scalars asked for.

    whole: False where a file could not be read, so that a missing name is nobody's fault.
    """

    values: Mapping[str, Scalar]
    whole: bool = True
    used: set[str] = field(default_factory=set)
    _environment: SandboxedEnvironment | None = None

    def render(self, text: str) -> Scalar:
        """The value of a scalar; one that is a single `{{ expression }}` keeps the expression's type.

        Raises TemplateFault.
        """
        from jinja2 import meta

        environment = self._environment = self._environment or _build_environment()
        try:
            names = meta.find_undeclared_variables(environment.parse(text)) - set(environment.globals)
            self.used |= names
            unknown = sorted(names - set(self.values))
            if unknown and self.whole:
                hint = name_nearest(unknown[0], self.values, "parameters")
                raise TemplateFault(f"no parameter '{unknown[0]}'{hint}")
            if unknown:
                return text
            single = _ONE_EXPRESSION.fullmatch(text.strip())
            value: Any
            if single is None:
                value = environment.from_string(text).render(self.values)
            else:
                value = environment.compile_expression(single[1], undefined_to_none=False)(**self.values)
            if len(str(value)) > MOST_RENDERED:
                raise _too_long()
            return value if value is None or isinstance(value, str | int | float) else str(value)
        except TemplateFault:
            raise
        except Exception as error:  # an expression of the user can raise anything
            reason = str(error) or type(error).__name__
            raise TemplateFault(f"cannot be rendered: {reason}: check what stands between {{{{ and }}}}") from None


def _too_long() -> TemplateFault:
    return TemplateFault(f"comes to more than {MOST_RENDERED} characters: check what stands between {{{{ and }}}}")


def _build_environment() -> SandboxedEnvironment:
    """Only what gives the same text every time: no `lipsum`, no `random`."""
    from jinja2 import StrictUndefined
    from jinja2.sandbox import SandboxedEnvironment

    class Bounded(SandboxedEnvironment):
        """What one line can make endless is refused before it is computed."""

        intercepted_binops = frozenset(("*", "**"))

        def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
            if operator == "**":
                if isinstance(left, int) and isinstance(right, int) and left.bit_length() * right > MOST_RENDERED:
                    raise _too_long()
            else:
                for many, times in ((left, right), (right, left)):
                    if isinstance(many, Sized) and isinstance(times, int) and len(many) * times > MOST_RENDERED:
                        raise _too_long()
            return super().call_binop(context, operator, left, right)

    environment = Bounded(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False)
    environment.globals = {"range": environment.globals["range"]}
    environment.filters.pop("random")
    return environment
