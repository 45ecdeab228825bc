# SPDX-License-Identifier: Apache-2.0
"""The directory of a sweep: written by the sweep, read by the report, bundles and commands.

- `directory`: its files.
- `progress`: which runs a cell still needs.
- `summary`: the statistics of its runs.
- `operands`: the runs of several directories that a comparison needs.
"""
