"""Bytes to a Program: the inverse of ``program_writer``, for untrusted files.

Never trusts the file: format, version, checksum, every offset and then everything ``program_check``
demands; any deviation is one ProgramError.
"""

from __future__ import annotations

import struct
import zlib

import numpy as np

from delegate.chip.element import Element
from delegate.errors import ProgramError
from delegate.lower.lowered import Affine, Fold, Spread, TensorBinding
from delegate.lower.task import BufferId, Ref
from delegate.model.flatbuffer_reader import FlatbufferReader, Table
from delegate.npu.format_version import FORMAT_VERSION
from delegate.npu.program_check import check_program
from delegate.npu.program_types import (
    Program,
    ProgramBuffer,
    ProgramLayer,
    ProgramTask,
    Reloc,
)
from delegate.npu.program_writer import (
    AFFINE_SLOT,
    CHECKSUM_BYTES,
    CHECKSUM_SLOT,
    CHIP_SLOT,
    FILE_IDENTIFIER,
    FOLD_FIELDS,
    FOLD_SLOT,
    SPREAD_FIELDS,
    SPREAD_SLOT,
    TABLE_SLOT,
)

RELOC_BYTES = 16

_UINT8, _INT8 = struct.Struct("<B"), struct.Struct("<b")
_UINT32, _INT32 = struct.Struct("<I"), struct.Struct("<i")
_UINT64, _FLOAT32 = struct.Struct("<Q"), struct.Struct("<f")
_INT32S = np.dtype("<i4")


class _ProgramFile(FlatbufferReader):
    """Programs have one writer, so that whatever it does not write is damage."""

    __slots__ = ()

    IS_STRICT = True

    def fail(self, what: str) -> ProgramError:
        return ProgramError(f"program file is corrupt: {what}; compile the model again")

    def corrupt(self, where: str, what: str) -> ProgramError:
        return self.fail(f"{where}: {what}")


def open_program(data: bytes) -> Table:
    """The root table. Raises ProgramError."""
    return _ProgramFile(memoryview(data), "program").root(FILE_IDENTIFIER, "program")


def parse(data: bytes) -> Program:
    """The Program in ``data``. Raises ProgramError unless every rule holds."""
    data = bytes(data)
    root = open_program(data)
    version = root.number(0, _UINT32)
    if version != FORMAT_VERSION:
        raise ProgramError(
            f"program file has format version {version}, this package reads {FORMAT_VERSION}; "
            "compile the model again"
        )
    _check_sum(data, root)
    program = Program(
        chip=root.string(CHIP_SLOT),
        compiler=root.string(1),
        name=root.string(2),
        buffers=tuple(
            ProgramBuffer(table.number(0, _UINT64), bytes(table.raw_vector(1, 1)))
            for table in root.tables(3, "buffer")
        ),
        relocs=_relocs(root),
        layers=tuple(
            ProgramLayer(table.string(0), table.string(1), _integers(table, 2))
            for table in root.tables(5, "layer")
        ),
        tasks=tuple(_task(table) for table in root.tables(6, "task")),
        inputs=tuple(_binding(table) for table in root.tables(7, "input")),
        outputs=tuple(_binding(table) for table in root.tables(8, "output")),
    )
    check_program(program)
    return program


def _check_sum(data: bytes, root: Table) -> None:
    position = root.number_position(CHECKSUM_SLOT, CHECKSUM_BYTES)
    if not position:
        raise root.reader.fail("it has no checksum")
    view = memoryview(data)  # slices of bytes would copy megabytes
    before = zlib.crc32(view[:position])
    middle = zlib.crc32(bytes(CHECKSUM_BYTES), before)
    expected = zlib.crc32(view[position + CHECKSUM_BYTES :], middle)
    if root.number(CHECKSUM_SLOT, _UINT64) != expected:
        raise root.reader.fail("the checksum does not match")


def _integers(table: Table, slot: int) -> tuple[int, ...]:
    return tuple(int(value) for value in table.values(slot, _INT32S))


def _element(table: Table, slot: int) -> Element:
    code = table.number(slot, _UINT8)
    try:
        return Element(code)
    except ValueError:
        raise table.reader.corrupt(table.where, f"there is no element type {code}") from None


def _buffer_id(table: Table, number: int) -> BufferId:
    try:
        return BufferId(number)
    except ValueError:
        raise table.reader.corrupt(table.where, f"there is no buffer {number}") from None


def _relocs(root: Table) -> tuple[Reloc, ...]:
    rows = struct.iter_unpack("<IIQ", root.raw_vector(4, RELOC_BYTES))
    return tuple(Reloc(word, _buffer_id(root, buffer), addend) for word, buffer, addend in rows)


def _task(table: Table) -> ProgramTask:
    return ProgramTask(
        regcmd_offset=table.number(0, _UINT32),
        regcmd_count=table.number(1, _UINT32),
        enable_mask=table.number(2, _UINT32),
        int_mask=table.number(3, _UINT32),
        layer=table.number(4, _UINT32),
        job=table.number(5, _UINT32),
        tile=table.string(6),
        npu_cycles=table.number(7, _UINT64),
        ddr_cycles=table.number(8, _UINT64),
        bytes=table.number(9, _UINT64),
        epoch=table.number(10, _UINT32),
        core=table.number(11, _UINT32),
    )


def _binding(table: Table) -> TensorBinding:
    return TensorBinding(
        tensor=table.number(0, _INT32),
        name=table.string(1),
        shape=_integers(table, 2),
        element=_element(table, 3),
        images=table.number(4, _UINT32),
        height=table.number(5, _UINT32),
        width=table.number(6, _UINT32),
        channels=table.number(7, _UINT32),
        surfaces=table.number(8, _UINT32),
        surface_stride_bytes=table.number(9, _UINT64),
        image_stride_bytes=table.number(10, _UINT64),
        location=Ref(_buffer_id(table, table.number(11, _UINT32)), table.number(12, _UINT64)),
        fill=table.number(13, _INT8),
        fold=_fold(table),
        affine=_affine(table),
        table=bytes(table.raw_vector(TABLE_SLOT, 1)),
        spread=_spread(table),
    )


def _spread(table: Table) -> Spread | None:
    values = [
        table.number(slot, _UINT64) for slot, _ in enumerate(SPREAD_FIELDS, start=SPREAD_SLOT + 1)
    ]
    is_spread = table.number(SPREAD_SLOT, _UINT8)
    if is_spread > 1 or (not is_spread and any(values)):
        raise table.reader.corrupt(table.where, f"its spread is {is_spread}, {values}")
    return Spread(**dict(zip(SPREAD_FIELDS, values, strict=True))) if is_spread else None


def _affine(table: Table) -> Affine | None:
    scale = float(table.value(AFFINE_SLOT, _FLOAT32, 0.0))
    if scale == 0:
        return None
    zero_point = table.number(AFFINE_SLOT + 1, _INT32)
    return Affine(scale, zero_point, _element(table, AFFINE_SLOT + 2))


def _fold(table: Table) -> Fold | None:
    values = [
        table.number(slot, _UINT32) for slot in range(FOLD_SLOT, FOLD_SLOT + len(FOLD_FIELDS))
    ]
    if not any(values):
        return None
    return Fold(**dict(zip(FOLD_FIELDS, values, strict=True)))
