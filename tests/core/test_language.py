# SPDX-License-Identifier: Apache-2.0
"""The language of pages, docstrings, help and schemas is plain: `tests/language.py` finds no fault."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from mprun.inputs.generator import COLLECTION as GENERATORS
from mprun.workloads.tool import COLLECTION as WORKLOADS
from tests import language
from tests.pages import ROOT

# All texts that a person reads.
CHECKED = (
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "README.md",
    "SECURITY.md",
    "CODE_OF_CONDUCT.md",
    "benchmarks",
    "docs",
    "labs",
    "mprun",
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
    """A docstring names modules and their parts as in `mprun.reports.chart` and `mprun.reports.chart.paint`."""
    named = [
        (path, name)
        for path in (ROOT / "mprun").rglob("*.py")
        for name in re.findall(r"`(mprun(?:\.\w+)+)`", path.read_text())
    ]
    assert len(named) > 20
    assert [(str(path), name) for path, name in named if not _exists(name)] == []


# What Python programs import, and the groups of entry points for packages of others.
PUBLIC = ("mprun.load", "mprun.run", GENERATORS.group, WORKLOADS.group)


def _exists(name: str) -> bool:
    # a part of a class is not looked for
    path = ROOT / re.sub(r"(\.[A-Z]\w*)\..*", r"\1", name).replace(".", "/")
    if path.is_dir() or path.with_suffix(".py").is_file() or name in PUBLIC:
        return True
    owner, own = path.parent, path.name
    for file in (owner.with_suffix(".py"), owner / "__init__.py"):
        if file.is_file() and re.search(rf"^(?:def |class )?{own}\b", file.read_text(), re.MULTILINE):
            return True
    return False


def test_a_module_that_does_not_exist_is_found() -> None:
    assert _exists("mprun.reports.chart.paint")
    assert not _exists("mprun.reports.series")
    assert not _exists("mprun.reports.chart.colour_in")
