# SPDX-License-Identifier: Apache-2.0
"""The language of pages and docstrings is plain: `tests/language.py` finds no fault, and would find one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import language
from tests.pages import ROOT

# Parts whose language has been checked. The list grows until it is the whole repository.
CHECKED = (
    "CHANGELOG.md",
    "README.md",
    "SECURITY.md",
    "benchmarks",
    "docs/addressing.md",
    "docs/bundles.md",
    "docs/captures.md",
    "docs/cluster.md",
    "docs/comparison.md",
    "docs/concepts.md",
    "docs/editors.md",
    "docs/fairness.md",
    "docs/fidelity.md",
    "docs/files.md",
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
    "mprun/agent",
    "mprun/bundle",
    "mprun/kernel",
    "mprun/lab",
    "mprun/programs",
    "mprun/report",
    "mprun/selftests",
    "mprun/sweep",
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
