# SPDX-License-Identifier: Apache-2.0
"""The language of pages, docstrings, help and schemas is plain: `tests/language.py` finds no fault."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests import language
from tests.pages import ROOT

# Parts whose language has been checked. The list grows until it is the whole repository.
CHECKED = (
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "README.md",
    "SECURITY.md",
    "benchmarks",
    "docs/addressing.md",
    "docs/bundles.md",
    "docs/captures.md",
    "docs/cluster.md",
    "docs/comparison.md",
    "docs/concepts.md",
    "docs/design.md",
    "docs/editors.md",
    "docs/fairness.md",
    "docs/fidelity.md",
    "docs/files.md",
    "docs/generate",
    "docs/glossary.md",
    "docs/howto.md",
    "docs/index.md",
    "docs/kernel.md",
    "docs/labs.md",
    "docs/limits.md",
    "docs/links.md",
    "docs/machines.md",
    "docs/measurements.md",
    "docs/middleboxes.md",
    "docs/mptcp.md",
    "docs/older-files.md",
    "docs/physics.md",
    "docs/programs.md",
    "docs/quic.md",
    "docs/reports.md",
    "docs/sctp.md",
    "docs/security.md",
    "docs/soak.md",
    "docs/speed.md",
    "docs/start.md",
    "docs/statements.md",
    "docs/statistics.md",
    "docs/studies",
    "docs/sweeps.md",
    "docs/switches.md",
    "docs/teaching.md",
    "docs/topologies.md",
    "docs/tutorial.md",
    "docs/workloads.md",
    "labs/01_multipath",
    "labs/02_scheduler",
    "labs/03_path_manager",
    "labs/04_backup",
    "labs/05_congestion_control",
    "labs/06_multipath_quic",
    "labs/10_openflow_topologies",
    "labs/11_classroom",
    "labs/12_datacentre_short_flows",
    "labs/13_sctp_vs_mptcp",
    "mprun/__init__.py",
    "mprun/__main__.py",
    "mprun/agent",
    "mprun/agent_report.py",
    "mprun/analysis",
    "mprun/bundle",
    "mprun/cache.py",
    "mprun/capabilities.py",
    "mprun/cli",
    "mprun/codec.py",
    "mprun/compile",
    "mprun/engines",
    "mprun/errors.py",
    "mprun/folder.py",
    "mprun/form.py",
    "mprun/genuine.py",
    "mprun/guest",
    "mprun/input",
    "mprun/inside.py",
    "mprun/intent",
    "mprun/invoker.py",
    "mprun/json_schema.py",
    "mprun/kernel",
    "mprun/lab",
    "mprun/landlock.py",
    "mprun/mininet_library.py",
    "mprun/model",
    "mprun/packets",
    "mprun/place.py",
    "mprun/plugin.py",
    "mprun/programs",
    "mprun/report",
    "mprun/results.py",
    "mprun/runner.py",
    "mprun/schema",
    "mprun/scratch.py",
    "mprun/selftests",
    "mprun/settings.py",
    "mprun/shipped.py",
    "mprun/statement",
    "mprun/sweep",
    "mprun/table.py",
    "mprun/text.py",
    "mprun/tools",
    "mprun/topologies",
    "mprun/version.py",
    "schemas",
    "tests",
)


@pytest.mark.parametrize("part", CHECKED)
def test_language_is_plain(part: str) -> None:
    assert not [str(fault) for fault in language.faults_of(language.files_below(ROOT / part))]


PAGE = """\
# A heading

{sentence}

```console
$ mprun mends nothing here
```
"""


@pytest.mark.parametrize(
    ("sentence", "kinds"),
    [
        ("The run goes on.", {"idiom"}),
        (" ".join(["word"] * 41) + ".", {"long", "mean", "columns"}),
        (" ".join(["word"] * 19) + ".", {"mean"}),
        ("The cause is named. The run ends with `status 3, and so many words`.", set()),
    ],
)
def test_faults_of_pages_are_found(sentence: str, kinds: set[str], tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE.format(sentence=sentence))
    found = {fault.kind for fault in language.faults_of_page(page)}
    assert found == kinds


@pytest.mark.parametrize(
    ("docstring", "kinds"),
    [
        ("What it returns.", {"opening"}),
        ("Whether it is there.", {"opening"}),
        ("Return the answer anew.", {"idiom"}),
        ("Return the answer.\n\n    " + " ".join(["word"] * 41) + ".\n    ", {"long"}),
        ("Whatever comes is returned.", set()),
    ],
)
def test_faults_of_docstrings_are_found(docstring: str, kinds: set[str], tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(f'"""A module."""\n\n\ndef one() -> None:\n    """{docstring}"""\n')
    assert {fault.kind for fault in language.faults_of_module(module)} == kinds


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        # the help of --retries, as it once was
        ("How often a run that ends with an error.", {"help"}),
        ("", {"help"}),
        ("  [default: 95%]", {"help"}),
        ("print the plan as JSON.", {"help"}),
        ("Print the plan as JSON", {"help"}),
        ("Captures that stay.", {"help"}),
        ("Print the answer anew.", {"idiom"}),
        ("Print " + " ".join(["word"] * 40) + ".", {"long"}),
        ("Print the plan.\n\nThe plan is the same everywhere", {"help"}),
        ("Set the level.  [default: 95%]", set()),
        ("Also print the plan.\n\n\b\nbash  in ~/.bashrc", set()),
    ],
)
def test_faults_of_help_are_found(text: str, kinds: set[str]) -> None:
    assert {fault.kind for fault in language.faults_of_help([("mprun plan --json", text)])} == kinds


def test_the_help_of_all_commands_and_options_is_checked() -> None:
    texts = dict(language.help_texts())
    assert {"mprun", "mprun run", "mprun runs rm", "mprun runs rm --yes", "mprun sweep --retries"} <= texts.keys()
    assert texts["mprun sweep --retries"] == "Repeat a run that ends with an error up to N times."
    assert ROOT / "mprun" / "cli" / "__init__.py" in language.files_below(ROOT / "mprun" / "cli")


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("Whether it is there.", {"opening"}),
        ("The answer, anew.", {"idiom"}),
        ("The " + " ".join(["word"] * 40) + ".", {"long"}),
        ("the rate.", {"help"}),
        ("The rate", {"help"}),
        ("The rate. Default: `1mbit`.", set()),
    ],
)
def test_faults_of_schemas_are_found(text: str, kinds: set[str], tmp_path: Path) -> None:
    # a key may be called description, which is none
    schema = {"properties": {"description": {"anyOf": [{"type": "string", "description": text}]}}}
    path = tmp_path / "some.schema.json"
    path.write_text(json.dumps(schema))
    assert {fault.kind for fault in language.faults_of([path])} == kinds


def test_modules_that_docstrings_name_exist() -> None:
    """A docstring names modules and their parts as in `mprun.report.chart` and `mprun.report.chart.paint`."""
    named = [
        (path, name)
        for path in (ROOT / "mprun").rglob("*.py")
        for name in re.findall(r"`(mprun(?:\.\w+)+)`", path.read_text())
    ]
    assert len(named) > 20
    assert [(str(path), name) for path, name in named if not _exists(name)] == []


def _exists(name: str) -> bool:
    # a part of a class is not looked for
    path = ROOT / re.sub(r"(\.[A-Z]\w*)\..*", r"\1", name).replace(".", "/")
    if path.is_dir() or path.with_suffix(".py").is_file() or name == "mprun.load":
        return True
    owner, own = path.parent, path.name
    for file in (owner.with_suffix(".py"), owner / "__init__.py"):
        if file.is_file() and re.search(rf"^(?:def |class )?{own}\b", file.read_text(), re.MULTILINE):
            return True
    return False


def test_a_module_that_does_not_exist_is_found() -> None:
    assert _exists("mprun.report.chart.paint")
    assert not _exists("mprun.report.series")
    assert not _exists("mprun.report.chart.colour_in")
