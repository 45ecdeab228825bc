# SPDX-License-Identifier: Apache-2.0
"""Memory of this process while it grows: all of it at once instead of page by page (mlockall(2)).

A page that is touched for the first time costs a stop and a go in the experiment kernel, and a large plan
has tens of thousands. Python's search for rubbish, of which there is none yet, waits until after.
"""

from __future__ import annotations

import ctypes
import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager

MCL_FUTURE = 2

_libc = ctypes.CDLL(None, use_errno=True)


@contextmanager
def taken_at_once(is_simulated: bool) -> Iterator[None]:
    """What is allotted meanwhile is there when it is asked for, in the experiment kernel; elsewhere faults are cheap,
    and locked memory is limited. Raises OSError."""
    gc.disable()
    if is_simulated and _libc.mlockall(MCL_FUTURE):
        raise OSError(ctypes.get_errno(), f"mlockall: {os.strerror(ctypes.get_errno())}")
    try:
        yield
    finally:
        if is_simulated:
            _libc.munlockall()
        gc.freeze()
        gc.enable()
