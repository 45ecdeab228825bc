# SPDX-License-Identifier: Apache-2.0
"""Processes shared by the flows of a group on one host, because each start of a process costs time.

A tool whose module has a function `join` can serve several flows with one process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace

from mprun.model.grouping import gather
from mprun.model.plan import Process
from mprun.model.spec import Flow
from mprun.workloads.tool import Work, tool_of

Join = Callable[[Sequence[Process]], Process]


def share_processes(works: Sequence[tuple[Flow, Work]]) -> tuple[Work, ...]:
    """Return the works of flows in the same order. A shared process belongs to the first of its flows.

    Flows share a process if they have the same group, host and start, and their tool has a `join`. A flow whose end
    another flow outside the group waits for has a process of its own.
    """
    clients, servers = (_gather(works, role) for role in ("clients", "servers"))
    return tuple(replace(work, clients=clients[n], servers=servers[n]) for n, (_, work) in enumerate(works))


def _gather(works: Sequence[tuple[Flow, Work]], role: str) -> list[tuple[Process, ...]]:
    """Return the processes that remain of one role of each work."""
    alike: dict[Hashable, list[tuple[int, Process]]] = {}
    waiting = gather((one.after.flow, one.group) for one, _ in works if one.after and one.after.of == "end")
    for n, (flow, work) in enumerate(works):
        is_awaited = any(group != flow.group for group in waiting.get(flow.name, ()))
        can_join = flow.group is not None and hasattr(tool_of(flow), "join") and not is_awaited
        for m, process in enumerate(getattr(work, role)):
            timing = (process.at_ns, process.after)
            key = (flow.group, process.node, *timing) if can_join else (n, m)
            alike.setdefault(key, []).append((n, process))
    left: list[list[Process]] = [[] for _ in works]
    names = Counter[str]()
    for sharing in alike.values():
        joined = _join(works[sharing[0][0]][0], role, [process for _, process in sharing])
        names[joined.name] += 1
        if (number := names[joined.name]) > 1:
            # flows of the group that start at another time
            joined = replace(joined, name=f"{joined.name}.{number}")
        left[sharing[0][0]].append(joined)
    return [tuple(some) for some in left]


def _join(flow: Flow, role: str, processes: Sequence[Process]) -> Process:
    """Return one process that does the work of all given ones. It belongs to all their flows, then to their group."""
    if len(processes) == 1:
        return processes[0]
    join: Join = tool_of(flow).join  # type: ignore[attr-defined]
    joined = join(processes)
    suffix = ".server" if role == "servers" else ""
    flows = tuple(name for process in processes for name in process.flows if name != flow.group)
    return replace(
        joined,
        name=f"{flow.group}.{joined.node}{suffix}",
        flows=(*flows, *([flow.group] if flow.group else [])),
        timeout_ns=max(process.timeout_ns for process in processes),
        files=tuple(file for process in processes for file in process.files),
        keeps=tuple(kept for process in processes for kept in process.keeps),
    )
