# SPDX-License-Identifier: Apache-2.0
"""tcpdump(8): captures of a host, all interfaces, into one file."""

from __future__ import annotations

import re

from mprun.plan import Process, Ready
from mprun.spec.spec import Capture

PROGRAMS = {"tcpdump": "tcpdump"}

_DROPPED = re.compile(r"(\d+) packets? dropped by kernel")
SIGINT = 2


def capture(wanted: Capture) -> Process:
    """`-Z root`: inside the engine root is the invoking user, and there is nobody to become. Standard
    output, because tcpdump would give a file of its own to root."""
    argv = ["tcpdump", "-i", "any", "-n", "-Z", "root", "-w", "-"]
    if wanted.snaplen:
        argv += ["-s", str(wanted.snaplen)]
    if wanted.filter:
        argv.append(wanted.filter)
    return Process(
        name=f"capture.{wanted.host}",
        node=wanted.host,
        argv=tuple(argv),
        role="capture",
        ready=Ready("output", "listening on"),
        stop_signal=SIGINT,
        output=f"pcap/{wanted.host}.pcap",
    )


def dropped(log: str) -> int | None:
    """Packets that the kernel dropped before tcpdump saw them; None if its log does not say."""
    match = _DROPPED.search(log)
    return int(match[1]) if match else None
