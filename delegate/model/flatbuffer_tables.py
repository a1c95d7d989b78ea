"""Flatbuffer tables as values that can be changed, and back to bytes.

Comes from: a checked ``Table`` of the reader. Goes to: the bytes of a new file, built from its root
forward: parents before children, fields by size, equal values give equal bytes. Refuses
(``ModelError``) fields that the schema of ``delegate.model.tflite_schema`` does not list.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from delegate.errors import DelegateError, ModelError
from delegate.model import tflite_schema
from delegate.model.flatbuffer_reader import Table
from delegate.model.tflite_schema import (
    PLACEHOLDER_OFFSET,
    BufferSlot,
    ModelSlot,
    OperatorSlot,
    SubGraphSlot,
)

_UINT8 = struct.Struct("<B")
_VTABLE_HEADER_BYTES = 4
_REFERENCE_BYTES = 4
_TABLE_ALIGNMENT = 8  # the largest number's
_ALIGNMENT_BYTES = 16  # of the file, and of what the schema calls bytes
_MAX_FILE_BYTES = (1 << 31) - 1  # of a flatbuffer

_UNSIGNED = {1: "<B", 2: "<H", 4: "<I", 8: "<Q"}


@dataclass(slots=True)
class Items:
    """A vector of numbers, or a text (``is_text``)."""

    content: bytes | memoryview
    item_bytes: int = 1
    alignment: int = 1
    is_text: bool = False


@dataclass(slots=True)
class OptionsValue:
    """A table copied as it lies: ``inline`` bytes at ``phase`` modulo 8, with its vtable."""

    inline: bytes
    vtable: bytes
    phase: int
    references: dict[int, Items] = field(default_factory=dict)


@dataclass(slots=True)
class TableValue:
    """A table: numbers as little-endian bytes, references as values, by slot."""

    fields: dict[int, Value] = field(default_factory=dict)

    def number(self, slot: int, default: int = 0) -> int:
        value = self.fields.get(slot)
        return int.from_bytes(value, "little") if isinstance(value, bytes) else default

    def set_number(self, slot: int, value: int, size_bytes: int) -> None:
        self.fields[slot] = struct.pack(_UNSIGNED[size_bytes], value)

    def children(self, slot: int) -> list[TableValue]:
        """The tables of a vector; a new list where the field is absent."""
        value = self.fields.get(slot)
        return value if isinstance(value, list) else []

    def integers(self, slot: int) -> list[int]:
        """The int32 numbers of a vector."""
        value = self.fields.get(slot)
        if not isinstance(value, Items):
            return []
        return [int(v) for v in np.frombuffer(value.content, "<i4")]

    def set_integers(self, slot: int, values: Sequence[int]) -> None:
        self.fields[slot] = Items(np.array(values, "<i4").tobytes(), 4, 4)

    def set_text(self, slot: int, text: str) -> None:
        self.fields[slot] = Items(text.encode(), is_text=True)


Value = bytes | Items | OptionsValue | TableValue | list[TableValue]


def read_table(table: Table, name: str) -> TableValue:
    """``table``, called ``name`` in the schema, and all below it. Vectors are views of the file."""
    kinds = dict(enumerate(tflite_schema.TABLES[name]))
    value = TableValue()
    for slot in range((table.vtable_bytes - _VTABLE_HEADER_BYTES) // 2):
        if not table.position_of(slot, 1):
            continue
        if kinds.get(slot, "-") == "-":
            raise _unknown(table, f"field {slot} of {name}")
        found = _read_field(table, slot, kinds[slot])
        if found is not None:
            value.fields[slot] = found
    return value


def _read_field(table: Table, slot: int, kind: str) -> Value | None:
    """``kind``: a word of the schema's rows."""
    if kind.isdigit():
        return table.raw_number(slot, int(kind))
    items = _read_items(table, slot, kind)
    if items is not None:
        return items
    if kind.startswith("["):
        return [read_table(t, kind[1:-1]) for t in table.tables(slot, kind[1:-1])]
    is_options = kind in tflite_schema.LAST_OPTIONS
    if not is_options and "|" not in kind:
        child = table.table(slot, kind)
        return None if child is None else read_table(child, kind)
    chosen = table.number(slot - 1, _UINT8)
    child = table.table(slot, "options")
    if child is None or chosen == 0:
        return None
    tables = [name for name in kind.split("|") if name]
    if chosen > (tflite_schema.LAST_OPTIONS[kind] if is_options else len(tables)):
        raise _unknown(table, f"content of type {chosen} in field {slot}")
    if is_options:
        return _read_options(child, tflite_schema.REFERENCES.get(f"{kind} {chosen}", ()))
    return read_table(child, tables[chosen - 1])


def _unknown(table: Table, what: str) -> DelegateError:
    return table.reader.fail(
        f"{table.where}: {what} is not known to this version: the model cannot be copied completely"
    )


def _read_items(table: Table, slot: int, kind: str) -> Items | None:
    """A text or numbers; None: ``kind`` is neither."""
    if kind == "text":
        return Items(table.raw_vector(slot, 1), is_text=True)
    if kind == "bytes":
        return Items(table.raw_vector(slot, 1), 1, _ALIGNMENT_BYTES)
    size = kind.strip("[]")
    if not size.isdigit():
        return None
    return Items(table.raw_vector(slot, int(size)), int(size), int(size))


def _read_options(table: Table, references: Sequence[str]) -> OptionsValue:
    data = table.reader.data
    value = OptionsValue(
        inline=bytes(data[table.position : table.position + table.table_bytes]),
        vtable=bytes(data[table.vtable : table.vtable + table.vtable_bytes]),
        phase=table.position % _TABLE_ALIGNMENT,
    )
    for slot, kind in enumerate(references):
        items = _read_items(table, slot, kind) if table.position_of(slot, 1) else None
        if items is not None:
            value.references[slot] = items
    return value


def write_file(root: TableValue, identifier: bytes) -> bytes:
    """The file with this root. Raises ModelError beyond the 2 GiB of a flatbuffer."""
    writer = _Writer()
    writer.out += bytes(_REFERENCE_BYTES) + identifier
    writer.reference(0, root)
    writer.pad_to(writer.end, _ALIGNMENT_BYTES)
    return bytes(writer.out)


class _Writer:
    def __init__(self) -> None:
        self.out = bytearray()
        self._vtables: dict[bytes, int] = {}

    @property
    def end(self) -> int:
        return len(self.out)

    def pad_to(self, position: int, alignment: int, phase: int = 0) -> None:
        """Appends zeros up to ``position``, then until the end is ``phase`` modulo alignment."""
        missing = max(position - self.end, 0)
        missing += (phase - self.end - missing) % alignment
        self.out += bytes(missing)

    def reference(self, place: int, value: Value) -> None:
        """Writes ``value`` at the end and its offset at ``place``."""
        if isinstance(value, TableValue):
            target, references = self._table(value)
        elif isinstance(value, OptionsValue):
            target, references = self._options(value)
        elif isinstance(value, list):
            target, references = self._tables(value)
        elif isinstance(value, Items):
            target, references = self._items(value), []
        else:
            raise TypeError("a number is no reference")
        if self.end > _MAX_FILE_BYTES:
            raise ModelError("the compiled model exceeds the 2 GiB of a flatbuffer")
        struct.pack_into("<I", self.out, place, target - place)
        for child_place, child in references:
            self.reference(child_place, child)

    def _vtable(self, content: bytes) -> int:
        """Position of a vtable with this content, written if it is new."""
        if content not in self._vtables:
            self.pad_to(0, 2)
            self._vtables[content] = self.end
            self.out += content
        return self._vtables[content]

    def _start_table(self, vtable: bytes, phase: int) -> int:
        vtable_position = self._vtable(vtable)
        self.pad_to(0, _TABLE_ALIGNMENT, phase)
        position = self.end
        self.out += struct.pack("<i", position - vtable_position)
        return position

    def _table(self, table: TableValue) -> tuple[int, list[tuple[int, Value]]]:
        sizes = {
            slot: len(value) if isinstance(value, bytes) else _REFERENCE_BYTES
            for slot, value in table.fields.items()
        }
        offsets: dict[int, int] = {}
        size = _REFERENCE_BYTES
        for slot in sorted(sizes, key=lambda slot: (-sizes[slot], slot)):
            size += -size % sizes[slot]
            offsets[slot] = size
            size += sizes[slot]
        slots = max(sizes, default=-1) + 1
        vtable = struct.pack(
            f"<{2 + slots}H", 4 + 2 * slots, size, *(offsets.get(slot, 0) for slot in range(slots))
        )
        position = self._start_table(vtable, 0)
        self.out += bytes(size - _REFERENCE_BYTES)
        references: list[tuple[int, Value]] = []
        for slot in sorted(offsets):
            value, place = table.fields[slot], position + offsets[slot]
            if isinstance(value, bytes):
                self.out[place : place + len(value)] = value
            else:
                references.append((place, value))
        return position, references

    def _options(self, options: OptionsValue) -> tuple[int, list[tuple[int, Value]]]:
        position = self._start_table(options.vtable, options.phase)
        self.out += options.inline[_REFERENCE_BYTES:]
        references: list[tuple[int, Value]] = []
        for slot in sorted(options.references):
            entry = _VTABLE_HEADER_BYTES + 2 * slot
            offset = int(struct.unpack_from("<H", options.vtable, entry)[0])
            references.append((position + offset, options.references[slot]))
        return position, references

    def _tables(self, tables: list[TableValue]) -> tuple[int, list[tuple[int, Value]]]:
        self.pad_to(0, _REFERENCE_BYTES)
        position = self.end
        self.out += struct.pack("<I", len(tables)) + bytes(_REFERENCE_BYTES * len(tables))
        return position, [
            (position + _REFERENCE_BYTES * (1 + i), table) for i, table in enumerate(tables)
        ]

    def _items(self, items: Items) -> int:
        content = memoryview(items.content).cast("B")
        self.pad_to(0, max(items.alignment, 4), -4 % max(items.alignment, 4))
        position = self.end
        self.out += struct.pack("<I", len(content) // items.item_bytes)
        self.out += content
        if items.is_text:
            self.out += b"\0"
        return position


# Operator.large_custom_options_offset and _size: options outside the flatbuffer, for large files.
_LARGE_OPTIONS_OFFSET, _LARGE_OPTIONS_SIZE = 9, 10


def bring_inside(root: TableValue, content: memoryview) -> None:
    """Make what the file keeps outside the flatbuffer part of it. Raises ModelError."""
    tables: list[tuple[TableValue, int, int, int]] = [
        (buffer, BufferSlot.OFFSET, BufferSlot.SIZE, BufferSlot.DATA)
        for buffer in root.children(ModelSlot.BUFFERS)
    ]
    tables += [
        (operator, _LARGE_OPTIONS_OFFSET, _LARGE_OPTIONS_SIZE, OperatorSlot.CUSTOM_OPTIONS)
        for subgraph in root.children(ModelSlot.SUBGRAPHS)
        for operator in subgraph.children(SubGraphSlot.OPERATORS)
    ]
    for table, offset_slot, size_slot, target in tables:
        offset, size = table.number(offset_slot), table.number(size_slot)
        table.fields.pop(offset_slot, None)
        table.fields.pop(size_slot, None)
        if offset <= PLACEHOLDER_OFFSET:
            continue
        if offset + size > len(content):
            raise ModelError(f"corrupt model: {size} bytes at byte {offset} leave the file")
        table.fields[target] = Items(content[offset : offset + size], 1, _ALIGNMENT_BYTES)
