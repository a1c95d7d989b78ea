"""What a copy of a .tflite file must know of the schema: which fields of a table are references.

Only this much, because a copy moves bytes: numbers are copied by their size, options of operators
as they lie in the file. Fields and options that are not listed here are refused, never dropped: a
file of a newer schema must not lose content silently. Source: the public schema of TensorFlow Lite
(version 3, with the additions of 2024).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Number:
    """An integer, enumeration or boolean of ``size_bytes``."""

    size_bytes: int


@dataclass(frozen=True, slots=True)
class Vector:
    """Numbers of ``item_bytes``; ``alignment`` of the first one (0: ``item_bytes``)."""

    item_bytes: int
    alignment: int = 0


@dataclass(frozen=True, slots=True)
class String:
    """UTF-8 text with a NUL behind it."""


@dataclass(frozen=True, slots=True)
class Child:
    """A table."""

    table: TableType


@dataclass(frozen=True, slots=True)
class Children:
    """A vector of tables."""

    table: TableType


@dataclass(frozen=True, slots=True)
class Choice:
    """A union: the number in slot ``type_slot`` says which of ``tables`` it is."""

    type_slot: int
    tables: Mapping[int, TableType]


@dataclass(frozen=True, slots=True)
class Options:
    """The options of an operator: numbers, and references in the slots of ``references[type]``.

    Types up to ``last_type`` that are not in ``references`` hold numbers only.
    """

    type_slot: int
    last_type: int
    references: Mapping[int, Mapping[int, Vector | String]]


Kind = Number | Vector | String | Child | Children | Choice | Options


@dataclass(frozen=True, slots=True)
class TableType:
    """A table of the schema: its name for messages, and the kind of every slot."""

    name: str
    slots: Mapping[int, Kind]


_U8, _U16, _I32, _I64 = Vector(1), Vector(2), Vector(4), Vector(8)
_BYTE, _INT, _LONG = Number(1), Number(4), Number(8)
_TEXT = String()

# Programs are read in place and buffers by vector instructions: both start at multiples of 16, as
# the schema demands of buffers (force_align).
ALIGNED_BYTES = Vector(1, 16)

_INDEX_VECTORS = MappingProxyType(
    {
        1: TableType("Int32Vector", {0: _I32}),
        2: TableType("Uint16Vector", {0: _U16}),
        3: TableType("Uint8Vector", {0: _U8}),
    }
)
_DIMENSION = TableType(
    "DimensionMetadata",
    {0: _BYTE, 1: _INT, 2: _BYTE, 3: Choice(2, _INDEX_VECTORS), 4: _BYTE,
     5: Choice(4, _INDEX_VECTORS)},
)  # fmt: skip
_SPARSITY = TableType("SparsityParameters", {0: _I32, 1: _I32, 2: Children(_DIMENSION)})
_CUSTOM_QUANTIZATION = TableType("CustomQuantization", {0: ALIGNED_BYTES})
_QUANTIZATION = TableType(
    "QuantizationParameters",
    {0: _I32, 1: _I32, 2: _I32, 3: _I64, 4: _BYTE, 5: Choice(4, {1: _CUSTOM_QUANTIZATION}),
     6: _INT},
)  # fmt: skip
_VARIANT = TableType("VariantSubType", {0: _I32, 1: _BYTE, 2: _BYTE})
TENSOR = TableType(
    "Tensor",
    {0: _I32, 1: _BYTE, 2: _INT, 3: _TEXT, 4: Child(_QUANTIZATION), 5: _BYTE, 6: Child(_SPARSITY),
     7: _I32, 8: _BYTE, 9: Children(_VARIANT)},
)  # fmt: skip

# BuiltinOptions: ConcatEmbeddings, Reshape, Squeeze, VarHandle, Bucketize have vectors or texts.
_OPTIONS = Options(
    3,
    126,
    {3: {1: _I32, 2: _I32}, 17: {0: _I32}, 30: {0: _I32}, 111: {0: _TEXT, 1: _TEXT},
     115: {0: _I32}},
)  # fmt: skip
_CONVOLUTION = MappingProxyType({**dict.fromkeys((0, 1, 2, 3, 7, 10, 13), _I64), 4: _U8, 16: _I32})
# BuiltinOptions2: those of StableHLO.
_OPTIONS_2 = Options(
    11,
    22,
    {
        2: {0: _I64},
        3: {0: _I64, 1: _I64, 2: _I64},
        4: _CONVOLUTION,
        5: {0: _TEXT, 2: _TEXT, 4: _I32, 5: _U8},
        6: {0: _I64},
        7: {1: _I64, 2: _I64, 3: _I64},
        9: {0: _I64},
        10: {0: _I64, 1: _I64, 2: _I64},
        12: {0: _I64, 1: _I64, 2: _I64, 3: _I64, 4: _I32},
        13: {0: _I64, 1: _I64, 2: _I64, 3: _I64, 4: _I64},
        16: {0: _I64, 1: _I64, 2: _I64, 4: _I64},
        17: {0: _I64},
        21: {0: _TEXT, 2: _U8},
    },
)
OPERATOR = TableType(
    "Operator",
    {0: _INT, 1: _I32, 2: _I32, 3: _BYTE, 4: _OPTIONS, 5: ALIGNED_BYTES, 6: _BYTE, 7: _U8, 8: _I32,
     9: _LONG, 10: _LONG, 11: _BYTE, 12: _OPTIONS_2, 13: _INT},
)  # fmt: skip
SUBGRAPH = TableType(
    "SubGraph",
    {0: Children(TENSOR), 1: _I32, 2: _I32, 3: Children(OPERATOR), 4: _TEXT, 5: _INT},
)  # fmt: skip
OPERATOR_CODE = TableType("OperatorCode", {0: _BYTE, 1: _TEXT, 2: _INT, 3: _INT})
BUFFER = TableType("Buffer", {0: ALIGNED_BYTES, 1: _LONG, 2: _LONG})
_METADATA = TableType("Metadata", {0: _TEXT, 1: _INT})
_ARGUMENT = TableType("TensorMap", {0: _TEXT, 1: _INT})
# Slot 3 is deprecated: no writer fills it.
_SIGNATURE = TableType(
    "SignatureDef", {0: Children(_ARGUMENT), 1: Children(_ARGUMENT), 2: _TEXT, 4: _INT}
)
MODEL = TableType(
    "Model",
    {0: _INT, 1: Children(OPERATOR_CODE), 2: Children(SUBGRAPH), 3: _TEXT, 4: Children(BUFFER),
     5: _I32, 6: Children(_METADATA), 7: Children(_SIGNATURE)},
)  # fmt: skip
