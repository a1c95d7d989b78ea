"""Bytes to a Program: the inverse of ``program.serialize``, for untrusted files.

Never trusts the file: format, version, checksum, every offset and then everything ``program_check``
demands; any deviation is one ProgramError.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from delegate.chip.element import Element
from delegate.errors import ProgramError
from delegate.lower.lowered import Affine, Fold, Spread, TensorBinding
from delegate.lower.task import BufferId, Ref
from delegate.model.flatbuffer_reader import FlatbufferReader, Table
from delegate.npu import FORMAT_VERSION, program_types
from delegate.npu.program_check import check_program
from delegate.npu.program_types import (
    CHECKSUM_BYTES,
    FILE_IDENTIFIER,
    RELOC,
    Fields,
    Kind,
    Program,
    ProgramBuffer,
    ProgramLayer,
    ProgramTask,
    Reloc,
    Slot,
)

_NUMBERS = {kind: struct.Struct(kind.value) for kind in Kind if kind.value.startswith("<")}
_INT32S = np.dtype("<i4")

Values = Mapping[str, Any]


class _ProgramFile(FlatbufferReader):
    """Programs have one writer, so that whatever it does not write is damage."""

    __slots__ = ()

    IS_STRICT = True

    def fail(self, what: str) -> ProgramError:
        return ProgramError(f"program file is corrupt: {what}; compile the model again")

    def corrupt(self, where: str, what: str) -> ProgramError:
        return self.fail(f"{where}: {what}")


def open_program(data: bytes) -> Table:
    """Return the root table. Raises ProgramError."""
    return _ProgramFile(memoryview(data), "program").root(FILE_IDENTIFIER, "program")


def parse(data: bytes) -> Program:
    """Return the Program in ``data``. Raises ProgramError unless every rule holds."""
    data = bytes(data)
    root = open_program(data)
    version = root.number(Slot.VERSION, _NUMBERS[Kind.UINT32])
    if version != FORMAT_VERSION:
        raise ProgramError(
            f"program file has format version {version}, this package reads {FORMAT_VERSION}; "
            "compile the model again"
        )
    _check_sum(data, root)
    layers = _rows(root, Slot.LAYERS, "layer", program_types.LAYER)
    buffers = _rows(root, Slot.BUFFERS, "buffer", program_types.BUFFER)
    tasks = _rows(root, Slot.TASKS, "task", program_types.TASK)
    program = Program(
        chip=root.string(Slot.CHIP),
        compiler=root.string(Slot.COMPILER),
        name=root.string(Slot.NAME),
        buffers=tuple(ProgramBuffer(**values) for _, values in buffers),
        relocs=_relocs(root),
        layers=tuple(ProgramLayer(**values) for _, values in layers),
        tasks=tuple(ProgramTask(**values) for _, values in tasks),
        inputs=_bindings(root, Slot.INPUTS, "input"),
        outputs=_bindings(root, Slot.OUTPUTS, "output"),
    )
    check_program(program)
    return program


def _check_sum(data: bytes, root: Table) -> None:
    position = root.position_of(Slot.CHECKSUM, CHECKSUM_BYTES)
    if not position:
        raise root.reader.fail("it has no checksum")
    view = memoryview(data)  # slices of bytes would copy megabytes
    before = zlib.crc32(view[:position])
    middle = zlib.crc32(bytes(CHECKSUM_BYTES), before)
    expected = zlib.crc32(view[position + CHECKSUM_BYTES :], middle)
    if root.number(Slot.CHECKSUM, _NUMBERS[Kind.UINT64]) != expected:
        raise root.reader.fail("the checksum does not match")


def _rows(root: Table, slot: Slot, name: str, fields: Fields) -> Iterator[tuple[Table, Values]]:
    """Yield the tables of a vector, each with the values of its ``fields``."""
    for table in root.tables(slot, name):
        found = {
            name: _value(table, slot, kind) for slot, (name, kind) in enumerate(fields.items())
        }
        yield table, found


def _value(table: Table, slot: int, kind: Kind) -> object:
    match kind:
        case Kind.TEXT:
            return table.string(slot)
        case Kind.BYTES | Kind.BYTES_IF_ANY:
            return bytes(table.raw_vector(slot, 1))
        case Kind.INT32S:
            return table.values(slot, _INT32S)
        case _:
            return table.number(slot, _NUMBERS[kind], 0)


def _element(table: Table, code: int) -> Element:
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
    rows = RELOC.iter_unpack(root.raw_vector(Slot.RELOCS, RELOC.size))
    return tuple(Reloc(word, _buffer_id(root, buffer), addend) for word, buffer, addend in rows)


def _bindings(root: Table, slot: Slot, name: str) -> tuple[TensorBinding, ...]:
    return tuple(
        _binding(table, values) for table, values in _rows(root, slot, name, program_types.BINDING)
    )


def _binding(table: Table, values: Values) -> TensorBinding:
    whole = {name: value for name, value in values.items() if "." not in name}
    location, fold, affine = (_part(values, name) for name in ("location", "fold", "affine"))
    whole["element"] = _element(table, values["element"])
    whole["location"] = Ref(_buffer_id(table, location["buffer"]), location["offset"])
    whole["spread"] = _spread(table, whole.pop("is_spread"), _part(values, "spread"))
    if any(fold.values()):
        whole["fold"] = Fold(**fold)
    if affine["scale"]:
        whole["affine"] = Affine(**{**affine, "element": _element(table, affine["element"])})
    return TensorBinding(**whole)


def _part(values: Values, name: str) -> dict[str, Any]:
    """Return the fields of a part of a binding."""
    found = (field.split(".") for field in values if field.startswith(f"{name}."))
    return {field: values[f"{part}.{field}"] for part, field in found}


def _spread(table: Table, is_spread: int, values: Values) -> Spread | None:
    if is_spread > 1 or (not is_spread and any(values.values())):
        raise table.reader.corrupt(table.where, f"its spread is {is_spread}, {dict(values)}")
    return Spread(**values) if is_spread else None
