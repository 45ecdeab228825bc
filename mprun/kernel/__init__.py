# SPDX-License-Identifier: Apache-2.0
"""The experiment kernel: User-Mode Linux in time-travel mode, which the virtual engine boots.

- `recipe`, `patch`, `addition`: what a kernel is made of.
- `build`, `make`, `tree`, `symbols`: building it.
- `store`: finding and removing built kernels.
- `log`, `trace_event_format`, `line_coverage`: reading what it reports.
- `selftests`: the Linux kernel's own tests of MPTCP.
- `gdb`: commands of gdb for MPTCP and for stops.
"""
