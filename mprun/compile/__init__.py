# SPDX-License-Identifier: Apache-2.0
"""Compile a Spec into a Network and a Plan. Pure: all that depends on the machine is in the given Capabilities."""

from __future__ import annotations

from mprun.compile.allocate import allocate, resolve
from mprun.compile.planner import compile_plan

__all__ = ["allocate", "compile_plan", "resolve"]
