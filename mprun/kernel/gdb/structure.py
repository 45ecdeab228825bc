# SPDX-License-Identifier: Apache-2.0
"""Read the kernel's variables, lists and addresses."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator

import gdb

AF_INET = 2


def variable(name: str) -> gdb.Value:
    """Return a variable of the kernel. Raises gdb.error if the kernel does not have it."""
    return gdb.parse_and_eval(name)


def entries(head: gdb.Value, kind: str, member: str) -> Iterator[gdb.Value]:
    """Return each structure in a `struct list_head`, as a pointer to `struct KIND` with the list in MEMBER."""
    first = int(head.address)
    return _follow(head["next"], kind, member, lambda address: address in (0, first))


def null_ended_entries(head: gdb.Value, kind: str, member: str) -> Iterator[gdb.Value]:
    """Return each structure in a `struct hlist_nulls_head`. An odd address ends the list."""
    return _follow(head["first"], kind, member, lambda address: address % 2 == 1)


def _follow(node: gdb.Value, kind: str, member: str, is_end: Callable[[int], bool]) -> Iterator[gdb.Value]:
    pointer = gdb.lookup_type(f"struct {kind}").pointer()
    offset = offset_of(kind, member)
    while not is_end(int(node)):
        yield gdb.Value(int(node) - offset).cast(pointer)
        node = node["next"]


def offset_of(kind: str, member: str) -> int:
    """Return the place of a member in bytes. member: a name, or several names joined by points."""
    return int(gdb.parse_and_eval(f"&((struct {kind} *)0)->{member}"))


def read(address: int, size_bytes: int) -> bytes:
    """Return bytes of the kernel's memory. Raises gdb.MemoryError."""
    return bytes(gdb.selected_inferior().read_memory(address, size_bytes))


def bytes_of(value: gdb.Value) -> bytes:
    """Return the bytes of a variable or a member, as they lie in memory."""
    return read(int(value.address), value.type.sizeof)


def text(value: gdb.Value) -> str:
    """Return the text in an array of characters."""
    return str(value.string("utf-8", "replace"))


def address_of(value: gdb.Value) -> str:
    """Return an IPv4 or IPv6 address, from the bytes of a variable in network order."""
    address = ipaddress.ip_address(bytes_of(value))
    return str(getattr(address, "ipv4_mapped", None) or address)


def port_of(value: gdb.Value) -> int:
    """Return a port, from the bytes of a variable in network order."""
    return int.from_bytes(bytes_of(value), "big")
