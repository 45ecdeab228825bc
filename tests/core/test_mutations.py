# SPDX-License-Identifier: Apache-2.0
"""The errors that `make mutations` puts into a copy of the tree fit the code, and leave the store of runs as it is."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.mutations import _FAILED, MUTATIONS, ROOT, put
from tests.stored_runs import PACKAGE, _code


@pytest.mark.parametrize("name", MUTATIONS)
def test_an_error_fits_the_code(name: str, tmp_path: Path) -> None:
    mutation = MUTATIONS[name]
    path = tmp_path / mutation.file
    path.parent.mkdir(parents=True)
    shutil.copy(ROOT / mutation.file, path)
    put(mutation, tmp_path)
    compile(path.read_text(), mutation.file, "exec")
    assert path.read_text() != (ROOT / mutation.file).read_text()
    with pytest.raises(ValueError, match="occurs 0 times instead of once"):
        put(mutation, tmp_path)


def test_no_error_is_in_code_that_carries_out_plans() -> None:
    """Else the tests of the copy would take no run from the store."""
    assert not {ROOT / mutation.file for mutation in MUTATIONS.values()} & set(_code(PACKAGE))


def test_tests_that_fail_are_read_from_the_summary() -> None:
    summary = "FAILED tests/a.py::test_b[-t topo -x xp-1 s] - assert 1 == 2\nERROR tests/c.py\nPASSED tests/d.py::e\n"
    assert _FAILED.findall(summary) == ["tests/a.py::test_b[-t topo -x xp-1 s]", "tests/c.py"]
