# SPDX-License-Identifier: Apache-2.0
"""`python -m mprun`, and the command `mprun`."""

import signal

# Until the command line listens, Ctrl-C ends Python without a word: nothing has begun, and its traceback helps nobody.
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from mprun.cli import main

if __name__ == "__main__":
    main()
