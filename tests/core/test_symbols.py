# SPDX-License-Identifier: Apache-2.0
"""The symbols of a kernel belong to its code, or are refused."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from mprun.errors import MachineError, RunError
from mprun.kernel.store import SYMBOLS, Kernel
from mprun.kernel.symbols import find_symbols, has_symbols, keep_symbols

PROGRAM = "int main(void) { return %d; }\n"


def build(path: Path, status: int, *flags: str) -> None:
    """Build a program as a kernel is built: with a build ID, which differs with the flags."""
    argv = ["gcc", "-O2", "-Wl,--build-id", *flags, "-x", "c", "-", "-o", str(path)]
    subprocess.run(argv, input=PROGRAM % status, text=True, check=True)


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    """Return a kernel without symbols."""
    folder = tmp_path / "store" / "it"
    folder.mkdir(parents=True)
    build(folder / "linux", 1, "-s")
    return Kernel("mine", str(folder / "linux"), "6.12", "0" * 64, "TREE", 1, "gcc", 1.0)


def test_symbols_of_the_same_code_are_kept(kernel: Kernel, tmp_path: Path) -> None:
    assert not has_symbols(kernel.directory)
    with pytest.raises(MachineError, match=r"run `mprun kernel build --symbols --source TREE --name mine`$"):
        find_symbols(kernel)
    before = Path(kernel.path).read_bytes()
    build(tmp_path / "built", 1, "-g")
    keep_symbols(tmp_path / "built", kernel.directory, tmp_path)
    assert find_symbols(kernel) == kernel.directory / SYMBOLS
    listed = subprocess.run(["nm", str(find_symbols(kernel))], capture_output=True, text=True, check=True).stdout
    assert " T main\n" in listed
    assert Path(kernel.path).read_bytes() == before
    find_symbols(kernel).chmod(0o666)
    with pytest.raises(MachineError, match="can be written by every user: remove "):
        find_symbols(kernel)


def test_symbols_of_other_code_are_refused(kernel: Kernel, tmp_path: Path) -> None:
    build(tmp_path / "built", 2, "-g")
    with pytest.raises(RunError, match="the build with symbols gave other code than the kernel has"):
        keep_symbols(tmp_path / "built", kernel.directory, tmp_path)
    assert not has_symbols(kernel.directory)
