# SPDX-License-Identifier: Apache-2.0
"""The entry point of `python -m mprun` and of the command `mprun`."""

import atexit
import gc
import os
import resource
import signal
import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    # with `python -m`, Python looks for modules in the current folder first, where a file may be called `statistics.py`
    sys.path.pop(0)

# The exit status of the command line, once it has one.
_status: list[int] = []


@atexit.register
def _leave() -> None:
    """End the process after the other functions of `atexit`, which are called in the reverse order.

    Otherwise Python would take all modules apart, for a seventh of the CPU time of a short run and a quarter of that of
    `validate`.
    """
    if _status:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except (OSError, ValueError):
            # Python reports it
            return
        os._exit(_status[0])


# Until the command line handles Ctrl-C, it ends Python without a traceback, since nothing has begun.
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

# With 80 kB, Python or a library may end with a segmentation fault. With 64 kB, Python does not get as far as here.
LEAST_STACK_BYTES = 256 << 10
if 0 <= (stack := resource.getrlimit(resource.RLIMIT_STACK)[0]) < LEAST_STACK_BYTES:
    print(
        f"the stack may have only {stack >> 10} kB, and mprun needs {LEAST_STACK_BYTES >> 10} kB: see `ulimit -s`",
        file=sys.stderr,
    )
    sys.exit(3)

# Nearly all objects of imports and of files stay, so the search for others finds nothing. By default, it takes 6 % of
# the time of a short run, and a quarter of the time to check 300 nodes.
gc.set_threshold(100_000)

try:
    from mprun import cli
except ModuleNotFoundError as error:
    # a package of .venv, if another Python was called
    if (error.name or "").partition(".")[0] == "mprun":
        raise
    sys.exit(
        f"mprun needs the package '{error.name}': in the checkout, run `make setup` and then `. .venv/bin/activate`"
    )


def main() -> None:
    """Run the command line."""
    try:
        cli.main()
        _status.append(0)
    except SystemExit as end:
        if isinstance(end.code, int):
            _status.append(end.code)
        raise


if __name__ == "__main__":
    main()
