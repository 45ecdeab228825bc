# SPDX-License-Identifier: Apache-2.0
"""The errors that a user can meet. Any other exception is a defect of mprun itself."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

# Errors of system calls whose cause is the machine, its limits or missing rights, and not mprun.
_OF_THE_MACHINE = {
    *(errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO),
    *(errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP),
    *(errno.EFBIG, errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM, errno.EMLINK),
}
# The command that shows the limit behind an error.
_LIMITS = {errno.EFBIG: "ulimit -f", errno.EMFILE: "ulimit -n", errno.EAGAIN: "ulimit -u", errno.ENOMEM: "ulimit -v"}
# The first line of an error of a compiler, a linker, make(1) or pip.
_OF_A_BUILD = re.compile(
    r"(^|: )(fatal )?error(\[\w+\])?:|undefined reference|\bld: cannot |make(\[\d+\])?: \*\*\*", re.IGNORECASE
)


class MprunError(Exception):
    """A failure that mprun can explain. exit_code: the exit status of the command line."""

    exit_code = 1


class SpecError(MprunError):
    """A failure of the input. problems: all problems that were found, one line each."""

    exit_code = 2

    def __init__(self, problems: str | Sequence[str]) -> None:
        self.problems = (problems,) if isinstance(problems, str) else tuple(problems)
        super().__init__("\n".join(self.problems))


class MachineError(MprunError):
    """A failure of this machine. The message names what is missing, and a remedy."""

    exit_code = 3


class RunError(MprunError):
    """A failure of a step of the run."""


class Interrupted(MprunError):
    """An end of the run by the user."""

    exit_code = 130


@contextmanager
def refusing(name: str, kind: type[Exception]) -> Iterator[None]:
    """Turn an error of a kind in the block into a SpecError. name: what the user gave it in, such as an option."""
    try:
        yield
    except kind as error:
        raise SpecError(f"{name}: {error}") from None


def show_failure(output: str, most: int = 15) -> str:
    """Return lines of the output of a failed build: from its first error on, as others often follow from it.

    most: the number of lines. Without an error, these are the last lines.
    """
    lines = output.strip("\n").splitlines()
    first = next((number for number, line in enumerate(lines) if _OF_A_BUILD.search(line)), None)
    return "\n".join(lines[-most:] if first is None else lines[first : first + most])


def explain_machine(error: BaseException) -> str | None:
    """Return a message of one line if the machine caused the failure; else None.

    Such causes are a full disk, a limit, a missing right or a removed current folder.
    """
    if isinstance(error, MemoryError):
        return "not enough memory: see `ulimit -v`, and what else runs on this machine"
    if isinstance(error, RuntimeError) and "can't start new thread" in str(error):
        return "no further thread or process may start: see `ulimit -u`"
    if type(error).__module__ in ("pyo3_runtime", "polars.exceptions"):
        # the message contains a failed system call of Rust code
        found = re.search(r"(?:os error |Os \{ code: )([0-9]+)", str(error))
        error = OSError(int(found[1]), os.strerror(int(found[1]))) if found else error
    if isinstance(error, FileNotFoundError) and not _has_current_folder():
        return "the current folder was removed: change to another one, as in `cd ..`"
    if not isinstance(error, OSError) or error.errno not in _OF_THE_MACHINE:
        return None
    if error.errno in _LIMITS:
        what = f"{error.filename}: " if error.filename else ""
        return f"{what}{error.strerror}: a limit of this machine: see `{_LIMITS[error.errno]}`"
    return f"{error.filename or _tell_unnamed()}: {error.strerror}"


def _tell_unnamed() -> str:
    """Return what could not be written, if the error names no file. A pipe and a terminal are never full."""
    try:
        printed = os.fstat(1).st_mode
    except OSError:
        printed = 0
    if stat.S_ISFIFO(printed) or os.isatty(1):
        return f"a file here or in the folder for temporary files ({os.environ.get('TMPDIR', '/tmp')}, set by TMPDIR)"
    return "what is printed cannot be written"


def _has_current_folder() -> bool:
    """Return False if the current folder was removed. Its `.` still exists then."""
    try:
        return bool(os.getcwd())
    except FileNotFoundError:
        return False
