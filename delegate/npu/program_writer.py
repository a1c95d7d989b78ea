"""A Program to bytes: the flatbuffer of program.fbs; equal Programs give equal bytes."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence
from typing import TypeVar

import flatbuffers
import numpy as np

from delegate.lower.lowered import TensorBinding
from delegate.npu.format_version import FORMAT_VERSION
from delegate.npu.program_check import check_program
from delegate.npu.program_types import (
    Program,
    ProgramBuffer,
    ProgramLayer,
    ProgramTask,
    Reloc,
)

FILE_IDENTIFIER = b"RKNP"

CHECKSUM_SLOT = 9
"""Id of Program.checksum in program.fbs."""

CHECKSUM_BYTES = 8

CHIP_SLOT = 10
"""Id of Program.chip."""

FOLD_SLOT = 14
"""Id of Binding.fold_height; the other fields of ``Fold`` follow in this order."""

FOLD_FIELDS = (
    "height",
    "width",
    "channels",
    "window_h",
    "window_w",
    "step_h",
    "step_w",
    "top",
    "left",
)

AFFINE_SLOT = FOLD_SLOT + len(FOLD_FIELDS)
"""Id of Binding.affine_scale; zero point and element follow."""

TABLE_SLOT = AFFINE_SLOT + 3
"""Id of Binding.table."""

SPREAD_SLOT = TABLE_SLOT + 1
"""Id of Binding.is_spread; the fields of ``Spread`` follow in this order."""

SPREAD_FIELDS = ("first", "image", "row", "pixel", "channel")

_MOST_RECORD_BYTES = 320
"""Of a table with its vtable, without the strings and vectors in it."""

_CHECKSUM_PLACEHOLDER = (1 << 64) - 1
"""Anything but the default 0, which the builder would leave out."""


def serialize(program: Program) -> bytes:
    """The bytes of ``program``. Raises ProgramError when it is inconsistent."""
    return bytes(serialized(program))


def serialized(program: Program) -> bytearray:
    """``serialize`` without its last copy, for who can give up ``program`` before it is made."""
    check_program(program)
    builder = flatbuffers.Builder(_size_bytes(program))
    chip = builder.CreateString(program.chip)
    compiler = builder.CreateString(program.compiler)
    name = builder.CreateString(program.name)
    buffers = _vector(builder, program.buffers, _buffer)
    relocs = _relocs(builder, program.relocs)
    layers = _vector(builder, program.layers, _layer)
    tasks = _vector(builder, program.tasks, _task)
    inputs = _vector(builder, program.inputs, _binding)
    outputs = _vector(builder, program.outputs, _binding)
    builder.StartObject(CHIP_SLOT + 1)
    builder.PrependUOffsetTRelativeSlot(CHIP_SLOT, chip, 0)
    builder.PrependUint64Slot(CHECKSUM_SLOT, _CHECKSUM_PLACEHOLDER, 0)
    builder.PrependUint32Slot(0, FORMAT_VERSION, 0)
    for slot, offset in enumerate(
        (compiler, name, buffers, relocs, layers, tasks, inputs, outputs), start=1
    ):
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
    """At least what the file takes: a builder without room doubles its memory."""
    content_bytes = sum(len(item.content) for item in program.buffers)
    bindings = len(program.inputs) + len(program.outputs)
    records = len(program.tasks) + len(program.layers) + len(program.relocs) + bindings
    names_bytes = sum(len(layer.name) + 8 * len(layer.nodes) for layer in program.layers)
    names_bytes += sum(len(task.tile) for task in program.tasks)
    content_bytes += sum(len(binding.table) for binding in program.inputs)
    return content_bytes + 4 * names_bytes + _MOST_RECORD_BYTES * (records + 16)


def checksum_position(data: bytes | bytearray) -> int:
    """Where the checksum lies in a well-formed file."""
    (table,) = struct.unpack_from("<I", data, 0)
    (back,) = struct.unpack_from("<i", data, table)
    (offset,) = struct.unpack_from("<H", data, table - back + 4 + 2 * CHECKSUM_SLOT)
    return int(table + offset)


_T = TypeVar("_T")


def _end_table(builder: flatbuffers.Builder) -> int:
    """Ends the open table with a vtable of its own.

    Releases of the package differ in when they let tables share a vtable (23.5 even when their
    sizes differ), which would make the bytes depend on what is installed. So none is shared.
    """
    builder.vtables.clear()
    return int(builder.EndObject())


def _vector(
    builder: flatbuffers.Builder,
    items: Sequence[_T],
    write: Callable[[flatbuffers.Builder, _T], int],
) -> int:
    offsets = [write(builder, item) for item in items]
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return int(builder.EndVector())


def _int32_vector(builder: flatbuffers.Builder, values: Sequence[int]) -> int:
    return int(builder.CreateNumpyVector(np.array(values, dtype="<i4")))


def _buffer(builder: flatbuffers.Builder, item: ProgramBuffer) -> int:
    content = _large_byte_vector(builder, item.content)
    builder.StartObject(2)
    builder.PrependUint64Slot(0, item.size_bytes, 0)
    builder.PrependUOffsetTRelativeSlot(1, content, 0)
    return _end_table(builder)


def _large_byte_vector(builder: flatbuffers.Builder, content: bytes) -> int:
    """CreateByteVector, which copies ``content`` once more on its way."""
    builder.StartVector(1, len(content), 1)
    builder.head = builder.Head() - len(content)
    with memoryview(builder.Bytes) as memory:
        memory[builder.head : builder.head + len(content)] = content
    return int(builder.EndVector())


def _relocs(builder: flatbuffers.Builder, relocs: Sequence[Reloc]) -> int:
    builder.StartVector(16, len(relocs), 8)
    for reloc in reversed(relocs):
        builder.Prep(8, 16)
        builder.PrependUint64(reloc.addend)
        builder.PrependUint32(int(reloc.buffer))
        builder.PrependUint32(reloc.word)
    return int(builder.EndVector())


def _layer(builder: flatbuffers.Builder, layer: ProgramLayer) -> int:
    name = builder.CreateString(layer.name)
    op = builder.CreateString(layer.op)
    nodes = _int32_vector(builder, layer.nodes)
    builder.StartObject(3)
    for slot, offset in enumerate((name, op, nodes)):
        builder.PrependUOffsetTRelativeSlot(slot, offset, 0)
    return _end_table(builder)


def _task(builder: flatbuffers.Builder, task: ProgramTask) -> int:
    tile = builder.CreateString(task.tile)
    builder.StartObject(12)
    builder.PrependUint32Slot(0, task.regcmd_offset, 0)
    builder.PrependUint32Slot(1, task.regcmd_count, 0)
    builder.PrependUint32Slot(2, task.enable_mask, 0)
    builder.PrependUint32Slot(3, task.int_mask, 0)
    builder.PrependUint32Slot(4, task.layer, 0)
    builder.PrependUint32Slot(5, task.job, 0)
    builder.PrependUOffsetTRelativeSlot(6, tile, 0)
    builder.PrependUint64Slot(7, task.npu_cycles, 0)
    builder.PrependUint64Slot(8, task.ddr_cycles, 0)
    builder.PrependUint64Slot(9, task.bytes, 0)
    builder.PrependUint32Slot(10, task.epoch, 0)
    builder.PrependUint32Slot(11, task.core, 0)
    return _end_table(builder)


def _binding(builder: flatbuffers.Builder, binding: TensorBinding) -> int:
    name = builder.CreateString(binding.name)
    shape = _int32_vector(builder, binding.shape)
    fold, affine = binding.fold, binding.affine
    table = builder.CreateByteVector(binding.table) if binding.table else 0
    builder.StartObject(SPREAD_SLOT + 1 + len(SPREAD_FIELDS))
    builder.PrependInt32Slot(0, binding.tensor, 0)
    builder.PrependUOffsetTRelativeSlot(1, name, 0)
    builder.PrependUOffsetTRelativeSlot(2, shape, 0)
    builder.PrependUint8Slot(3, int(binding.element), 0)
    builder.PrependUint32Slot(4, binding.images, 0)
    builder.PrependUint32Slot(5, binding.height, 0)
    builder.PrependUint32Slot(6, binding.width, 0)
    builder.PrependUint32Slot(7, binding.channels, 0)
    builder.PrependUint32Slot(8, binding.surfaces, 0)
    builder.PrependUint64Slot(9, binding.surface_stride_bytes, 0)
    builder.PrependUint64Slot(10, binding.image_stride_bytes, 0)
    builder.PrependUint32Slot(11, int(binding.location.buffer), 0)
    builder.PrependUint64Slot(12, binding.location.offset, 0)
    builder.PrependInt8Slot(13, binding.fill, 0)
    if fold is not None:
        for slot, field in enumerate(FOLD_FIELDS, start=FOLD_SLOT):
            builder.PrependUint32Slot(slot, getattr(fold, field), 0)
    if affine is not None:
        builder.PrependFloat32Slot(AFFINE_SLOT, affine.scale, 0.0)
        builder.PrependInt32Slot(AFFINE_SLOT + 1, affine.zero_point, 0)
        builder.PrependUint8Slot(AFFINE_SLOT + 2, int(affine.element), 0)
    builder.PrependUOffsetTRelativeSlot(TABLE_SLOT, table, 0)
    if binding.spread is not None:
        builder.PrependUint8Slot(SPREAD_SLOT, 1, 0)
        for slot, field in enumerate(SPREAD_FIELDS, start=SPREAD_SLOT + 1):
            builder.PrependUint64Slot(slot, getattr(binding.spread, field), 0)
    return _end_table(builder)
