# SPDX-License-Identifier: Apache-2.0
"""The log of the experiment kernel, as it is at the end of a run (printk, /dev/kmsg).

Only the experiment kernel is read. The log of a host's own kernel contains what other users do.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable

from mprun.agent import kernel_file, namespace

# The device that an experiment kernel has and no other kernel (`kernel/src/mprun_seal.c`).
OURS = "/proc/mprun_seal"
DEVICE = "/dev/kmsg"
# The last message, of level debug, which the console does not show.
END = b"<15>mprun: end of the run\n"
_NUMBER = (1, 11)
# kmemleak (Documentation/dev-tools/kmemleak.rst), which a kernel of the debug profile has. A scan reports objects that
# are older than 5 s, and that have not changed since the scan before.
_VERBOSE, _DEBUGFS = "/sys/module/kmemleak/parameters/verbose", "/sys/kernel/debug"
_LEAK_AGE_NS = 6_000_000_000
# A record has 1 KiB of text at most; with its escapes and its fields it is longer (CONSOLE_EXT_LOG_MAX).
_MOST_RECORD_BYTES = 1 << 14


def read() -> bytes:
    """Return the records of the experiment kernel's log, one after the other; empty for another kernel.

    The form of a record is that of Documentation/ABI/testing/dev-kmsg. The folder of the boot files has a new name in
    each run, so it is left out of the paths that the kernel quotes.
    """
    if not os.path.exists(OURS):
        return b""
    if os.path.lexists(DEVICE):
        # a program of the run may have put a file there
        os.unlink(DEVICE)
    os.mknod(DEVICE, stat.S_IFCHR | 0o600, os.makedev(*_NUMBER))
    log = os.open(DEVICE, os.O_RDWR | os.O_NONBLOCK)
    records = []
    try:
        # a message without a line break can only be read when another message follows
        os.write(log, END)
        while True:
            try:
                records.append(os.read(log, _MOST_RECORD_BYTES))
            except BlockingIOError:
                break
            except BrokenPipeError:
                # records were overwritten meanwhile; the next call continues with the oldest one left
                continue
    finally:
        os.close(log)
    return _without_folder(b"".join(records))


def find_leaks(sleep: Callable[[int], None]) -> None:
    """Let a kernel with kmemleak search for memory that nothing points to, and describe it in its log.

    sleep: lets a time in ns pass.
    """
    if not (os.path.exists(OURS) and os.path.exists(_VERBOSE)):
        return
    kernel_file.write(_VERBOSE, "Y")
    namespace.call("mount", b"debugfs", _DEBUGFS.encode(), b"debugfs", 0, None)
    try:
        kernel_file.write(f"{_DEBUGFS}/kmemleak", "scan")
        sleep(_LEAK_AGE_NS)
        kernel_file.write(f"{_DEBUGFS}/kmemleak", "scan")
    finally:
        namespace.call("umount2", _DEBUGFS.encode(), namespace.MNT_DETACH)


def _without_folder(records: bytes) -> bytes:
    with open("/proc/cmdline", "rb") as file:
        found = re.search(rb"uml_dir=(\S+?)/?(?:\s|$)", file.read())
    return re.sub(b"/*" + re.escape(found[1]) + b"/", b"", records) if found else records
