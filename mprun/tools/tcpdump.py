# SPDX-License-Identifier: Apache-2.0
"""tcpdump(8): captures of a host, all interfaces, into one file."""

from __future__ import annotations

import re

from mprun.plan import Process, Ready
from mprun.spec.spec import Capture
from mprun.tools.tool import Program

PROGRAMS = {"tcpdump": Program("tcpdump", "--version")}

_CAPTURED = re.compile(r"(\d+) packets? captured")
_RECEIVED = re.compile(r"(\d+) packets? received by filter")
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


def lost(log: str) -> int | None:
    """Packets that are not in the file though they passed: those that the kernel dropped, and those that
    tcpdump had not read when it was stopped. None if its log does not say."""
    captured, received, dropped = (pattern.search(log) for pattern in (_CAPTURED, _RECEIVED, _DROPPED))
    if captured is None or received is None or dropped is None:
        return None
    # what was dropped counts as received (pcap_stats(3PCAP), Linux)
    return max(int(dropped[1]), int(received[1]) - int(captured[1]))
