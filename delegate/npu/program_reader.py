"""Bytes to a Program: the inverse of ``program_writer``, for untrusted files.

Never trusts the file: format, version, checksum, every offset and then everything ``program_check``
demands; any deviation is one ProgramError.
"""

from __future__ import annotations

import struct
import zlib

from delegate.chip.element import Element
from delegate.errors import ProgramError
from delegate.lower.task import BufferId, Fold, Ref, TensorBinding
from delegate.npu.flat_reader import Table, corrupt, root_table
from delegate.npu.program_check import check_program
from delegate.npu.program_types import (
    FORMAT_VERSION,
    Program,
    ProgramBuffer,
    ProgramLayer,
    ProgramTask,
    Reloc,
)
from delegate.npu.program_writer import (
    CHECKSUM_BYTES,
    CHECKSUM_SLOT,
    CHIP_SLOT,
    FILE_IDENTIFIER,
    FOLD_FIELDS,
    FOLD_SLOT,
)

RELOC_BYTES = 16


def parse(data: bytes) -> Program:
    """The Program in ``data``. Raises ProgramError unless every rule holds."""
    data = bytes(data)
    root = root_table(data, FILE_IDENTIFIER)
    version = root.number(0, "uint32")
    if version != FORMAT_VERSION:
        raise ProgramError(
            f"program file has format version {version}, this package reads {FORMAT_VERSION}; "
            "compile the model again"
        )
    _check_sum(data, root)
    program = Program(
        chip=root.text(CHIP_SLOT),
        compiler=root.text(1),
        name=root.text(2),
        buffers=tuple(
            ProgramBuffer(table.number(0, "uint64"), table.bytes(1)) for table in root.tables(3)
        ),
        relocs=_relocs(data, root),
        layers=tuple(
            ProgramLayer(table.text(0), table.text(1), table.integers(2))
            for table in root.tables(5)
        ),
        tasks=tuple(_task(table) for table in root.tables(6)),
        inputs=tuple(_binding(table) for table in root.tables(7)),
        outputs=tuple(_binding(table) for table in root.tables(8)),
    )
    check_program(program)
    return program


def _check_sum(data: bytes, root: Table) -> None:
    position = root.field(CHECKSUM_SLOT, CHECKSUM_BYTES)
    if position is None:
        raise corrupt("it has no checksum")
    view = memoryview(data)  # slices of bytes would copy megabytes
    before = zlib.crc32(view[:position])
    middle = zlib.crc32(bytes(CHECKSUM_BYTES), before)
    expected = zlib.crc32(view[position + CHECKSUM_BYTES :], middle)
    if root.number(CHECKSUM_SLOT, "uint64") != expected:
        raise corrupt("the checksum does not match")


def _buffer_id(number: int) -> BufferId:
    try:
        return BufferId(number)
    except ValueError:
        raise corrupt(f"there is no buffer {number}") from None


def _element(code: int) -> Element:
    try:
        return Element(code)
    except ValueError:
        raise corrupt(f"there is no element type {code}") from None


def _relocs(data: bytes, root: Table) -> tuple[Reloc, ...]:
    first, count = root.vector(4, RELOC_BYTES)
    if count and first % 8:
        raise corrupt("the relocations are not aligned")
    rows = struct.iter_unpack("<IIQ", data[first : first + count * RELOC_BYTES])
    return tuple(Reloc(word, _buffer_id(buffer), addend) for word, buffer, addend in rows)


def _task(table: Table) -> ProgramTask:
    return ProgramTask(
        regcmd_offset=table.number(0, "uint32"),
        regcmd_count=table.number(1, "uint32"),
        enable_mask=table.number(2, "uint32"),
        int_mask=table.number(3, "uint32"),
        layer=table.number(4, "uint32"),
        job=table.number(5, "uint32"),
        tile=table.text(6),
        npu_cycles=table.number(7, "uint64"),
        ddr_cycles=table.number(8, "uint64"),
        bytes=table.number(9, "uint64"),
        stage=table.number(10, "uint32"),
        core=table.number(11, "uint32"),
    )


def _binding(table: Table) -> TensorBinding:
    return TensorBinding(
        tensor=table.number(0, "int32"),
        name=table.text(1),
        shape=table.integers(2),
        element=_element(table.number(3, "uint8")),
        images=table.number(4, "uint32"),
        height=table.number(5, "uint32"),
        width=table.number(6, "uint32"),
        channels=table.number(7, "uint32"),
        surfaces=table.number(8, "uint32"),
        surface_stride_bytes=table.number(9, "uint64"),
        image_stride_bytes=table.number(10, "uint64"),
        location=Ref(_buffer_id(table.number(11, "uint32")), table.number(12, "uint64")),
        fill=table.number(13, "int8"),
        fold=_fold(table),
    )


def _fold(table: Table) -> Fold | None:
    values = [
        table.number(slot, "uint32") for slot in range(FOLD_SLOT, FOLD_SLOT + len(FOLD_FIELDS))
    ]
    if not any(values):
        return None
    return Fold(**dict(zip(FOLD_FIELDS, values, strict=True)))
