# SPDX-License-Identifier: Apache-2.0
"""The record of a run: the kernel's messages about it, unchanged, each with its time.

The record is a gzip stream (RFC 1952). Each entry is a header and its content. The header has the kind, the number of
the source, the length, and the time (CLOCK_MONOTONIC in ns). The content is datagrams of netlink(7), one after the
other.

The log of an experiment kernel is an entry too, as text.

The agent does not parse the content: this would be expensive in the experiment kernel. A later reader that knows more
attributes finds all of them.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

NAME = "record.gz"
# The kinds of entries. SOURCE says whose the entries of its number are: {"host": name}, {"node", "indices"} ... LOST:
# more sockets closed than the kernel had room to report. KERNEL_LOG: the records of /dev/kmsg; it has no source. TRACE:
# pages of trace events, whose source has the formats.
SOURCE, SOCKETS, CLOSED, EVENTS, INTERFACES, QUEUES, CPU, PROGRESS, LOST, CONNECTIONS, KERNEL_LOG, TRACE = range(12)

_HEADER = struct.Struct("=BxHIq")
_GZIP = 16 + zlib.MAX_WBITS
# Entries are written in pieces of this size, as system calls are expensive. A run that is killed loses the last piece.
_CHUNK_BYTES = 1 << 16
# Limits for reading. A dump of 10,000 sockets has 4 MB. Samples of an idle network differ only in their times and
# shrink to a hundredth.
_MOST_ENTRY_BYTES = 64 << 20
_MOST_RATIO = 300
_ALWAYS_BYTES = 256 << 20
_PIECE_BYTES = 1 << 20
# All entries but LOST, which are few, hold at least the header of a netlink message (struct nlmsghdr).
_LEAST_MEAN_BYTES = 16
_ALWAYS_ENTRIES = 1 << 20


class Recorder:
    """Writes the record of a run."""

    def __init__(self, directory: str) -> None:
        self._file = os.open(f"{directory}/{NAME}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        self._packer = zlib.compressobj(1, zlib.DEFLATED, _GZIP)
        self._packed: list[bytes] = []
        self._waiting_bytes = 0
        self._sources = 0

    def add_source(self, facts: dict[str, Any]) -> int:
        """Write an entry that describes a source. Return the number of the source for its entries."""
        number = self._sources
        self._sources += 1
        self.write(SOURCE, number, 0, [json.dumps(facts).encode()])
        return number

    def write(self, kind: int, source: int, at_ns: int, parts: list[bytes]) -> None:
        """Write an entry. Its content is the joined parts.

        kind: one of the kinds of this module. source: the number from `add_source`. at_ns: the time (CLOCK_MONOTONIC).
        """
        length = sum(map(len, parts))
        self._packed.append(self._packer.compress(b"".join([_HEADER.pack(kind, source, length, at_ns), *parts])))
        self._waiting_bytes += len(self._packed[-1])
        if self._waiting_bytes >= _CHUNK_BYTES:
            self._write(zlib.Z_SYNC_FLUSH)

    def close(self) -> None:
        """End the record and close its file."""
        self._write(zlib.Z_FINISH)
        os.close(self._file)

    def _write(self, mode: int) -> None:
        data = b"".join([*self._packed, self._packer.flush(mode)])
        while data:
            data = data[os.write(self._file, data) :]
        self._packed, self._waiting_bytes = [], 0


def read_entries(chunks: Iterable[bytes]) -> Iterator[tuple[int, int, int, bytes]]:
    """Yield (kind, number of the source, time in ns, content) of each complete entry.

    chunks: the file in pieces. The file of a killed run may end anywhere. Raises ValueError for a file that is no
    record, or that expands beyond reason.
    """
    rest = b""
    entries = total_bytes = 0
    for data in _unpack(chunks):
        if entries > _ALWAYS_ENTRIES and total_bytes < entries * _LEAST_MEAN_BYTES:
            raise ValueError("entries that hold nothing")
        data = rest + data
        at = 0
        while at + _HEADER.size <= len(data):
            kind, source, length, at_ns = _HEADER.unpack_from(data, at)
            end = at + _HEADER.size + length
            if length > _MOST_ENTRY_BYTES:
                raise ValueError(f"an entry of {length} bytes")
            if end > len(data):
                break
            yield kind, source, at_ns, data[at + _HEADER.size : end]
            at = end
            entries += 1
            total_bytes += length
        rest = data[at:]


def _unpack(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the content of a gzip stream in pieces of bounded size. Raises ValueError."""
    unpacker = zlib.decompressobj(_GZIP)
    packed = unpacked = 0
    for chunk in chunks:
        packed += len(chunk)
        is_full = False
        while chunk or is_full:
            try:
                data = unpacker.decompress(chunk, _PIECE_BYTES)
            except zlib.error as error:
                raise ValueError(str(error)) from None
            unpacked += len(data)
            if unpacked > max(_ALWAYS_BYTES, _MOST_RATIO * packed):
                raise ValueError(f"more than {_MOST_RATIO} times its size")
            yield data
            # a full piece means that more data may wait in the unpacker itself
            chunk, is_full = unpacker.unconsumed_tail, len(data) == _PIECE_BYTES
