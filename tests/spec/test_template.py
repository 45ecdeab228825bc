# SPDX-License-Identifier: Apache-2.0
"""Templates of a stranger: what is read, and what is refused before it costs anything."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from mprun.spec.parameter import Parameters
from mprun.spec.scalar import Scalar
from mprun.spec.template import MOST_IN_ALL, TemplateFault

ROOT = Path(__file__).parents[2]
VALUES: dict[str, Scalar] = {"p": 3, "q": "5mbit", "r": 2.5, "yes": True, "nothing": None, "long": "x" * 9000}

READ: dict[str, Scalar] = {
    "{{ p }}": 3, " {{ p }} ": 3, "{{ p }}mbit": "3mbit", "{{ q }}": "5mbit", "{{ p }}{{ r }}": "32.5",
    "{{ yes }}": True, "{{ nothing }}": None, "{{ p * 2 + 1 }}": 7,
    "{{ p // 2 }}": 1, "{{ p / 2 }}": 1.5, "{{ p % 2 }}": 1,
    "{{ 2 ** p }}": 8, "{{ -p }}": -3, "{{ (p + 1) * 2 }}ms": "8ms", "{{ p ~ 'ms' }}": "3ms", "{{ 'a' + q }}": "a5mbit",
    "{{ 1 if p > 2 else 2 }}": 1, "{{ 'a' if q == '5mbit' and not yes else 'b' }}": "b", "{{ 1 < p <= 3 }}": True,
    "{{ (p * r)|round|int }}ms": "8ms", "{{ (p / 7)|round(2) }}": 0.43, "{{ q|upper }}": "5MBIT",
    "{{ '7'|int + 1 }}": 8,
    "{{ nothing or 4 }}": 4, "{# a comment #}{{ p }}": 3, "{{ '{{' }}": "{{", "{{ {1: 'a', p: 'b'}[p] }}": "b",
    "{{ -1|abs }}": 1,
}  # fmt: skip

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


@pytest.mark.parametrize("text", READ, ids=range(len(READ)))
def test_what_is_read(text: str) -> None:
    value = Parameters(VALUES).render(text)
    assert (value, type(value)) == (READ[text], type(READ[text]))


@pytest.mark.parametrize("text", [*ESCAPES, *ENDLESS], ids=range(len(ESCAPES) + len(ENDLESS)))
def test_what_is_refused(text: str) -> None:
    with pytest.raises(TemplateFault):
        Parameters(VALUES).render(text)


def test_all_refusals_together_take_little() -> None:
    """In a process that may use 5 s of CPU time and 1 GB of memory. Before, many of ENDLESS alone exceeded one."""
    code = (
        "from tests.spec.test_template import *\n"
        "for text in [*ESCAPES, *ENDLESS]:\n"
        "    try: Parameters(VALUES).render(text)\n"
        "    except TemplateFault: continue\n"
        "    raise SystemExit(text)\n"
    )

    def bound() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (5, 5))
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))

    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, preexec_fn=bound, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, (done.returncode, done.stderr[-1000:])


def test_all_templates_of_a_file_are_bounded() -> None:
    """Each is different, so that none is known already."""
    parameters = Parameters(VALUES)
    count = MOST_IN_ALL // len("{{ p }}00000")
    for number in range(count):
        assert parameters.render(f"{{{{ p }}}}{number:05}") == f"3{number:05}"
    with pytest.raises(TemplateFault, match="is one template too many"):
        parameters.render(f"{{{{ p }}}}{count:05}")
    assert parameters.render("{{ p }}00000") == "300000"
