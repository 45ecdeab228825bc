# SPDX-License-Identifier: Apache-2.0
"""The file tree that programs of a run find: the contract between plans, engines and the agent.

The paths are the same in each engine and for each run. So paths of this machine do not enter a result.
"""

from __future__ import annotations

ROOT = "/run/mprun"
# The run directory. Programs start in it.
RUN = f"{ROOT}/run"
# The Python packages of mprun and of Mininet.
LIBRARY = f"{ROOT}/lib"
# mprun's own programs that plans start as files (`mprun.agent.programs`).
PROGRAMS = f"{LIBRARY}/mprun/agent/programs"
# A folder that is removed with the run.
TEMPORARY = f"{ROOT}/tmp"
# The folders of the files that entries take with them (`files` of `exec`).
INPUTS = f"{ROOT}/inputs"
# The programs that `mprun tools install` has built, in a folder for each.
TOOLS = f"{ROOT}/tools"
# The files of the experiment kernel; the virtual engine only.
KERNEL = f"{ROOT}/kernel"
BULK_LIBRARY = f"{KERNEL}/bulk.so"
# The names of libraries, which ld.so(8) reads. The virtual engine gives the agent a copy among the orders.
LIBRARY_NAMES = "/etc/ld.so.cache"
# The word of the agent's report while it waits for a line of the user, and its output of the last line, below RUN.
HELD, PROMPT_OUTPUT = "held", "logs/prompt.out"
# The counters of a kernel that counts executed lines, below RUN, until they are a table.
LINE_COUNTS = "coverage.counts"
# The two folders of the channel between mprun and the agent; the real engine only.
REPORTS, ORDERS = f"{ROOT}/reports", f"{ROOT}/orders"
