# SPDX-License-Identifier: Apache-2.0
"""The errors that a user can meet. Anything else that escapes is a fault of mprun itself."""

from __future__ import annotations

from collections.abc import Sequence


class MprunError(Exception):
    """A failure that mprun can explain; `exit_code` is that of the command line."""

    exit_code = 1


class SpecError(MprunError):
    """The input is wrong; carries every fault found, one line each."""

    exit_code = 2

    def __init__(self, faults: str | Sequence[str]) -> None:
        self.faults = (faults,) if isinstance(faults, str) else tuple(faults)
        super().__init__("\n".join(self.faults))


class HostError(MprunError):
    """This machine cannot do it; the message says what is missing and what mends it."""

    exit_code = 3


class RunError(MprunError):
    """A step of the run failed."""


class Interrupted(MprunError):
    """The user ended the run."""

    exit_code = 130
