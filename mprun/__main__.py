# SPDX-License-Identifier: Apache-2.0
"""The entry point of `python -m mprun` and of the command `mprun`."""

import signal
import sys

# Until the command line handles Ctrl-C, it ends Python without a traceback, since nothing has begun.
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

try:
    from mprun.cli import main
except ModuleNotFoundError as error:
    # a package of .venv, if another Python was called
    if (error.name or "").partition(".")[0] == "mprun":
        raise
    sys.exit(
        f"mprun needs the package '{error.name}': in the checkout, run `make setup` and then `. .venv/bin/activate`"
    )

if __name__ == "__main__":
    main()
