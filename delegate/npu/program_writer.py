"""A Program to bytes: the flatbuffer of program.fbs; equal Programs give equal bytes."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import Any

import flatbuffers
import numpy as np

from delegate.npu import FORMAT_VERSION, program_types
from delegate.npu.program_check import check_program
from delegate.npu.program_types import (
    CHECKSUM_BYTES,
    FILE_IDENTIFIER,
    RELOC,
    Fields,
    Kind,
    Program,
    Slot,
)

_MOST_RECORD_BYTES = 320
"""The most bytes of a table with its vtable, without the strings and vectors in it."""

_RELOC_ALIGNMENT = 8
"""The alignment of its largest number."""

_CHECKSUM_PLACEHOLDER = (1 << 64) - 1
"""Anything but the default 0, which the builder would leave out."""


def serialize(program: Program) -> bytes:
    """Return the bytes of ``program``. Raises ProgramError when it is inconsistent."""
    return bytes(serialized(program))


def serialized(program: Program) -> bytearray:
    """``serialize`` without its last copy, for who can give up ``program`` before it is made."""
    check_program(program)
    builder = flatbuffers.Builder(_size_bytes(program))
    relocs = b"".join(RELOC.pack(item.word, item.buffer, item.addend) for item in program.relocs)
    chip = builder.CreateString(program.chip)
    content = {
        Slot.COMPILER: builder.CreateString(program.compiler),
        Slot.NAME: builder.CreateString(program.name),
        Slot.BUFFERS: _tables(builder, program_types.BUFFER, program.buffers),
        Slot.RELOCS: _byte_vector(builder, relocs, RELOC.size, _RELOC_ALIGNMENT),
        Slot.LAYERS: _tables(builder, program_types.LAYER, program.layers),
        Slot.TASKS: _tables(builder, program_types.TASK, program.tasks),
        Slot.INPUTS: _tables(builder, program_types.BINDING, program.inputs),
        Slot.OUTPUTS: _tables(builder, program_types.BINDING, program.outputs),
    }
    builder.StartObject(len(Slot))
    builder.PrependUOffsetTRelativeSlot(Slot.CHIP, chip, 0)
    builder.PrependUint64Slot(Slot.CHECKSUM, _CHECKSUM_PLACEHOLDER, 0)
    builder.PrependUint32Slot(Slot.VERSION, FORMAT_VERSION, 0)
    for slot, offset in content.items():
        builder.PrependUOffsetTRelativeSlot(slot, offset, 0)
    builder.Finish(_end_table(builder), file_identifier=FILE_IDENTIFIER)
    # The builder fills its memory from the end. The file is made within it: programs hold all
    # weights, and every copy of them counts while a model is loaded.
    data: bytearray = builder.Bytes
    del data[: builder.Head()]
    position = checksum_position(data)
    data[position : position + CHECKSUM_BYTES] = bytes(CHECKSUM_BYTES)
    struct.pack_into("<Q", data, position, zlib.crc32(data))
    return data


def _size_bytes(program: Program) -> int:
    """Return at least the bytes that the file takes: a builder without room doubles its memory."""
    content_bytes = sum(len(item.content) for item in program.buffers)
    bindings = len(program.inputs) + len(program.outputs)
    records = len(program.tasks) + len(program.layers) + len(program.relocs) + bindings
    names_bytes = sum(len(layer.name) + 8 * len(layer.nodes) for layer in program.layers)
    names_bytes += sum(len(task.tile) + len(task.form) for task in program.tasks)
    content_bytes += sum(len(binding.table) for binding in program.inputs)
    return content_bytes + 4 * names_bytes + _MOST_RECORD_BYTES * (records + 16)


def checksum_position(data: bytes | bytearray) -> int:
    """Return where the checksum lies in a well-formed file."""
    (table,) = struct.unpack_from("<I", data, 0)
    (back,) = struct.unpack_from("<i", data, table)
    (offset,) = struct.unpack_from("<H", data, table - back + 4 + 2 * Slot.CHECKSUM)
    return int(table + offset)


def _end_table(builder: flatbuffers.Builder) -> int:
    """Ends the open table with a vtable of its own.

    Releases of the package differ in when they let tables share a vtable (23.5 even when their
    sizes differ), which would make the bytes depend on what is installed. So none is shared.
    """
    builder.vtables.clear()
    return int(builder.EndObject())


def _tables(builder: flatbuffers.Builder, fields: Fields, items: Sequence[object]) -> int:
    """Return a vector of tables, one for each of ``items``."""
    offsets = [_table(builder, fields, item) for item in items]
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return int(builder.EndVector())


_NUMBERS = {
    Kind.UINT8: flatbuffers.Builder.PrependUint8Slot,
    Kind.INT8: flatbuffers.Builder.PrependInt8Slot,
    Kind.UINT32: flatbuffers.Builder.PrependUint32Slot,
    Kind.INT32: flatbuffers.Builder.PrependInt32Slot,
    Kind.UINT64: flatbuffers.Builder.PrependUint64Slot,
    Kind.FLOAT32: flatbuffers.Builder.PrependFloat32Slot,
}


def _table(builder: flatbuffers.Builder, fields: Fields, item: object) -> int:
    values = [
        _value(item, name) if kind in _NUMBERS else _content(builder, kind, getattr(item, name))
        for name, kind in fields.items()
    ]
    builder.StartObject(len(fields))
    for slot, (kind, value) in enumerate(zip(fields.values(), values, strict=True)):
        prepend = _NUMBERS.get(kind, flatbuffers.Builder.PrependUOffsetTRelativeSlot)
        prepend(builder, slot, value, 0)
    return _end_table(builder)


def _value(item: object, name: str) -> int | float:
    """0 in a part that is not there."""
    for part in name.split("."):
        item = 0 if item is None else getattr(item, part)
    assert isinstance(item, int | float)
    return item


def _content(builder: flatbuffers.Builder, kind: Kind, value: Any) -> int:
    """Return where ``value`` begins in the file; 0 if it is left out."""
    match kind:
        case Kind.TEXT:
            return int(builder.CreateString(value))
        case Kind.INT32S:
            return int(builder.CreateNumpyVector(np.array(value, dtype="<i4")))
        case Kind.BYTES_IF_ANY if not value:
            return 0
        case _:
            return _byte_vector(builder, value)


def _byte_vector(
    builder: flatbuffers.Builder, content: bytes, item_bytes: int = 1, alignment: int = 1
) -> int:
    """CreateByteVector, which copies ``content`` once more on its way."""
    builder.StartVector(item_bytes, len(content) // item_bytes, alignment)
    builder.head = builder.Head() - len(content)
    with memoryview(builder.Bytes) as memory:
        memory[builder.head : builder.head + len(content)] = content
    return int(builder.EndVector())
