"""Programs in the form that LiteRT's dispatch libraries take: as byte code of one operator.

In: a serialised Program and the tensors of the operator that it stands for. Out: the same Program
with its bindings numbered by the operator's inputs and outputs, since LiteRT tells a dispatch
library no numbers of tensors (``native/litert/dispatch_device.h``).

A whole model in LiteRT's form: operators named ``DISPATCH_OP``, whose options say where in the file
their program lies, programs behind the flatbuffer, and a stamp in the metadata by which LiteRT
knows that nothing is left to compile. In: the tables of a model whose operators hold programs
(``rewrite``). Out: the bytes of the file.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Final

from flatbuffers import flexbuffers

from delegate.errors import DelegateError
from delegate.model.flatbuffer_tables import Items, TableValue, write_file
from delegate.model.table_edits import add_metadata
from delegate.model.tflite_schema import (
    FILE_IDENTIFIER,
    OperatorCodeSlot,
    OperatorSlot,
)
from delegate.npu.program import Program, parse, serialize

MANUFACTURER: Final = "Rockchip"
DISPATCH_OPERATOR: Final = "DISPATCH_OP"
_STAMP: Final = "LiteRtStamp"
_STAMP_FIELD_BYTES: Final = 125
"""The stamp is two texts of so many bytes, zeros at their ends: manufacturer and chip."""
_ALIGNMENT_BYTES: Final = 64


def with_ports(program: bytes, inputs: Sequence[int], outputs: Sequence[int]) -> bytes:
    """Return a Program whose tensors are numbered by their places in ``inputs`` and ``outputs``.
    Raises DelegateError if it reads or writes others, or does not write all ``outputs``.
    """
    sides = [{tensor: port for port, tensor in enumerate(side)} for side in (inputs, outputs)]
    try:
        renumbered = renumber(program, *sides)
    except KeyError as error:
        raise DelegateError(f"a program has tensor {error}, its operator has not") from None
    if {binding.tensor for binding in renumbered.outputs} != set(range(len(outputs))):
        raise DelegateError("a program does not write all outputs of its operator")
    return serialize(renumbered)


def renumber(program: bytes, inputs: Mapping[int, int], outputs: Mapping[int, int]) -> Program:
    """Return a Program with other numbers of tensors. Raises KeyError for one that has none."""
    parsed = parse(program)
    return dataclasses.replace(
        parsed,
        inputs=tuple(dataclasses.replace(b, tensor=inputs[b.tensor]) for b in parsed.inputs),
        outputs=tuple(dataclasses.replace(b, tensor=outputs[b.tensor]) for b in parsed.outputs),
    )


def write_dispatch_file(
    root: TableValue, code: TableValue, operators: Sequence[TableValue], chip: str
) -> bytes:
    """Return the file of a model whose ``operators``, of operator code ``code``, hold programs for
    ``chip`` in their options.
    """
    programs = [_program(operator) for operator in operators]
    code.set_text(OperatorCodeSlot.CUSTOM_CODE, DISPATCH_OPERATOR)
    stamps = (text.encode().ljust(_STAMP_FIELD_BYTES, b"\0") for text in (MANUFACTURER, chip))
    add_metadata(root, _STAMP, b"".join(stamps))
    # Numbers take as many bytes whatever they are: the first file tells where programs begin.
    _point(operators, programs, [0] * len(programs))
    end = len(write_file(root, FILE_IDENTIFIER))
    places = []
    for program in programs:
        places.append(end + -end % _ALIGNMENT_BYTES)
        end = places[-1] + len(program)
    _point(operators, programs, places)
    content = bytearray(write_file(root, FILE_IDENTIFIER))
    for place, program in zip(places, programs, strict=True):
        assert len(content) <= place
        content += bytes(place - len(content)) + program
    return bytes(content)


def _program(operator: TableValue) -> bytes:
    options = operator.fields[OperatorSlot.CUSTOM_OPTIONS]
    assert isinstance(options, Items)
    sides = [operator.integers(slot) for slot in (OperatorSlot.INPUTS, OperatorSlot.OUTPUTS)]
    return with_ports(bytes(options.content), *sides)


def _point(
    operators: Sequence[TableValue], programs: Sequence[bytes], places: Sequence[int]
) -> None:
    """Write into the operators' options where their programs are."""
    for number, (operator, program, place) in enumerate(
        zip(operators, programs, places, strict=True)
    ):
        builder = flexbuffers.Builder(force_min_bit_width=flexbuffers.BitWidth.W64)
        with builder.Map():
            builder.UInt("bytecode_size", len(program))
            builder.UInt("bytecode_offset", place)
            builder.String("name", f"partition_{number}")
        operator.fields[OperatorSlot.CUSTOM_OPTIONS] = Items(bytes(builder.Finish()), 1, 8)
