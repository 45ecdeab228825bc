# SPDX-License-Identifier: Apache-2.0
"""Runs: start them, and repeat them.

- `runner`: from a Spec to a finished run directory.
- `place`: the engine and the kernel of a run.
- `repetition`: a run once more, compared with the original.
"""
