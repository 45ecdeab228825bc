# SPDX-License-Identifier: Apache-2.0
"""Run a command as process 2 of an experiment kernel, and keep trace events: traced.py EVENTS COMMAND [ARGUMENT...].

Only process 2 can reach the events (`kernel/src/mprun_seal.c`). Afterwards, the file `trace.txt` has the events in the
kernel's own words, with times from its boot. If the kernel has no such event, the command does not run.
"""

import ctypes
import subprocess
import sys
from pathlib import Path

TRACING = Path("/sys/kernel/tracing")
OUTPUT = Path("/run/mprun/run")
# The oldest events are overwritten when the kernel's buffer is full.
BUFFER_KIB = 32 << 10
# Exit status of a test that cannot run (tools/testing/selftests/kselftest.h).
SKIP_STATUS = 4


def prepare(events: list[str]) -> None:
    """Switch events on. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"tracefs", bytes(TRACING), b"tracefs", 0, None) != 0:
        raise OSError(ctypes.get_errno(), "this kernel has no trace events")
    (TRACING / "buffer_size_kb").write_text(str(BUFFER_KIB))
    (TRACING / "trace_clock").write_text("mono")
    for event in events:
        # a file that is truncated when it is opened would switch all events off
        with (TRACING / "set_event").open("r+") as file:
            file.write(event)


def main() -> None:
    events = sys.argv[1].split()
    try:
        prepare(events)
    except OSError as error:
        print(f"trace events {' '.join(events)}: {error.strerror}: --tracepoint needs names of this kernel's events")
        (OUTPUT / "end").write_text(f"{SKIP_STATUS} 0\n")
        return
    subprocess.call(sys.argv[2:])
    (TRACING / "tracing_on").write_text("0")
    (OUTPUT / "trace.txt").write_bytes((TRACING / "trace").read_bytes())


main()
