# SPDX-License-Identifier: Apache-2.0
"""No archive of a kernel from a stranger is taken, and none of its programs runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mprun.bundles.archive import write_archive
from mprun.bundles.installation import digest_of
from tests.hostile import call, kernels

# These cases take seconds to make. `make hostile` tries them.
LARGE = ("a bomb, digest given", "a bomb without its digest", "a bomb of many members")


@pytest.mark.parametrize("case", [case for case in kernels.CASES if case not in LARGE])
def test_a_poisoned_archive_is_refused(case: str, tmp_path: Path) -> None:
    found = kernels.attempt(case, tmp_path)
    assert found.harm == ""
    assert found.cpu_s < 5


@pytest.mark.slow
@pytest.mark.parametrize("case", LARGE)
def test_a_bomb_is_refused(case: str, tmp_path: Path) -> None:
    found = kernels.attempt(case, tmp_path)
    assert found.harm == ""
    assert found.cpu_s < 5


def test_the_archive_that_is_poisoned_would_be_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a change and with its digest, the archive of the cases is valid, so each refusal has its own reason."""
    archive = tmp_path / kernels.NAME
    kernels.write_valid(archive, tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    called = call("kernel", "import", str(archive), "--trust", digest_of(archive))
    assert (called.status, called.error) == (0, None)
    # an import runs nothing
    assert not (tmp_path / "it_ran").exists()
    assert os.access(tmp_path / "cache" / "mprun" / "kernels" / "default" / "linux", os.X_OK)


def test_an_archive_without_a_kernel_is_named(tmp_path: Path) -> None:
    archive = tmp_path / "bundle.zip"
    write_archive(archive, {"plan.json": b"{}"})
    called = call("kernel", "import", str(archive), "--trust", digest_of(archive))
    assert str(called.error) == f"{archive} is no archive of a kernel: `mprun kernel export` writes one"
