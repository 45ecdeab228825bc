# SPDX-License-Identifier: Apache-2.0
"""Rights that the command line gives to the user's files and to their commands. A file never gives rights."""

from __future__ import annotations

from mprun.model.frozen import Frozen


class Permissions(Frozen):
    """The rights of files.

    `python`: the topology may be a Python program, which is run on this machine.
    `outside`: files may name files outside the folder of the user's file.
    """

    python: bool = False
    outside: bool = False


NONE = Permissions()


class Consent(Frozen):
    """The user's consent to run commands from a file (`tool: exec`).

    `commands`: they may run.
    `unconfined`: also if this machine cannot keep them from the user's files.
    `as_root`: also with root's user id on this machine's kernel (the real engine, as root).
    """

    commands: bool = False
    unconfined: bool = False
    as_root: bool = False


NO_COMMANDS = Consent()
