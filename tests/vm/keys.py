# SPDX-License-Identifier: Apache-2.0
"""The keys of an archive that this machine does not know. Debian 13 has a package with the keys of Ubuntu."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tests.vm import store
from tests.vm.packages import download
from tests.vm.release import RELEASES, Archive

PACKAGE = "ubuntu-keyring"


def with_keys(archive: Archive, say: Callable[[str], None]) -> Archive:
    """Return the archive with a keyring that exists."""
    if Path(archive.keys).exists():
        return archive
    return replace(archive, keys=f"{store.keep(PACKAGE, _unpack, say)}{archive.keys}")


def _unpack(folder: Path) -> None:
    (folder / "packages").mkdir()
    for package in download(RELEASES["6.12"].system, [PACKAGE], folder / "packages"):
        subprocess.run(["dpkg", "-x", package, folder], check=True)
