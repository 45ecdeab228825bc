# SPDX-License-Identifier: Apache-2.0
"""The index of a folder of runs: status, parameters and metrics of all its runs and sweeps.

- `listed`: finds and reads the directories.
- `database`: the SQLite file in the user's cache that keeps what was read.
- `selection`: conditions, columns and order of a list.
"""
