# SPDX-License-Identifier: Apache-2.0
"""Map this process's memory at once instead of page by page while it grows (mlockall(2)).

The first access to a page is expensive in the experiment kernel, and a large plan has tens of thousands of pages.
Python's garbage collector waits until afterwards, because there is no garbage yet.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from mprun.agent.namespace import call

MCL_FUTURE = 2


@contextmanager
def taken_at_once(is_simulated: bool) -> Iterator[None]:
    """Map new memory of this process at once during the block. Raises OSError.

    Outside the experiment kernel this changes nothing: page faults are cheap there, and locked memory is limited.
    """
    gc.disable()
    if is_simulated:
        call("mlockall", MCL_FUTURE)
    try:
        yield
    finally:
        if is_simulated:
            call("munlockall")
        gc.freeze()
        gc.enable()
