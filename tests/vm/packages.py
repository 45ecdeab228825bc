# SPDX-License-Identifier: Apache-2.0
"""Download packages of a release with apt. Its lists and settings are in a separate directory."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

from tests.vm.release import Archive


def download(archive: Archive, patterns: Iterable[str], folder: Path) -> list[Path]:
    """Download the newest package that fully matches each pattern. Return the files."""
    apt = _prepare(archive, folder / "apt")
    _run(["apt-get", *apt, "-q", "update"], folder)
    known = _run(["apt-cache", *apt, "pkgnames"], folder).split()
    names = [newest(pattern, known) for pattern in patterns]
    _run(["apt-get", *apt, "-q", "download", *names], folder)
    return sorted(folder.glob("*.deb"))


def newest(pattern: str, names: Iterable[str]) -> str:
    """Return the matching name with the highest numbers. Raises LookupError."""
    found = [name for name in names if re.fullmatch(pattern, name)]
    if not found:
        raise LookupError(f"the archive has no package {pattern}")
    return max(found, key=lambda name: [int(number) for number in re.findall(r"\d+", name)])


def _prepare(archive: Archive, folder: Path) -> list[str]:
    """Return the options that limit apt to `folder` and to one archive."""
    for name in ("state/lists/partial", "cache/archives/partial", "etc"):
        (folder / name).mkdir(parents=True)
    (folder / "etc" / "sources.list").write_text("\n".join([*archive.lines, ""]))
    (folder / "status").touch()
    settings = {
        "Dir::Etc::sourcelist": folder / "etc" / "sources.list",
        "Dir::Etc::sourceparts": "-",
        "Dir::State": folder / "state",
        "Dir::State::status": folder / "status",
        "Dir::Cache": folder / "cache",
        "APT::Architecture": archive.architecture.debian,
        "APT::Architectures": archive.architecture.debian,
        "APT::Sandbox::User": "root",
        "Acquire::Languages": "none",
    }
    return [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]


def _run(argv: list[str], folder: Path) -> str:
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{argv[0]} failed: {done.stderr.strip()[-1000:]}")
    return done.stdout
