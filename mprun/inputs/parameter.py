# SPDX-License-Identifier: Apache-2.0
"""Parameters, and the scalars that use them: `{{ name }}`."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from mprun.inputs.template import MOST_IN_ALL, TemplateProblem, parse
from mprun.model.problem import name_nearest
from mprun.model.scalar import Scalar

# A value that needs no quotes.
_PLAIN_VALUE = re.compile(r"[\w.%/-]+")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass
class FileParameters:
    """The parameters of both files. `used` collects the names that scalars asked for.

    `whole`: False if a file could not be read, so that a missing name is no problem.
    """

    values: Mapping[str, Scalar]
    whole: bool = True
    used: set[str] = field(default_factory=set)
    _rendered: dict[str, Scalar | TemplateProblem] = field(default_factory=dict)
    _characters: int = 0

    def render(self, text: str) -> Scalar:
        """The value of a scalar. A scalar that is a single `{{ expression }}` keeps the expression's type.

        Raises TemplateProblem.
        """
        if text not in self._rendered:
            self._characters += len(text)
            if self._characters > MOST_IN_ALL:
                allowed = f"{MOST_IN_ALL} characters are allowed in all templates together"
                raise TemplateProblem(f"is one template too many: {allowed}")
            try:
                self._rendered[text] = self._render(text)
            except TemplateProblem as error:
                self._rendered[text] = error
        value = self._rendered[text]
        if isinstance(value, TemplateProblem):
            raise value
        return value

    def _render(self, text: str) -> Scalar:
        template = parse(text)
        self.used |= template.names
        unknown = sorted(template.names - set(self.values))
        if unknown and self.whole:
            raise TemplateProblem(tell_no_parameter(unknown[0], self.values, is_used=True))
        return text if unknown else template.render(self.values)


def tell_no_parameter(
    name: str, known: Collection[str], where: str = "", value: str = "...", is_used: bool = False
) -> str:
    """Return the message for a name that is no parameter of the files.

    where: the files, as the message has them. value: the text for the parameter. is_used: the files use the name.
    """
    hint = name_nearest(name, known, "parameters")
    if not hint.startswith(": did you mean"):
        entry = f"{name}: {value if _PLAIN_VALUE.fullmatch(value) else '...'}"
        use = "" if is_used else f""", and '"{{{{ {name} }}}}"' where it holds"""
        hint = f": write '{entry}' in 'params'{use}{hint}" if known else f": write 'params: {{{entry}}}'{use}"
    return f"no parameter '{name}'{where}{hint}"
