# SPDX-License-Identifier: Apache-2.0
"""Rights that the command line gives to the files that a user names, and to their commands. A file never gives them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Permissions:
    """python: the topology may be a Python program, which is run on this machine.

    outside: files may name others outside the folder of the file that the user named.
    """

    python: bool = False
    outside: bool = False


NONE = Permissions()


@dataclass(frozen=True)
class Consent:
    """What the user wants of commands that a file brings (`tool: exec`).

    commands: they run. unconfined: also where this machine cannot keep them from the user's files. as_root: also with
    root's user id on the kernel of this machine (the real engine, as root).
    """

    commands: bool = False
    unconfined: bool = False
    as_root: bool = False


NO_COMMANDS = Consent()
