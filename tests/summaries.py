# SPDX-License-Identifier: Apache-2.0
"""A summary of a run for the tests, which change its members with `_replace`."""

from __future__ import annotations

from mprun.model.run_summary import Summary

PASSED = Summary("passed", True, 1, {}, (), (), (), (), "virtual")
