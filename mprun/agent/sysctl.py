# SPDX-License-Identifier: Apache-2.0
"""sysctl settings of this process's namespace: read them, set them, list their allowed values."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping
from typing import Any

CONGESTION = "net.ipv4.tcp_congestion_control"
SCHEDULER = "net.mptcp.scheduler"
# The congestion controls that a namespace may use. Only the first namespace may use all, and may change this list
# (tcp_cong.c).
ALLOWED_CONGESTION = "net.ipv4.tcp_allowed_congestion_control"
# For a sysctl, the other sysctl that lists its allowed values.
CHOICES = {
    CONGESTION: "net.ipv4.tcp_available_congestion_control",
    SCHEDULER: "net.mptcp.available_schedulers",
}
# The protocols whose flows may ask for a congestion control of the kernel's; QUIC brings its own.
CONTROLLED = ("tcp", "mptcp")
# The kernel settings that decide how transports behave if a run sets nothing: folders below net, and prefixes of names
# in them.
TRANSPORTS = (("core", ""), ("ipv4", "tcp_"), ("ipv4", "udp_"), ("mptcp", ""), ("sctp", ""))


def read_transports() -> dict[str, str]:
    """Return the settings of TRANSPORTS that exist in this namespace and are readable."""
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
    """Return the congestion controls that flows over TCP and MPTCP request, by flow. QUIC has its own."""
    flows = (flow for flow in traffic if flow["protocol"] in CONTROLLED)
    return {flow["name"]: flow["congestion"] for flow in flows if flow.get("congestion")}


def path_of(name: str) -> str:
    """Return the file of a name such as `net.ipv4.ip_forward`."""
    return "/proc/sys/" + name.replace(".", "/")


def choices_of(name: str) -> list[str] | None:
    """Return the allowed values of a sysctl; None if it has no list, or the kernel does not report it."""
    if name not in CHOICES:
        return None
    try:
        return read(CHOICES[name]).split()
    except OSError:
        return None


def read(name: str) -> str:
    """Return a sysctl's value, without the five additional system calls of open(). Raises OSError."""
    descriptor = os.open(path_of(name), os.O_RDONLY)
    try:
        return os.read(descriptor, 4096).decode()
    finally:
        os.close(descriptor)


def assign(name: str, value: str) -> str:
    """Set a sysctl and return the value that is then read. Raises OSError."""
    try:
        descriptor = os.open(path_of(name), os.O_RDWR)
        try:
            os.write(descriptor, value.encode())
            return os.pread(descriptor, 4096, 0).decode()
        finally:
            os.close(descriptor)
    except OSError:
        # a setting of the whole kernel may have the value already, although it cannot be set from here
        with contextlib.suppress(OSError):
            if (got := read(name)).split() == value.split():
                return got
        raise


def remedy_of(name: str) -> str:
    """Return how a kernel gets another value of a sysctl; empty if the user cannot add one."""
    kind = {CONGESTION: "congestion", SCHEDULER: "scheduler"}.get(name)
    return f"; to add your own: mprun kernel build --name mine --with-{kind} FILE.c, then --kernel mine" if kind else ""
