# SPDX-License-Identifier: Apache-2.0
"""The symbols of an experiment kernel, for gdb: a file beside the kernel.

The compiler's option -g adds descriptions and does not change the code. So the symbols come from a second build. Its
code and data must be those of the kernel, byte for byte, apart from build IDs. The kernel, its digest and its runs stay
as they are.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from mprun.errors import MachineError, RunError
from mprun.kernel.make import run
from mprun.kernel.store import ADDED, DEFAULT_NAME, SYMBOLS, Kernel
from mprun.machine import invoking_user
from mprun.safety import unchanged_program

# What make(1) adds to each call of the compiler.
FLAGS = ("KCFLAGS=-g",)
# A build ID: the note with a digest of a linked file, descriptions included (elf(5)). A kernel has its own and that of
# the vDSO, which programs do not read.
_BUILD_ID = re.compile(rb"(?<=\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0).{20}", re.DOTALL)


def has_symbols(folder: Path) -> bool:
    """Return whether the kernel in a folder of the store has symbols."""
    return (folder / SYMBOLS).is_file()


def find_symbols(kernel: Kernel) -> Path:
    """Return the file with the symbols of a kernel.

    Raises MachineError, with the command that makes it, if it does not exist or if another user could replace it.
    """
    path = kernel.directory / SYMBOLS
    command = "mprun kernel build --symbols"
    if kernel.name != DEFAULT_NAME:
        command += f" --source {kernel.source} --name {kernel.name}"
    if not path.is_file():
        more = ", with the options and files of its first build" if (kernel.directory / ADDED).exists() else ""
        raise MachineError(f"kernel '{kernel.name}' has no symbols, which gdb needs: run `{command}`{more}")
    if strange := unchanged_program.find_stranger(kernel.directory, (SYMBOLS,), (0, invoking_user.user())):
        raise MachineError(f"{strange}: remove {path} and run `{command}`")
    return path


def keep_symbols(built: Path, folder: Path, work: Path) -> None:
    """Keep the symbols of a build beside its kernel.

    - built: the kernel with symbols, as make(1) left it.
    - folder: the kernel's folder in the store.
    - work: a folder for intermediate files, on the same file system.

    Raises RunError if the code or the data of the kernel differ.
    """
    if _read_code(built, work / "built.code") != _read_code(folder / "linux", work / "kept.code"):
        raise RunError(
            "the build with symbols gave other code than the kernel has, so its symbols do not fit: the compiler or "
            "the linker may have changed. Remove the kernel (`mprun kernel rm`) and build it again"
        )
    partial = work / SYMBOLS
    # the whole file, because gdb needs the code's tables of stack frames (.eh_frame) too
    shutil.copyfile(built, partial)
    partial.chmod(0o644)
    os.replace(partial, folder / SYMBOLS)


def _read_code(program: Path, stripped: Path) -> bytes:
    """Return a program without symbols and without its build IDs. stripped: a path for an intermediate file."""
    run(["objcopy", "--strip-all", str(program), str(stripped)])
    return _BUILD_ID.sub(bytes(20), stripped.read_bytes())
