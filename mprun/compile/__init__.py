# SPDX-License-Identifier: Apache-2.0
"""Spec -> Network -> Plan. Pure: nothing is read from the machine but the given Capabilities."""

from __future__ import annotations

from mprun.compile.allocate import allocate
from mprun.compile.planner import compile_plan
from mprun.compile.resolve import resolve

__all__ = ["allocate", "compile_plan", "resolve"]
