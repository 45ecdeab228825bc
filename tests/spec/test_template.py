# SPDX-License-Identifier: Apache-2.0
"""Templates from a stranger: accepted templates, and templates that are refused before they take time or memory."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from mprun.inputs.loading import load, load_cells
from mprun.inputs.parameter import FileParameters
from mprun.inputs.template import MOST_IN_ALL, TemplateProblem
from mprun.model.scalar import Scalar
from tests.hostile import templates
from tests.hostile.templates import VALUES
from tests.scenes import ONE_PATH

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


WORDS = """\
version: 1
params: {gap: 50, share: 0.5, is_fast: true, host: b}
traffic:
  - tool: exec
    from: client
    to: server
    command: [./send, "{{ gap }}", "{{ share }}", "{{ is_fast }}", "{{ gap }}ms"]
    environment: {GAP: "{{ gap }}"}
  - {tool: quic, from: client, to: server, response: 1mb, stack: {client: [a, "{{ gap }}"], server: ["{{ host }}"]}}
"""


def test_numbers_of_parameters_are_words_of_commands(tmp_path: Path) -> None:
    (tmp_path / "topo.yaml").write_text(ONE_PATH)
    (tmp_path / "xp.yaml").write_text(WORDS)
    loaded = load(tmp_path / "topo", tmp_path / "xp", {"gap": "25"})
    command, stack = (flow.options for flow in loaded.spec.experiment.traffic)
    assert command["command"] == ["./send", "25", "0.5", "true", "25ms"]
    assert command["environment"] == {"GAP": "25"}
    assert stack["stack"] == {"client": ["a", "25"], "server": ["b"]}
    (tmp_path / "xp.yaml").write_text(WORDS.replace("version: 1", SWEPT))
    found = load_cells(tmp_path / "topo", tmp_path / "xp")
    swept = [cell.spec.experiment.traffic[0].options["command"] for cell in found]
    assert swept == [["./send", gap, "0.5", "true", f"{gap}ms"] for gap in ("50", "100")]


SWEPT = "version: 1\nmatrix: {gap: [50, 100]}"


@pytest.mark.parametrize(
    ("word", "warning"),
    [
        ("{dest}", "'{dest}' is no value of a run, and the program gets it as written; known: {source}"),
        ("{inputs}/x", "'{inputs}' is the folder of 'files', and there are none: write 'files: [...]'"),
        ("{destination}:{port}", ""),
        ("%{time_total}", ""),
        ("$1%{time_total}", ""),
        ("--home=${HOME}", "'$HOME' is a variable of a shell, and none runs this command: write it as in [sh, -c,"),
        ("{PORT}", "'{PORT}' is no value of a run, and the program gets it as written; known: {source}"),
        ("${port}", "'$port' is a variable of a shell, and none runs this command: write '{port}'"),
        ("${count}", "'$count' is a variable of a shell, and none runs this command: write it as in [sh, -c, 'echo"),
        (
            "--n=$n",
            "'$n' is a variable of a shell, and none runs this command: write it as in [sh, -c, 'echo $HOME'], or",
        ),
        # a price, regular expressions, a path of JSON
        ("$5", ""),
        ("US$", ""),
        ("^foo$", ""),
        ("foo$|bar$", ""),
        ("$.name", ""),
        ("$1", ""),
        ("{Name}", ""),
        # a program of its own
        ("{print $1} {dest}", ""),
    ],
)
def test_unknown_words_in_braces(tmp_path: Path, word: str, warning: str) -> None:
    (tmp_path / "topo.yaml").write_text(ONE_PATH)
    entry = f"{{tool: exec, from: client, to: server, command: [echo, '{word}'], server: [date]}}"
    (tmp_path / "xp.yaml").write_text(f"version: 1\ntraffic: [{entry}]\n")
    warnings = load(tmp_path / "topo", tmp_path / "xp").warnings
    assert len(warnings) == bool(warning)
    assert not warning or f"traffic[0].command[1]: {warning}" in warnings[0]
