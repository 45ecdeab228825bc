# SPDX-License-Identifier: Apache-2.0
"""The sources of a record's samples, as the agent describes each once (`mprun.agent.record`)."""

from __future__ import annotations

from typing import TypedDict


class SampleSource(TypedDict, total=False):
    """A source of samples: of a host's sockets, of the interfaces of nodes, or a program that was started,
    or the kernel's trace events.

    `host`: whose sockets they are.
    `nodes`, `indices`: the nodes that share a namespace, and the numbers of its interfaces by name.
    `formats`, `lost`: of trace events, the format of each by its name, and how many were lost.
    `session`, `process`, `node`: of a program. `tick_per_s`: the unit of CPU times.
    """

    host: str
    nodes: list[str]
    indices: dict[str, int]
    session: int
    process: str
    node: str
    tick_per_s: int
    formats: dict[str, str]
    lost: int
