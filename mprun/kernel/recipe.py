# SPDX-License-Identifier: Apache-2.0
"""The recipe of an experiment kernel: its configuration, our hooks and our files, without the source of Linux."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from mprun.kernel.hooks import COLD, COLD_LINE, HOOKS, PLACES

HERE = Path(__file__).parent


SOURCES = HERE / "src"


GUEST = HERE / "guest"


FRAGMENT = HERE / "config.fragment"


def recipe_digest() -> str:
    """Return the SHA-256 of the kernel's recipe: configuration, hooks and our files, without its source."""
    options = "\n".join(asked_options())
    hooks = json.dumps([[asdict(hook) for hook in HOOKS], PLACES, sorted(COLD), COLD_LINE])
    return _digest({"options": options.encode(), "hooks": hooks.encode()} | contents_of(SOURCES, "*.[ch]"))


def guest_digest() -> str:
    """Return the SHA-256 of the sources of the programs that run beside the kernel. These programs build in no time."""
    return _digest(contents_of(GUEST, "*.c"))


def contents_of(folder: Path, pattern: str) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob(pattern))}


def _digest(parts: Mapping[str, bytes]) -> str:
    total = hashlib.sha256()
    for name, content in parts.items():
        total.update(f"{name} {len(content)}\n".encode() + content)
    return total.hexdigest()


def asked_options() -> list[str]:
    """Return the configuration's lines that set an option."""
    return [line for line in FRAGMENT.read_text().splitlines() if line.startswith("CONFIG_")]
