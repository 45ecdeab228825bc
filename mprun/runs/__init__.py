# SPDX-License-Identifier: Apache-2.0
"""Runs: start them, read and write their directories, repeat them, and list them.

- `runner`: from a Spec to a finished run directory.
- `place`: the engine and the kernel of a run.
- `run_directory`: the only reader and writer of a run directory; `table`: its tables.
- `repetition`: a run once more, compared with the original.
- `index`: the runs of a folder, for lists.
"""
