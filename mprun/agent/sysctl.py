# SPDX-License-Identifier: Apache-2.0
"""sysctls of the namespace that this process is in: read, set, and what there is to choose from."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping
from typing import Any

CONGESTION = "net.ipv4.tcp_congestion_control"
# Those that a namespace may have; only the first one may have all, and say which (tcp_cong.c).
ALLOWED_CONGESTION = "net.ipv4.tcp_allowed_congestion_control"
# The sysctl that lists what another may be set to.
CHOICES = {
    CONGESTION: "net.ipv4.tcp_available_congestion_control",
    "net.mptcp.scheduler": "net.mptcp.available_schedulers",
}
# The protocols whose flows may ask for a congestion control of the kernel's; QUIC brings its own.
CONTROLLED = ("tcp", "mptcp")
# What of a kernel's settings decides how its transports behave where a run sets nothing: folders below net, and how
# names in them begin.
TRANSPORTS = (("core", ""), ("ipv4", "tcp_"), ("ipv4", "udp_"), ("mptcp", ""), ("sctp", ""))


def read_transports() -> dict[str, str]:
    """The settings of TRANSPORTS that this namespace has and lets us read."""
    found = {}
    for folder, start in TRANSPORTS:
        with contextlib.suppress(OSError):
            for file in sorted(os.listdir(f"/proc/sys/net/{folder}")):
                name = f"net.{folder}.{file}"
                if file.startswith(start):
                    with contextlib.suppress(OSError):
                        found[name] = " ".join(read(name).split())
    return found


def congestion_controls(traffic: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Those that flows of a plan over TCP and MPTCP ask for by themselves, by flow; QUIC brings its own."""
    flows = (flow for flow in traffic if flow["protocol"] in CONTROLLED)
    return {flow["name"]: flow["congestion"] for flow in flows if flow.get("congestion")}


def path_of(name: str) -> str:
    """The file of `net.ipv4.ip_forward`."""
    return "/proc/sys/" + name.replace(".", "/")


def choices_of(name: str) -> list[str] | None:
    """What a sysctl may be set to here; None if it is no choice, or the kernel does not say."""
    if name not in CHOICES:
        return None
    try:
        return read(CHOICES[name]).split()
    except OSError:
        return None


def read(name: str) -> str:
    """A sysctl's value, without the five further system calls of open(). Raises OSError."""
    descriptor = os.open(path_of(name), os.O_RDONLY)
    try:
        return os.read(descriptor, 4096).decode()
    finally:
        os.close(descriptor)


def assign(name: str, value: str) -> str:
    """Give a sysctl a value; what it reads then. Raises OSError."""
    try:
        descriptor = os.open(path_of(name), os.O_RDWR)
        try:
            os.write(descriptor, value.encode())
            return os.pread(descriptor, 4096, 0).decode()
        finally:
            os.close(descriptor)
    except OSError:
        # one that belongs to the whole kernel can be as asked, though it cannot be set from here
        with contextlib.suppress(OSError):
            if (got := read(name)).split() == value.split():
                return got
        raise
