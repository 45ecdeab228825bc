# SPDX-License-Identifier: Apache-2.0
"""Parameters: `{{ name }}` in a scalar, rendered with Jinja2 in a sandbox, undefined names refused.

Jinja2 is imported when the first scalar needs it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mprun.spec.fault import name_nearest
from mprun.spec.scalar import Scalar

if TYPE_CHECKING:
    from jinja2.sandbox import SandboxedEnvironment

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
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
            if single is None:
                return environment.from_string(text).render(self.values)
            value = environment.compile_expression(single[1], undefined_to_none=False)(**self.values)
            return value if value is None or isinstance(value, str | int | float) else str(value)
        except TemplateFault:
            raise
        except Exception as error:  # an expression of the user can raise anything
            raise TemplateFault(f"cannot be rendered: {error}: check what stands between {{{{ and }}}}") from None


def _build_environment() -> SandboxedEnvironment:
    """Only what gives the same text every time: no `lipsum`, no `random`."""
    from jinja2 import StrictUndefined
    from jinja2.sandbox import SandboxedEnvironment

    environment = SandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False)
    environment.globals = {"range": environment.globals["range"]}
    environment.filters.pop("random")
    return environment
