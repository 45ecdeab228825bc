# SPDX-License-Identifier: Apache-2.0
"""The file tree that programs of a run find: the contract between plans, engines and the agent.

Names are the same in each engine and for each run, so that the places of directories on a machine enter no result.
"""

from __future__ import annotations

ROOT = "/run/mprun"
# The run directory. Programs start in it.
RUN = f"{ROOT}/run"
# The Python packages of mprun and of Mininet.
LIBRARY = f"{ROOT}/lib"
# The programs of ours that plans start as files (`mprun.guest`).
PROGRAMS = f"{LIBRARY}/mprun/guest"
# A folder that is removed with the run.
TEMPORARY = f"{ROOT}/tmp"
# The programs that `mprun tools install` has built, a folder for each.
TOOLS = f"{ROOT}/tools"
# The files of the experiment kernel; the virtual engine only.
KERNEL = f"{ROOT}/kernel"
BULK_LIBRARY = f"{KERNEL}/bulk.so"
# The two sides of the channel between mprun and the agent; the real engine only.
REPORTS, ORDERS = f"{ROOT}/reports", f"{ROOT}/orders"
