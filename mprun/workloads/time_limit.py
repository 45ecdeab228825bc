# SPDX-License-Identifier: Apache-2.0
"""The time limit of a flow's programs: that of its entry, or else that of its tool.

A tool declares its limit as `TIME_LIMIT`. The planner asks here, and so does a tool whose program must know its limit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mprun.model.plan import TIMEOUT_NS
from mprun.model.spec import Flow
from mprun.model.units import NS_PER_S
from mprun.workloads.tool import tool_of

# A flow of a number of bytes is given the time that they take at this rate.
LEAST_BIT_PER_S = 1_000_000


@dataclass(frozen=True)
class TimeLimit:
    """The time limit of a tool's flows without a `timeout`: the time of their work, and some seconds more.

    work_ns: Flow -> the time of its work. Default: its duration.
    """

    grace_s: int
    work_ns: Callable[[Flow], int] = lambda flow: flow.duration_ns or 0


def time_limit_of(flow: Flow, otherwise_ns: int = TIMEOUT_NS) -> int:
    """Return the time limit of a flow's programs, in ns. otherwise_ns: for a tool without a TIME_LIMIT."""
    limit: TimeLimit | None = getattr(tool_of(flow), "TIME_LIMIT", None)
    return flow.timeout_ns or (otherwise_ns if limit is None else limit.grace_s * NS_PER_S + limit.work_ns(flow))


def transfer_ns(size_bytes: int) -> int:
    """Return the time that a number of bytes may take."""
    return size_bytes * 8 * NS_PER_S // LEAST_BIT_PER_S
