# SPDX-License-Identifier: Apache-2.0
"""`python -m mprun`."""

from mprun.cli import main

main()
