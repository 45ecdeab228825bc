# SPDX-License-Identifier: Apache-2.0
"""tcpdump(8): captures of a node, on all its interfaces or on one, to one file or to the last files of a ring.

tcpdump writes pcap; what makes pcapng of it when the run is over is `mprun.packets.pcapng`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from mprun.capabilities import Capabilities
from mprun.model.spec import Capture
from mprun.plan import Process, Ready
from mprun.tools.tool import Program

PROGRAMS = {"tcpdump": Program("tcpdump", "--version")}

# The interface that stands for all of them.
ANY = "any"
# What precedes the name of a capture in that of its process.
PREFIX = "capture."
# In how many files at most the last packets are kept, and what tcpdump counts their sizes in.
RING_FILES = 10
MILLION = 1_000_000
# tcpdump writes 4 kB at once by itself, and each write is a system call. stdbuf changes standard output only.
ENLARGED = ("stdbuf", "-o64K")
# What the dynamic linker prints where a security module refuses stdbuf's library to the program.
REFUSED_BUFFER = "cannot be preloaded"

_CAPTURED = re.compile(r"(\d+) packets? captured")
_RECEIVED = re.compile(r"(\d+) packets? received by filter")
_DROPPED = re.compile(r"(\d+) packets? dropped by kernel")
SIGINT = 2


def capture(wanted: Capture, capabilities: Capabilities, interface: str = ANY) -> Process:
    """Return the process of a capture.

    `-Z root`: inside the engine root is the invoking user, so tcpdump must not change the user. It writes to standard
    output, because it would make root the owner of a file of its own.

    A largest size is a limit of the process. tcpdump ignores errors of writing, counts on, and reports the number of
    packets at the end. It gets three quarters of the file's largest size, as pcapng needs up to a third more than
    pcap for a short packet.
    """
    argv = ["tcpdump", "-i", interface, "-n", "-Z", "root", "--time-stamp-precision=nano"]
    most_bytes = None if wanted.size_bytes is None else wanted.size_bytes * 3 // 4
    if most_bytes is None or wanted.keep == "first":
        argv = [*(ENLARGED if capabilities.buffers_captures else ()), *argv, "-w", "-"]
    else:
        millions = max(1, most_bytes // MILLION // RING_FILES)
        files = most_bytes // MILLION // millions
        argv += ["-C", str(millions), "-W", str(files), "-w", f"pcap/{ring(wanted.name)}"]
    if most_bytes is not None and wanted.keep == "first":
        argv = ["prlimit", f"--fsize={most_bytes}", "env", "--ignore-signal=XFSZ", *argv]
    if wanted.snaplen:
        argv += ["-s", str(wanted.snaplen)]
    if wanted.filter:
        argv.append(wanted.filter)
    return Process(
        name=f"{PREFIX}{wanted.name}",
        node=wanted.node,
        argv=tuple(argv),
        role="capture",
        ready=Ready("output", "listening on"),
        stop_signal=SIGINT,
        output=f"pcap/{wanted.name}.pcap",
    )


def ring(name: str) -> str:
    """Return the beginning of the names of a ring's files. tcpdump adds their numbers.

    The profile of tcpdump that AppArmor enforces on Debian and Ubuntu allows `*.pcap[0-9]*` and no other numbered
    file.
    """
    return f"{name}.ring.pcap"


def read_wanted(value: Mapping[str, Any]) -> Capture:
    """Return a capture of the intent as a value."""
    size = {"size_bytes": value["size_bytes"], "keep": value["keep"]} if "size_bytes" in value else {}
    return Capture(value["host"], value["snaplen"], value["filter"], value.get("link"), **size)


def passed(log: str) -> int | None:
    """Return the number of packets that tcpdump has read. Its file has as many as there was room for. None if the log
    does not have the number.
    """
    found = _CAPTURED.findall(log)
    return int(found[-1]) if found else None


def lost(log: str) -> int | None:
    """Return the number of packets that passed until the traffic was over and that tcpdump never read.

    The kernel dropped them, or they were still to be read when tcpdump was stopped. None if the log does not have the
    number.

    tcpdump reports its counts when it ends, and before that when the traffic is over (`agent.main.settle`). Packets
    that sockets send while it then reads the rest do not belong to the run. A tcpdump that was ended earlier reported
    once.
    """
    captured, received, dropped = (pattern.findall(log) for pattern in (_CAPTURED, _RECEIVED, _DROPPED))
    if not captured or not received or not dropped:
        return None
    # what was dropped counts as received (pcap_stats(3PCAP), Linux)
    return max(int(dropped[-1]), int(received[0]) - int(captured[-1]))
