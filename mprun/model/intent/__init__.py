# SPDX-License-Identifier: Apache-2.0
"""The meaning of the inputs: equal on every machine, and alone the source of a plan's digest."""

from __future__ import annotations

from mprun.model.intent.values import AddressedFlow, FlowEnds, FlowPath, Intent

__all__ = ["AddressedFlow", "FlowEnds", "FlowPath", "Intent"]
