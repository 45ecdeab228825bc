# SPDX-License-Identifier: Apache-2.0
"""The sources of a record's samples, as the agent describes each once (`mprun.agent.record`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class SampleSource:
    """A source of samples: sockets, interfaces, a program, CPU times, or trace events. It has only the fields of one.

    - host: the host whose sockets are sampled.
    - nodes, indices: the nodes that share a namespace, and the numbers of its interfaces by name.
    - session, process, node: a program that was started, and the node on which it runs.
    - tick_per_s: the unit of CPU times.
    - formats, lost: the format of each trace event by its name, and the number of events that were overwritten.
    """

    host: str | None = None
    nodes: tuple[str, ...] = ()
    indices: Mapping[str, int] | None = None
    session: int | None = None
    process: str = ""
    node: str | None = None
    tick_per_s: int = 0
    formats: Mapping[str, str] | None = None
    lost: int = 0
