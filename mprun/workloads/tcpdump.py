# SPDX-License-Identifier: Apache-2.0
"""tcpdump(8): captures of a node, on all its interfaces or on one, to one file or to the last files of a ring.

tcpdump writes pcap. `mprun.captures.pcapng` converts it to pcapng after the run.
"""

from __future__ import annotations

import re

from mprun.model.capabilities import Capabilities
from mprun.model.plan import Process, Ready
from mprun.model.spec import Capture
from mprun.workloads.tool import Program

PROGRAMS = {"tcpdump": Program("tcpdump", "--version")}

# The name that means all interfaces.
ANY = "any"
# The prefix of a capture's process name.
PREFIX = "capture."
# The largest number of files of a ring, and the unit in which tcpdump counts their sizes.
RING_FILES = 10
MILLION = 1_000_000
# By default tcpdump writes 4 kB at a time, and each write is a system call. stdbuf changes standard output only.
ENLARGED = ("stdbuf", "-o64K")
# The dynamic linker's message if a security module does not allow stdbuf's library.
REFUSED_BUFFER = "cannot be preloaded"

_CAPTURED = re.compile(r"(\d+) packets? captured")
_RECEIVED = re.compile(r"(\d+) packets? received by filter")
_DROPPED = re.compile(r"(\d+) packets? dropped by kernel")
SIGINT = 2


def capture(wanted: Capture, capabilities: Capabilities, interface: str = ANY) -> Process:
    """Return the process of a capture.

    `-Z root`: inside the engine root is the invoking user, so there is no other user to become. The output is standard
    output, because tcpdump would give its own file to root.

    The size of a file is limited by a resource limit of the process. tcpdump ignores write errors: it continues to
    count, and at the end reports how many packets passed. It gets three quarters of the file's limit, because pcapng
    needs up to a third more than pcap for a short packet.
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
    """Return the prefix of the names of a ring's files; tcpdump appends their numbers.

    The AppArmor profile of tcpdump on Debian and Ubuntu allows `*.pcap[0-9]*` and no other numbered file.
    """
    return f"{name}.ring.pcap"


def passed(log: str) -> int | None:
    """Return the number of packets that tcpdump has read; None if its log does not have it.

    The capture file may hold fewer packets, if its size is limited.
    """
    found = _CAPTURED.findall(log)
    return int(found[-1]) if found else None


def lost(log: str) -> int | None:
    """Return the number of packets that tcpdump missed; None if its log does not have it.

    Counted are the packets that passed until the traffic was over, and that the kernel dropped or that tcpdump had not
    read when it was stopped.

    tcpdump prints its counts when the traffic is over (`agent.main.settle`), and again when it ends. Between the two it
    has time to read, and packets that are sent in this time do not belong to the run. A capture that was ended early
    prints its counts once.
    """
    captured, received, dropped = (pattern.findall(log) for pattern in (_CAPTURED, _RECEIVED, _DROPPED))
    if not captured or not received or not dropped:
        return None
    # dropped packets count as received (pcap_stats(3PCAP), Linux)
    return max(int(dropped[-1]), int(received[0]) - int(captured[-1]))
