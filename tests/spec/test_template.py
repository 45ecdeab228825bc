# SPDX-License-Identifier: Apache-2.0
"""Templates from a stranger: accepted templates, and templates that are refused before they take time or memory."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from mprun.inputs.parameter import FileParameters
from mprun.inputs.template import MOST_IN_ALL, TemplateProblem
from mprun.model.scalar import Scalar
from tests.hostile import templates
from tests.hostile.templates import VALUES

ROOT = Path(__file__).parents[2]
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


@pytest.mark.parametrize("text", READ, ids=range(len(READ)))
def test_what_is_read(text: str) -> None:
    value = FileParameters(VALUES).render(text)
    assert (value, type(value)) == (READ[text], type(READ[text]))


@pytest.mark.parametrize("text", templates.CASES, ids=range(len(templates.CASES)))
def test_what_is_refused(text: str) -> None:
    assert templates.attempt(text).harm == ""


def test_all_refusals_together_take_little() -> None:
    """The process may use 5 s of CPU time and 1 GB of memory.

    Before, many single templates of ENDLESS exceeded a limit.
    """
    code = (
        "from tests.hostile import templates\n"
        "for text in templates.CASES:\n"
        "    if templates.attempt(text).harm: raise SystemExit(text)\n"
    )

    def bound() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (5, 5))
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))

    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, preexec_fn=bound, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, (done.returncode, done.stderr[-1000:])


def test_all_templates_of_a_file_are_bounded() -> None:
    """Each template is different, so that no result is cached."""
    parameters = FileParameters(VALUES)
    count = MOST_IN_ALL // len("{{ p }}00000")
    for number in range(count):
        assert parameters.render(f"{{{{ p }}}}{number:05}") == f"3{number:05}"
    with pytest.raises(TemplateProblem, match="is one template too many"):
        parameters.render(f"{{{{ p }}}}{count:05}")
    assert parameters.render("{{ p }}00000") == "300000"
