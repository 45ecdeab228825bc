# SPDX-License-Identifier: Apache-2.0
"""The shape of `agent.json`, which the agent writes and `mprun.runs.agent_report` reads.

Typed dictionaries cost the agent no time to load: no value of them is made but the dictionary itself.
"""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict


class Ended(TypedDict):
    """The end of a process. `cut` and `why` exist only where they say something."""

    status: int | None
    timed_out: bool
    role: str
    flows: list[str]
    started_ns: int
    ended_ns: int
    cut: NotRequired[dict[str, int]]
    why: NotRequired[str]


class Captured(TypedDict):
    """A capture's process. `ended_ns` exists if it was ended early."""

    ready_ns: int
    interfaces: dict[str, int]
    ended_ns: NotRequired[int]


class HostLoad(TypedDict):
    """The load of the host: shares of the time, and how late timers came."""

    cpu_pressure: float | None
    steal: float
    timers: int
    late_median_ns: int
    late_most_ns: int
    late_worst_ns: list[int]


class Delays(TypedDict):
    """Statistics of the delays of a train's frames, ns."""

    median: float
    mean: float
    deviation: float
    correlation: float


class Arrivals(TypedDict):
    """The arrival of a train's frames."""

    sent: int
    received: int
    distinct: int
    late: int
    delay_ns: Delays | None
    first_ns: int | None
    last_ns: int | None
    took_ns: int
    unseen: int


class Result(TypedDict):
    """The whole of `agent.json`. A key that is not required exists once the run has come so far."""

    error: str | None
    complete: bool
    processes: dict[str, Ended]
    captures: dict[str, Captured]
    readback: NotRequired[dict[str, Any]]
    sysctls: NotRequired[dict[str, str]]
    slab_kb: NotRequired[dict[str, int]]
    boot_ns: NotRequired[int]
    trains: NotRequired[list[Arrivals]]
    host_idle: NotRequired[HostLoad]
    host: NotRequired[HostLoad]
    counters: NotRequired[dict[str, dict[str, int]]]
    counters_before: NotRequired[dict[str, dict[str, int]]]
    filtered: NotRequired[dict[str, dict[str, int]]]
    faults: NotRequired[dict[str, dict[str, int]]]
    zero_ns: NotRequired[int | None]
