"""The numbers of the public TensorFlow Lite schema (version 3, file identifier TFL3) that this
project uses, as data.

Slots are the positions of a table's fields, counted from 0; enumerations carry the schema's values,
which differ in places from the runtime's (``TensorType``, ``Padding``). Tables and fields that
nobody here reads are left out. Source: the public schema as of LiteRT 2.3.0; it only ever appends,
so older files read the same.

The part of the schema that a copy of a .tflite file must know: which fields of a table are
references.

Only this much, because a copy moves bytes: numbers are copied by their size, options of operators
as they lie in the file. Fields and options that are not listed here are refused, never dropped: a
file of a newer schema must not lose content silently. Source: the public schema of TensorFlow Lite
(version 3, with the additions of 2024).

A row has a word for every slot of a table. ``4``: a number of so many bytes (enumerations and flags
are numbers); ``[4]``: a vector of such numbers; ``bytes``: a vector of bytes that begins at a
multiple of 16, as programs, which are read in place, and the schema's force_align want it;
``text``; ``Buffer``: a table; ``[Buffer]``: a vector of tables; ``A|B``: a union of tables, of
which the number in the slot before, from 1 on, says which it is; ``-``: no writer fills it.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

from delegate.model.graph import DType

# fmt: on


FILE_IDENTIFIER = b"TFL3"
SCHEMA_VERSION = 3

PLACEHOLDER_OFFSET = 1
"""``Buffer.offset`` of content that is inside: the converter's "to be filled in". Real ones are
larger.
"""


ModelSlot = enum.IntEnum(
    "ModelSlot",
    "VERSION OPERATOR_CODES SUBGRAPHS DESCRIPTION BUFFERS METADATA_BUFFER METADATA SIGNATURE_DEFS",
    start=0,
)


SubGraphSlot = enum.IntEnum("SubGraphSlot", "TENSORS INPUTS OUTPUTS OPERATORS NAME", start=0)


TensorSlot = enum.IntEnum(
    "TensorSlot",
    "SHAPE TYPE BUFFER NAME QUANTIZATION IS_VARIABLE SPARSITY SHAPE_SIGNATURE HAS_RANK "
    "VARIANT_TENSORS EXTERNAL_BUFFER",
    start=0,
)


SparsitySlot = enum.IntEnum("SparsitySlot", "TRAVERSAL_ORDER BLOCK_MAP LEVELS", start=0)


SparseLevelSlot = enum.IntEnum(
    "SparseLevelSlot",
    "FORMAT DENSE_SIZE SEGMENTS_TYPE SEGMENTS INDICES_TYPE INDICES",
    start=0,
)


SPARSE_FORMATS = (0, 1)
"""DimensionType: dense, compressed (CSR)."""

SPARSE_INDICES = (None, "<i4", "<u2", "u1")
"""The numbers that a SparseIndexVector's table holds in its only field, by the union's number."""


QuantizationSlot = enum.IntEnum(
    "QuantizationSlot",
    "MIN MAX SCALE ZERO_POINT DETAILS_TYPE DETAILS QUANTIZED_DIMENSION",
    start=0,
)


BufferSlot = enum.IntEnum("BufferSlot", "DATA OFFSET SIZE", start=0)


OperatorCodeSlot = enum.IntEnum(
    "OperatorCodeSlot",
    "DEPRECATED_BUILTIN_CODE CUSTOM_CODE VERSION BUILTIN_CODE",
    start=0,
)


OperatorSlot = enum.IntEnum(
    "OperatorSlot",
    "OPCODE_INDEX INPUTS OUTPUTS BUILTIN_OPTIONS_TYPE BUILTIN_OPTIONS CUSTOM_OPTIONS "
    "CUSTOM_OPTIONS_FORMAT MUTATING_VARIABLE_INPUTS INTERMEDIATES",
    start=0,
)


MetadataSlot = enum.IntEnum("MetadataSlot", "NAME BUFFER", start=0)


class SignatureSlot(enum.IntEnum):
    INPUTS = 0
    OUTPUTS = 1
    SIGNATURE_KEY = 2
    SUBGRAPH_INDEX = 4


TensorMapSlot = enum.IntEnum("TensorMapSlot", "NAME TENSOR_INDEX", start=0)


CUSTOM_DETAILS = 1
"""The last number of the union ``QuantizationParameters.details`` that leaves scale and zero_point
valid; those above it are blockwise and of several axes.
"""


_TYPES = """
FLOAT32 FLOAT16 INT32 UINT8 INT64 STRING BOOL INT16 COMPLEX64 INT8 FLOAT64 COMPLEX128 UINT64
RESOURCE VARIANT UINT32 UINT16 INT4 BFLOAT16
"""
# TensorType -> DType: the schema numbers FLOAT16 as 1 and so shifts what the runtime (and DType)
# number from 1.
TENSOR_TYPES: tuple[DType, ...] = tuple(DType[name] for name in _TYPES.split())


Slots = tuple[str, ...]


def _rows(text: str) -> dict[str, Slots]:
    named = (line.partition(": ") for line in filter(None, text.splitlines()))
    return {name: tuple(words.split()) for name, _, words in named}


TABLES: Final[Mapping[str, Slots]] = _rows("""
Model: 4 [OperatorCode] [SubGraph] text [Buffer] [4] [Metadata] [SignatureDef]
OperatorCode: 1 text 4 4
SubGraph: [Tensor] [4] [4] [Operator] text 4
Tensor: [4] 1 4 text QuantizationParameters 1 SparsityParameters [4] 1 [VariantSubType]
QuantizationParameters: [4] [4] [4] [8] 1 CustomQuantization| 4
CustomQuantization: bytes
SparsityParameters: [4] [4] [DimensionMetadata]
DimensionMetadata: 1 4 1 Int32Vector|Uint16Vector|Uint8Vector 1 Int32Vector|Uint16Vector|Uint8Vector
Int32Vector: [4]
Uint16Vector: [2]
Uint8Vector: [1]
VariantSubType: [4] 1 1
Operator: 4 [4] [4] 1 BuiltinOptions bytes 1 [1] [4] 8 8 1 BuiltinOptions2 4
Buffer: bytes 8 8
Metadata: text 4
TensorMap: text 4
SignatureDef: [TensorMap] [TensorMap] text - 4
""")
"""The slots of every table by its name."""

MODEL: Final = "Model"

LAST_OPTIONS: Final = {"BuiltinOptions": 126, "BuiltinOptions2": 22}
"""The unions of operators' options, copied as they lie, and their last numbers."""

REFERENCES: Final[Mapping[str, Slots]] = _rows("""
BuiltinOptions 3: - [4] [4]
BuiltinOptions 17: [4]
BuiltinOptions 30: [4]
BuiltinOptions 111: text text
BuiltinOptions 115: [4]
BuiltinOptions2 2: [8]
BuiltinOptions2 3: [8] [8] [8]
BuiltinOptions2 4: [8] [8] [8] [8] [1] - - [8] - - [8] - - [8] - - [4]
BuiltinOptions2 5: text - text - [4] [1]
BuiltinOptions2 6: [8]
BuiltinOptions2 7: - [8] [8] [8]
BuiltinOptions2 9: [8]
BuiltinOptions2 10: [8] [8] [8]
BuiltinOptions2 12: [8] [8] [8] [8] [4]
BuiltinOptions2 13: [8] [8] [8] [8] [8]
BuiltinOptions2 16: [8] [8] [8] - [8]
BuiltinOptions2 17: [8]
BuiltinOptions2 21: text - [1]
""")
"""The fields of options that are no numbers, by union and number there; others hold numbers only.
"""
