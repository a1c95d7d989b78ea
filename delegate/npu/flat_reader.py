"""Reads untrusted flatbuffers: every offset, length and alignment is checked before use.

The flatbuffers package verifies nothing when it reads; a corrupt file would give wrong values or
raise whatever ``struct`` raises. Here every deviation is one ProgramError.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from delegate.errors import ProgramError

_FORMATS = {
    "uint8": ("<B", 1),
    "int8": ("<b", 1),
    "uint16": ("<H", 2),
    "uint32": ("<I", 4),
    "int32": ("<i", 4),
    "uint64": ("<Q", 8),
}

MAX_FILE_BYTES = 1 << 31
"""Offsets of the format are 31 bits."""


def corrupt(problem: str) -> ProgramError:
    """The error for a file that is not a well-formed program."""
    return ProgramError(f"program file is corrupt: {problem}; compile the model again")


def read_scalar(data: bytes, position: int, kind: str) -> int:
    """The little-endian number at ``position``; ProgramError outside the file or unaligned."""
    form, size = _FORMATS[kind]
    if position < 0 or position + size > len(data):
        raise corrupt(f"a value at byte {position} lies outside the file")
    if position % size:
        raise corrupt(f"a value at byte {position} is not aligned")
    (value,) = struct.unpack_from(form, data, position)
    return int(value)


def root_table(data: bytes, identifier: bytes) -> Table:
    """The root table of a file with this four-byte identifier."""
    if len(data) < 8 or len(data) > MAX_FILE_BYTES:
        raise corrupt(f"{len(data)} bytes cannot be a program")
    if data[4:8] != identifier:
        raise corrupt(f"it does not carry the identifier {identifier.decode()}")
    return open_table(data, read_scalar(data, 0, "uint32"))


def open_table(data: bytes, position: int) -> Table:
    """The table at ``position`` after checking its vtable."""
    vtable = position - read_scalar(data, position, "int32")
    vtable_bytes = read_scalar(data, vtable, "uint16")
    table_bytes = read_scalar(data, vtable + 2, "uint16")
    if vtable_bytes < 4 or vtable_bytes % 2 or vtable + vtable_bytes > len(data):
        raise corrupt(f"the vtable at byte {vtable} has a wrong size")
    if table_bytes < 4 or position + table_bytes > len(data):
        raise corrupt(f"the table at byte {position} has a wrong size")
    return Table(data, position, table_bytes, vtable, vtable_bytes)


@dataclass(frozen=True, slots=True)
class Table:
    """A table whose extent and vtable lie inside the file. Slots are the ids of the schema."""

    data: bytes
    position: int
    table_bytes: int
    vtable: int
    vtable_bytes: int

    def field(self, slot: int, size: int) -> int | None:
        """The position of a field of ``size`` bytes, or None when the file leaves it out."""
        entry = 4 + 2 * slot
        if entry + 2 > self.vtable_bytes:
            return None
        offset = read_scalar(self.data, self.vtable + entry, "uint16")
        if offset == 0:
            return None
        if offset < 4 or offset + size > self.table_bytes:
            raise corrupt(f"field {slot} of the table at byte {self.position} lies outside it")
        return self.position + offset

    def number(self, slot: int, kind: str) -> int:
        """A scalar field; absent fields are 0."""
        position = self.field(slot, _FORMATS[kind][1])
        return 0 if position is None else read_scalar(self.data, position, kind)

    def flag(self, slot: int) -> bool:
        """A boolean field."""
        value = self.number(slot, "uint8")
        if value > 1:
            raise corrupt(f"field {slot} of the table at byte {self.position} is no boolean")
        return bool(value)

    def vector(self, slot: int, item_bytes: int) -> tuple[int, int]:
        """Position of the first item and number of items; (0, 0) when absent."""
        position = self.field(slot, 4)
        if position is None:
            return 0, 0
        start = position + read_scalar(self.data, position, "uint32")
        count = read_scalar(self.data, start, "uint32")
        first = start + 4
        if count * item_bytes > len(self.data) - first:
            raise corrupt(f"the vector at byte {start} reaches past the end of the file")
        return first, count

    def bytes(self, slot: int) -> bytes:
        """A vector of bytes."""
        first, count = self.vector(slot, 1)
        return self.data[first : first + count]

    def text(self, slot: int) -> str:
        """A string: UTF-8 with a zero byte after it."""
        first, count = self.vector(slot, 1)
        if first and (first + count >= len(self.data) or self.data[first + count] != 0):
            raise corrupt(f"the string at byte {first} is not terminated")
        try:
            return self.data[first : first + count].decode("utf-8")
        except UnicodeDecodeError:
            raise corrupt(f"the string at byte {first} is not UTF-8") from None

    def integers(self, slot: int) -> tuple[int, ...]:
        """A vector of int32."""
        first, count = self.vector(slot, 4)
        if first % 4:
            raise corrupt(f"the vector at byte {first} is not aligned")
        return struct.unpack_from(f"<{count}i", self.data, first) if count else ()

    def tables(self, slot: int) -> tuple[Table, ...]:
        """A vector of tables."""
        first, count = self.vector(slot, 4)
        places = (first + 4 * index for index in range(count))
        return tuple(
            open_table(self.data, place + read_scalar(self.data, place, "uint32"))
            for place in places
        )
