"""The numbers of the public TensorFlow Lite schema (version 3, file identifier TFL3) that this
project uses, as data.

Slots are the positions of a table's fields, counted from 0; enumerations carry the schema's values,
which differ in places from the runtime's (``TensorType``, ``Padding``). Tables and fields that
nobody here reads are left out. Source: the public schema as of LiteRT 2.3.0; it only ever appends,
so older files read the same.
"""

from __future__ import annotations

import enum

from delegate.model.graph import DType

FILE_IDENTIFIER = b"TFL3"
SCHEMA_VERSION = 3


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


class QuantizationDetails(enum.IntEnum):
    """The union type of ``QuantizationParameters.details``; NONE and CUSTOM leave scale and
    zero_point valid."""

    NONE = 0
    CUSTOM = 1
    BLOCKWISE = 2
    MULTI_AXIS = 3


# TensorType -> DType: the schema numbers FLOAT16 as 1 and so shifts what the runtime (and DType)
# number from 1.
TENSOR_TYPES: tuple[DType, ...] = (
    DType.FLOAT32,
    DType.FLOAT16,
    DType.INT32,
    DType.UINT8,
    DType.INT64,
    DType.STRING,
    DType.BOOL,
    DType.INT16,
    DType.COMPLEX64,
    DType.INT8,
    DType.FLOAT64,
    DType.COMPLEX128,
    DType.UINT64,
    DType.RESOURCE,
    DType.VARIANT,
    DType.UINT32,
    DType.UINT16,
    DType.INT4,
    DType.BFLOAT16,
)
