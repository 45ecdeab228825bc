# SPDX-License-Identifier: Apache-2.0
"""A store below the cache, with each content under the digest of its sources. Each is built only once."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from mprun.machine import cache
from mprun.machine.scratch import scratch


def keep(name: str, make: Callable[[Path], None], say: Callable[[str], None]) -> Path:
    """Return the folder of this name in the cache. If it does not exist, `make` fills it.

    An unfinished folder is not kept.
    """
    base = cache.cache("vm")
    if (base / name).exists():
        return base / name
    with cache.locked(base, lambda: say("waiting for another `make vm`")):
        if (base / name).exists():
            return base / name
        say(f"making {name}")
        began = time.monotonic()
        with scratch("building-", base) as folder:
            (folder / "made").mkdir(mode=0o755)
            make(folder / "made")
            os.rename(folder / "made", base / name)
        say(f"made {name} in {time.monotonic() - began:.0f} s")
    return base / name
