# SPDX-License-Identifier: Apache-2.0
"""Parameters, and the scalars that use them: `{{ name }}`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from mprun.inputs.template import MOST_IN_ALL, TemplateProblem, parse
from mprun.model.problem import tell_unknown
from mprun.model.scalar import Scalar

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
            raise TemplateProblem(tell_unknown("parameter", unknown[0], self.values))
        return text if unknown else template.render(self.values)
