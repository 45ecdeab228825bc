# SPDX-License-Identifier: Apache-2.0
"""The trace events of a kernel: the formats of events, and the events in pages of the ring buffer. Pure.

The text of a format is that of `events/SYSTEM/EVENT/format` in tracefs (Documentation/trace/events.rst, section 2.1).
A page is a struct buffer_data_page of kernel/trace/ring_buffer.c. Files may come from strangers.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import lru_cache
from typing import Literal

from mprun.agent.mptcp_event import spell_address
from mprun.model.frozen import Frozen

FieldKind = Literal["whole", "natural", "text"]
FieldValue = int | str | None

_FIELD = re.compile(
    r"\tfield:(?P<type>[^;]{1,200});\toffset:(?P<at>\d{1,6});\tsize:(?P<size>\d{1,6});\tsigned:(?P<signed>[01]);"
)
_NUMBER = re.compile(r"ID: (\d{1,6})")
_ARRAY = re.compile(r"(?P<type>.*?)\b(?P<name>\w+)\[.*\]$")
_SYMBOLIC = re.compile(r"__print_symbolic\(REC->(\w+), ((?:\{[^{}]*\}(?:, )?)*)\)")
_SYMBOL = re.compile(r"\{ *(?:\( ?[\w ]+\))?\(?(-?(?:0x[0-9a-fA-F]{1,16}|\d{1,20}))[UL]*\)?, *\"([^\"]*)\" *\}")
_WHOLE: Mapping[tuple[int, bool], struct.Struct] = {
    (size, is_signed): struct.Struct("=" + (form if is_signed else form.upper()))
    for size, form in ((1, "b"), (2, "h"), (4, "i"), (8, "q"))
    for is_signed in (False, True)
}
_COMMON = "common_"
# Kinds of entries in a page (include/linux/ring_buffer.h).
_PADDING, _TIME_EXTEND, _TIME_STAMP = 29, 30, 31
_TIME_BITS = 27
_STAMP_TOP = 0xF8 << 56
_HEAD = struct.Struct("=QQ")
_LENGTH_BITS = 0xFFFFF
_WORD = struct.Struct("=I")
_EVENT_NUMBER = struct.Struct("=H")
AF_INET, AF_INET6 = 2, 10
# The addresses and ports that events of sockets have, as columns.
ENDS = (("saddr", "sport"), ("daddr", "dport"))
_SIXTH = "_v6"
# Fields with an address of the kernel's code. Pointers in other fields are addresses of objects.
CODE = frozenset(("location", "function", "func", "caller", "call_site", "ip", "parent_ip"))
# The columns that each table of events may have before those of its fields.
TIME, HOST = "time_ns", "host"

ReadField = Callable[[bytes], FieldValue]


class EventFormat(Frozen):
    """The format of an event.

    - event: its system and name, as `tcp:tcp_probe`.
    - number: the number in its records.
    - columns: the kind of each field, by name, without the fields that all events have.
    - readers: of each column, a function that reads its value from a record.
    - objects: the columns with addresses of objects in the kernel's memory.
    """

    event: str
    number: int
    columns: Mapping[str, FieldKind]
    readers: Sequence[ReadField] = field(repr=False)
    objects: frozenset[str] = frozenset()

    def read(self, record: bytes) -> list[FieldValue]:
        """Return the values of a record, by columns. Raises ValueError for a record that is too short."""
        try:
            return [read(record) for read in self.readers]
        except (struct.error, IndexError):
            raise ValueError(f"a record of {self.event} is too short") from None


def read_format(event: str, text: str) -> EventFormat:
    """Return the format that a text describes. event: its system and name. Raises ValueError."""
    number = _NUMBER.search(text)
    if number is None:
        raise ValueError(f"the format of {event} has no ID")
    symbols = {
        name: {int(value, 0): title for value, title in _SYMBOL.findall(entries)}
        for name, entries in _SYMBOLIC.findall(text)
    }
    columns: dict[str, FieldKind] = {}
    readers: list[ReadField] = []
    objects = set()
    for found in _FIELD.finditer(text):
        kind, at, size = found["type"].strip(), int(found["at"]), int(found["size"])
        array = _ARRAY.match(kind)
        *words, name = f"{array['type']} {array['name']}".split() if array else kind.replace("*", " * ").split()
        if name.startswith(_COMMON) or name in columns:
            continue
        column, reader = _reader(words, name, bool(array), at, size, found["signed"] == "1")
        if named := symbols.get(name):
            column, reader = "text", _with_symbols(reader, named)
        name += "_" if name in (TIME, HOST) else ""
        columns[name] = column
        readers.append(reader)
        if column == "natural" and "*" in words and name not in CODE:
            objects.add(name)
    return _with_addresses(EventFormat(event, int(number[1]), columns, readers, frozenset(objects)))


def _reader(
    words: Sequence[str], name: str, is_array: bool, at: int, size: int, is_signed: bool
) -> tuple[FieldKind, ReadField]:
    """Return the kind of a field and the function that reads it. words: of its type."""
    if words and words[0] in ("__data_loc", "__rel_loc"):
        after = at + 4 if words[0] == "__rel_loc" else 0
        is_text = "char" in words[1]
        return "text", lambda record: _read_dynamic(record, at, after, is_text)
    if is_array:
        end = at + size if size else None
        if "char" in words and "unsigned" not in words:
            return "text", lambda record: _read_text(record[at:end])
        if name in ("saddr", "daddr", "saddr_v6", "daddr_v6"):
            return "text", lambda record: _read_address(record[at:end])
        return "text", lambda record: record[at:end].hex()
    form = _WHOLE.get((size, is_signed))
    if form is None:
        return "text", lambda record: record[at : at + size].hex()
    unpack = form.unpack_from
    if "*" in words and name in CODE:
        return "text", lambda record: f"{unpack(record, at)[0]:#x}"
    return "natural" if size == 8 and not is_signed else "whole", lambda record: unpack(record, at)[0]


def _read_dynamic(record: bytes, at: int, after: int, is_text: bool) -> str:
    """Return the value of a field whose place is in the record: 16 bits of its offset, then 16 bits of its length."""
    location = _WORD.unpack_from(record, at)[0]
    begin = (location & 0xFFFF) + after
    content = record[begin : begin + (location >> 16)]
    return _read_text(content) if is_text else content.hex()


def _read_text(content: bytes) -> str:
    return content.partition(b"\0")[0].decode(errors="replace").removesuffix("\n")


@lru_cache(maxsize=1 << 16)
def _read_address(content: bytes) -> str | None:
    """Return an address as text: 4 or 16 bytes of it, or a struct sockaddr. None if it is neither."""
    if len(content) in (4, 16):
        return spell_address(content)
    family = int.from_bytes(content[:2], "little")
    begin, size = {AF_INET: (4, 4), AF_INET6: (8, 16)}.get(family, (0, 0))
    return spell_address(content[begin : begin + size]) if size and len(content) >= begin + size else None


def _with_symbols(reader: ReadField, names: Mapping[int, str]) -> ReadField:
    def read(record: bytes) -> str:
        value = reader(record)
        return names.get(value, str(value)) if isinstance(value, int) else str(value)

    return read


def _with_addresses(found: EventFormat) -> EventFormat:
    """Leave the address of the family out where the address for both families, such as `saddr_v6`, says the same."""
    readers = dict(zip(found.columns, found.readers, strict=True))
    for name, _ in ENDS:
        if name in readers and name + _SIXTH in readers:
            readers[name] = readers.pop(name + _SIXTH)
    columns = {name: found.columns[name] for name in readers}
    return replace(found, columns=columns, readers=list(readers.values()))


def read_pages(pages: Iterable[bytes]) -> Iterator[tuple[int, int, bytes]]:
    """Yield the time (ns of the kernel's clock), the number and the record of each event. Raises ValueError."""
    for page in pages:
        try:
            yield from _read_page(page)
        except struct.error:
            raise ValueError("a page of trace events is cut") from None


def _read_page(page: bytes) -> Iterator[tuple[int, int, bytes]]:
    at_ns, length = _HEAD.unpack_from(page)
    at, end = _HEAD.size, min(_HEAD.size + (length & _LENGTH_BITS), len(page))
    while at < end:
        word = _WORD.unpack_from(page, at)[0]
        kind, passed = word & 31, word >> 5
        at += 4
        if kind == _TIME_EXTEND:
            at_ns += passed + (_WORD.unpack_from(page, at)[0] << _TIME_BITS)
            at += 4
            continue
        if kind == _TIME_STAMP:
            # the kernel keeps the upper bits, which are those of the time before
            at_ns = (at_ns & _STAMP_TOP) | passed | (_WORD.unpack_from(page, at)[0] << _TIME_BITS)
            at += 4
            continue
        if kind == _PADDING:
            if not passed:
                return
            at_ns += passed
            at += _WORD.unpack_from(page, at)[0]
            continue
        at_ns += passed
        # a kind from 1 to 28 is a length in words; for 0 the length follows, and counts itself
        size = 4 * kind if kind else _WORD.unpack_from(page, at)[0] - 4
        at += 0 if kind else 4
        record = page[at : at + size]
        yield at_ns, _EVENT_NUMBER.unpack_from(record)[0], record
        at += max(4, (size + 3) & ~3)


def split_pages(content: bytes) -> Iterator[bytes]:
    """Yield the pages of a record's entry, one after the other."""
    at = 0
    while at + _HEAD.size <= len(content):
        end = at + _HEAD.size + (_HEAD.unpack_from(content, at)[1] & _LENGTH_BITS)
        yield content[at:end]
        at = end
