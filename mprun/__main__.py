# SPDX-License-Identifier: Apache-2.0
"""The entry point of `python -m mprun` and of the command `mprun`."""

import signal

# Until the command line handles Ctrl-C, it ends Python without a traceback, since nothing has begun.
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from mprun.cli import main

if __name__ == "__main__":
    main()
