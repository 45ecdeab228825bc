# SPDX-License-Identifier: Apache-2.0
"""The record of a run: what the kernel said of it, as the kernel said it, each with its moment.

A stream of gzip (RFC 1952). Each entry is a header (what it is, the number of its source, its length, when:
CLOCK_MONOTONIC in ns) and what came: datagrams of netlink(7), one after the other. Nothing is read here: in the
experiment kernel that would be dear, and a reader that learns more later finds all of it.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

NAME = "record.gz"
# What an entry is. A source says who the entries of its number are of: {"host": name}, {"node", "indices"} ...
# LOST: the kernel had more sockets that closed to tell of than there was room for.
SOURCE, SOCKETS, CLOSED, EVENTS, INTERFACES, QUEUES, CPU, PROGRESS, LOST, CONNECTIONS = range(10)

_HEADER = struct.Struct("=BxHIq")
_GZIP = 16 + zlib.MAX_WBITS
# So much is kept before it is written: a call of the system is dear, and a run that is killed loses it.
_CHUNK_BYTES = 1 << 16


class Recorder:
    """Writes the record of a run."""

    def __init__(self, directory: str) -> None:
        self._file = os.open(f"{directory}/{NAME}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        self._packer = zlib.compressobj(1, zlib.DEFLATED, _GZIP)
        self._packed: list[bytes] = []
        self._waiting_bytes = 0
        self._sources = 0

    def add_source(self, facts: dict[str, Any]) -> int:
        """The number for the entries of a source."""
        number = self._sources
        self._sources += 1
        self.write(SOURCE, number, 0, [json.dumps(facts).encode()])
        return number

    def write(self, kind: int, source: int, at_ns: int, parts: list[bytes]) -> None:
        """An entry of what came in these parts."""
        length = sum(map(len, parts))
        self._packed.append(self._packer.compress(b"".join([_HEADER.pack(kind, source, length, at_ns), *parts])))
        self._waiting_bytes += len(self._packed[-1])
        if self._waiting_bytes >= _CHUNK_BYTES:
            self._write(zlib.Z_SYNC_FLUSH)

    def close(self) -> None:
        self._write(zlib.Z_FINISH)
        os.close(self._file)

    def _write(self, mode: int) -> None:
        data = b"".join([*self._packed, self._packer.flush(mode)])
        while data:
            data = data[os.write(self._file, data) :]
        self._packed, self._waiting_bytes = [], 0


def read_entries(chunks: Iterable[bytes]) -> Iterator[tuple[int, int, int, bytes]]:
    """(what, number of its source, moment in ns, what came) of each entry that is whole.

    chunks: the file, piece by piece; that of a run that was killed may end anywhere.
    """
    unpacker = zlib.decompressobj(_GZIP)
    rest = b""
    for chunk in chunks:
        data = rest + unpacker.decompress(chunk)
        at = 0
        while at + _HEADER.size <= len(data):
            kind, source, length, at_ns = _HEADER.unpack_from(data, at)
            end = at + _HEADER.size + length
            if end > len(data):
                break
            yield kind, source, at_ns, data[at + _HEADER.size : end]
            at = end
        rest = data[at:]
