# SPDX-License-Identifier: Apache-2.0
"""Runs and sweeps on disk: the only readers and writers of their directories, and the index of a folder of them.

- `run_directory`, `sweep_directory`: the layouts; `signature` marks the runs of this user.
- `table`: the tables of a run, checked when they are opened.
- `index`: the runs of a folder, for lists.
"""
