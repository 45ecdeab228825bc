# SPDX-License-Identifier: Apache-2.0
"""Sample interfaces and queues in the kernel's own format (rtnetlink(7)), and CPU time in real time (proc(5))."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable

from mprun.agent.message import find_attribute
from mprun.agent.mininet_network import NamespaceNode
from mprun.agent.record import CPU, INTERFACES, QUEUES, Recorder
from mprun.agent.rtnetlink import Netlink

# linux/rtnetlink.h, linux/if_link.h: struct if_stats_msg and struct tcmsg.
RTM_GETSTATS, RTM_GETQDISC = 94, 38
_COUNTERS = struct.pack("=BxxxII", 0, 0, 1)
_QDISC_DUMP = (RTM_GETQDISC, bytes(20))
# struct tcmsg, after which the attributes begin; TCA_STATS, and qlen in its struct tc_stats (linux/gen_stats.h).
_TCMSG_BYTES, TCA_STATS, _QLEN = 20, 3, struct.Struct("=28xI")


class Sampler:
    """Samples interfaces or queues of the namespaces of some nodes, of which several may share a namespace."""

    def __init__(
        self, recorder: Recorder, kind: int, request: tuple[int, bytes], nodes: Iterable[NamespaceNode]
    ) -> None:
        self._recorder = recorder
        self._kind = kind
        self._request = request
        self._sources: list[tuple[Netlink, int]] = []
        shared: dict[int, list[NamespaceNode]] = {}
        for node in nodes:
            shared.setdefault(id(node.indices), []).append(node)
        for first, *others in shared.values():
            facts = {"nodes": [node.name for node in (first, *others)], "indices": first.indices}
            self._sources.append((first.netlink, recorder.add_source(facts)))

    def sample(self, at_ns: int) -> None:
        """Record the state of all interfaces or queues now, under the time `at_ns` (CLOCK_MONOTONIC)."""
        for netlink, source in self._sources:
            self._recorder.write(self._kind, source, at_ns, netlink.dump_raw(*self._request))


def interface_sampler(recorder: Recorder, nodes: Iterable[NamespaceNode]) -> Sampler:
    """Return a sampler of the counters of all interfaces of some nodes."""
    return Sampler(recorder, INTERFACES, (RTM_GETSTATS, _COUNTERS), nodes)


def queue_sampler(recorder: Recorder, nodes: Iterable[NamespaceNode]) -> Sampler:
    """Return a sampler of all queues of some nodes."""
    return Sampler(recorder, QUEUES, _QDISC_DUMP, nodes)


def holds_packets(wires: NamespaceNode) -> bool:
    """Return True if a queueing discipline of the wires holds a packet, in its delay stage or in its queue."""
    for message in wires.netlink.dump(*_QDISC_DUMP):
        start, _ = find_attribute(message, _TCMSG_BYTES, len(message), TCA_STATS)
        if _QLEN.unpack_from(message, start)[0]:
            return True
    return False


class CpuSampler:
    """Record the lines of the CPUs in /proc/stat, and /proc/PID/stat of every process.

    The run has its own process namespace, so its /proc shows only the run's processes. A session identifies a program:
    the agent starts each program in a new session, and the program's children stay in it. A process that has ended is
    listed with its total CPU time until it is waited for.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._source = recorder.add_source({"tick_per_s": os.sysconf("SC_CLK_TCK")})

    def add(self, pid: int, name: str, node: str) -> None:
        """Record that a program was started in a session of its own. pid: of the program, and so of its session."""
        self._recorder.add_source({"session": pid, "process": name, "node": node})

    def sample(self, at_ns: int) -> None:
        """Record the CPU time of all CPUs and of all processes of the run, under the time `at_ns` (CLOCK_MONOTONIC)."""
        parts = []
        with open("/proc/stat", "rb") as file:
            parts += [line for line in file if line.startswith(b"cpu")]
        for name in os.listdir("/proc"):
            if name.isdigit():
                try:
                    with open(f"/proc/{name}/stat", "rb") as file:
                        parts.append(file.read())
                except (FileNotFoundError, ProcessLookupError):
                    # the process has ended meanwhile
                    continue
        self._recorder.write(CPU, self._source, at_ns, parts)
