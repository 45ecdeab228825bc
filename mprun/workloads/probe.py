# SPDX-License-Identifier: Apache-2.0
"""The idle probe of a path: a few pings before time zero, with ping(8) of iputils."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from mprun.model.plan import Process
from mprun.model.spec import Family
from mprun.workloads.tool import Program

PROGRAMS = {"ping": Program("iputils-ping", "-V")}

INTERVAL_NS = 200_000_000
SIZE_BYTES = 56
# The frame of a ping without its checksum: the headers of Ethernet, IP and ICMP, and the data.
FRAME_BYTES: Mapping[Family, int] = {"ipv4": 14 + 20 + 8 + SIZE_BYTES, "ipv6": 14 + 40 + 8 + SIZE_BYTES}

_COUNTS = re.compile(r"(\d+) packets transmitted, (\d+) received")
_TIMES = re.compile(r"rtt min/avg/max/mdev = ([\d.]+)/([\d.]+)/([\d.]+)/([\d.]+) ms")


def probe(name: str, node: str, source_address: str, destination_address: str, count: int, slowest: float) -> Process:
    """Return the process of one probe. Option -I sets the source address, which selects the path.

    slowest: the least rate of the path in bit/s. A ping waits until it has sent the previous ping.
    """
    frame_bits = 8 * FRAME_BYTES["ipv6" if ":" in source_address else "ipv4"]
    interval_s = max(INTERVAL_NS / 1e9, math.ceil(frame_bits / slowest * 1e3) / 1e3)
    words = f"ping -n -c {count} -i {interval_s:g} -s {SIZE_BYTES} -I {source_address} {destination_address}"
    return Process(name=name, node=node, argv=tuple(words.split()), role="probe")


def read_statistics(output: str) -> dict[str, float]:
    """Read the last lines of ping(8). rtt: the mean, in s. loss: the share of requests without an answer.

    A value that the output does not have is left out.
    """
    values: dict[str, float] = {}
    if counts := _COUNTS.search(output):
        sent, received = map(int, counts.groups())
        values["loss"] = (sent - received) / sent if sent else 1.0
    if times := _TIMES.search(output):
        names = ("rtt.min", "rtt", "rtt.max", "rtt.mdev")
        values |= {name: float(text) / 1e3 for name, text in zip(names, times.groups(), strict=True)}
    return values
