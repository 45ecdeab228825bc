# SPDX-License-Identifier: Apache-2.0
"""Bad input: each directory of golden/faults has a topology, an experiment and the exact error.

`arguments` holds further arguments of the command line, one per line.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from mprun.cli.validate import command
from mprun.errors import SpecError

FAULTS = Path(__file__).parent.parent / "golden" / "faults"
CASES = sorted(path.name for path in FAULTS.iterdir())


def _arguments(case: Path) -> list[str]:
    given = (case / "arguments").read_text().split("\n")[:-1] if (case / "arguments").exists() else []
    arguments = [] if "-t" in given else ["-t", "topo"]
    if "-x" not in given and any((case / name).exists() for name in ("xp", "xp.yaml")):
        arguments += ["-x", "xp"]
    return arguments + given


@pytest.mark.parametrize("name", CASES)
def test_fault(name: str, update_golden: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    case = FAULTS / name
    before = sorted(case.rglob("*"))
    monkeypatch.chdir(case)
    with pytest.raises(SpecError) as error:
        command.main(_arguments(case), standalone_mode=False)
    text = f"{error.value}\n"
    if update_golden:
        (case / "error.txt").write_text(text)
    assert text == (case / "error.txt").read_text()
    assert error.value.exit_code == 2
    assert sorted(case.rglob("*")) == before or update_golden


def test_case_without_value(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SpecError, match="-p cc: write -p cc=VALUE"):
        command.main(["-t", "topo", "-p", "cc"], standalone_mode=False)
