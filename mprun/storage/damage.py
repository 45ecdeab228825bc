# SPDX-License-Identifier: Apache-2.0
"""The error for a file of a run or a sweep that is damaged."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator
from pathlib import Path

from mprun.errors import MprunError
from mprun.safety.text import plain

# What a reader ends in whose file is damaged.
DAMAGE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError, struct.error)


def damaged(
    path: Path, reason: str, mend: str = "run it again, or take the directory from where it came"
) -> MprunError:
    """Return the error for a file that is damaged. Its last part, `mend`, is the remedy for the user."""
    return MprunError(f"{path}: damaged: {reason.splitlines()[0] if reason else 'not whole'}: {mend}")


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn an error that a damaged file causes in its reader into an MprunError that names the file."""
    try:
        yield
    except DAMAGE as error:
        raise damaged(path, name_error(error)) from error


def name_error(error: Exception) -> str:
    """Return an error that a damaged file may have caused in its reader, for a message."""
    return plain(f"{type(error).__name__}: {error}")[:200]
