"""A bounds-checked, read-only reader of flatbuffer tables.

Comes from: the bytes of an untrusted file, a model or a program. Goes to: ``tflite_reader`` and
``npu.program_reader``, as tables, numbers, strings and read-only views. Refuses every offset,
length and string that does not lie inside the file, and files whose sharing would make reading cost
far more than their size: with ``ModelError``, or what a subclass says.

The accessors of the ``flatbuffers`` package follow offsets without checking them; this module has
none of its own trust in the file: each access is checked where it happens. Layout (documented by
the flatbuffers project): a table starts with a signed offset back to its vtable; the vtable holds
its own size, the table's size, then one 16-bit field offset per slot (0 = default); strings,
vectors and tables are reached by unsigned 32-bit offsets relative to where the offset lies.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from delegate.errors import DelegateError, ModelError

_UINT16 = struct.Struct("<H")
_INT32 = struct.Struct("<i")
_UINT32 = struct.Struct("<I")

# The flatbuffers verifier's own default; TensorFlow Lite refuses larger files when it verifies.
MAX_TABLES = 1_000_000

# Tables, vectors and strings that become Python objects may together take this many times the
# file's size. Unshared content takes at most one; the rest is room for writers that share equal
# strings and vectors. It keeps a small file whose tables all point to one huge vector from costing
# hours.
SHARING_FACTOR = 4
SHARING_MINIMUM_BYTES = 1 << 16

OFFSET_BYTES = 4
_IDENTIFIER_BYTES = 4
_ROOT_BYTES = 8
_VTABLE_HEADER_BYTES = 4
_LARGEST_NUMBER_BYTES = 8
_LEAST_TABLE_BYTES = 8  # its vtable offset, and the offset that leads to it


class FlatbufferReader:
    """One file: its bytes, its name for messages, and what may still be read from it."""

    __slots__ = ("_bytes_left", "_tables_left", "data", "size", "source")

    IS_STRICT = False
    """True if numbers must be aligned and texts terminated, as every writer does it: models of old
    converters break that, and the runtime reads them.
    """

    def __init__(self, data: memoryview, source: str) -> None:
        self.data = data
        self.size = len(data)
        self.source = source
        self._tables_left = MAX_TABLES
        self._bytes_left = SHARING_FACTOR * self.size + SHARING_MINIMUM_BYTES

    def fail(self, what: str) -> DelegateError:
        """The error for this file, to be raised by the caller."""
        return ModelError(f"{self.source}: {what}")

    def corrupt(self, where: str, what: str) -> DelegateError:
        return self.fail(f"corrupt model: {where}: {what} (file of {self.size} bytes)")

    def root(self, identifier: bytes, format_name: str) -> Table:
        """The root table of a file with ``identifier`` in its bytes 4 to 7."""
        if self.size < _ROOT_BYTES:
            raise self.fail(f"truncated: {self.size} bytes are too few for a {format_name} file")
        found = bytes(self.data[OFFSET_BYTES : OFFSET_BYTES + _IDENTIFIER_BYTES])
        if found != identifier:
            raise self.fail(
                f"not a {format_name} file: it does not have the letters {identifier.decode()} "
                "behind its first four bytes"
            )
        return self.table_at(self.follow(0, "root"), "model")

    def follow(self, position: int, where: str) -> int:
        """The absolute position that the unsigned offset at ``position`` points to."""
        self.check(position, OFFSET_BYTES, where, OFFSET_BYTES)
        offset = int(_UINT32.unpack_from(self.data, position)[0])
        target = position + offset
        if offset == 0 or target >= self.size:
            raise self.corrupt(where, f"offset {offset} at byte {position} leaves the file")
        return target

    def check(self, position: int, count: int, where: str, alignment: int = 1) -> None:
        """Raises unless ``count`` bytes at ``position`` lie inside the file, aligned if that
        counts.
        """
        if position < 0 or position + count > self.size:
            raise self.corrupt(where, f"{count} bytes at byte {position} leave the file")
        if self.IS_STRICT and position % alignment:
            raise self.corrupt(where, f"what lies at byte {position} is not aligned")

    def charge(self, count: int, where: str) -> None:
        """Books ``count`` bytes that will be turned into Python objects."""
        self._bytes_left -= count
        if self._bytes_left < 0:
            raise self.corrupt(
                where,
                f"the tables share so much that they describe over {SHARING_FACTOR}x the file",
            )

    def table_at(self, position: int, where: str) -> Table:
        """The table at ``position``, its vtable checked."""
        self._tables_left -= 1
        if self._tables_left < 0:
            raise self.corrupt(where, f"more than {MAX_TABLES} tables")
        self.charge(_LEAST_TABLE_BYTES, where)
        self.check(position, OFFSET_BYTES, where, OFFSET_BYTES)
        vtable = position - int(_INT32.unpack_from(self.data, position)[0])
        self.check(vtable, _VTABLE_HEADER_BYTES, where, 2)
        vtable_bytes = int(_UINT16.unpack_from(self.data, vtable)[0])
        table_bytes = int(_UINT16.unpack_from(self.data, vtable + 2)[0])
        if vtable_bytes < _VTABLE_HEADER_BYTES or vtable_bytes % 2:
            raise self.corrupt(where, f"vtable of {vtable_bytes} bytes at byte {vtable}")
        self.check(vtable, vtable_bytes, where)
        if table_bytes < OFFSET_BYTES:
            raise self.corrupt(where, f"table of {table_bytes} bytes at byte {position}")
        self.check(position, table_bytes, where)
        return Table(self, position, table_bytes, vtable, vtable_bytes, where)


@dataclass(frozen=True, slots=True)
class Table:
    """A checked table. ``where`` names it in messages ("subgraph 0 tensor 3").

    Every getter takes the field's slot; an absent field gives the default, ``None`` or nothing.
    """

    reader: FlatbufferReader
    position: int
    table_bytes: int
    vtable: int
    vtable_bytes: int
    where: str

    def position_of(self, slot: int, count: int) -> int:
        """Absolute position of the field of ``count`` bytes, of a reference its own offset's; 0 if
        absent.
        """
        entry = _VTABLE_HEADER_BYTES + 2 * slot
        if entry + 2 > self.vtable_bytes:
            return 0
        offset = int(_UINT16.unpack_from(self.reader.data, self.vtable + entry)[0])
        if offset == 0:
            return 0
        if offset < OFFSET_BYTES or offset + count > self.table_bytes:
            raise self.reader.corrupt(
                self.where, f"field {slot} lies at {offset} of {self.table_bytes} bytes"
            )
        self.reader.check(self.position + offset, count, self.where, count)
        return self.position + offset

    def raw_number(self, slot: int, size_bytes: int) -> bytes:
        """The bytes of a number; none if absent."""
        position = self.position_of(slot, size_bytes)
        return bytes(self.reader.data[position : position + size_bytes]) if position else b""

    def raw_vector(self, slot: int, item_bytes: int) -> memoryview:
        """The bytes of a vector or text, as a view of the file; empty if absent."""
        start, count = self._vector(slot, item_bytes)
        self.reader.charge(count * item_bytes, self.where)
        return self.reader.data[start : start + count * item_bytes]

    def number(self, slot: int, fmt: struct.Struct, default: float = 0) -> Any:
        """A field of one number, as ``fmt`` says."""
        position = self.position_of(slot, fmt.size)
        return fmt.unpack_from(self.reader.data, position)[0] if position else default

    def string(self, slot: int) -> str:
        """A UTF-8 string; "" if absent."""
        start, count = self._vector(slot, 1)
        self.reader.charge(count, self.where)
        end = start + count
        if self.reader.IS_STRICT and start and bytes(self.reader.data[end : end + 1]) != b"\0":
            raise self.reader.corrupt(self.where, f"text in field {slot} is not terminated")
        try:
            return str(self.reader.data[start : start + count], "utf-8")
        except UnicodeDecodeError as error:
            raise self.reader.corrupt(
                self.where, f"text in field {slot} is not UTF-8: {error.reason}"
            ) from None

    def table(self, slot: int, name: str) -> Table | None:
        """A child table, called ``name`` in messages."""
        position = self.position_of(slot, OFFSET_BYTES)
        if not position:
            return None
        where = f"{self.where} {name}"
        return self.reader.table_at(self.reader.follow(position, where), where)

    def tables(self, slot: int, name: str, prefix: str = "") -> Iterator[Table]:
        """The tables of a vector, one by one, called ``prefix name index`` in messages."""
        start, count = self._vector(slot, OFFSET_BYTES)
        for i in range(count):
            where = f"{prefix}{name} {i}"
            target = self.reader.follow(start + OFFSET_BYTES * i, where)
            yield self.reader.table_at(target, where)

    def vector(self, slot: int, dtype: np.dtype[np.generic]) -> npt.NDArray[np.generic]:
        """A vector of numbers as a read-only view of the file; empty if absent."""
        start, count = self._vector(slot, dtype.itemsize)
        return np.asarray(self.reader.data[start : start + count * dtype.itemsize]).view(dtype)

    def values(self, slot: int, dtype: np.dtype[np.generic]) -> tuple[Any, ...]:
        """A vector of numbers as Python numbers; booked against the file's size."""
        view = self.vector(slot, dtype)
        self.reader.charge(view.nbytes, self.where)
        return tuple(view.tolist())

    def _vector(self, slot: int, item_bytes: int) -> tuple[int, int]:
        """First byte and number of items of a vector; (0, 0) if absent."""
        position = self.position_of(slot, OFFSET_BYTES)
        if not position:
            return 0, 0
        start = self.reader.follow(position, self.where)
        self.reader.check(start, OFFSET_BYTES, self.where, OFFSET_BYTES)
        count = int(_UINT32.unpack_from(self.reader.data, start)[0])
        start += OFFSET_BYTES
        if count:  # items of more than 8 bytes are structures of such numbers
            self.reader.check(start, 0, self.where, min(item_bytes, _LARGEST_NUMBER_BYTES))
        if start + count * item_bytes > self.reader.size:
            raise self.reader.corrupt(
                self.where, f"field {slot} claims {count} items of {item_bytes} bytes"
            )
        return start, count
