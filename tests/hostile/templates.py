# SPDX-License-Identifier: Apache-2.0
"""Templates from a stranger that try to leave the sandbox of Jinja2, or to use much time or memory."""

from __future__ import annotations

from mprun.inputs.parameter import FileParameters
from mprun.inputs.template import TemplateProblem
from mprun.model.scalar import Scalar
from tests.hostile import Finding

VALUES: dict[str, Scalar] = {"p": 3, "q": "5mbit", "r": 2.5, "yes": True, "nothing": None, "long": "x" * 9000}

ESCAPES = [
    *("{{ ''.__class__ }}", "{{ ''.__class__.__mro__[1].__subclasses__() }}", "{{ p.__init__.__globals__ }}"),
    *("{{ [].__class__ }}", "{{ {}['__class__'] }}", "{{ p|attr('__class__') }}", "{{ self }}", "{{ self.__init__ }}"),
    *("{{ lipsum.__globals__ }}", "{{ cycler.__init__ }}", "{{ joiner() }}", "{{ namespace() }}", "{{ range(3) }}"),
    *("{% include 'topo.yaml' %}{{ p }}", "{% import 'os' as os %}{{ p }}", "{% extends 'x' %}{{ p }}"),
    *("{{ {'a': 1}[p] }}", "{{ {'a': p.real}['a'] }}", "{{ {p(): 1}[3] }}", "{{ {1: 2} }}"),
    *("{{ '{0.__class__}'.format(p) }}", "{{ '%s'|format(p) }}"),
]
ENDLESS = [
    "{{ p }}{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "{% macro m() %}{{ m() }}{{ m() }}{% endmacro %}{{ m() }}", "{{ [1]|slice(999999999)|list|length }}",
    "{% for a in range(99999) %}{{ a }}{% endfor %}", "{% set ns = [1] %}{{ ns.extend(ns) }}",
    "{% filter indent(99999) %}{{ p }}{% endfilter %}", "{% call m() %}{{ p }}{% endcall %}",
    "{{ range(99999)|list|tojson(indent=99999) }}", "{{ '%999999999d' % 1 }}", "{{ 'a'|center(999999999) }}",
    "{{ 'a'.ljust(999999999) }}", "{{ 'a'.zfill(999999999) }}", "{{ '{:999999999}'.format(1) }}",
    "{{ 'a' * 999999999 }}", "{{ 999999999 * 'a' }}", "{{ [1] * 999999999 }}", "{{ (1, 2) * 999999999 }}",
    "{{ 10 ** 999999999 }}", "{{ 9 ** 999 ** 9 }}", "{{ 2 ** 4000 ** 1 * 2 ** 4000 * 2 ** 4000 }}",
    "{{ 'a'|indent(999999999) }}",     "{{ range(10 ** 9)|sum }}",
    "{{ range(99999)|map('string')|join('x') }}", "{{ range(99999)|batch(1)|list }}",
    "{{ 'ab'|replace('', 'a' * 9999) }}", "{{ 'a'|wordwrap(1) }}", "{{ {'a': 1}|dictsort }}", "{{ long ~ long }}",
    "{{ long }}{{ long }}", "{{ long + long }}", "{{ 'a'|urlize }}", "{{ p|filesizeformat }}", "{{ p|pprint }}",
    "{{ range(9999999)|tojson }}", "{{ 'x'|truncate(999999999) }}", "{{ [1, 2]|random }}", "{{ p is divisibleby 0 }}",
    "{{ '1' * p }}", "{{ p }}" + "{{ p }}" * 99999, "{{ " + "(" * 4000 + "1" + ")" * 4000 + " }}",
    "{{ " + "-" * 9000 + "1 }}", "{{ " + "1+" * 4900 + "1 }}", "{{ " + "not " * 2000 + "p }}",
    "{{ " + "2 ** " * 1000 + "2 }}", "{{ '9' * 5000 }}", "{{ p|round(999999999) }}",
]  # fmt: skip

CASES = [*ESCAPES, *ENDLESS]


def attempt(text: str) -> Finding:
    """Render a template."""
    try:
        value = FileParameters(VALUES).render(text)
    except TemplateProblem as fault:
        return Finding(str(fault).partition(":")[0][:160])
    return Finding("", f"it was rendered: {str(value)[:60]}")
