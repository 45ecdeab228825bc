# SPDX-License-Identifier: Apache-2.0
"""Runs and sweeps on disk: the only readers and writers of their directories, and the index of a folder of them.

- `run_directory`, `sweep_directory`: the layouts; `output_directory` has what both share.
- `look_up`: a run or a sweep by its name.
- `table`: the tables of a run, checked when they are opened; `damage`: the error for a damaged file.
- `signature` marks the runs of this user.
- `index`: the runs of a folder, for lists.
"""
