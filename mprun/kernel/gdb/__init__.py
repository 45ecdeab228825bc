# SPDX-License-Identifier: Apache-2.0
"""The part of `mprun debug` that runs inside gdb: stop the experiment kernel at a time, and show what it contains.

gdb imports this package with its own Python, so it uses the standard library and gdb's module only. `start` reads the
facts that `mprun.engines.debugger` has written, and adds the commands mp-time, mp-hosts, mp-subflows and mp-skb.
"""
