# SPDX-License-Identifier: Apache-2.0
"""The commands that `mprun debug` adds to gdb, and its start."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import gdb

from mprun.kernel.gdb import clock, headers, mptcp_sockets, stopping
from mprun.kernel.gdb.namespaces import list_namespaces


class GdbCommand(gdb.Command):  # type: ignore[misc]
    """A command of gdb that prints the lines of a function. The help of the command is the function's docstring."""

    def __init__(self, name: str, lines: Callable[[str], Iterator[str]]) -> None:
        self.__doc__ = lines.__doc__
        super().__init__(name, gdb.COMMAND_DATA)
        self._lines = lines

    def invoke(self, argument: str, _from_tty: bool) -> None:
        if not stopping.is_alive():
            raise gdb.GdbError("the run has ended, so its kernel cannot be read any more")
        try:
            for line in self._lines(argument):
                print(line)
        except gdb.MemoryError as error:
            raise gdb.GdbError(f"{error}: while the kernel boots, not everything exists") from None
        except gdb.error as error:
            raise gdb.GdbError(str(error)) from None


def start(process: int, path: str) -> None:
    """Attach to a process, add the commands, and continue to the time or the packet in a file of facts.

    `mprun.engines.debugger` writes the file.
    """
    _attach(process)
    with open(path) as file:
        facts: dict[str, Any] = json.load(file)
    _add_commands(facts["zero_ns"], facts["nodes"])
    if _go(facts):
        print(f"stopped at {_tell_time(facts['zero_ns'])}{facts['reason']}")
    elif stopping.is_alive():
        print("interrupted before the time was reached; `mp-time` shows the time")
    else:
        print("the run ended before the time was reached")


def _attach(process: int) -> None:
    """Attach to a process without a word about its place, which is in the loader of programs.

    gdb prints this place itself, and not as output of the command.
    """
    gdb.flush()
    output = os.dup(1)
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    try:
        gdb.execute(f"attach {process}", to_string=True)
        gdb.flush()
    finally:
        os.dup2(output, 1)
        os.close(output)
        os.close(nothing)
    # otherwise the process would stop again when gdb leaves it
    os.kill(process, signal.SIGCONT)


def _go(facts: Mapping[str, Any]) -> bool:
    if not stopping.go_to(facts["at_ns"]):
        return False
    sought = facts["packet"]
    return sought is None or stopping.go_to_packet(sought["interface"], bytes.fromhex(sought["content"]))


def _tell_time(zero_ns: int) -> str:
    now = clock.monotonic_ns()
    if now is None:
        return "no simulated time yet: the kernel boots"
    return f"{(now - zero_ns) / 1e9:.9f} s of simulated time"


def _add_commands(zero_ns: int, nodes: Mapping[str, str]) -> None:
    def time(_argument: str) -> Iterator[str]:
        """Print the simulated time, in seconds from time zero."""
        yield _tell_time(zero_ns)

    def hosts(_argument: str) -> Iterator[str]:
        """Print the network namespaces with the names of their nodes, their interfaces and addresses."""
        for namespace in list_namespaces(nodes):
            yield f"{namespace.name} (struct net *) {namespace.address:#x}"
            for device in namespace.devices:
                state = "up" if device.is_up else "down"
                yield " ".join([f"  {device.index} {device.name} {state}", *device.addresses])

    def subflows(argument: str) -> Iterator[str]:
        """Print the MPTCP connections with their subflows: mp-subflows [NODE]."""
        names = {namespace.address: namespace.name for namespace in list_namespaces(nodes)}
        if argument and argument not in names.values():
            raise gdb.GdbError(f"no node '{argument}'; nodes: {', '.join(sorted(set(names.values()) - {'-'}))}")
        for one in mptcp_sockets.list_connections():
            name = names.get(mptcp_sockets.namespace_of(one), "-")
            if argument in ("", name):
                first, *rest = mptcp_sockets.describe(one)
                yield from (f"{name}: {first}", *rest)

    def skb(argument: str) -> Iterator[str]:
        """Print the headers of a packet: mp-skb ADDRESS, with a pointer to struct sk_buff or its address."""
        if not argument:
            raise gdb.GdbError("name a packet, such as mp-skb skb or mp-skb 0x60a1b200")
        yield from headers.describe(headers.packet_at(argument))

    for function in (time, hosts, subflows, skb):
        GdbCommand(f"mp-{function.__name__}", function)
