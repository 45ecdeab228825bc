# SPDX-License-Identifier: Apache-2.0
"""No repository of a stranger starts a program, leads outside, or takes much time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hostile import programs

# These cases take seconds to make or to refuse. `make hostile` tries them.
LARGE = ("a tree of 10^10 files", "a file of 1 GB")


@pytest.mark.parametrize("verb", programs.VERBS)
@pytest.mark.parametrize("case", [case for case in programs.REPOSITORIES if case not in LARGE])
def test_a_repository_starts_no_program(case: str, verb: str, tmp_path: Path) -> None:
    """Before, a program for signatures and one for missing objects ran on the host."""
    found = programs.attempt(case, verb, tmp_path)
    assert found.harm == ""
    assert found.cpu_s < 5


@pytest.mark.parametrize("name", programs.NAMES)
def test_a_name_of_a_run_is_no_option_of_wireshark(name: str, tmp_path: Path) -> None:
    assert programs.attempt_wireshark(name, tmp_path).harm == ""


@pytest.mark.parametrize("case", programs.BASELINES)
def test_a_baseline_of_a_stranger(case: str, tmp_path: Path) -> None:
    """Before, a pipe or a device was read without end, and a line of a file behind a link was printed."""
    assert programs.attempt_baseline(case, tmp_path).harm == ""
