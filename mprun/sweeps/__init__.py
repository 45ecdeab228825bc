# SPDX-License-Identifier: Apache-2.0
"""Many runs of one pair of files.

- `study`: the runs, their seeds and their order.
- `local`, `cluster`: the executors.
- `execution`: the sweep from its start to its summary.
"""
