# SPDX-License-Identifier: Apache-2.0
"""Rights that the command line gives to the files that a user names. A file never gives them."""

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
